"""Which places of a text are hidden: single tokens, whole words, or spans of words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from weft.core.contracts import MaskingStrategy
from weft.core.options import Count, Fraction
from weft.core.registry import block


@block("tokens")
class Tokens(MaskingStrategy):
    """Single tokens, each as likely as any other.

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Example:
        >>> groups = Tokens().choose(np.arange(6) > 0, 2, np.random.default_rng(0))
        >>> sorted(len(group) for group in groups)
        [1, 1]
    """

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        chosen = rng.permutation(len(begins_T))[:budget]
        return [chosen[i : i + 1] for i in range(len(chosen))]


@block("words")
class Words(MaskingStrategy):
    """Whole words: all pieces of a word, or none.

    A word that is longer than what is left of the budget is passed over.

    Devlin et al. 2019 (whole word masking, in the later release of BERT)

    Example:
        >>> begins = np.array([True, False, True, True])
        >>> [group.tolist() for group in Words().choose(begins, 3, np.random.default_rng(1))]
        [[0, 1], [2]]
    """

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        words = words_of(begins_T)
        chosen: list[np.ndarray] = []
        for i in rng.permutation(len(words)):
            if len(words[i]) <= budget:
                chosen.append(words[i])
                budget -= len(words[i])
        return chosen


@block("spans")
class Spans(MaskingStrategy):
    """Spans of whole words whose number of words is geometric, cut off at ``longest``.

    p(n) ~ (1 - stop)^(n - 1) stop for n = 1 .. longest;  with the defaults 3.8 words on average

    A span that is longer than what is left of the budget is shortened to the words that fit. Spans that touch are one.

    Joshi et al. 2020 (SpanBERT), https://arxiv.org/abs/1907.10529

    Args:
        stop: Chance that a span ends after a word.
        longest: Most words of a span.

    Example:
        >>> groups = Spans().choose(np.ones(40, bool), 6, np.random.default_rng(0))
        >>> sum(len(group) for group in groups)
        6
    """

    def __init__(self, *, stop: Fraction = 0.2, longest: Count = 10):
        super().__init__()
        if stop <= 0:
            raise ValueError("with stop 0 a span never ends; give more")
        weights = (1 - stop) ** np.arange(longest) * stop
        self.longest, self.cumulative = longest, np.cumsum(weights / weights.sum())

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        words = words_of(begins_T)
        taken_T = np.zeros(len(begins_T), bool)
        for start in rng.permutation(len(words)):
            length = 1 + min(int(np.searchsorted(self.cumulative, rng.random())), self.longest - 1)
            for word in words[start : start + length]:
                if taken_T[word[0]] or len(word) > budget:
                    break
                taken_T[word] = True
                budget -= len(word)
            if not budget:
                break
        return runs_of(taken_T)


def words_of(begins_T: np.ndarray) -> list[np.ndarray]:
    """The places of each word; what stands before the first beginning is a word too."""
    return cut(np.arange(len(begins_T)), np.flatnonzero(begins_T[1:]) + 1)


def runs_of(taken_T: np.ndarray) -> list[np.ndarray]:
    """The places of each run of True."""
    places = np.flatnonzero(taken_T)
    return cut(places, np.flatnonzero(places[1:] - places[:-1] > 1) + 1)


def cut(values_T: np.ndarray, at: np.ndarray) -> list[np.ndarray]:
    """The parts between these places; nothing has none. ``np.split``, ten times as fast for short arrays."""
    return [values_T[a:b] for a, b in pairwise([0, *at.tolist(), len(values_T)])] if len(values_T) else []
