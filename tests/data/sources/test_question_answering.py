"""Questions whose answers stand in a text: files in, tokens out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.core.contracts import Corpus
from weft.data import BPE, Byte, PretrainedTokenizer, QuestionAnswering, Word, WordPiece, encode_example, load_codec, save_codec
from weft.data.prepared import DatasetWriter
from weft.data.sources import split_preparation
from weft.data.sources.cursor import Cursor

CONTEXT = "The Denver Broncos won Super-Bowl 50, in 2016. The café was closed."
WORDS = partial(Word, lowercase=True)


def squad(*paragraphs: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {"version": "2.0", "data": [{"title": "t", "paragraphs": [{"context": c, "qas": qas} for c, qas in paragraphs]}]}


def asked(number: int, question: str, context: str, *answers: str, **more: Any) -> dict[str, Any]:
    found = [{"text": answer, "answer_start": context.index(answer)} for answer in answers]
    return {"id": f"q{number}", "question": question, "answers": found, **more}


@pytest.fixture
def nested(tmp_path: Path) -> str:
    other = "Paris is the capital of France."
    questions = [
        asked(1, " Who won?", CONTEXT, "Denver Broncos", "Broncos"),
        asked(2, "When?", CONTEXT, "2016"),
        asked(3, "Who lost?", CONTEXT, is_impossible=True, plausible_answers=[{"text": "café", "answer_start": 51}]),
        asked(4, "What was closed?", CONTEXT, "The café"),
    ]
    file = tmp_path / "train.json"
    file.write_text(json.dumps(squad((CONTEXT, questions), (other, [asked(5, "Capital?", other, "Paris")])), indent=1))
    return str(file)


def answers(corpus: Corpus, split: str = "train") -> list[str]:
    """What the tokens of each row's span are in its text."""
    rows, tokenizer, found = corpus.splits[split], corpus.codec.tokenizers["text"], []
    for row in range(len(rows)):
        span, text = rows[row]["answer"].tolist(), rows.raw(row)["context"]
        offsets = tokenizer.offsets(text)
        found.append(text[offsets[span[0]][0] : offsets[span[1]][1]].strip() if span else "")
    return found


@pytest.mark.parametrize(
    "tokenizer", [WORDS, partial(BPE, vocab_size=90), partial(WordPiece, vocab_size=200, strip_accents=True), Byte]
)
def test_squads_questions_become_tokens_of_the_context(nested: str, tokenizer: Any) -> None:
    corpus = QuestionAnswering(train=nested, tokenizer=tokenizer, validation_fraction=0).open()
    assert answers(corpus) == ["Denver Broncos", "2016", "", "The café", "Paris"]
    assert corpus.splits["train"].raw(0) == {
        "question": "Who won?",
        "context": CONTEXT,
        "answer": "Denver Broncos\tBroncos",
        "start": "4\t11",
        "id": "q1",
    }
    ledger = corpus.ledger["train"]
    assert ledger["questions without an answer"] == 1 and ledger["answers widened"] == 0 and ledger["rows"] == 5


def test_tables_and_json_lines_are_the_same(tmp_path: Path) -> None:
    rows = [("Who won?", CONTEXT, "Denver Broncos", "4"), ("Who lost?", CONTEXT, "", ""), ("Open?", CONTEXT, "closed", "60")]
    assert CONTEXT[60:66] == "closed"
    (tmp_path / "a.tsv").write_text("question\tcontext\tanswer\tstart\n" + "".join("\t".join(row) + "\n" for row in rows))
    listed = [
        {"query": q, "passage": c, "answers": [a] if a else [], "answer_start": [int(s)] if s else []} for q, c, a, s in rows
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    one, two = (
        QuestionAnswering(train=str(tmp_path / name), tokenizer=WORDS, validation_fraction=0).open().splits["train"]
        for name in ("a.tsv", "a.jsonl")
    )
    assert len(one) == len(two) == 3
    for row in range(3):
        assert one[row]["answer"].tolist() == two[row]["answer"].tolist()
        assert {**one.raw(row), "id": ""} == {**two.raw(row), "id": ""}
    assert [one.raw(row)["id"] for row in range(3)] == ["2", "3", "4"]  # the line


HUB = [
    {
        "id": "a",
        "context": CONTEXT,
        "question": "Who won?",
        "answers": {"text": ["Denver Broncos", "Broncos"], "answer_start": [4, 11]},
    },
    {"id": "b", "context": CONTEXT, "question": "Who lost?", "answers": {"text": [], "answer_start": []}},
    {"id": "c", "context": CONTEXT, "question": "Why?", "answers": None},
]


@pytest.mark.parametrize("layout", ["lines", "list", "data", "paragraphs"])
def test_answers_are_an_object_of_lists_as_on_the_hub(tmp_path: Path, layout: str) -> None:
    rows = HUB[: 2 if layout in ("data", "paragraphs") else 3]
    file = tmp_path / ("a.jsonl" if layout == "lines" else "a.json")
    documents = {"list": rows, "data": {"data": rows}, "paragraphs": squad((CONTEXT, rows))}
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) if layout == "lines" else json.dumps(documents[layout]))
    corpus = QuestionAnswering(train=str(file), tokenizer=WORDS, validation_fraction=0).open()
    assert answers(corpus) == ["Denver Broncos", *[""] * (len(rows) - 1)]
    raw = corpus.splits["train"].raw(0)
    assert (raw["question"], raw["answer"], raw["start"]) == ("Who won?", "Denver Broncos\tBroncos", "4\t11")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"text": ["Denver"], "answer_start": []}, "question a: 1 answers, but 0 starts"),
        ({"text": "Denver", "answer_start": 4}, "answers must be an object with a list 'text'"),
        ({"text": ["Denver"], "answer_start": ["4"]}, "answer_start must be a character offset, not '4'"),
        ({"text": ["Denver"], "answer_start": [5]}, "the answer 'Denver' is not at character 5 of the context"),
    ],
)
def test_lists_of_answers_that_do_not_fit_are_malformed(tmp_path: Path, lists: dict[str, Any], message: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"data": [HUB[0] | {"answers": lists}]}))
    with pytest.raises(ValueError, match=rf"a.json:1: .*{message}"):
        QuestionAnswering(train=str(tmp_path / "a.json"), validation_fraction=0).open()


def test_answers_without_starts_are_malformed_in_json_too(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"context": CONTEXT, "question": "Who?", "answer": "Denver"}) + "\n")
    with pytest.raises(ValueError, match=r"a.jsonl:1: 1 answers, but 0 starts; name the column of their .* option start"):
        QuestionAnswering(train=str(tmp_path / "a.jsonl"), validation_fraction=0).open()


def test_no_context_is_in_both_parts(tmp_path: Path) -> None:
    texts = [f"In place {n} there is thing {n * 7} and nothing else." for n in range(40)]
    paragraphs = [
        (text, [asked(10 * n + k, f"What {k}?", text, f"thing {n * 7}") for k in range(5)]) for n, text in enumerate(texts)
    ]
    (tmp_path / "all.json").write_text(json.dumps(squad(*paragraphs)))
    corpus = QuestionAnswering(train=str(tmp_path / "all.json"), tokenizer=WORDS, validation_fraction=0.2).open()
    train, valid = ({split.raw(row)["context"] for row in range(len(split))} for split in corpus.splits.values())
    assert not train & valid and len(train | valid) == 40 and len(valid) == 8
    assert len(corpus.splits["valid"]) == 40


def test_an_answer_inside_a_token_is_widened_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps(squad((CONTEXT, [asked(1, "Which?", CONTEXT, "Bowl 50"), asked(2, "Who?", CONTEXT, "won")])))
    )
    corpus = QuestionAnswering(train=str(tmp_path / "a.json"), tokenizer=WORDS, validation_fraction=0).open()
    assert answers(corpus) == ["Super-Bowl 50", "won"]
    assert corpus.ledger["train"]["answers widened"] == 1


def test_a_long_context_is_cut_and_an_answer_beyond_is_none(nested: str) -> None:
    corpus = QuestionAnswering(train=nested, tokenizer=WORDS, validation_fraction=0, max_length=5).open()
    assert answers(corpus) == ["Denver Broncos", "", "", "", "Paris"]
    assert corpus.ledger["train"]["answers truncated"] == 2 and corpus.ledger["train"]["truncated rows"] == 5
    assert corpus.splits["train"].raw(1)["answer"] == "2016"  # what is right stays right
    assert all(len(corpus.splits["train"][row]["context"]) <= 5 for row in range(5))
    edge = QuestionAnswering(
        train=nested, tokenizer=WORDS, validation_fraction=0, max_length=2
    ).open()  # the answer is token 1 and 2
    assert answers(edge)[0] == ""
    with pytest.raises(ValueError, match=r"train.json:\d+: context has 15 tokens, more than max_length 5"):
        QuestionAnswering(train=nested, tokenizer=WORDS, validation_fraction=0, max_length=5, on_overflow="error").open()


def test_an_answer_with_a_wrong_start_is_located(tmp_path: Path) -> None:
    wrong = asked(2, "When?", CONTEXT, "2016")
    wrong["answers"][0]["answer_start"] += 1
    file = tmp_path / "a.json"
    file.write_text(json.dumps(squad((CONTEXT, [asked(1, "Who?", CONTEXT, "won"), wrong])), indent=1))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if '"q2"' in text)
    message = rf"a.json:{line}: question q2: the answer '2016' is not at character 42 of the context; found '016.'"
    with pytest.raises(ValueError, match=message):
        QuestionAnswering(train=str(file), tokenizer=WORDS, validation_fraction=0).open()
    corpus = QuestionAnswering(train=str(file), tokenizer=WORDS, validation_fraction=0, on_bad_row="skip").open()
    assert len(corpus.splits["train"]) == 1 and corpus.ledger["train"]["malformed rows"] == 1


BAD_ROWS = {
    "two answers, one start": ("Q\tC c\tC\t", "1 answers, but 0 starts"),
    "no number": ("Q\tC c\tC\tone", "must be a character offset, not 'one'"),
    "elsewhere": ("Q\tC c\tc\t0", "the answer 'c' is not at character 0 of the context; found 'C'"),
    "beyond": ("Q\tC c\tc\t70", "is not at character 70 of the context; found ''"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_of_tables_are_located(name: str, tmp_path: Path) -> None:
    row, message = BAD_ROWS[name]
    (tmp_path / "a.tsv").write_text(f"question\tcontext\tanswer\tstart\nQ\tC c\tc\t2\n{row}\n")
    with pytest.raises(ValueError, match=rf"a.tsv:3: .*{message}"):
        QuestionAnswering(train=str(tmp_path / "a.tsv"), tokenizer=WORDS, validation_fraction=0).open()


BROKEN: dict[str, tuple[Any, str]] = {
    "syntax": ('{"data": [}', r"a.json:1: not valid JSON: Expecting value \(column 11\)"),
    "list": ([1], r"a.json:1: must be an object \{...\}, not 1"),
    "article": ({"data": [1]}, "an article must be an object with a list 'paragraphs'"),
    "paragraph": ({"data": [{"paragraphs": [{"context": "a"}]}]}, "a paragraph must be an object with a list 'qas'"),
    "context": ({"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}, "context must be a string, not '3'"),
    "question": (squad(("a b", [1])), "question 1: a question must be an object with a list 'answers'"),
    "answers": (squad(("a b", [{"id": "x", "question": "q"}])), "question x: a question must be an object with a list 'answers'"),
    "start": (
        squad(("a b", [{"id": "x", "question": "q", "answers": [{"text": "a", "answer_start": None}]}])),
        "question x: answer_start must be a character offset, not None",
    ),
    "half": (squad(("a \ud800", [asked(1, "q", "a", "a")])), r"context has a lone surrogate U\+D800"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_not_squads_is_refused(name: str, tmp_path: Path) -> None:
    content, message = BROKEN[name]
    (tmp_path / "a.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=message):
        QuestionAnswering(train=str(tmp_path / "a.json"), tokenizer=WORDS, validation_fraction=0).open()


def test_bytes_that_are_no_text_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"data":\n "\xff"}')
    with pytest.raises(ValueError, match="byte 0xff in line 2 is not valid UTF-8"):
        QuestionAnswering(train=str(tmp_path / "a.json"), tokenizer=WORDS, validation_fraction=0).open()
    (tmp_path / "a.json").write_text("")
    with pytest.raises(ValueError, match="the file is empty"):
        QuestionAnswering(train=str(tmp_path / "a.json"), tokenizer=WORDS, validation_fraction=0).open()


def test_an_answer_without_a_token_is_a_bad_row(tmp_path: Path) -> None:
    text = "a \u200b b"  # BERT's normalizer removes it
    (tmp_path / "a.json").write_text(json.dumps(squad((text, [asked(1, "q", text, "\u200b")]))))
    with pytest.raises(ValueError, match=r"no token overlaps the answer '\\u200b' at character 2"):
        QuestionAnswering(
            train=str(tmp_path / "a.json"), tokenizer=partial(WordPiece, vocab_size=100), validation_fraction=0
        ).open()


def test_a_cursor_continues_in_the_middle_of_a_file(nested: str) -> None:
    data = QuestionAnswering(train=nested)
    whole = list(data.rows([Cursor([nested, nested])]))
    assert len(whole) == 10
    for stop in range(1, 10):
        cursor = Cursor([nested, nested])
        rows = data.rows([cursor])
        first = [next(rows) for _ in range(stop)]
        rest = list(data.rows([Cursor([nested, nested], cursor.mark())]))
        assert first + rest == whole


def test_preparation_resumes_after_a_kill(nested: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_preparation, "PROGRESS_ROWS", 1)
    monkeypatch.setattr(split_preparation, "_COMMIT_BYTES", 0)
    data = QuestionAnswering(train=[nested, nested], tokenizer=WORDS, validation_fraction=0)
    codec = QuestionAnswering(train=nested, tokenizer=WORDS, validation_fraction=0).open().codec
    add, calls = DatasetWriter.add, []

    def killed(self: Any, *rest: Any) -> None:
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        add(self, *rest)

    monkeypatch.setattr(DatasetWriter, "add", killed)
    with pytest.raises(KeyboardInterrupt):
        data.open(codec)
    rows = data.open(codec).splits["train"]
    assert [rows.raw(row)["id"] for row in range(len(rows))] == ["q1", "q2", "q3", "q4", "q5"] * 2
    assert len(calls) < 7 + 11  # it did not begin anew


def test_the_kind_is_kept_with_a_run_and_a_row_without_answer_has_none(nested: str, tmp_path: Path) -> None:
    data = QuestionAnswering(train=nested, tokenizer=WORDS, validation_fraction=0)
    codec = data.open().codec
    save_codec(codec, tmp_path / "run")
    again = load_codec(data, tmp_path / "run")
    assert again.info == codec.info and again.info["answer"].kind == "span" and again.info["answer"].of == "context"
    example = encode_example(again, {"question": "Who won?", "context": "The Broncos."})
    assert example["answer"].tolist() == [] and len(example["context"]) == 3


def test_spans_are_imagined_within_their_text() -> None:
    info, rng = QuestionAnswering(train="a.json").declare(), np.random.default_rng(0)
    spans = [info.synthetic_example(rng, 5) for _ in range(200)]
    found = {tuple(example["answer"].tolist()) for example in spans}
    assert () in found and found - {()} <= {(a, b) for a in range(5) for b in range(a, 5)} and len(found) > 10


def test_long_contexts_keep_large_positions(tmp_path: Path) -> None:
    """Positions beyond 65,535 are not truncated to two bytes."""
    text = "x" * 70_000 + " end"
    (tmp_path / "a.json").write_text(json.dumps(squad((text, [asked(1, "q", text, "end")]))))
    rows = (
        QuestionAnswering(train=str(tmp_path / "a.json"), tokenizer=Byte, validation_fraction=0, max_length=80_000)
        .open()
        .splits["train"]
    )
    assert rows[0]["answer"].tolist() == [70_001, 70_003]


def test_published_tokenizers_find_answers(nested: str, tmp_path: Path) -> None:
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the denver bronco ##s won super - bowl 50 , in 2016 . cafe was closed paris"
    (tmp_path / "vocab.txt").write_text(words.replace(" ", "\n") + "\n")
    corpus = QuestionAnswering(
        train=nested, tokenizer=partial(PretrainedTokenizer, from_=str(tmp_path / "vocab.txt")), validation_fraction=0
    ).open()
    assert answers(corpus) == ["Denver Broncos", "2016", "", "The café", "Paris"]
