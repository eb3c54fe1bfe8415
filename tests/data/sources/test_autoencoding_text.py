"""Autoencoding text: source and target are one text in their own ids; classes by file or column; dropped texts are counted."""

from __future__ import annotations

import json
import random
import re
import string
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from weft.core.contracts import Corpus, Data
from weft.core.fields import Special
from weft.core.registry import option_parameters
from weft.data import BPE, AutoencodingText, ByteBPE, Character, PretrainedTokenizer, Word, cache, load_codec, save_codec
from weft.data.ledger import COUNTS
from weft.recipe import RecipeError, from_plain
from weft.recipe.parser import RecipeParser

WORDS = ["the", "food", "staff", "was", "very", "good", "bad", "unbelievable", "caf\u00e9", ",", "\U0001f600", "at", "Joe's"]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for each test."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


def raws(corpus: Corpus, split: str = "train") -> list[dict[str, str]]:
    return [corpus.splits[split].raw(row) for row in range(len(corpus.splits[split]))]


def texts(corpus: Corpus, split: str = "train") -> list[str]:
    return [raw["source"] for raw in raws(corpus, split)]


def counted(corpus: Corpus, *names: str, split: str = "train") -> tuple[int, ...]:
    return tuple(corpus.ledger[split][name] for name in names)


@pytest.fixture
def two(tmp_path: Path) -> dict[str, Any]:
    """A file for each of two classes."""
    rng = random.Random(1)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in range(60)]
    good, bad = (write(tmp_path / name, "".join(f"{t}\n" for t in some)) for name, some in (("g", lines[:40]), ("b", lines[40:])))
    return {"positive": good, "negative": bad}


@pytest.fixture
def bert(tmp_path: Path) -> str:
    """A vocabulary as BERT has it."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "food", "staff", "was", "very", "good", "bad", "at", "cafe"]
    return write(tmp_path / "vocab.txt", "\n".join([*pieces, "un", "##believ", "##able", "joe", "'", "s", ","]))


# ------------------------------------------------------------------------------------------------------------ both sides


def test_a_text_is_read_by_one_tokenizer_and_written_by_another(two: dict[str, Any], bert: str) -> None:
    reads, writes = partial(PretrainedTokenizer, from_=bert), partial(ByteBPE, vocab_size=400)
    data = AutoencodingText(train=two, tokenizer=reads, target_tokenizer=writes, validation_fraction=0.2)
    assert {f.name: f.space for f in data.declare().texts()} == {"source": "source", "target": "target"}
    assert data.declare()["label"].kind == "label"
    corpus = data.open()
    info, codec = corpus.codec.info, corpus.codec
    assert (info.target, info.data, info["label"].labels) == ("target", "autoencoding-text", ("negative", "positive"))
    assert (info["source"].vocab, info["source"].special.cls) == (21, 2) and info["target"].special == Special()
    above = 0
    for split in ("train", "valid"):
        for row, raw in enumerate(raws(corpus, split)):
            example = corpus.splits[split][row]
            assert codec.decode("target", example["target"].tolist()) == raw["target"] == raw["source"]
            assert example["source"].tolist() == codec.tokenizers["source"].encode(raw["source"])
            assert example["target"].tolist() == codec.tokenizers["target"].encode(raw["source"])
            assert example["source"].max() < 21 and example["target"].max() < info["target"].vocab
            assert info["label"].labels[example["label"]] == raw["label"]
            above += bool(example["target"].max() >= 21)  # else the two spaces could not be told apart
    assert above > 30
    lines = {name: set(Path(file).read_text().splitlines()) for name, file in two.items()}
    everything = raws(corpus) + raws(corpus, "valid")
    assert {name: {raw["target"] for raw in everything if raw["label"] == name} for name in two} == lines


def test_the_source_may_have_word_ids(two: dict[str, Any], bert: str, tmp_path: Path) -> None:
    blanks: dict[str, Any] = {
        name: write(tmp_path / f"{name}.txt", Path(file).read_text().replace(" ", "\t")) for name, file in two.items()
    }
    sides = {"tokenizer": partial(PretrainedTokenizer, from_=bert), "target_tokenizer": partial(ByteBPE, vocab_size=400)}
    corpus = AutoencodingText(
        train=blanks, word_ids=True, max_length=12, on_overflow="truncate", validation_fraction=0, **sides
    ).open()
    reads, codec, several = corpus.codec.tokenizers["source"], corpus.codec, 0
    for row, raw in enumerate(raws(corpus)):
        example, words = corpus.splits["train"][row], raw["target"].split()
        source = example["source"]
        assert [source.ids[source.marks["word"] == n + 1].tolist() for n in range(len(words))] == [reads.encode(w) for w in words]
        assert len(source) == len(source.marks["word"]) <= 12 and source.marks["word"].max() == len(words)
        assert codec.decode("target", example["target"].tolist()) == raw["target"] and "\t" in raw["target"]
        several += len(source) > len(words)
    assert several > 10 and counted(corpus, "truncated rows")[0] > 3
    assert (
        corpus.codec.info.synthetic_example(np.random.default_rng(0))["source"].marks["word"].max() < 10
    )  # what `weft check` makes up


def test_one_vocabulary_for_both_sides(two: dict[str, Any]) -> None:
    data = AutoencodingText(
        train=[two["positive"], two["negative"]], tokenizer=partial(BPE, vocab_size=90), validation_fraction=0
    )
    assert {f.space for f in data.declare().fields.values()} == {"text"} and list(data.declare().fields) == ["source", "target"]
    corpus = data.open()
    train = corpus.splits["train"]
    for row in range(len(train)):
        assert train[row]["source"].tolist() == train[row]["target"].tolist()
        assert corpus.codec.decode("target", train[row]["target"].tolist()) == train.raw(row)["target"]
        assert set(train.raw(row)) == {"source", "target"} == set(train[row])


def test_the_same_rows_every_time_and_from_a_runs_own_codec(two: dict[str, Any], tmp_path: Path, cache_folder: Path) -> None:
    def content(corpus: Corpus) -> Any:
        rows = {name: [split[row] for row in range(len(split))] for name, split in corpus.splits.items()}
        return {name: [(e["source"].tolist(), e["target"].tolist(), e["label"]) for e in some] for name, some in rows.items()}

    data = AutoencodingText(train=two, tokenizer=Word, target_tokenizer=Character, validation_fraction=0.3)
    first = data.open()
    cache_folder.rename(tmp_path / "away")
    second = data.open()
    assert content(second) == content(first) and second.ledger == first.ledger
    save_codec(first.codec, tmp_path / "run")
    assert content(data.open(load_codec(data, tmp_path / "run"))) == content(first)


def test_tables_and_lines_by_their_endings(tmp_path: Path) -> None:
    lines = write(tmp_path / "f.txt", "a\tb , c\n  spaced  out \n\n")
    tsv = write(tmp_path / "f.tsv", "id\ttext\n1\tfrom a table\n")
    csv = write(tmp_path / "f.csv", 'text,id\n"two\nlines",2\n')
    objects = write(tmp_path / "f.jsonl", json.dumps({"body": "an object"}) + "\n")
    data = AutoencodingText(train=[lines, tsv, csv, objects], tokenizer=Character, validation_fraction=0)
    assert texts(data.open()) == ["a\tb , c", "spaced  out", "from a table", "two\nlines", "an object"]
    named = AutoencodingText(train=tsv, text="id", tokenizer=Character, validation_fraction=0)
    assert texts(named.open()) == ["1"]
    with pytest.raises(ValueError, match=r"f\.tsv:1: no column 'body'; available: id, text; name it with the option text"):
        AutoencodingText(train=tsv, text="body", tokenizer=Character, validation_fraction=0).open()


def test_a_published_tokenizer_whose_files_are_missing(two: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    data = AutoencodingText(train=two, target_tokenizer=partial(PretrainedTokenizer, from_=str(tmp_path / "empty")))
    with pytest.raises(ValueError, match=r"empty.*(tokenizer\.json|vocab)"):
        data.declare()


# --------------------------------------------------------------------------------------------------------------- classes


def test_classes_from_a_column(tmp_path: Path) -> None:
    rows = [("x y", "b"), ("z", " a "), ("w", "b"), ("v", "a")]
    file = write(tmp_path / "f.tsv", "text\tkind\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    data = partial(AutoencodingText, train=file, tokenizer=Character, validation_fraction=0)
    assert data(label="kind").declare()["label"].classes == 2
    corpus = data(label="kind").open()
    assert [(raw["source"], raw["label"]) for raw in raws(corpus)] == [(text, label.strip()) for text, label in rows]
    assert [corpus.splits["train"][row]["label"] for row in range(4)] == [1, 0, 1, 0]
    assert "label" not in data().declare() and "label" not in data().open().codec.info
    with pytest.raises(ValueError, match=r"f\.tsv:1: no column 'class'; available: text, kind"):
        data(label="class").open()


def test_splits_may_be_files_by_class_and_tables(two: dict[str, Any], tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv", "text\tlabel\nvery good\tpositive\nvery bad\tnegative\n")
    corpus = AutoencodingText(train=two, valid=table, test=table, tokenizer=Character).open()
    assert [raw["label"] for raw in raws(corpus, "valid")] == ["positive", "negative"]
    other = AutoencodingText(train=table, label="label", valid=two, tokenizer=Character).open()
    assert {raw["source"]: raw["label"] for raw in raws(other, "train")} == {"very good": "positive", "very bad": "negative"}
    assert {raw["label"] for raw in raws(other, "valid")} == set(two)
    half = write(tmp_path / "h.tsv", "text\tlabel\nvery good\tpositive\n")
    assert len(AutoencodingText(train=two, test=half, tokenizer=Character).open().splits["test"]) == 1  # as other files may be
    odd = write(tmp_path / "o.tsv", "text\tlabel\nvery good\tpositive\nfair\tmixed\n")
    with pytest.raises(ValueError, match=r"o\.tsv:3: unknown label 'mixed'; known: negative, positive"):
        AutoencodingText(train=two, valid=odd, tokenizer=Character).open()
    with pytest.raises(
        ValueError, match=r"f: the lines have no label; give a table .* \{positive: good\.txt, negative: bad\.txt\}"
    ):
        AutoencodingText(train=two, test=write(tmp_path / "f", "very good\n"), tokenizer=Character).open()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"train": {"a": "f"}},
            r"train has one class \(a\); give the files of two or more classes, or a list without classes: \[",
        ),
        ({"train": {}}, r"train has no class; give the files of two or more"),
        ({"train": {"a": "f", "b": []}}, r"train has no files for the class 'b'"),
        ({"train": {"a": "f", " ": "g"}}, r"train has a class ' '; a class name must be a non-blank text"),
        ({"train": {0: "f", 1: "g"}}, r"train has a class 0; a class name must be a non-blank text"),
        (
            {"train": {"type": "f", "b": "g"}},
            r"train has a class 'type'; override all classes at once, train: \{one: file, another: f",
        ),
        (
            {"train": {"a": "f", "b": "g"}, "valid": {"c": "f", "b": "g"}},
            r"valid has files for the classes b, c, but train for a, b; they must be the same",
        ),
        ({"train": {"a": "f", "b": "g"}, "test": {"a": "f"}}, r"test has one class \(a\)"),
        ({"train": "f", "valid": {"a": "f", "b": "g"}}, r"valid has files by class, but train has none; .* with label"),
        (
            {"train": "f", "min_words": 5, "max_words": 4},
            r"min_words is 5, more than max_words 4; lower min_words",
        ),
    ],
)
def test_choices_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AutoencodingText(**options)


def test_a_class_of_blank_lines(two: dict[str, Any], tmp_path: Path) -> None:
    blank = write(tmp_path / "blank.txt", "\n  \n")
    with pytest.raises(ValueError, match=r"no example of the class 'negative': \S*blank\.txt has only blank lines"):
        AutoencodingText(train={**two, "negative": blank}, tokenizer=Character).open()


def test_a_class_without_examples(two: dict[str, Any], tmp_path: Path) -> None:
    empty = write(tmp_path / "empty.txt", "")
    one = write(tmp_path / "one.txt", "more words than are allowed here\n")
    for split, message in {
        "train": r"train has no example of the class 'negative': \S*empty\.txt is empty",
        "valid": r"valid has no example of the class 'negative': \S*empty\.txt is empty",
        "test": r"test has no example of the class 'negative': \S*empty\.txt is empty",
    }.items():
        options: dict[str, Any] = {"train": two, "valid": two, split: {**two, "negative": empty}}
        for _ in range(2):  # also when the rows are in the cache
            with pytest.raises(ValueError, match=message):
                AutoencodingText(**options, tokenizer=Character).open()
    with pytest.raises(
        ValueError,
        match=r"valid has no example of the class 'negative': all of its texts are dropped \(1 have more than 5 words\); "
        r"change min_words or max_words, or set on_overflow: truncate$",
    ):
        AutoencodingText(
            train=two, valid={**two, "negative": one}, min_words=1, max_words=5, tokenizer=Character, duplicates="keep"
        ).open()
    table = write(tmp_path / "v.tsv", "text\tlabel\nvery good\tpositive\n")
    with pytest.raises(
        ValueError, match=r"valid has no example of the class 'negative': add rows of every class \(1 rows are us"
    ):
        AutoencodingText(train=two, valid=table, tokenizer=Character).open()
    rare = write(tmp_path / "rare.txt", "once\n")
    message = (
        r"(train has no example of the class 'rare': all|valid has .* 'rare': none) of its texts \(1\) are held out; set valid$"
    )
    with pytest.raises(ValueError, match=message):
        AutoencodingText(train={**two, "rare": rare}, tokenizer=Character, validation_fraction=0.2).open()
    same = write(tmp_path / "same.tsv", "text\tlabel\nx\ta\ny\ta\n")
    with pytest.raises(ValueError, match=r"same\.tsv: every row has the label 'a'; at least two classes are needed"):
        AutoencodingText(train=same, label="label", tokenizer=Character).open()


def test_the_cause_that_a_class_has_no_examples_comes_first(two: dict[str, Any], tmp_path: Path) -> None:
    """Texts of the wrong length, whatever is held out; and tables as files by class."""
    long = write(tmp_path / "long.txt", "".join(f"{'x' * 50} {i} is far too long for it\n" for i in range(9)) + "a\n")
    build = partial(AutoencodingText, train={**two, "negative": long}, tokenizer=Character)
    start = r"^train has no example of the class 'negative': all of its texts "
    words = r"are dropped \(1 have fewer than 2 words and 9 have more than 7 words\); change min_words or max_words, "
    words += r"or set on_overflow: truncate$"
    with pytest.raises(ValueError, match=start + words):
        build(min_words=2, max_words=7).open()
    rows = [(text, label) for label, file in {**two, "negative": long}.items() for text in Path(file).read_text().splitlines()]
    table = write(tmp_path / "all.tsv", "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows]))
    with pytest.raises(ValueError, match=start.replace("train", "valid") + words):
        AutoencodingText(train=two, valid=table, min_words=2, max_words=7, tokenizer=Character).open()
    with pytest.raises(
        ValueError, match=start + r"\(9\) have more than 60 tokens; raise max_length, or set on_overflow: truncate$"
    ):
        build(min_words=2, max_words=40, max_length=60, validation_fraction=0).open()
    with pytest.raises(ValueError, match=start + r"\(9\) have more than 40 tokens; raise max_length$"):
        build(min_words=2, max_words=40, max_length=40, validation_fraction=0, on_overflow="truncate").open()


def test_a_share_is_named_that_leaves_every_class_on_both_sides(tmp_path: Path) -> None:
    """What it names does; where it names none, none of the usual ones does."""
    named = 0
    for seed in range(12):
        rng = random.Random(seed)
        good = [f"good {rng.random()}" for _ in range(rng.choice([8, 40]))]
        bad = [f"bad {rng.random()}" for _ in range(rng.choice([2, 4, 8]))]
        train: dict[str, Any] = {
            name: write(tmp_path / f"{name}{seed}", "\n".join(some)) for name, some in (("good", good), ("bad", bad))
        }
        build = partial(AutoencodingText, train=train, tokenizer=Character)
        for share in (0.05, 0.5):
            try:
                build(validation_fraction=share).open()
            except ValueError as error:
                found = re.fullmatch(
                    r"(train has no example .* all|valid has no example .* none) of its texts \(\d\) are held out; set valid"
                    r"(, or another fraction \(data\.validation_fraction=(\S+) works\))?",
                    str(error),
                )
                assert found, error
                if found[2]:
                    build(validation_fraction=float(found[3])).open()
                    named += 1
                    continue
                for other in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
                    with pytest.raises(ValueError, match="has no example"):
                        build(validation_fraction=other).open()
    assert named > 5


def test_without_classes_the_message_names_the_options(tmp_path: Path) -> None:
    """Also to a network that is given one of its texts alone, and as often as it is asked; what is there has no hint."""
    table = write(tmp_path / "all.tsv", "text\tlabel\n" + "".join(f"so good {i}\tyes\nso bad {i}\tno\n" for i in range(20)))
    build = partial(AutoencodingText, train=table, tokenizer=Character)
    how = r"needs a field 'label', but .* has: .*; to add it, name the column of labels in the tables \(data.label=label\), or"
    for info in (build().declare(), build().open().codec.info, build().declare().single_text("source")):
        with pytest.raises(ValueError, match=how):
            info["label"]
        with pytest.raises(ValueError, match=r"needs a field 'image', but .* has: [\w, ]+$"):
            info["image"]
    info = build(label="label", validation_fraction=0.2).open().codec.info
    assert info["label"].labels == ("no", "yes")


def test_a_file_is_of_one_class(two: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = two["positive"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    for same in (file, "g", f"{tmp_path}/other/../g", ["b", "g"], "other"):
        with pytest.raises(
            ValueError, match=rf"train has {file} for the classes 'positive' and 'negative'; a file belongs to one class"
        ):
            AutoencodingText(train={"positive": file, "negative": same})
    with pytest.raises(ValueError, match=r"valid has \S*nowhere for the classes 'one' and 'two'; a file belongs to one class"):
        AutoencodingText(train={"one": "g", "two": "b"}, valid={"one": "nowhere", "two": "nowhere"})
    AutoencodingText(train={"one": ["g", "g"], "two": "b"}, valid={"one": "g", "two": "b"})


# ---------------------------------------------------------------------------------------------- what is left out and cut


def test_texts_of_several_classes_are_counted(tmp_path: Path) -> None:
    own = {"good": "a b\nc d\na b\ne f\n", "bad": "a b\ng h\n", "so-so": "a b\ne f\n"}
    files: Any = {name: write(tmp_path / f"{name}.txt", lines) for name, lines in own.items()}
    corpus = AutoencodingText(train=files, tokenizer=Word, validation_fraction=0).open()
    assert counted(corpus, "texts in several classes", "duplicate rows", "rows") == (2, 1, 7)
    with pytest.raises(ValueError, match="train has a class ' good'; remove the spaces around the name"):
        AutoencodingText(train={" good": files["good"], "good": files["bad"]})


def test_short_long_and_repeated_texts(tmp_path: Path) -> None:
    one = write(tmp_path / "1", "a\na b\n\na b c d e\n a b\na b c\nb c\n")
    two = write(tmp_path / "2", "a b\na b c d\nx  y z\nx  y z\nb c\n")
    data = partial(
        AutoencodingText, train={"one": one, "two": two}, min_words=2, max_words=3, tokenizer=Character, validation_fraction=0
    )
    corpus = data().open()
    assert [(r["source"], r["label"]) for r in raws(corpus)] == [
        ("a b", "one"),
        ("a b c", "one"),
        ("b c", "one"),
        ("a b", "two"),
        ("x  y z", "two"),
        ("b c", "two"),
    ]
    assert {name: count for name, count in corpus.ledger["train"].items() if count} == {
        "rows read": 12,
        "empty rows": 1,
        "short rows": 1,
        "long rows": 2,
        "duplicate rows": 2,
        "texts in several classes": 2,
        "rows": 6,
        "tokens": 46,
        "rows checked by decoding": 6,
    }
    kept = data(duplicates="keep").open()
    assert counted(kept, "duplicate rows", "rows") == (0, 8) and texts(kept).count("a b") == 3
    cut = data(on_overflow="truncate").open()
    assert counted(cut, "truncated rows", "words lost", "duplicate rows", "long rows", "rows") == (2, 3, 3, 0, 7)
    assert [r["label"] for r in raws(cut) if r["target"] == "a b c"] == ["one", "two"]  # a cut text comes before the uncut one
    with pytest.raises(ValueError, match=r"1:4: the text has 5 words, more than max_words 3; .* on_overflow to drop or truncate"):
        data(on_overflow="error").open()
    without = AutoencodingText(train=[one, two], min_words=2, max_words=3, tokenizer=Character, validation_fraction=0).open()
    assert counted(without, "duplicate rows") == (4,) and sorted(texts(without)) == ["a b", "a b c", "b c", "x  y z"]


@pytest.mark.parametrize(
    "sides", [(Word, partial(ByteBPE, vocab_size=264)), (partial(BPE, vocab_size=40), Character), (Character, None)]
)
def test_both_sides_are_cut_after_the_same_word(tmp_path: Path, sides: tuple[Any, Any]) -> None:
    rng = random.Random(2)
    lines = ["  ".join(rng.choices([*WORDS, string.ascii_letters], k=rng.randint(1, 14))) for _ in range(200)]
    file = write(tmp_path / "f", "".join(f"{line}\n" for line in dict.fromkeys(lines)))
    options: dict[str, Any] = {"min_words": 2, "max_words": 11, "max_length": 20, "validation_fraction": 0, "duplicates": "keep"}
    data = AutoencodingText(train=file, tokenizer=sides[0], target_tokenizer=sides[1], on_overflow="truncate", **options)
    corpus = data.open()
    codec, train = corpus.codec, corpus.splits["train"]

    def fits(words: list[str]) -> bool:
        return all(len(codec.encode(side, "  ".join(words))) <= 20 for side in ("source", "target"))

    cut = lost = left = 0
    wanted: list[str] = []
    for line in dict.fromkeys(lines):
        words = line.split()
        if len(words) < 2:
            continue
        most = next(n for n in range(min(len(words), 11), -1, -1) if fits(words[:n]))
        if most < 2:
            left += 1
            continue
        cut, lost = cut + (most < len(words)), lost + len(words) - most
        wanted.append("  ".join(words[:most]))
    assert texts(corpus) == wanted and cut > 20 and left
    for row, raw in enumerate(raws(corpus)):
        assert codec.decode("target", train[row]["target"].tolist()) == raw["target"] == raw["source"]
        assert train[row]["source"].tolist() == codec.encode("source", raw["source"]).tolist()
    assert counted(corpus, "truncated rows", "words lost", "long rows") == (cut, lost, left)
    assert max(train.lengths["source"].max(), train.lengths["target"].max()) <= 20
    whole = AutoencodingText(train=file, tokenizer=sides[0], target_tokenizer=sides[1], **options).open(codec)
    assert texts(whole) == [line for line in dict.fromkeys(lines) if 2 <= len(line.split()) <= 11 and fits(line.split())]
    read, empty, short, long, rows = counted(whole, "rows read", "empty rows", "short rows", "long rows", "rows")
    assert read - empty - short - long == rows and long > cut / 2 and counted(whole, "truncated rows", "words lost") == (0, 0)


def test_a_text_too_long_for_one_side_is_an_error_if_wanted(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "a b\nabcdefg b\n")
    data = partial(AutoencodingText, train=file, tokenizer=Word, target_tokenizer=Character, max_length=6, validation_fraction=0)
    with pytest.raises(ValueError, match=r"f:2: target has 9 tokens, more than max_length 6; raise max_length, shorten the row"):
        data(on_overflow="error").open()
    assert texts(data().open()) == ["a b"] and counted(data().open(), "long rows") == (1,)


def test_nothing_is_left(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "a\na b c\na b d\n")
    with pytest.raises(ValueError, match=r"f: no row left for train: of 3 rows, 1 short rows and 2 long rows were dropped"):
        AutoencodingText(train=file, min_words=2, max_words=2, tokenizer=Character).open()
    with pytest.raises(ValueError, match=r"f: no row left for train: of 3 rows, 3 long rows were dropped"):
        AutoencodingText(train=file, tokenizer=Character, target_tokenizer=Byte0, max_length=1, validation_fraction=0).open()


class Byte0(Character):
    """Two ids for a character."""

    def encode_batch(self, texts: Any) -> list[list[int]]:
        return [ids * 2 for ids in super().encode_batch(texts)]


def test_equal_texts_stay_together_whatever_their_class(tmp_path: Path) -> None:
    lines = [f"text number {i}" for i in range(50)]
    files: dict[str, Any] = {name: write(tmp_path / name, "".join(f"{line}\n" for line in lines * 2)) for name in ("a", "b")}
    for repeats, number in (("drop", 100), ("keep", 200)):
        corpus = AutoencodingText(train=files, tokenizer=Word, duplicates=repeats, validation_fraction=0.3).open()  # pyright: ignore[reportArgumentType]
        train, valid = set(texts(corpus)), set(texts(corpus, "valid"))
        assert not train & valid and len(train | valid) == 50 and len(texts(corpus)) + len(texts(corpus, "valid")) == number


# ------------------------------------------------------------------------------------------------------------------ keys


def test_which_file_has_which_class_is_part_of_the_key(tmp_path: Path, cache_folder: Path) -> None:
    one, two = write(tmp_path / "1", "a\nb\n"), write(tmp_path / "2", "c\nd\n")
    data = partial(AutoencodingText, tokenizer=Character, validation_fraction=0)

    def kept() -> int:
        return len([folder for folder in cache_folder.iterdir() if folder.is_dir()])

    first = data(train={"x": one, "y": two}).open()
    before = kept()
    assert raws(data(train={"y": two, "x": one}).open()) == raws(first) and kept() == before
    turned = data(train={"y": one, "x": two}).open()
    assert [(r["source"], r["label"]) for r in raws(turned)] == [("c", "x"), ("d", "x"), ("a", "y"), ("b", "y")]
    assert data(train={"x": one, "z": two}).open().codec.info["label"].labels == ("x", "z")
    assert "label" not in data(train=[one, two]).open().codec.info


def test_what_is_left_out_is_not_learned_from(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "a b\nc\nd e f\n")
    names: dict[str, set[str]] = {}
    for how in ("drop", "truncate"):
        corpus = AutoencodingText(
            train=file, min_words=2, max_words=2, on_overflow=how, tokenizer=Character, validation_fraction=0
        ).open()  # pyright: ignore[reportArgumentType]
        names[how] = set(corpus.codec.tokenizers["text"].names[7:]) - {" "}  # pyright: ignore[reportAttributeAccessIssue]
    assert names == {"drop": set("ab"), "truncate": set("abde")}


# --------------------------------------------------------------------------------------------------------------- recipes


def test_files_by_class_have_a_type_that_a_recipe_can_check() -> None:
    files = TypeAdapter(option_parameters(AutoencodingText)["train"].annotation)
    for written in ('"a"', '["a", "b"]', '{"x": "a", "y": ["b", "c"]}'):
        assert files.validate_json(written, strict=True) == json.loads(written)


def read(options: dict[str, Any], folder: Path, files: bool = True) -> Any:
    parser = RecipeParser(folder, files)
    found = parser.part(Data, from_plain({"type": "autoencoding-text", **options}, "r.yaml:1"), "data")
    return found.keywords if found is not None else [f"{p.path}: {p.text}" for p in parser.problems]


def test_files_by_class_in_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    for name in ("a", "b"):
        write(tmp_path / name, "x\n")
    a, b, digest = (
        str((tmp_path / "a").resolve()),
        str((tmp_path / "b").resolve()),
        "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac",
    )
    hashed = {"path": "a", "sha256": digest}
    assert read({"train": {"x": "a", "y": ["a", "b"]}}, tmp_path)["train"] == {"x": a, "y": [a, b]}
    assert read({"train": {"x": hashed, "y": [hashed]}}, tmp_path)["train"] == {"x": a, "y": [a]}
    assert read({"train": hashed}, tmp_path)["train"] == a
    gone = {"path": str(tmp_path / "gone"), "sha256": digest}
    assert read({"train": gone}, tmp_path, files=False)["train"] == str((tmp_path / "gone").resolve())  # a run without its data
    for written, expected in {
        "a number": ({"x": 3, "y": "b"}, ["data.train.x: must be the path of a file, not 3"]),
        "in a list": ({"x": ["a", 3], "y": "b"}, ["data.train.x.1: must be the path of a file, not 3"]),
        "not there": (
            {"x": "a", "y": "c"},
            [f"data.train.y: there is no file {tmp_path.resolve() / 'c'} (WEFT_DATA, a second folder to search, is not set)"],
        ),
        "changed": (
            {"path": "a", "sha256": "0" * 64},
            [f"data.train: {a} is not the file of this recipe: its SHA-256 is {digest[:12]}..., not 000000000000..."],
        ),
        "changed in a class": (
            {"x": "a", "y": {"path": "a", "sha256": "0" * 64}},
            [f"data.train.y: {a} is not the file of this recipe: its SHA-256 is {digest[:12]}..., not 000000000000..."],
        ),
    }.values():
        assert read({"train": written}, tmp_path) == expected
    assert read({"train": 3}, tmp_path) == ["data.train: must be the path of a file, not 3"]
    with pytest.raises(RecipeError, match=r"r\.yaml:1: data: train has one class \(x\)"):
        RecipeParser(tmp_path).part(Data, from_plain({"type": "autoencoding-text", "train": {"x": "a"}}, "r.yaml:1"), "data")()


def test_the_ledgers_counts_are_explained() -> None:
    assert {"short rows", "long rows", "duplicate rows", "words lost"} <= set(COUNTS)
