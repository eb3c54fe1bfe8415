"""Segment pairs for next-sentence and sentence-order prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.contracts import Pairing, SegmentPair
from weft.core.example import ids_of
from weft.core.options import Fraction
from weft.core.registry import block

MAX_SAMPLES = 20
"""Maximum number of examples sampled to find a negative of sufficient length."""


@block("next-sentence")
class NextSentence(Pairing):
    """Next-sentence prediction: whether the second segment follows the first or comes from another text.

    The text is split at a random position; with probability ``negative_ratio`` the second segment is replaced by the end of
    another text, of the same length. The other text is sampled for positives too, and where it is short the split moves to fit,
    so that neither the lengths nor what is dropped tell positives from negatives. Without another text there is no pair.

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        negative_ratio: Fraction of pairs whose second segment comes from another text.

    Example:
        >>> texts = [{"text": np.array([7, 8, 9])}, {"text": np.array([10, 11, 12, 13])}]
        >>> pair = NextSentence(negative_ratio=1.0).pair(texts[0]["text"], np.random.default_rng(0), texts, "text")
        >>> pair.first.tolist(), pair.second.tolist(), pair.belong
        ([7, 8], [13], False)
    """

    def __init__(self, *, negative_ratio: Fraction = 0.5):
        super().__init__()
        self.negative_ratio = negative_ratio

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> SegmentPair | None:
        if len(ids) < 2:
            return None
        split = int(rng.integers(1, len(ids)))
        if not self.negative_ratio:
            return SegmentPair(ids[:split], ids[split:], True)
        negative = self.sample_negative(ids, len(ids) - split, rng, pool, name)
        if negative is None:
            return None
        length = min(len(ids) - split, len(negative) - 1)  # a second segment is never a full text
        belong = bool(rng.random() >= self.negative_ratio)
        return SegmentPair(ids[:-length], ids[-length:] if belong else negative[-length:], belong)

    def sample_negative(self, ids: np.ndarray, length: int, rng: np.random.Generator, pool: Any, name: str) -> np.ndarray | None:
        """The first of ``MAX_SAMPLES`` sampled texts with more than ``length`` tokens, else the longest of them."""
        if pool is None:
            return None
        found = ids[:1]
        for index in rng.integers(len(pool), size=MAX_SAMPLES).tolist():
            text = ids_of(pool[index][name])
            if len(text) > len(found) and not np.array_equal(text, ids):
                found = text
                if len(text) > length:
                    break
        return found if len(found) > 1 else None


@block("sentence-order")
class SentenceOrder(Pairing):
    """Sentence-order prediction: whether two consecutive segments are in their original order or swapped.

    Both classes have the same topic, so the task requires coherence rather than topic detection.

    Lan et al. 2020 (ALBERT), https://arxiv.org/abs/1909.11942

    Args:
        swap_ratio: Fraction of pairs that are swapped.

    Example:
        >>> pair = SentenceOrder(swap_ratio=1.0).pair(np.array([7, 8, 9, 9]), np.random.default_rng(0), None, "text")
        >>> np.concatenate([pair.second, pair.first]).tolist(), pair.belong
        ([7, 8, 9, 9], False)
    """

    def __init__(self, *, swap_ratio: Fraction = 0.5):
        super().__init__()
        self.swap_ratio = swap_ratio

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> SegmentPair | None:
        if len(ids) < 2:
            return None
        split = int(rng.integers(1, len(ids)))
        first, second = ids[:split], ids[split:]
        return SegmentPair(second, first, False) if rng.random() < self.swap_ratio else SegmentPair(first, second, True)
