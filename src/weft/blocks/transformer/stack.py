"""The Transformer: one stack of layers, as an encoder and as a decoder. Suffixes: see seq.py."""

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
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Layers
from weft.core.registry import Build, block
from weft.core.seq import KV, Decoded, Memory, Seq


@dataclass(frozen=True)
class StackOutput:
    """What a stack has computed: the input and the output of every layer, and each layer's own keys and values."""

    states: list[Seq]
    past: tuple[KV, ...]


class Stack(nn.Module):
    """Layers on each other, the position they share, and the norm after the last."""

    def __init__(
        self,
        dim: int,
        memory: int | None,
        layers: int,
        layer: Build[Layer] | list[Build[Layer]],
        position: Build[Position] | None,
        norm: Build[Norm] | None,
    ):
        super().__init__()
        kinds = layer if isinstance(layer, list) else [layer]
        if not kinds:
            raise ValueError("an empty list of layers cannot be cycled; give at least one")
        self.layers = nn.ModuleList([kinds[i % len(kinds)](dim, memory) for i in range(layers)])
        self.position = None if position is None else position(dim)
        self.norm = None if norm is None else norm(dim)

    def order(self) -> list[nn.Module]:
        """The layers as they are gone through."""
        return list(self.layers)

    def forward(
        self, x: Seq, mask: Mask, past: Sequence[KV | None] | None = None, context: Sequence[KV | None] | None = None
    ) -> StackOutput:
        order = self.order()
        nothing = [None] * len(order)
        states, kept, position = [x], [], self.position
        if position is not None:
            position = position.at(x.positions(), past[0] if past else None)
        for layer, before, memory in zip(order, past or nothing, context or nothing, strict=True):
            done = layer(states[-1], mask, position, before, memory)
            states.append(done.hidden)
            kept.append(done.kv)
        if self.norm is not None:
            states[-1] = x.with_data(self.norm(states[-1].data))
        return StackOutput(states, tuple(kept))


def _mixed(states: list[Seq], mix: nn.Module | None) -> list[Seq]:
    """The states, and what is mixed of them as the last."""
    return states if mix is None else [*states, mix(states)]


@block("transformer")
class Transformer(Encoder):
    """Layers in which every position looks at every other that the mask allows.

    h_0 = x,  h_l = layer_l(h_l-1),  y = norm(h_L)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762

    Args:
        layers: How many layers.
        layer: One layer, or a list that is cycled over the layers.
        position: How positions enter attention; None = not at all, then the embedder should add them.
        norm: Normalisation after the last layer (layers with pre-norm want one); None = none.
        layer_mix: Makes what is given on of the states of all layers; None = the last layer's output.

    Example:
        >>> import torch
        >>> Transformer(8)(Seq(torch.ones(2, 3, 8)), Causal()).data.shape
        torch.Size([2, 3, 8])
    """

    supported_masks = (Mask,)

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
        super().__init__(dim)
        self.stack = Stack(dim, None, layers, layer, position, norm)
        self.layer_mix = None if layer_mix is None else layer_mix(dim, layers + 1)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.check_mask(mask)
        return _mixed(self.stack(x, mask).states, self.layer_mix)


class SharedStack(Stack):
    """A stack in which several layers in a row are one and the same."""

    def __init__(self, times: list[int], *of: Any):
        super().__init__(*of)
        self.times = times

    def order(self) -> list[nn.Module]:
        return [layer for layer, times in zip(self.layers, self.times, strict=True) for _ in range(times)]


@block("shared-transformer")
class SharedTransformer(Encoder):
    """A Transformer whose layers share their weights: one layer, or a few, gone through many times.

    h_0 = x,  h_l = layer_g(h_l-1) with g = floor((l - 1) groups / layers),  y = norm(h_L)

    Lan et al. 2020 (ALBERT), https://arxiv.org/abs/1909.11942

    Args:
        layers: How many layers are gone through.
        groups: How many of them have weights of their own.
        layer: One layer, or a list that is cycled over the groups.
        position: How positions enter attention; None = not at all, then the embedder should add them.
        norm: Normalisation after the last layer (layers with pre-norm want one); None = none.
        layer_mix: Makes what is given on of the states of all layers; None = the last layer's output.

    Example:
        >>> import torch
        >>> SharedTransformer(8, layers=6)(Seq(torch.ones(2, 3, 8))).data.shape
        torch.Size([2, 3, 8])
    """

    supported_masks = (Mask,)

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
        super().__init__(dim)
        if groups > layers:
            raise ValueError(f"{groups} groups cannot share {layers} layers: some would never be used")
        owner = [i * groups // layers for i in range(layers)]
        times = [owner.count(group) for group in range(groups)]
        self.stack = SharedStack(times, dim, None, groups, layer, position, norm)
        self.layer_mix = None if layer_mix is None else layer_mix(dim, layers + 1)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.check_mask(mask)
        return _mixed(self.stack(x, mask).states, self.layer_mix)


@dataclass(frozen=True)
class TransformerState:
    """Between two steps: every layer's own keys and values, those of the memory, and how many real tokens a row has seen."""

    past: tuple[KV | None, ...]
    context: tuple[KV | None, ...]
    seen_B: Tensor

    def select(self, rows: Tensor) -> TransformerState:
        past = tuple(None if kv is None else kv.select(rows) for kv in self.past)
        context = tuple(None if kv is None else kv.select(rows) for kv in self.context)
        return TransformerState(past, context, self.seen_B[rows])


@block("transformer")
class TransformerDecoder(Decoder):
    """Layers in which every position looks at those before it, and at the memory if there is one.

    h_0 = x,  h_l = layer_l(h_l-1, memory),  y = norm(h_L)

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; without a memory: Radford et al. 2018 (GPT)

    Args:
        layers: How many layers.
        layer: One layer, or a list that is cycled over the layers.
        position: How positions enter attention over the own sequence; None = not at all, then the embedder should add them.
        norm: Normalisation after the last layer (layers with pre-norm want one); None = none.

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
        self.looks, self.memory_slots = memory is not None, layers
        self.stack = Stack(dim, memory, layers, layer, position, norm)

    def as_kv(self, x_BLD: Tensor) -> tuple[KV, ...]:
        # A slot of zeros would still draw attention away from the tokens, so nothing looks at it.
        there_BL = (x_BLD != 0).any(-1)
        vectors = zip(self.stack.layers, x_BLD.unbind(1), there_BL.unbind(1), strict=True)
        return tuple(replace(cast(Layer, layer).as_kv(x_BD[:, None]), mask=there_B[:, None]) for layer, x_BD, there_B in vectors)

    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        return Decoded(self.stack(x, mask, self._past(memory), self._context(memory)).states[-1])

    def start(self, memory: Memory | None, rows: int) -> TransformerState:
        device = next(self.parameters()).device
        seen_B = torch.zeros(rows, dtype=torch.long, device=device)
        return TransformerState(self._past(memory), self._context(memory), seen_B)

    def step(self, x: Seq, state: TransformerState) -> Decoded:
        if "position" not in x.marks:
            x = x.mark(position=state.seen_B[:, None] + x.positions())
        # One new token sees all that came before it: there is nothing for a mask to forbid.
        mask = Full() if x.width == 1 else Causal()
        done = self.stack(x, mask, state.past, state.context)
        return Decoded(done.states[-1], TransformerState(done.past, state.context, state.seen_B + x.lengths()))

    def _past(self, memory: Memory | None) -> tuple[KV | None, ...]:
        return (None,) * len(self.stack.layers) if memory is None or not memory.past else memory.past

    def _context(self, memory: Memory | None) -> tuple[KV | None, ...]:
        if not self.looks:
            return (None,) * len(self.stack.layers)
        if memory is None:
            raise ValueError(f"{type(self).__name__} was built to look at a memory, but there is none")
        return tuple(cast(Layer, layer).project(memory) for layer in self.stack.layers)
