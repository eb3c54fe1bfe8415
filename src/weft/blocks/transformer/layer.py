"""A layer of a Transformer. Shape suffixes: see seq.py."""

from __future__ import annotations

from functools import reduce
from typing import Any, cast

from torch import Tensor

from weft.blocks.attention.multihead import MultiHeadAttention
from weft.blocks.transformer.feedforward import PositionwiseFeedForward
from weft.blocks.transformer.residual import PreNorm
from weft.core.contracts import Attention, FeedForward, Layer, LayerOutput, Mixer, Position, Residual
from weft.core.masks import Full, Mask
from weft.core.registry import Build, block
from weft.core.seq import KV, Memory, Seq


@block("transformer-layer")
class TransformerLayer(Layer):
    """Transformer layer: a token mixer, cross-attention if there is a memory, and a feed-forward network, each with a residual.

    x <- r1(x, mixer);  x <- r2(x, context);  x <- r3(x, feedforward)

    With pre-norm, r(x, f) is x + f(norm(x)).

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        mixer: Self-attention, or another token mixer.
        mask: Restriction of the mixer, in addition to the mask of the encoder or decoder; None = none.
        feedforward: Position-wise feed-forward network.
        residual: Residual connection around each sub-layer.
        context: Cross-attention over the memory; None = as mixer, or multihead where that is no attention. Only built if there
            is a memory.

    Example:
        >>> import torch
        >>> layer = TransformerLayer(8, None)
        >>> layer(Seq(torch.ones(2, 3, 8)), Full(), None, None, None).hidden.data.shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        memory: int | None,
        *,
        mixer: Build[Mixer] = MultiHeadAttention,
        mask: Build[Mask] | None = None,
        feedforward: Build[FeedForward] = PositionwiseFeedForward,
        residual: Build[Residual] = PreNorm,
        context: Build[Attention] | None = None,
    ):
        super().__init__(dim, memory)
        self.mixer, self.mixer_residual = mixer(dim), residual(dim)
        self.mask = None if mask is None else mask()
        self.heads = self.mixer.heads
        self.context = self.context_residual = None
        if memory is not None:
            attention = context or (mixer if isinstance(self.mixer, Attention) else MultiHeadAttention)
            self.context, self.context_residual = cast(Build[Attention], attention)(dim, memory), residual(dim)
        self.feedforward, self.feedforward_residual = feedforward(dim), residual(dim)

    def project(self, memory: Memory) -> KV:
        if self.context is None:
            return super().project(memory)
        if not memory.sources:
            raise ValueError(f"{type(self).__name__} needs a memory to attend to, but got one without sources")
        return reduce(KV.join, [self.context.project(source) for source in memory.sources])

    def as_kv(self, x_BSD: Tensor) -> KV:
        return self.mixer.as_kv(x_BSD)

    def check_mask(self, mask: Mask) -> None:
        self.mixer.check_mask(self._own(mask))

    def _own(self, mask: Mask) -> Mask:
        return mask if self.mask is None else mask & self.mask

    def forward(self, x: Seq, mask: Mask, position: Position | None, past: Any, context: KV | None) -> LayerOutput:
        state: Any = None

        def mix(x_BTD: Tensor) -> Tensor:
            nonlocal state
            mixed = self.mixer.mix(x.with_data(x_BTD), self._own(mask), position, past)
            state = mixed.state
            return mixed.hidden.data

        h_BTD = self.mixer_residual(x.data, mix)
        if self.context is not None and self.context_residual is not None:
            if context is None:
                raise ValueError(f"{type(self).__name__} was built with cross-attention, but got no memory")
            attention, memory = self.context, context
            h_BTD = self.context_residual(h_BTD, lambda y_BTD: attention(x.with_data(y_BTD), memory, Full()).data)
        h_BTD = self.feedforward_residual(h_BTD, self.feedforward)
        return LayerOutput(x.with_data(h_BTD), state)
