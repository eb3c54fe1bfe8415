"""``weft new``: cells that stand for a missing label."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.experiments.scaffold import DetectedData, detect_data, scratch_recipe
from weft.training.recipes import read_run_text


def detect(path: Path, labels: list[str]) -> DetectedData:
    path.write_text("text,label\n" + "".join(f"a film with number {n},{label}\n" for n, label in enumerate(labels)))
    return detect_data([str(path)])


def raw_labels(detected: DetectedData, folder: Path) -> set[str]:
    """The labels of the training rows that the recipe reads."""
    run = read_run_text(scratch_recipe(detected, folder), "a", folder)
    rows = run.data().open().splits["train"]
    return {rows.raw(row)["label"] for row in range(len(rows))}


@pytest.mark.parametrize("missing", ["NA", "nan", "null", "None", "-", "N/A", ""])
def test_one_missing_number_leaves_a_column_of_numbers(tmp_path: Path, missing: str) -> None:
    detected = detect(tmp_path / "a.csv", [missing if n == 7 else f"{n % 9}.5" for n in range(60)])
    assert (detected.source, detected.label_type, detected.options["label_type"]) == ("labeled-text", "number", "number")
    assert detected.options["on_bad_row"].startswith("skip ") and "1 of 60 rows" in detected.options["on_bad_row"]
    assert any(repr(missing) in remark for remark in detected.remarks) or not missing
    assert raw_labels(detected, tmp_path) <= {f"{n}.5" for n in range(9)}


def test_a_missing_number_after_the_rows_that_detection_inspects_is_skipped(tmp_path: Path) -> None:
    detected = detect(tmp_path / "a.csv", [*(f"{n % 9}.5" for n in range(3000)), "NA"])
    assert detected.label_type == "number" and "1 of 3001 rows" in detected.options["on_bad_row"]


@pytest.mark.parametrize("numbers", [60, 5])
def test_a_word_among_numbers_is_reported(tmp_path: Path, numbers: int) -> None:
    """Whether the numbers are many, or so few that they could be classes."""
    with pytest.raises(
        ValueError, match=r"a.csv: .*label has numbers in 59 of 60 rows, but also 'unknown': for regression, leave"
    ):
        detect(tmp_path / "a.csv", ["unknown" if n == 7 else f"{n % numbers}.5" for n in range(60)])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["0", "1", "2", "NA"], ["0", "1", "2"]),
        (["yes", "no", "maybe", "no", "yes", "-"], ["maybe", "no", "yes"]),
        (["good", "bad", "none"], None),
        (["good", "bad", "NA"], None),
        (["+", "-", "0"], None),
        (["yes", "no", "-"], None),
    ],
)
def test_a_dash_or_a_missing_number_is_no_class(tmp_path: Path, labels: list[str], classes: list[str] | None) -> None:
    detected = detect(tmp_path / "a.csv", [labels[n % len(labels)] for n in range(60)])
    assert detected.label_type == "single" and raw_labels(detected, tmp_path) == set(classes or labels)
    assert ("labels" in detected.options) is (classes is not None)
    assert any("stands for no label" in remark for remark in detected.remarks) is (classes is not None)


def test_pairs_without_a_gold_label_are_skipped(tmp_path: Path) -> None:
    """The layout of SNLI; the classes are those of the whole file, and the dash may occur in the validation file alone."""
    names = ["entailment", "neutral", "contradiction"]
    for split, missing, rows in (("train", names[0], 2500), ("dev", "-", 60)):
        pairs = [
            {"sentence1": f"a man walks {n}", "sentence2": f"one moves {n}", "gold_label": names[n % 3] if n % 20 else missing}
            for n in range(rows)
        ]
        pairs[-1]["gold_label"] = "other" if split == "train" else names[0]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    detected = detect_data([str(tmp_path)])
    assert (detected.source, detected.options["labels"]) == ("sentence-pairs", "[contradiction, entailment, neutral, other]")
    assert "3 of 2560 rows have the label '-', which stands for no label, and are skipped" in detected.remarks[-1].replace(
        ",", "", 1
    )
