"""``weft new``: the data source, its options and its splits are detected from the files, and the recipes are valid."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.commands import weft

from weft.data import LabeledText, Word
from weft.data.sources.parsing import _flat
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


def test_the_longest_text_is_chosen_and_others_are_named(tmp_path: Path) -> None:
    rows = "".join(f"one short title {i}\tthe long body of a text {i}\tan abstract in between {i}\t{i % 2}\n" for i in range(60))
    detected = detect(tmp_path / "rows.tsv", "title\tbody\tabstract\tlabel\n" + rows)
    assert detected.columns == {"text": "body", "label": "label"}
    assert detected.notes() == [
        "columns: text = body, label = label",
        "other candidates for text: abstract, title; choose one with data.text=abstract",
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


@pytest.mark.parametrize("header", ["question,A,B,C,D,answer\n", "id,topic,q,one,two,three,four,key\n", ""])
def test_choices_in_columns_with_the_letter_of_the_answer_are_multiple_choice(tmp_path: Path, header: str) -> None:
    extra = header.count(",") == 7
    rows = [
        [*([str(n), "math"] if extra else []), f"What is {n}+1?", *(str(n + k) for k in range(1, 5)), "ABCD"[n % 4]]
        for n in range(40)
    ]
    detected = detect(tmp_path / "a.csv", header + "".join(",".join(row) + "\n" for row in rows))
    assert detected.source == "multiple-choice"
    names = header.strip().split(",") if header else [f"column{n}" for n in range(1, 7)]
    assert detected.options["choices"] == f"[{', '.join(names[-5:-1])}]"
    assert (detected.options["question"], detected.options["answer"]) == (names[-6], names[-1])
    check(read_run_text(scratch_recipe(detected, tmp_path), "a", tmp_path))


COPA = [
    {"premise": f"The man {n} fell.", "choice1": f"He sat {n}.", "choice2": f"He ran {n}.", "question": "cause", "label": n % 2}
    for n in range(30)
]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_premise_with_two_choices_is_multiple_choice_with_a_context(tmp_path: Path, suffix: str) -> None:
    """The columns of COPA. Labels count from 0, though the choices are numbered from 1."""
    table = "".join(",".join(map(str, row)) + "\n" for row in [list(COPA[0]), *(row.values() for row in COPA)])
    detected = detect(tmp_path / f"train.{suffix}", json_lines(COPA) if suffix == "jsonl" else table)
    assert (detected.source, detected.options) == ("multiple-choice", {"first_index": "0"})
    assert detected.remarks == ["premise precedes the question in the same text; to leave it out: data.context=null"]
    recipe = scratch_recipe(detected, tmp_path)
    raw = read_run_text(recipe, "a", tmp_path).data().open().splits["train"].raw
    assert {raw(row)["question"][:8] for row in range(9)} == {"The man "}
    assert {raw(row)["label"] for row in range(9)} == {"A", "B"}


def test_a_long_context_gets_a_length_that_keeps_its_question(tmp_path: Path) -> None:
    both = {"options": ["a", "b"]}
    rows = [{"article": f"{n} words " * 200, "question": f"Why {n}?", "answer": "AB"[n % 2], **both} for n in range(30)]
    detected = detect(tmp_path / "train.jsonl", json_lines(rows))
    corpus = read_run_text(scratch_recipe(detected, tmp_path), "a", tmp_path).data().open()
    ids = corpus.splits["train"][0]["question"].tolist()
    assert len(ids) == 403 and corpus.codec.decode("question", ids).endswith("?")
    longer = [row | {"article": row["article"] * 4} for row in rows]
    assert "truncation removes the question" in detect(tmp_path / "b.jsonl", json_lines(longer)).remarks[-1]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("multiple-choice", r"films\.tsv:2: no column 'question.stem' or .*; available: text, label"),
        ("question-answering", r"no column 'question' or 'query'; available: text, label"),
        ("tagged-text", "columns, but the first line has"),
        ("films", "the sources are labeled-text, multiple-choice, "),
    ],
)
def test_as_a_source_that_cannot_read_the_files_gives_the_reason(tmp_path: Path, source: str, reason: str) -> None:
    (tmp_path / "films.tsv").write_text(FILMS)
    with pytest.raises(ValueError, match=rf"films.tsv: cannot be read as {source}: .*{reason}"):
        detect_data([str(tmp_path / "films.tsv")], source)


def test_as_a_source_whose_usual_columns_are_there_reads_the_files(tmp_path: Path) -> None:
    rows = "".join(f"the good film {n}\tder gute Film {n}\t{n % 2}\n" for n in range(40))
    (tmp_path / "a.tsv").write_text("source\ttarget\tlabel\n" + rows)
    assert detect_data([str(tmp_path / "a.tsv")]).source == "sentence-pairs"
    assert detect_data([str(tmp_path / "a.tsv")], "parallel-text").source == "parallel-text"


def test_grades_are_no_answers(tmp_path: Path) -> None:
    """A letter beside texts that are no choices is a class."""
    rows = [f"a long essay about {n} things,pass,pass,fail,no,{'ABC'[n % 3]}\n" for n in range(30)]
    assert detect(tmp_path / "a.csv", "essay,form,style,logic,late,grade\n" + "".join(rows)).source == "labeled-text"


def test_dates_and_references_are_not_the_text(tmp_path: Path) -> None:
    days = ["Mon Apr 06 22:19:45 PDT 2009", "Tue Apr 07 01:10:12 PDT 2009", "Tue Apr 07 09:02:59 PDT 2009"]
    rows = [f'"{4 * (n % 2)}","{n}","{days[n % 3]} {n}","user","a {("bad", "good")[n % 2]} film with cats"\n' for n in range(40)]
    assert detect(tmp_path / "a.csv", "".join(rows)).columns == {"text": "column5", "label": "column1"}
    rows = [
        f"the cat of {chr(97 + n % 26)}\tdie Katze von {chr(97 + n % 26)}\tCC-BY 2.0 (France) by user #{n}\n" for n in range(40)
    ]
    assert detect(tmp_path / "b.tsv", "".join(rows)).columns == {"source": "column1", "target": "column2"}


def test_commas_in_every_label_are_mentioned(tmp_path: Path) -> None:
    rows = [f'"a fine film {n}","film,{("good", "bad")[n % 2]}"\n' for n in range(40)]
    detected = detect(tmp_path / "a.csv", "text,tags\n" + "".join(rows))
    assert "data.label_type=multiple 'data.separator=,'" in detected.notes()[-1]
    assert not detect(tmp_path / "b.csv", "text,tags\n" + "".join(row.replace("film,", "") for row in rows)).notes()[1:]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "sep=;\ntext;label\na good film;yes\n"}, "a.csv:1: the first line gives Excel the delimiter"),
        ({"a.csv": "text,label\n"}, "with one row"),
        ({"train_text.txt": "a film\n" * 9, "train_labels.txt": "1\n" * 9, "mapping.txt": "0\tno\n"}, "paste .*train_labels.txt"),
    ],
)
def test_files_that_need_a_change_are_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        detect_data([str(tmp_path / name) for name in files])


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


@pytest.mark.parametrize("rows", [1, 2, 30])
@pytest.mark.parametrize("suffix", ["jsonl", "json", "data.json"])
def test_rows_of_squad_on_the_hub_are_question_answering(tmp_path: Path, rows: int, suffix: str) -> None:
    found = {"text": ["Ann"], "answer_start": [0]}
    row = {"id": "1", "title": "Ann", "context": "Ann is there.", "question": "Who is there?", "answers": found}
    listed = [row] * (rows - 1) + [row | {"answers": {"text": [], "answer_start": []}}]
    text = json_lines(listed) if suffix == "jsonl" else json.dumps({"data": listed} if suffix == "data.json" else listed)
    detected = detect(tmp_path / f"train.{suffix}", text)
    assert (detected.source, detected.options) == ("question-answering", {})


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


# ------------------------------------------------------------------------------------------ files that need a remark, or help


def remarks(*files: Path) -> str:
    return "\n".join(detect_data([str(file) for file in files]).remarks)


def test_training_files_without_a_split_beside_those_with_one_are_named(tmp_path: Path) -> None:
    for name in ("TREC_10.tsv", "train_5500.tsv", "a.tsv", "b.tsv"):
        (tmp_path / name).write_text(FILMS)
    assert "no split (train, dev, test): TREC_10.tsv" in remarks(tmp_path / "TREC_10.tsv", tmp_path / "train_5500.tsv")
    assert remarks(tmp_path / "a.tsv", tmp_path / "b.tsv") == ""


def test_the_splits_of_conll_2003(tmp_path: Path) -> None:
    for name in ("eng.train", "eng.testa", "eng.testb"):
        (tmp_path / name).write_text("Ulm NNP B-LOC\nis VBZ O\n\n" * 20)
    splits = detect_data([str(tmp_path)]).splits
    assert {split: [Path(file).suffix for file in files] for split, files in splits.items()} == {
        "train": [".train"],
        "valid": [".testa"],
        "test": [".testb"],
    }


def test_files_about_the_data_are_ignored_and_named(tmp_path: Path) -> None:
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text(FILMS)
    for name in ("README.md", "LICENSE", "readme.txt"):
        (tmp_path / name).write_text("About these films.\n")
    detected = detect_data([str(tmp_path)])
    assert detected.splits == {"train": [str(tmp_path / "train.tsv")], "valid": [str(tmp_path / "dev.tsv")]}
    (remark,) = detected.remarks
    assert remark.startswith("ignored") and all(name in remark for name in ("README.md", "LICENSE", "readme.txt"))


def test_a_file_and_links_to_it_count_once(tmp_path: Path) -> None:
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "train.tsv").write_text(FILMS)
    (tmp_path / "films" / "latest.tsv").symlink_to("train.tsv")
    (tmp_path / "films" / "again").symlink_to(tmp_path / "films")
    assert len(detect_data([str(tmp_path / "films")]).splits["train"]) == 1


def test_a_test_file_without_labels_is_left_out_with_the_command_that_predicts_it(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(FILMS)
    (tmp_path / "test.tsv").write_text("index\ttext\n0\ta good film\n")
    detected = detect_data([str(tmp_path)])
    assert list(detected.splits) == ["train"]
    assert f"weft predict RUN {tmp_path / 'test.tsv'}" in detected.remarks[0]
    (tmp_path / "test.tsv").write_text("index\tblurb\n0\ta good film\n")
    with pytest.raises(ValueError, match=r"test\.tsv:1: no column 'text'.*all files of a dataset need the same format"):
        detect_data([str(tmp_path)])


def test_values_of_nested_objects_are_columns(tmp_path: Path) -> None:
    rows = [
        {"id": n, "meta": {"user": {"name": f"u{n}"}}, "body": {"text": f"a long film {n}"}, "note": {"label": "ab"[n % 2]}}
        for n in range(40)
    ]
    detected = detect(tmp_path / "train.jsonl", json_lines(rows))
    assert (detected.source, detected.columns) == ("labeled-text", {"text": "body.text", "label": "note.label"})
    source = LabeledText(train=str(tmp_path / "train.jsonl"), text="body.text", label="note.label", tokenizer=Word)
    assert source.open().splits["train"].raw(0) == {"text": "a long film 0", "label": "a"}
    dotted = {"body.text": "its own key", "body": {"text": "nested"}, "note": {"label": "a"}}
    assert _flat(dotted) == {"body.text": "its own key", "note.label": "a"}


@pytest.mark.parametrize(
    ("names", "layout", "found"),
    [
        ("text,label,", "{text},{label},", True),
        ("text,label,,", "{text},{label},,", True),
        (",text,label", "{n},{text},{label}", True),
        ("text,label,", "{text},{label},{label}", False),
    ],
)
def test_a_header_may_lack_the_names_of_empty_columns(tmp_path: Path, names: str, layout: str, found: bool) -> None:
    rows = "".join(layout.format(n=n, text=f"a long film number {n}", label="ab"[n % 2]) + "\n" for n in range(40))
    detected = detect(tmp_path / "train.csv", names + "\n" + rows)
    assert ("column_names" not in detected.options) is found
    assert (detected.columns == {"text": "text", "label": "label"}) is found


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "text,label\n" + "a good film,yes\n" * 9,
            "all rows have the same label, 'yes'; a label needs two or more classes",
        ),
        ("a.csv", "Word,Tag\n" + "Ulm,B-LOC\nis,O\n\n" * 9, "one word and its tag per row; .* separated by tabs"),
        ("a.json", json.dumps({"text": ["a", "b"], "label": ["x", "y"]}), r"a list of values for each column .*orient='records'"),
        ("a.json", json.dumps({"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}}), "a list of values for each column"),
        ("a.json", json.dumps({"rows": [{"text": "a", "label": "x"}] * 3}), "one object with the rows in 'rows'"),
        ("a.csv", "text,label\r" + "a good film,yes\ra bad film,no\r" * 9, "lines end in carriage returns only.*tr '"),
        ("a.parquet", "PAR1" + "\0" * 99, r"a Parquet file, not a text file.*pandas\.read_parquet"),
        ("a.xlsx", "PK\x03\x04" + "\0" * 99, r"an Excel file, not a text file.*pandas\.read_excel"),
        ("a.zip", "PK\x03\x04" + "\0" * 99, "a ZIP archive, not a text file.*unzip"),
        ("a.txt.bz2", "BZh91AY" + "\0" * 99, "compressed by bzip2, not a text file.*bunzip2"),
    ],
)
def test_the_message_names_the_format_and_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        detect_data([name])


def test_a_corpus_in_one_line_is_refused_with_the_command_that_divides_it(tmp_path: Path) -> None:
    """As text8: without a validation file there is nothing to hold out."""
    corpus = tmp_path / "text8"
    words = "".join(f"word{n} of a long line " for n in range(2000))
    corpus.write_text(words)
    with pytest.raises(
        ValueError, match=r"text8: the data has one text, .* none can be held out .*: fold -s -w 1000 "
    ) as refused:
        detect_data([str(corpus)])
    command = str(refused.value).rpartition(": ")[2]
    assert subprocess.run(command, shell=True, cwd=tmp_path, check=True).returncode == 0
    detected = detect_data([str(tmp_path / "train.txt")])
    splits = (
        read_run_text(scratch_recipe(detected, tmp_path), "a", tmp_path, overrides=["data.tokenizer=word"]).data().open().splits
    )
    assert {*splits} == {"train", "valid"} and len(splits["valid"]) >= 5
    assert (tmp_path / "train.txt").read_text().replace("\n", "") == words
    (tmp_path / "valid.txt").write_text("a line\n")
    assert detect_data([str(corpus), str(tmp_path / "valid.txt")]).splits["valid"] == [str(tmp_path / "valid.txt")]


@pytest.mark.parametrize(("lines", "words", "remarked"), [(2, 10, False), (2, 9000, True), (19, 900, True), (20, 900, False)])
def test_a_few_long_lines_are_mentioned_and_train(tmp_path: Path, lines: int, words: int, remarked: bool) -> None:
    detected = detect(tmp_path / "a.txt", "".join(f"line {n} " + "of words " * words + "\n" for n in range(lines)))
    assert any("fold -s" in remark for remark in detected.remarks) is remarked
    run = read_run_text(scratch_recipe(detected, tmp_path), "a", tmp_path, overrides=["data.tokenizer=word"])
    assert {*run.data().open().splits} == {"train", "valid"}


def test_several_files_of_texts_could_be_classes(tmp_path: Path) -> None:
    folder = tmp_path / "topics"
    folder.mkdir()
    for name in ("sports.txt", "politics.txt", "weather.txt"):
        (folder / name).write_text("".join(f"about {name} number {n}\n" for n in range(20)))
    detected = detect_data([str(folder)])
    assert (detected.source, detected.other_source) == ("plain-text", "labeled-text")
    classes = detect_data([str(folder)], "labeled-text").splits["train"]
    assert isinstance(classes, dict) and set(classes) == {"sports", "politics", "weather"}


def test_a_label_and_a_text_separated_by_a_tab_are_a_table(tmp_path: Path) -> None:
    """So that predictions are appended to its rows. Labels of two levels are lines of their own format."""
    for label, expected in (("AB", "column_names"), ("A:b", "coarse_labels")):
        text = "".join(f"{label if n % 2 else label[::-1]}\tthe film number {n}\n" for n in range(40))
        assert expected in detect(tmp_path / "SMSSpamCollection", text).options


@pytest.mark.parametrize(
    ("columns", "source"),
    [
        (("question1", "question2", "label"), "sentence-pairs"),
        (("id", "qid1", "qid2", "question1", "question2", "is_duplicate"), "sentence-pairs"),
        (("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), "sentence-pairs"),
        (("text_a", "text_b", "genre", "label"), "sentence-pairs"),
        (("premise", "hypothesis", "genre", "label"), "sentence-pairs"),
        (("headline", "body text", "stance"), "sentence-pairs"),
        (("Ticket", "Created", "Customer text", "Description text", "Priority", "Queue"), "labeled-text"),
    ],
)
def test_two_texts_are_a_pair_by_their_names_or_if_there_is_nothing_else(
    tmp_path: Path, columns: tuple[str, ...], source: str
) -> None:
    words = ("question", "string", "text", "premise", "hypothesis", "headline")

    def cell(column: str, row: int) -> str:
        if any(word in column.lower() for word in words):
            return (
                f"{column.lower()} {'about film number' if 'customer' in column.lower() else 'of a long film with number'} {row}"
            )
        return str(row) if "id" in column.lower().split() or column[0] == "q" else f"{column[0]}{row % 2}"

    rows = "".join("\t".join(cell(column, row) for column in columns) + "\n" for row in range(60))
    detected = detect(tmp_path / "train.tsv", "\t".join(columns) + "\n" + rows)
    assert detected.source == source
    if source == "labeled-text":
        assert detected.columns["text"] == "Description text" and detected.alternatives["text"] == ["Customer text"]
    else:
        assert "weft new --text" in detected.remarks[-1]


def test_columns_are_chosen_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mail.csv").write_text(
        "from,subject,body,box\n" + "Ann,a long subject line,the body of a mail,in\nBob,b c d,e f g h,out\n" * 9
    )
    recipe = tmp_path / "recipe.yaml"
    answer = weft("new", tmp_path / "mail.csv", "--text", "subject", "--label", "from", "--out", recipe, "--no-baseline")
    assert answer.code == 0 and "text = subject, label = from" in answer.out
    assert "text: subject" in recipe.read_text() and "label: from" in recipe.read_text()
    answer = weft("new", tmp_path / "mail.csv", "--text", "subjects", "--out", tmp_path / "other.yaml")
    assert answer.code == 2 and "there is no column 'subjects'; the columns are: from, subject, body, box" in answer.err
    (tmp_path / "lines").mkdir()
    for name in ("lines.txt", "lines/a.txt"):
        (tmp_path / name).write_text("a text\nper line\n" * 9)
    for given in ("lines.txt", "lines"):
        answer = weft("new", tmp_path / given, "--label", "box", "--out", tmp_path / "other.yaml")
        assert answer.code == 2 and f"{given}: not a table, so it has no column 'box'" in answer.err
