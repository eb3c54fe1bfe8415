"""Where the tokens of a text stand in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.contracts import Codec, Tokenizer
from weft.core.fields import Info, TextField
from weft.core.outputs import SpanPrediction
from weft.data import BPE, Byte, ByteBPE, Character, PretrainedTokenizer, Unigram, WithSentinels, Word, WordPiece
from weft.data.tokenizers.byte import to_bytes

TEXTS = [
    "Two dogs, one ball: they're running!",
    "  leading and   inner spaces ",
    "zwei Hunde laufen über die Straße",
    "tab\there, line\nthere",
    "low lower lowest; dogs dog",
    "日本語 ÉÀ",
]
KNOWN = sorted(set("".join(TEXTS)))
AWKWARD = st.text(max_size=40) | st.text(st.sampled_from([*KNOWN, *"漢字éÉéΩİﬁ🙂👩‍👧\0\x07\u200b\u00a0\ufeff\r▁"]), max_size=40)


def trained(kind: type[Tokenizer], **options) -> Tokenizer:
    tokenizer = kind(**options)
    tokenizer.train(TEXTS)
    return tokenizer


CHARACTERS, PIECES, BYTE_PIECES = trained(Character), trained(BPE, vocab_size=120), trained(ByteBPE, vocab_size=300)
UNIGRAMS = trained(Unigram, vocab_size=120)
LOSSLESS = [
    CHARACTERS,
    PIECES,
    BYTE_PIECES,
    UNIGRAMS,
    Byte(),
    trained(WithSentinels, tokenizer=partial(BPE, vocab_size=100), count=5),
]
LOSSY = [
    trained(Word),
    trained(WordPiece, vocab_size=150),
    trained(WordPiece, vocab_size=150, lowercase=True, strip_accents=True),
    *(trained(kind, lowercase=True) for kind in (Word, Character)),
    *(trained(kind, vocab_size=300, lowercase=True) for kind in (BPE, ByteBPE, Unigram)),
]


@given(AWKWARD)
def test_ranges_are_in_order_and_within_the_text_one_for_each_token(text: str) -> None:
    for tokenizer in (*LOSSLESS, *LOSSY):
        offsets = tokenizer.offsets(text)
        assert len(offsets) == len(tokenizer.encode(text)), tokenizer
        assert all(0 <= a <= b <= len(text) for a, b in offsets)
        assert [a for a, _ in offsets] == sorted(a for a, _ in offsets)
        assert [b for _, b in offsets] == sorted(b for _, b in offsets)


@given(AWKWARD)
def test_lossless_tokenizers_leave_out_no_character(text: str) -> None:
    for tokenizer in LOSSLESS:
        assert {at for a, b in tokenizer.offsets(text) for at in range(a, b)} == set(range(len(text)))


@given(st.text(st.sampled_from(KNOWN), max_size=40))
def test_the_characters_at_a_range_are_the_token(text: str) -> None:
    for tokenizer in (CHARACTERS, PIECES):
        names = [tokenizer.names[i] for i in tokenizer.encode(text)]
        assert [text[a:b] for a, b in tokenizer.offsets(text)] == names
    names = [UNIGRAMS.names[i].replace("▁", " ") for i in UNIGRAMS.encode(text)]
    assert all(name in (text[a:b], " ", f" {text[a:b]}") for name, (a, b) in zip(names, UNIGRAMS.offsets(text), strict=True))


@given(AWKWARD)
def test_ranges_of_bytes_count_characters(text: str) -> None:
    for tokenizer in (BYTE_PIECES, Byte()):
        for number, (a, b) in zip(tokenizer.encode(text), tokenizer.offsets(text), strict=True):
            own, there = to_bytes(tokenizer.names[number]), text[a:b].encode()
            assert own in there
            assert own == there or b - a == 1 or len(there) < len(own) + 6  # halves of characters at its ends
    assert Byte().offsets("né🙂x") == [(0, 1), (1, 2), (1, 2), *[(2, 3)] * 4, (3, 4)]


def test_lowercase_and_accents_do_not_move_ranges() -> None:
    text = "Ein ÉÀ Hund in İstanbul"
    for tokenizer in LOSSY:
        covered = {at for a, b in tokenizer.offsets(text) for at in range(a, b)}
        assert covered >= {at for at, c in enumerate(text) if not c.isspace()}
        assert tokenizer.offsets(text)[-1][1] == len(text)


def test_a_published_tokenizer_has_ranges_without_its_frame(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_text("[PAD] [UNK] [CLS] [SEP] [MASK] dog ##s bark".replace(" ", "\n") + "\n")
    assert PretrainedTokenizer(from_=str(file)).offsets("Dogs, bark") == [(0, 3), (3, 4), (4, 5), (6, 10)]


def test_an_excerpt_is_the_text_as_it_was_written() -> None:
    field = TextField("context", PIECES.vocab, space="text")
    codec, text = Codec(Info({"context": field}), {"text": PIECES}), "low  lower Dogs"
    tokens = PIECES.tokens(PIECES.encode(text))
    first = next(n for n, token in enumerate(tokens) if token.startswith("▁") and n and tokens[n - 1] == "▁")
    assert codec.excerpt(SpanPrediction("context", first, len(tokens) - 1), text) == "lower Dogs"
    assert codec.excerpt(SpanPrediction("context"), text) == ""


def test_a_tokenizer_without_offsets_is_refused() -> None:
    class Plain(Tokenizer):
        @property
        def vocab(self) -> int:
            return 300

        def max_vocab(self) -> int:
            return 300

        def encode(self, text: str) -> list[int]:
            return [7 + byte for byte in text.encode()]

        def decode(self, ids: Sequence[int]) -> str:
            return bytes(i - 7 for i in ids).decode()

        def tokens(self, ids: Sequence[int]) -> list[str]:
            return [chr(i - 7) for i in ids]

    with pytest.raises(TypeError, match="Plain has no character offsets; use another tokenizer"):
        Plain().offsets("a")
    with pytest.raises(ValueError, match="lone surrogate"):
        PIECES.offsets("\ud800")
