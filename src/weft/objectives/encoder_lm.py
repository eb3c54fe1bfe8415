"""Language modeling with an encoder under a causal mask. N targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from weft.blocks import UntiedHead
from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Encodes, Head, Objective
from weft.core.example import Example, Targets, ids_of, surround
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.masks import Causal
from weft.core.options import Vocab
from weft.core.registry import Build, block


@block("encoder-lm")
class EncoderLM(Objective[Encodes]):
    """Next-token prediction with an encoder under a causal mask: an auxiliary task for taggers and classifiers.

    loss = - sum_t log p(x_t | x_<t),  p = softmax(head(encoder(x; Causal)_(t-1))), with t over all tokens and EOS; the count is
    their number.

    The encoder must support the mask Causal (a Transformer, a CNN), so that no target is visible; in the main task the same
    weights attend to both sides. The head belongs to the objective and is needed only in training.

    Rei 2017, https://arxiv.org/abs/1704.07156 (there with one network per direction)

    Args:
        head: Output layer over the vocabulary.
        vocab_size: Predict only the ids below this, which are the most frequent ones, and all others as <unk>; None = all.

    Example:
        >>> from weft.core.fields import TextField
        >>> objective = EncoderLM(Info({"text": TextField("text", vocab=20)}), 8, vocab_size=10)
        >>> objective.prepare({"text": np.array([7, 12])}, None, None)["picks"].ids.tolist()
        [7, 3, 2]
    """

    needs = (Encodes,)
    higher_is_better = {"perplexity": False}

    def __init__(self, info: Info, dim: int, *, head: Build[Head] = UntiedHead, vocab_size: Vocab | None = None):
        super().__init__(info, dim)
        self.text = info.text("text")
        self.vocab_size = min(vocab_size or self.text.vocab, self.text.vocab)
        self.head = head(dim, replace(self.text, vocab=self.vocab_size), None)

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        text, special = example["text"], self.text.special
        ids = np.append(ids_of(text), special.eos)
        known = np.where(ids < self.vocab_size, ids, special.unk)
        return Instance(input=surround([special.bos], text, []), picks=Targets("input", np.arange(len(ids)), known))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])}

    def forward(self, model: Encodes, batch: Batch, clock: Clock) -> Loss:
        picks = batch["picks"]
        nll_N = self.head.nll(picks.gather(model.encode(batch["input"], Causal())), picks.target_N)
        return Loss.of(nll_N.sum(), len(picks))

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))}
