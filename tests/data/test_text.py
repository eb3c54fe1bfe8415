from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from weft.batch import Special
from weft.catalog import choices
from weft.data import BPE, Character, LabelledText, ParallelText, PlainText, Word
from weft.data.table import read_lines
from weft.slots import Corpus


def write(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    return write(tmp_path / "plain.txt", "".join(f"line {i} of a text\n" for i in range(100)))


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[str, str]:
    source = write(tmp_path / "a.de", "".join(f"zeile {i}\n" for i in range(60)))
    return source, write(tmp_path / "a.en", "".join(f"line no {i}\n" for i in range(60)))


@pytest.fixture
def table(tmp_path: Path) -> str:
    rows = "".join(f'a "{"good" if i % 3 else "bad"} film {i}\t{i % 3 and 1}\n' for i in range(60))
    return write(tmp_path / "t.tsv", "sentence\tlabel\n" + rows)


def texts(corpus: Corpus, split: str, field: str = "text") -> list[str]:
    data = corpus.splits[split]
    return [data.raw(row)[field] for row in range(len(data))]


# --------------------------------------------------------------------------------------------------------- reading


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    file = write(tmp_path / "f", "\ufeffone\r\ntwo\u2028still two\x0c\r\n\r\nfour")
    assert read_lines(file, counts) == ["one", "two\u2028still two\x0c", "", "four"]
    assert counts == {"byte-order marks removed": 1, "Windows line ends removed": 3}
    assert read_lines(write(tmp_path / "g", "a\n\n"), Counter()) == ["a", ""]


@pytest.mark.parametrize("make", ["plain", "pairs", "table"])
def test_files_that_cannot_be_read(make: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    good = request.getfixturevalue(make)
    kind = {"plain": PlainText, "pairs": ParallelText, "table": LabelledText}[make]

    def give(file: Any) -> Any:
        return (good[0], file) if make == "pairs" else file

    missing = str(tmp_path / "missing.txt")
    invalid = write(tmp_path / "invalid.txt", b"sentence\tlabel\nfine\t1\n" + b"b\xe4d\t0\n")
    empty, blank = write(tmp_path / "empty.txt", ""), write(tmp_path / "blank.txt", "\ufeff\n \r\n")
    wrong = {
        missing: "missing.txt: there is no such file",
        invalid: r"invalid.txt:3: byte 0xe4 is not valid UTF-8",
        empty: "empty.txt: the file is empty",
        blank: "blank.txt: the file has only blank lines",
        str(tmp_path): "cannot be read: Is a directory",
    }
    for file, message in wrong.items():
        for files in ({"train": give(file)}, {"train": good, "valid": give(file)}, {"train": good, "test": give(file)}):
            data = kind(**files, tokenizer=Character)
            data.declare()  # opens nothing
            with pytest.raises(ValueError, match=message):
                data.open()


# --------------------------------------------------------------------------------------------------------- hold out


def test_hold_out_is_fixed_counted_and_apart(plain: str) -> None:
    corpus = PlainText(train=plain, tokenizer=Character, hold_out=0.1).open()
    train, valid = texts(corpus, "train"), texts(corpus, "valid")
    assert len(valid) == 10 and len(train) == 90 and set(train) | set(valid) == {f"line {i} of a text" for i in range(100)}
    assert texts(PlainText(train=plain, tokenizer=Character, hold_out=0.1).open(), "valid") == valid
    assert corpus.ledger["train"]["rows held out for validation"] == 10 and corpus.ledger["valid"]["rows"] == 10
    assert valid != [f"line {i} of a text" for i in range(10)]
    assert set(PlainText(train=plain, tokenizer=Character, hold_out=0).open().splits) == {"train"}
    assert "rows held out for validation" not in PlainText(train=plain, valid=plain, tokenizer=Character).open().ledger["train"]


def test_a_text_that_occurs_twice_is_never_on_both_sides(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "".join(f"row {i % 20}\n" for i in range(100)) + "once\n" * 1)
    corpus = PlainText(train=file, tokenizer=Character, hold_out=0.3).open()
    train, valid = texts(corpus, "train"), texts(corpus, "valid")
    assert not set(train) & set(valid) and 25 <= len(valid) <= 30 and len(train) + len(valid) == 101


def test_hold_out_leaves_something_to_train_on(tmp_path: Path) -> None:
    one = write(tmp_path / "one", "only\n")
    same = write(tmp_path / "same", "same\nsame\n")
    for file, share in ((one, 0.05), (same, 0.05), (one, 1.0)):
        with pytest.raises(ValueError, match=rf"holding out {share:g} of \d rows \(1 different ones\).*give valid"):
            PlainText(train=file, tokenizer=Character, hold_out=share).open()
    assert len(PlainText(train=one, tokenizer=Character, hold_out=0).open().splits["train"]) == 1


def test_tokenizers_see_the_training_rows_only(plain: str, tmp_path: Path) -> None:
    other = write(tmp_path / "v", "zzz\n")
    corpus = PlainText(train=plain, valid=other, tokenizer=Character).open()
    assert corpus.splits["valid"][0]["text"].tolist() == [Special.unk] * 3
    assert corpus.ledger["valid"]["unknown tokens"] == 3 and corpus.ledger["valid"]["tokens"] == 3
    assert "unknown tokens" not in corpus.ledger["train"]


# --------------------------------------------------------------------------------------------------------- plain text


def test_plain_text(plain: str) -> None:
    data = PlainText(train=plain, tokenizer=partial(Character, size=50), length=40)
    declared = data.declare()
    assert (declared["text"].vocab, declared["text"].length, declared.target, declared.data) == (50, 40, "text", "plain-text")
    corpus = data.open()
    field = corpus.codec.info["text"]
    assert field.vocab == corpus.codec.tokenizers["text"].vocab <= 50 and field.length == 40
    train = corpus.splits["train"]
    for row in range(len(train)):
        assert corpus.codec.decode("text", train[row]["text"].tolist()) == train.raw(row)["text"]
        assert corpus.codec.encode("text", train.raw(row)["text"]).tolist() == train[row]["text"].tolist()


def test_long_lines_are_split_and_empty_ones_dropped(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "abcdefghijklmnop\n\n  \nabcdefg\nabcdef\n\n")
    corpus = PlainText(train=file, tokenizer=Character, length=7, hold_out=0).open()
    assert texts(corpus, "train") == ["abcdefg", "hijklmn", "op", "abcdefg", "abcdef"]
    assert corpus.splits["train"].lengths["text"].tolist() == [7, 7, 2, 7, 6]
    expected = {"rows": 5, "tokens": 29, "empty rows dropped": 3, "lines split at 7 tokens": 1}
    assert corpus.ledger["train"] == expected


def test_windows_files_are_read_and_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "\ufeffabc\r\nab\r\n")
    corpus = PlainText(train=file, tokenizer=Character, hold_out=0).open()
    assert texts(corpus, "train") == ["abc", "ab"]
    ledger = corpus.ledger["train"]
    assert ledger["Windows line ends removed"] == 2 and ledger["byte-order marks removed"] == 1


# ------------------------------------------------------------------------------------------------------ parallel text


def test_parallel_text_with_one_vocabulary(pairs: tuple[str, str]) -> None:
    data = ParallelText(train=pairs, valid=pairs, test=list(pairs), tokenizer=partial(BPE, size=60))  # pyright: ignore[reportArgumentType]
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
    data = ParallelText(train=pairs, tokenizer=Character, target_tokenizer=partial(Word, size=500))
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


def test_parallel_files_must_match(tmp_path: Path, pairs: tuple[str, str]) -> None:
    short = write(tmp_path / "short.en", "one\ntwo\n")
    with pytest.raises(ValueError, match=r"a\.de has 60 lines, but .*short\.en has 2"):
        ParallelText(train=(pairs[0], short)).open()
    for wrong in (pairs[0], (pairs[0],), (*pairs, pairs[0])):
        with pytest.raises(ValueError, match=r"valid must be two files, \[source, target\]"):
            ParallelText(train=pairs, valid=wrong)  # pyright: ignore[reportArgumentType]


def test_pairs_with_an_empty_side_are_dropped_and_long_ones_cut(tmp_path: Path) -> None:
    source = write(tmp_path / "s", "abc\n\nabcdef\nab\n")
    target = write(tmp_path / "t", "x\nx\nxxxxx\n \n")
    data = partial(ParallelText, train=(source, target), tokenizer=Character, length=4, hold_out=0)
    corpus = data().open()
    train = corpus.splits["train"]
    assert [train.raw(r) for r in range(2)] == [{"source": "abc", "target": "x"}, {"source": "abcdef", "target": "xxxxx"}]
    assert len(train) == 2 and corpus.codec.decode("source", train[1]["source"].tolist()) == "abcd"
    ledger = corpus.ledger["train"]
    assert ledger["empty rows dropped"] == 2
    assert ledger["rows cut to 4 tokens (source)"] == ledger["rows cut to 4 tokens (target)"] == 1
    with pytest.raises(ValueError, match=r"s:3: source has 6 tokens, but length is 4"):
        data(on_overflow="error").open()
    assert len(data(on_overflow="error", length=6).open().splits["train"]) == 2
    nothing = write(tmp_path / "n", "\n\n\nx\n")
    with pytest.raises(ValueError, match=r"n, .*t: no row has any text"):
        ParallelText(train=(nothing, target)).open()


# ------------------------------------------------------------------------------------------------------ labelled text


def test_labelled_text(table: str) -> None:
    data = LabelledText(train=table, valid=table, tokenizer=Character)
    declared = data.declare()
    assert declared["label"].vocab == 2 and declared["label"].kind == "label"
    corpus = data.open()
    label = corpus.codec.info["label"]
    assert label.labels == ("0", "1") and label.vocab == 2 and corpus.codec.info.data == "labelled-text"
    train = corpus.splits["train"]
    assert len(train) == 60 and set(train.lengths) == {"text"}
    assert train.raw(0) == {"text": 'a "bad film 0', "label": "0"} and train[0]["label"] == 0
    assert train.raw(1) == {"text": 'a "good film 1', "label": "1"} and train[1]["label"] == 1
    assert corpus.codec.decode("text", train[1]["text"].tolist()) == 'a "good film 1'


def test_columns_are_found_by_name_and_split_at_tabs_only(tmp_path: Path) -> None:
    file = write(tmp_path / "f", '\ufeffid\tclass\tbody\r\n1\tyes\t"a, b\r\n\r\n2\tno\tc" \r\n3\tno\t\r\n4\tmaybe\tb\r\n')
    corpus = LabelledText(train=file, text="body", label="class", tokenizer=Character, hold_out=0).open()
    train = corpus.splits["train"]
    assert [train.raw(r) for r in range(3)] == [
        {"text": '"a, b', "label": "yes"},
        {"text": 'c" ', "label": "no"},
        {"text": "b", "label": "maybe"},
    ]
    assert corpus.codec.info["label"].labels == ("maybe", "no", "yes") and corpus.ledger["train"]["empty rows dropped"] == 2


def test_labels_in_order(tmp_path: Path, table: str) -> None:
    file = write(tmp_path / "f", "text\tlabel\n" + "".join(f"x{i}\t{i}\n" for i in range(12)))
    assert LabelledText(train=file, tokenizer=Character).open().codec.info["label"].labels == tuple(map(str, range(12)))
    given = LabelledText(train=table, labels=("1", "2", "0"), tokenizer=Character)
    assert given.declare()["label"].vocab == 3 and given.declare()["label"].labels == ("1", "2", "0")
    assert given.open().splits["train"].raw(0)["label"] in "01"
    train = given.open().splits["train"]
    assert all(train[r]["label"] == {"1": 0, "0": 2}[train.raw(r)["label"]] for r in range(len(train)))


def test_a_rare_class_is_known_even_if_held_out(tmp_path: Path) -> None:
    rows = "".join(f"x{i}\tc{i}\n" for i in range(30))
    corpus = LabelledText(train=write(tmp_path / "f", "text\tlabel\n" + rows), tokenizer=Character, hold_out=0.3).open()
    assert corpus.codec.info["label"].vocab == 30 and len(corpus.splits["valid"]) == 9


def test_long_texts_are_cut(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "text\tlabel\nabcdef\ta\nab\tb\n")
    corpus = LabelledText(train=file, tokenizer=Character, length=3, hold_out=0).open()
    assert corpus.splits["train"].lengths["text"].tolist() == [3, 2]
    assert corpus.ledger["train"]["rows cut to 3 tokens (text)"] == 1
    with pytest.raises(ValueError, match=r"f:2: text has 6 tokens, but length is 3"):
        LabelledText(train=file, tokenizer=Character, length=3, hold_out=0, on_overflow="error").open()


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\tb\nx\t1\n", {}, r"f:1: no column 'text' or 'sentence'; the header has: a, b"),
        ("text\tb\nx\t1\n", {}, r"f:1: 0 columns 'label'; the header has: text, b"),
        ("text\tlabel\ttext\nx\t1\ty\n", {}, r"f:1: 2 columns 'text'"),
        ("text\tlabel\nx\t1\n", {"text": "body"}, r"f:1: 0 columns 'body'"),
        ("text\tlabel\nx\t1\n\ny\t0\tz\n", {}, r"f:4: 3 columns, but the header has 2 \(text, label\)"),
        ("text\tlabel\nx\t1\ny\n", {}, r"f:3: 1 columns, but the header has 2"),
        ("text\tlabel\nx\t1\ny\t \n", {}, r"f:3: the column 'label' is empty"),
        ("text\tlabel\nx\t1\ny\t1\n", {}, r"f: all rows have the label '1'"),
        ("text\tlabel\n", {}, r"f: no row has any text"),
        ("text\tlabel\nx\t1\ny\t0\n", {"labels": ("1", "2")}, r"f:3: the label '0' is unknown; labels has: 1, 2"),
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, content: str, options: dict[str, Any], message: str) -> None:
    file = write(tmp_path / "f", content)
    with pytest.raises(ValueError, match=message):
        LabelledText(train=file, tokenizer=Character, hold_out=0, **options).open()


def test_a_label_seen_only_in_validation(tmp_path: Path, table: str) -> None:
    valid = write(tmp_path / "v.tsv", "sentence\tlabel\nfine\t1\n\nodd\t7\n")
    with pytest.raises(ValueError, match=r"v\.tsv:4: the label '7' is unknown; the training file has: 0, 1"):
        LabelledText(train=table, valid=valid, tokenizer=Character).open()
    with pytest.raises(ValueError, match="at least two different names"):
        LabelledText(train=table, labels=("1", "1"))


# ---------------------------------------------------------------------------------------------------------------- all


def test_an_opened_codec_is_used_again(plain: str, table: str, pairs: tuple[str, str], tmp_path: Path) -> None:
    more = write(tmp_path / "more.txt", "quite öther text 0123456789 zyxwv\n" * 3)
    other = write(tmp_path / "more.tsv", "sentence\tlabel\nquite öther\t1\n")
    for kind, first, second in ((PlainText, plain, more), (LabelledText, table, other), (ParallelText, pairs, (more, more))):
        codec = kind(train=first, tokenizer=Character).open().codec
        corpus = kind(train=second, tokenizer=Character, hold_out=0).open(codec)
        assert corpus.codec is codec
        name = codec.info.texts()[0].name
        row = corpus.splits["train"]
        assert row[0][name].tolist() == codec.encode(name, row.raw(0)[name]).tolist() and Special.unk in row[0][name]


def test_options_have_types_that_a_recipe_can_check() -> None:
    from pydantic import TypeAdapter

    files = TypeAdapter(choices(ParallelText)["train"].annotation)
    assert files.validate_json('["a.de", "a.en"]', strict=True) == ("a.de", "a.en")
    with pytest.raises(ValueError, match="Field required"):
        files.validate_json('["a.de"]', strict=True)
    assert "file" in str(choices(PlainText)["train"].annotation)
