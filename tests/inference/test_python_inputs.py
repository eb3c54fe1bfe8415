"""What a trained run is given in Python: rows in memory, in every form that users have them, and files."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import weft
from weft.data import LabeledText, SentencePairs, Word, cache_rows
from weft.evaluate import Accuracy, Evaluation
from weft.inference.trained_run import TrainedRun
from weft.learning import Gradient
from weft.models import Classifier
from weft.objectives import Classification, Regression

ROWS = [(f"{'good' if i % 2 else 'bad'} film {i}", "pos" if i % 2 else "neg", i) for i in range(40)]
COLUMNS = ("Review", "Polarity", "id")


@pytest.fixture(scope="module")
def pandas() -> Any:
    return import_module("pandas")


@pytest.fixture(scope="module")
def frame(pandas: Any) -> Any:
    return pandas.DataFrame(ROWS, columns=COLUMNS)


@pytest.fixture(scope="module")
def run(frame: Any) -> weft.Run:
    data = partial(LabeledText, train=cache_rows(frame), text="Review", label="Polarity", validation_fraction=0.3, tokenizer=Word)
    return weft.Run(
        data=data,
        structure=partial(Classifier, dim=16),
        objective=Classification,
        learning=partial(Gradient, steps=60, batch_tokens=200),
    )


@pytest.fixture(scope="module")
def trained(run: weft.Run, tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return run.train(tmp_path_factory.mktemp("runs") / "films", quiet=True)


class Polars:
    """The part of a polars DataFrame that is used."""

    columns = list(COLUMNS)

    def to_dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def every_form(frame: Any, folder: Path) -> dict[str, Any]:
    frame.to_csv(folder / "rows.csv", index=False)
    return {
        "a file": str(folder / "rows.csv"),
        "a path": folder / "rows.csv",
        "a list of files": [str(folder / "rows.csv")],
        "pandas": frame,
        "polars": Polars(),
        "datasets": import_module("datasets").Dataset.from_pandas(frame),
        "dicts": frame.to_dict("records"),
        "columns": {name: list(frame[name]) for name in COLUMNS},
        "arrays": {name: frame[name].to_numpy() for name in COLUMNS},
        "tuples": [row[:2] for row in ROWS],
    }


def test_a_run_is_evaluated_on_rows_in_any_form(trained: TrainedRun, frame: Any, tmp_path: Path) -> None:
    forms = every_form(frame, tmp_path)
    expected = trained.evaluate(forms.pop("a file")).metric_values
    for form, data in forms.items():
        assert trained.evaluate(data).metric_values == expected, form
    worst = trained.errors(frame, max_examples=3)
    losses = [error.loss for error in trained.errors(frame, max_examples=40)]
    assert len(worst) == 3 and [error.loss for error in worst] == sorted(losses, reverse=True)[:3]
    assert np.mean(losses) == pytest.approx(expected["loss"], rel=1e-4)


def test_predictions_for_rows_in_any_form(trained: TrainedRun, frame: Any, pandas: Any, tmp_path: Path) -> None:
    texts, gold = [row[0] for row in ROWS], [row[1] for row in ROWS]
    expected = trained.predict(texts)
    assert np.mean([a == b for a, b in zip(expected, gold, strict=True)]) > 0.9
    dataset = import_module("datasets").Dataset.from_pandas(frame)
    dicts = [{"text": text} for text in texts]
    for data in (frame, Polars(), dataset, {"Review": texts}, frame["Review"], np.array(texts), tuple(texts), dicts, iter(texts)):
        assert trained.predict(data) == expected
    assert trained.predict(frame.to_dict("records")) == expected  # by the columns of the data instead of its fields
    files = [tmp_path / f"{half}.csv" for half in (0, 1)]
    for half, file in enumerate(files):
        frame.iloc[20 * half : 20 * half + 20].to_csv(file, index=False)
    assert trained.predict(files) == expected
    np.testing.assert_array_equal(trained.embed(files), trained.embed(frame.to_dict("records")))
    probability_NC = trained.predict_proba(frame)
    assert trained.classes == ("neg", "pos") and probability_NC.shape == (40, 2)
    np.testing.assert_allclose(probability_NC.sum(1), 1, rtol=1e-5)
    assert [trained.classes[i] for i in probability_NC.argmax(1)] == expected
    assert trained.predict_proba([]).shape == (0, 2)


def test_embeddings_of_rows(trained: TrainedRun, frame: Any) -> None:
    vectors = trained.embed(frame)
    assert vectors.shape == (40, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(trained.embed([row[0] for row in ROWS]), vectors, atol=1e-6)
    assert trained.embed([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("dev", "no split 'dev'; available: train, valid"),
        ("missing.csv", r"missing\.csv: file not found"),
        ([], "data has no rows"),
        (3, "data must be a list, a dict of columns, a DataFrame or a Dataset, not a int"),
        ({"Review": "a film"}, "column 'Review' is 'a film', not a list"),
        ({"Review": ["a film"], "Polarity": []}, r"different lengths \(Review: 1, Polarity: 0\)"),
        ({"Review": ["a film"]}, "no column 'Polarity'"),
        ("a text\nof two lines", "expected a file or a list of texts, got one text"),
    ],
)
def test_data_that_cannot_be_evaluated(trained: TrainedRun, data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trained.evaluate(data)


@pytest.mark.parametrize("data", [None, 3, [None], [3], [{"Polarity": "pos"}]])
def test_what_has_no_texts_is_an_error_of_values(trained: TrainedRun, data: Any) -> None:
    for function in (trained.predict, trained.predict_proba, trained.embed):
        with pytest.raises(ValueError, match=r"expected texts, a table or a file|an input needs text|has no text; pass texts"):
            function(data)


def test_one_string_is_not_a_list_of_texts(trained: TrainedRun) -> None:
    for function in (trained.predict, trained.predict_proba, trained.embed):
        with pytest.raises(ValueError, match=r"expected a list of texts, got one string"):
            function("a film")


def test_a_run_that_predicts_numbers_has_no_probabilities(tmp_path: Path) -> None:
    rows = [(f"film {i % 3}", float(i % 3)) for i in range(20)]
    data = partial(LabeledText, train=cache_rows(rows, ("text", "label")), label_type="number", tokenizer=Word)
    learning = partial(Gradient, steps=1, batch_tokens=100)
    run = weft.Run(data=data, structure=partial(Classifier, dim=8), objective=Regression, learning=learning)
    trained = run.train(tmp_path / "run", quiet=True)
    assert trained.classes == ()
    with pytest.raises(ValueError, match="predicts no class, so it has no probabilities; use predict"):
        trained.predict_proba(["film 1"])
    assert set(trained.evaluate(rows).metric_values) >= {"loss"}


def test_pairs_are_tuples_or_columns(tmp_path: Path) -> None:
    rows = [(f"a film {i}", f"the film {i}", "yes" if i % 2 else "no") for i in range(20)]
    data = partial(SentencePairs, train=cache_rows(rows, ("first", "second", "label")), tokenizer=Word)
    learning = partial(Gradient, steps=1, batch_tokens=200)
    run = weft.Run(data=data, structure=partial(Classifier, dim=8), objective=Classification, learning=learning)
    trained = run.train(tmp_path / "run", quiet=True)
    table = {"first": [row[0] for row in rows], "second": [row[1] for row in rows]}
    assert trained.predict(table) == trained.predict([row[:2] for row in rows])
    assert trained.evaluate(rows).metric_values == trained.evaluate({**table, "label": [row[2] for row in rows]}).metric_values


def test_what_is_printed_is_short(run: weft.Run, trained: TrainedRun) -> None:
    assert repr(run) == "<Run classifier: labeled-text, classifier, classification>"
    parts = "labeled-text, classifier, classification"
    assert re.fullmatch(rf"<TrainedRun films: {parts}, [\d,]+ parameters, loss .*>", repr(trained))
    assert len(repr(trained)) < 200 and "film 1" not in repr(trained)
    assert re.fullmatch(r"<EvaluationResult valid: loss [\d.]+.*>", repr(trained.evaluate("valid")))
    assert weft.load(trained.folder or "").name == trained.name == "films"


def test_a_classifier_reports_accuracy_and_macro_f1_by_default(run: weft.Run, trained: TrainedRun) -> None:
    assert set(trained.metrics) == {"loss", "accuracy", "macro_f1"}
    assert trained.evaluate("valid").metric_values["accuracy"] > 0.9
    assert set(_metrics(run, metrics=[Accuracy])) == {"loss", "accuracy"}
    monitored = _metrics(run, monitor="macro-f1", every=1)
    assert set(monitored) == {"loss", "accuracy", "macro_f1"}


def _metrics(run: weft.Run, **evaluate: Any) -> dict[str, float]:
    """The metrics of a short run with another evaluation."""
    learning = partial(Gradient, steps=2, batch_tokens=200, patience=2 if "monitor" in evaluate else 0)
    parts = {"data": run.data, "structure": run.structure, "objective": run.objective, "learning": learning}
    with TemporaryDirectory() as folder:
        return weft.Run(**parts, evaluate=partial(Evaluation, **evaluate)).train(f"{folder}/run", quiet=True).metrics


def test_completion_shows_exactly_the_public_names() -> None:
    assert {"Run", "load", "tune", "data", "models"} <= set(dir(weft))
    assert set(dir(weft)) == {*weft.__all__, "__version__"}
    for name in dir(weft):
        assert getattr(weft, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        getattr(weft, "trian")  # noqa: B009
