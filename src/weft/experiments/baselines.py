"""Baselines of a recipe: simple models on the same splits, with the same metrics."""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from weft.core.contracts import Dataset
from weft.core.fields import ClassField, Info, LabelsField, NumberField
from weft.evaluate import EvaluationResult
from weft.evaluate.subsample import subsample
from weft.training.build import plans
from weft.training.run import Run
from weft.training.sources import build_sources

FORMAT = 1
MAX_EXAMPLES = 20_000
"""Training examples that a baseline is fitted on, and examples that it is evaluated on; more are subsampled."""
MAX_CHARACTERS = 20_000_000
"""Characters of the training texts that a baseline is fitted on."""
STRENGTHS = {"C": (0.3, 1.0, 3.0, 10.0, 30.0), "alpha": (0.1, 0.3, 1.0, 3.0, 10.0)}
"""Regularization of logistic regression (C) and ridge regression (alpha), selected on the validation split."""
TAGS, MAJORITY, MEAN = "most frequent tag per word", "majority class", "mean"
LOGISTIC, RIDGE = "TF-IDF + logistic regression", "TF-IDF + ridge regression"
MISSING = "{name} needs the package scikit-learn: pip install 'weft[metrics]'"

Row = dict[str, str]
Predict = Callable[[Sequence[Row]], list[str]]
"""Predictions as text for examples."""


@dataclass
class BaselineResult:
    """Metrics of one baseline on one split.

    Args:
        name: Name of the baseline.
        split: Name of the split.
        examples: Number of examples it was evaluated on.
        metric_values: Metrics by name.
        intervals: 95 % confidence intervals by name.
    """

    name: str
    split: str
    examples: int
    metric_values: dict[str, float]
    intervals: dict[str, tuple[float, float]]


@dataclass
class BaselineReport:
    """The baselines of a recipe.

    Args:
        fitted_on: Number of training examples they were fitted on.
        train_examples: Number of training examples.
        seconds: Time for fitting and evaluation.
        results: Metrics by baseline and split.
        notes: What was left out, and why.
    """

    fitted_on: int
    train_examples: int
    seconds: float = 0.0
    results: list[BaselineResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {"format": FORMAT, **asdict(self)}

    def lines(self, splits: Sequence[str] = ()) -> list[str]:
        """Return the report as lines of text, for some splits; empty = all."""
        found = list(self.notes)
        for split in dict.fromkeys(result.split for result in self.results if not splits or result.split in splits):
            of_split = [result for result in self.results if result.split == split]
            found.append(f"baselines on {split} ({of_split[0].examples:,} examples):")
            width = max(len(result.name) for result in of_split)
            for result in of_split:
                values = {name: value for name, value in result.metric_values.items() if "/" not in name}
                shown = [f"{name} {value:.4f}{_interval(result.intervals.get(name))}" for name, value in values.items()]
                found.append(f"  {result.name:{width}}  {'  '.join(shown)}")
        return found


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" [{bounds[0]:.4f}, {bounds[1]:.4f}]"


def run_baselines(run: Run) -> BaselineReport:
    """Fit the baselines of a run on its training split and evaluate them on its other splits, with the metrics of the recipe.

    Classification: the majority class, and logistic regression on TF-IDF features of words and word bigrams. Regression: the
    mean, and ridge regression on the same features. Tagging: the most frequent tag of each word. The regularization is selected
    on the validation split.

    Raises ValueError for other tasks.
    """
    plan = plans(run)[-1]
    (name, source), *others = build_sources(plan).items()
    if others or source.parts():
        raise ValueError("there are no baselines for several sources; write a recipe for one of them")
    corpus, evaluation = source.open(), plan.evaluate().of_source(name)
    info, train = corpus.codec.info, corpus.splits["train"]
    if "tags" not in info and not isinstance(info.fields.get("label"), ClassField | NumberField):
        raise ValueError(f"there are no baselines for {info.data}; they exist for classification, regression and tagging")
    rows = _training_rows(train, info)
    splits = {name: _rows(dataset) for name, dataset in corpus.splits.items() if name != "train" and len(dataset)}
    report, start = BaselineReport(len(rows), len(train)), time.perf_counter()
    if len(rows) < len(train):
        report.notes.append(f"the baselines are fitted on {len(rows):,} of {len(train):,} training examples")
    metrics = [metric for metric in evaluation.metrics if metric.inputs in ("text", "label")]
    if not metrics:
        raise ValueError("the recipe has no metrics that compare predictions with references; add evaluate.metrics=[accuracy]")

    def evaluate(name: str, split: str, predict: Predict) -> BaselineResult:
        found = splits[split]
        predictions = predict(found)
        values: dict[str, float] = {}
        for metric in metrics:
            values |= metric.compute(predictions, found)
        result = EvaluationResult(values, dict(enumerate(predictions)), dict(enumerate(found)))
        return BaselineResult(name, split, len(found), values, result.intervals(metrics))

    for name, candidates in _baselines(info, rows, report):
        if len(candidates) > 1 and "valid" in splits:
            score = metrics[0].compute
            first, higher = _main_value(metrics[0])
            candidates.sort(key=lambda predict: -score(predict(splits["valid"]), splits["valid"])[first] * (1 if higher else -1))
        report.results += [evaluate(name, split, candidates[0]) for split in splits]
    report.seconds = round(time.perf_counter() - start, 3)
    return report


def _main_value(metric: Any) -> tuple[str, bool]:
    """The first value of a metric, and whether higher is better."""
    return next((name, bool(higher)) for name, higher in metric.higher_is_better.items() if higher is not None)


def _training_rows(train: Dataset, info: Info) -> list[Row]:
    """The training examples, or as many of them as the limits allow, spread over the split."""
    rows = _rows(train)
    characters = sum(len(_text(row, info)) for row in rows)
    return subsample(rows, max(1, len(rows) * MAX_CHARACTERS // characters)) if characters > MAX_CHARACTERS else rows


def _rows(dataset: Dataset) -> list[Row]:
    return [dataset.raw(row) for row in subsample(range(len(dataset)), MAX_EXAMPLES)]


def _text(row: Row, info: Info) -> str:
    """The texts of an example, such as both texts of a pair."""
    return " ".join(row[name] for name in _texts(info) if name in row)


def _texts(info: Info) -> list[str]:
    return [f.name for f in info.texts()]


def _baselines(info: Info, rows: list[Row], report: BaselineReport) -> list[tuple[str, list[Predict]]]:
    """Names of the baselines with their candidates, which differ in regularization; the second is the default."""
    if "tags" in info:
        return [(TAGS, [_most_frequent_tags(rows)])]
    numeric, labels = isinstance(info["label"], NumberField), [row["label"] for row in rows]
    constant = f"{sum(map(float, labels)) / len(labels):.6g}" if numeric else Counter(labels).most_common(1)[0][0]
    simple: Predict = lambda found: [constant] * len(found)  # noqa: E731
    name, linear = (MEAN, RIDGE) if numeric else (MAJORITY, LOGISTIC)
    if not _texts(info) or len(set(labels)) < 2:
        return [(name, [simple])]
    try:
        return [(name, [simple]), (linear, _linear(info, rows))]
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        report.notes.append(MISSING.format(name=linear))
        return [(name, [simple])]


def _linear(info: Info, rows: list[Row]) -> list[Predict]:
    """Linear models of TF-IDF features of words and word bigrams, one for each regularization.

    Salton and Buckley 1988, https://doi.org/10.1016/0306-4573(88)90021-0
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import MultiLabelBinarizer

    numeric, several = isinstance(info["label"], NumberField), isinstance(info["label"], LabelsField)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    features: Any = vectorizer.fit_transform([_text(row, info) for row in rows])
    labels: Any = [row["label"] for row in rows]
    binarizer = MultiLabelBinarizer()
    if several:
        labels = binarizer.fit_transform([label.split("\t") if label else [] for label in labels])

    def fit(strength: float) -> Predict:
        if numeric:
            model: Any = Ridge(alpha=strength)
            model.fit(features, [float(label) for label in labels])
        else:
            model = LogisticRegression(C=strength, max_iter=1000)
            model = OneVsRestClassifier(model) if several else model
            with warnings.catch_warnings():  # a class may be in all training examples
                warnings.simplefilter("ignore")
                model.fit(features, labels)

        def predict(found: Sequence[Row]) -> list[str]:
            predicted = model.predict(vectorizer.transform([_text(row, info) for row in found]))
            if several:
                return ["\t".join(classes) for classes in binarizer.inverse_transform(predicted)]
            return [f"{value:.6g}" if numeric else str(value) for value in predicted]

        return predict

    strengths = STRENGTHS["alpha" if numeric else "C"]
    return [fit(strength) for strength in strengths]


def _most_frequent_tags(rows: list[Row]) -> Predict:
    """The most frequent tag of each word in training; for other words, the most frequent tag of all."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    overall: Counter[str] = Counter()
    for row in rows:
        for word, tag in zip(row["text"].split(" "), row["tags"].split(" "), strict=False):
            counts[word][tag] += 1
            overall[tag] += 1
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    other = overall.most_common(1)[0][0]
    return lambda found: [" ".join(best.get(word, other) for word in row["text"].split(" ")) for row in found]
