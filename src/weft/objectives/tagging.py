"""Say a class for each word of a text. N words."""

from __future__ import annotations

from typing import Any

from weft.batch import Batch, Clock, Example, Info, Instance, Loss, Picks
from weft.catalog import block
from weft.choices import Share
from weft.objectives.weights import ClassWeights, Weights
from weft.slots import Objective, Search, Tags


@block("tagging")
class Tagging(Objective):
    """Predict the tag of each word of a text, each by itself.

    loss = - sum_t w(tag_t) log p(tag_t | text), with t over all words; the count is their number. Of a word that is several
    tokens, the first is asked.

    Collobert et al. 2011, https://arxiv.org/abs/1103.0398

    Args:
        label_smoothing: Share of the probability that is spread over all tags.
        weights: How much the loss of each tag counts in training, by name (others: 1); balanced = n / (C n_c), so that all C
            tags count alike; None = all words alike.

    Example:
        >>> import numpy as np
        >>> from weft.batch import Field
        >>> info = Info({"text": Field("text", vocab=10), "tags": Field("tags", vocab=3, kind="tags", space="text")})
        >>> example = {"text": np.array([7, 8, 9]), "tags": Picks("text", np.array([0, 2]), np.array([0, 2]))}
        >>> Tagging(info, 8).prepare(example, None, None)["tags"].ids.tolist()
        [0, 2]
    """

    needs = (Tags,)

    def __init__(self, info: Info, dim: int, *, label_smoothing: Share = 0.0, weights: Weights | None = None):
        super().__init__(info, dim)
        self.tags = info["tags"]
        if self.tags.kind != "tags":
            raise ValueError(f"needs a class for each word, but in the data ({info.data}) the field 'tags' is a {self.tags.kind}")
        self.smoothing = label_smoothing
        self.weigh = ClassWeights(self.tags, weights)

    def begin(self, model: Any, dataset: Any) -> None:
        self.weigh.count(dataset[row]["tags"].ids for row in range(len(dataset)))

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        tags: Picks = example["tags"]
        return Instance(text=example[self.tags.space], tags=Picks("text", tags.at, tags.ids)) if len(tags.at) else None

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["tags"])}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        tags = batch["tags"]
        smoothing = self.smoothing if self.training else 0.0
        nll_N = model.tagger.nll(tags.gather(model.encode(batch["text"])), tags.target_N, smoothing)
        return Loss.of(self.weigh(nll_N, tags.target_N).sum(), len(tags))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        """The numbers of the tags of each row's words."""
        tags, width = batch["tags"], batch["text"].width
        found: list[list[int]] = [[] for _ in range(len(batch))]
        best_N = model.tagger(tags.gather(model.encode(batch["text"]))).argmax(-1)
        for place, tag in zip(tags.index_N.tolist(), best_N.tolist(), strict=True):
            found[place // width].append(tag)
        return found
