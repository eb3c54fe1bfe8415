from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from weft.core.fields import Special
from weft.data import BPE, Byte, ByteBPE
from weft.data.tokenizers.byte import byte_names, readable, to_bytes

BYTES = Byte()
TEXTS = ["low lower lowest, they'll lower it 12 times!", "naïve Straße 漢字仮名 漢字仮名", "<eos> <pad><pad> Ġ 🙂🙂"] * 3
PIECES = ByteBPE(vocab_size=330)
PIECES.train(TEXTS)


def library(tokenizer: ByteBPE | Byte, text: str) -> list[int]:
    return tokenizer.inner.encode(text, add_special_tokens=False).ids


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    assert BYTES.decode(BYTES.encode(text)) == text
    assert PIECES.decode(PIECES.encode(text)) == text
    assert BYTES.encode(text) == [7 + b for b in text.encode()] == library(BYTES, text)
    assert min(PIECES.encode(text), default=7) > 6


def test_every_character_comes_back() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), *range(0x1F000, 0x1FA00), 0x10FFFF]))
    assert BYTES.decode(BYTES.encode(text)) == text
    assert PIECES.decode(PIECES.encode(text)) == text


@given(st.text())
def test_decoding_is_what_the_library_does(text: str) -> None:
    for tokenizer in (BYTES, PIECES):
        ids = tokenizer.encode(text)
        assert tokenizer.inner.decode(ids) == tokenizer.decode(ids)


@given(st.lists(st.integers(0, 262)))
def test_ids_that_are_no_text_are_decoded_too(ids: list[int]) -> None:
    kept = b"".join(b"\xef\xbf\xbd" if i == Special.unk else bytes([i - 7]) for i in ids if i > 6 or i == Special.unk)
    assert BYTES.decode(ids) == kept.decode("utf-8", "replace")
    PIECES.decode(ids)


def test_the_names_of_bytes_are_the_librarys() -> None:
    assert set(byte_names()) == set(pre_tokenizers.ByteLevel.alphabet()) and len(set(byte_names())) == 256
    assert [to_bytes(name) for name in byte_names()] == [bytes([b]) for b in range(256)]
    assert "".join(byte_names()[ord(c)] for c in " a\n") == "ĠaĊ"


def test_bytes_need_no_training(tmp_path: Path) -> None:
    assert BYTES.vocab == BYTES.max_vocab() == 263
    BYTES.save(tmp_path / "t.json")
    other = Byte()
    other.train(["anything"])
    other.load(tmp_path / "t.json")
    assert other.encode("né") == BYTES.encode("né")
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "t.json")).encode("né 漢").ids == BYTES.encode("né 漢")
    PIECES.save(tmp_path / "pieces.json")
    with pytest.raises(ValueError, match=r"pieces\.json: not a vocabulary of a Byte tokenizer"):
        other.load(tmp_path / "pieces.json")


def test_tokens_can_be_read() -> None:
    assert BYTES.tokens([0, *BYTES.encode("a é\n")]) == ["<pad>", "a", "▁", "\\xc3", "\\xa9", "\\x0a"]
    assert PIECES.tokens(PIECES.encode("low lower")) == ["low", "▁lower"]
    assert PIECES.tokens([3, *PIECES.encode("漢字")])[:2] == ["<unk>", "漢\\xe5"]
    assert readable("é 漢".encode()[1:-1]) == "\\xa9▁\\xe6\\xbc" and readable("\x07\u200b".encode()) == "\\x07\\xe2\\x80\\x8b"


def test_pieces_are_cut_as_gpt2_cuts_them() -> None:
    tokenizer = ByteBPE(vocab_size=600)
    tokenizer.train(["they'll go 12 times, they'll!   go"] * 9)
    assert tokenizer.tokens(tokenizer.encode("they'll go 12 times, go!")) == [
        "they",
        "'ll",
        "▁go",
        "▁12",
        "▁times",
        ",",
        "▁go",
        "!",
    ]
    assert tokenizer.vocab < tokenizer.max_vocab() == 600


def test_sizes_of_byte_pieces() -> None:
    with pytest.raises(ValueError, match=r"vocab_size must be at least 263, not 262: 7 special ids and 256 bytes"):
        ByteBPE(vocab_size=262)
    plain = ByteBPE(vocab_size=263)
    plain.train(TEXTS)
    assert plain.vocab == 263 and len(plain.encode("漢")) == 3
    for size in (264, 280):
        more = ByteBPE(vocab_size=size)
        more.train(TEXTS)
        assert more.vocab == size


def test_characters_and_bytes_are_not_mixed_up(tmp_path: Path) -> None:
    other = BPE(vocab_size=300)
    other.train(TEXTS)
    other.save(tmp_path / "t.json")
    with pytest.raises(ValueError, match="of the 256 bytes are missing"):
        ByteBPE().load(tmp_path / "t.json")
