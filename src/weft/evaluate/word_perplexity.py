"""Perplexity per word, which is comparable between tokenizers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft.core.contracts import Metric
from weft.core.registry import block
from weft.data.ledger import WORDS_LOST
from weft.evaluate.reference import column


@block("word-perplexity")
class WordPerplexity(Metric):
    """Perplexity of a language model per whitespace-separated word, comparable between tokenizers.

    word_perplexity = exp(- sum log p(text) / (words + texts)). The EOS of each text counts as a word, as it is predicted too.
    Of a truncated text only the words that were scored count; ``truncated_words`` is the number of the others.

    Args:
        field: Column of the text.
        term: Loss term that is the negative log-likelihood of the texts.

    Example:
        >>> round(WordPerplexity().compute([{"loss": 3 * math.log(8)}], [{"text": "two words"}])["word_perplexity"], 6)
        8.0
    """

    inputs = "loss"
    higher_is_better = {"word_perplexity": False, "truncated_words": None}

    def __init__(self, *, field: str = "text", term: str = "loss"):
        super().__init__()
        self.field, self.term = field, term

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        """``predictions`` is one dict: the sum of each loss term over all examples. ``references`` are the scored texts."""
        (totals,) = predictions
        if self.term not in totals:
            raise ValueError(
                f"the metric word-perplexity needs the loss term {self.term!r}, but the loss has: {', '.join(totals)}"
            )
        words = sum(len(text.split()) + 1 for text in column(references, self.field))
        truncated = sum(int(reference.get(WORDS_LOST, 0)) for reference in references)
        value = math.exp(min(totals[self.term] / words, 700.0))
        return {"word_perplexity": value, "truncated_words": truncated}

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        if not (truncated := metric_values["truncated_words"]):
            return []
        return [
            f"word_perplexity does not include {truncated:,} words that truncation removed; to score all words, raise "
            "data.max_length or set data.on_overflow: split"
        ]
