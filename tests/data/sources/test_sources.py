"""What each source makes of its files, and its messages about invalid ones."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from weft.core.contracts import Corpus
from weft.core.example import Targets
from weft.core.fields import Special
from weft.core.registry import option_parameters
from weft.data import (
    BPE,
    AutoencodingText,
    Character,
    LabeledText,
    MultipleChoice,
    ParallelText,
    PlainText,
    QuestionAnswering,
    SentencePairs,
    TaggedText,
    Word,
)
from weft.data.ledger import Ledger
from weft.data.tag_schemes import entities


def write(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


def raws(corpus: Corpus, split: str = "train") -> list[dict[str, str]]:
    return [corpus.splits[split].raw(row) for row in range(len(corpus.splits[split]))]


def texts(corpus: Corpus, split: str = "train", field: str = "text") -> list[str]:
    return [raw[field] for raw in raws(corpus, split)]


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[str, str]:
    source = write(tmp_path / "a.de", "".join(f"zeile {i}\n" for i in range(60)))
    return source, write(tmp_path / "a.en", "".join(f"line no {i}\n" for i in range(60)))


@pytest.fixture
def table(tmp_path: Path) -> str:
    rows = "".join(f'a "{"good" if i % 3 else "bad"} film {i}\t{i % 3 and 1}\n' for i in range(60))
    return write(tmp_path / "t.tsv", "sentence\tlabel\n" + rows)


@pytest.fixture
def conll(tmp_path: Path) -> str:
    return write(
        tmp_path / "c.conll",
        "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\n\n"
        "Peter\tNNP\tI-NP\tI-PER\nBonn NNP B-NP I-LOC\nHamburg NNP I-NP B-LOC\n\n\n#1 CD I-NP O\n",
    )


# ------------------------------------------------------------------------------------------------------------ all of them

KINDS = {"plain": PlainText, "mirrored": AutoencodingText, "pairs": ParallelText, "table": LabeledText, "conll": TaggedText}


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_cannot_be_read(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    good = write(tmp_path / "p", "some text\nmore\n") if kind in ("plain", "mirrored") else request.getfixturevalue(kind)

    def give(file: Any) -> Any:
        return (file, file) if kind == "pairs" else file

    bad = {"table": b"sentence\tlabel\nfine\t1\n", "conll": b"a O\n\n"}.get(kind, b"x\ny\n")
    wrong = {
        str(tmp_path / "missing.txt"): r"missing\.txt: file not found",
        write(tmp_path / "invalid.txt", bad + b"b\xe4d\t0\n"): r"invalid\.txt:3: .*byte 0xe4 is not valid UTF-8",
        write(tmp_path / "empty.txt", ""): r"empty\.txt: the file is empty",
        write(tmp_path / "blank.txt", "\ufeff\n \r\n"): r"blank\.txt: no row has text",
    }
    for file, message in wrong.items():
        for files in ({"train": give(file)}, {"train": good, "valid": give(file)}, {"train": good, "test": give(file)}):
            data = KINDS[kind](**files, tokenizer=Character, validation_fraction=0)
            data.declare()  # opens nothing
            with pytest.raises(ValueError, match=message):
                data.open()


def test_options_have_types_that_a_recipe_can_check() -> None:
    files = TypeAdapter(option_parameters(ParallelText)["train"].annotation)
    assert files.validate_json('["a.de", "a.en"]', strict=True) == ("a.de", "a.en")
    assert files.validate_json('"a.tsv"', strict=True) == "a.tsv"
    with pytest.raises(ValueError, match="Field required"):
        files.validate_json('["a.de"]', strict=True)


# ------------------------------------------------------------------------------------------------------------- plain text


def test_plain_text(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "".join(f"line {i} of a text\n" for i in range(100)))
    data = PlainText(train=file, tokenizer=partial(Character, vocab_size=50), max_length=40)
    declared = data.declare()
    assert (declared["text"].vocab, declared["text"].max_length, declared.target, declared.data) == (50, 40, "text", "plain-text")
    corpus = data.open()
    field = corpus.codec.info["text"]
    assert field.vocab == corpus.codec.tokenizers["text"].vocab <= 50 and field.max_length == 40
    train = corpus.splits["train"]
    for row in range(len(train)):
        assert corpus.codec.decode("text", train[row]["text"].tolist()) == train.raw(row)["text"]
        assert corpus.codec.encode("text", train.raw(row)["text"]).tolist() == train[row]["text"].tolist()


def test_long_lines_are_split_and_empty_ones_left_out(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "abcdefghijklmnop\n\n  \nabcdefg\nabcdef\n\n")
    corpus = PlainText(train=file, tokenizer=Character, max_length=7, validation_fraction=0).open()
    assert texts(corpus) == ["abcdefg", "hijklmn", "op", "abcdefg", "abcdef"]
    assert corpus.splits["train"].lengths["text"].tolist() == [7, 7, 2, 7, 6]
    ledger = corpus.ledger["train"]
    assert (ledger["rows"], ledger["tokens"], ledger["empty rows"], ledger["split rows"]) == (5, 29, 3, 1)


def test_lines_paragraphs_and_files_of_folders(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / ".git").mkdir()
    write(folder / "b.txt", "one\ntwo\n\n\nthree")
    write(folder / "inner" / "c.txt", "\nfour\r\n")
    write(folder / ".git" / "hidden", "no")
    more = write(tmp_path / "more", "five\n")
    data = partial(PlainText, train=[str(folder), more], tokenizer=Character, validation_fraction=0)
    assert texts(data().open()) == ["one", "two", "three", "four", "five"]
    assert texts(data(unit="paragraph").open()) == ["one\ntwo", "three", "four", "five"]
    assert texts(data(unit="file").open()) == ["one\ntwo\n\n\nthree", "four", "five"]
    assert data(unit="paragraph").open().ledger["train"]["rows read"] == 4
    bad = write(tmp_path / "bad", b"a\nb\n\nc\nd\n\xff\n\ne\n")
    with pytest.raises(ValueError, match=r"bad:4: line 6: byte 0xff is not valid UTF-8"):
        PlainText(train=bad, unit="paragraph", tokenizer=Character, validation_fraction=0).open()
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"none: the folder has no files"):
        PlainText(train=str(tmp_path / "none")).open()


# ---------------------------------------------------------------------------------------------------------- parallel text


def test_parallel_text_with_one_vocabulary(pairs: tuple[str, str]) -> None:
    data = ParallelText(train=pairs, valid=pairs, test=list(pairs), tokenizer=partial(BPE, vocab_size=60))  # pyright: ignore[reportArgumentType]
    declared = data.declare()
    assert {f.space for f in declared.fields.values()} == {"text"} and declared["source"].vocab == 60
    corpus = data.open()
    assert set(corpus.splits) == {"train", "valid", "test"} and len(corpus.splits["train"]) == 60
    info = corpus.codec.info
    assert list(info.fields) == ["source", "target"] and info.target == "target" and info.data == "parallel-text"
    assert info["source"].vocab == info["target"].vocab == corpus.codec.tokenizers["text"].vocab
    row = corpus.splits["train"][3]
    assert corpus.codec.decode("source", row["source"].tolist()) == "zeile 3"
    assert corpus.codec.decode("target", row["target"].tolist()) == "line no 3"
    assert corpus.splits["train"].raw(3) == {"source": "zeile 3", "target": "line no 3"}
    assert not {Special.bos, Special.eos} & {*row["source"].tolist(), *row["target"].tolist()}


def test_parallel_text_with_two_vocabularies(pairs: tuple[str, str]) -> None:
    data = ParallelText(train=pairs, tokenizer=Character, target_tokenizer=partial(Word, vocab_size=500))
    assert {n: (f.space, f.vocab) for n, f in data.declare().fields.items()} == {
        "source": ("source", 1000),
        "target": ("target", 500),
    }
    corpus = data.open()
    tokenizers = corpus.codec.tokenizers
    assert isinstance(tokenizers["source"], Character) and isinstance(tokenizers["target"], Word)
    assert corpus.codec.info["source"].vocab == tokenizers["source"].vocab
    assert corpus.codec.info["target"].vocab == tokenizers["target"].vocab
    assert "line" in tokenizers["target"].names and "n" not in "".join(tokenizers["source"].names[7:])


def test_parallel_text_in_a_table(tmp_path: Path) -> None:
    file = write(tmp_path / "f.tsv", 'id\tde\ten\n1\tein "Haus\tone "house\n2\tzwei\t\n3\tdrei\tthree\n')
    corpus = ParallelText(train=file, source="de", target="en", tokenizer=Character, validation_fraction=0).open()
    assert raws(corpus) == [{"source": 'ein "Haus', "target": 'one "house'}, {"source": "drei", "target": "three"}]
    assert corpus.ledger["train"]["empty rows"] == 1
    with pytest.raises(ValueError, match=r"f\.tsv:1: no column 'source'; available: id, de, en; name it with the option source"):
        ParallelText(train=file, tokenizer=Character).open()


def test_parallel_files_must_match(tmp_path: Path, pairs: tuple[str, str]) -> None:
    for content in ("one\ntwo\n", "one\ntwo"):
        short = write(tmp_path / "short.en", content)
        with pytest.raises(ValueError, match=r"a\.de has 60 lines, but .*short\.en has 2"):
            ParallelText(train=(pairs[0], short)).open()
        with pytest.raises(ValueError, match=r"short\.en has 2 lines, but .*a\.de has 60"):
            ParallelText(train=(short, pairs[0])).open()
    for wrong in ((pairs[0],), (*pairs, pairs[0])):
        with pytest.raises(ValueError, match=rf"valid must be two files, \[source, target\], or one table, not {len(wrong)}"):
            ParallelText(train=pairs, valid=wrong)  # pyright: ignore[reportArgumentType]


def test_pairs_with_an_empty_side_are_left_out_and_long_ones_cut(tmp_path: Path) -> None:
    source = write(tmp_path / "s", "abc\n\nabcdef\nab\n")
    target = write(tmp_path / "t", "x\nx\nxxxxx\n \n")
    data = partial(ParallelText, train=(source, target), tokenizer=Character, max_length=4, validation_fraction=0)
    corpus = data().open()
    assert raws(corpus) == [{"source": "abc", "target": "x"}, {"source": "abcdef", "target": "xxxxx"}]
    assert corpus.codec.decode("source", corpus.splits["train"][1]["source"].tolist()) == "abcd"
    ledger = corpus.ledger["train"]
    assert (ledger["empty rows"], ledger["truncated rows"], ledger["tokens lost"]) == (2, 1, 3)
    with pytest.raises(ValueError, match=r"s:3: source has 6 tokens, more than max_length 4"):
        data(on_overflow="error").open()
    assert len(data(on_overflow="error", max_length=6).open().splits["train"]) == 2
    nothing = write(tmp_path / "n", "\n\n\nx\n")
    with pytest.raises(ValueError, match=r"n, .*t: no row has text"):
        ParallelText(train=(nothing, target)).open()


# ----------------------------------------------------------------------------------------------------------- labeled text


def test_labeled_text(table: str) -> None:
    data = LabeledText(train=table, valid=table, tokenizer=Character)
    declared = data.declare()
    assert declared["label"].classes == 2 and declared["label"].kind == "label"
    corpus = data.open()
    label = corpus.codec.info["label"]
    assert label.labels == ("0", "1") and label.classes == 2 and corpus.codec.info.data == "labeled-text"
    train = corpus.splits["train"]
    assert len(train) == 60 and set(train.lengths) == {"text"}
    assert train.raw(0) == {"text": 'a "bad film 0', "label": "0"} and train[0]["label"] == 0
    assert train.raw(1) == {"text": 'a "good film 1', "label": "1"} and train[1]["label"] == 1
    assert corpus.codec.decode("text", train[1]["text"].tolist()) == 'a "good film 1'


def test_the_same_table_in_three_formats(tmp_path: Path) -> None:
    rows = [("x, y", "a"), ('say "no"', "b"), ("z", "a")]
    tsv = "body\tclass\n" + "".join(f"{text}\t{label}\n" for text, label in rows)
    quoted = [(text.replace('"', '""'), label) for text, label in rows]
    csv = "class,body\n" + "".join(f'{label},"{text}"\n' for text, label in quoted)
    jsonl = "".join(json.dumps({"body": text, "class": label}) + "\n" for text, label in rows)
    for name, content in (("f.tsv", tsv), ("f.csv", csv), ("f.jsonl", jsonl)):
        data = LabeledText(train=write(tmp_path / name, content), tokenizer=Character, validation_fraction=0)
        assert [(raw["text"], raw["label"]) for raw in raws(data.open())] == rows
    bare = write(tmp_path / "g.tsv", tsv.split("\n", 1)[1])
    named = LabeledText(train=bare, column_names=("text", "label"), tokenizer=Character, validation_fraction=0)
    assert [(raw["text"], raw["label"]) for raw in raws(named.open())] == rows


def test_several_labels_a_row(tmp_path: Path) -> None:
    lines = ["text\tlabels", "x\tred| blue", "y\t", "z\tgreen", "w\tred|red"]
    data = LabeledText(
        train=write(tmp_path / "f.tsv", "\n".join(lines)), label_type="multiple", tokenizer=Character, validation_fraction=0
    )
    assert data.declare()["label"].kind == "labels"
    corpus = data.open()
    assert corpus.codec.info["label"].labels == ("blue", "green", "red")
    assert [corpus.splits["train"][row]["label"].tolist() for row in range(4)] == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    objects = ['{"text": "x", "label": ["red", "blue"]}', '{"text": "y", "label": []}', '{"text": "z", "label": "green|red"}']
    corpus = LabeledText(
        train=write(tmp_path / "f.jsonl", "\n".join(objects)), label_type="multiple", tokenizer=Character, validation_fraction=0
    ).open()
    assert [corpus.splits["train"][row]["label"].tolist() for row in range(3)] == [[1, 0, 1], [0, 0, 0], [0, 1, 1]]


def test_numbers_as_answers(tmp_path: Path) -> None:
    file = write(tmp_path / "f.tsv", "text\tscore\nx\t2.5\ny\tmuch\nz\t-1\n")
    data = partial(LabeledText, train=file, label_type="number", tokenizer=Character, validation_fraction=0)
    assert data().declare()["label"].kind == "number"
    with pytest.raises(ValueError, match=r"f\.tsv:3: column 'label' must be a number, not 'much'"):
        data().open()
    corpus = data(on_bad_row="skip").open()
    assert [corpus.splits["train"][row]["label"] for row in range(2)] == [2.5, -1.0]


def test_labels_in_order(tmp_path: Path, table: str) -> None:
    file = write(tmp_path / "f", "text\tlabel\n" + "".join(f"x{i}\t{i}\n" for i in range(12)))
    assert LabeledText(train=file, tokenizer=Character).open().codec.info["label"].labels == tuple(map(str, range(12)))
    given = LabeledText(train=table, labels=("1", "2", "0"), tokenizer=Character)
    assert given.declare()["label"].classes == 3 and given.declare()["label"].labels == ("1", "2", "0")
    train = given.open().splits["train"]
    assert all(train[r]["label"] == {"1": 0, "0": 2}[train.raw(r)["label"]] for r in range(len(train)))
    for wrong in (("1", "1"), ("1",)):
        with pytest.raises(ValueError, match="at least two distinct class names"):
            LabeledText(train=table, labels=wrong)
    with pytest.raises(ValueError, match="labels names classes, but label_type is number"):
        LabeledText(train=table, labels=("1", "2"), label_type="number")
    with pytest.raises(ValueError, match="separator must not be empty"):
        LabeledText(train=table, separator="")


def test_a_rare_class_is_known_even_if_held_out(tmp_path: Path) -> None:
    rows = "".join(f"x{i}\tc{i}\n" for i in range(30))
    corpus = LabeledText(train=write(tmp_path / "f", "text\tlabel\n" + rows), tokenizer=Character, validation_fraction=0.3).open()
    assert corpus.codec.info["label"].classes == 30 and len(corpus.splits["valid"]) == 9


def test_long_texts_are_cut_or_split(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "text\tlabel\nabcdef\ta\nab\tb\n")
    data = partial(LabeledText, train=file, tokenizer=Character, max_length=3, validation_fraction=0)
    corpus = data().open()
    assert corpus.splits["train"].lengths["text"].tolist() == [3, 2] and corpus.ledger["train"]["truncated rows"] == 1
    with pytest.raises(ValueError, match=r"f:2: text has 6 tokens, more than max_length 3"):
        data(on_overflow="error").open()
    assert [(raw["text"], raw["label"]) for raw in raws(data(on_overflow="split").open())] == [
        ("abc", "a"),
        ("def", "a"),
        ("ab", "b"),
    ]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\tb\nx\t1\n", {}, r"f:1: no column 'text' or 'sentence' .*; available: a, b"),
        ("text\tlabel\nx\t1\n", {"text": "body"}, r"f:1: no column 'body'"),
        ("text\tlabel\nx\t1\n\ny\t0\tz\n", {}, r"f:4: 3 columns, but the header has 2 \(text, label\)"),
        ("text\tlabel\nx\t1\ny\n", {}, r"f:3: 1 columns, but the header has 2"),
        ("text\tlabel\nx\t1\ny\t \n", {}, r"f:3: label is empty"),
        ("text\tlabel\nx\t1\ny\t1\n", {}, r"f: every row has the label '1'; at least two classes are needed"),
        ("text\tlabel\n", {}, r"f: no row has text: .*below the header"),
        ("text\tlabel\nx\t1\ny\t0\n", {"labels": ("1", "2")}, r"f:3: unknown label '0'; known: 1, 2"),
        (
            "text\tlabel\nx\t1\tz\n",
            {"on_bad_row": "skip"},
            r"f: no usable row: 1 malformed, the first: .*f:2: 3 columns",
        ),
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, content: str, options: dict[str, Any], message: str) -> None:
    file = write(tmp_path / "f", content)
    with pytest.raises(ValueError, match=message):
        LabeledText(train=file, tokenizer=Character, validation_fraction=0, **options).open()


def test_a_label_seen_only_in_validation(tmp_path: Path, table: str) -> None:
    valid = write(tmp_path / "v.tsv", "sentence\tlabel\nfine\t1\n\nodd\t7\n")
    with pytest.raises(ValueError, match=r"v\.tsv:4: unknown label '7'; known: 0, 1"):
        LabeledText(train=table, valid=valid, tokenizer=Character).open()
    corpus = LabeledText(train=table, valid=valid, tokenizer=Character, on_bad_row="skip").open()
    assert texts(corpus, "valid") == ["fine"] and corpus.ledger["valid"]["malformed rows"] == 1
    assert corpus.ledger["valid"]["first malformed rows"] == [f"{valid}:4: unknown label '7'; known: 0, 1"]


# ------------------------------------------------------------------------------------------------------------ tagged text


def test_tagged_text(conll: str) -> None:
    data = TaggedText(train=conll, validation_fraction=0)
    corpus = data.open()
    assert texts(corpus) == ["EU rejects German", "Peter Bonn Hamburg", "#1"]
    assert texts(corpus, field="tags") == ["B-ORG O B-MISC", "B-PER B-LOC B-LOC", "O"]
    assert corpus.ledger["train"]["comment lines"] == 0 and corpus.ledger["train"]["document marks"] == 1
    info = corpus.codec.info
    assert info["tags"].labels == ("B-LOC", "B-MISC", "B-ORG", "B-PER", "O") and info["text"].words
    tags = corpus.splits["train"][1]["tags"]
    assert isinstance(tags, Targets) and tags.of == "text" and tags.at.tolist() == [0, 1, 2] and tags.ids.tolist() == [3, 0, 0]


def conllu(*numbered: str) -> str:
    """Lines of ten columns: a number, a word and its tag."""
    rows = [entry.split() for entry in numbered]
    return "".join("\t".join([number, word, word, tag, *"______"]) + "\n" for number, word, tag in rows) + "\n"


def test_multiword_tokens_and_empty_nodes_of_conllu_are_no_words(tmp_path: Path) -> None:
    sentences = [("1-2 zum _", "1 zu ADP", "2 dem DET", "3 Haus NOUN", "3.1 gehen VERB"), ("0.1 es PRON", "1 regnet VERB")]
    file = write(tmp_path / "a.conllu", "".join(conllu(*sentence) for sentence in sentences))
    corpus = TaggedText(train=file, validation_fraction=0, word_column=1, tag_column=3, scheme=None).open()
    assert texts(corpus) == ["zu dem Haus", "regnet"] and texts(corpus, field="tags") == ["ADP DET NOUN", "VERB"]
    assert corpus.ledger["train"]["multiword tokens and empty nodes"] == 3
    request = TaggedText(train=file, word_column=1, tag_column=3)
    assert [row.cells for row in request.inputs([request.cursor([file])])] == [{"text": "zu dem Haus"}, {"text": "regnet"}]


def test_numbers_in_other_layouts_are_words(tmp_path: Path) -> None:
    """Ten columns that start with a word, which is a number here; and numbered lines of three columns."""
    words = write(tmp_path / "a.conll", conllu("1 a X", "2-3 b X", "1.5 c Y"))
    assert texts(TaggedText(train=words, validation_fraction=0, tag_column=3, scheme=None).open()) == ["1 2-3 1.5"]
    short = write(tmp_path / "b.conll", "1\ta\tX\n2-3\tb\tY\n\n")
    assert texts(TaggedText(train=short, validation_fraction=0, word_column=1, scheme=None).open()) == ["a b"]
    scores = write(tmp_path / "c.conll", conllu("0.5 a X", "1.5 b Y"))
    assert texts(TaggedText(train=scores, validation_fraction=0, word_column=1, scheme=None, tag_column=3).open()) == ["a b"]


def test_a_number_sign_is_a_word_unless_comments_is_set(tmp_path: Path) -> None:
    file = write(tmp_path / "f.conll", "#\tO\nUlm\tB-LOC\n\n#\tO\n\n#tag\tO\n\n")
    for comments in (False, True):  # the tabs make columns
        assert texts(TaggedText(train=file, validation_fraction=0, comments=comments).open()) == ["# Ulm", "#", "#tag"]
    universal = write(tmp_path / "u", "# sent_id = 1\n#newpar\n1\tUlm\tPROPN\n2\t#\tSYM\n\n")
    with pytest.raises(ValueError, match=r"u:1: .*first line has 4|u:1: line 2: 1 columns"):
        TaggedText(train=universal, validation_fraction=0, word_column=1, scheme=None).open()
    corpus = TaggedText(train=universal, validation_fraction=0, word_column=1, scheme=None, comments=True).open()
    assert texts(corpus) == ["Ulm #"] and corpus.ledger["train"]["comment lines"] == 2


def test_schemes_are_understood(tmp_path: Path) -> None:
    written = {
        "iob1": "I-PER I-PER B-PER O I-LOC",
        "iob2": "B-PER I-PER B-PER O B-LOC",
        "bioes": "B-PER E-PER S-PER O S-LOC",
    }
    for own in written:
        file = write(tmp_path / own, "".join(f"w{n} {tag}\n" for n, tag in enumerate(written[own].split())))
        for scheme, expected in written.items():
            corpus = TaggedText(train=file, validation_fraction=0, scheme=scheme).open()  # pyright: ignore[reportArgumentType]
            assert texts(corpus, field="tags") == [expected]
        assert entities(written[own].split()) == [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 5)]
    plain = write(tmp_path / "pos", "a DET\nb NOUN\n")
    assert texts(TaggedText(train=plain, validation_fraction=0, scheme=None).open(), field="tags") == ["DET NOUN"]
    with pytest.raises(ValueError, match=r"pos:1: .*DET.*set scheme: null"):
        TaggedText(train=plain, validation_fraction=0).open()


def test_sentences_that_are_wrong(tmp_path: Path, conll: str) -> None:
    file = write(tmp_path / "f", "a X O\nb X B-P\n\nc X O\nalone\nd X O\n\ne X O\n")
    with pytest.raises(ValueError, match=r"f:4: line 5: 1 columns, but word_column is 0 and tag_column is the last"):
        TaggedText(train=file, validation_fraction=0).open()
    short = write(tmp_path / "s", "a X B-NP O\nb X B-NP\n")  # or a chunk would be taken for an entity
    with pytest.raises(ValueError, match=r"s:1: line 2: 3 columns, but the first line has 4"):
        TaggedText(train=short, validation_fraction=0).open()
    wide = write(tmp_path / "w", "New\u00a0York X B-LOC\nis X O\n")
    assert texts(TaggedText(train=wide, validation_fraction=0).open()) == ["New\u00a0York is"]
    corpus = TaggedText(train=file, validation_fraction=0, on_bad_row="skip").open()
    assert texts(corpus) == ["a b", "e"] and corpus.ledger["train"]["malformed rows"] == 1
    with pytest.raises(ValueError, match=r"c\.conll:3: line 3: 4 columns, but word_column is 0 and tag_column is 4"):
        TaggedText(train=conll, tag_column=4).open()
    assert texts(TaggedText(train=conll, tag_column=1, word_column=1, scheme=None, validation_fraction=0).open()) == [
        "NNP VBZ JJ",
        "NNP NNP NNP",
        "CD",
    ]


def test_pieces_of_long_sentences_have_whole_words_and_their_tags(tmp_path: Path) -> None:
    words = ["low", "lower", "lowest", "new", "newer"] * 6
    file = write(tmp_path / "f", "".join(f"{w} {'B-X' if n % 3 == 0 else 'O'}\n" for n, w in enumerate(words)) + "\nx O\n")
    corpus = TaggedText(train=file, tokenizer=partial(BPE, vocab_size=20), max_length=10, validation_fraction=0).open()
    rows = raws(corpus)
    assert " ".join(row["text"] for row in rows).split() == [*words, "x"] and len(rows) > 3
    for number, row in enumerate(rows):
        example = corpus.splits["train"][number]
        assert len(row["text"].split()) == len(row["tags"].split()) == len(example["tags"].at)
        assert [corpus.codec.info["tags"].labels[i] for i in example["tags"].ids] == row["tags"].split() and len(
            example["text"]
        ) <= 10
    short = TaggedText(
        train=file, tokenizer=partial(BPE, vocab_size=20), max_length=10, validation_fraction=0, on_overflow="truncate"
    ).open()
    first = raws(short)[0]
    assert len(first["text"].split()) == len(first["tags"].split()) == len(short.splits["train"][0]["tags"].at) < len(words)
    assert short.ledger["train"]["tokens lost"] > 0


def test_words_are_spelled(conll: str) -> None:
    corpus = TaggedText(train=conll, validation_fraction=0, tokenizer=partial(Word, split="whitespace", max_characters=8)).open()
    example = corpus.splits["train"][0]["text"]
    letters = corpus.codec.tokenizers["text"].tokens(example.marks["characters"][2].tolist())
    assert corpus.codec.info["text"].characters > 7 and "".join(x for x in letters if x != "<pad>") == "German"


# --------------------------------------------------------------------------------------------------------- sentence pairs


def test_sentence_pairs(tmp_path: Path) -> None:
    file = write(tmp_path / "f.tsv", "premise\thypothesis\tlabel\n a b\tc \tyes\nd\t\tno\ne\tf\tno\n")
    corpus = SentencePairs(train=file, tokenizer=Character, validation_fraction=0).open()
    assert raws(corpus) == [{"first": "a b", "second": "c", "label": "yes"}, {"first": "e", "second": "f", "label": "no"}]
    assert list(corpus.codec.info.fields) == ["first", "second", "label"] and corpus.splits["train"][0]["label"] == 1
    bare = write(tmp_path / "g.tsv", "0.5\tu\tv\n1\tc\td\n")
    given = SentencePairs(
        train=bare,
        column_names=("score", "one", "two"),
        first="one",
        second="two",
        label_type="number",
        tokenizer=Character,
        validation_fraction=0,
    )
    corpus = given.open()
    assert [corpus.splits["train"][row]["label"] for row in range(2)] == [0.5, 1.0]
    with pytest.raises(ValueError, match=r"g\.tsv:1: no column 'first' or 'sentence1'.*; available: 0\.5, u, v"):
        SentencePairs(train=bare).open()


# ------------------------------------------------------------------------------------------ nothing is dropped silently

CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\ufeff"), min_size=1, max_size=12)
LABEL = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)
WHITE_SPACE = "\n\r\t\0\ufeff \x0b\x0c\x1c\x1d\x1e\x1f\x85"
WORD = st.text(st.characters(exclude_categories=["Cs", "Z"], exclude_characters=WHITE_SPACE), min_size=1, max_size=6)


def read_back(source: Any, *fields: str) -> tuple[list[tuple[str, ...]], dict[str, int]]:
    """The cells of the usable rows of the training files, and what was counted."""
    groups = source.files(source.paths["train"])
    ledger = Ledger([file for group in groups for file in group])
    cursors = [source.cursor(group, (0, 0, 0), ledger.counts) for group in groups]
    found = [tuple(row.cells[name] for name in fields) for row in source.usable_rows(cursors, ledger)]
    return found, ledger.counts


def table_file(path: Path, names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table by the suffix of its name."""
    if path.suffix == ".jsonl":
        return write(path, "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    if path.suffix == ".tsv":
        return write(path, "".join("\t".join(row) + "\n" for row in (names, *rows)))
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([names, *rows])
    return write(path, stream.getvalue())


@given(
    rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6),
    kind=st.sampled_from(["tsv", "csv", "json", "jsonl", ";", "pairs"]),
)
@settings(max_examples=200, deadline=None)
def test_every_cell_is_read_as_written_or_counted(
    rows: list[tuple[str, str]], kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("f")
    options: dict[str, Any] = {"validation_fraction": 0}
    if kind in ("json", "jsonl"):
        objects = [json.dumps({"source": a, "target": b}, ensure_ascii=False) for a, b in rows]
        text = "[" + ", ".join(objects) + "]" if kind == "json" else "\n".join(objects)
        source = ParallelText(train=write(folder / f"a.{kind}", text), **options)
    elif kind == "pairs":
        sides = [write(folder / str(n), "".join(row[n] + "\n" for row in rows)) for n in (0, 1)]
        source = ParallelText(train=(sides[0], sides[1]), **options)
    elif kind == "tsv":
        text = "source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in rows)
        source = ParallelText(train=write(folder / "a.tsv", text), **options)
    else:
        stream = io.StringIO()
        table = csv.writer(stream, delimiter=";" if kind == ";" else ",", quoting=csv.QUOTE_ALL, lineterminator="\n")
        table.writerows([("source", "target"), *rows])
        options |= {"delimiter": ";", "quoted": True} if kind == ";" else {}
        source = ParallelText(train=write(folder / ("a.txt" if kind == ";" else "a.csv"), stream.getvalue()), **options)
    found, counts = read_back(source, "source", "target")
    kept = [row for row in rows if all(cell.strip() for cell in row)]
    assert found == kept
    assert counts["rows read"] == len(rows) and counts["empty rows"] == len(rows) - len(kept)


@given(
    sentences=st.lists(
        st.lists(st.one_of(WORD, st.sampled_from(["#", "#tag", "-DOCSTART-"])), min_size=1, max_size=5), max_size=5
    ),
    separator=st.sampled_from([" ", "\t"]),
)
@settings(max_examples=200, deadline=None)
def test_every_token_is_read_or_counted(
    sentences: list[list[str]], separator: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = "".join("".join(f"{word}{separator}O\n" for word in sentence) + "\n" for sentence in sentences)
    file = write(tmp_path_factory.mktemp("f") / "a.conll", text)
    found, counts = read_back(TaggedText(train=file, scheme=None, validation_fraction=0), "text", "tags")
    marks = sum(sentence.count("-DOCSTART-") for sentence in sentences)
    assert [word for words, _ in found for word in words.split(" ")] == [w for s in sentences for w in s if w != "-DOCSTART-"]
    assert all(len(words.split(" ")) == len(tags.split(" ")) for words, tags in found)
    assert counts["document marks"] == marks and not counts["comment lines"] and not counts["malformed rows"]


@given(
    rows=st.lists(st.tuples(CELL, LABEL), min_size=1, max_size=6),
    kind=st.sampled_from(["label-first", "fasttext", "class", "lines"]),
)
@settings(max_examples=200, deadline=None)
def test_every_line_is_read_as_written_or_counted(
    rows: list[tuple[str, str]], kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("f")
    if kind == "lines":
        source: Any = PlainText(train=write(folder / "a", "".join(f"{text}\n" for text, _ in rows)))
        expected = [(text,) for text, _ in rows if text.strip()]
    elif kind == "class":
        files = {label: write(folder / label, "".join(f"{text}\n" for text, _ in rows)) for label in ("one", "two")}
        source = LabeledText(train=files)
        expected = [(text, label) for label in files for text, _ in rows if text.strip()]
    else:
        mark = "__label__" if kind == "fasttext" else ""
        rows = [(text.replace("__label__", ""), label) for text, label in rows]
        text = "".join(f"{mark}{label} {text}\n" for text, label in rows)
        source = LabeledText(train=write(folder / "a", text), format="fasttext" if mark else "label-first")
        expected = [(text.strip(), label) for text, label in rows if text.strip()]
    found, counts = read_back(source, *(["text"] if kind == "lines" else ["text", "label"]))
    assert [tuple(cell.strip() for cell in row) for row in found] == [tuple(cell.strip() for cell in row) for row in expected]
    assert kind not in ("lines", "class") or found == expected
    assert counts["rows read"] == len(rows) * (2 if kind == "class" else 1)
    assert counts["empty rows"] == counts["rows read"] - len(expected) and not counts["malformed rows"]


@given(rows=st.lists(st.tuples(CELL, CELL, LABEL), min_size=1, max_size=6), kind=st.sampled_from(["tsv", "csv", "jsonl"]))
@settings(max_examples=200, deadline=None)
def test_every_pair_is_read_as_written_or_counted(
    rows: list[tuple[str, str, str]], kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found, counts = read_back(
        SentencePairs(train=table_file(tmp_path_factory.mktemp("f") / f"a.{kind}", ("first", "second", "label"), rows)),
        *("first", "second", "label"),
    )
    kept = [row for row in rows if all(cell.strip() for cell in row)]
    assert [tuple(cell.strip() for cell in row) for row in found] == [tuple(cell.strip() for cell in row) for row in kept]
    assert counts["rows read"] == len(rows)
    assert counts["empty rows"] + counts["malformed rows"] == len(rows) - len(kept)


@given(
    rows=st.lists(st.tuples(CELL, st.lists(CELL, min_size=2, max_size=4), st.integers(0, 1)), min_size=1, max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_every_question_is_read_with_all_its_choices_or_counted(
    rows: list[tuple[str, list[str], int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    objects = [{"question": question, "choices": choices, "answer": "AB"[correct]} for question, choices, correct in rows]
    file = write(tmp_path_factory.mktemp("f") / "a.jsonl", "".join(json.dumps(each) + "\n" for each in objects))
    found, counts = read_back(MultipleChoice(train=file, on_bad_row="skip"), "question", "choices", "label")
    kept = [row for row in rows if row[0].strip() and all(choice.strip() for choice in row[1])]
    assert [
        (question.strip(), [choice.strip() for choice in choices.split("\t")], label) for question, choices, label in found
    ] == [(question.strip(), [choice.strip() for choice in choices], "AB"[correct]) for question, choices, correct in kept]
    assert counts["rows read"] == len(rows) == len(kept) + counts["empty rows"] + counts["malformed rows"]


@given(rows=st.lists(st.tuples(CELL, CELL, CELL, CELL), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_every_question_is_read_with_its_context_or_counted(
    rows: list[tuple[str, str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    paragraphs = []
    for n, (question, before, answer, after) in enumerate(rows):
        answers = [{"text": answer, "answer_start": len(before)}]
        paragraphs.append({"context": before + answer + after, "qas": [{"id": str(n), "question": question, "answers": answers}]})
    file = write(tmp_path_factory.mktemp("f") / "a.json", json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}))
    found, counts = read_back(QuestionAnswering(train=file, on_bad_row="skip"), "question", "context", "answer")
    assert counts["rows read"] == len(rows) == len(found) + counts["empty rows"] + counts["malformed rows"]
    kept = [row for row in rows if row[0].strip() and row[2].strip()]
    assert [(question.strip(), context.strip()) for question, context, _ in found] == [
        (question.strip(), (before + answer + after).strip()) for question, before, answer, after in kept
    ]


@given(rows=st.lists(CELL, min_size=1, max_size=6), by_class=st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_text_is_both_sides_of_an_autoencoder_or_counted(
    rows: list[str], by_class: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("f")
    files = [write(folder / name, "".join(f"{text}\n" for text in rows)) for name in ("one", "two")]
    source = AutoencodingText(train=dict(zip("ab", files, strict=True)) if by_class else files, duplicates="keep")
    found, counts = read_back(source, "source", "target")
    kept = [text.strip() for text in rows if text.strip()] * 2
    assert found == [(text, text) for text in kept]
    assert counts["rows read"] == 2 * len(rows) == len(kept) + counts["empty rows"]
