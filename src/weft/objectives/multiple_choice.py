"""Multiple choice. B examples, N choices in total, M the largest number per example; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance, Ragged
from weft.core.contracts import Objective, ScoresChoices, Search
from weft.core.example import Example, Sequences
from weft.core.fields import Info, LabelField, TextsField
from weft.core.loss import Loss
from weft.core.registry import block
from weft.objectives.inputs import pair_frame, with_bos


@block("multiple-choice")
class MultipleChoiceObjective(Objective[ScoresChoices]):
    """Multiple choice: score each text of ``choices``, with the ``question`` if there is one, and predict the correct one.

    loss = - sum_i log softmax(s_i)_(y_i), with s_i the logits of the choices of example i; the count is the number of examples.

    Radford et al. 2018 (GPT, section 3.3); Devlin et al. 2019 (BERT, section 4.4), https://arxiv.org/abs/1810.04805

    Args:
        bos: Whether the input starts with the BOS token, as in language-model pretraining.

    Example:
        >>> from weft.core.fields import LabelField, TextField, TextsField
        >>> fields = [TextField("question", 10), TextsField("choices", 10), LabelField("label", 2)]
        >>> example = {"question": np.array([7]), "choices": Sequences((np.array([8, 8]), np.array([9]))), "label": 1}
        >>> info = Info({f.name: f for f in fields})
        >>> choices = MultipleChoiceObjective(info, 8).prepare(example, None, None)["choices"]
        >>> [part.tolist() for part in choices.parts]
        [[7, 6, 8, 8, 2], [7, 6, 9, 2]]
    """

    needs = (ScoresChoices,)
    metrics = ("accuracy",)

    def __init__(self, info: Info, dim: int, *, bos: bool = False):
        super().__init__(info, dim)
        self.choices = info.expect("choices", TextsField, "use data such as multiple-choice")
        info.expect("label", LabelField, "use data such as multiple-choice, whose label is the index of the correct choice")
        self.has_question = "question" in info
        if self.has_question and info.text("question").space != self.choices.space:
            raise ValueError(
                f"multiple-choice encodes question and choice as one sequence, but in the data ({info.data}) they have different "
                f"vocabularies ({info.text('question').space}, {self.choices.space}); use one tokenizer for both"
            )
        frame = pair_frame(self.choices)
        self.frame = with_bos(frame, self.choices) if bos else frame

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """Tokens of all choices; the question and the special tokens count once per choice."""
        number, each = lengths["choices/sizes"].astype(np.int64), self.frame.size(1 + self.has_question)
        if self.has_question:
            each = each + lengths["question"].astype(np.int64)
        return number * each + lengths["choices"].astype(np.int64)

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        question = [example["question"]] if self.has_question else []
        sequences = tuple(self.frame.around([*question, choice]) for choice in example["choices"].parts)
        return Instance(choices=Sequences(sequences), label=int(example["label"]))

    def forward(self, model: ScoresChoices, batch: Batch, clock: Clock) -> Loss:
        choices, logit_N = batch["choices"], _logits(model, batch)
        correct_B = logit_N.index_select(0, choices.offsets() + batch["label"])
        return Loss.of((log_sum_exp(choices, logit_N) - correct_B).sum(), len(batch))

    def predict(self, model: ScoresChoices, batch: Batch, search: Search) -> list[Any]:
        """Index of the best choice of each example."""
        return batch["choices"].to_padded(_logits(model, batch), -torch.inf).argmax(-1).tolist()

    def probabilities(self, model: ScoresChoices, batch: Batch) -> Tensor:
        """B x M; 0 after the last choice of an example with fewer than M."""
        choices, logit_N = batch["choices"], _logits(model, batch)
        return choices.to_padded((logit_N - log_sum_exp(choices, logit_N)[choices.owner_N]).exp(), 0.0)


def _logits(model: ScoresChoices, batch: Batch) -> Tensor:
    return model.choice_head(model.features(batch["choices"].seq)).squeeze(-1).float()


def log_sum_exp(choices: Ragged, x_N: Tensor) -> Tensor:
    """B: log sum exp over the values of each example."""
    max_B = x_N.new_full((choices.rows,), -torch.inf).scatter_reduce(0, choices.owner_N, x_N.detach(), "amax")
    shifted_N = x_N - max_B[choices.owner_N]  # the maximum is 0, so exp does not overflow
    return x_N.new_zeros(choices.rows).index_add(0, choices.owner_N, shifted_N.exp()).log() + max_B
