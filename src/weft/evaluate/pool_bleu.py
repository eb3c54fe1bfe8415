"""BLEU against all references of a data set at once, and of the texts against each other: for texts that answer to no one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.options import Count, Natural
from weft.core.registry import block
from weft.evaluate.ngrams import Pool, self_bleu
from weft.evaluate.reference import against
from weft.evaluate.subsample import evenly


@block("pool-bleu")
class PoolBLEU(Metric):
    """BLEU of each predicted text against the references of all rows, 0 to 100: for texts that are not answers to their row.

    BLEU = 100 BP exp(mean_n log p_n), not smoothed; words have blanks between them. It grows with the number of references, so
    that it is given with it: ``pool_texts`` and ``pool_references``.

    Papineni et al. 2002; all references for each text: Hu et al. 2017, https://arxiv.org/abs/1703.00955

    Args:
        field: Column of the raw row with the reference.
        order: The longest n-grams.
        references: At most so many different references, taken from all of them; 0 = all.

    Example:
        >>> rows = [{"target": "the food was good"}, {"target": "the staff was rude"}]
        >>> PoolBLEU(order=2).compute(["the staff was good", "the food was rude"], rows)
        {'pool_bleu': 100.0, 'pool_texts': 2, 'pool_references': 2}
    """

    inputs = "text"
    higher_is_better = {"pool_bleu": True, "pool_texts": None, "pool_references": None}

    def __init__(self, *, field: str = "target", order: Count = 4, references: Natural = 1000):
        super().__init__()
        self.field, self.order, self.references = field, order, references

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        found = self._pool(predictions, references).bleu(predictions)
        return {"pool_bleu": found.score, "pool_texts": found.texts, "pool_references": found.references}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x S: what each text adds; the references stay the same whatever rows are drawn."""
        return self._pool(predictions, references).statistics(predictions)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """BLEU of the rows summed."""
        return {"pool_bleu": Pool(["-"], order=self.order).score(sums, 0).score}

    def signature(self) -> str:
        return f"BLEU-{self.order}|references:{self.references or 'all'}|tok:none|smooth:none"

    def _pool(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> Pool:
        # of equal texts one is enough, and the pool is the same where rows are given twice (a paired test)
        different = list(dict.fromkeys(against(predictions, references, self.field)))
        return Pool(evenly(different, self.references), order=self.order)


COLLAPSED_SELF_BLEU = 90.0
"""Texts that are so alike are hardly more than one."""
COLLAPSED_DISTINCT = 0.1
"""So few different texts among all are no variety either; of texts with fewer words than n-grams have, Self-BLEU says nothing."""


def alike(what: str, score: float, different: float = 1.0) -> list[str]:
    """What is to be said of a Self-BLEU, and of the share of different texts."""
    if score >= COLLAPSED_SELF_BLEU:
        return [f"collapsed: {what} are all nearly the same (Self-BLEU {score:.1f}), unless the real texts are as alike"]
    if different < COLLAPSED_DISTINCT:
        return [f"collapsed: {what} are few ({100 * different:.1f} % of them differ), unless the real texts are as alike"]
    return []


@block("self-bleu")
class SelfBLEU(Metric):
    """BLEU of each predicted text against all others that were predicted, 0 to 100: the lower, the more they differ.

    The n-grams of a text are sought in all other texts, see ``self_bleu``. It grows with the number of texts.

    Zhu et al. 2018 (Texygen), https://arxiv.org/abs/1802.01886

    Args:
        order: The longest n-grams.
        most: Only so many texts, taken from all of them; 0 = all.

    Example:
        >>> SelfBLEU(order=1).compute(["so good", "so bad"], [{}, {}])
        {'self_bleu': 50.0}
    """

    inputs = "text"
    per_example = False
    min_examples = 2
    higher_is_better = {"self_bleu": False}

    def __init__(self, *, order: Count = 4, most: Natural = 500):
        super().__init__()
        self.order, self.most = order, most

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return {"self_bleu": self_bleu(evenly(predictions, self.most), order=self.order).score}

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        return alike("the texts that are written", metric_values["self_bleu"])

    def signature(self) -> str:
        return f"BLEU-{self.order}|texts:{self.most or 'all'}|tok:none|smooth:none"
