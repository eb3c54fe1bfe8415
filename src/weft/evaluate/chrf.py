"""chrF, by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.options import Natural
from weft.core.registry import block
from weft.evaluate.reference import against


@block("chrf")
class ChrF(Metric):
    """F-score of character n-grams over the whole corpus, 0 to 100, as sacrebleu computes it.

    chrF = 100 (1 + 2^2) P R / (2^2 P + R), P and R the precision and recall of character 1- to 6-grams

    Popovic 2015 (chrF) and 2017 (chrF++).

    Args:
        field: Column of the raw row with the reference.
        words: Longest n-grams of words that count too; 2 is chrF++.

    Example:
        >>> ChrF().compute(["the cat"], [{"target": "the cat"}])
        {'chrf': 100.0}
    """

    inputs = "text"
    higher_is_better = {"chrf": True}

    def __init__(self, *, field: str = "target", words: Natural = 0):
        super().__init__()
        self.field, self.words = field, words

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        texts = against(predictions, references, self.field)
        return {"chrf": round(self._corpus().corpus_score(list(predictions), [texts]).score, 6)}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 3K: for each of the K kinds of n-grams, those of the prediction, of the reference, and in both."""
        texts = against(predictions, references, self.field)
        return np.array(self._corpus()._extract_corpus_statistics(list(predictions), [texts]), np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """chrF of the rows summed."""
        return {"chrf": round(self._corpus()._compute_score_from_stats(np.asarray(sums).tolist()).score, 6)}

    def signature(self) -> str:
        """What a reported chrF must be accompanied by: how it was computed, in sacrebleu's words."""
        corpus = self._corpus()
        corpus.corpus_score(["a"], [["a"]])  # Only now does sacrebleu know the number of references.
        return str(corpus.get_signature().format())

    def _corpus(self) -> Any:
        try:
            from sacrebleu.metrics.chrf import CHRF
        except ImportError:
            raise ValueError("chrf needs the package sacrebleu: pip install 'weft[metrics]'") from None
        return CHRF(word_order=self.words)
