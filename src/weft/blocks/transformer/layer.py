"""A layer of a Transformer. Shape suffixes: see seq.py."""

from __future__ import annotations

from functools import reduce

from torch import Tensor

from weft.blocks.attention.multihead import MultiHeadAttention
from weft.blocks.transformer.feedforward import PositionwiseFeedForward
from weft.blocks.transformer.residual import PreNorm
from weft.core.contracts import Attention, FeedForward, Layer, LayerOutput, Position, Residual
from weft.core.masks import Full, Mask
from weft.core.registry import Build, block
from weft.core.seq import KV, Memory, Seq


@block("transformer-layer")
class TransformerLayer(Layer):
    """Transformer layer: self-attention, cross-attention if there is a memory, and a feed-forward network, each with a residual.

    x <- r1(x, mixer);  x <- r2(x, context);  x <- r3(x, feedforward)

    With pre-norm, r(x, f) is x + f(norm(x)).

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        mixer: Self-attention.
        feedforward: Position-wise feed-forward network.
        residual: Residual connection around each sub-layer.
        context: Cross-attention over the memory; None = the same as mixer. Only built if there is a memory.

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
        mixer: Build[Attention] = MultiHeadAttention,
        feedforward: Build[FeedForward] = PositionwiseFeedForward,
        residual: Build[Residual] = PreNorm,
        context: Build[Attention] | None = None,
    ):
        super().__init__(dim, memory)
        self.mixer, self.mixer_residual = mixer(dim, dim), residual(dim)
        self.heads = self.mixer.heads
        self.context = self.context_residual = None
        if memory is not None:
            self.context, self.context_residual = (context or mixer)(dim, memory), residual(dim)
        self.feedforward, self.feedforward_residual = feedforward(dim), residual(dim)

    def project(self, memory: Memory) -> KV:
        if self.context is None:
            return super().project(memory)
        if not memory.sources:
            raise ValueError(f"{type(self).__name__} needs a memory to attend to, but got one without sources")
        return reduce(KV.join, [self.context.project(source) for source in memory.sources])

    def as_kv(self, x_BSD: Tensor) -> KV:
        return self.mixer.as_kv(x_BSD)

    def forward(self, x: Seq, mask: Mask, position: Position | None, past: KV | None, context: KV | None) -> LayerOutput:
        kv = past

        def mix(x_BTD: Tensor) -> Tensor:
            nonlocal kv
            own = x.with_data(x_BTD)
            new = self.mixer.project(own, position)
            kv = new if past is None else past.join(new)
            return self.mixer(own, kv, mask, position).data

        h_BTD = self.mixer_residual(x.data, mix)
        if self.context is not None and self.context_residual is not None:
            if context is None:
                raise ValueError(f"{type(self).__name__} was built with cross-attention, but got no memory")
            attention, memory = self.context, context
            h_BTD = self.context_residual(h_BTD, lambda y_BTD: attention(x.with_data(y_BTD), memory, Full()).data)
        h_BTD = self.feedforward_residual(h_BTD, self.feedforward)
        assert kv is not None  # set by mix, which the residual has called
        return LayerOutput(x.with_data(h_BTD), kv)
