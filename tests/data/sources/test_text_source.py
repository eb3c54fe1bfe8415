"""What all sources share: keys and the cache, resuming, holding out, the ledger, near-duplicates."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from weft.core.contracts import Corpus
from weft.core.fields import Special
from weft.core.registry import option_parameters
from weft.data import (
    BPE,
    AutoencodingText,
    Character,
    LabeledText,
    ParallelText,
    PlainText,
    PretrainedTokenizer,
    SentencePairs,
    TaggedText,
    Word,
    cache,
    load_codec,
    save_codec,
)
from weft.data.ledger import COUNTS
from weft.data.prepared import DatasetWriter
from weft.data.sources import cursor, split_preparation, text_source, train_overlap, training_scan
from weft.data.sources.text_source import TextSource

SOURCES: list[type[TextSource]] = [PlainText, ParallelText, LabeledText, TaggedText, SentencePairs, AutoencodingText]


@pytest.fixture(autouse=True)
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for each test."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    return write(tmp_path / "plain.txt", "".join(f"line {i} of a text\n" for i in range(100)))


def texts(corpus: Corpus, split: str, field: str = "text") -> list[str]:
    return [corpus.splits[split].raw(row)[field] for row in range(len(corpus.splits[split]))]


def entries(cached: Path) -> dict[str, dict[str, bytes]]:
    return {folder.name: {f.name: f.read_bytes() for f in folder.iterdir()} for folder in cached.iterdir() if folder.is_dir()}


# -------------------------------------------------------------------------------------------------------------------- keys


def other_value(name: str, value: Any) -> Any:
    """Some other value of an option."""
    known: dict[str, Any] = {
        "tokenizer": partial(Word, vocab_size=77),
        "target_tokenizer": Character,
        "on_overflow": "error",
        "on_bad_row": "skip",
        "unit": "file",
        "label_type": "number",
        "scheme": "bioes",
        "labels": ("a", "b"),
        "column_names": ("text", "label"),
        "tag_column": 2,
        "min_words": 2,
        "max_words": 41,
        "duplicates": "keep",
        "fold": 1,
    }
    return known[name] if name in known else value + 1 if isinstance(value, int | float) else f"{value}x"


@pytest.mark.parametrize("source", SOURCES)
def test_every_option_is_part_of_the_key(source: type[TextSource]) -> None:
    train: Any = ("a", "b") if source is ParallelText else "a"
    key = cache.key_of(source(train=train)._identity())  # pyright: ignore[reportCallIssue]
    assert cache.key_of(source(train=train)._identity()) == key  # pyright: ignore[reportCallIssue]
    for name, parameter in option_parameters(source).items():
        if name not in ("train", "valid", "test"):
            other = source(train=train, **{name: other_value(name, parameter.default)})  # pyright: ignore[reportCallIssue]
            assert cache.key_of(other._identity()) != key, name


def test_a_tokenizers_options_and_files_are_part_of_the_key(tmp_path: Path) -> None:
    def key(tokenizer: Any) -> str:
        return cache.key_of(PlainText(train="a", tokenizer=tokenizer)._identity())

    vocabulary = tmp_path / "vocab.txt"
    write(vocabulary, "[PAD]\n[UNK]\na\nb")
    one = key(partial(PretrainedTokenizer, from_=str(vocabulary)))
    copy = write(tmp_path / "other.txt", "[PAD]\n[UNK]\na\nb")
    assert key(partial(PretrainedTokenizer, from_=copy)) == one
    write(vocabulary, "[PAD]\n[UNK]\nb\na")
    assert key(partial(PretrainedTokenizer, from_=str(vocabulary))) != one
    assert len({key(Word), key(partial(Word, max_characters=5)), key(partial(Word, max_characters=6)), key(BPE)}) == 4


def test_rows_are_found_by_content(tmp_path: Path, plain: str, cached: Path) -> None:
    def open_it(**options: Any) -> Corpus:
        return PlainText(**{"train": plain, "tokenizer": Character, **options}).open()

    first = open_it()
    kept = entries(cached)
    copy = shutil.copy(plain, tmp_path / "copy.txt")
    assert texts(open_it(train=copy), "train") == texts(first, "train") and entries(cached) == kept
    open_it(max_length=7)
    assert len(entries(cached)) == len(kept) + 3  # train, valid and their near-duplicates, but no new study
    write(Path(plain), "something else\n" * 3 + "now")
    assert texts(open_it(validation_fraction=0), "train") == ["something else"] * 3 + ["now"]


def test_endings_are_part_of_the_key(tmp_path: Path) -> None:
    content = "text,a\tlabel\nx,1\tb\ny,2\ta\n"
    as_tsv, as_csv = write(tmp_path / "f.tsv", content), write(tmp_path / "f.csv", content)
    tsv = LabeledText(train=as_tsv, text="text,a", tokenizer=Character, validation_fraction=0).open()
    csv = LabeledText(train=as_csv, text="text", label="a\tlabel", tokenizer=Character, validation_fraction=0).open()
    assert texts(tsv, "train") == ["x,1", "y,2"] and texts(csv, "train") == ["x", "y"]


# ------------------------------------------------------------------------------------------------------------------- cache


def test_a_second_time_nothing_is_made(plain: str, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = PlainText(train=plain).open()
    kept = entries(cached)
    for name in ("scan_training_files", "write_split", "train_tokenizers"):
        monkeypatch.setattr(text_source, name, None)
    monkeypatch.setattr(train_overlap, "near_duplicates", None)
    second = PlainText(train=plain).open()
    assert second.ledger == first.ledger and second.codec.info == first.codec.info
    assert second.splits["train"][3]["text"].tolist() == first.splits["train"][3]["text"].tolist() and entries(cached) == kept


@pytest.mark.parametrize("validation_fraction", [0.1, 0])
def test_a_run_whose_cache_was_deleted_resumes_with_its_codec(
    plain: str, cached: Path, tmp_path: Path, validation_fraction: float
) -> None:
    data = PlainText(train=plain, tokenizer=partial(BPE, vocab_size=40), validation_fraction=validation_fraction)
    first = data.open()
    save_codec(first.codec, tmp_path / "run")
    kept = entries(cached)
    shutil.rmtree(cached)
    codec = load_codec(data, tmp_path / "run")
    second = data.open(codec)
    assert second.codec is codec and second.ledger == first.ledger
    made = entries(cached)
    assert {n: f for n, f in made.items() if "scan.json" not in f} == {n: f for n, f in kept.items() if "scan.json" not in f}
    data.open()  # and the tokenizer is learned again when it is needed
    assert entries(cached) == kept


def test_what_is_damaged_or_of_another_format_is_made_anew(plain: str, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PlainText(train=plain, tokenizer=Character)
    first, kept = data.open(), entries(cached)
    for folder, files in kept.items():
        for name in files:
            if name not in ("duplicates.json", "state.json"):
                (cached / folder / name).write_bytes(files[name][:-1] if name != "scan.json" else b"[]")
    assert data.open().ledger == first.ledger and entries(cached) == kept
    monkeypatch.setattr(text_source, "FORMAT", 99)
    assert data.open().ledger == first.ledger
    assert len(entries(cached)) == 2 * len(kept)


def test_a_folder_that_cannot_be_written(plain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, write(tmp_path / "file", "x"))
    with pytest.raises(ValueError, match=r"cannot write prepared data to .*file: .*; set WEFT_CACHE to a writable folder"):
        PlainText(train=plain).open()
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache.cache_folder() == cache.cache_folder() and os.access(cache.cache_folder(), os.W_OK)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert cache.cache_folder() == tmp_path / "home" / "weft"


def test_a_full_disk_is_reported_and_nothing_is_broken(tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "f", "".join(f"row {i} of many\n" for i in range(20_000)))
    data = PlainText(train=file, tokenizer=Character, validation_fraction=0)
    monkeypatch.setattr(split_preparation, "_COMMIT_BYTES", 50_000)
    data.open()
    kept = entries(cached)
    for most in (20_000, 200_000, 500_000):
        shutil.rmtree(cached)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(ValueError, match=r"cache: File too large; the data cannot be prepared\. Free some space"):
                data.open()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        data.open()
        assert entries(cached) == kept


def test_two_at_once(plain: str, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    write_split = text_source.write_split

    def slow(source: TextSource, folder: Path, name: str, *others: Any) -> None:
        made.append(name)
        time.sleep(0.2)
        write_split(source, folder, name, *others)

    monkeypatch.setattr(text_source, "write_split", slow)
    heard: list[str] = []
    found: list[Corpus] = []

    def work() -> None:
        found.append(PlainText(train=plain, tokenizer=Character).open(progress=lambda text, done, total: heard.append(text)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == ["train", "valid"] and len(found) == 3
    assert all(corpus.ledger == found[0].ledger for corpus in found)
    assert "waiting for another process that prepares this data" in heard


def test_progress_is_told(plain: str) -> None:
    heard: list[tuple[str, int, int]] = []
    PlainText(train=plain, tokenizer=Character).open(progress=lambda *what: heard.append(what))
    assert list(dict.fromkeys(text for text, _, _ in heard)) == [
        "hashing the files",
        "scanning the training files",
        "training the tokenizer of text",
        "preparing train",
        "preparing valid",
        "searching valid for near-duplicates of training",
    ]
    assert all(done <= total for _, done, total in heard if total)


# ---------------------------------------------------------------------------------------------------------------- resuming


class Killed(BaseException):
    pass


def big(tmp_path: Path) -> dict[str, Any]:
    """A source of each kind with its files, some rows of which are odd."""
    rng = random.Random(1)
    words = ["low", "lower", "new", "\u00e4ber", "x" * 30]

    def line() -> str:
        return "" if rng.random() < 0.1 else " ".join(rng.choices(words, k=rng.randint(1, 9)))

    def end() -> bytes:
        return rng.choice([b"\n", b"\r\n"])

    lines = [line() for _ in range(120)]
    plain = b"\xef\xbb\xbf" + b"".join(t.encode() + end() for t in lines[:70])
    more = b"".join(t.encode() + end() for t in lines[70:]) + b"b\xe4d\n"
    table = b"text,label\n" + b"".join(f'"{t}\n{t}",{rng.choice("ab")}{rng.choice(["", ",x"])}\n'.encode() for t in lines)
    conll = "".join("".join(f"{w} {rng.choice(['O', 'I-X'])}\n" for w in t.split()) + "\n" for t in lines).encode() + b"odd\n\n"
    common = {"max_length": 12, "on_bad_row": "skip", "validation_fraction": 0.2}
    pair = (write(tmp_path / "s", plain + more), write(tmp_path / "t", plain + more))
    files = [write(tmp_path / "1", plain), write(tmp_path / "e", ""), write(tmp_path / "2", more)]
    return {
        "plain": PlainText(train=files, tokenizer=Character, **common),
        "paragraph": PlainText(train=files, tokenizer=Character, unit="paragraph", **common),
        "parallel": ParallelText(train=pair, tokenizer=Character, **common),
        "mirrored": AutoencodingText(
            train=files, tokenizer=Character, on_overflow="truncate", min_words=2, max_words=5, **common
        ),
        "classes": AutoencodingText(train={"a": files[:2], "b": files[2]}, tokenizer=Character, on_overflow="truncate", **common),
        "labeled": LabeledText(train=write(tmp_path / "f.csv", table), tokenizer=Character, **common),
        "tagged": TaggedText(train=write(tmp_path / "c", conll), tokenizer=Character, **common),
    }


@pytest.mark.parametrize("name", ["plain", "paragraph", "parallel", "mirrored", "classes", "labeled", "tagged"])
def test_a_killed_preparation_resumes_to_the_same_files(
    name: str, tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_preparation, "PROGRESS_ROWS", 5)
    monkeypatch.setattr(split_preparation, "_COMMIT_BYTES", 300)
    monkeypatch.setattr(cursor, "_BLOCK_BYTES", 50)
    data = big(tmp_path)[name]
    first = data.open()
    assert (
        first.ledger["train"]["malformed rows"] and first.ledger["train"]["split rows"] + first.ledger["train"]["truncated rows"]
    )
    kept = entries(cached)
    rng = random.Random(name)
    calls = 0

    def may_die(method: Any) -> Any:
        def call(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            if rng.random() < 0.25:
                raise Killed
            result = method(*given)
            if rng.random() < 0.05:
                raise Killed
            return result

        return call

    for _ in range(2):
        shutil.rmtree(cached)
        with monkeypatch.context() as patch:
            patch.setattr(DatasetWriter, "add", may_die(DatasetWriter.add))
            patch.setattr(DatasetWriter, "commit", may_die(DatasetWriter.commit))
            for _ in range(30):
                try:
                    data.open()
                    break
                except Killed:
                    pass
        assert data.open().ledger == first.ledger and calls > 3
        assert entries(cached) == kept


def test_a_process_that_was_killed(tmp_path: Path, cached: Path) -> None:
    file = write(tmp_path / "f", "".join(f"row {i} of many \u00e4\n" for i in range(20_000)))
    program = f"""
from weft.data import Character, PlainText
from weft.data.sources import split_preparation
split_preparation.PROGRESS_ROWS, split_preparation._COMMIT_BYTES = 500, 20_000
PlainText(train={file!r}, tokenizer=Character, validation_fraction=0).open(progress=lambda *what: print(*what, flush=True))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        for line in process.stdout:
            if line.startswith("preparing train") and int(line.split()[-2]) > 200_000:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    (state,) = cached.glob("*/state.json")
    assert not (state.parent / "done.json").exists()
    heard: list[int] = []
    data = PlainText(train=file, tokenizer=Character, validation_fraction=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_preparation, "PROGRESS_ROWS", 500)
        corpus = data.open(progress=lambda text, done, total: heard.append(done) if text == "preparing train" else None)
    assert heard[0] > 150_000  # not from the beginning
    resumed = entries(cached)
    shutil.rmtree(cached)
    assert data.open().ledger == corpus.ledger and entries(cached) == resumed


# ---------------------------------------------------------------------------------------------------------------- hold out


def test_hold_out_is_fixed_counted_and_apart(plain: str, cached: Path) -> None:
    corpus = PlainText(train=plain, tokenizer=Character, validation_fraction=0.1).open()
    train, valid = texts(corpus, "train"), texts(corpus, "valid")
    assert len(valid) == 10 and sorted(train + valid) == sorted(f"line {i} of a text" for i in range(100))
    shutil.rmtree(cached)
    assert texts(PlainText(train=plain, tokenizer=Character, validation_fraction=0.1).open(), "valid") == valid
    assert corpus.ledger["train"]["rows held out for validation"] == 10 and corpus.ledger["valid"]["rows left to training"] == 90
    assert corpus.ledger["valid"]["rows"] == 10 and valid != [f"line {i} of a text" for i in range(10)]
    assert set(PlainText(train=plain, tokenizer=Character, validation_fraction=0).open().splits) == {"train"}
    given = PlainText(train=plain, valid=plain, tokenizer=Character).open()
    assert len(given.splits["train"]) == 100 and given.ledger["train"]["rows held out for validation"] == 0


@pytest.mark.parametrize("exact", [True, False])
def test_a_text_that_occurs_twice_is_never_on_both_sides(tmp_path: Path, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exact:
        monkeypatch.setattr(training_scan, "EXACT_ROWS", 10)
    file = write(tmp_path / "f", "".join(f"row {i % 40}\n" for i in range(200)) + "once\n")
    corpus = PlainText(train=file, tokenizer=Character, validation_fraction=0.3).open()
    train, valid = texts(corpus, "train"), texts(corpus, "valid")
    assert not set(train) & set(valid) and len(train) + len(valid) == 201
    assert 55 <= len(valid) <= 61 if exact else 20 <= len(valid) <= 100


def test_tokenizers_learn_from_training_rows_only(plain: str, tmp_path: Path) -> None:
    seen: list[str] = []

    class Spy(Character):
        def train(self, texts: Any) -> None:
            seen.extend(texts)
            super().train(texts)

    corpus = PlainText(train=plain, tokenizer=Spy, validation_fraction=0.2).open()
    assert sorted(seen) == sorted(texts(corpus, "train")) and len(seen) == 80
    other = write(tmp_path / "v", "zzz\n")
    corpus = PlainText(train=plain, valid=other, test=other, tokenizer=Character).open()
    assert corpus.splits["valid"][0]["text"].tolist() == [Special.unk] * 3
    assert corpus.ledger["valid"]["unknown tokens"] == corpus.ledger["valid"]["tokens"] == 3
    assert corpus.ledger["train"]["unknown tokens"] == 0


def test_tokenizers_learn_from_a_sample_of_much_text(plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_scan, "SAMPLE_BYTES", 400)
    seen: list[str] = []

    class Spy(Character):
        def train(self, texts: Any) -> None:
            seen.extend(texts)
            super().train(texts)

    corpus = PlainText(train=plain, tokenizer=Spy, validation_fraction=0.2).open()
    numbers = [int(text.split()[1]) for text in seen]
    assert set(seen) <= set(texts(corpus, "train")) and 5 <= len(seen) <= 25 and sum(map(len, seen)) <= 420
    assert min(numbers) < 25 and max(numbers) > 75


def test_hold_out_leaves_something_to_train_on(tmp_path: Path) -> None:
    one, same = write(tmp_path / "one", "only\n"), write(tmp_path / "same", "same\nsame\n")
    for file, share in ((one, 0.05), (same, 0.05), (one, 1.0)):
        with pytest.raises(ValueError, match=rf"validation_fraction {share:g} of \d rows \(1 distinct\).*set valid"):
            PlainText(train=file, tokenizer=Character, validation_fraction=share).open()
    assert len(PlainText(train=one, tokenizer=Character, validation_fraction=0).open().splits["train"]) == 1


# ------------------------------------------------------------------------------------------------------------------ ledger


def test_what_came_back_differently_is_shown_where_it_begins_to_differ(tmp_path: Path) -> None:
    lost = "ABC " * 60 + "\u00e9"
    file = write(tmp_path / "f", "abc " * 60 + "xyz\n" + f"{lost}\n")
    data = PlainText(
        train=file, tokenizer=partial(Character, lowercase=True, vocab_size=14), max_length=500, validation_fraction=0
    )
    (example,) = data.open().ledger["train"]["first rows whose characters change"]
    assert "\u00e9" in example and example.startswith(f"{file}:2: '...") and "\ufffd" in example


def test_the_ledger_counts_everything_in_order(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfabcdefghijkl\r\n\r\nb\xe4d\n  \nabcdefgh\nAbc\n\xff\n"
    file = write(tmp_path / "f", content)
    empty = write(tmp_path / "g", "")
    data = partial(
        PlainText, train=[file, empty], tokenizer=partial(Character, lowercase=True), max_length=5, validation_fraction=0
    )
    ledger = data(on_bad_row="skip").open().ledger["train"]
    assert list(ledger)[: len(COUNTS)] == list(COUNTS)
    assert {name: count for name, count in ledger.items() if count} == {
        "rows read": 7,
        "empty rows": 2,
        "malformed rows": 2,
        "split rows": 2,
        "rows": 6,
        "tokens": 23,
        "rows checked by decoding": 3,
        "rows whose case or spacing changes": 1,
        "empty files": 1,
        "byte-order marks removed": 1,
        "Windows line ends removed": 2,
        "first malformed rows": [
            f"{file}:3: byte 0xe4 is not valid UTF-8; save the file as UTF-8, or fix the line",
            f"{file}:7: byte 0xff is not valid UTF-8; save the file as UTF-8, or fix the line",
        ],
    }
    truncated = data(on_bad_row="skip", on_overflow="truncate").open().ledger["train"]
    assert (truncated["truncated rows"], truncated["tokens lost"], truncated["rows"], truncated["tokens"]) == (2, 10, 3, 13)
    with pytest.raises(ValueError, match=r"f:3: byte 0xe4 is not valid UTF-8.*; fix the row, or set on_bad_row: skip"):
        data().open()
    with pytest.raises(ValueError, match=r"f:1: text has 12 tokens, more than max_length 5"):
        data(on_bad_row="skip", on_overflow="error").open()


def test_examples_name_the_files_that_were_given(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, b"good\nb\xe4d\nfine\n") for name in ("one", "two"))
    for file in (one, two):
        ledger = PlainText(train=file, tokenizer=Character, validation_fraction=0, on_bad_row="skip").open().ledger["train"]
        assert ledger["first malformed rows"][0].startswith(f"{file}:2: ")


def test_near_duplicates_of_training_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "the quick brown fox jumps over the lazy dog and runs away from number"
    train = write(tmp_path / "t", "".join(f"{sentence} {i} {i + 1} {i + 2}\n" for i in range(0, 500, 50)) + "short\n")
    valid = write(tmp_path / "v", f"a row of its own that nobody has\nThe {sentence[4:]} 50 51 52\nshort\n")
    corpus = PlainText(train=train, valid=valid, test=train, tokenizer=Character, max_length=200).open()
    assert (
        corpus.ledger["valid"]["near-duplicates of training"] == 2 and "near-duplicates of training" not in corpus.ledger["train"]
    )
    example, last = corpus.ledger["valid"]["first near-duplicates of training"]
    assert (
        example.startswith("valid row 1 'The quick brown")
        and example.endswith("(1.00)")
        and "is like training row 1 'the" in example
    )
    assert last == "valid row 2 'short' is like training row 10 'short' (1.00)"
    assert corpus.ledger["test"]["near-duplicates of training"] == 11  # the same file
    monkeypatch.setattr(train_overlap, "near_duplicates", None)
    assert PlainText(train=train, valid=valid, test=train, tokenizer=Character, max_length=200).open().ledger == corpus.ledger
    only = PlainText(train=train, valid=valid, tokenizer=Character, max_length=200).open(splits=("valid",))
    assert "near-duplicates of training" not in only.ledger["valid"]


# ----------------------------------------------------------------------------------------------------------------- opening


def test_only_the_splits_that_are_wanted(plain: str, tmp_path: Path) -> None:
    data = PlainText(train=plain, test=plain, tokenizer=Character)
    assert set(data.open().splits) == {"train", "valid", "test"} and set(data.open(splits=("test", "other")).splits) == {"test"}
    with pytest.raises(ValueError, match=r"the data has no split 'other'; available: train, valid, test"):
        data.open(splits=("other",))
    codec = data.open().codec
    gone = PlainText(train=str(tmp_path / "gone"), test=plain, tokenizer=Character)
    assert len(gone.open(codec, splits=("test",)).splits["test"]) == 100


def test_an_opened_codec_is_used_again(plain: str, tmp_path: Path) -> None:
    codec = PlainText(train=plain, tokenizer=Character).open().codec
    more = write(tmp_path / "more.txt", "quite \u00f6ther text 0123456789 zyxwv\n" * 3)
    corpus = PlainText(train=more, tokenizer=Character, validation_fraction=0).open(codec)
    rows = corpus.splits["train"]
    assert corpus.codec is codec and Special.unk in rows[0]["text"]
    assert rows[0]["text"].tolist() == codec.encode("text", rows.raw(0)["text"]).tolist()


def test_special_ids_of_published_tokenizers_reach_the_fields(plain: str, tmp_path: Path) -> None:
    vocabulary = write(tmp_path / "vocab.txt", "\n".join(["[PAD]", "a", "[UNK]", "[CLS]", "line", "[SEP]", "[MASK]"]))
    data = PlainText(train=plain, tokenizer=partial(PretrainedTokenizer, from_=vocabulary))
    corpus = data.open()
    for info in (data.declare(), corpus.codec.info):
        assert (info["text"].special.unk, info["text"].special.cls, info["text"].special.mask) == (2, 3, 6)
    assert corpus.ledger["train"]["unknown tokens"] == int((np_all(corpus) == 2).sum()) > 0


def np_all(corpus: Corpus) -> Any:
    import numpy as np

    rows = corpus.splits["train"]
    return np.concatenate([rows[row]["text"] for row in range(len(rows))])
