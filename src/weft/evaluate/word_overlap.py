"""Answers without learning: what stands near the question's own words. To compare networks with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

_WORD = re.compile(r"\w+(?:['’\-.,]\w+)*|[^\w\s]")
_ENDS = re.compile(r"[.!?]")


class Word(NamedTuple):
    """A word or sign of a text, and where it begins and ends."""

    text: str
    begin: int
    end: int

    @property
    def is_sign(self) -> bool:
        return not self.text[0].isalnum()


def _words(text: str) -> list[Word]:
    return [Word(found[0].lower(), found.start(), found.end()) for found in _WORD.finditer(text)]


def _sentences(words: Sequence[Word]) -> Iterator[list[Word]]:
    ends = [number + 1 for number, word in enumerate(words) if _ENDS.fullmatch(word.text)]
    for first, last in pairwise(sorted({0, *ends, len(words)})):
        yield list(words[first:last])


def _rarity(context: Sequence[Word]) -> dict[str, float]:
    """What a word is worth: the more, the rarer it is in the context."""
    return {word: log(1 + 1 / count) for word, count in Counter(word.text for word in context).items()}


def _asked(question: str) -> set[str]:
    return {word.text for word in _words(question) if not word.is_sign}


def _best_sentence(asked: set[str], context: Sequence[Word]) -> list[Word]:
    rarity = _rarity(context)
    return max(_sentences(context), key=lambda own: sum(rarity[w] for w in asked & {word.text for word in own}), default=[])


def overlapping_sentence(question: str, context: str) -> str:
    """The sentence of the context that has most of the question's words in it, rare ones counting more.

    A word that occurs n times in the context counts log(1 + 1 / n), as in the sliding window of Richardson et al. 2013 (MCTest);
    of equal sentences, the first.

    >>> overlapping_sentence("Who won the cup?", "It rained. The cup was won by Ann! She smiled.")
    'The cup was won by Ann!'
    """
    best = _best_sentence(_asked(question), _words(context))
    return context[best[0].begin : best[-1].end] if best else ""


def overlapping_span(question: str, context: str) -> str:
    """Of that sentence, the words between two signs or words of the question that stand nearest to the words of the question.

    Each word of the question in the sentence gives its weight, divided by its distance; the sum is multiplied by the mean weight
    of the span's own words. Of equal spans, the first.

    >>> overlapping_span("Who won the cup?", "It rained. In May, Ann Lee won the cup in the rain. She smiled.")
    'Ann Lee'
    """
    words, asked = _words(context), _asked(question)
    best, rarity = _best_sentence(asked, words), _rarity(words)
    known = [at for at, word in enumerate(best) if word.text in asked]
    edges = [-1, *(at for at, word in enumerate(best) if word.is_sign or word.text in asked), len(best)]
    spans = [(first + 1, last - 1) for first, last in pairwise(edges) if last - first > 1]
    if not spans:
        return ""

    def worth(span: tuple[int, int]) -> float:
        first, last = span
        near = sum(rarity[best[at].text] / (first - at if at < first else at - last) for at in known)
        return near * sum(rarity[word.text] for word in best[first : last + 1]) / (last + 1 - first)

    first, last = max(spans, key=worth)
    return context[best[first].begin : best[last].end]
