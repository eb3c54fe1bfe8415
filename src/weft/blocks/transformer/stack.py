"""Transformer encoders and decoder. Shape suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from weft.blocks.attention.position import RotaryPosition
from weft.blocks.norm import LayerNorm
from weft.blocks.transformer.layer import TransformerLayer
from weft.core.contracts import Decoder, Encoder, Layer, LayerMix, Norm, Position
from weft.core.masks import Causal, Full, Latest, Mask
from weft.core.options import Layers
from weft.core.registry import Build, block
from weft.core.seq import KV, Decoded, Memory, Seq, State


@dataclass(frozen=True)
class StackOutput:
    """Output of a stack: its input and the hidden states of every layer, and the state of each layer's mixer."""

    states: list[Seq]
    past: tuple[Any, ...]


class Stack(nn.Module):
    """A stack of layers that share a position encoding, with an optional normalization after the last.

    Args:
        dim: Hidden size.
        memory: Vector size of the memory for cross-attention; None = no cross-attention.
        layers: Number of layers with their own weights.
        layer: The layer, or a list that is cycled over the layers.
        position: Position encoding inside attention; None = none.
        norm: Normalization after the last layer; None = none.
        repeats: How many times in a row each layer is applied; None = once.
    """

    def __init__(
        self,
        dim: int,
        memory: int | None,
        layers: int,
        layer: Build[Layer] | list[Build[Layer]],
        position: Build[Position] | None,
        norm: Build[Norm] | None,
        repeats: list[int] | None = None,
    ):
        super().__init__()
        cycle = layer if isinstance(layer, list) else [layer]
        if not cycle:
            raise ValueError("layer is an empty list, but must have at least one layer, such as transformer-layer")
        self.layers = nn.ModuleList([cycle[i % len(cycle)](dim, memory) for i in range(layers)])
        self.repeats = repeats
        self.position = None if position is None else position(dim)
        self.norm = None if norm is None else norm(dim)
        self._check_heads()

    def _check_heads(self) -> None:
        """Raise ValueError where the bias of the position encoding has another number of heads than the attention."""
        wanted = 0 if self.position is None else self.position.heads
        for heads in dict.fromkeys(cast(Layer, layer).heads for layer in self.layers):
            if heads and wanted not in (0, 1, heads):
                raise ValueError(
                    f"position.heads is {wanted}, but self-attention has {heads} head{'s' if heads > 1 else ''}; set both to the "
                    "same number, or position.heads to 1 for a bias that all heads share"
                )

    def check_mask(self, mask: Mask) -> None:
        """Raise ValueError for a mask that a layer would ignore."""
        for layer in self.layers:
            cast(Layer, layer).check_mask(mask)

    def applied_layers(self) -> list[nn.Module]:
        """The layers in the order in which they are applied, repeated ones several times."""
        if self.repeats is None:
            return list(self.layers)
        return [layer for layer, times in zip(self.layers, self.repeats, strict=True) for _ in range(times)]

    def forward(
        self, x: Seq, mask: Mask, past: Sequence[Any] | None = None, context: Sequence[KV | None] | None = None
    ) -> StackOutput:
        layers = self.applied_layers()
        none = [None] * len(layers)
        states, after, position = [x], [], self.position
        if position is not None:
            position = position.at(x.positions(), next((kv for kv in past or () if isinstance(kv, KV)), None))
        for layer, layer_past, layer_context in zip(layers, past or none, context or none, strict=True):
            output = layer(states[-1], mask, position, layer_past, layer_context)
            states.append(output.hidden)
            after.append(output.state)
        if self.norm is not None:
            states[-1] = x.with_data(self.norm(states[-1].data))
        return StackOutput(states, tuple(after))


class StackEncoder(Encoder):
    """Encoder over a stack of layers, with an optional combination of their hidden states. Supports the masks of its mixers."""

    supported_masks = (Mask,)

    def __init__(self, dim: int, stack: Stack, states: int, layer_mix: Build[LayerMix] | None):
        super().__init__(dim)
        self.stack = stack
        self.layer_mix = None if layer_mix is None else layer_mix(dim, states)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.stack.check_mask(mask)
        states = self.stack(x, mask).states
        return states if self.layer_mix is None else [*states, self.layer_mix(states)]


@block("transformer")
class Transformer(StackEncoder):
    """Transformer encoder: every position attends to all positions that the mask allows.

    h_0 = x,  h_l = layer_l(h_l-1),  y = norm(h_L)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        layers: Number of layers.
        layer: The layer, or a list that is cycled over the layers.
        position: Position encoding inside attention; None = none, so that the embedder should add position embeddings.
        norm: Normalization after the last layer, for pre-norm layers; None = none.
        layer_mix: Combination of the hidden states of all layers into the output; None = the output of the last layer.

    Example:
        >>> import torch
        >>> Transformer(8)(Seq(torch.ones(2, 3, 8)), Causal()).data.shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        layers: Layers = 2,
        layer: Build[Layer] | list[Build[Layer]] = TransformerLayer,
        position: Build[Position] | None = RotaryPosition,
        norm: Build[Norm] | None = LayerNorm,
        layer_mix: Build[LayerMix] | None = None,
    ):
        super().__init__(dim, Stack(dim, None, layers, layer, position, norm), layers + 1, layer_mix)


@block("shared-transformer")
class SharedTransformer(StackEncoder):
    """Transformer encoder with cross-layer parameter sharing: one layer, or a few, applied repeatedly.

    h_0 = x,  h_l = layer_g(h_l-1) with g = floor((l - 1) groups / layers),  y = norm(h_L)

    Lan et al. 2020 (ALBERT), https://arxiv.org/abs/1909.11942

    Args:
        layers: Number of layers that are applied.
        groups: Number of layers with their own weights; each is applied several times in a row.
        layer: The layer, or a list that is cycled over the groups.
        position: Position encoding inside attention; None = none, so that the embedder should add position embeddings.
        norm: Normalization after the last layer, for pre-norm layers; None = none.
        layer_mix: Combination of the hidden states of all layers into the output; None = the output of the last layer.

    Example:
        >>> import torch
        >>> SharedTransformer(8, layers=6)(Seq(torch.ones(2, 3, 8))).data.shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        layers: Layers = 2,
        groups: Layers = 1,
        layer: Build[Layer] | list[Build[Layer]] = TransformerLayer,
        position: Build[Position] | None = RotaryPosition,
        norm: Build[Norm] | None = LayerNorm,
        layer_mix: Build[LayerMix] | None = None,
    ):
        if groups > layers:
            raise ValueError(f"groups is {groups}, but must be at most layers, which is {layers}; lower groups or raise layers")
        group_of = [i * groups // layers for i in range(layers)]
        repeats = [group_of.count(group) for group in range(groups)]
        super().__init__(dim, Stack(dim, None, groups, layer, position, norm, repeats), layers + 1, layer_mix)


@dataclass(frozen=True)
class TransformerState:
    """Decoding state: the state of every layer's mixer, keys and values of the memory, and the number of real tokens seen.

    ``source_B`` is the row of the first memory that each row attends to. In a beam search, a hypothesis that
    replaces another one of the same source has the same keys and values of the memory, so these need no copy.
    """

    past: tuple[State | None, ...]
    context: tuple[KV | None, ...]
    seen_B: Tensor
    source_B: Tensor

    def select(self, rows: Tensor) -> TransformerState:
        past = tuple(None if state is None else state.select(rows) for state in self.past)
        source_B, context = self.source_B[rows], self.context
        if not torch.equal(source_B, self.source_B):
            context = tuple(None if kv is None else kv.select(rows) for kv in context)
        return TransformerState(past, context, self.seen_B[rows], source_B)


@block("transformer")
class TransformerDecoder(Decoder):
    """Transformer decoder: every position attends to itself and earlier positions, and to the memory if there is one.

    h_0 = x,  h_l = layer_l(h_l-1, memory),  y = norm(h_L)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; without a memory: Radford et al. 2018 (GPT)

    Args:
        layers: Number of layers.
        layer: The layer, or a list that is cycled over the layers.
        position: Position encoding inside self-attention; None = none, so that the embedder should add position embeddings.
        norm: Normalization after the last layer, for pre-norm layers; None = none.

    Example:
        >>> import torch
        >>> memory = Memory((Seq(torch.ones(2, 5, 8)),))
        >>> TransformerDecoder(8, 8)(Seq(torch.ones(2, 3, 8)), memory).hidden.data.shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        memory: int | None,
        *,
        layers: Layers = 2,
        layer: Build[Layer] | list[Build[Layer]] = TransformerLayer,
        position: Build[Position] | None = RotaryPosition,
        norm: Build[Norm] | None = LayerNorm,
    ):
        super().__init__(dim, memory)
        self.has_memory, self.memory_slots = memory is not None, layers
        self.stack = Stack(dim, memory, layers, layer, position, norm)

    def as_kv(self, x_BLD: Tensor) -> tuple[KV, ...]:
        # A key of zeros would still receive attention weight, so it is masked.
        nonzero_BL = (x_BLD != 0).any(-1)
        vectors = zip(self.stack.layers, x_BLD.unbind(1), nonzero_BL.unbind(1), strict=True)
        return tuple(replace(cast(Layer, layer).as_kv(x_BD[:, None]), mask=mask_B[:, None]) for layer, x_BD, mask_B in vectors)

    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        self.stack.check_mask(mask)
        return Decoded(self.stack(x, mask, self._past(memory), self._context(memory)).states[-1])

    def start(self, memory: Memory | None, rows: int) -> TransformerState:
        device = next(self.parameters()).device
        self.stack.check_mask(Causal())
        seen_B = torch.zeros(rows, dtype=torch.long, device=device)
        source_B = torch.arange(rows, device=device)
        return TransformerState(self._past(memory), self._context(memory), seen_B, source_B)

    def step(self, x: Seq, state: TransformerState) -> Decoded:
        if "position" not in x.marks:
            x = x.mark(position=state.seen_B[:, None] + x.positions())
        mask = Latest() if x.width == 1 else Causal()
        output = self.stack(x, mask, state.past, state.context)
        return Decoded(output.states[-1], replace(state, past=output.past, seen_B=state.seen_B + x.lengths()))

    def _past(self, memory: Memory | None) -> tuple[KV | None, ...]:
        return (None,) * len(self.stack.layers) if memory is None or not memory.past else memory.past

    def _context(self, memory: Memory | None) -> tuple[KV | None, ...]:
        if not self.has_memory:
            return (None,) * len(self.stack.layers)
        if memory is None:
            raise ValueError(f"{type(self).__name__} was built with cross-attention, but got no memory")
        return tuple(cast(Layer, layer).project(memory) for layer in self.stack.layers)
