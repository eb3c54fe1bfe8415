"""Mixtures of sources, and sources as text to text."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from weft.core.options import OptionError
from weft.data import (
    BPE,
    Dates,
    LabeledText,
    Mixture,
    MultipleChoice,
    ParallelText,
    PlainText,
    QuestionAnswering,
    SentencePairs,
    TaggedText,
    TextToText,
    Word,
)
from weft.data.mixing import MixtureDataset
from weft.data.several import merge, shared_tokenizers

WORD = partial(Word, vocab_size=200)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def reviews(tmp_path: Path):
    file = tmp_path / "reviews.tsv"
    file.write_text("text\tlabel\n" + "".join(f"film {i} was fine\t{'good' if i % 2 else 'bad'}\n" for i in range(40)))
    return partial(LabeledText, train=str(file), tokenizer=WORD, validation_fraction=0.2)


@pytest.fixture
def pairs(tmp_path: Path):
    file = tmp_path / "pairs.tsv"
    file.write_text("source\ttarget\n" + "".join(f"haus {i}\thouse {i}\n" for i in range(20)))
    return partial(ParallelText, train=str(file), tokenizer=WORD, validation_fraction=0.2)


def as_texts(inner, prefix: str = "") -> partial[TextToText]:
    return partial(TextToText, of=inner, prefix=prefix)


def test_classes_are_texts_with_a_prefix(reviews):
    opened = TextToText(of=reviews, prefix="sentiment: ").open()
    row = opened.splits["train"].raw(0)
    assert row["source"].startswith("sentiment: film ") and row["target"] in ("good", "bad")
    assert opened.codec.decode("target", opened.splits["train"][0]["target"].tolist()) == row["target"]


def test_the_same_examples_are_held_out_as_in_the_source(reviews):
    plain, texts = reviews().open(), TextToText(of=reviews, prefix="sentiment: ").open()
    for split in ("train", "valid"):
        own = [plain.splits[split].raw(i)["text"] for i in range(len(plain.splits[split]))]
        assert [texts.splits[split].raw(i)["source"].removeprefix("sentiment: ") for i in range(len(own))] == own


def test_other_kinds_of_targets(tmp_path):
    (tmp_path / "t.conll").write_text("EU B-ORG\nrejects O\n\nGerman B-MISC\n\n" * 3)
    (tmp_path / "p.tsv").write_text("first\tsecond\tlabel\n" + "a b\tb a\t1\nc d\te\t0\n" * 3)
    (tmp_path / "q.jsonl").write_text(
        '{"question": "Who?", "context": "Anna ran.", "answer": "Anna", "start": 0}\n'
        '{"question": "When?", "context": "Anna ran.", "answer": "", "start": ""}\n'
    )
    (tmp_path / "c.jsonl").write_text('{"question": "2+2?", "choices": ["4", "5"], "answer": "A"}\n' * 2)

    def first(source, row: int = 0) -> tuple[str, str]:
        cells = TextToText(of=partial(source, validation_fraction=0, tokenizer=WORD)).open().splits["train"].raw(row)
        return cells["source"], cells["target"]

    assert first(partial(TaggedText, train=str(tmp_path / "t.conll"))) == ("EU rejects", "B-ORG O")
    assert first(partial(SentencePairs, train=str(tmp_path / "p.tsv"))) == ("first: a b second: b a", "1")
    questions = partial(QuestionAnswering, train=str(tmp_path / "q.jsonl"))
    assert first(questions) == ("question: Who? context: Anna ran.", "Anna")
    assert first(questions, 1)[1] == "unanswerable"
    choices = partial(MultipleChoice, train=str(tmp_path / "c.jsonl"))
    assert first(choices) == ("question: 2+2? choices: 4; 5", "A")


def test_text_to_text_needs_a_target(tmp_path):
    with pytest.raises(OptionError, match="plain-text has no label, tags, answer or target text"):
        TextToText(of=partial(PlainText, train="x.txt"))
    with pytest.raises(OptionError, match="reads sources of text files, not dates"):
        TextToText(of=Dates)
    with pytest.raises(OptionError, match="stratify: false"):
        TextToText(of=partial(LabeledText, train="x.tsv", stratify=True))


def test_a_malformed_row_is_located(tmp_path):
    file = tmp_path / "bad.tsv"
    file.write_text("text\tlabel\na\tx\nb\n")
    with pytest.raises(ValueError, match=r"bad\.tsv:3: "):
        TextToText(of=partial(LabeledText, train=str(file), tokenizer=WORD, validation_fraction=0)).open()


def test_a_mixture_has_the_fields_and_the_splits_of_its_sources(reviews, pairs):
    data = Mixture(of={"sentiment": as_texts(reviews, "sentiment: "), "translation": pairs})
    opened = data.open()
    assert list(opened.codec.info.fields) == ["source", "target"]
    assert {name: len(split) for name, split in opened.splits.items()} == {"train": 48, "valid": 12}
    train = opened.splits["train"]
    assert isinstance(train, MixtureDataset) and train.quotas == (32, 16)
    assert not opened.splits["valid"].quotas
    assert opened.ledger["train"]["rows"] == 48 and opened.ledger["sentiment.train"]["rows"] == 32


def test_the_tokenizer_is_trained_on_all_sources(reviews, pairs):
    opened = Mixture(of={"sentiment": as_texts(reviews, "sentiment: "), "translation": pairs}).open()
    text = opened.codec.tokenizers["text"]
    assert "film" in text.names and "house" in text.names and "haus" in text.names
    train = opened.splits["train"]
    for row in range(len(train)):
        assert opened.codec.decode("source", train[row]["source"].tolist()) == train.raw(row)["source"]


def test_a_mixture_opened_with_its_codec_has_the_same_rows(reviews, pairs):
    data = Mixture(of={"a": as_texts(partial(reviews, max_length=3)), "b": pairs})
    opened = data.open()
    again = data.open(opened.codec)
    train = again.splits["train"]
    assert opened.codec.info["source"].max_length == 256
    assert all(len(train[row]["source"]) <= 3 for row in range(32))
    for row in range(len(train)):
        assert np.array_equal(train[row]["source"], opened.splits["train"][row]["source"])


@pytest.mark.parametrize(
    ("options", "quotas"),
    [
        ({"weights": {"a": 1, "b": 1}}, (24, 24)),
        ({"weights": {"a": 0, "b": 2}}, (0, 16)),
        ({"temperature": 2.0}, (28, 20)),
        ({"max_examples": 16}, (16, 16)),
        ({"max_examples": {"a": 8}}, (8, 16)),
    ],
)
def test_the_share_of_each_source(reviews, pairs, options, quotas):
    assert Mixture(of={"a": as_texts(reviews), "b": pairs}, **options).open().splits["train"].quotas == quotas


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": {"a": 1, "x": 1}}, "weights names 'x', but the mixture has the sources a, b"),
        ({"weights": {"a": 1}}, "weights has no value for 'b'"),
        ({"weights": {"a": 0, "b": 0}}, "all weights are 0"),
        ({"weights": {"a": -1, "b": 1}}, "the weight of 'a' must be a finite number of at least 0, not -1"),
        ({"weights": {"a": float("nan"), "b": 1}}, "not nan"),
        ({"weights": {"a": 1, "b": 1}, "temperature": 2.0}, "temperature has no effect"),
        ({"weights": {"a": 1, "b": 1}, "max_examples": 3}, "max_examples has no effect"),
        ({"max_examples": {"x": 3}}, "max_examples names 'x'"),
        ({"temperature": 0.0}, "temperature must be a finite number above 0, not 0"),
        ({"temperature": float("nan")}, "temperature must be a finite number above 0, not nan"),
        ({"temperature": float("inf")}, "temperature must be a finite number above 0, not inf"),
    ],
)
def test_wrong_options_are_reported(reviews, pairs, options, message):
    with pytest.raises(OptionError, match=message):
        Mixture(of={"a": as_texts(reviews), "b": pairs}, **options)


def test_a_name_must_fit_a_file_and_a_metric(pairs):
    with pytest.raises(ValueError, match=r"letters, digits, - and _ only.*not 'a\.b'"):
        Mixture(of={"a.b": pairs})


def test_sources_with_other_fields_are_refused(reviews, pairs):
    with pytest.raises(ValueError, match="'a' has text, label and 'b' has source, target"):
        Mixture(of={"a": reviews, "b": pairs}).declare()


def test_sources_with_other_classes_are_refused(tmp_path, reviews):
    other = tmp_path / "other.tsv"
    other.write_text("text\tlabel\n" + "so\tyes\nna\tno\n" * 4)
    both = {"a": reviews, "b": partial(LabeledText, train=str(other), tokenizer=WORD, validation_fraction=0)}
    with pytest.raises(ValueError, match=r"'label' has other classes in 'b' \(no, yes\) than in 'a' \(bad, good\)"):
        Mixture(of=both).open()


def test_other_tokenizers_of_one_id_space_are_refused(reviews, pairs):
    both = {"a": as_texts(reviews), "b": partial(pairs, tokenizer=partial(BPE, vocab_size=99))}
    with pytest.raises(ValueError, match=r"'a' and 'b' share the id space 'text', but their tokenizers differ \(word and bpe\)"):
        Mixture(of=both).declare()
    both = {"a": as_texts(reviews), "b": partial(pairs, tokenizer=partial(Word, vocab_size=99))}
    with pytest.raises(ValueError, match="vocab_size: 200 and 99"):
        shared_tokenizers({name: source() for name, source in both.items()})


def test_an_empty_file_is_named(tmp_path, pairs):
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(ValueError, match=r"empty\.tsv: the file is empty"):
        Mixture(of={"a": pairs, "b": partial(pairs, train=str(tmp_path / "empty.tsv"))}).open()


def test_a_split_that_only_some_sources_have(reviews, pairs):
    data = Mixture(of={"a": as_texts(partial(reviews, validation_fraction=0)), "b": pairs})
    opened = data.open()
    assert list(opened.splits["valid"].parts) == ["b"] and list(opened.splits["train"].parts) == ["a", "b"]
    again = data.open(opened.codec, splits=("valid",))
    assert list(again.splits) == ["valid"] and list(again.splits["valid"].parts) == ["b"]
    with pytest.raises(ValueError, match="no split 'test'"):
        data.open(opened.codec, splits=("test",))


def test_a_mixture_of_mixtures(reviews, pairs):
    inner = partial(Mixture, of={"a": as_texts(reviews), "b": pairs})
    opened = Mixture(of={"inner": inner, "c": pairs}, weights={"inner": 1, "c": 1}).open()
    assert opened.splits["train"].sizes == [48, 16] and opened.splits["train"].quotas == (32, 32)


@pytest.mark.parametrize("options", [{"weights": {"a": 1, "b": 0}}, {"temperature": 2.0}, {"max_examples": 8}])
def test_a_mixture_inside_another_has_no_shares(reviews, pairs, options):
    inner = partial(Mixture, of={"a": as_texts(reviews), "b": pairs}, **options)
    with pytest.raises(OptionError, match="the shares of the mixture 'inner' have no effect inside another mixture"):
        Mixture(of={"inner": inner, "c": pairs})


def test_sources_that_read_no_files_share_their_tokenizer():
    opened = Mixture(
        of={"en": partial(Dates, train=20, languages=["en"]), "de": partial(Dates, train=10, languages=["de"])}
    ).open()
    alone = Dates(train=20, languages=["en"]).open()
    assert opened.codec.tokenizers["characters"].names == alone.codec.tokenizers["characters"].names
    assert len(opened.splits["train"]) == 30


def test_the_widest_field_holds_for_the_structure(reviews, pairs):
    infos = {"a": partial(reviews, max_length=10)().declare(), "b": partial(reviews, max_length=30)().declare()}
    assert merge(infos)["text"].max_length == 30
    both = merge({"a": reviews().declare(), "b": pairs().declare()})
    assert set(both.fields) == {"text", "label", "source", "target"} and both.data == "labeled-text + parallel-text"
