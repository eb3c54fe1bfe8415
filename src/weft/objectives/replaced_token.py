"""Tell which tokens a small generator has replaced. N hidden places, E width of token vectors, G of the generator."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks import GELU, Dense, LayerNorm, Linear, Transformer
from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import DetectsReplaced, Embeds, Encoder, Encodes, MaskingStrategy, Objective
from weft.core.example import Example, Targets, ids_of
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.options import Dim, Fraction, Positive
from weft.core.registry import Build, block
from weft.objectives.masked_lm import MaskedLM
from weft.objectives.masking import Tokens

FINE = 2**40
"""So many random numbers are told apart."""


@block("replaced-token")
class ReplacedToken(Objective):
    """A small generator fills in hidden tokens; the model tells of every token whether it was replaced.

    loss = - sum_i log p_G(x_i | masked text) + weight sum_t BCE(D(x~)_t, [x~_t != x_t]),  x~_i ~ p_G at hidden places, else x_t.
    The first sum is counted by the hidden places, the second by all tokens that are no marks. No gradient goes through x~.

    The generator reads the model's own token vectors, and its head is tied to them. It is left behind after training; D is the
    model with its head ``discriminator``.

    Clark et al. 2020 (ELECTRA), https://arxiv.org/abs/2003.10555

    Args:
        share: Of a text's tokens, how many are hidden.
        masking: Which: tokens, words or spans.
        mask: Of the hidden tokens, how many become the mask; the others stay as they are.
        generator: The generator's encoder.
        width: Its width; None = a quarter of the model's, as published.
        vectors: Width of the model's token vectors; None = the model's.
        weight: Of the second loss.

    Example:
        >>> from weft.core.fields import Field
        >>> objective = ReplacedToken(Info({"text": Field("text", vocab=30)}), 32)
        >>> made = objective.prepare({"text": np.arange(7, 27)}, np.random.default_rng(0), None)
        >>> len(made["picks"].ids), len(made["asked"].ids)
        (3, 20)
    """

    needs = (Encodes, DetectsReplaced, Embeds)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        share: Fraction = 0.15,
        masking: Build[MaskingStrategy] = Tokens,
        mask: Fraction = 0.85,
        generator: Build[Encoder] = partial(Transformer, layers=2),
        width: Dim | None = None,
        vectors: Dim | None = None,
        weight: Positive = 50.0,
    ):
        super().__init__(info, dim)
        narrow = max(1, dim // 4) if width is None else width
        self.hide = MaskedLM(info, dim, share=share, masking=masking, mask=mask, other=0.0)
        self.field, self.weight = self.hide.field, weight
        self.narrow = Linear(dim, narrow)
        self.generator = generator(narrow)
        self.transform = Dense(narrow, vectors or dim, activation=GELU, norm=LayerNorm)
        self.bias = nn.Parameter(torch.zeros(self.field.vocab))

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        whole = self.hide.given(example)
        made = self.hide.prepare(example, rng, pool)
        if made is None:
            return None
        ids = ids_of(whole)
        free = self.hide.free(ids)
        return Instance(**made, asked=Targets("text", free, ids[free]), seed=int(rng.integers(2**62)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"generator": len(batch["picks"]), "replaced": len(batch["asked"])}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        text, picks, asked = batch["text"], batch["picks"], batch["asked"]
        embedded = model.embedder(text)
        hidden = self.generator(embedded.with_data(self.narrow(embedded.data)))
        logits_NV = self.logits(picks.gather(hidden), model.embedder.table())
        nll_N = F.cross_entropy(logits_NV.float(), picks.target_N, reduction="none")
        ids = text.data.flatten()
        original = ids.index_copy(0, picks.index_N, picks.target_N)
        guessed_N = sample(logits_NV.detach(), numbers(batch["seed"], picks.index_N, text.width))
        replaced = original.index_copy(0, picks.index_N, guessed_N)
        judged = model.encode(text.with_data(replaced.view_as(text.data)))
        score_N = model.discriminator(asked.gather(judged)).squeeze(-1)
        wrong_N = (replaced != original)[asked.index_N]
        bce_N = F.binary_cross_entropy_with_logits(score_N.float(), wrong_N.float(), reduction="none")
        return Loss({"generator": Term(nll_N.sum(), len(picks)), "replaced": Term(bce_N.sum(), len(asked), weight=self.weight)})

    def logits(self, hidden_NG: Tensor, table_VE: Tensor) -> Tensor:
        features_NE = self.transform(hidden_NG)
        if table_VE.shape[1] != features_NE.shape[1]:
            raise ValueError(
                f"the structure's token vectors have a width of {table_VE.shape[1]}, the generator's {features_NE.shape[1]}: "
                f"give the objective vectors: {table_VE.shape[1]}"
            )
        return F.linear(features_NE, table_VE, self.bias)


def numbers(seed_B: Tensor, index_N: Tensor, width: int) -> Tensor:
    """A random number in (0, 1) for each place, from its row's seed and where it stands: it does not depend on the batch.

    The finaliser of SplitMix64 (Steele, Lea and Flood 2014), as data/order.py has it.
    """
    x_N = seed_B[index_N // width] + (index_N % width) * -0x61C8864680B583EB
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x_N = (x_N ^ ((x_N >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (((x_N ^ (x_N >> 31)) & (FINE - 1)).double() + 0.5) / FINE


def sample(logits_NV: Tensor, number_N: Tensor) -> Tensor:
    """One token of each row by its probability: the first at which the probabilities so far exceed the row's random number."""
    share_NV = logits_NV.double().softmax(-1).cumsum(-1)
    return (share_NV < number_N[:, None] * share_NV[:, -1:]).sum(-1).clamp(max=logits_NV.shape[-1] - 1)
