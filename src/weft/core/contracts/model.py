"""Contracts of models: ``Structure``, and the protocols that a structure provides and an objective needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from weft.core.batch import Batch
from weft.core.contracts.networks import Decoder, Embedder, Encoder, Head
from weft.core.contracts.parts import LinearChain, Pooler
from weft.core.fields import Info, LabelField, TextField
from weft.core.masks import Causal, Full, Mask
from weft.core.registry import slot
from weft.core.seq import Decoded, Memory, Seq, State

T = TypeVar("T")


PROTOCOLS: list[type] = []
"""Capabilities that a structure provides and an objective needs; research systems add their own."""


def protocol(cls: type[T]) -> type[T]:
    """Declare a capability of structures: those that inherit from the class provide it."""
    PROTOCOLS.append(cls)
    return cls


@protocol
class Encodes(ABC):
    """Encodes a sequence of ids into hidden states."""

    @abstractmethod
    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        """B x T x D hidden states."""


@protocol
class Embeds:
    """Has one token embedder for its input, which objectives may read and tie heads to."""

    embedder: Embedder


@dataclass(frozen=True)
class Decoding:
    """Decoding state of a structure: the state of the decoder, and the number of real tokens seen in each row."""

    inner: State
    seen_B: Tensor

    def select(self, rows: Tensor) -> Decoding:
        return Decoding(self.inner.select(rows), self.seen_B[rows])


@protocol
class Decodes(ABC):
    """Predicts the next token of ``target``, with or without a memory to attend to.

    A structure provides ``target`` (the field that is generated), ``decoder``, ``head``, ``embed`` and ``memory``; the rest is
    implemented here.
    """

    target: TextField
    decoder: Decoder
    head: Head

    def memory(self, batch: Batch) -> Memory | None:
        """What the decoder attends to, computed from the other fields of the batch; None without a memory."""
        return None

    def embed(self, x: Seq) -> Seq:
        """Embeddings of the target's ids. Structures that override ``decode``, ``start`` and ``step`` need none."""
        raise TypeError(f"{type(self).__name__} has no embed")

    def next_token_logits(self, x: Seq, memory: Memory | None) -> Tensor:
        """B x T x V, the logits of the token after each prefix of ``x``."""
        return self.head(self.decode(x, memory).hidden.data)

    def teacher_forcing(self, source: Seq, decoder_input: Seq, label_B: Tensor | None = None) -> Tensor:
        """B x T x V, the logits of the token after each prefix of ``decoder_input``, given ``source`` and perhaps a class."""
        label = {} if label_B is None else {"label": label_B}
        return self.next_token_logits(decoder_input, self.memory(Batch({"source": source, **label}, source.rows)))

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
    """Approximate posterior q(z|x) = N(mean, exp(logvar)) over a latent space of P dimensions; without logvar, a point."""

    mean_BP: Tensor
    logvar_BP: Tensor | None = None


@protocol
class Latent(ABC):
    """Has a latent space between its input (field ``source``) and the text it decodes (field ``target``).

    ``posterior`` encodes a text to a latent code z; ``memory_from`` turns z, and optionally a class, into what the decoder is
    conditioned on; ``prior`` samples latent codes.
    """

    latent: int
    """P, the number of latent dimensions."""
    class_conditional: bool = False
    """Whether ``memory_from`` conditions on the class, so that style transfer to another class is possible."""
    samples_by_label: bool = False
    """Whether ``prior`` or ``memory_from`` conditions on the class, so that class-conditional generation is possible."""

    @abstractmethod
    def posterior(self, x: Seq) -> Posterior:
        """q(z|x) of each row."""

    @abstractmethod
    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        """What the decoder is conditioned on, given latent codes and classes."""

    @abstractmethod
    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        """rows x P latent codes, sampled with the global generator."""


@protocol
class Variational:
    """Encodes a text to a distribution over the latent space: ``posterior`` has variances, and ``prior`` is N(0, 1)."""


@protocol
class ModelsLanguage(Decodes):
    """Decodes from the prefix of a text alone, without a memory."""


@protocol
class Reconstructs(Decodes):
    """Encodes a sequence (``source`` of a batch) and decodes another over the same ids, as ``Decodes`` does."""


@protocol
class Classifies(ABC):
    """Classifies a sequence: ``classifier(features(x))`` are the logits."""

    classifier: Head

    @abstractmethod
    def features(self, x: Seq) -> Tensor:
        """B x D."""


@protocol
class Tags(ABC):
    """Classifies each word of a text: ``tag_head`` of hidden states gathered from ``encode`` are the logits.

    With a ``chain``, they are the emission scores of a linear-chain model over the tag sequence.
    """

    tag_head: Head
    chain: LinearChain | None

    @abstractmethod
    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        """B x T x D hidden states."""


@protocol
class ExtractsSpans(ABC):
    """Extracts an answer span from a text: ``span_head`` of hidden states from ``encode`` are two logits, start and end."""

    span_head: Head

    @abstractmethod
    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        """B x T x D hidden states."""


@protocol
class PredictsMasked(ABC):
    """Predicts the tokens at masked positions: ``head`` of hidden states gathered from ``encode`` are the logits."""

    head: Head | None

    @abstractmethod
    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        """B x T x D hidden states."""


@protocol
class ClassifiesPairs(ABC):
    """Classifies the relation of two segments (next sentence, sentence order): ``segment_head(features(x))`` are the logits,
    where the features are pooled hidden states."""

    pooler: Pooler | None
    segment_head: Head | None

    @abstractmethod
    def features(self, x: Seq) -> Tensor:
        """B x D."""


@protocol
class DetectsReplaced(Encodes):
    """Detects replaced tokens (ELECTRA): ``discriminator(encode(x))`` is one logit per token."""

    discriminator: Head | None


REPLACED = LabelField("replaced", 1, labels=("replaced",))
"""The field that a replaced-token discriminator predicts."""


@protocol
class ScoresChoices(ABC):
    """Scores the choices of a question: ``choice_head(features(x))`` is one logit per sequence."""

    choice_head: Head

    @abstractmethod
    def features(self, x: Seq) -> Tensor:
        """N x D."""


CHOICE = LabelField("choice", 1, labels=("right",))
"""The field that a multiple-choice head predicts."""


@protocol
class EncodesImages:
    """Encodes any subset of the patches of an image: ``embedder`` returns a vector per patch, in row-major order after an
    optional class token, and ``encoder`` takes the vectors that it is passed."""

    embedder: Embedder
    encoder: Encoder


@slot
class Structure(nn.Module):
    """A network: a plain module built from the declaration of the data (``info``). ``dim`` is its hidden size.

    ``weights`` is the folder of a published model or of a run to initialize from; the caller that builds it loads them.

    ``forward(x, mask)`` returns what the task predicts as a tensor, such as the logits of a classifier, for your own loop,
    ``torch.export`` or Lightning. ``x`` is a ``Seq``, which has its own mask; or ids B x T, or images B x C x H x W. ``mask`` is
    B x T, True = real token; None = no padding. An encoder-decoder also takes the decoder's input, the target shifted right with
    BOS first: ``forward(x, decoder_input, mask, decoder_mask)``. Objectives do not call ``forward``: they compute logits only
    where there is a target.
    """

    dim: int

    def __init__(self, info: Info, *, weights: str | None = None):
        super().__init__()
        self.weights = weights

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        """Structures inside this one, by the option that builds each; one option may build several."""
        return {}

    def provides(self) -> tuple[type, ...]:
        """The protocols that this structure provides."""
        return tuple(p for p in PROTOCOLS if isinstance(self, p))


class TextAutoencoder(Structure, Encodes, Decodes, Latent):
    """Base class of structures that encode a text to a latent code, and decode a text from it."""

    def forward(
        self,
        x: Seq | Tensor,
        decoder_input: Seq | Tensor,
        mask: Tensor | None = None,
        decoder_mask: Tensor | None = None,
        label: Tensor | None = None,
    ) -> Tensor:
        """B x T x V, the logits of the token after each prefix of ``decoder_input``, given the latent code of ``x``.

        ``label`` (B) is the class of each row, for a class-conditional model. See ``Structure``.
        """
        return self.teacher_forcing(Seq.of(x, mask), Seq.of(decoder_input, decoder_mask), label)
