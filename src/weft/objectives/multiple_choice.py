"""Choose one of several texts. B rows, N texts in all, M of the row that has most; other suffixes as in seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance, Ragged
from weft.core.contracts import Objective, ScoresChoices, Search
from weft.core.example import Example, Sequences
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.registry import block
from weft.objectives.inputs import begun, delimited


@block("multiple-choice")
class MultipleChoiceObjective(Objective):
    """Predict which of a row's texts (field ``choices``) is right; each is read with the ``question``, if there is one.

    loss = - sum_i log softmax over the choices of row i of the right one's logit; the count is the number of rows.

    Radford et al. 2018 (GPT, section 3.3); Devlin et al. 2019 (BERT, section 4.4), https://arxiv.org/abs/1810.04805

    Args:
        begin: Whether the begin mark stands before what is read, as it does where a language model learns to write it.

    Example:
        >>> from weft.core.fields import Field
        >>> fields = [Field("question", 10), Field("choices", 10, kind="texts"), Field("label", 2, kind="label")]
        >>> example = {"question": np.array([7]), "choices": Several((np.array([8, 8]), np.array([9]))), "label": 1}
        >>> made = Choice(Info({f.name: f for f in fields}), 8).prepare(example, None, None)["choices"]
        >>> [part.tolist() for part in made.parts]
        [[7, 6, 8, 8, 2], [7, 6, 9, 2]]
    """

    needs = (ScoresChoices,)

    def __init__(self, info: Info, dim: int, *, begin: bool = False):
        super().__init__(info, dim)
        self.choices, self.asks = info["choices"], "question" in info
        if self.choices.kind != "texts":
            raise ValueError(f"needs several texts a row, but in the data ({info.data}) 'choices' is a {self.choices.kind}")
        if info["label"].kind != "label":
            raise ValueError(
                f"needs the number of the right text, but in the data ({info.data}) 'label' is a {info['label'].kind}"
            )
        if self.asks and info["question"].space != self.choices.space:
            raise ValueError(
                f"reads question and choice as one text, but in the data ({info.data}) they are of different id spaces "
                f"({info['question'].space}, {self.choices.space})"
            )
        frame = delimited(self.choices)
        self.frame = begun(frame, self.choices) if begin else frame

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """The question counts once for each choice, as do the ids around them."""
        frame, number = self.frame, lengths["choices/sizes"].astype(np.int64)
        each = len(frame.first) + len(frame.last)
        if self.asks:
            each = each + len(frame.between) + lengths["question"].astype(np.int64)
        return number * each + lengths["choices"].astype(np.int64)

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        question = [example["question"]] if self.asks else []
        read = tuple(self.frame.around([*question, choice]) for choice in example["choices"].parts)
        return Instance(choices=Sequences(read), label=int(example["label"]))

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        choices, logit_N = batch["choices"], _logits(model, batch)
        right_B = logit_N.index_select(0, choices.offsets() + batch["label"])
        return Loss.of((log_sum(choices, logit_N) - right_B).sum(), len(batch))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        """The number of the best choice of each row."""
        return batch["choices"].to_padded(_logits(model, batch), -torch.inf).argmax(-1).tolist()

    def probabilities(self, model: Any, batch: Batch) -> Tensor:
        """B x M; 0 after the last choice of a row that has fewer."""
        choices, logit_N = batch["choices"], _logits(model, batch)
        return choices.to_padded((logit_N - log_sum(choices, logit_N)[choices.owner_N]).exp(), 0.0)


def _logits(model: Any, batch: Batch) -> Tensor:
    return model.choice_head(model.features(batch["choices"].seq)).squeeze(-1).float()


def log_sum(choices: Ragged, x_N: Tensor) -> Tensor:
    """B: log sum exp over the numbers of each row."""
    most_B = x_N.new_full((choices.rows,), -torch.inf).scatter_reduce(0, choices.owner_N, x_N.detach(), "amax")
    less_N = x_N - most_B[choices.owner_N]  # the largest is 0: no exp overflows
    return x_N.new_zeros(choices.rows).index_add(0, choices.owner_N, less_N.exp()).log() + most_B
