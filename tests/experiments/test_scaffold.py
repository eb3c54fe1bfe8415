"""``weft new``: the data source, its options and its splits are detected from the files, and the recipes are valid."""

from __future__ import annotations

import json
import os
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


def table(**columns: list[str]) -> str:
    """A table of 60 rows with a text column; the values of the others repeat."""
    rows = [[f"this is a good film {i}", *(values[i % len(values)] for values in columns.values())] for i in range(60)]
    return "\n".join("\t".join(cells) for cells in [["body", *columns], *rows]) + "\n"


@pytest.mark.parametrize(
    ("columns", "label", "others"),
    [
        ({"Class": ["a", "b", "c"], "lang": ["en", "de"]}, "Class", ["lang"]),
        ({"lang": ["en", "de"], "SENTIMENT": ["good", "bad", "none"]}, "SENTIMENT", ["lang"]),
        ({"target": ["1", "2", "3"], "label": ["a", "b", "c", "d"]}, "label", ["target"]),
        ({"genre": ["a", "b", "c"], "lang": ["en", "de"], "site": ["x", "y", "z", "w"]}, "lang", ["genre", "site"]),
        ({"site": ["x", "y"], "lang": ["en", "de"]}, "site", ["lang"]),
        ({"price": [f"{i}.5" for i in range(60)], "site": ["x", "y", "z"]}, "site", ["price"]),
        ({"price": ["1.5", "2.5"], "site": ["x", "y", "z"]}, "site", ["price"]),
        ({"score": [f"{i}.5" for i in range(60)], "site": ["x", "y"]}, "score", ["site"]),
        ({"id": ["1", "2"], "site": ["x", "y", "z"]}, "site", []),
    ],
)
def test_the_label_has_a_usual_name_or_the_fewest_values(
    tmp_path: Path, columns: dict[str, list[str]], label: str, others: list[str]
) -> None:
    detected = detect(tmp_path / "rows.tsv", table(**columns))
    assert detected.columns == {"text": "body", "label": label}
    assert detected.alternatives == {"text": [], "label": others}
    assert detected.options["text"] == "body" and detected.options.get("label", "label") == label
    assert detected.label_type == ("number" if label == "score" else "single")


def test_the_recipe_names_the_chosen_columns_and_the_others(tmp_path: Path) -> None:
    detected = detect(tmp_path / "rows.tsv", table(genre=["a", "b", "c"], lang=["en", "de"], site=["x", "y", "z", "w"]))
    recipe = scratch_recipe(detected, tmp_path)
    assert "  # columns: text = body, label = lang\n" in recipe
    assert "  # other candidates for label: genre, site; choose one with data.label=genre\n" in recipe
    run = read_run_text(recipe, "recipe", tmp_path, overrides=["data.label=genre"])
    assert run.dump()["data"]["label"] == "genre"


def test_the_two_longest_texts_are_chosen_and_others_are_named(tmp_path: Path) -> None:
    rows = "".join(f"one short title {i}\tthe long body of a text {i}\tan abstract in between {i}\t{i % 2}\n" for i in range(60))
    detected = detect(tmp_path / "rows.tsv", "title\tbody\tabstract\tlabel\n" + rows)
    assert detected.columns == {"first": "body", "second": "abstract", "label": "label"}
    assert detected.notes() == [
        "columns: first = body, second = abstract, label = label",
        "other candidates for first: title; choose one with data.first=title",
    ]


def test_a_column_name_with_spaces_is_quoted_for_the_shell(tmp_path: Path) -> None:
    detected = detect(tmp_path / "rows.tsv", table(**{"label": ["a", "b"], "the site": ["x", "y", "z"]}))
    assert detected.notes()[1] == "other candidates for label: the site; choose one with 'data.label=the site'"


def test_data_without_columns_has_no_notes(tmp_path: Path) -> None:
    assert detect(tmp_path / "rows.txt", "a text\n" * 9).notes() == []


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
    [
        ('{"rows": []}', "cannot detect the task of a JSON file with the columns rows: no column holds texts"),
        ('{\n"rows": []}', "the file must be an object with a list 'data'"),
        (
            '{"data": []}',
            "must be a list of objects, .*, or have one object per line, or have the format of SQuAD: it has no questions",
        ),
    ],
)
def test_a_json_document_must_be_squad(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
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


# ------------------------------------------------------------------------------------------------------------ thresholds


@pytest.mark.parametrize(("bad", "tabs"), [(4, True), (5, False)])
def test_more_than_95_percent_of_the_lines_of_a_table_have_the_same_columns(tmp_path: Path, bad: int, tabs: bool) -> None:
    lines = [f"this is a good film {i}\t{'yes' if i % 2 else 'no'}\n" for i in range(100 - bad)] + ["no tab here\n"] * bad
    detected = detect(tmp_path / "rows", "".join(lines))
    assert detected.source == ("labeled-text" if tabs else "plain-text")


@pytest.mark.parametrize(("tags", "rows", "tagged"), [(4, 20, True), (4, 19, False), (100, 500, True), (101, 505, False)])
def test_a_tag_occurs_five_times_on_average_and_there_are_at_most_100(tmp_path: Path, tags: int, rows: int, tagged: bool) -> None:
    lines = [f"word{i} T{i % tags}\n" + ("\n" if i % 7 == 6 else "") for i in range(rows)]
    detected = detect(tmp_path / "rows.txt", "".join(lines))
    assert detected.source == ("tagged-text" if tagged else "plain-text")


@pytest.mark.parametrize("content", [bytes(range(256)) * 20, b"\x89PNG\r\n\x1a\n" + bytes(range(7, 200, 3)) * 30])
def test_a_binary_file_is_not_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"rows\.txt: not a text file"):
        detect_data([str(tmp_path / "rows.txt")])


def test_the_index_of_a_data_frame_has_no_name(tmp_path: Path) -> None:
    rows = "".join(f"{n},a rather {word} film,{label}\n" for n, (word, label) in enumerate([("good", "yes"), ("bad", "no")] * 10))
    detected = detect(tmp_path / "reviews.csv", ",review,sentiment\n" + rows)
    assert detected.columns == {"text": "review", "label": "sentiment"} and "column_names" not in detected.options
    headerless = detect(tmp_path / "headerless.csv", ",a film,yes\n" + rows)
    assert "column_names" in headerless.options


# --------------------------------------------------------------------------------------------------------- hostile names

HOSTILE = ("\x1b[31mred", "two\nobjective: gone", "a\x9b1mb", "a\u2028b", "\u202efdp", "x # y", "a: [b", "${seed}")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_classes_and_files_stay_data(tmp_path: Path, name: str) -> None:
    """A name cannot end a comment or a string of the recipe that ``weft new`` writes."""
    for label in (f"good{name}", "bad"):
        (tmp_path / "texts" / label).mkdir(parents=True)
        for number in range(12):
            (tmp_path / "texts" / label / f"{number}.txt").write_text(f"a {label[:4].strip()} film {number}\n")
    rows = "".join(f'a film {n},{n % 2},"{"" if n % 9 else "x"}"\n' for n in range(60)) + "one,two,3,4,5\n"
    (tmp_path / f"t{name}.csv").write_text(f'text,label,"{name}"\n' + rows)
    for path in (tmp_path / "texts", tmp_path / f"t{name}.csv"):
        try:
            detected = detect_data([str(path)])
            recipe = scratch_recipe(detected, tmp_path)
        except ValueError as error:
            refused = "a recipe cannot name this file" if "${" in name else "is no key of a recipe: a key has at most 100 char"
            assert refused in str(error) and ("${" in name or not name.isprintable())
            continue
        run = read_run_text(recipe, "r.yaml", tmp_path)
        assert run.dump()["objective"]["type"] == "classification" and all(line.isprintable() for line in recipe.split("\n"))
        check(run)


@pytest.mark.parametrize("device", ["/dev/zero", "pipe"])
def test_a_device_or_pipe_is_no_data_file(tmp_path: Path, device: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=f"{device}: must be a regular file or a folder, not a device, pipe or socket"):
        detect_data([str(tmp_path / device)])
