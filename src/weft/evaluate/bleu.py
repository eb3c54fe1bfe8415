"""BLEU, by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from weft.catalog import block
from weft.evaluate.reference import against
from weft.slots import Metric


@block("bleu")
class BLEU(Metric):
    """BLEU of the whole corpus, 0 to 100, as sacrebleu computes it (texts as people write them, not tokenised).

    BLEU = 100 min(1, exp(1 - r / c)) exp(mean_{n=1..4} log precision_n), c and r the lengths of predictions and references

    Papineni et al. 2002; Post 2018, https://arxiv.org/abs/1804.08771

    Args:
        field: Column of the raw row with the reference.
        tokenize: How sacrebleu splits the texts into words.
        lowercase: Whether upper and lower case are the same.

    Example:
        >>> BLEU().compute(["the cat sat on the mat"], [{"target": "the cat sat on the mat"}])
        {'bleu': 100.0}
    """

    wants = "text"

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
        texts = against(predictions, references, self.field)
        try:
            from sacrebleu.metrics.bleu import BLEU as Corpus
        except ImportError:
            raise ValueError("bleu needs the package sacrebleu: pip install 'weft[metrics]'") from None
        # force: what was tokenised is not guessed from the texts, and not complained about at every evaluation.
        corpus = Corpus(tokenize=self.tokenize, lowercase=self.lowercase, force=True)
        return {"bleu": round(corpus.corpus_score(list(predictions), [texts]).score, 6)}
