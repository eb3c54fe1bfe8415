"""Predict the next token: language models, and sequence to sequence. N targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Decodes, ModelsLanguage, Objective, Search, require
from weft.core.example import Example, MarkedIds, Targets, ids_of, surround
from weft.core.fields import Field, Info
from weft.core.loss import Loss
from weft.core.options import Fraction
from weft.core.registry import block
from weft.objectives.inputs import Whole


def next_tokens(text: np.ndarray | MarkedIds, field: Field, apart: bool = False) -> dict[str, Any]:
    """What a decoder is given of a text, and what it is to predict: begin text -> text end. ``apart``: it looks at another text,
    and begins as ``Field.opening`` says."""
    first = field.decoder_prefix() if apart else (field.special.bos,)
    ids = np.concatenate([np.asarray(first[1:], np.int64), ids_of(text), [field.special.eos]])
    return {"input": surround(first, text, []), "picks": Targets("input", np.arange(len(ids)), ids)}


@block("next-token")
class NextToken(Objective):
    """Predict each token from those before it, and from the source if there is one.

    loss = - sum_t log p(y_t | y_<t, x), with t over all tokens and the end mark; the count is their number. With label
    smoothing e the target puts 1 - e on y_t and e / V on every token.

    Bengio et al. 2003; Sutskever et al. 2014, https://arxiv.org/abs/1409.3215;
    label smoothing: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567

    Args:
        label_smoothing: e, the share of the probability that is spread over the vocabulary.
        whole: Whether a row's texts are one sequence and all of it is predicted, by a decoder alone: the two of a pair, or the
            question and its right choice, with the separator between them. Beside the loss of an answer: Radford et al. 2018.

    Example:
        >>> from weft.core.fields import Field
        >>> objective = NextToken(Info({"text": Field("text", vocab=10)}), 8)
        >>> objective.prepare({"text": np.array([7, 8])}, None, None)["input"].tolist()
        [1, 7, 8]
    """

    needs = (Decodes,)
    higher_is_better = {"perplexity": False}

    def __init__(self, info: Info, dim: int, *, label_smoothing: Fraction = 0.0, whole: bool = False):
        super().__init__(info, dim)
        self.whole = Whole(info) if whole else None
        self.target = info[info.target] if self.whole is None else self.whole.field
        if self.whole is None and self.target.kind != "text":
            raise ValueError(f"predicts the tokens of a text, but the data's target {info.target!r} is a {self.target.kind}")
        self.given = [f for f in info.texts() if f.name != info.target] if self.whole is None else []
        self.needs = (Decodes,) if self.whole is None else (Decodes, ModelsLanguage)
        self.smoothing = label_smoothing

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        return super().cost(lengths) if self.whole is None else self.whole.cost(lengths)

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        text = example[self.target.name] if self.whole is None else self.whole(example)
        ids = ids_of(text)
        if not len(ids) and not self.given:
            return None
        given = {f.name: f.frame.around([example[f.name]]) for f in self.given}
        return Instance(**given, **next_tokens(text, self.target, apart=bool(self.given)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        if self.whole is not None:
            require(self, model)
        hidden = model.decode(batch["input"], model.memory(batch)).hidden
        picks = batch["picks"]
        # label smoothing is a way of training; what is reported in evaluation is the plain loss
        smoothing = self.smoothing if self.training else 0.0
        nll_N = model.head.nll(picks.gather(hidden), picks.target_N, smoothing)
        return Loss.of(nll_N.sum(), len(picks))

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))}

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        if not self.given:
            raise ValueError("a language model's texts are not answers to anything: ask for its loss or perplexity")
        memory = model.memory(batch)
        lengths = batch[self.given[0].name].lengths().tolist()
        return search(model, memory, limits=[search.limit(int(n)) for n in lengths], keys=batch.rows)
