"""Byte tokenizer: the bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from weft.core.fields import Special
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, surrogate_error, vocabulary


@cache
def byte_names() -> tuple[str, ...]:
    """Return GPT-2's printable character for each byte: printable Latin-1 as is, the others from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


@cache
def _bytes() -> dict[str, int]:
    return {name: byte for byte, name in enumerate(byte_names())}


def to_bytes(symbol: str) -> bytes:
    """Return the bytes of a symbol of a byte-level vocabulary."""
    known = _bytes()
    return bytes(known[c] for c in symbol) if all(c in known for c in symbol) else symbol.encode()


def readable(symbol: bytes) -> str:
    """Return bytes in printable form: a space as ▁, control characters and incomplete UTF-8 in hexadecimal."""
    text = symbol.decode("utf-8", "backslashreplace").replace(" ", "▁")
    return "".join(c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in text)


class ByteLevel(VocabularyTokenizer):
    """Base class of tokenizers whose symbols are byte sequences."""

    model, pre_tokenizer = "BPE", "ByteLevel"

    def join(self, symbols: list[str]) -> str:
        return b"".join(map(to_bytes, symbols)).decode("utf-8", "replace")

    def tokens(self, ids: Sequence[int]) -> list[str]:
        names = self._checked(ids)
        return [names[i] if i < len(Special.NAMES) else readable(to_bytes(names[i])) for i in map(int, ids)]


@block("byte")
class Byte(ByteLevel):
    """Byte tokenizer: one id per byte of UTF-8, 256 ids after the 7 special ones; no training.

    encode(text) = 7 + b for each byte b. There are no unknown tokens, and decoding is lossless. Generated ids that are not
    valid UTF-8 are decoded to U+FFFD.

    Xue et al. 2022 (ByT5), https://arxiv.org/abs/2105.13626

    Example:
        >>> tokenizer = Byte()
        >>> tokenizer.encode("né")
        [117, 202, 176]
        >>> tokenizer.decode([117, 202, 176])
        'né'
    """

    def __init__(self):
        ids = vocabulary(byte_names())
        super().__init__(vocab_size=len(ids), lowercase=False)
        pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner = self.assemble(models.BPE(ids, []), pre_tokenizer)
        inner.decoder = decoders.ByteLevel()
        self.adopt(inner)

    def train(self, texts: Iterable[str]) -> None:
        """Do nothing: the vocabulary is fixed."""

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        if inner.get_vocab() != vocabulary(byte_names()):
            raise ValueError("not a vocabulary of a Byte tokenizer; ids 7 to 262 must be the bytes 0 to 255")
        super().adopt(inner)

    def encode(self, text: str) -> list[int]:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise surrogate_error(text) or error from None
        first = len(Special.NAMES)
        return [first + byte for byte in data]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]
