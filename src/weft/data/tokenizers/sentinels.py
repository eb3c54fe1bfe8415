"""A vocabulary with ids to spare."""

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
    """Another tokenizer with ids at the end of its vocabulary that stand in no text: objectives put them where spans were.

    Raffel et al. 2020 (T5), section 3.1.4, https://arxiv.org/abs/1910.10683

    Args:
        of: The tokenizer.
        number: How many ids are added.

    Example:
        >>> pieces = WithSentinels(number=10)
        >>> pieces.train(["a word"])
        >>> pieces.vocab - pieces.tokenizer.vocab, pieces.decode([*pieces.encode("a word"), pieces.vocab - 1])
        (10, 'a word')
    """

    def __init__(self, *, of: Build[Tokenizer] = BPE, number: Count = 100):
        super().__init__()
        self.of, self.tokenizer, self.number = of, of(), number

    def bound(self) -> int:
        return self.tokenizer.bound() + self.number

    def train(self, texts: Iterable[str]) -> None:
        self.tokenizer.train(texts)

    @property
    def vocab(self) -> int:
        return self.tokenizer.vocab + self.number

    @property
    def sentinel_count(self) -> int:
        return self.number

    @property
    def special(self) -> Special:
        return self.tokenizer.special

    @property
    def frame(self) -> Frame:
        return self.tokenizer.frame

    @property
    def start(self) -> int:
        return self.tokenizer.start

    @property
    def letters(self) -> int:
        return self.tokenizer.letters

    def continues(self) -> list[bool]:
        return self.tokenizer.continues()

    def sentence_ends(self) -> list[int]:
        return self.tokenizer.sentence_ends()

    def spell(self, text: str) -> list[list[int]] | None:
        return self.tokenizer.spell(text)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer.encode_batch(texts)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return self.tokenizer.offsets(text)

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode([i for i in ids if i < self.tokenizer.vocab])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """A sentinel is shown by its number, counted from the end as objectives take them."""
        known = iter(self.tokenizer.tokens([i for i in ids if i < self.tokenizer.vocab]))
        return [next(known) if i < self.tokenizer.vocab else f"<{self.vocab - 1 - i}>" for i in ids]

    def save(self, file: Path) -> None:
        self.tokenizer.save(file)

    def load(self, file: Path) -> None:
        self.tokenizer.load(file)
