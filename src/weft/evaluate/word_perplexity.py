"""Perplexity per word: comparable between tokenizers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.evaluate.reference import column


@block("word-perplexity")
class WordPerplexity(Metric):
    """The perplexity of a language model per word, however its tokenizer cuts words into pieces.

    word_perplexity = exp(- sum log p(texts) / (words + texts)): words have blanks between them, and the end of each text counts
    as one, for it is predicted too.

    Args:
        field: Column of the raw row with the text.
        term: The term of the loss that is the log-probability of the texts.

    Example:
        >>> round(WordPerplexity().compute([{"loss": 3 * math.log(8)}], [{"text": "two words"}])["word_perplexity"], 6)
        8.0
    """

    inputs = "loss"
    higher_is_better = {"word_perplexity": False}

    def __init__(self, *, field: str = "text", term: str = "loss"):
        super().__init__()
        self.field, self.term = field, term

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        """``predictions`` is one dict: the sum of every term of the loss over all rows."""
        (totals,) = predictions
        if self.term not in totals:
            raise ValueError(f"word-perplexity: the loss has no term {self.term!r} (it has: {', '.join(totals)})")
        words = sum(len(text.split()) + 1 for text in column(references, self.field))
        return {"word_perplexity": math.exp(min(totals[self.term] / words, 700.0))}
