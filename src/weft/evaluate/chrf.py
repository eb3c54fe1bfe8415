"""chrF, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.options import Natural
from weft.core.registry import block
from weft.evaluate.reference import reference_column


@block("chrf")
class ChrF(Metric):
    """Corpus chrF: F-score of character n-grams, 0 to 100, as computed by sacrebleu.

    chrF = 100 (1 + 2^2) P R / (2^2 P + R), with P and R the precision and recall of character 1- to 6-grams

    Popovic 2015 (chrF) and 2017 (chrF++).

    Args:
        field: Column of the reference.
        word_order: Maximum order of additional word n-grams; 0 = chrF, 2 = chrF++.

    Example:
        >>> ChrF().compute(["the cat"], [{"target": "the cat"}])
        {'chrf': 100.0}
    """

    inputs = "text"
    higher_is_better = {"chrf": True}

    def __init__(self, *, field: str = "target", word_order: Natural = 0):
        super().__init__()
        self.field, self.word_order = field, word_order

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        texts = reference_column(predictions, references, self.field)
        return {"chrf": round(self._corpus().corpus_score(list(predictions), [texts]).score, 6)}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3K: for each of K n-gram orders, the n-grams of the prediction, of the reference, and matching ones."""
        texts = reference_column(predictions, references, self.field)
        return np.array(self._corpus()._extract_corpus_statistics(list(predictions), [texts]), np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """chrF from the summed statistics."""
        return {"chrf": round(self._corpus()._compute_score_from_stats(np.asarray(sums).tolist()).score, 6)}

    def signature(self) -> str:
        """The signature of sacrebleu, to be reported with the score."""
        corpus = self._corpus()
        corpus.corpus_score(["a"], [["a"]])  # the signature needs the number of references
        return str(corpus.get_signature().format())

    def _corpus(self) -> Any:
        try:
            from sacrebleu.metrics.chrf import CHRF
        except ImportError:
            raise ValueError("the metric chrf needs the package sacrebleu: pip install 'weft[metrics]'") from None
        return CHRF(word_order=self.word_order)
