"""Fast encoding of large corpora: each distinct word is tokenized once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from weft.core.contracts import Tokenizer
from weft.core.ragged_array import RaggedArray
from weft.data.tokenizers.bpe import BPE
from weft.data.tokenizers.byte_bpe import ByteBPE
from weft.data.tokenizers.unigram import Unigram
from weft.data.tokenizers.word import Word
from weft.data.tokenizers.wordpiece import WordPiece

# Tokenizers that split a text before each space that follows a character, independent of the context; with the prefix that a
# word needs to have the same ids alone as inside a text.
_WORD_PREFIX = {BPE: " ", ByteBPE: " ", WordPiece: " ", Word: " ", Unigram: ""}
_MAX_WORDS, _MAX_CHARACTERS = 1 << 18, 1 << 25
_FIRST = "\0"
"""Marks the first word of a text, which has no space before it and may have different ids."""


class WordCache:
    """``encode_batch`` of a tokenizer with a cache of words: the ids of a text are the concatenated ids of its words.

    The result equals the tokenizer's own. Word frequencies follow Zipf's law, so nearly all words are cached. Texts are encoded
    without the cache if the tokenizer does not support it, or if they have consecutive spaces.

    Args:
        tokenizer: The tokenizer to speed up.
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.prefix = tokenizer, _WORD_PREFIX.get(type(tokenizer))
        self._clear()

    def _clear(self) -> None:
        self.indices: dict[str, int] = {}
        self.known = RaggedArray.of([])
        self.characters = 0

    def __call__(self, texts: Sequence[str]) -> RaggedArray:
        if self.prefix is None:
            return RaggedArray.of(self.tokenizer.encode_batch(texts))
        uncached = [i for i, text in enumerate(texts) if _has_odd_spaces(text)] if _has_odd_spaces(" ".join(texts)) else []
        if not uncached:
            return self._encode_cached(texts)
        rest = sorted({*range(len(texts))} - {*uncached})
        cached = self._encode_cached([texts[i] for i in rest])
        others = RaggedArray.of(self.tokenizer.encode_batch([texts[i] for i in uncached]))
        both = RaggedArray(np.concatenate([cached.flat, others.flat]), np.concatenate([cached.sizes, others.sizes]))
        return both.take(np.argsort([*rest, *uncached]))

    def _encode_cached(self, texts: Sequence[str]) -> RaggedArray:
        if not texts:
            return RaggedArray.of([])
        words = (_FIRST + f" {_FIRST}".join(texts)).split(" ")
        index = np.fromiter(map(self.indices.get, words, repeat(-1)), np.int64, len(words))
        missing = np.flatnonzero(index < 0).tolist()
        known = self.known
        if missing:
            new = dict.fromkeys(words[n] for n in missing)
            new = dict(zip(new, range(len(known.sizes), len(known.sizes) + len(new)), strict=True))
            known = self._add(new, clear=len(missing) > len(words) // 4)
            index[missing] = [new[words[n]] for n in missing]
        found = known.take(index)
        counts = np.fromiter(map(str.count, texts, repeat(" ")), np.int64, len(texts)) + 1
        return RaggedArray(found.flat, np.add.reduceat(found.sizes, np.cumsum(counts) - counts))

    def _add(self, new: dict[str, int], clear: bool) -> RaggedArray:
        """Return the cache extended by new words. A full cache does not store them, and is cleared if there are many."""
        assert self.prefix is not None
        alone = [word[1:] if word[:1] == _FIRST else self.prefix + word for word in new]
        known = self.known.append(self.tokenizer.encode_batch(alone))
        if len(self.indices) < _MAX_WORDS and self.characters < _MAX_CHARACTERS:
            self.known = known
            self.indices |= new
            self.characters += sum(map(len, new))
        elif clear:
            self._clear()
        return known


def _has_odd_spaces(text: str) -> bool:
    """Whether a text is empty or has spaces that are not between two words."""
    return "  " in text or _FIRST in text or text[:1] in ("", " ") or text[-1] == " "
