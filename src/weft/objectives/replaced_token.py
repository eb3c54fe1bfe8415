"""Replaced-token detection (ELECTRA). N positions, E embedding size, G size of the generator, V vocabulary size."""

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
from weft.objectives.masking import TokenMasking

RESOLUTION = 2**40
"""Number of distinct uniform samples."""


class EmbedsAndDetects(DetectsReplaced, Embeds):
    """A structure that detects replaced tokens, and whose token embeddings the generator shares."""


@block("replaced-token")
class ReplacedToken(Objective[EmbedsAndDetects]):
    """Replaced-token detection: a small generator fills masked tokens; the model classifies every token as original or replaced.

    loss = - sum_i log p_G(x_i | masked text) + w sum_t BCE(D(x~)_t, [x~_t != x_t]), with w = ``discriminator_weight``,
    x~_i ~ p_G at masked positions, else x_t. The first sum is over masked positions, the second over all tokens but special ones;
    each is divided by its own count. No gradient flows through x~.

    The generator shares the token embeddings of the model, at its input and in its tied head, and is discarded after training. D
    is the model with its head ``discriminator``.

    Clark et al. 2020 (ELECTRA), https://arxiv.org/abs/2003.10555

    Args:
        mask_ratio: Fraction of the tokens that are masked.
        masking: Masking strategy: tokens, whole-words or spans.
        mask_token_ratio: Fraction of the masked tokens that become the mask token; the others stay unchanged.
        generator: Encoder of the generator.
        generator_dim: Size of the hidden states of the generator; None = a quarter of the model's, as published.
        embedding_dim: Size of the token embeddings of the model; None = the size of its hidden states.
        discriminator_weight: Weight of the loss of the discriminator.

    Example:
        >>> from weft.core.fields import TextField
        >>> objective = ReplacedToken(Info({"text": TextField("text", vocab=30)}), 32)
        >>> instance = objective.prepare({"text": np.arange(7, 27)}, np.random.default_rng(0), None)
        >>> len(instance["picks"].ids), len(instance["tokens"].ids)
        (3, 20)
    """

    needs = (Encodes, DetectsReplaced, Embeds)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        mask_ratio: Fraction = 0.15,
        masking: Build[MaskingStrategy] = TokenMasking,
        mask_token_ratio: Fraction = 0.85,
        generator: Build[Encoder] = partial(Transformer, layers=2),
        generator_dim: Dim | None = None,
        embedding_dim: Dim | None = None,
        discriminator_weight: Positive = 50.0,
    ):
        super().__init__(info, dim)
        generator_dim = max(1, dim // 4) if generator_dim is None else generator_dim
        self.masked_lm = MaskedLM(
            info, dim, mask_ratio=mask_ratio, masking=masking, mask_token_ratio=mask_token_ratio, random_token_ratio=0.0
        )
        self.field, self.discriminator_weight = self.masked_lm.field, discriminator_weight
        self.project = Linear(dim, generator_dim)
        self.generator = generator(generator_dim)
        self.transform = Dense(generator_dim, embedding_dim or dim, activation=GELU, norm=LayerNorm)
        self.bias = nn.Parameter(torch.zeros(self.field.vocab))

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        instance = self.masked_lm.prepare(example, rng, pool)
        if instance is None:
            return None
        ids = ids_of(self.masked_lm.input(example))
        at = self.masked_lm.maskable_positions(ids)
        return Instance(**instance, tokens=Targets("text", at, ids[at]), seed=int(rng.integers(2**62)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"generator": len(batch["picks"]), "replaced": len(batch["tokens"])}

    def forward(self, model: EmbedsAndDetects, batch: Batch, clock: Clock) -> Loss:
        assert model.discriminator is not None  # needs DetectsReplaced
        text, picks, tokens = batch["text"], batch["picks"], batch["tokens"]
        embedded = model.embedder(text)
        hidden = self.generator(embedded.with_data(self.project(embedded.data)))
        logits_NV = self.logits(picks.gather(hidden), model.embedder.table())
        nll_N = F.cross_entropy(logits_NV.float(), picks.target_N, reduction="none")
        original = text.data.flatten().index_copy(0, picks.index_N, picks.target_N)
        sampled_N = sample_tokens(logits_NV.detach(), uniform_samples(batch["seed"], picks.index_N, text.width))
        corrupted = original.index_copy(0, picks.index_N, sampled_N)
        encoded = model.encode(text.with_data(corrupted.view_as(text.data)))
        score_N = model.discriminator(tokens.gather(encoded)).squeeze(-1)
        replaced_N = (corrupted != original)[tokens.index_N]
        bce_N = F.binary_cross_entropy_with_logits(score_N.float(), replaced_N.float(), reduction="none")
        return Loss(
            generator=Term(nll_N.sum(), len(picks)),
            replaced=Term(bce_N.sum(), len(tokens), weight=self.discriminator_weight),
        )

    def logits(self, hidden_NG: Tensor, table_VE: Tensor) -> Tensor:
        """N x V: logits of the generator."""
        features_NE = self.transform(hidden_NG)
        if table_VE.shape[1] != features_NE.shape[1]:
            raise ValueError(
                f"the token embeddings of the structure have {table_VE.shape[1]} features, but the generator expects "
                f"{features_NE.shape[1]}; set embedding_dim: {table_VE.shape[1]} of the objective"
            )
        return F.linear(features_NE, table_VE, self.bias)


def uniform_samples(seed_B: Tensor, index_N: Tensor, width: int) -> Tensor:
    """N: uniform samples in (0, 1), a function of the seed of the row and the position, so independent of the rest of the batch.

    The finalizer of SplitMix64 (Steele, Lea and Flood 2014), as in data/order.py.
    """
    x_N = seed_B[index_N // width] + (index_N % width) * -0x61C8864680B583EB
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x_N = (x_N ^ ((x_N >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (((x_N ^ (x_N >> 31)) & (RESOLUTION - 1)).double() + 0.5) / RESOLUTION


def sample_tokens(logits_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """N: one token per row by inverse transform sampling: the first whose cumulative probability exceeds the uniform sample."""
    cumulative_NV = logits_NV.double().softmax(-1).cumsum(-1)
    return (cumulative_NV < uniform_N[:, None] * cumulative_NV[:, -1:]).sum(-1).clamp(max=logits_NV.shape[-1] - 1)
