"""Two segments of a text, and whether they belong together."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.contracts import Pairing, SegmentPair
from weft.core.example import ids_of
from weft.core.options import Fraction
from weft.core.registry import block

DRAWS = 20
"""So many rows are looked at to find another text of a wanted length."""


@block("next-sentence")
class NextSentence(Pairing):
    """Whether the second segment follows the first, or comes from another text.

    The text is cut at a random place; in a share of the cases what follows the cut is replaced by the end of another text, as
    long. That other text is drawn in all cases, and where it is short the cut is moved to fit, so that neither the lengths nor
    what is left out tell the cases apart. Without another text there is no pair.

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        other: Share of the second segments that come from another text.

    Example:
        >>> texts = [{"text": np.array([7, 8, 9])}, {"text": np.array([10, 11, 12, 13])}]
        >>> found = NextSentence(other=1.0).pair(texts[0]["text"], np.random.default_rng(0), texts, "text")
        >>> found.first.tolist(), found.second.tolist(), found.belong
        ([7, 8], [13], False)
    """

    def __init__(self, *, other: Fraction = 0.5):
        super().__init__()
        self.other = other

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> SegmentPair | None:
        if len(ids) < 2:
            return None
        cut = int(rng.integers(1, len(ids)))
        if not self.other:
            return SegmentPair(ids[:cut], ids[cut:], True)
        stranger = self.stranger(ids, len(ids) - cut, rng, pool, name)
        if stranger is None:
            return None
        length = min(len(ids) - cut, len(stranger) - 1)  # a second segment never is a whole text
        belong = bool(rng.random() >= self.other)
        return SegmentPair(ids[:-length], ids[-length:] if belong else stranger[-length:], belong)

    def stranger(self, ids: np.ndarray, length: int, rng: np.random.Generator, pool: Any, name: str) -> np.ndarray | None:
        """Another text, with more than ``length`` tokens if one of a few that are drawn has them; else the longest of those."""
        if pool is None:
            return None
        found = ids[:1]
        for row in rng.integers(len(pool), size=DRAWS).tolist():
            text = ids_of(pool[row][name])
            if len(text) > len(found) and not np.array_equal(text, ids):
                found = text
                if len(text) > length:
                    break
        return found if len(found) > 1 else None


@block("sentence-order")
class SentenceOrder(Pairing):
    """Whether two segments that follow each other are in order, or were swapped.

    What the words are about is the same either way, so that it takes more than topics to tell.

    Lan et al. 2020 (ALBERT), https://arxiv.org/abs/1909.11942

    Args:
        swap: Share of the pairs that are swapped.

    Example:
        >>> found = SentenceOrder(swap=1.0).pair(np.array([7, 8, 9, 9]), np.random.default_rng(0), None, "text")
        >>> np.concatenate([found.second, found.first]).tolist(), found.belong
        ([7, 8, 9, 9], False)
    """

    def __init__(self, *, swap: Fraction = 0.5):
        super().__init__()
        self.swap = swap

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> SegmentPair | None:
        if len(ids) < 2:
            return None
        cut = int(rng.integers(1, len(ids)))
        first, second = ids[:cut], ids[cut:]
        return SegmentPair(second, first, False) if rng.random() < self.swap else SegmentPair(first, second, True)
