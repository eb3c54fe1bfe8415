from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.contracts import Codec, Tokenizer
from weft.core.example import MarkedIds, Targets
from weft.core.fields import Field, Info, InvalidCell, LabelField, LabelsField, NumberField, Special, TagsField, TextField
from weft.data import BPE, LabeledText, Word, encode_example
from weft.data.encoding import assemble, columns_from, encode, rows_of, truncate
from weft.data.sources import split_preparation

WORDS = ["new", "lower", "lowest", "x", "(low)", "well-known"]


def codec_of(tokenizer: Tokenizer, length: int = 512, words: bool = True) -> Codec:
    tokenizer.train([" ".join(WORDS)])
    text = TextField("text", tokenizer.vocab, max_length=length, words=words, characters=tokenizer.character_vocab)
    tags = TagsField("tags", 3, labels=("O", "B", "I"))
    return Codec(Info({"text": text} | ({"tags": tags} if words else {})), {"text": tokenizer})


def answers(*fields: Field) -> Codec:
    return Codec(Info({field.name: field for field in fields}), {})


TOKENIZERS = {"pieces": partial(BPE, vocab_size=30), "letters": partial(Word, max_characters=6)}
sentences = st.lists(st.tuples(st.sampled_from([*WORDS, "zzz", "\u00e4"]), st.sampled_from("OBI")), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(sentence=sentences, length=st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_words_tags_and_letters_stay_together(kind: str, sentence: list[tuple[str, str]], length: int) -> None:
    codec = codec_of(TOKENIZERS[kind](), length)
    field, tokenizer = codec.info["text"], codec.tokenizers["text"]
    words, tags = [w for w, _ in sentence], [t for _, t in sentence]
    encoded = {w: tokenizer.encode(w) for w in words}
    spelled = {w: tokenizer.spell(w) for w in words}
    (whole,) = rows_of(encode(codec, [{"text": " ".join(words), "tags": " ".join(tags)}]))
    assert whole["text"].tolist() == [i for w in words for i in encoded[w]]

    def check(row: dict[str, Any], first: int, truncated: bool) -> int:
        """The row's words are those from ``first`` on, each with its own tokens, letters and tag."""
        assert len(row["text"]) <= length and len(row["tags"]) == len(row["text/words"])
        ends = [*row["text/words"].tolist()[1:], len(row["text"])]
        example = assemble(codec.info, row)
        for n, (start, end) in enumerate(zip(row["text/words"].tolist(), ends, strict=True)):
            word = words[first + n]
            assert row["text"][start:end].tolist() == encoded[word][: end - start]
            assert truncated or end - start == min(len(encoded[word]), length)
            assert "OBI"[row["tags"][n]] == tags[first + n]
            if field.characters:
                assert isinstance(example["text"], MarkedIds)
                for at, letters in enumerate(spelled[word] or []):
                    if start + at < end:
                        shown = example["text"].marks["characters"][start + at]
                        assert shown[shown > 0].tolist() == letters
        return len(row["text/words"])

    short, lost = truncate(codec.info, whole)
    check(short, 0, truncated=True)
    assert lost == max(0, len(whole["text"]) - length)
    pieces, gone = field.split(codec.info, whole)
    first = 0
    for piece in pieces:
        taken = check(piece, first, truncated=False)
        assert taken
        first += taken
    assert first == len(words) and sum(len(p["text"]) for p in pieces) + gone == len(whole["text"])
    if all(len(ids) <= length for ids in encoded.values()):
        assert gone == 0
    again = columns_from(codec.info, pieces)
    assert all(
        one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)
        for one, two in zip(pieces, rows_of(again), strict=True)
    )


def test_texts_are_cut_anywhere() -> None:
    codec = codec_of(BPE(vocab_size=30), length=4, words=False)
    (values,) = rows_of(encode(codec, [{"text": "lower lowest new x"}]))
    pieces, lost = codec.info.text("text").split(codec.info, values)
    assert lost == 0 and {len(p["text"]) for p in pieces[:-1]} == {4}
    assert np.concatenate([p["text"] for p in pieces]).tolist() == values["text"].tolist()
    assert codec.info.text("text").part(codec.info, values, 2, 5)["text"].tolist() == values["text"][2:5].tolist()


def test_a_text_without_tokens_is_spelled_with_nothing() -> None:
    codec = codec_of(Word(max_characters=6), words=False)
    example = encode_example(codec, {"text": "  "})
    assert (
        isinstance(example["text"], MarkedIds)
        and len(example["text"]) == 0
        and example["text"].marks["characters"].shape == (0, 1)
    )


def test_words_without_tokens_keep_a_position() -> None:
    codec = codec_of(Word())
    example = encode_example(codec, {"text": "new \u200b x"})  # what is no word and no sign for this tokenizer
    assert isinstance(example["tags"], Targets) and len(example["tags"].at) == 3
    none = TextField("text", 10, words=True, special=Special(unk=-1))

    class Empty(Tokenizer):
        @property
        def vocab(self) -> int:
            return 10

        def max_vocab(self) -> int:
            return 10

        def encode(self, text: str) -> list[int]:
            return []

        def decode(self, ids: Sequence[int]) -> str:
            return ""

        def tokens(self, ids: Sequence[int]) -> list[str]:
            return [str(i) for i in ids]

    with pytest.raises(InvalidCell, match="the word 'a' has no token"):
        encode(Codec(Info({"text": none}), {"text": Empty()}), [{"text": "a b"}])


def test_examples_as_training_makes_them() -> None:
    codec = codec_of(BPE(vocab_size=30), length=5)
    one = encode_example(codec, {"text": "lower lowest"})
    assert len(one["text"]) == 5 and one["tags"].at.tolist()[0] == 0 and set(one["tags"].ids.tolist()) == {0}
    assert one["text"].dtype == np.int64 and one["text"].flags.writeable


def test_answers() -> None:
    label = LabelField("label", 3, labels=("a", "b", "c"))
    several = LabelsField("several", 3, labels=("a", "b", "c"))
    number = NumberField("number")
    rows = [{"label": "c", "several": "c\ta", "number": "-2.5"}, {"label": "a", "several": "", "number": "1e3"}, {}]
    codec = answers(label, several, number)
    values = rows_of(encode(codec, rows))
    examples = [assemble(codec.info, row) for row in values]
    assert [e["label"] for e in examples] == [2, 0, 0] and [e["number"] for e in examples] == [-2.5, 1000.0, 0.0]
    assert [e["several"].tolist() for e in examples] == [[1, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert isinstance(examples[0]["label"], int) and isinstance(examples[0]["number"], float)


@pytest.mark.parametrize(
    ("field", "cell", "message"),
    [
        (LabelField("label", 2, labels=("a", "b")), "d", "unknown label 'd'; known: a, b"),
        (LabelsField("label", 2, labels=("a", "b")), "a\td", "unknown label 'd'"),
        (LabelField("label", 30, labels=tuple(map(str, range(30)))), "x", r"known: 0, .*, 19, \.\.\."),
        (NumberField("score"), "high", "column 'score' must be a number, not 'high'"),
        (NumberField("score"), "nan", "must be a number, not 'nan'"),
    ],
)
def test_cells_that_cannot_be_understood(field: Field, cell: str, message: str) -> None:
    with pytest.raises(InvalidCell, match=message):
        encode(answers(field), [{field.name: cell}])


def test_tags_must_fit_words() -> None:
    with pytest.raises(InvalidCell, match="2 words, but 3 tags"):
        encode(codec_of(Word()), [{"text": "new x", "tags": "O O O"}])


def _lengths_given_to(tokenizer: BPE, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the texts that the tokenizer encodes from now on."""
    given: list[int] = []

    def watched(texts: Sequence[str]) -> list[list[int]]:
        given.extend(map(len, texts))
        return type(tokenizer).encode_batch(tokenizer, texts)

    monkeypatch.setattr(tokenizer, "encode_batch", watched)
    return given


@pytest.mark.parametrize("max_length", [8, 2000])
def test_a_long_text_is_cut_before_it_is_tokenized_and_counted(max_length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = BPE(vocab_size=40)
    tokenizer.train(["low lower lowest"])
    codec = Codec(Info({"text": TextField("text", tokenizer.vocab, max_length=max_length)}), {"text": tokenizer})
    given, truncated = _lengths_given_to(tokenizer, monkeypatch), list[int]()
    long, limit = "low lower " * 200_000, max(max_length, 1024) * 64
    example = encode_example(codec, {"text": long}, truncated.append)
    assert given == [limit] and len(truncated) == 1
    assert example["text"].tolist() == tokenizer.encode(long[:limit])[:max_length]
    encode_example(codec, {"text": "low " * 2}, truncated.append)
    assert len(truncated) == 1


def test_a_text_that_fits_after_it_was_cut_is_counted() -> None:
    codec, truncated = codec_of(Word(), words=False), list[int]()
    for number, text in enumerate(("new" + " " * 1024 * 64 + "lower", "new"), 1):
        assert len(encode_example(codec, {"text": text}, truncated.append)["text"]) == 1
        assert len(truncated) == 1, number


def test_a_long_row_is_cut_before_it_is_tokenized_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "low lower " * 200_000
    (tmp_path / "rows.tsv").write_text(f"text\tlabel\nlow\ta\nlower\tb\n{long}\ta\n")
    longest: list[int] = []

    def watched(codec: Codec, rows: Sequence[Mapping[str, str]], caches: Any) -> Any:
        longest.extend(len(row["text"]) for row in rows)
        return encode(codec, rows, caches)

    monkeypatch.setattr(split_preparation, "encode", watched)
    data = LabeledText(
        train=str(tmp_path / "rows.tsv"), validation_fraction=0, max_length=8, tokenizer=partial(BPE, vocab_size=40)
    )
    corpus = data.open()
    assert corpus.ledger["train"]["truncated rows"] == 1 and corpus.ledger["train"]["rows"] == 3
    assert len(corpus.splits["train"][2]["text"]) == 8 and max(longest) == 1024 * 64
    assert corpus.splits["train"].raw(2)["text"] == long


@pytest.mark.parametrize("cell", ["1_000", "１２", "٣.5", "0x10", "", "nan", "1e999", "1 000"])
def test_a_number_column_has_plain_digits(cell: str) -> None:
    codec = Codec(Info({"score": NumberField("score")}), {})
    with pytest.raises(InvalidCell, match="column 'score' must be a number"):
        encode(codec, [{"score": cell}])
    assert np.asarray(encode(codec, [{"score": text} for text in ("-1.5e3", " 12 ", ".5")])["score"]).tolist() == [-1500, 12, 0.5]
