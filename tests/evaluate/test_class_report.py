"""Precision, recall and F1 by class, compared with scikit-learn and seqeval."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

from weft.core.fields import FIELD_KINDS, Info, TextField
from weft.evaluate import ClassReport, EvaluationResult, class_report

CLASSES = ("low", "mid", "high", "<b>", "\x1b[31m")


def info_of(kind: str, labels: tuple[str, ...]) -> Info:
    name = "tags" if kind == "tags" else "label"
    return Info({"text": TextField("text", 9), name: FIELD_KINDS[kind].declare(name, labels, "text")})


def result_of(column: str, gold: list[str], predicted: list[str]) -> EvaluationResult:
    rows = range(10, 10 + len(gold))
    return EvaluationResult(
        {}, dict(zip(rows, predicted, strict=True)), {row: {column: text} for row, text in zip(rows, gold, strict=True)}
    )


def assert_equal(report: ClassReport | None, expected: dict[str, Any], names: dict[str, str]) -> None:
    assert report is not None
    found = {**report.classes, **{names[name]: scores for name, scores in report.averages.items() if name in names}}
    expected = {name: scores for name, scores in expected.items() if name not in ("accuracy", "samples avg")}
    assert set(found) == set(expected)
    for name, scores in found.items():
        own = [scores.precision, scores.recall, scores.f1, scores.support]
        assert own == pytest.approx([expected[name][k] for k in ("precision", "recall", "f1-score", "support")]), name


@pytest.mark.parametrize("seed", range(8))
def test_equal_to_scikit_learn(seed: int) -> None:
    from sklearn.metrics import classification_report

    rng = np.random.default_rng(seed)
    size, kinds = int(rng.integers(1, 60)), int(rng.integers(1, 6))
    gold, predicted = (rng.choice(CLASSES[:kinds], size, p=rng.dirichlet(np.ones(kinds))).tolist() for _ in range(2))
    report = class_report(result_of("label", gold, predicted), info_of("label", CLASSES))
    expected: Any = classification_report(gold, predicted, output_dict=True, zero_division=0)
    assert_equal(report, expected, {"macro": "macro avg", "weighted": "weighted avg"})
    assert report is not None and report.averages["micro"].f1 == pytest.approx(np.mean(np.array(gold) == np.array(predicted)))
    assert list(report.classes) == [name for name in CLASSES if name in {*gold, *predicted}]


@pytest.mark.parametrize("seed", range(5))
def test_several_classes_equal_scikit_learn(seed: int) -> None:
    from sklearn.metrics import classification_report

    rng = np.random.default_rng(seed)
    gold_NC, predicted_NC = (rng.random((30, 4)) < rng.random(4) for _ in range(2))
    gold_NC[0] = True
    texts = [["\t".join(np.array(CLASSES[:4])[row]) for row in rows] for rows in (gold_NC, predicted_NC)]
    report = class_report(result_of("label", *texts), info_of("labels", CLASSES[:4]))
    expected: Any = classification_report(gold_NC, predicted_NC, target_names=CLASSES[:4], output_dict=True, zero_division=0)
    assert_equal(report, expected, {"micro": "micro avg", "macro": "macro avg", "weighted": "weighted avg"})


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore")
def test_entities_equal_seqeval(seed: int) -> None:
    from seqeval.metrics import classification_report

    rng = np.random.default_rng(seed)
    tags = ["O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in ("PER", "LOC", "ORG"))]
    lengths = rng.integers(1, 12, 25)
    gold, predicted = ([rng.choice(tags, n).tolist() for n in lengths] for _ in range(2))
    texts = [[" ".join(row) for row in rows] for rows in (gold, predicted)]
    report = class_report(result_of("tags", *texts), info_of("tags", tuple(tags)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected: Any = classification_report(gold, predicted, output_dict=True, zero_division=0)
    assert report is not None and report.unit == "entity"
    assert_equal(report, expected, {"micro": "micro avg", "macro": "macro avg", "weighted": "weighted avg"})


def test_tags_that_are_no_entities_are_counted_by_word() -> None:
    from sklearn.metrics import classification_report

    gold, predicted = ["DET NOUN VERB", "NOUN"], ["DET VERB VERB", "NOUN"]
    report = class_report(result_of("tags", gold, predicted), info_of("tags", ("NOUN", "VERB", "DET")))
    expected: Any = classification_report(" ".join(gold).split(), " ".join(predicted).split(), output_dict=True)
    assert report is not None and report.unit == "tag" and list(report.classes) == ["NOUN", "VERB", "DET"]
    assert_equal(report, expected, {"macro": "macro avg", "weighted": "weighted avg"})


def test_there_is_no_report_of_texts_and_numbers() -> None:
    assert class_report(EvaluationResult({}), info_of("label", CLASSES)) is None
    assert class_report(result_of("label", ["low"], ["a generated text"]), info_of("label", CLASSES)) is None
    assert class_report(result_of("label", ["1.5"], ["1.5"]), info_of("number", ())) is None
    assert class_report(result_of("target", ["low"], ["low"]), Info({"text": TextField("text", 9)})) is None
    assert class_report(result_of("tags", ["O O"], ["one generated text"]), info_of("tags", ("O",))) is None


def test_many_classes_are_readable_and_complete_in_json() -> None:
    names = (*(f"class {n:03}" for n in range(200)), "x" * 500)
    rng = np.random.default_rng(0)
    gold, predicted = (rng.choice(names, 4000).tolist() for _ in range(2))
    worst = [names[7]] * 400
    report = class_report(result_of("label", [*gold, *worst], [*predicted, *[names[8]] * 400]), info_of("label", names))
    assert report is not None
    lines = report.text().splitlines()
    assert len(lines) == 1 + 30 + 1 + 1 + 3 and max(map(len, lines)) < 100
    assert any(line.startswith("class 007 ") for line in lines) and any(line.startswith("class 008 ") for line in lines)
    assert "... and 171 more with fewer errors" in report.text()
    found = json.loads(json.dumps(report.document()))
    assert len(found["classes"]) == 201 and found["averages"]["micro"]["support"] == 4400


def test_names_of_classes_cannot_control_the_terminal() -> None:
    report = class_report(result_of("label", ["\x1b[31m", "low"], ["low", "low"]), info_of("label", CLASSES))
    assert report is not None and "\x1b" not in report.text() and "\\x1b[31m" in report.text()
    header, *rows = report.text().splitlines()
    assert len({len(row) for row in rows if row}) == 1 and header.split() == ["precision", "recall", "f1", "support"]
