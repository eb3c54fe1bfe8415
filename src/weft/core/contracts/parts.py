"""Contracts of the small parts of a network: activations, norms, attention, layers, poolers. Shape suffixes: see seq.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from weft.core.contracts.seq_module import SeqModule
from weft.core.fields import Field
from weft.core.masks import Mask, check_mask
from weft.core.registry import slot
from weft.core.seq import KV, Memory, Seq, State


@slot
class Activation(nn.Module, ABC):
    """An element-wise activation function."""

    nonnegative: ClassVar[bool] = False
    """Whether its outputs are never negative, as feature maps of linear attention must be."""

    def __init__(self):
        super().__init__()

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """A tensor of the shape of ``x``."""


@slot
class Norm(nn.Module, ABC):
    """Normalization over the last dimension, of size ``dim``; each vector is normalized on its own."""

    def __init__(self, dim: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_D: Tensor) -> Tensor:
        """A tensor of the shape of ``x_D``."""


@slot
class BatchNormalization(nn.Module, ABC):
    """Normalization of each feature by statistics of the batch, for vectors of size ``dim``, one per row.

    In training, the output of a row depends on the other rows; networks over token positions use ``Norm`` instead.
    """

    def __init__(self, dim: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_D: Tensor) -> Tensor:
        """A tensor of the shape of ``x_D``."""


@slot
class FeedForward(nn.Module, ABC):
    """Position-wise feed-forward network: B x T x D to B x T x D."""

    def __init__(self, dim: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_BTD: Tensor) -> Tensor:
        """B x T x D."""


@slot
class Transform(nn.Module, ABC):
    """A map from vectors of size ``dim`` to vectors of size ``out``, applied to the last dimension."""

    def __init__(self, dim: int, out: int):
        super().__init__()

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """The shape of ``x`` with the last dimension replaced by ``out``."""


@slot
class Discriminator(nn.Module, ABC):
    """Class-conditional discriminator of vectors of size ``dim``, for ``classes`` classes."""

    def __init__(self, dim: int, classes: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_BP: Tensor, label_B: Tensor) -> Tensor:
        """B scores, high for real vectors; rows do not interact."""


@slot
class Residual(nn.Module, ABC):
    """Residual connection around a sub-layer."""

    def __init__(self, dim: int):
        super().__init__()

    @abstractmethod
    def forward(self, x_BTD: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        """B x T x D: ``x_BTD`` combined with the output of the sub-layer ``f``."""


@slot
class Position(nn.Module, ABC):
    """Position information inside attention; one per stack, passed to its layers. The default adds nothing."""

    heads: int = 0
    """Number of heads that ``bias`` has; 0 = it fits any number of heads."""
    dense: bool = False
    """Whether ``bias`` is known only for the whole sequence, not for any queries and keys."""

    def __init__(self, dim: int):
        super().__init__()

    def rotate(self, x_BHTK: Tensor, position_BT: Tensor) -> Tensor:
        """Queries or keys, rotated by their positions."""
        return x_BHTK

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        """B x H x T x S, added to the attention scores (B may be 1); None for no bias."""
        return None

    def at(self, position_BT: Tensor, past: KV | None) -> Position:
        """The same encoding prepared for these positions after ``past``: computes once what the layers of a stack share."""
        return self


@slot
class RotaryScaling(ABC):
    """How the frequencies of a rotary position embedding change, for longer contexts than those of its training."""

    amplitude: float = 1.0
    """Factor of rotated queries and keys."""

    @abstractmethod
    def scale(self, frequency_k: Tensor, base: float) -> Tensor:
        """The scaled frequencies, of ``frequency_k`` = base^(-i / k) for i = 0 .. k - 1."""


@slot
class Score(nn.Module, ABC):
    """Alignment score between queries of size ``dim`` and keys of size ``memory``.

    ``scale`` is set where the score is scale * (q . k) of prepared keys, so that fused kernels can compute it.
    """

    scale: float | None = None

    def __init__(self, dim: int, memory: int):
        super().__init__()

    def prepare(self, key_BHSK: Tensor, position_BS: Tensor | None = None) -> Tensor:
        """Keys transformed once per memory, before any query is known. ``position_BS``: the positions of the keys."""
        return key_BHSK

    @abstractmethod
    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        """B x H x T x S scores of prepared keys."""


@dataclass(frozen=True)
class Mixed:
    """Output of a mixer: hidden states, and the state after the last real token of each row."""

    hidden: Seq
    state: State


@slot
class Mixer(SeqModule, ABC):
    """How the positions of a sequence exchange information: self-attention, a convolution, a recurrence.

    A mixer runs over a whole sequence (``past`` is None) or over the next tokens after a state. Both give the same outputs, so
    incremental decoding equals the full pass. Padding, on either side, changes neither outputs nor states.
    """

    supported_masks: ClassVar[tuple[type[Mask], ...]] = (Mask,)
    """The masks that it honors."""
    heads: int = 0
    """Number of heads of its attention weights; 0 = none, or unknown."""

    def __init__(self, dim: int):
        super().__init__()

    @abstractmethod
    def forward(self, x: Seq, mask: Mask, position: Position | None = None, past: Any = None) -> Mixed:
        """Args: position: position encoding of the stack. past: state after the tokens before ``x``; None = there are none."""

    def mix(self, x: Seq, mask: Mask, position: Position | None, past: Any) -> Mixed:
        """What layers call: ``forward``, except in attention, whose ``forward`` takes the keys and values too."""
        return self(x, mask, position, past)

    def as_kv(self, x_BSD: Tensor) -> KV:
        """Vectors used directly as keys and values, without projections, at positions without a token."""
        raise ValueError(f"{type(self).__name__} cannot use vectors as keys and values; use the mixer multihead")

    def check_mask(self, mask: Mask) -> None:
        """Raise ValueError for a mask that the mixer would ignore."""
        check_mask(self, mask)


@slot
class Attention(Mixer):
    """Attention from queries of size ``dim`` to a sequence of vectors of size ``memory``; over its own sequence, a mixer."""

    def __init__(self, dim: int, memory: int | None = None):
        super().__init__(dim)

    @abstractmethod
    def project(self, memory: Seq, position: Position | None = None) -> KV:
        """Keys and values of a memory: computed once, used by many queries."""

    @abstractmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]  layers call mix, which has the signature of mixers
        self, query: Seq, kv: KV, mask: Mask, position: Position | None = None
    ) -> Seq:
        """The attention output for each query."""

    def mix(self, x: Seq, mask: Mask, position: Position | None, past: KV | None) -> Mixed:
        """Self-attention; the state is the keys and values of all tokens so far."""
        kv = self.project(x, position)
        kv = kv if past is None else past.join(kv)
        return Mixed(self(x, kv, mask, position), kv)


@dataclass(frozen=True)
class LayerOutput:
    """Hidden states of a layer, and the state of its mixer after the last token, past included."""

    hidden: Seq
    state: State


@slot
class Layer(SeqModule, ABC):
    """One layer of a stack. ``memory`` is the vector size of the memory it attends to, or None without cross-attention."""

    heads: int = 0
    """Number of heads of its self-attention; 0 = none, or unknown."""

    def __init__(self, dim: int, memory: int | None):
        super().__init__()

    def project(self, memory: Memory) -> KV:
        """Keys and values of the memory, for cross-attention."""
        raise TypeError(f"{type(self).__name__} has no cross-attention")

    def as_kv(self, x_BSD: Tensor) -> KV:
        """Vectors as keys and values of the layer's own sequence, before its first token."""
        raise ValueError(f"{type(self).__name__} cannot attend to vectors before the first token")

    def check_mask(self, mask: Mask) -> None:
        """Raise ValueError for a mask that the layer would ignore."""

    @abstractmethod
    def forward(self, x: Seq, mask: Mask, position: Position | None, past: Any, context: KV | None) -> LayerOutput:
        """Args: past: state of the mixer after earlier tokens. context: projected memory for cross-attention."""


@slot
class LayerMix(nn.Module, ABC):
    """Combines the ``states`` of a stack (the embedder's output and that of every layer, B x T x D each) into one sequence."""

    def __init__(self, dim: int, states: int):
        super().__init__()

    @abstractmethod
    def forward(self, states: Sequence[Seq]) -> Seq:
        """One sequence of B x T x D."""


@slot
class Pooler(SeqModule, ABC):
    """n -> 1: B x T x D to B x D."""

    def __init__(self, dim: int):
        super().__init__()

    @abstractmethod
    def forward(self, x: Seq) -> Tensor:
        """B x D."""


@slot
class LinearChain(nn.Module, ABC):
    """Linear-chain model of the tags of neighboring words, over scores of ``field``'s tags at each word."""

    def __init__(self, field: Field):
        super().__init__()

    @abstractmethod
    def nll(self, score_BTC: Tensor, tag_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """B losses: -log p(tag sequence). Padding is on the right; the loss of a row without words is 0."""

    @abstractmethod
    def best(self, score_BTC: Tensor, mask_BT: Tensor) -> Tensor:
        """B x T: the most probable tag sequence of each row; 0 at padding."""
