"""``weft predict`` on files: the format of the run's data, one output row for each input row, and the table it writes."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.commands import weft

import weft as package
from weft.data.sources.parsing import ParsedRow
from weft.inference.prediction import Prediction
from weft.inference.prediction_file import PredictionFile

LEARNING = "learning: {type: gradient, steps: 20, batch_tokens: 200, optimizer: {type: adam, lr: 0.02}}\n"
ENCODER = "encoder: {type: transformer, layers: 1, layer: {mixer: {type: multihead, heads: 2}}}"
DATA = "type: %s, train: %s, tokenizer: word, validation_fraction: 0.3"
RECIPES = {
    "films": (DATA % ("labeled-text", "films.tsv"), f"type: classifier, dim: 8, {ENCODER}", "classification"),
    "tags": (DATA % ("tagged-text", "names.conll"), f"type: tagger, dim: 8, {ENCODER}", "tagging"),
    "spans": (DATA % ("question-answering", "squad.json"), "type: span-extractor, dim: 8", "{type: span, max_answer_length: 3}"),
    "choices": (DATA % ("multiple-choice", "choices.jsonl"), "type: multiple-choice, dim: 8", "multiple-choice"),
    "pairs": (
        DATA % ("sentence-pairs", "pairs.csv") + ", label_type: number",
        f"type: classifier, dim: 8, {ENCODER}",
        "regression",
    ),
}
CONLL = "-DOCSTART- -X- O\n\n" + "".join(f"Ulm{n} NNP B-LOC\nis VBZ O\nbig JJ O\n\n" for n in range(12))


def squad(questions: int, answered: bool = True) -> dict[str, Any]:
    context = "Ulm lies on the Danube"
    answers = {"answers": [{"text": "the Danube", "answer_start": 12}], "is_impossible": False} if answered else {}
    qas = [[{"id": f"q{n}", "question": f"where {n} is Ulm?", **answers}] for n in range(questions)]
    return {"data": [{"paragraphs": [{"context": f"{context} {n}", "qas": one} for n, one in enumerate(qas)]}]}


def choice_row(n: int) -> str:
    return json.dumps({"question": f"one plus {n}?", "choices": ["red", f"{n + 1}", "blue"][: 2 + n % 2], "answer": 1}) + "\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("predict")
    films = [(f"{'good' if n % 3 else 'bad'} film {n}", "yes" if n % 3 else "no") for n in range(40)]
    (home / "films.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in films))
    (home / "names.conll").write_text(CONLL)
    (home / "squad.json").write_text(json.dumps(squad(12)))
    (home / "choices.jsonl").write_text("".join(map(choice_row, range(12))))
    pairs = "".join(f"a film {n},the film {n},{n % 5}\n" for n in range(20))
    (home / "pairs.csv").write_text("sentence1,sentence2,score\n" + pairs)
    for name, (data, structure, objective) in RECIPES.items():
        text = f"data: {{{data}}}\nstructure: {{{structure}}}\nobjective: {objective}\n{LEARNING}"
        (home / f"{name}.yaml").write_text(text)
        answer = weft("train", home / f"{name}.yaml", "--run", home / name, "--quiet")
        assert answer.code == 0, answer.err
    return home


@pytest.fixture(scope="module")
def films(home: Path) -> Any:
    return package.load(home / "films")


def read_csv(file: Path, delimiter: str = ",") -> list[list[str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines, delimiter=delimiter))


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().split("\n") if line]


# ----------------------------------------------------------------------------------------------------------------- formats


def test_a_table_is_read_by_its_columns_without_header_quotes_and_labels(home: Path, films: Any, tmp_path: Path) -> None:
    texts = ['good, "great" film', "bad film", "good film\nin two lines"]
    table = tmp_path / "films.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["label", "id", "text"], *(["no", str(n), text] for n, text in enumerate(texts))])
    answer = weft("predict", home / "films", table)
    assert (answer.code, answer.out.splitlines()) == (0, films.predict(texts))
    found = [json.loads(line) for line in weft("predict", home / "films", table, "--json").out.splitlines()]
    assert [row["text"] for row in found] == texts
    wanted = [prediction.probabilities for prediction in films.predictions(texts)]
    assert [row["probabilities"] for row in found] == [pytest.approx(p, rel=1e-4) for p in wanted]
    # a table without labels, in JSON Lines, with a column of another name
    (tmp_path / "films.jsonl").write_text("".join(json.dumps({"body2": text}) + "\n" for text in texts))
    answer = weft("predict", home / "films", tmp_path / "films.jsonl", "data.text=body2")
    assert answer.out.splitlines() == films.predict(texts)


def test_a_line_that_cannot_be_read_has_no_prediction(home: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes(b"good film\n\xff bad\nbad film\n")
    wanted = weft("predict", home / "films", given=b"good film\nbad film\n").out.split("\n")
    for arguments in (["texts.txt"], ["texts.txt", "--format", "lines"]):
        answer = weft("predict", home / "films", tmp_path / arguments[0], *arguments[1:])
        assert answer.out.split("\n") == [wanted[0], "", *wanted[1:]]
        assert "1 of 3 rows have no prediction" in answer.err and "texts.txt:2: not valid UTF-8" in answer.err


@pytest.mark.parametrize(
    ("trained", "own"), [("cp1252", "cp1252"), *((a, b) for a in ("cp1252", "utf-16", "utf-8") for b in ("utf-16", "utf-8"))]
)
def test_a_table_keeps_its_encoding_and_is_read_again(trained: str, own: str, home: Path, tmp_path: Path) -> None:
    """Whatever the run was trained on: UTF-8 and byte-order marks are recognized; other files are in the encoding of the data."""
    table, out = tmp_path / "films.csv", tmp_path / "out.csv"
    rows = [["text", "label"], *([f"{'good' if n % 2 else 'bad'} café {n}", "yes" if n % 2 else "no"] for n in range(9))]
    with table.open("w", newline="", encoding=own) as file:
        csv.writer(file).writerows(rows)
    options = f"data.encoding={trained}"
    answer = weft("predict", home / "films", table, "--out", out, options)
    assert answer.code == 0, answer.err
    with out.open(newline="", encoding=own) as file:
        found = list(csv.reader(file))
    assert [row[:2] for row in found] == rows and found[0][2] == "prediction"
    results = [weft("evaluate", home / "films", each, "--json", options) for each in (table, out)]
    assert results[0].code == 0 and results[0].out == results[1].out


def test_every_format_of_the_data_is_read_as_in_training(home: Path, tmp_path: Path) -> None:
    """The gold labels of the file that a run was trained on do not change its predictions."""
    (tmp_path / "names.conll").write_text("\n".join(line.split(" ")[0] for line in CONLL.split("\n")))
    tagged, bare = weft("predict", home / "tags", home / "names.conll"), weft("predict", home / "tags", tmp_path / "names.conll")
    assert tagged.out == bare.out and tagged.err == bare.err == "" and len(tagged.out.splitlines()) == 12
    assert weft("predict", home / "tags", given=b"Ulm3 is big\n").out == tagged.out.splitlines(True)[3]
    (tmp_path / "squad.json").write_text(json.dumps(squad(12, answered=False)))
    answered, bare = (
        weft("predict", home / "spans", home / "squad.json"),
        weft("predict", home / "spans", tmp_path / "squad.json"),
    )
    assert answered.out == bare.out and len(bare.out.splitlines()) == 12 and answered.err == bare.err == ""
    unanswered = "".join(line.replace(', "answer": 1', "") for line in map(choice_row, range(12)))
    (tmp_path / "choices.jsonl").write_text(unanswered)
    one, other = (weft("predict", home / "choices", folder / "choices.jsonl") for folder in (home, tmp_path))
    assert one.out == other.out and one.out.split() == package.load(home / "choices").predict(
        [{"question": json.loads(line)["question"], "choices": json.loads(line)["choices"]} for line in unanswered.splitlines()]
    )
    (tmp_path / "pairs.tsv").write_text("premise\thypothesis\na film 3\tthe film 3\n")
    assert (
        weft("predict", home / "pairs", tmp_path / "pairs.tsv").out
        == weft("predict", home / "pairs", given=b"a film 3\tthe film 3\n").out
    )


def test_text_files_are_lines_unless_they_look_like_the_data(home: Path, films: Any, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("label\ngood film\n")
    lines = weft("predict", home / "films", tmp_path / "lines.txt").out
    assert lines.splitlines() == films.predict(["label", "good film"])
    (tmp_path / "table.txt").write_text("label\ttext\nno\tgood film\n")
    assert weft("predict", home / "films", tmp_path / "table.txt").out.splitlines() == films.predict(["good film"])
    (tmp_path / "words.txt").write_text("Ulm3 X O\nis X O\n\n")
    words, sentence = weft("predict", home / "tags", tmp_path / "words.txt"), weft("predict", home / "tags", given=b"Ulm3 is")
    assert words.out == sentence.out and len(words.out.split()) == 2
    (tmp_path / "words.txt").write_text("Ulm3 is\nbig Ulm is big\n")
    assert [len(line.split()) for line in weft("predict", home / "tags", tmp_path / "words.txt").out.splitlines()] == [2, 4]
    # forced, against the suffix
    forced = weft("predict", home / "films", home / "films.tsv", "--format", "lines")
    assert forced.code == 0 and len(forced.out.splitlines()) == 41
    forced = weft("predict", home / "films", tmp_path / "lines.txt", "--format", "data")
    assert forced.code == 2 and "lines.txt:1: no column 'text'" in forced.err
    assert "standard input is read as lines" in weft("predict", home / "films", "--format", "data").err


# ------------------------------------------------------------------------------------------------------------------ output


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_the_table_is_written_with_predictions_and_probabilities(home: Path, films: Any, tmp_path: Path, delimiter: str) -> None:
    texts = ["good film", "bad film", "", "a good one"]
    suffix = "csv" if delimiter == "," else "tsv"
    table, out = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    rows = [["n", "text", "prediction"], *([str(n), text, "mine"] for n, text in enumerate(texts))]
    table.write_text("".join(delimiter.join(row) + "\n" for row in rows))
    answer = weft("predict", home / "films", table, "--out", out)
    assert answer.code == 0 and "'prediction_2'" in answer.err and f"{table}:4: text is empty" in answer.err
    assert "1 of 4 rows have no prediction" in answer.err and answer.out == ""
    header, *found = read_csv(out, delimiter)
    assert header == [*rows[0], "prediction_2", "probability_no", "probability_yes"]
    assert [row[:3] for row in found] == rows[1:]
    for text, row in zip(texts, found, strict=True):
        if not text:
            assert row[3:] == ["", "", ""]
            continue
        (prediction,) = films.predictions([text])
        assert row[3] == prediction.text
        assert [float(cell) for cell in row[4:]] == pytest.approx([prediction.probabilities[c] for c in ("no", "yes")], rel=1e-4)


def test_the_input_part_of_each_row_is_unchanged(home: Path, films: Any, tmp_path: Path) -> None:
    """Quotes, line ends and blank lines stay, byte for byte."""
    table = b'\xef\xbb\xbf"text","label"\r\n"good ""film""\nin two",no\r\n\r\n  bad,"x, y"'
    (tmp_path / "in.csv").write_bytes(table)
    assert weft("predict", home / "films", tmp_path / "in.csv", "--out", tmp_path / "out.csv").code == 0
    one, two = films.predictions(['good "film"\nin two', "bad"])
    cells = [f'"{p.text}","{p.probabilities["no"]:.6g}","{p.probabilities["yes"]:.6g}"' for p in (one, two)]
    assert (tmp_path / "out.csv").read_bytes().decode() == (
        '"text","label","prediction","probability_no","probability_yes"\r\n'
        f'"good ""film""\nin two",no,{cells[0]}\r\n\r\n  bad,"x, y",{cells[1]}\r\n'
    )


def test_json_lines_stay_json_lines(home: Path, films: Any, tmp_path: Path) -> None:
    rows = [
        '{"text": "good film", "x": 1.50, "prediction": [1, {}]}',
        "",
        '{"text":"bad film"} ',
        "{}",
        "not json",
        '{"text": 1e400}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(rows) + "\n")
    answer = weft("predict", home / "films", tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl")
    assert answer.code == 0 and "in.jsonl:4: no column 'text'" in answer.err and "in.jsonl:5: not valid JSON" in answer.err
    lines = (tmp_path / "out.jsonl").read_text().split("\n")
    assert lines[1] == "" and len(lines) == len(rows) + 1 and lines[0].startswith(rows[0][:-1])
    found = [json.loads(line) if line else None for line in lines]
    (one, two) = films.predictions(["good film", "bad film"])
    assert (found[0]["prediction_2"], found[2]["prediction_2"]) == (one.text, two.text)
    assert found[2]["probabilities"] == pytest.approx(two.probabilities, rel=1e-4)
    assert found[3] == {"prediction_2": None, "probabilities": None}
    assert found[4] == {"line": "not json", "prediction_2": None, "probabilities": None}


def test_the_objects_of_a_json_list_become_json_lines_with_all_their_values(home: Path, films: Any, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "good film", "user": {"name": "Ann"}, "prediction": 1},
        {"text": "bad film", "user": None},
        {"user": 1},
    ]
    (tmp_path / "in.json").write_text(json.dumps(rows, indent=1))
    answer = weft("predict", home / "films", tmp_path / "in.json", "--out", tmp_path / "out.jsonl")
    assert answer.code == 0 and "no column 'text'" in answer.err and "rows to" in answer.err and "(JSON Lines)" in answer.err
    one, two, none = lines_of(tmp_path / "out.jsonl")
    predicted = films.predictions(["good film", "bad film"])
    for row, found, prediction in zip(rows, (one, two), predicted, strict=False):
        assert found == {
            **row,
            "prediction_2": prediction.text,
            "probabilities": pytest.approx(prediction.probabilities, rel=1e-4),
        }
    assert none == {"user": 1, "prediction_2": None, "probabilities": None}


def test_words_get_their_predicted_tag_as_the_last_column(home: Path, tmp_path: Path) -> None:
    text = CONLL[:80].rsplit("\n\n", 1)[0] + "\n\n# a comment\n\nUlm\tNNP\tB-LOC\nis\tVBZ\tO\n\none two three four\nwas VBZ O\n"
    (tmp_path / "in.conll").write_text(text)
    answer = weft("predict", home / "tags", tmp_path / "in.conll", "data.comments=true", "--out", tmp_path / "out.conll")
    assert answer.code == 0 and "1 of" in answer.err and "4 columns, but the first line has 3" in answer.err
    before, after = text.split("\n"), (tmp_path / "out.conll").read_text().split("\n")
    assert len(before) == len(after)
    predicted = iter(weft("predict", home / "tags", tmp_path / "in.conll", "data.comments=true").out.split())
    for old, new in zip(before, after, strict=True):
        if not old or old.startswith(("-DOCSTART-", "#")):
            assert new == old
        elif old in ("one two three four", "was VBZ O"):
            assert new == f"{old} _"
        else:
            assert new == old + ("\t" if "\t" in old else " ") + next(predicted)
    assert next(predicted, None) is None


def test_other_inputs_are_written_as_json_lines(home: Path, tmp_path: Path) -> None:
    weft("predict", home / "spans", home / "squad.json", "--out", tmp_path / "spans.jsonl")
    found = lines_of(tmp_path / "spans.jsonl")
    assert [row["id"] for row in found] == [f"q{n}" for n in range(12)]
    assert [row["prediction"] for row in found] == weft("predict", home / "spans", home / "squad.json").out.split("\n")[:-1]
    assert all(row["prediction"] in row["context"] and "answer" not in row for row in found)
    weft("predict", home / "choices", "--out", tmp_path / "choices.jsonl", given=b"two?\tred\t2\n")
    (row,) = lines_of(tmp_path / "choices.jsonl")
    assert row["choices"] == ["red", "2"] and row["prediction"] in "AB" and set(row["probabilities"]) == {"A", "B"}
    (tmp_path / "choices.csv").write_text("question,choice1,choice2\ntwo?,red,2\n")
    weft("predict", home / "choices", tmp_path / "choices.csv", "--out", tmp_path / "out.csv")
    header, (*_, prediction, probability) = read_csv(tmp_path / "out.csv")
    assert header[3:] == ["prediction", "probability"]
    assert float(probability) == pytest.approx(row["probabilities"][prediction], rel=1e-4)


def test_the_output_never_replaces_the_input_or_a_link(home: Path, tmp_path: Path) -> None:
    table, other = tmp_path / "in.tsv", tmp_path / "other.tsv"
    table.write_text("text\ngood\n")
    other.write_text("mine")
    os.link(table, tmp_path / "hard.tsv")
    (tmp_path / "soft.tsv").symlink_to(other)
    (tmp_path / "dangling.tsv").symlink_to(tmp_path / "nothing.tsv")
    (tmp_path / "folder.tsv").mkdir()
    for name, problem in {
        "in.tsv": "is the input",
        "hard.tsv": "is the input",
        "soft.tsv": "is a link",
        "dangling.tsv": "is a link",
        "folder.tsv": "is not a regular file",
        "out.csv": "are written as TSV, not .csv; name it out.tsv",
    }.items():
        answer = weft("predict", home / "films", table, "--out", tmp_path / name)
        assert answer.code == 2 and problem in answer.err, answer.err
    assert (table.read_text(), other.read_text()) == ("text\ngood\n", "mine")
    assert not (tmp_path / "nothing.tsv").exists() and not list(tmp_path.glob(".*"))
    assert weft("predict", home / "films", table, "--out", tmp_path / "no" / "out.tsv").code == 1
    # an error in the middle leaves the old output
    table.write_text("text\tlabel\ngood\tx\n")
    answer = weft("predict", home / "films", table, "data.text=body", "--out", other)
    assert answer.code == 2 and "no column 'body'" in answer.err and other.read_text() == "mine"
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "bad.tsv").write_text("text\tlabel\na\tb\tc\n")
    answer = weft("predict", home / "films", tmp_path / "bad.tsv", "--out", other)
    assert answer.code == 1 and read_csv(other, "\t")[1:] == [["a", "b c", "", "", ""]]


_cell = st.text("ab ,;\"'\n\r\t#漢\\", max_size=6)


@example(rows=[[";\r\n", ""]], junk="", all_quoted=False)
@example(rows=[["a\r\nb\rc", "\r\n"]], junk="", all_quoted=True)
@given(
    rows=st.lists(st.lists(_cell, min_size=1, max_size=4), max_size=8),
    junk=st.sampled_from(["", '"open', 'a"b"c,"', "\\"]),
    all_quoted=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_csv_stays_csv_with_one_row_for_each_row(
    films: Any, tmp_path: Path, rows: list[list[str]], junk: str, all_quoted: bool
) -> None:
    """Whatever the cells are, the output is valid CSV, and its well-formed rows are those of the input with three more cells."""
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL  # which leaves a carriage return alone unquoted
        csv.writer(file, quoting=quoting, lineterminator="\n").writerows([["text", "label"], *rows])
        file.write(junk)
    source = package.data.LabeledText(train="x.csv")
    from weft.data.requests import read_inputs

    parsed = list(read_inputs(source, table))
    answers = ((row, Prediction("yes", {"no": 0.25, "yes": 0.75}, problem=row.problem)) for row in parsed)
    PredictionFile(films, table, source).write(
        out, ((row, p if not p.problem else Prediction("", {}, problem="x")) for row, p in answers)
    )
    with out.open(newline="", encoding="utf-8") as file:
        found = [row for row in csv.reader(file, strict=True) if row]
    filled = [row for row in parsed if row.cells or row.problem]
    assert found[0] == ["text", "label", "prediction", "probability_no", "probability_yes"]
    assert len(found) == 1 + len(filled) and {len(row) for row in found} == {5}
    if all_quoted and not junk:
        copied = [cells[:2] for cells, row in zip(found[1:], filled, strict=True) if not row.problem]
        assert copied == [row for row in rows if len(row) == 2 and row[0].strip()], "copied with their line ends"
    for cells, row in zip(found[1:], filled, strict=True):
        assert cells[2:] == (["", "", ""] if row.problem else ["yes", "0.25", "0.75"])
        if not row.problem:
            assert cells[0].replace("\r\n", "\n") == row.cells["text"], "the model reads line feeds"


def test_rows_are_streamed(films: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows there are, only a few are read ahead of what is written."""
    from weft.cli.commands import predict as command

    rows, ahead = 5000, 0
    (tmp_path / "in.jsonl").write_text('{"text": "good film"}\n' * rows)
    read, written = [0], [0]
    real = command._rows

    def counted(*arguments: Any) -> Iterator[ParsedRow]:
        for row in real(*arguments):
            read[0] += 1
            yield row

    def record(self: Any, prediction: Any) -> Any:
        nonlocal ahead
        written[0] += 1
        ahead = max(ahead, read[0] - written[0])
        return prediction.text

    monkeypatch.setattr(command, "_rows", counted)
    monkeypatch.setattr(Prediction, "value", lambda self: record(None, self))
    answer = weft("predict", films.folder, tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl")
    assert answer.code == 0 and written == [rows] and ahead <= 1100, ahead
    assert (tmp_path / "out.jsonl").read_text().count("\n") == rows
