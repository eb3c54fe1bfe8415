"""Contracts of the small parts of a network: activations, norms, attention, layers, poolers. Shape suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from weft.core.contracts.networks import Decoder
from weft.core.fields import Field
from weft.core.masks import Mask
from weft.core.registry import slot
from weft.core.seq import KV, Memory, Seq


@slot
class Activation(nn.Module):
    """A function of each number."""

    def __init__(self):
        super().__init__()


@slot
class Norm(nn.Module):
    """Normalises vectors of width ``dim``."""

    def __init__(self, dim: int):
        super().__init__()


@slot
class BatchNormalization(nn.Module):
    """Makes the numbers of vectors of width ``dim`` comparable, one vector a row, by what the rows of a batch have of them.

    Rows see each other in training, so that it has no place in networks over positions: there is ``Norm``.
    """

    def __init__(self, dim: int):
        super().__init__()


@slot
class FeedForward(nn.Module):
    """A map of each position by itself: B x T x D to B x T x D."""

    def __init__(self, dim: int):
        super().__init__()


@slot
class Transform(nn.Module):
    """A map of each vector by itself, from width ``dim`` to width ``out``."""

    def __init__(self, dim: int, out: int):
        super().__init__()


@slot
class Discriminator(nn.Module):
    """How real a vector of width ``dim`` looks, as one of a class, of which there are ``classes``."""

    def __init__(self, dim: int, classes: int):
        super().__init__()

    def forward(self, x_BP: Tensor, label_B: Tensor) -> Tensor:
        """B scores; each row is looked at by itself."""
        raise TypeError(f"{type(self).__name__} has no forward")


@slot
class Residual(nn.Module):
    """How a sub-layer's result is added: ``forward(x_BTD, f)`` with ``f`` the sub-layer."""

    def __init__(self, dim: int):
        super().__init__()


@slot
class Position(nn.Module):
    """How positions enter attention; one per stack, handed to its layers."""

    def __init__(self, dim: int):
        super().__init__()

    def rotate(self, x_BHTK: Tensor, position_BT: Tensor) -> Tensor:
        """Applied to queries and keys."""
        return x_BHTK

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        """Added to the scores: B x H x T x S (B may be 1), or None."""
        return None

    def at(self, position_BT: Tensor, past: KV | None) -> Position:
        """The same for a pass at these positions, after ``past``: what all layers of a stack share can be computed once."""
        return self


@slot
class Score(nn.Module):
    """How well a query fits a key, for vectors of width ``dim`` (query) and ``memory`` (key).

    ``scale`` is set where the score is scale * (q . k) of prepared keys, so that fused kernels can compute it.
    """

    scale: float | None = None

    def __init__(self, dim: int, memory: int):
        super().__init__()

    def prepare(self, key_BHSK: Tensor) -> Tensor:
        """What can be computed of the keys once per memory."""
        return key_BHSK

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        """B x H x T x S scores of prepared keys."""
        raise TypeError(f"{type(self).__name__} has no forward")


@slot
class Attention(nn.Module):
    """Looks from ``dim``-wide queries at a ``memory``-wide sequence."""

    def __init__(self, dim: int, memory: int):
        super().__init__()

    def project(self, memory: Seq, position: Position | None = None) -> KV:
        """Keys and values of a memory: computed once, used by many queries."""
        raise TypeError(f"{type(self).__name__} has no project")

    def remember(self, x_BSD: Tensor) -> KV:
        """Vectors as keys and values as they are, without projections: something to look at that no token stands for."""
        raise ValueError(f"{type(self).__name__} takes no vectors as keys and values: use the mixer multihead")

    def forward(self, query: Seq, kv: KV, mask: Mask, position: Position | None = None) -> Seq:
        raise TypeError(f"{type(self).__name__} has no forward")


@dataclass(frozen=True)
class LayerOutput:
    hidden: Seq
    kv: KV
    """Keys and values of the layer's own sequence, past included."""


@slot
class Layer(nn.Module):
    """One layer of a stack. ``memory`` is the width of the sequences it looks at besides its own, or None."""

    def __init__(self, dim: int, memory: int | None):
        super().__init__()

    def project(self, memory: Memory) -> KV:
        """Keys and values of what the layer looks at besides its own sequence."""
        raise TypeError(f"{type(self).__name__} looks at no memory")

    def remember(self, x_BSD: Tensor) -> KV:
        """Vectors as keys and values of its own sequence that stand before the first token."""
        raise ValueError(f"{type(self).__name__} cannot be given something to remember")

    def forward(self, x: Seq, mask: Mask, position: Position | None, past: KV | None, context: KV | None) -> LayerOutput:
        raise TypeError(f"{type(self).__name__} has no forward")


@slot
class LayerMix(nn.Module):
    """Makes one sequence of the ``states`` of a stack: the embedder's output and that of every layer, B x T x D each."""

    def __init__(self, dim: int, states: int):
        super().__init__()

    def forward(self, states: Sequence[Seq]) -> Seq:
        raise TypeError(f"{type(self).__name__} has no forward")


@slot
class Injection(nn.Module):
    """How a vector of width ``latent`` enters what a ``decoder`` of width ``dim`` writes. The default changes nothing."""

    def __init__(self, dim: int, latent: int, decoder: Decoder):
        super().__init__()

    def remembered(self, z_BP: Tensor) -> Tensor | None:
        """B x L x D, what each layer of the decoder remembers, or None."""
        return None

    def added(self, z_BP: Tensor) -> Tensor | None:
        """B x L x D, added to the vectors of the first L tokens (L = 1: to those of all), or None."""
        return None


@slot
class Pooler(nn.Module):
    """n -> 1: B x T x D to B x D."""

    def __init__(self, dim: int):
        super().__init__()

    def forward(self, x: Seq) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no forward")


@slot
class LinearChain(nn.Module):
    """How the tags of neighbouring words depend on each other, given a score of each of ``field``'s tags for each word."""

    def __init__(self, field: Field):
        super().__init__()

    def nll(self, score_BTC: Tensor, tag_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """B losses: -log p(all tags of the row). Padding is on the right; a row without words has the loss 0."""
        raise TypeError(f"{type(self).__name__} has no nll")

    def best(self, score_BTC: Tensor, mask_BT: Tensor) -> Tensor:
        """B x T: the most probable tags of each row together; 0 at padding."""
        raise TypeError(f"{type(self).__name__} has no best")
