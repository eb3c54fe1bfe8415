"""Contracts of the kinds of network: embedder, encoder, decoder, head. Shape suffixes: see seq.py."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from weft.core.fields import Field
from weft.core.masks import Causal, Full, Mask
from weft.core.registry import slot
from weft.core.seq import KV, Decoded, Memory, Seq, State


@slot
class Embedder(nn.Module):
    """Symbol -> vector. Takes ids (B x T) or soft ids (B x T x V); ``field`` says how many symbols there are.

    Embedders of ``images`` take B x C x H x W and give a vector for each patch.
    """

    images: ClassVar[bool] = False
    """Whether it takes images."""

    def __init__(self, dim: int, field: Field):
        super().__init__()
        self.space = field.space
        if field.kind == "image" and not self.images:
            raise ValueError(f"{type(self).__name__} has no vectors for the image {field.name!r}: take the embedder patch")

    def forward(self, x: Seq) -> Seq:
        raise TypeError(f"{type(self).__name__} has no forward")

    def share(self, other: Embedder) -> None:
        """Where this one has said that it borrows its tokens' vectors: they are those of ``other``."""

    def table(self) -> Tensor:
        """V x D: the vectors of all symbols, for heads that are tied to them."""
        raise ValueError(f"{type(self).__name__} has no table of token vectors to tie a head to")


@slot
class Encoder(nn.Module):
    """n -> n: B x T x D to B x T x D. ``supported_masks`` lists the masks that it respects."""

    supported_masks: ClassVar[tuple[type[Mask], ...]] = (Full,)

    def __init__(self, dim: int):
        super().__init__()

    def forward(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.states(x, mask)[-1]

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        """The input and the output of every layer; the last is what is given on."""
        raise TypeError(f"{type(self).__name__} has no states")

    def check_mask(self, mask: Mask) -> None:
        if not isinstance(mask, self.supported_masks):
            known = ", ".join(m.__name__ for m in self.supported_masks)
            raise ValueError(f"{type(self).__name__} cannot respect the mask {type(mask).__name__} (it honours: {known})")


@slot
class Decoder(nn.Module):
    """0 -> n, or n -> m with a memory of width ``memory``. Never shifts: a batch has input and target.

    Stepping equals the full pass.
    """

    uses_vector: ClassVar[bool] = False
    """Whether ``Memory.vector`` is used."""
    slots: int = 0
    """How many layers can be given something to remember (``Memory.past``)."""

    def __init__(self, dim: int, memory: int | None):
        super().__init__()

    def remember(self, x_BLD: Tensor) -> tuple[KV, ...]:
        """One vector for each layer, as ``Memory.past``; rows of zeros are remembered by no position."""
        raise ValueError(f"{type(self).__name__} has no layers that could remember a vector; let it be added to the tokens")

    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        raise TypeError(f"{type(self).__name__} has no forward")

    def start(self, memory: Memory | None, rows: int) -> State:
        """The state before the first token, for ``rows`` rows (those of the memory, if there is one)."""
        raise TypeError(f"{type(self).__name__} has no start")

    def step(self, x: Seq, state: Any) -> Decoded:
        """Go on by B x S vectors (S > 1: prefill; a mask says which are real). The old state is dead afterwards."""
        raise TypeError(f"{type(self).__name__} has no step")


@slot
class Head(nn.Module):
    """Makes logits over ``field``'s ids from hidden states. ``embedder`` is there for heads tied to it; it may be None."""

    def __init__(self, dim: int, field: Field, embedder: Embedder | None):
        super().__init__()

    def forward(self, x_ND: Tensor) -> Tensor:
        """N x V logits."""
        raise TypeError(f"{type(self).__name__} has no forward")

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        """N losses. Logits of a large vocabulary are made in chunks and never kept whole."""
        raise TypeError(f"{type(self).__name__} has no nll")
