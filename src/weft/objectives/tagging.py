"""Sequence tagging. B examples, N words in total, C tags, T tokens (at least the words of an example)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Dataset, Objective, Search, Tags
from weft.core.example import Example, Targets
from weft.core.fields import Info, TagsField
from weft.core.loss import Loss
from weft.core.options import Fraction
from weft.core.registry import block
from weft.objectives.class_weights import ClassWeights, Weights


@block("tagging")
class Tagging(Objective[Tags]):
    """Sequence tagging (token classification): predict the tag of each word; with a CRF in the structure, all tags jointly.

    loss = - sum_t w(tag_t) log p(tag_t | text), with t over all words,  or with a CRF  - log p(tag_1, tag_2, ... | text); the
    count is the number of words. A word of several tokens is classified at its first token.

    Collobert et al. 2011 (word-level and sentence-level likelihood), https://arxiv.org/abs/1103.0398

    Args:
        label_smoothing: Probability mass that is spread over all tags.
        weights: Weights of the tags in training, by name (1 for others); balanced = n / (C n_c) for a tag of n_c of n words; None
            = all 1.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import TagsField, TextField
        >>> info = Info({"text": TextField("text", vocab=10), "tags": TagsField("tags", 3)})
        >>> example = {"text": np.array([7, 8, 9]), "tags": Targets("text", np.array([0, 2]), np.array([0, 2]))}
        >>> Tagging(info, 8).prepare(example, None, None)["tags"].ids.tolist()
        [0, 2]
    """

    needs = (Tags,)
    metrics = ("tag-accuracy",)

    def __init__(self, info: Info, dim: int, *, label_smoothing: Fraction = 0.0, weights: Weights | None = None):
        super().__init__(info, dim)
        self.tags = info.expect("tags", TagsField, "use data such as tagged-text")
        self.frame = info.text(self.tags.of).frame
        self.smoothing = label_smoothing
        self.class_weights = ClassWeights(self.tags, weights)

    def setup(self, model: Tags, dataset: Dataset) -> None:
        self.class_weights.count(dataset[index]["tags"].ids for index in range(len(dataset)))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        tags: Targets = example["tags"]
        if not len(tags.at):
            return None
        text = example[self.tags.of]
        at = tags.at + self.frame.start([len(text)], 0)
        return Instance(text=self.frame.around([text]), tags=Targets("text", at, tags.ids))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["tags"])}

    def forward(self, model: Tags, batch: Batch, clock: Clock) -> Loss:
        tags = batch["tags"]
        hidden_ND = tags.gather(model.encode(batch["text"]))
        if model.chain is not None:
            self._check_unweighted()
            grid = WordGrid.of(batch)
            target_BT = grid.scatter(tags.target_N)
            nll_B = model.chain.nll(grid.scatter(model.tag_head(hidden_ND)), target_BT, grid.mask_BT)
            return Loss.of(nll_B.sum(), len(tags))
        smoothing = self.smoothing if self.training else 0.0
        nll_N = model.tag_head.nll(hidden_ND, tags.target_N, smoothing)
        return Loss.of(self.class_weights(nll_N, tags.target_N).sum(), len(tags))

    def predict(self, model: Tags, batch: Batch, search: Search) -> list[Any]:
        """Tag indices of the words of each example."""
        grid, score_NC = WordGrid.of(batch), model.tag_head(batch["tags"].gather(model.encode(batch["text"])))
        if model.chain is None:
            best_BT = grid.scatter(score_NC.argmax(-1))
        else:
            best_BT = model.chain.best(grid.scatter(score_NC), grid.mask_BT)
        lengths = grid.mask_BT.sum(1).tolist()
        return [row[:length] for row, length in zip(best_BT.tolist(), lengths, strict=True)]

    def _check_unweighted(self) -> None:
        if self.smoothing or not self.class_weights.uniform:
            option = "label_smoothing" if self.smoothing else "weights"
            raise ValueError(
                f"{option} applies to the loss of single tags, but the structure has a CRF; "
                f"remove {option}, or the CRF of the structure"
            )


@dataclass(frozen=True)
class WordGrid:
    """Index of each of the N words in a B x T grid: its row, and its number in the row."""

    row_N: Tensor
    word_N: Tensor
    mask_BT: Tensor

    @classmethod
    def of(cls, batch: Batch) -> WordGrid:
        at_N, text = batch["tags"].index_N, batch["text"]
        row_N = at_N // text.width
        ones_N = torch.ones_like(row_N)
        words_B = torch.zeros(text.rows, dtype=torch.long, device=row_N.device).index_add(0, row_N, ones_N)
        first_B = words_B.cumsum(0) - words_B
        word_N = ones_N.cumsum(0) - 1 - first_B[row_N]
        return cls(row_N, word_N, torch.arange(text.width, device=row_N.device) < words_B[:, None])

    def scatter(self, x_N: Tensor) -> Tensor:
        """B x T (x C) from N (x C); zeros after the last word of a row."""
        return x_N.new_zeros(*self.mask_BT.shape, *x_N.shape[1:]).index_put((self.row_N, self.word_N), x_N)
