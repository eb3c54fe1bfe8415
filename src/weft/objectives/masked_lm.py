"""Masked language modeling. N masked positions, T tokens, V vocabulary size."""

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
from weft.objectives.inputs import EncoderInput
from weft.objectives.masking import TokenMasking


class PreTrainsEncoder(PredictsMasked, ClassifiesPairs):
    """A structure with the heads of BERT; masked-lm needs those of its options."""


@block("masked-lm")
class MaskedLM(Objective[PreTrainsEncoder]):
    """Masked language modeling; with a pairing, also next-sentence or sentence-order prediction.

    loss = - sum_i log p(x_i | masked text), over the masked positions i; the count is their number.
    Of n tokens, max(1, round(mask_ratio n)) are masked: replaced by ``<mask>`` (80 %), by a random token (10 %), or kept (10 %).

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805; static and dynamic masking: Liu et al. 2019 (RoBERTa)

    Args:
        mask_ratio: Fraction of the tokens that are masked; 0 = none (with a pairing).
        masking: Masking strategy: tokens, whole-words or spans.
        mask_token_ratio: Fraction of the masked tokens (words, spans) that become the mask token.
        random_token_ratio: Fraction of the masked tokens (words, spans) that become random tokens.
        static: Static masking: a text is masked in the same way in every epoch, depending on the seed. Otherwise masking is
            dynamic.
        pairing: How a text is split into a pair of segments to classify; None = no pairs.

    Example:
        >>> from weft.core.fields import TextField
        >>> objective = MaskedLM(Info({"text": TextField("text", vocab=30)}), 8)
        >>> instance = objective.prepare({"text": np.arange(7, 27)}, np.random.default_rng(0), None)
        >>> len(instance["picks"].ids)
        3
    """

    higher_is_better = {"perplexity": False}

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        mask_ratio: Fraction = 0.15,
        masking: Build[MaskingStrategy] = TokenMasking,
        mask_token_ratio: Fraction = 0.8,
        random_token_ratio: Fraction = 0.1,
        static: bool = False,
        pairing: Build[Pairing] | None = None,
    ):
        super().__init__(info, dim)
        self.input, self.field = EncoderInput(info), info.input_texts()[0]
        if mask_token_ratio + random_token_ratio > 1 + 1e-9:
            raise ValueError(
                f"mask_token_ratio {mask_token_ratio} + random_token_ratio {random_token_ratio} is more than 1; "
                "the sum must be at most 1"
            )
        if self.field.special.mask < 0 and mask_token_ratio > 0:
            raise ValueError(
                f"the vocabulary of {self.field.name!r} has no mask token; set mask_token_ratio: 0, or use another tokenizer"
            )
        if not mask_ratio and pairing is None:
            raise ValueError("mask_ratio is 0 and there is no pairing, so there is no loss; set mask_ratio above 0 or a pairing")
        self.mask_ratio, self.static = mask_ratio, static
        self.mask_token_ratio, self.random_token_ratio = mask_token_ratio, random_token_ratio
        self.seed = torch.initial_seed()  # a run builds its network from its own seed
        self.masking, self.pairing = masking(), None if pairing is None else pairing()
        self.needs = (*((PredictsMasked,) if mask_ratio else ()), *((ClassifiesPairs,) if pairing is not None else ()))
        self.fills = bool(mask_ratio)
        self.reserved_V, self.ordinary = self.field.is_reserved(), self.field.ordinary_ids()

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        pair = None
        if self.pairing is not None:
            pair = self.pairing.pair(ids_of(example[self.field.name]), rng, pool, self.field.name)
            if pair is None:
                return None
            text = self.field.frame.around([pair.first, pair.second])
        else:
            text = self.input(example)
        ids = ids_of(text)
        free = self.maskable_positions(ids)
        if not len(free):
            return None
        if self.static:
            rng = np.random.default_rng(key("static", self.seed, ids.tobytes().hex()))
        masked, picks = self.mask(ids, free, rng) if self.mask_ratio else (ids, Targets("text", free[:0], free[:0]))
        instance = Instance(text=MarkedIds(masked, text.marks) if isinstance(text, MarkedIds) else masked, picks=picks)
        if pair is not None:
            instance["pairing"] = int(not pair.belong)  # 0 = original relation, as in published models
        return instance

    def maskable_positions(self, ids: np.ndarray) -> np.ndarray:
        """Positions of the tokens that may be masked: all but special tokens."""
        return np.flatnonzero(~self.reserved_V[ids])

    def mask(self, ids: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, Targets]:
        """The masked ids, and the original ids at the masked positions."""
        begins = ~self.field.continues()[ids[free]] if self.field.continuations else np.ones(len(free), bool)
        budget = max(1, round(self.mask_ratio * len(free)))
        groups = self.masking.choose(begins, budget, rng)
        if not groups:  # every word is longer than the budget
            groups = [np.array([int(rng.integers(len(free)))])]
        at = free[np.concatenate(groups)]
        draw = np.repeat(rng.random(len(groups)), [len(group) for group in groups])
        by_mask = at[draw < self.mask_token_ratio]
        by_random = at[(draw >= self.mask_token_ratio) & (draw < self.mask_token_ratio + self.random_token_ratio)]
        masked = ids.copy()
        masked[by_mask] = self.field.special.mask
        masked[by_random] = self.ordinary[rng.integers(len(self.ordinary), size=len(by_random))]
        at.sort()
        return masked, Targets("text", at, ids[at])

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])} | ({} if self.pairing is None else {"pairing": len(batch)})

    def forward(self, model: PreTrainsEncoder, batch: Batch, clock: Clock) -> Loss:
        require(self, model)
        encoded = model.encode(batch["text"])
        loss = Loss()
        if self.mask_ratio:
            picks = batch["picks"]
            assert model.head is not None  # needs PredictsMasked
            loss["loss"] = Term(model.head.nll(picks.gather(encoded), picks.target_N).sum(), len(picks))
        if self.pairing is not None:
            assert model.segment_head is not None and model.pooler is not None  # needs ClassifiesPairs
            nll_B = model.segment_head.nll(model.pooler(encoded), batch["pairing"])
            loss["pairing"] = Term(nll_B.sum(), len(batch))
        return loss

    def prepare_request(self, example: Example) -> Instance:
        """The text unchanged, with its mask tokens as the positions to predict."""
        if not self.fills:
            raise ValueError("mask_ratio is 0, so the model predicts no masked tokens; train with mask_ratio above 0")
        text = self.input(example)
        ids = ids_of(text)
        at = np.flatnonzero(ids == self.field.special.mask)
        if not len(at):
            raise ValueError("the text has no mask token; write <mask> or [MASK] for each token to predict")
        return Instance(text=text, masks=Targets("text", at, ids[at]))

    def predict(self, model: PreTrainsEncoder, batch: Batch, search: Search) -> list[Any]:
        if "masks" not in batch:  # the original tokens at randomly masked positions are no references of the data
            return super().predict(model, batch, search)
        if not isinstance(model, PredictsMasked) or model.head is None:
            raise ValueError(f"{type(model).__name__} has no masked-LM head; use a structure with task: masked-lm")
        masks, text = batch["masks"], batch["text"]
        logits_NV = model.head(masks.gather(model.encode(text)))[:, torch.from_numpy(self.ordinary).to(text.data.device)]
        found: list[list[int]] = [[] for _ in range(len(batch))]
        for index, best in zip(masks.index_N.tolist(), logits_NV.argmax(-1).tolist(), strict=True):
            found[index // text.width].append(int(self.ordinary[best]))
        return [MaskPrediction(self.field.name, tuple(ids)) for ids in found]

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": math.exp(min(means["loss"], 700.0))} if "loss" in means else {}
