"""Two segments of a text, and whether they belong together."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.batch import ids_of
from weft.catalog import block
from weft.choices import Share
from weft.slots import Pairing, Related


@block("next-sentence")
class NextSentence(Pairing):
    """Whether the second segment follows the first, or comes from another text.

    The text is cut at a random place; in a share of the cases what follows the cut is taken from another text instead.

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        other: Share of the second segments that come from another text.

    Example:
        >>> found = NextSentence(other=0.0).pair(np.array([7, 8, 9]), np.random.default_rng(0), None, "text")
        >>> np.concatenate([found.first, found.second]).tolist(), found.belong
        ([7, 8, 9], True)
    """

    def __init__(self, *, other: Share = 0.5):
        super().__init__()
        self.other = other

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> Related | None:
        if len(ids) < 2:
            return None
        cut = int(rng.integers(1, len(ids)))
        first, second, belong = ids[:cut], ids[cut:], True
        if rng.random() < self.other and pool is not None and len(pool) > 1:
            stranger = pool[int(rng.integers(len(pool)))][name]
            text = ids_of(stranger)
            if len(text) < 2 or np.array_equal(text, ids):
                return None
            start = int(rng.integers(1, len(text)))
            second, belong = text[start : start + len(second)], False
        return Related(first, second, belong)


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

    def __init__(self, *, swap: Share = 0.5):
        super().__init__()
        self.swap = swap

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> Related | None:
        if len(ids) < 2:
            return None
        cut = int(rng.integers(1, len(ids)))
        first, second = ids[:cut], ids[cut:]
        return Related(second, first, False) if rng.random() < self.swap else Related(first, second, True)
