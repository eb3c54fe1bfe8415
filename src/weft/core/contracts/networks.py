"""Contracts of the kinds of network: embedder, encoder, decoder, image backbone, head. Shape suffixes: see seq.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from weft.core.contracts.seq_module import SeqModule
from weft.core.fields import Field, ImageField, TokenizedField
from weft.core.masks import Causal, Full, Mask, check_mask
from weft.core.registry import slot
from weft.core.seq import KV, Decoded, Memory, Seq, State


@slot
class Embedder(SeqModule, ABC):
    """Symbol -> vector. Takes ids (B x T) or soft ids (B x T x V); ``field`` declares the vocabulary.

    Embedders with ``images = True`` take B x C x H x W and return a vector per patch.
    """

    images: ClassVar[bool] = False
    """Whether the input is an image."""

    def __init__(self, dim: int, field: Field):
        super().__init__()
        self.space = field.space if isinstance(field, TokenizedField) else field.name
        if isinstance(field, ImageField) and not self.images:
            raise ValueError(f"{type(self).__name__} cannot embed the image field {field.name!r}; use the embedder patch")

    @abstractmethod
    def forward(self, x: Seq) -> Seq:
        """B x T x D."""

    def share(self, other: Embedder) -> None:
        """Use the token vectors of ``other``, in embedders that declare shared weights."""

    def table(self) -> Tensor:
        """V x D: the embedding matrix, for tied heads."""
        raise ValueError(f"{type(self).__name__} has no embedding matrix to tie a head to; use an embedder with token vectors")


@slot
class Encoder(SeqModule, ABC):
    """n -> n: B x T x D to B x T x D. ``supported_masks`` lists the attention masks that it honors."""

    supported_masks: ClassVar[tuple[type[Mask], ...]] = (Full,)

    def __init__(self, dim: int):
        super().__init__()

    def forward(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.states(x, mask)[-1]

    @abstractmethod
    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        """Hidden states: the input, then the output of every layer; the last one is the output of the encoder."""

    def check_mask(self, mask: Mask) -> None:
        """Raise ValueError for a mask that the encoder would ignore."""
        check_mask(self, mask)


@slot
class Decoder(SeqModule, ABC):
    """0 -> n, or n -> m with a memory of vectors of size ``memory``. Never shifts: a batch has input and target.

    Incremental decoding with ``step`` equals the full forward pass.
    """

    uses_vector: ClassVar[bool] = False
    """Whether ``Memory.vector`` is used."""
    memory_slots: int = 0
    """Number of layers that accept vectors as past keys and values (``Memory.past``)."""

    def __init__(self, dim: int, memory: int | None):
        super().__init__()

    def as_kv(self, x_BLD: Tensor) -> tuple[KV, ...]:
        """One vector per layer as ``Memory.past``; no position attends to rows of zeros."""
        raise ValueError(
            f"{type(self).__name__} has no attention layers that accept past keys and values; use an injection that adds to the "
            "token embeddings, such as latent-embedding"
        )

    @abstractmethod
    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        """Hidden states of the whole sequence."""

    @abstractmethod
    def start(self, memory: Memory | None, rows: int) -> State:
        """The state before the first token, for ``rows`` rows (those of the memory, if there is one)."""

    @abstractmethod
    def step(self, x: Seq, state: Any) -> Decoded:
        """Advance by B x S vectors (S > 1: prefill; the mask marks real tokens). The old state must not be used afterwards."""


@slot
class Backbone(nn.Module, ABC):
    """An image network: B x C x H x W to the feature maps of its stages, from fine to coarse, and to one vector.

    A subclass sets ``channels`` and ``strides`` and implements ``feature_maps``. ``field`` declares the images.
    """

    channels: tuple[int, ...]
    """Channels of the feature maps of each stage."""
    strides: tuple[int, ...]
    """Pixels of the image per position of the feature maps, of each stage."""
    dim: int
    """Size of the vector; by default the channels of the last stage."""

    def __init__(self, field: ImageField):
        super().__init__()
        if not isinstance(field, ImageField):
            raise ValueError(f"{type(self).__name__} needs images, but the field {field.name!r} is of kind {field.kind}")
        self.field, self.shape = field, field.shape

    def set_stages(self, channels: Sequence[int], strides: Sequence[int], dim: int | None = None) -> None:
        """Set ``channels``, ``strides`` and ``dim``."""
        self.channels, self.strides, self.dim = tuple(channels), tuple(strides), dim or channels[-1]

    def require_side(self, pixels: int) -> None:
        """Raise ValueError for images with a side below ``pixels``, where a stage would have no position left."""
        _, height, width = self.shape
        if min(height, width) < pixels:
            raise ValueError(
                f"{type(self).__name__} needs images of at least {pixels} x {pixels} pixels, but they have {height} x {width}; "
                "resize them, or use a network with smaller strides"
            )

    def forward(self, x_BCHW: Tensor) -> list[Tensor]:
        """Feature maps B x C_s x h_s x w_s of every stage s, from fine to coarse. Raises ValueError for another image shape."""
        self.check_shape(x_BCHW)
        return self.feature_maps(x_BCHW)

    def check_shape(self, x_BCHW: Tensor) -> None:
        """Raise ValueError for images of another shape than that of the data."""
        if tuple(x_BCHW.shape[1:]) != self.shape:
            raise ValueError(
                f"{type(self).__name__} needs images B x {' x '.join(map(str, self.shape))}, as the data declares them, but got "
                f"{' x '.join(map(str, x_BCHW.shape))}"
            )

    @abstractmethod
    def feature_maps(self, x_BCHW: Tensor) -> list[Tensor]:
        """What ``forward`` returns, for images of the right shape."""

    def vector(self, x_BCHW: Tensor) -> Tensor:
        """B x D, the image as one vector; by default the average of the last stage over all positions."""
        return self(x_BCHW)[-1].mean((2, 3))

    def keep_maps(self) -> None:
        """Remove the layers that only ``vector`` needs, for models that use the feature maps; then it is the default average."""


@slot
class Injection(nn.Module, ABC):
    """How a latent vector of size ``latent`` conditions a ``decoder`` of hidden size ``dim``. The default has no effect."""

    def __init__(self, dim: int, latent: int, decoder: Decoder):
        super().__init__()

    def past_vectors(self, z_BP: Tensor) -> Tensor | None:
        """B x L x D, a vector per decoder layer used as past key and value; None for none."""
        return None

    def embedding_offsets(self, z_BP: Tensor) -> Tensor | None:
        """B x L x D, added to the embeddings of the first L tokens (L = 1: of all tokens); None for none."""
        return None


@slot
class Head(nn.Module, ABC):
    """Logits over ``field``'s ids from hidden states. ``embedder`` is passed for tied heads; it may be None."""

    def __init__(self, dim: int, field: Field, embedder: Embedder | None):
        super().__init__()

    @abstractmethod
    def forward(self, x_ND: Tensor) -> Tensor:
        """N x V logits."""

    @abstractmethod
    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        """N losses. Logits over a large vocabulary are computed in chunks and never stored in full."""
