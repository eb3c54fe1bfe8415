"""Contracts of a whole structure: the protocols it provides and ``Structure`` itself."""

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
"""What a structure can do, and an objective can need; research systems bring their own."""


def protocol(cls: type[T]) -> type[T]:
    """Declare something that structures can do: those that inherit from it provide it."""
    PROTOCOLS.append(cls)
    return cls


@protocol
class Encodes:
    """Can turn a sequence of ids into hidden states."""

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class Embeds:
    """Has one embedder of the tokens that it encodes, which others may read and be tied to."""

    embedder: Embedder


@dataclass(frozen=True)
class Decoding:
    """State of a structure that decodes: the decoder's, and how many real tokens each row has seen."""

    inner: Any
    seen_B: Tensor

    def select(self, rows: Tensor) -> Decoding:
        return Decoding(self.inner.select(rows), self.seen_B[rows])


@protocol
class Decodes:
    """Can predict the next token of ``target``, with or without something to look at.

    A structure gives ``target`` (the field that is generated), ``decoder``, ``head``, ``embed`` and ``memory``; the rest is here.
    """

    target: Field
    decoder: Decoder
    head: Head

    def memory(self, batch: Batch) -> Memory | None:
        """What the decoder looks at, from the batch's other fields."""
        return None

    def embed(self, x: Seq) -> Seq:
        """Vectors of the target's ids."""
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
    """Where in a latent space texts lie: q(z|x) = N(mean, exp(logvar)), or the mean alone where a text is one point. P wide."""

    mean_BP: Tensor
    logvar_BP: Tensor | None = None


@protocol
class Latent:
    """Has a space of vectors between what it reads (field ``source``) and what it writes (field ``target``), as ``Decodes`` does.

    Reading, ``posterior``, gives a place in it; ``memory_from`` makes of a place, and of the class that the text is to have, what
    the decoder is given; ``prior`` draws places as nobody has read them.
    """

    latent: int
    """P, its width."""
    labelled: bool = False
    """Whether ``memory_from`` heeds the class: then a text can be rewritten to be of another one."""
    samples_by_label: bool = False
    """Whether ``prior`` or ``memory_from`` heeds the class: then texts of a class can be drawn."""

    def posterior(self, x: Seq) -> Posterior:
        raise TypeError(f"{type(self).__name__} has no posterior")

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        raise TypeError(f"{type(self).__name__} has no write_from")

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        """rows x P, from the global generator."""
        raise TypeError(f"{type(self).__name__} has no prior")


@protocol
class Variational:
    """Reads a text to a distribution over its latent space: ``posterior`` has variances, and ``prior`` is N(0, 1)."""


@protocol
class ModelsLanguage:
    """Decodes from the beginning of a text alone: there is nothing else to look at."""


@protocol
class Reconstructs:
    """Reads a sequence (``source`` of a batch) and writes another of the same ids, as ``Decodes`` does."""


@protocol
class Classifies:
    """Can say the class of a sequence: ``classifier(features(x))`` are the logits."""

    classifier: Head

    def features(self, x: Seq) -> Tensor:
        """B x D."""
        raise TypeError(f"{type(self).__name__} has no features")


@protocol
class Tags:
    """Can say a class for each word of a text: ``tag_head`` of hidden states gathered from ``encode`` are the logits.

    With a ``chain``, they are scores of which it makes the probability of all tags together.
    """

    tag_head: Head
    chain: LinearChain | None

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class ExtractsSpans:
    """Can say where in a text an answer stands: ``span_head`` of hidden states from ``encode`` are two logits, begin and end."""

    span_head: Head

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class PredictsMasked:
    """Can say which token stands at a place of a text: ``head`` of hidden states gathered from ``encode`` are the logits."""

    head: Head | None

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class ClassifiesPairs:
    """Can say how the two segments of a text belong together: ``segment_head(features(x))`` are the logits."""

    segment_head: Head | None

    def features(self, x: Seq) -> Tensor:
        """B x D."""
        raise TypeError(f"{type(self).__name__} has no features")


@protocol
class DetectsReplaced:
    """Can say of each token whether it was put in another's place: ``discriminator(encode(x))`` is one logit for each token."""

    discriminator: Head | None


REPLACED = Field("replaced", 1, kind="label", space="replaced", labels=("replaced",))
"""What the head of a structure that judges says."""


@protocol
class ScoresChoices:
    """Can say which of several sequences is right: ``choice_head(features(x))`` is one logit for each sequence."""

    choice_head: Head

    def features(self, x: Seq) -> Tensor:
        """N x D."""
        raise TypeError(f"{type(self).__name__} has no features")


CHOICE = Field("choice", 1, kind="label", space="choice", labels=("right",))
"""What the head of a structure that chooses says."""


@protocol
class EncodesImages:
    """Can look at some patches of an image and not at the others: ``embedder`` makes a vector of each patch, in rows from the top
    left and after at most one vector of the whole, and ``encoder`` takes those that it is given."""

    embedder: Embedder
    encoder: Encoder


@slot
class Structure(nn.Module):
    """How it is computed: a plain module built from what the data tells (``info``). ``dim`` is its width.

    ``weights`` is the folder of a published model or of a run that it begins with; who builds it takes them from there.
    """

    dim: int

    def __init__(self, info: Info, *, weights: str | None = None):
        super().__init__()
        self.weights = weights

    def inner(self) -> Mapping[str, Structure | Sequence[Structure]]:
        """Structures that are parts of this one, by the choice that each is built of; several may be built of one choice."""
        return {}

    def provides(self) -> tuple[type, ...]:
        """The protocols of this structure."""
        return tuple(p for p in PROTOCOLS if isinstance(self, p))
