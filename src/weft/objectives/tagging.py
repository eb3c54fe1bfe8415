"""Say a class for each word of a text. N words, C tags; T tokens are room for all words of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Objective, Search, Tags
from weft.core.example import Example, Targets
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.options import Fraction
from weft.core.registry import block
from weft.objectives.class_weights import ClassWeights, Weights


@block("tagging")
class Tagging(Objective):
    """Predict the tag of each word of a text; with a structure that has a chain, all tags of a text together.

    loss = - sum_t w(tag_t) log p(tag_t | text), with t over all words,  or with a chain  - log p(tag_1, tag_2, ... | text); the
    count is the number of words. Of a word that is several tokens, the first is asked.

    Collobert et al. 2011 (both ways), https://arxiv.org/abs/1103.0398

    Args:
        label_smoothing: Share of the probability that is spread over all tags.
        weights: How much the loss of each tag counts in training, by name (others: 1); balanced = n / (C n_c), so that all C
            tags count alike; None = all words alike.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import Field
        >>> info = Info({"text": Field("text", vocab=10), "tags": Field("tags", vocab=3, kind="tags", space="text")})
        >>> example = {"text": np.array([7, 8, 9]), "tags": Picks("text", np.array([0, 2]), np.array([0, 2]))}
        >>> Tagging(info, 8).prepare(example, None, None)["tags"].ids.tolist()
        [0, 2]
    """

    needs = (Tags,)

    def __init__(self, info: Info, dim: int, *, label_smoothing: Fraction = 0.0, weights: Weights | None = None):
        super().__init__(info, dim)
        self.tags = info["tags"]
        if self.tags.kind != "tags":
            raise ValueError(f"needs a class for each word, but in the data ({info.data}) the field 'tags' is a {self.tags.kind}")
        self.frame = info[self.tags.space].frame
        self.smoothing = label_smoothing
        self.weigh = ClassWeights(self.tags, weights)

    def setup(self, model: Any, dataset: Any) -> None:
        self.weigh.count(dataset[row]["tags"].ids for row in range(len(dataset)))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        tags: Targets = example["tags"]
        if not len(tags.at):
            return None
        at = tags.at + len(self.frame.first)
        return Instance(text=self.frame.around([example[self.tags.space]]), tags=Targets("text", at, tags.ids))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["tags"])}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        tags = batch["tags"]
        hidden_ND = tags.gather(model.encode(batch["text"]))
        if model.chain is not None:
            self._check_plain()
            grid = Grid.of(batch)
            target_BT = grid.spread(tags.target_N)
            nll_B = model.chain.nll(grid.spread(model.tag_head(hidden_ND)), target_BT, grid.mask_BT)
            return Loss.of(nll_B.sum(), len(tags))
        smoothing = self.smoothing if self.training else 0.0
        nll_N = model.tag_head.nll(hidden_ND, tags.target_N, smoothing)
        return Loss.of(self.weigh(nll_N, tags.target_N).sum(), len(tags))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        """The numbers of the tags of each row's words."""
        grid, score_NC = Grid.of(batch), model.tag_head(batch["tags"].gather(model.encode(batch["text"])))
        if model.chain is None:
            best_BT = grid.spread(score_NC.argmax(-1))
        else:
            best_BT = model.chain.best(grid.spread(score_NC), grid.mask_BT)
        lengths = grid.mask_BT.sum(1).tolist()
        return [row[:length] for row, length in zip(best_BT.tolist(), lengths, strict=True)]

    def _check_plain(self) -> None:
        if self.smoothing or not self.weigh.plain:
            option = "label_smoothing" if self.smoothing else "weights"
            raise ValueError(f"{option} is about tags one by one, but the structure has a chain: leave one of them out")


@dataclass(frozen=True)
class Grid:
    """Where each of the N words stands in B x T: its row, and its number in the row."""

    row_N: Tensor
    word_N: Tensor
    mask_BT: Tensor

    @classmethod
    def of(cls, batch: Batch) -> Grid:
        at_N, text = batch["tags"].index_N, batch["text"]
        row_N = at_N // text.width
        ones_N = torch.ones_like(row_N)
        words_B = torch.zeros(text.rows, dtype=torch.long, device=row_N.device).index_add(0, row_N, ones_N)
        first_B = words_B.cumsum(0) - words_B
        word_N = ones_N.cumsum(0) - 1 - first_B[row_N]
        return cls(row_N, word_N, torch.arange(text.width, device=row_N.device) < words_B[:, None])

    def spread(self, x_N: Tensor) -> Tensor:
        """B x T (x C) from N (x C); zeros where there is no word."""
        return x_N.new_zeros(*self.mask_BT.shape, *x_N.shape[1:]).index_put((self.row_N, self.word_N), x_N)
