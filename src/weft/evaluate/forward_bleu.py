"""Forward BLEU and Self-BLEU: quality and diversity of generated texts without a reference of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.options import Count, Natural
from weft.core.registry import block
from weft.evaluate.ngrams import ReferencePool, self_bleu
from weft.evaluate.reference import reference_column
from weft.evaluate.subsample import subsample


@block("forward-bleu")
class ForwardBLEU(Metric):
    """Forward BLEU: BLEU of each generated text against the references of all examples, 0 to 100.

    BLEU = 100 BP exp(mean_n log p_n), without smoothing, on whitespace-separated words. It increases with the number of
    references, which is reported as ``forward_bleu_references``, with the number of texts as ``forward_bleu_texts``.

    Papineni et al. 2002; Yu et al. 2017 (SeqGAN), https://arxiv.org/abs/1609.05473; the name: Shi et al. 2018,
    https://arxiv.org/abs/1804.11258

    Args:
        field: Column of the reference.
        order: Maximum order of the n-grams.
        max_references: Maximum number of distinct references, spread over the split; 0 = all.

    Example:
        >>> rows = [{"target": "the food was good"}, {"target": "the staff was rude"}]
        >>> ForwardBLEU(order=2).compute(["the staff was good", "the food was rude"], rows)
        {'forward_bleu': 100.0, 'forward_bleu_texts': 2, 'forward_bleu_references': 2}
    """

    inputs = "text"
    higher_is_better = {"forward_bleu": True, "forward_bleu_texts": None, "forward_bleu_references": None}

    def __init__(self, *, field: str = "target", order: Count = 4, max_references: Natural = 1000):
        super().__init__()
        self.field, self.order, self.max_references = field, order, max_references

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        found = self._pool(predictions, references).bleu(predictions)
        return {"forward_bleu": found.score, "forward_bleu_texts": found.texts, "forward_bleu_references": found.references}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x S: the n-gram statistics of each text; the references are not resampled."""
        return self._pool(predictions, references).statistics(predictions)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Forward BLEU from the summed statistics."""
        return {"forward_bleu": ReferencePool(["-"], order=self.order).score(sums, 0).score}

    def signature(self) -> str:
        return f"BLEU-{self.order}|references:{self.max_references or 'all'}|tok:none|smooth:none"

    def _pool(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> ReferencePool:
        # distinct references: a paired test passes every example twice
        distinct = list(dict.fromkeys(reference_column(predictions, references, self.field)))
        return ReferencePool(subsample(distinct, self.max_references), order=self.order)


COLLAPSED_SELF_BLEU = 90.0
"""Self-BLEU from which on a set of texts is considered collapsed."""
COLLAPSED_DISTINCT = 0.1
"""Fraction of distinct texts below which they are considered collapsed: the Self-BLEU of very short texts is 0."""


def collapse_remarks(what: str, score: float, distinct: float = 1.0) -> list[str]:
    """Return a warning if the Self-BLEU is high or the fraction of distinct texts is low.

    Args:
        what: Name of the texts, for the message.
        score: Their Self-BLEU.
        distinct: Fraction of distinct texts.
    """
    if score >= COLLAPSED_SELF_BLEU:
        return [f"collapsed: {what} are nearly identical (Self-BLEU {score:.1f}), unless the real texts are as similar"]
    if distinct < COLLAPSED_DISTINCT:
        return [f"collapsed: only {100 * distinct:.1f} % of {what} are distinct, unless the real texts are as similar"]
    return []


@block("self-bleu")
class SelfBLEU(Metric):
    """Self-BLEU: BLEU of each generated text against all others, 0 to 100; a lower value means more diversity.

    It increases with the number of texts. See ``self_bleu``.

    Zhu et al. 2018 (Texygen), https://arxiv.org/abs/1802.01886

    Args:
        order: Maximum order of the n-grams.
        max_texts: Maximum number of texts, spread over the split; 0 = all.

    Example:
        >>> SelfBLEU(order=1).compute(["so good", "so bad"], [{}, {}])
        {'self_bleu': 50.0}
    """

    inputs = "text"
    per_example = False
    min_examples = 2
    higher_is_better = {"self_bleu": False}

    def __init__(self, *, order: Count = 4, max_texts: Natural = 500):
        super().__init__()
        self.order, self.max_texts = order, max_texts

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return {"self_bleu": self_bleu(subsample(predictions, self.max_texts), order=self.order).score}

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        return collapse_remarks("the generated texts", metric_values["self_bleu"])

    def signature(self) -> str:
        return f"BLEU-{self.order}|texts:{self.max_texts or 'all'}|tok:none|smooth:none"
