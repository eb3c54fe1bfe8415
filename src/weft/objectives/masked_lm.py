"""Say which tokens were hidden. N hidden places."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import ClassifiesPairs, MaskingStrategy, Objective, Pairing, PredictsMasked, Search, require
from weft.core.example import Example, MarkedIds, Targets, ids_of
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.options import Fraction
from weft.core.outputs import MaskPrediction
from weft.core.registry import Build, block
from weft.core.seeding import key
from weft.objectives.inputs import Given
from weft.objectives.masking import Tokens


@block("masked-lm")
class MaskedLM(Objective):
    """Hide some tokens of a text and say which they were; with a pairing, also whether two segments belong together.

    loss = - sum_i log p(x_i | the text with its places hidden), over the hidden places i; the count is their number.
    Of n tokens, max(1, round(share n)) are hidden: by ``<mask>`` (80 %), by another token (10 %), or not at all (10 %).

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805; static and dynamic: Liu et al. 2019 (RoBERTa)

    Args:
        share: Of a text's tokens, how many are hidden; 0 = none (with a pairing).
        masking: Which: tokens, words or spans.
        mask: Of the hidden groups, how many become the mask.
        other: Of the hidden groups, how many become other tokens, drawn evenly.
        static: Whether a text is hidden in the same way each time, which depends on the seed; otherwise it is in a new way in
            each epoch.
        pairing: How two segments are made of a text, and what is asked about them; None = nothing is.

    Example:
        >>> from weft.core.fields import Field
        >>> objective = MaskedLM(Info({"text": Field("text", vocab=30)}), 8)
        >>> made = objective.prepare({"text": np.arange(7, 27)}, np.random.default_rng(0), None)
        >>> len(made["picks"].ids)
        3
    """

    higher_is_better = {"perplexity": False}

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        share: Fraction = 0.15,
        masking: Build[MaskingStrategy] = Tokens,
        mask: Fraction = 0.8,
        other: Fraction = 0.1,
        static: bool = False,
        pairing: Build[Pairing] | None = None,
    ):
        super().__init__(info, dim)
        self.given, self.field = Given(info), info.input_texts()[0]
        if mask + other > 1 + 1e-9:
            raise ValueError(f"{mask} masked and {other} replaced are more than all hidden tokens: their sum is at most 1")
        if self.field.special.mask < 0 and mask > 0:
            raise ValueError(f"the vocabulary of {self.field.name!r} has no id for a mask: give mask 0, or another tokenizer")
        if not share and pairing is None:
            raise ValueError("share 0 without a pairing leaves nothing to learn")
        self.share, self.mask, self.other, self.static = share, mask, other, static
        self.seed = torch.initial_seed()  # a run builds its network from its own seed
        self.masking, self.pairing = masking(), None if pairing is None else pairing()
        self.needs = (*((PredictsMasked,) if share else ()), *((ClassifiesPairs,) if pairing is not None else ()))
        self.fills = bool(share)
        self.reserved_V, self.ordinary = self.field.is_reserved(), self.field.ordinary_ids()

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        related = None
        if self.pairing is not None:
            related = self.pairing.pair(ids_of(example[self.field.name]), rng, pool, self.field.name)
            if related is None:
                return None
            whole = self.field.frame.around([related.first, related.second])
        else:
            whole = self.given(example)
        ids = ids_of(whole)
        free = self.free(ids)
        if not len(free):
            return None
        if self.static:
            rng = np.random.default_rng(key("static", self.seed, ids.tobytes().hex()))
        hidden, picks = self.hide(ids, free, rng) if self.share else (ids, Targets("text", free[:0], free[:0]))
        made = Instance(text=MarkedIds(hidden, whole.marks) if isinstance(whole, MarkedIds) else hidden, picks=picks)
        if related is not None:
            made["relation"] = int(not related.belong)  # 0 = they belong together, as published models say it
        return made

    def free(self, ids: np.ndarray) -> np.ndarray:
        """The places of a text that may be hidden: all but those of special ids."""
        return np.flatnonzero(~self.reserved_V[ids])

    def hide(self, ids: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Targets]:
        """The ids with places hidden, and what stood there."""
        begins = ~self.field.continues()[ids[free]] if self.field.continuations else np.ones(len(free), bool)
        budget = max(1, round(self.share * len(free)))
        groups = self.masking.choose(begins, budget, rng)
        if not groups:  # every word is longer than the budget
            groups = [np.array([int(rng.integers(len(free)))])]
        at = free[np.concatenate(groups)]
        fate = np.repeat(rng.random(len(groups)), [len(group) for group in groups])
        masked, replaced = at[fate < self.mask], at[(fate >= self.mask) & (fate < self.mask + self.other)]
        hidden = ids.copy()
        hidden[masked] = self.field.special.mask
        hidden[replaced] = self.ordinary[rng.integers(len(self.ordinary), size=len(replaced))]
        at.sort()
        return hidden, Targets("text", at, ids[at])

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])} | ({} if self.pairing is None else {"relation": len(batch)})

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        require(self, model)
        encoded = model.encode(batch["text"])
        loss = Loss()
        if self.share:
            picks = batch["picks"]
            loss["loss"] = Term(model.head.nll(picks.gather(encoded), picks.target_N).sum(), len(picks))
        if self.pairing is not None:
            nll_B = model.segment_head.nll(model.pooler(encoded), batch["relation"])
            loss["relation"] = Term(nll_B.sum(), len(batch))
        return loss

    def prepare_request(self, example: Example) -> Instance:
        """The text as it is: the masks that stand in it are asked about."""
        if not self.fills:
            raise ValueError("nothing is filled in (share is 0), and no row asks whether its segments belong together")
        whole = self.given(example)
        ids = ids_of(whole)
        if not (ids == self.field.special.mask).any():
            raise ValueError("there is no mask in it: write <mask> or [MASK] in the place of each token that is to be found")
        at = np.flatnonzero(ids == self.field.special.mask)
        return Instance(text=whole, masks=Targets("text", at, ids[at]))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        if "masks" not in batch:  # what was hidden by chance is no answer that data has
            return super().predict(model, batch, search)
        if not isinstance(model, PredictsMasked) or model.head is None:
            raise ValueError(f"{type(model).__name__} does not say which token stands at a place: it has no head for that")
        masks, text = batch["masks"], batch["text"]
        logits_NV = model.head(masks.gather(model.encode(text)))[:, torch.from_numpy(self.ordinary).to(text.data.device)]
        found: list[list[int]] = [[] for _ in range(len(batch))]
        for place, best in zip(masks.index_N.tolist(), logits_NV.argmax(-1).tolist(), strict=True):
            found[place // text.width].append(int(self.ordinary[best]))
        return [MaskPrediction(self.field.name, tuple(ids)) for ids in found]

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))} if "loss" in means else {}
