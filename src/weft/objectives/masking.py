"""Masking strategies: single tokens, whole words, or spans of words. T tokens."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from weft.core.contracts import MaskingStrategy
from weft.core.options import Count, Fraction
from weft.core.registry import block


@block("tokens")
class TokenMasking(MaskingStrategy):
    """Mask single tokens, sampled uniformly without replacement.

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Example:
        >>> groups = TokenMasking().choose(np.arange(6) > 0, 2, np.random.default_rng(0))
        >>> sorted(len(group) for group in groups)
        [1, 1]
    """

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        chosen = rng.permutation(len(begins_T))[:budget]
        return [chosen[i : i + 1] for i in range(len(chosen))]


@block("whole-words")
class WholeWordMasking(MaskingStrategy):
    """Whole-word masking: mask all tokens of a word, or none.

    A word with more tokens than the remaining budget is skipped.

    Devlin et al. 2019 (whole word masking, in the later release of BERT), https://arxiv.org/abs/1810.04805

    Example:
        >>> begins = np.array([True, False, True, True])
        >>> [group.tolist() for group in WholeWordMasking().choose(begins, 3, np.random.default_rng(1))]
        [[0, 1], [2]]
    """

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        words = word_positions(begins_T)
        chosen: list[np.ndarray] = []
        for i in rng.permutation(len(words)):
            if len(words[i]) <= budget:
                chosen.append(words[i])
                budget -= len(words[i])
        return chosen


@block("spans")
class SpanMasking(MaskingStrategy):
    """Mask spans of whole words; the number of words is geometric, truncated at ``max_span``.

    p(n) ~ (1 - p)^(n - 1) p

    n, the number of words, is at most ``max_span``, and p is ``geometric_p``; with the defaults 3.8 words on average.

    A span with more tokens than the remaining budget is shortened to the words that fit. Adjacent spans are merged.

    Joshi et al. 2020 (SpanBERT), https://arxiv.org/abs/1907.10529

    Args:
        geometric_p: Parameter of the geometric distribution: the probability that a span ends after a word.
        max_span: Maximum number of words in a span.

    Example:
        >>> groups = SpanMasking().choose(np.ones(40, bool), 6, np.random.default_rng(0))
        >>> sum(len(group) for group in groups)
        6
    """

    def __init__(self, *, geometric_p: Fraction = 0.2, max_span: Count = 10):
        super().__init__()
        if geometric_p <= 0:
            raise ValueError(f"geometric_p is {geometric_p:g}, so a span never ends; set a value above 0 and at most 1")
        weights = (1 - geometric_p) ** np.arange(max_span) * geometric_p
        self.max_span, self.cumulative = max_span, np.cumsum(weights / weights.sum())

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        words = word_positions(begins_T)
        chosen_T = np.zeros(len(begins_T), bool)
        for start in rng.permutation(len(words)):
            length = 1 + min(int(np.searchsorted(self.cumulative, rng.random())), self.max_span - 1)
            for word in words[start : start + length]:
                if chosen_T[word[0]] or len(word) > budget:
                    break
                chosen_T[word] = True
                budget -= len(word)
            if not budget:
                break
        return runs_of(chosen_T)


def word_positions(begins_T: np.ndarray) -> list[np.ndarray]:
    """Token positions of each word; tokens before the first word start count as a word."""
    return split_at(np.arange(len(begins_T)), np.flatnonzero(begins_T[1:]) + 1)


def runs_of(chosen_T: np.ndarray) -> list[np.ndarray]:
    """Positions of each run of True."""
    positions = np.flatnonzero(chosen_T)
    return split_at(positions, np.flatnonzero(positions[1:] - positions[:-1] > 1) + 1)


def split_at(values_T: np.ndarray, indices: np.ndarray) -> list[np.ndarray]:
    """``np.split``, ten times as fast for short arrays; an empty array has no parts."""
    return [values_T[a:b] for a, b in pairwise([0, *indices.tolist(), len(values_T)])] if len(values_T) else []
