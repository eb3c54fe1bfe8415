"""Contracts of models: ``Structure``, and the protocols that a structure provides and an objective needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from weft.core.batch import Batch
from weft.core.contracts.networks import Decoder, Embedder, Encoder, Head
from weft.core.contracts.parts import LinearChain
from weft.core.fields import Field, Info
from weft.core.masks import Causal, Full, Mask
from weft.core.registry import slot
from weft.core.seq import Decoded, Memory, Seq

T = TypeVar("T")


PROTOCOLS: list[type] = []
"""The registered protocols; research systems add their own."""


def protocol(cls: type[T]) -> type[T]:
    """Register a protocol: the structures that inherit from it provide it."""
    PROTOCOLS.append(cls)
    return cls


@protocol
class Encodes:
    """Encodes a sequence of ids (or patches) into hidden states."""

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class Embeds:
    """Has one ``embedder`` of the tokens that it encodes, which other modules may use or be tied to."""

    embedder: Embedder


@dataclass(frozen=True)
class Decoding:
    """Decoding state of a structure: the decoder's state, and the number of real tokens decoded so far in each row."""

    inner: Any
    seen_B: Tensor

    def select(self, rows: Tensor) -> Decoding:
        return Decoding(self.inner.select(rows), self.seen_B[rows])


@protocol
class Decodes:
    """Predicts the next token of the field ``target``, with or without an encoder's memory.

    A structure defines ``target``, ``decoder``, ``head``, ``embed`` and ``memory``; the other methods are derived from them.
    """

    target: Field
    decoder: Decoder
    head: Head

    def memory(self, batch: Batch) -> Memory | None:
        """The decoder's memory (what it attends to or starts from), computed from the other fields of the batch."""
        return None

    def embed(self, x: Seq) -> Seq:
        """Embeddings of the target ids."""
        raise TypeError(f"{type(self).__name__} has no embed")

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        return self.decoder(self.embed(x), memory, mask)

    def start(self, memory: Memory | None, rows: int) -> Decoding:
        seen_B = torch.zeros(rows, dtype=torch.long, device=next(self.decoder.parameters()).device)
        return Decoding(self.decoder.start(memory, rows), seen_B)

    def step(self, x: Seq, state: Decoding) -> Decoded:
        position_BT = state.seen_B[:, None] + replace(x, marks={}).positions()
        done = self.decoder.step(self.embed(x.mark(position=position_BT)), state.inner)
        return Decoded(done.hidden, Decoding(done.state, state.seen_B + x.lengths()))


@dataclass(frozen=True)
class Posterior:
    """Posterior over latent codes: q(z|x) = N(mean, diag(exp(logvar))), or a point at the mean without ``logvar``."""

    mean_BP: Tensor
    logvar_BP: Tensor | None = None


@protocol
class Latent:
    """Has a latent space between the encoded field ``source`` and the field ``target`` that ``Decodes`` generates.

    ``posterior`` encodes texts to latent codes; ``memory_from`` turns latent codes, and class labels where the model is
    class-conditional, into the decoder's memory; ``prior`` samples latent codes.
    """

    latent: int
    """P, the dimension of the latent space."""
    labelled: bool = False
    """Whether ``memory_from`` is conditioned on the class, as style transfer needs."""
    samples_by_label: bool = False
    """Whether ``prior`` or ``memory_from`` is conditioned on the class, as class-conditional generation needs."""

    def posterior(self, x: Seq) -> Posterior:
        raise TypeError(f"{type(self).__name__} has no posterior")

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        raise TypeError(f"{type(self).__name__} has no memory_from")

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        """rows x P latent codes, sampled with the global random generator."""
        raise TypeError(f"{type(self).__name__} has no prior")


@protocol
class Variational:
    """Has a Gaussian ``posterior`` with variances and the prior N(0, I)."""


@protocol
class ModelsLanguage:
    """Decoder-only: predicts the next token from the previous ones alone, without a memory."""


@protocol
class Reconstructs:
    """Generates a sequence of the same vocabulary as the encoded one (``source`` of a batch), as denoising needs."""


@protocol
class Classifies:
    """Classifies sequences: ``classifier(features(x))`` are the logits."""

    classifier: Head

    def features(self, x: Seq) -> Tensor:
        """B x D."""
        raise TypeError(f"{type(self).__name__} has no features")


@protocol
class Tags:
    """Classifies tokens: ``tag_head`` of the hidden states of the words' tokens are the logits.

    With a ``chain``, the logits are the emission scores of a linear chain over all tags.
    """

    tag_head: Head
    chain: LinearChain | None

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class ExtractsSpans:
    """Extracts spans: ``span_head(encode(x))`` are two logits per token, start and end."""

    span_head: Head

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class PredictsMasked:
    """Predicts masked tokens: ``head`` of the hidden states at masked positions are the logits."""

    head: Head | None

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class ClassifiesPairs:
    """Classifies the relation of two segments: ``segment_head(features(x))`` are the logits."""

    segment_head: Head | None

    def features(self, x: Seq) -> Tensor:
        """B x D."""
        raise TypeError(f"{type(self).__name__} has no features")


@protocol
class DetectsReplaced:
    """Detects replaced tokens: ``discriminator(encode(x))`` is one logit per token."""

    discriminator: Head | None


REPLACED = Field("replaced", 1, kind="label", space="replaced", labels=("replaced",))
"""Output field of the replaced-token head."""


@protocol
class ScoresChoices:
    """Scores choices: ``choice_head(features(x))`` is one logit per sequence."""

    choice_head: Head

    def features(self, x: Seq) -> Tensor:
        """N x D."""
        raise TypeError(f"{type(self).__name__} has no features")


CHOICE = Field("choice", 1, kind="label", space="choice", labels=("right",))
"""Output field of the multiple-choice head."""


@protocol
class EncodesImages:
    """Encodes a subset of the patches of an image: ``embedder`` embeds all patches in row-major order, after at most one class
    token, and ``encoder`` accepts any subset of them."""

    embedder: Embedder
    encoder: Encoder


@slot
class Structure(nn.Module):
    """A model: an ``nn.Module`` built from the fields of the data (``info``). ``dim`` is its hidden size.

    ``weights`` is the folder of a published model or of a run to initialize it from; the caller loads them.
    """

    dim: int

    def __init__(self, info: Info, *, weights: str | None = None):
        super().__init__()
        self.weights = weights

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        """Inner structures by the option that builds them; one option may build several."""
        return {}

    def provides(self) -> tuple[type, ...]:
        """The protocols that this structure provides."""
        return tuple(p for p in PROTOCOLS if isinstance(self, p))
