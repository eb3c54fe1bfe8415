"""``weft new``: the data source, its options and its splits are detected from the files, and the recipes are valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.experiments.scaffold import DetectedData, detect_data, scratch_recipe
from weft.training.dry_run import check
from weft.training.recipes import read_run_text

FILMS = "text\tlabel\n" + "a good film indeed\tyes\na bad film indeed\tno\n" * 20
COMMONSENSE: dict[str, Any] = {
    "answerKey": "B",
    "id": "1",
    "question": {
        "stem": "Where do fish live?",
        "choices": [{"label": "A", "text": "a tree"}, {"label": "B", "text": "water"}, {"label": "C", "text": "a desk"}],
    },
}
QUESTIONS = [{"id": "1", "question": "Who is there?", "answers": [{"text": "Ann", "answer_start": 0}]}]


def detect(path: Path, text: str) -> DetectedData:
    """Write one file and detect its data source."""
    path.write_text(text, encoding="utf-8")
    return detect_data([str(path)])


def json_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# ---------------------------------------------------------------------------------------------------------------- splits


def test_file_names_select_the_splits(tmp_path: Path) -> None:
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        (tmp_path / name).write_text(FILMS)
    detected = detect_data([str(tmp_path / name) for name in ("test.tsv", "dev.tsv", "train.tsv")])
    assert {split: [Path(f).name for f in files] for split, files in detected.splits.items()} == {
        "train": ["train.tsv"],
        "valid": ["dev.tsv"],
        "test": ["test.tsv"],
    }
    assert "train: train.tsv" in scratch_recipe(detected, tmp_path)
    assert "validation_fraction" not in scratch_recipe(detected, tmp_path)


def test_folders_are_expanded_and_searched_under_weft_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, texts = tmp_path / "named", tmp_path / "texts"
    for folder, names in ((named, ("train.tsv", "dev.tsv")), (texts, ("one.txt", "two.txt"))):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(FILMS if name.endswith("tsv") else f"text of {name}\n" * 9)
    assert detect_data([str(named)]).source == "labeled-text" and set(detect_data([str(named)]).splits) == {"train", "valid"}
    assert detect_data([str(texts)]).source == "plain-text"
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    assert detect_data(["named"]).source == "labeled-text"
    with pytest.raises(ValueError, match=r"there is no file .*nothing, nor .*nothing"):
        detect_data(["nothing"])


# ---------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("labels", "label_type"),
    [
        (["0.0", "1.0"], "single"),
        (["1.0", "2.0", "3.0", "4.0", "5.0"], "single"),
        (["-1.0", "0.0", "1"], "single"),
        (["0.0", "0.5", "1.0"], "number"),
        ([f"{i}.0" for i in range(60)], "number"),
        (["a|b", "b", "a"], "multiple"),
        (["a; b", "b", "a"], "multiple"),
    ],
)
def test_few_integral_values_are_classes_and_real_numbers_are_regression_targets(
    tmp_path: Path, labels: list[str], label_type: str
) -> None:
    cells = [f"this is a good film {i}\t{labels[i % len(labels)]}\n" for i in range(60)]
    detected = detect(tmp_path / "rows.tsv", "text\tlabel\n" + "".join(cells))
    assert (detected.source, detected.label_type) == ("labeled-text", label_type)
    assert detected.options.get("label_type", "single") == label_type


def test_a_first_line_with_values_is_not_a_header(tmp_path: Path) -> None:
    assert detect(tmp_path / "a.tsv", FILMS).options == {}
    detected = detect(tmp_path / "b.tsv", FILMS.partition("\n")[2])
    assert detected.options == {"column_names": "[column1, column2]", "text": "column1", "label": "column2"}
    assert "text: column1" in scratch_recipe(detected, tmp_path)


def test_a_line_break_in_a_column_name_leaves_a_valid_recipe(tmp_path: Path) -> None:
    text = 'review,"the\nverdict"\n' + "it was a good film,yes\nit was a bad film,no\n" * 20
    recipe = scratch_recipe(detect(tmp_path / "a.csv", text), tmp_path)
    assert "\nverdict" not in recipe and "the verdict" in recipe.partition("\n")[0]


def test_multiple_choice_is_detected(tmp_path: Path) -> None:
    detected = detect(tmp_path / "train.jsonl", json_lines([COMMONSENSE] * 30))
    assert detected.source == "multiple-choice" and not detected.options
    text = scratch_recipe(detected, tmp_path)
    assert "type: multiple-choice" in text and "objective: multiple-choice" in text
    numbered = [{"question": f"{n}?", "choices": ["a", "b"], "answer": 1 + n % 2} for n in range(20)]
    assert detect(tmp_path / "b.jsonl", json_lines(numbered)).options == {"first_index": "1"}
    assert detect(tmp_path / "c.tsv", FILMS).source == "labeled-text"


def test_rows_with_an_empty_choice_are_skipped(tmp_path: Path) -> None:
    rows = [{"question": f"{n}?", "choices": ["yes", "no" if n else " "], "answer": "A"} for n in range(8)]
    detected = detect(tmp_path / "a.jsonl", json_lines(rows))
    assert detected.source == "multiple-choice" and "1 of 8 rows have an empty choice" in detected.options["on_bad_row"]
    assert "on_bad_row: skip" in scratch_recipe(detected, tmp_path)


def test_question_answering_is_detected_in_squad_files_and_in_tables(tmp_path: Path) -> None:
    squad = {"data": [{"paragraphs": [{"context": "Ann is there.", "qas": QUESTIONS}] * 5}]}
    detected = detect(tmp_path / "train.json", json.dumps(squad))
    assert detected.source == "question-answering"
    run = read_run_text(scratch_recipe(detected, tmp_path), "r.yaml", tmp_path)
    assert list(run.data().declare().fields) == ["question", "context", "answer"]
    table = "question\tcontext\tanswer\tstart\n" + "Who is there now?\tAnn is there now.\tAnn\t0\n" * 5
    assert detect(tmp_path / "train.tsv", table).source == "question-answering"


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"rows": []}', "the file must be an object with a list 'data'"), ('{"data": []}', "it has no questions")],
)
def test_a_json_document_must_be_squad(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"must have the format of SQuAD: {message}"):
        detect(tmp_path / "train.json", text)


# --------------------------------------------------------------------------------------------------------------- recipes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "pairs.tsv",
            "first\tsecond\tlabel\n" + "a good film it was\tit was a film\tyes\nit was bad\tthe good film\tno\n" * 20,
        ),
        ("scores.tsv", "text\tscore\n" + "a very good film\t4.5\na very bad play\t1.5\nnot so bad\t3.1\n" * 20),
        ("choices.jsonl", json_lines([COMMONSENSE] * 30)),
    ],
)
def test_a_recipe_from_a_template_is_valid(tmp_path: Path, name: str, text: str) -> None:
    recipe = scratch_recipe(detect(tmp_path / name, text), tmp_path)
    assert "$" not in recipe
    check(read_run_text(recipe, "r.yaml", tmp_path))
