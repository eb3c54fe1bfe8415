"""Next-token prediction: language modeling and sequence to sequence. N targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Decodes, ModelsLanguage, Objective, Search, require
from weft.core.example import Example, MarkedIds, Targets, ids_of, surround
from weft.core.fields import Field, Info, TextField, TokenizedField
from weft.core.loss import Loss
from weft.core.options import Fraction
from weft.core.registry import block
from weft.objectives.inputs import DecoderInput


def next_tokens(text: np.ndarray | MarkedIds, field: TokenizedField, conditional: bool = False) -> dict[str, Any]:
    """Input and targets of a decoder, shifted by one: ``<bos> text`` -> ``text <eos>``. ``conditional``: the decoder attends to
    an encoded text, and its input starts with ``TextField.decoder_prefix``."""
    first = field.decoder_prefix() if conditional else (field.special.bos,)
    ids = np.concatenate([np.asarray(first[1:], np.int64), ids_of(text), [field.special.eos]])
    return {"input": surround(first, text, []), "picks": Targets("input", np.arange(len(ids)), ids)}


@block("next-token")
class NextToken(Objective[Decodes]):
    """Next-token prediction (autoregressive language modeling), conditioned on the source if there is one.

    loss = - sum_t log p(y_t | y_<t, x), with t over all tokens and EOS; the count is their number. With label smoothing e the
    target puts 1 - e on y_t and e / V on every token.

    Bengio et al. 2003; Sutskever et al. 2014, https://arxiv.org/abs/1409.3215;
    label smoothing: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567

    Args:
        label_smoothing: Probability mass e that is spread over the vocabulary.
        full_sequence: Whether a decoder-only model predicts all texts of an example as one sequence: both of a pair, or the
            question and its correct choice, with the separator between them. As auxiliary loss: Radford et al. 2018.

    Example:
        >>> from weft.core.fields import TextField
        >>> objective = NextToken(Info({"text": TextField("text", vocab=10)}), 8)
        >>> objective.prepare({"text": np.array([7, 8])}, None, None)["input"].tolist()
        [1, 7, 8]
    """

    needs = (Decodes,)
    higher_is_better = {"perplexity": False}

    def __init__(self, info: Info, dim: int, *, label_smoothing: Fraction = 0.0, full_sequence: bool = False):
        super().__init__(info, dim)
        self.sequence = DecoderInput(info) if full_sequence else None
        target: Field = info[info.target] if self.sequence is None else self.sequence.field
        if not isinstance(target, TextField if self.sequence is None else TokenizedField):
            raise ValueError(
                f"next-token needs a text as target, but in the data ({info.data}) {info.target!r} is of type "
                f"{target.kind}; use another objective"
            )
        self.target = target
        self.sources = [f for f in info.texts() if f.name != info.target] if self.sequence is None else []
        self.needs = (Decodes,) if self.sequence is None else (Decodes, ModelsLanguage)
        self.smoothing = label_smoothing

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        return super().cost(lengths) if self.sequence is None else self.sequence.cost(lengths)

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        text = example[self.target.name] if self.sequence is None else self.sequence(example)
        ids = ids_of(text)
        if not len(ids) and not self.sources:
            return None
        sources = {f.name: f.frame.around([example[f.name]]) for f in self.sources}
        return Instance(**sources, **next_tokens(text, self.target, conditional=bool(self.sources)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])}

    def forward(self, model: Decodes, batch: Batch, clock: Clock) -> Loss:
        if self.sequence is not None:
            require(self, model)
        hidden = model.decode(batch["input"], model.memory(batch)).hidden
        picks = batch["picks"]
        # evaluation reports the loss without label smoothing
        smoothing = self.smoothing if self.training else 0.0
        nll_N = model.head.nll(picks.gather(hidden), picks.target_N, smoothing)
        return Loss.of(nll_N.sum(), len(picks))

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))}

    def predict(self, model: Decodes, batch: Batch, search: Search) -> list[Any]:
        if not self.sources:
            raise ValueError("a language model has no source text to generate a target from; evaluate its loss or perplexity")
        memory = model.memory(batch)
        lengths = batch[self.sources[0].name].lengths().tolist()
        return search(model, memory, limits=[search.limit(int(n)) for n in lengths], keys=batch.rows)
