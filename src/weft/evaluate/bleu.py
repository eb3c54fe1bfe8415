"""BLEU, computed by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import reference_column


@block("bleu")
class BLEU(Metric):
    """Corpus BLEU, 0 to 100, as computed by sacrebleu on detokenized texts.

    BLEU = 100 min(1, exp(1 - r / c)) exp(mean_{n=1..4} log precision_n), with c and r the lengths of predictions and references

    Papineni et al. 2002; Post 2018, https://arxiv.org/abs/1804.08771

    Args:
        field: Column of the reference.
        tokenize: Tokenizer of sacrebleu.
        lowercase: Whether texts are lowercased.

    Example:
        >>> BLEU().compute(["the cat sat on the mat"], [{"target": "the cat sat on the mat"}])
        {'bleu': 100.0}
    """

    inputs = "text"
    higher_is_better = {"bleu": True}

    def __init__(
        self,
        *,
        field: str = "target",
        tokenize: Literal["13a", "intl", "zh", "char", "none"] = "13a",
        lowercase: bool = False,
    ):
        super().__init__()
        self.field, self.tokenize, self.lowercase = field, tokenize, lowercase

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        texts = reference_column(predictions, references, self.field)
        return {"bleu": round(self._corpus().corpus_score(list(predictions), [texts]).score, 6)}

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 10: lengths of prediction and reference, matching 1- to 4-grams, and all 1- to 4-grams of the prediction."""
        texts, corpus = reference_column(predictions, references, self.field), self._corpus(effective_order=True)
        scores = [corpus.sentence_score(p, [text]) for p, text in zip(predictions, texts, strict=True)]
        return np.array([(s.sys_len, s.ref_len, *s.counts, *s.totals) for s in scores], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """BLEU from the summed statistics."""
        counts = [int(n) for n in sums]
        found = self._corpus().compute_bleu(counts[2:6], counts[6:], counts[0], counts[1], smooth_method="exp")
        return {"bleu": round(found.score, 6)}

    def signature(self) -> str:
        """The signature of sacrebleu, to be reported with the score."""
        corpus = self._corpus()
        corpus.corpus_score(["a"], [["a"]])  # the signature needs the number of references
        return str(corpus.get_signature().format())

    def _corpus(self, effective_order: bool = False) -> Any:
        try:
            from sacrebleu.metrics.bleu import BLEU as Corpus
        except ImportError:
            raise ValueError("the metric bleu needs the package sacrebleu: pip install 'weft[metrics]'") from None
        # force: no warning if texts look tokenized
        return Corpus(tokenize=self.tokenize, lowercase=self.lowercase, effective_order=effective_order, force=True)
