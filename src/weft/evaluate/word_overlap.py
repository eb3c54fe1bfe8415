"""Word-overlap baselines for extractive question answering, without any training."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple

_WORD = re.compile(r"\w+(?:['’\-.,]\w+)*|[^\w\s]")
_SENTENCE_END = re.compile(r"[.!?]")


class WordSpan(NamedTuple):
    """A word or punctuation mark of a text, with its character offsets."""

    text: str
    begin: int
    end: int

    @property
    def is_punctuation(self) -> bool:
        return not self.text[0].isalnum()


def _words(text: str) -> list[WordSpan]:
    return [WordSpan(found[0].lower(), found.start(), found.end()) for found in _WORD.finditer(text)]


def _sentences(words: Sequence[WordSpan]) -> Iterator[list[WordSpan]]:
    ends = [number + 1 for number, word in enumerate(words) if _SENTENCE_END.fullmatch(word.text)]
    for first, last in pairwise(sorted({0, *ends, len(words)})):
        yield list(words[first:last])


def _inverse_counts(context: Sequence[WordSpan]) -> dict[str, float]:
    """Weight of each word of the context: log(1 + 1 / count)."""
    return {word: log(1 + 1 / count) for word, count in Counter(word.text for word in context).items()}


def _question_words(question: str) -> set[str]:
    return {word.text for word in _words(question) if not word.is_punctuation}


def _best_sentence(question: set[str], context: Sequence[WordSpan]) -> list[WordSpan]:
    weights = _inverse_counts(context)
    return max(
        _sentences(context), key=lambda sentence: sum(weights[w] for w in question & {s.text for s in sentence}), default=[]
    )


def overlapping_sentence(question: str, context: str) -> str:
    """Return the sentence of the context with the largest weighted word overlap with the question.

    A word that occurs n times in the context has weight log(1 + 1 / n), as in the sliding-window baseline of Richardson et al.
    2013 (MCTest). Of equal sentences, the first.

    >>> overlapping_sentence("Who won the cup?", "It rained. The cup was won by Ann! She smiled.")
    'The cup was won by Ann!'
    """
    best = _best_sentence(_question_words(question), _words(context))
    return context[best[0].begin : best[-1].end] if best else ""


def overlapping_span(question: str, context: str) -> str:
    """Return the span of that sentence, between question words or punctuation, that is closest to the question words.

    Each question word in the sentence contributes its weight divided by its distance; the sum is multiplied by the mean weight
    of the words of the span. Of equal spans, the first.

    >>> overlapping_span("Who won the cup?", "It rained. In May, Ann Lee won the cup in the rain. She smiled.")
    'Ann Lee'
    """
    words, asked = _words(context), _question_words(question)
    best, weights = _best_sentence(asked, words), _inverse_counts(words)
    matches = [at for at, word in enumerate(best) if word.text in asked]
    edges = [-1, *(at for at, word in enumerate(best) if word.is_punctuation or word.text in asked), len(best)]
    spans = [(first + 1, last - 1) for first, last in pairwise(edges) if last - first > 1]
    if not spans:
        return ""

    def score(span: tuple[int, int]) -> float:
        first, last = span
        near = sum(weights[best[at].text] / (first - at if at < first else at - last) for at in matches)
        return near * sum(weights[word.text] for word in best[first : last + 1]) / (last + 1 - first)

    first, last = max(spans, key=score)
    return context[best[first].begin : best[last].end]
