"""Encoding many texts quickly: each word goes through the tokenizer once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from weft.core.contracts import Tokenizer
from weft.data.ragged_array import Lists
from weft.data.tokenizers.bpe import BPE
from weft.data.tokenizers.byte_bpe import ByteBPE
from weft.data.tokenizers.unigram import Unigram
from weft.data.tokenizers.word import Word
from weft.data.tokenizers.wordpiece import WordPiece

# Tokenizers that cut a text before each space that follows another sign, whatever stands around it; with what a word must be
# given when it is encoded alone so that its ids are those it has inside a text.
_BEFORE = {BPE: " ", ByteBPE: " ", WordPiece: " ", Word: " ", Unigram: ""}
_MOST_WORDS, _MOST_SIGNS = 1 << 18, 1 << 25
_FIRST = "\0"
"""Before a text's first word, which has no space before it and so may have other ids."""


class Recall:
    """``encode_batch`` of a tokenizer with a memory: the ids of a text are those of its words, one after another.

    Equal to the tokenizer's own. The words of texts follow Zipf's law, so nearly all have been seen before. Tokenizers of which
    this is not known encode each text whole, and so are texts with two spaces in a row.

    Args:
        tokenizer: What is to be sped up.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.before = tokenizer, _BEFORE.get(type(tokenizer))
        self._forget()

    def _forget(self) -> None:
        self.numbers: dict[str, int] = {}
        self.known = Lists.of([])
        self.signs = 0

    def __call__(self, texts: Sequence[str]) -> Lists:
        if self.before is None:
            return Lists.of(self.tokenizer.encode_batch(texts))
        odd = [number for number, text in enumerate(texts) if _is_odd(text)] if _is_odd(" ".join(texts)) else []
        if not odd:
            return self._recalled(texts)
        rest = sorted({*range(len(texts))} - {*odd})
        some, others = self._recalled([texts[n] for n in rest]), Lists.of(self.tokenizer.encode_batch([texts[n] for n in odd]))
        both = Lists(np.concatenate([some.flat, others.flat]), np.concatenate([some.sizes, others.sizes]))
        return both.pick(np.argsort([*rest, *odd]))

    def _recalled(self, texts: Sequence[str]) -> Lists:
        if not texts:
            return Lists.of([])
        words = (_FIRST + f" {_FIRST}".join(texts)).split(" ")
        number = np.fromiter(map(self.numbers.get, words, repeat(-1)), np.int64, len(words))
        missing = np.flatnonzero(number < 0).tolist()
        known = self.known
        if missing:
            new = dict.fromkeys(words[n] for n in missing)
            new = dict(zip(new, range(len(known.sizes), len(known.sizes) + len(new)), strict=True))
            known = self._learn(new, forget=len(missing) > len(words) // 4)
            number[missing] = [new[words[n]] for n in missing]
        found = known.pick(number)
        counts = np.fromiter(map(str.count, texts, repeat(" ")), np.int64, len(texts)) + 1
        return Lists(found.flat, np.add.reduceat(found.sizes, np.cumsum(counts) - counts))

    def _learn(self, new: dict[str, int], forget: bool) -> Lists:
        """What is known with these words. When the memory is full, they are not kept; if there are many, all is forgotten."""
        assert self.before is not None
        alone = [word[1:] if word[:1] == _FIRST else self.before + word for word in new]
        known = self.known.grow(self.tokenizer.encode_batch(alone))
        if len(self.numbers) < _MOST_WORDS and self.signs < _MOST_SIGNS:
            self.known = known
            self.numbers |= new
            self.signs += sum(map(len, new))
        elif forget:
            self._forget()
        return known


def _is_odd(text: str) -> bool:
    """Whether there are spaces that do not stand between two words."""
    return "  " in text or _FIRST in text or text[:1] in ("", " ") or text[-1] == " "
