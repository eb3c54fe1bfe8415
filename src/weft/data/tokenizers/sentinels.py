"""Sentinel tokens at the end of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from weft.core.contracts import Tokenizer
from weft.core.fields import Frame, Special
from weft.core.options import Count
from weft.core.registry import Build, block
from weft.data.tokenizers.bpe import BPE


@block("with-sentinels")
class WithSentinels(Tokenizer):
    """Sentinel tokens: ids at the end of another vocabulary that occur in no text and that replace masked spans.

    Raffel et al. 2020 (T5), section 3.1.4, https://arxiv.org/abs/1910.10683

    Args:
        tokenizer: The tokenizer that is extended.
        count: Number of sentinel tokens.

    Example:
        >>> extended = WithSentinels(count=10)
        >>> extended.train(["a word"])
        >>> extended.vocab - extended.inner.vocab, extended.decode([*extended.encode("a word"), extended.vocab - 1])
        (10, 'a word')
    """

    def __init__(self, *, tokenizer: Build[Tokenizer] = BPE, count: Count = 100):
        super().__init__()
        self.tokenizer, self.inner, self.count = tokenizer, tokenizer(), count

    def max_vocab(self) -> int:
        return self.inner.max_vocab() + self.count

    def train(self, texts: Iterable[str]) -> None:
        self.inner.train(texts)

    @property
    def vocab(self) -> int:
        return self.inner.vocab + self.count

    @property
    def sentinel_count(self) -> int:
        return self.count

    @property
    def special(self) -> Special:
        return self.inner.special

    @property
    def frame(self) -> Frame:
        return self.inner.frame

    @property
    def decoder_start(self) -> int:
        return self.inner.decoder_start

    @property
    def character_vocab(self) -> int:
        return self.inner.character_vocab

    def continues(self) -> list[bool]:
        return self.inner.continues()

    def sentence_ends(self) -> list[int]:
        return self.inner.sentence_ends()

    @property
    def word_prefix(self) -> str:
        return self.inner.word_prefix

    def spell(self, text: str) -> list[list[int]] | None:
        return self.inner.spell(text)

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self.inner.encode_batch(texts)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return self.inner.offsets(text)

    def decode(self, ids: Sequence[int]) -> str:
        return self.inner.decode([i for i in ids if i < self.inner.vocab])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return readable tokens; a sentinel is shown as its index from the end, the order in which objectives use them."""
        known = iter(self.inner.tokens([i for i in ids if i < self.inner.vocab]))
        return [next(known) if i < self.inner.vocab else f"<{self.vocab - 1 - i}>" for i in ids]

    def save(self, file: Path) -> None:
        self.inner.save(file)

    def load(self, file: Path) -> None:
        self.inner.load(file)
