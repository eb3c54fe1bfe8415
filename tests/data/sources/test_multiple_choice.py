"""Questions with choices: the usual layouts, paths, answers of every kind, and errors reported with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.data import Character, MultipleChoice, Word, WordPiece, encode_example
from weft.data.sources.cursor import Cursor
from weft.inference.few_shot import read_choices

COMMONSENSE: dict[str, Any] = {
    "answerKey": "B",
    "id": "1",
    "question": {
        "stem": "Where do fish live?",
        "choices": [{"label": "A", "text": "a tree"}, {"label": "B", "text": "water"}, {"label": "C", "text": "a desk"}],
    },
}
WANTED = {"question": "Where do fish live?", "choices": "a tree\twater\ta desk", "label": "B"}


def written(path: Path, *rows: Any) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def cells(file: str, **options: Any) -> list[dict[str, str]]:
    found = list(MultipleChoice(train=file, **options).rows([Cursor([file])]))
    assert not [row.problem for row in found if row.problem]
    return [dict(row.cells) for row in found if row.cells]


def problem(tmp_path: Path, row: Any, **options: Any) -> str:
    """Return the message about a row in line 2 of a file."""
    file = written(tmp_path / "bad.jsonl", COMMONSENSE, row)
    with pytest.raises(ValueError) as refused:
        MultipleChoice(train=file, tokenizer=Word, validation_fraction=0, **options).open()
    message = str(refused.value)
    assert message.startswith(f"{file}:2: ") and message.endswith("; fix the row, or set on_bad_row: skip to leave such rows out")
    return message.removeprefix(f"{file}:2: ")


LAYOUTS = [
    COMMONSENSE,
    {
        "question": WANTED["question"],
        "choices": {"text": ["a tree", "water", "a desk"], "label": ["1", "2", "3"]},
        "answerKey": "2",
    },
    {"question_stem": WANTED["question"], "choices": COMMONSENSE["question"]["choices"], "answerKey": "B"},
    {"question": WANTED["question"], "choices": ["a tree", "water", "a desk"], "answer": "water"},
    {"question": WANTED["question"], "choices": ["a tree", "water", "a desk"], "answer": 1},
    {"question": WANTED["question"], "options": ["a tree", "water", "a desk"], "answer": "b"},
    {"ctx": WANTED["question"], "endings": ["a tree", "water", "a desk"], "label": "1"},
    {"sent1": WANTED["question"], "ending0": "a tree", "ending1": "water", "ending2": "a desk", "label": 1},
    {"sentence": WANTED["question"], "option1": "a tree", "option2": "water", "option3": "a desk", "answer": "2"},
    {"context": WANTED["question"], "answerA": "a tree", "answerB": "water", "answerC": "a desk", "correct": "B"},
    {
        "context": "Where",
        "question": "do fish live?",
        "answerA": "a tree",
        "answerB": "water",
        "answerC": "a desk",
        "correct": "B",
    },
    {"context": "Where do", "question": "fish live?", "answer0": "a tree", "answer1": "water", "answer2": "a desk", "label": 1},
    {"article": "Where do", "query": "fish live?", "options": ["a tree", "water", "a desk"], "answer": "B"},
    {"dialogue": ["Where", "do"], "question": "fish live?", "choices": ["a tree", "water", "a desk"], "answer": "water"},
    {"question": WANTED["question"], "opa": "a tree", "opb": "water", "opc": "a desk", "cop": "B"},
    {"question": WANTED["question"], "passage": None, "story": "7", "choices": ["a tree", "water", "a desk"], "answer": 1},
]


@pytest.mark.parametrize("row", LAYOUTS, ids=range(len(LAYOUTS)))
def test_usual_layouts_are_found(row: dict[str, Any], tmp_path: Path) -> None:
    assert cells(written(tmp_path / "a.jsonl", row)) == [WANTED]


def test_the_context_precedes_the_question_unless_it_is_left_out(tmp_path: Path) -> None:
    """Columns of COPA: the premise is the context of the question, which is cause or effect."""
    row = {"premise": "The man broke his toe.", "choice1": "He slept.", "choice2": "He fell.", "question": "cause", "label": 1}
    file = written(tmp_path / "a.jsonl", row | {"note": "It was dark."})
    found = {context: cells(file, first_index=0, context=context)[0] for context in ("auto", None, "note")}
    assert {context: row["question"] for context, row in found.items()} == {
        "auto": "The man broke his toe. cause",
        None: "cause",
        "note": "It was dark. cause",
    }
    assert {row["label"] for row in found.values()} == {"B"}
    corpus = MultipleChoice(train=file, first_index=0, tokenizer=Word, validation_fraction=0).open()
    ids = corpus.splits["train"][0]["question"].tolist()
    assert corpus.codec.decode("question", ids) == "The man broke his toe. cause"


def test_a_template_with_the_context_has_it_once(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", {"context": "It rains.", "question": "Why?", "choices": ["yes", "no"], "answer": 0})
    found = {
        template: read_choices(file, template, "auto")[0][0]["question"] for template in ("{question}", "{context} {question}")
    }
    assert found == {"{question}": "It rains. Why?", "{context} {question}": "Why?"}


def test_questions_of_different_contexts_are_different(tmp_path: Path) -> None:
    rows = [{"context": f"Story {n}.", "question": "Why?", "choices": ["yes", "no"], "answer": 0} for n in range(40)]
    corpus = MultipleChoice(train=written(tmp_path / "a.jsonl", *rows), tokenizer=Word, validation_fraction=0.2).open()
    assert len(corpus.splits["valid"]) == 8


def test_tables_have_choices_in_one_cell_or_in_columns(tmp_path: Path) -> None:
    tsv, csv, columns = tmp_path / "a.tsv", tmp_path / "a.csv", tmp_path / "b.tsv"
    tsv.write_text("question\tchoices\tanswer\nWhere do fish live?\ta tree|water|a desk\tB\n")
    csv.write_text('question,choices,answer\n"Where do fish live?","a tree; water; a desk",water\n')
    columns.write_text("q\tone\ttwo\tthree\tright\nWhere do fish live?\ta tree\twater\ta desk\t2\n")
    assert cells(str(tsv)) == [WANTED]
    assert cells(str(csv), separator=";") == [WANTED]
    named = {"question": "q", "choices": ["one", "two", "three"], "answer": "right"}
    assert cells(str(columns), **named, first_index=1) == [WANTED]


def test_paths_lead_into_json(tmp_path: Path) -> None:
    row = {
        "item": {
            "ask": WANTED["question"],
            "from": [{"t": "a tree", "n": "x"}, {"t": "water", "n": "y"}, {"t": "a desk", "n": "z"}],
        },
        "right.one": "y",
    }
    file = written(tmp_path / "a.jsonl", row)
    named = {"question": "item.ask", "choices": "item.from.*.t", "labels": "item.from.*.n", "answer": "right.one"}
    assert cells(file, **named) == [WANTED]


def test_labels_win_over_numbers_unless_numbers_are_set_to_count(tmp_path: Path) -> None:
    row = {"question": "?", "choice1": "a", "choice2": "b", "answer": "1"}
    file = written(tmp_path / "a.jsonl", row)
    assert cells(file)[0]["label"] == "A"
    assert cells(file, first_index=1)[0]["label"] == "A"
    assert cells(file, first_index=0)[0]["label"] == "B"


def test_what_the_network_gets(tmp_path: Path) -> None:
    more = {"question": "Which color?", "choices": ["red", "a light blue water"], "answer": 1}
    file = written(tmp_path / "a.jsonl", COMMONSENSE, more)
    corpus = MultipleChoice(train=file, tokenizer=Word, validation_fraction=0).open()
    info, rows = corpus.codec.info, corpus.splits["train"]
    assert [f.kind for f in info.fields.values()] == ["text", "texts", "label"]
    assert info["label"].labels[:3] == ("A", "B", "C")
    for row, texts in enumerate((["a tree", "water", "a desk"], ["red", "a light blue water"])):
        assert [corpus.codec.decode("choices", part.tolist()) for part in rows[row]["choices"].parts] == texts
        assert rows.raw(row)["choices"] == "\t".join(texts)
        assert {name: lengths[row] for name, lengths in rows.lengths.items()} == info.lengths(rows[row])
        again = encode_example(corpus.codec, rows.raw(row))
        assert [p.tolist() for p in again["choices"].parts] == [p.tolist() for p in rows[row]["choices"].parts]
    assert [rows[row]["label"] for row in (0, 1)] == [1, 1]
    assert corpus.ledger["train"]["rows whose characters change"] == 0
    assert corpus.ledger["train"]["tokens"] == 5 + 5 + 3 + 5


def test_tokenizers_learn_from_questions_and_choices_each_by_itself(tmp_path: Path) -> None:
    rows = [{"question": f"say {n}", "choices": ["zebra", "yellow", "x"], "answer": 0} for n in range(20)]
    codec = MultipleChoice(train=written(tmp_path / "a.jsonl", *rows), tokenizer=WordPiece, validation_fraction=0).open().codec
    for text in ("say", "zebra", "yellow", "x"):
        assert len(codec.encode("choices", text)) == 1, text
    signs = MultipleChoice(train=str(tmp_path / "a.jsonl"), tokenizer=Character, validation_fraction=0).open().codec
    assert signs.encode("choices", "x\t")[1] == signs.info["choices"].special.unk  # a tab is between texts, in none


def test_tabs_in_a_text_do_not_part_it(tmp_path: Path) -> None:
    row = {"question": "a\tb?", "choices": ["\tone\ttwo ", "three"], "answer": "one\ttwo"}
    assert cells(written(tmp_path / "a.jsonl", row)) == [{"question": "a b?", "choices": "one two\tthree", "label": "A"}]


def test_long_texts_are_cut_each_by_itself(tmp_path: Path) -> None:
    row = {"question": "a b c d e", "choices": ["a b c d", "e", "a b c"], "answer": 0}
    for tokenizer in (Word, letters):
        corpus = MultipleChoice(
            train=written(tmp_path / "a.jsonl", row), tokenizer=tokenizer, max_length=3, validation_fraction=0
        ).open()
        example = corpus.splits["train"][0]
        parts = [getattr(part, "ids", part).tolist() for part in example["choices"].parts]
        texts = [corpus.codec.decode("choices", part) for part in parts]
        assert texts == ["a b c", "e", "a b c"] and len(example["question"]) == 3
        assert corpus.ledger["train"]["tokens lost"] == 2 + 1 and corpus.ledger["train"]["truncated rows"] == 1
        if tokenizer is letters:
            spelled = [part.marks["characters"] for part in example["choices"].parts]
            alone = encode_example(corpus.codec, {"question": "a", "choices": "a b c\te"})["choices"].parts
            assert [s.tolist() for s in spelled[:2]] == [part.marks["characters"].tolist() for part in alone]
            assert spelled[2].tolist() == spelled[0].tolist()
    file = written(tmp_path / "b.jsonl", {**row, "question": "a"})
    with pytest.raises(ValueError, match=r"b.jsonl:1: choices has 4 tokens, more than max_length 3"):
        MultipleChoice(train=file, tokenizer=Word, max_length=3, validation_fraction=0, on_overflow="error").open()


def letters() -> Word:
    return Word(max_characters=5)


def test_without_the_question_the_same_rows_are_held_out(tmp_path: Path) -> None:
    rows = [{"question": f"number {n}?", "choices": [f"{n}", f"{n + 1}"], "answer": "A"} for n in range(40)]
    file = written(tmp_path / "a.jsonl", *rows)
    both = [
        MultipleChoice(train=file, tokenizer=Word, validation_fraction=0.2, include_question=given).open()
        for given in (True, False)
    ]
    for split in ("train", "valid"):
        one, two = (corpus.splits[split] for corpus in both)
        assert [one.raw(n)["question"] for n in range(len(one))] == [two.raw(n)["question"] for n in range(len(two))]
    assert list(both[1].codec.info.fields) == ["choices", "label"] and set(both[1].splits["train"][0]) == {"choices", "label"}


def test_rows_are_the_same_only_if_question_and_choices_are(tmp_path: Path) -> None:
    rows = [{"question": "Which is right?", "choices": [f"{n}", f"not {n}"], "answer": "A"} for n in range(40)]
    turned = [{**row, "choices": row["choices"][::-1], "answer": "B"} for row in rows]
    corpus = MultipleChoice(train=written(tmp_path / "a.jsonl", *rows, *turned), tokenizer=Word, validation_fraction=0.2).open()
    sides = {split: [frozenset(r.raw(n)["choices"].split("\t")) for n in range(len(r))] for split, r in corpus.splits.items()}
    assert len(sides["valid"]) == 16 and len(sides["train"]) == 64
    assert not set(sides["valid"]) & set(sides["train"])


# ---------------------------------------------------------------------------------------------------------------- bad input


def changed(**question: Any) -> dict[str, Any]:
    return {**COMMONSENSE, "question": {**COMMONSENSE["question"], **question}}


def test_a_missing_column_is_reported_with_the_available_ones(tmp_path: Path) -> None:
    row = {k: v for k, v in COMMONSENSE.items() if k != "answerKey"}
    there = "id, question.stem, question.choices.*.label, question.choices.*.text"
    message = problem(tmp_path, row)
    assert (
        message.startswith("no column 'answerKey' or 'answer' or ")
        and f"; available: {there}; name it with the option answer; " in message
    )
    message = problem(tmp_path, {"question": "?", "answer": "A"})
    assert "no column 'question.choices.*.text' or " in message and "; name it with the option choices; " in message


def test_a_column_that_is_named_must_be_there(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", COMMONSENSE)
    for option in ("question", "context", "choices", "answer", "labels"):
        with pytest.raises(ValueError, match=rf"a.jsonl:1: no column 'no.where'; available: .* with the option {option}\; "):
            MultipleChoice(train=file, validation_fraction=0, **{option: "no.where"}).open()


def test_an_item_without_its_key_is_no_choice_less(tmp_path: Path) -> None:
    row = changed(choices=[{"label": "A", "text": "a"}, {"label": "B"}, {"label": "C", "text": "c"}])
    assert problem(tmp_path, row).startswith("question.choices.*.text: 1 of 3 items have no 'text'; ")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (COMMONSENSE | {"answerKey": "D"}, "the answer 'D' is none of the 3 choices: their labels are A, B, C; "),
        (
            {"question": "?", "choice1": "a", "choice2": "b", "label": 0},
            "the answer '0' is none of the 2 choices: their labels are 1, 2; if it is an index, set first_index to 0 or 1; ",
        ),
        (
            {"question": "?", "choices": ["a", "b"], "answer": 2},
            "the answer '2' is none of the 2 choices: they are 'a', 'b'; indices start at 0 unless first_index is set; ",
        ),
        ({"question": "?", "choices": ["x", "y"], "answer": "z"}, "the answer 'z' is none of the 2 choices: they are 'x', 'y'; "),
        (
            {"question": "?", "choices": ["1", "2", "0"], "answer": 1},
            "the answer '1' is ambiguous: by index or by text it is one of the choices 1, 2; set labels or first_index; ",
        ),
        (
            {"question": "?", "choices": ["x", "x", "y"], "answer": "x"},
            "the answer 'x' is ambiguous: by index or by text it is one of the choices 1, 2; set labels or first_index; ",
        ),
        (changed(choices=[{"label": "B", "text": "a"}]), "1 choices; a row must have 2 to 26; "),
        (changed(choices=[]), "0 choices; a row must have 2 to 26; "),
        ({"question": "?", "choices": [str(n) for n in range(27)], "answer": "0"}, "27 choices; a row must have 2 to 26; "),
        ({"question": "?", "choices": ["a", " "], "answer": "A"}, "choice 2 of 2 is empty; "),
        (changed(choices=[{"label": "B", "text": "a"}, {"label": "B", "text": "b"}]), "two choices have the same label: B, B; "),
        ({"question": "?", "choices": {"text": ["a", "b"], "label": ["A"]}, "answer": "A"}, "2 choices, but 1 labels (A); "),
        (COMMONSENSE | {"answerKey": ["A"], "answer": {"x": 1}}, None),
        ({"question": 7, "choices": ["a", "b"], "answer": "A"}, "the question (question) must be a text, not 7; "),
        ({"question": "?", "choices": [["a"], ["b"]], "answer": "A"}, "choices must be a text, not ['a']; "),
        (
            {"question": "?", "choices": ["a", "b"], "answer": True},
            "the answer (answer) must be a label, an index or a text, not True; ",
        ),
        ({"question": "?", "choices": ["a", "b"], "answer": ""}, "label is empty; "),
    ],
)
def test_bad_rows_are_reported_with_file_and_line(row: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    if message is None:  # a list of one is that one
        assert cells(written(tmp_path / "a.jsonl", row)) == [WANTED | {"label": "A"}]
    else:
        assert problem(tmp_path, row).startswith(message)


def test_a_number_beyond_the_choices_is_refused_where_numbers_count(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", {"question": "?", "choices": ["a", "b"], "answer": 0})
    with pytest.raises(ValueError, match=r"a.jsonl:1: the answer 0 is none of 2 choices, counted from first_index 1"):
        MultipleChoice(train=file, first_index=1, validation_fraction=0).open()


def test_bad_rows_can_be_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", COMMONSENSE, COMMONSENSE | {"answerKey": "E"}, {"question": ""})
    corpus = MultipleChoice(train=file, tokenizer=Word, validation_fraction=0, on_bad_row="skip").open()
    assert len(corpus.splits["train"]) == 1 and corpus.ledger["train"]["malformed rows"] == 2


def test_options_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="separator must not be empty"):
        MultipleChoice(train="a.tsv", separator="")
    with pytest.raises(ValueError, match="choices names 1 columns; at least two are needed"):
        MultipleChoice(train="a.tsv", choices=["a"])
