"""Precision, recall and F1 of every class, entity type or tag.

Shape suffixes: C classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.fields import Info, LabelField, LabelsField, TagsField
from weft.core.printable import printable_line
from weft.data.tag_schemes import entities
from weft.evaluate.reference import f1

if TYPE_CHECKING:
    from weft.evaluate.evaluation import EvaluationResult

MAX_CLASSES = 30
"""Maximum number of classes of the text; of more, those with the most errors are shown."""
_MAX_NAME = 40


@dataclass(frozen=True)
class ClassScores:
    """Precision, recall and F1 of a class or of an average; 0 where they are not defined.

    Args:
        precision: Correct predictions / predictions.
        recall: Correct predictions / references.
        f1: The harmonic mean of both.
        support: Number of references.
        predicted: Number of predictions.
        correct: Number of correct predictions.
    """

    precision: float
    recall: float
    f1: float
    support: int
    predicted: int
    correct: int


@dataclass(frozen=True)
class ClassReport:
    """The scores of every class that occurs, and their averages.

    Args:
        unit: What is counted: ``class``, ``entity`` or ``tag``.
        classes: Scores by class.
        averages: ``micro`` (of the summed counts), ``macro`` (the mean over the classes) and ``weighted`` (by support).
    """

    unit: str
    classes: dict[str, ClassScores]
    averages: dict[str, ClassScores]

    def document(self) -> dict[str, Any]:
        """The report as a JSON object."""
        parts = {"classes": self.classes, "averages": self.averages}
        return {"unit": self.unit} | {name: {key: asdict(scores) for key, scores in part.items()} for name, part in parts.items()}

    def text(self, max_classes: int = MAX_CLASSES) -> str:
        """The report as a table. Of many classes, those with the most errors are shown.

        Args:
            max_classes: Maximum number of classes.
        """
        shown = list(self.classes)
        if len(shown) > max_classes:
            errors = {name: s.support + s.predicted - 2 * s.correct for name, s in self.classes.items()}
            worst = set(sorted(shown, key=lambda name: -errors[name])[:max_classes])
            shown = [name for name in shown if name in worst]
        rows = [("", *_HEADER)]
        rows += [(_short(name), *_cells(self.classes[name])) for name in shown]
        averages = [(f"{name} average", *_cells(scores)) for name, scores in self.averages.items()]
        width = max(len(row[0]) for row in [*rows, *averages])
        lines = [_line(row, width) for row in rows]
        if left := len(self.classes) - len(shown):
            lines.append(f"... and {left} more with fewer errors (all of them: --json)")
        return "\n".join([*lines, "", *(_line(row, width) for row in averages)])


_HEADER = ("precision", "recall", "f1", "support")


def class_report(result: EvaluationResult, info: Info) -> ClassReport | None:
    """Return the scores of every class of a classifier, entity type of a tagger, or tag where tags are no entities.

    precision = correct / predicted; recall = correct / support; f1 = 2 correct / (predicted + support)

    Equal to ``classification_report`` of scikit-learn, and for entities of seqeval (not strict), with 0 where a value is not
    defined. The micro average of a classifier with one class per example is its accuracy.

    Args:
        result: An evaluation with predictions.
        info: The fields of the data.

    Returns:
        The report; None if the predictions are neither classes nor tags, or there are none.
    """
    rows = sorted(result.predictions)
    predicted = [result.predictions[row] for row in rows]
    if not rows:
        return None
    label = info.fields.get("label")
    if "tags" in info and all("tags" in result.references[row] for row in rows):
        return _tag_report(predicted, [result.references[row]["tags"] for row in rows], info.expect("tags", TagsField).labels)
    if not isinstance(label, LabelField | LabelsField) or not all("label" in result.references[row] for row in rows):
        return None
    gold = [result.references[row]["label"] for row in rows]
    if isinstance(label, LabelsField):
        return _report("class", [_parts(text) for text in predicted], [_parts(text) for text in gold], label.labels)
    if not set(predicted) <= set(label.labels):  # texts of a dataset that has labels too
        return None
    return _report("class", [{name} for name in predicted], [{name} for name in gold], label.labels)


def _parts(text: str) -> set[str]:
    return {part.strip() for part in text.split("\t")} - {""}


def _tag_report(predicted: Sequence[str], gold: Sequence[str], order: Sequence[str]) -> ClassReport | None:
    """The report of entity types; of tags, where they are no entity tags."""
    pairs = [(guess.split(), truth.split()) for guess, truth in zip(predicted, gold, strict=True)]
    if any(len(guess) != len(truth) for guess, truth in pairs):  # generated texts of a dataset that has tags too
        return None
    try:
        guesses, truths = ([set(entities(row[side])) for row in pairs] for side in (0, 1))
    except ValueError:
        guesses, truths = ([{(tag, at) for at, tag in enumerate(row[side])} for row in pairs] for side in (0, 1))
        return _report("tag", guesses, truths, order)
    return _report("entity", guesses, truths, ())


def _report(unit: str, predicted: Sequence[set[Any]], gold: Sequence[set[Any]], order: Sequence[str]) -> ClassReport:
    """Count the items of each example by class: an item is a class, or a tuple that starts with one."""
    guess, truth = _counts(predicted), _counts(gold)
    correct = _counts(one & other for one, other in zip(predicted, gold, strict=True))
    occurring = guess.keys() | truth.keys()
    names = [*(name for name in order if name in occurring), *sorted(occurring - set(order))]
    classes = {name: _scores(correct[name], guess[name], truth[name]) for name in names}
    return ClassReport(unit, classes, _averages(classes))


def _counts(rows: Iterable[set[Hashable]]) -> Counter[str]:
    return Counter(str(item[0] if isinstance(item, tuple) else item) for row in rows for item in row)


def _scores(correct: int, predicted: int, support: int) -> ClassScores:
    precision, recall = correct / predicted if predicted else 0.0, correct / support if support else 0.0
    return ClassScores(precision, recall, f1(correct, predicted, support), support, predicted, correct)


def _averages(classes: dict[str, ClassScores]) -> dict[str, ClassScores]:
    sums = np.array([(s.correct, s.predicted, s.support) for s in classes.values()], int).reshape(-1, 3).sum(0).tolist()
    values_C3 = np.array([(s.precision, s.recall, s.f1) for s in classes.values()]).reshape(-1, 3)
    support_C = np.array([s.support for s in classes.values()], float)
    counts = (sums[2], sums[1], sums[0])
    macro = values_C3.mean(0) if len(classes) else np.zeros(3)
    weighted = support_C @ values_C3 / support_C.sum() if support_C.sum() else np.zeros(3)
    means = {"macro": macro, "weighted": weighted}
    rows = {name: row.tolist() for name, row in means.items()}
    return {"micro": _scores(*sums)} | {name: ClassScores(row[0], row[1], row[2], *counts) for name, row in rows.items()}


def _cells(scores: ClassScores) -> tuple[str, ...]:
    return (f"{scores.precision:.4f}", f"{scores.recall:.4f}", f"{scores.f1:.4f}", f"{scores.support:,}")


def _line(row: Sequence[str], width: int) -> str:
    return f"{row[0]:{width}}  {'  '.join(f'{cell:>9}' for cell in row[1:])}"


def _short(name: str) -> str:
    name = printable_line(name)
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
