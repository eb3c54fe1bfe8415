"""chrF, by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.catalog import block
from weft.choices import Natural
from weft.evaluate.reference import against
from weft.slots import Metric


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

    wants = "text"

    def __init__(self, *, field: str = "target", words: Natural = 0):
        super().__init__()
        self.field, self.words = field, words

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        texts = against(predictions, references, self.field)
        try:
            from sacrebleu.metrics.chrf import CHRF
        except ImportError:
            raise ValueError("chrf needs the package sacrebleu: pip install 'weft[metrics]'") from None
        return {"chrf": round(CHRF(word_order=self.words).corpus_score(list(predictions), [texts]).score, 6)}
