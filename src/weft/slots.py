"""The contracts. Each slot's ``__init__`` fixes the wiring: what a parent gives to every block that fills the slot.

Everything else a block takes is a keyword-only choice of its own. Shape suffixes: see seq.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from weft.batch import Batch, Clock, Example, Field, Frame, Hypothesis, Info, Instance, Loss, Passage, Special
from weft.catalog import choices, identity, name_of, slot
from weft.masks import Causal, Full, Mask
from weft.seq import KV, Decoded, Memory, Seq, State

T = TypeVar("T")

# ---------------------------------------------------------------------------------------------- structure: small parts


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
class Standardizer(nn.Module):
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
class Critic(nn.Module):
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


# -------------------------------------------------------------------------------------- structure: kinds of network


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
    """n -> n: B x T x D to B x T x D. ``honours`` lists the masks that it respects."""

    honours: ClassVar[tuple[type[Mask], ...]] = (Full,)

    def __init__(self, dim: int):
        super().__init__()

    def forward(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.states(x, mask)[-1]

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        """The input and the output of every layer; the last is what is given on."""
        raise TypeError(f"{type(self).__name__} has no states")

    def check_mask(self, mask: Mask) -> None:
        if not isinstance(mask, self.honours):
            known = ", ".join(m.__name__ for m in self.honours)
            raise ValueError(f"{type(self).__name__} cannot respect the mask {type(mask).__name__} (it honours: {known})")


@slot
class Mix(nn.Module):
    """Makes one sequence of the ``states`` of a stack: the embedder's output and that of every layer, B x T x D each."""

    def __init__(self, dim: int, states: int):
        super().__init__()

    def forward(self, states: Sequence[Seq]) -> Seq:
        raise TypeError(f"{type(self).__name__} has no forward")


@slot
class Decoder(nn.Module):
    """0 -> n, or n -> m with a memory of width ``memory``. Never shifts: a batch has input and target.

    Stepping equals the full pass.
    """

    wants_vector: ClassVar[bool] = False
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


# ----------------------------------------------------------------------------------------------- structure: the whole

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

    Reading, ``posterior``, gives a place in it; ``write_from`` makes of a place, and of the class that the text is to have, what
    the decoder is given; ``prior`` draws places as nobody has read them.
    """

    latent: int
    """P, its width."""
    labelled: bool = False
    """Whether ``write_from`` heeds the class: then a text can be rewritten to be of another one."""
    draws_labelled: bool = False
    """Whether ``prior`` or ``write_from`` heeds the class: then texts of a class can be drawn."""

    def posterior(self, x: Seq) -> Posterior:
        raise TypeError(f"{type(self).__name__} has no posterior")

    def write_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        raise TypeError(f"{type(self).__name__} has no write_from")

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        """rows x P, from the global generator."""
        raise TypeError(f"{type(self).__name__} has no prior")


@protocol
class Variational:
    """Reads a text to a distribution over its latent space: ``posterior`` has variances, and ``prior`` is N(0, 1)."""


@protocol
class Continues:
    """Decodes from the beginning of a text alone: there is nothing else to look at."""


@protocol
class Restores:
    """Reads a sequence (``source`` of a batch) and writes another of the same ids, as ``Decodes`` does."""


@protocol
class Classifies:
    """Can say the class of a sequence: ``classifier(features(x))`` are the logits."""

    classifier: Head

    def features(self, x: Seq) -> Tensor:
        """B x D."""
        raise TypeError(f"{type(self).__name__} has no features")


@slot
class Chain(nn.Module):
    """How the tags of neighbouring words depend on each other, given a score of each of ``field``'s tags for each word."""

    def __init__(self, field: Field):
        super().__init__()

    def nll(self, score_BTC: Tensor, tag_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """B losses: -log p(all tags of the row). Padding is on the right; a row without words has the loss 0."""
        raise TypeError(f"{type(self).__name__} has no nll")

    def best(self, score_BTC: Tensor, mask_BT: Tensor) -> Tensor:
        """B x T: the most probable tags of each row together; 0 at padding."""
        raise TypeError(f"{type(self).__name__} has no best")


@protocol
class Tags:
    """Can say a class for each word of a text: ``tagger`` of hidden states gathered from ``encode`` are the logits.

    With a ``chain``, they are scores of which it makes the probability of all tags together.
    """

    tagger: Head
    chain: Chain | None

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class Points:
    """Can say where in a text an answer stands: ``pointer`` of hidden states from ``encode`` are two logits, begin and end."""

    pointer: Head

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class Fills:
    """Can say which token stands at a place of a text: ``head`` of hidden states gathered from ``encode`` are the logits."""

    head: Head | None

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        raise TypeError(f"{type(self).__name__} has no encode")


@protocol
class Relates:
    """Can say how the two segments of a text belong together: ``relation(features(x))`` are the logits."""

    relation: Head | None

    def features(self, x: Seq) -> Tensor:
        """B x D."""
        raise TypeError(f"{type(self).__name__} has no features")


@protocol
class Judges:
    """Can say of each token whether it was put in another's place: ``judge(encode(x))`` is one logit for each token."""

    judge: Head | None


REPLACED = Field("replaced", 1, kind="label", space="replaced", labels=("replaced",))
"""What the head of a structure that judges says."""


@protocol
class Chooses:
    """Can say which of several sequences is right: ``chooser(features(x))`` is one logit for each sequence."""

    chooser: Head

    def features(self, x: Seq) -> Tensor:
        """N x D."""
        raise TypeError(f"{type(self).__name__} has no features")


CHOICE = Field("choice", 1, kind="label", space="choice", labels=("right",))
"""What the head of a structure that chooses says."""


@protocol
class Sees:
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


# --------------------------------------------------------------------------------------------------------------- data


class Dataset(Protocol):
    """Examples by number. Opening it again gives the same."""

    lengths: Mapping[str, np.ndarray]

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Example: ...

    def raw(self, row: int) -> dict[str, str]:
        """The row as a person wrote it: texts, label, and what it may be grouped by."""
        ...


@slot
class Tokenizer:
    """Text <-> ids. Ids 0 to 6 are the special ones of ``Special``, except in published vocabularies: see ``special``."""

    def __init__(self):
        pass

    def bound(self) -> int:
        """The vocabulary can have at most this many ids: known before any text is read."""
        raise TypeError(f"{type(self).__name__} has no bound")

    def train(self, texts: Iterable[str]) -> None:
        """Learn the vocabulary. Some tokenizers go through the texts twice: give a list, or an object whose ``__iter__`` reads
        them anew, and no text is held longer than needed. An iterator works too, but may be kept as a list."""

    @property
    def vocab(self) -> int:
        raise TypeError(f"{type(self).__name__} has no vocab")

    @property
    def special(self) -> Special:
        """Ids with a meaning of their own: what the fields of these texts carry. -1 where a published vocabulary has none."""
        return Special()

    @property
    def frame(self) -> Frame:
        """The ids that stand around a text, or a pair of texts, where it is read."""
        return Frame()

    @property
    def start(self) -> int:
        """What a decoder with an encoder before it is given first, where a published model says so; -1 = the begin mark."""
        return -1

    def encode(self, text: str) -> list[int]:
        """The ids of the text and no others: what stands around it is the objectives' affair."""
        raise TypeError(f"{type(self).__name__} has no encode")

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """``encode`` of each text; tokenizers that are faster with many at once do it so."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        raise TypeError(f"{type(self).__name__} has no decode")

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id as a readable string (for pictures)."""
        raise TypeError(f"{type(self).__name__} has no tokens")

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each token of ``encode(text)`` stands: its characters are text[a:b]. Tokens that share one both have it."""
        raise TypeError(f"{type(self).__name__} has no offsets")

    def spell(self, text: str) -> list[list[int]] | None:
        """The ids of the characters of each token of the text; None for tokenizers that spell nothing."""
        return None

    def continues(self) -> list[bool]:
        """For each id, whether it goes on with the word before it; empty where that is not known."""
        return []

    def stops(self) -> list[int]:
        """The ids that end a sentence."""
        return []

    @property
    def spare(self) -> int:
        """So many ids at the end of the vocabulary stand in no text."""
        return 0

    @property
    def letters(self) -> int:
        """Spellings have ids below this number, special ones included; 0 for tokenizers that spell nothing."""
        return 0

    def described(self) -> Any:
        """Name and options, as JSON can say them: equal for tokenizers that learn the same from the same text."""
        return [name_of(type(self)), {name: identity(getattr(self, name)) for name in choices(type(self))}]

    def save(self, file: Path) -> None: ...

    def load(self, file: Path) -> None: ...


@dataclass
class Codec:
    """Between text and ids, for every field: the measured ``info`` and the tokenizer of each id space."""

    info: Info
    tokenizers: dict[str, Tokenizer]

    def encode(self, field: str, text: str) -> np.ndarray:
        return np.array(self.tokenizers[self.info[field].space].encode(text), np.int64)

    def decode(self, field: str, ids: Sequence[int]) -> str:
        """The text of these ids; spare ids have none."""
        end = self.info[field].vocab - self.info[field].spare
        return self.tokenizers[self.info[field].space].decode([i for i in ids if i < end])

    def excerpt(self, passage: Passage, text: str) -> str:
        """The passage as it was written in the text, without the space around it."""
        if passage.first < 0:
            return ""
        places = self.tokenizers[self.info[passage.of].space].offsets(text)
        return text[places[passage.first][0] : places[passage.last][1]].strip()


@dataclass
class Corpus:
    """Opened data: the codec, the datasets by split (``train``, ``valid``, ``test``), and what was counted while reading."""

    codec: Codec
    splits: dict[str, Any]
    ledger: dict[str, Any]


Tell = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is (0 = not known): ``tell("reading", 3, 10)``."""


@slot
class Data:
    """What there is. ``declare`` opens no corpus; ``open`` reads it."""

    hints: ClassVar[Mapping[str, str]] = {}
    """Of fields that it gives only where it is asked to: how to ask (see ``Info``)."""

    def __init__(self):
        pass

    def declare(self) -> Info:
        """Fields with upper bounds of their sizes: what ``weft check`` builds on."""
        raise TypeError(f"{type(self).__name__} has no declare")

    def open(
        self,
        codec: Codec | None = None,
        *,
        known: Mapping[str, Tokenizer] | None = None,
        only: Sequence[str] = (),
        tell: Tell | None = None,
    ) -> Corpus:
        """Args: codec: vocabularies and classes that a run has; None = find them in the training split.
        known: where there is no codec, trained tokenizers by id space, so that ids mean what they meant before.
        only: the splits that are wanted; none = all. tell: hears of what takes long."""
        raise TypeError(f"{type(self).__name__} has no open")

    def tokenizers(self) -> dict[str, Tokenizer]:
        """Untrained tokenizers by id space, to be loaded from a run's folder."""
        raise TypeError(f"{type(self).__name__} has no tokenizers")


# ---------------------------------------------------------------------------------------------------------- objective


@slot
class Hiding:
    """Which places of a text are hidden."""

    def __init__(self):
        pass

    def choose(self, begins_T: np.ndarray, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Groups of places, no place twice and at most ``budget`` in all. ``begins_T``: where a word begins."""
        raise TypeError(f"{type(self).__name__} has no choose")


@dataclass(frozen=True)
class Corrupted:
    """What is read and what is to be written, made of a text."""

    source: np.ndarray
    target: np.ndarray


@slot
class Noise:
    """What is done to a text of two tokens or more. ``restores``: the target is the text itself.

    Reserved ids of the field that stand in the text are not chosen.
    """

    restores: ClassVar[bool] = False

    def __init__(self):
        pass

    def check(self, field: Field) -> None:
        """Raise ValueError where the vocabulary has not the ids that the field's longest text may need."""

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        raise TypeError(f"{type(self).__name__} has no corrupt")


@dataclass(frozen=True)
class Related:
    """Two segments, and whether they belong together."""

    first: np.ndarray
    second: np.ndarray
    belong: bool


@slot
class Pairing:
    """How two segments are made of a text."""

    def __init__(self):
        pass

    def pair(self, ids: np.ndarray, rng: np.random.Generator, pool: Any, name: str) -> Related | None:
        """Segments of the text ``ids``; ``pool`` has other texts, in the field ``name``. None = the text is too short."""
        raise TypeError(f"{type(self).__name__} has no pair")


@slot
class Annealing:
    """A weight that changes while training goes on."""

    def __init__(self):
        pass

    def weight(self, share: float) -> float:
        """At a ``share`` of all updates, from 0 (none is done) to 1 (all are)."""
        raise TypeError(f"{type(self).__name__} has no weight")

    def check(self, updates: int) -> None:
        """Raise ValueError where so many updates are too few for it."""


@slot
class FreeBits:
    """What of the divergence of a posterior from the prior is paid for."""

    def __init__(self):
        pass

    def kept(self, kl_BP: Tensor) -> Tensor:
        """B: from the divergence of each row and dimension, what is added to a row's loss."""
        raise TypeError(f"{type(self).__name__} has no kept")


@slot
class Objective(nn.Module):
    """What is to be predicted. Owns the heads that only its loss needs; they are trained and saved with the model.

    Most objectives write ``prepare``, ``counts`` and ``forward``.
    """

    needs: tuple[type, ...] = ()
    """Protocols that the structure must have: Encodes, Decodes, Classifies, Tags, ..."""
    fills: bool = False
    """True where masks may stand in a text that is asked about, to be filled."""
    couples: bool = False
    """True where the examples of a batch interact (contrastive losses)."""

    def __init__(self, info: Info, dim: int):
        super().__init__()

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """Tokens that each example will take in a batch: what rows are sorted and budgeted by."""
        return np.sum([np.asarray(v, np.int64) for v in lengths.values()], axis=0)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        """Clean example -> training instance; None = nothing to learn here, counted. ``pool`` is the whole dataset."""
        raise TypeError(f"{type(self).__name__} has no prepare")

    def counts(self, batch: Batch) -> dict[str, int]:
        """What each term of the loss will be divided by; depends on the batch alone. Equal to the counts in ``forward``."""
        return {"loss": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        raise TypeError(f"{type(self).__name__} has no forward")

    def begin(self, model: Any, dataset: Any) -> None:
        """Once per stage, before the first update."""

    def collect(self, model: Any, batch: Batch) -> Batch:
        """Without gradient, before the update: rollouts, predicted templates."""
        return batch

    def observe(self, means: Mapping[str, float]) -> None:
        """After each update, the mean of every term: baselines, adaptive weights."""

    def figures(self, means: Mapping[str, float]) -> dict[str, float]:
        """What else an evaluation should say of the mean of every term, e.g. a perplexity."""
        return {}

    def ask(self, example: Example) -> Instance | None:
        """What is asked of a row without its answer, for ``predict``; None = nothing can be."""
        return self.prepare(example, np.random.default_rng(0), None)

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        """An answer per row: ids of a text (``list[Hypothesis]``), the number of a class, a ``Passage`` of a text, what stands
        at its masks (``Filled``)."""
        raise ValueError(f"{type(self).__name__} predicts nothing that could be compared with the data")

    def probabilities(self, model: Any, batch: Batch) -> Tensor | None:
        """B x C: how probable each class is, where an answer is a class; else None."""
        return None


# ----------------------------------------------------------------------------------------------------------- learning


@slot
class Optimizer:
    """How gradients become steps: ``inner`` is a torch optimiser over ``groups`` of parameters."""

    inner: torch.optim.Optimizer

    def __init__(self, groups: list[dict[str, Any]]):
        pass


@slot
class Schedule:
    """The learning rate over time, as a factor of the optimiser's ``lr``."""

    def __init__(self):
        pass

    def factor(self, update: int, updates: int) -> float:
        """For update 0, 1, ... of ``updates``."""
        raise TypeError(f"{type(self).__name__} has no factor")


@slot
class Constraint:
    """Applied to the trained parameters after each step: WGAN clipping, lottery masks."""

    def __init__(self):
        pass

    def apply(self, parameters: Mapping[str, nn.Parameter]) -> None:
        raise TypeError(f"{type(self).__name__} has no apply")


@slot
class Sync:
    """How gradients are exchanged between processes; there is one for each phase. After ``finish``, ``.grad`` is the sum over
    processes, and None where no process has one."""

    def __init__(self):
        pass

    def attach(self, step: nn.Module, parameters: Sequence[nn.Parameter]) -> Callable[[Batch, Clock], Loss]:
        """Called once, before the optimiser is made, with what the phase trains; gives what is called in place of ``step``.
        It may replace the parameters in the modules by others of the same names."""
        raise TypeError(f"{type(self).__name__} has no attach")

    def hold(self) -> AbstractContextManager[Any]:
        """A context in which backward does not exchange yet (all but the last micro-batch)."""
        return nullcontext()

    def finish(self) -> None:
        """Called after the last backward of an update."""

    def whole(self) -> AbstractContextManager[Any]:
        """A context in which a process can use the modules by itself; all of them must enter it."""
        return nullcontext()


class Feed(Protocol):
    """Batches of one dataset for one objective: a pure function of the number of the draw."""

    def __len__(self) -> int:
        """Batches per epoch."""
        ...

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        """The batch of that draw, prepared and collated; None when no row of it is left."""
        ...


@slot
class Learning:
    """How the weights move."""

    def __init__(self):
        pass


# --------------------------------------------------------------------------------------------------- use and evaluate


def require(objective: Objective, model: Any) -> None:
    """Refuse a structure that lacks what the objective needs, where it would otherwise compute something else in silence."""
    provided = model.provides() if isinstance(model, Structure) else [need for need in objective.needs if isinstance(model, need)]
    if missing := [need.__name__ for need in objective.needs if need not in provided]:
        what, name = " and ".join(missing), type(model).__name__
        raise ValueError(f"{type(objective).__name__} needs a structure that {what}, and {name} does not")


@slot
class Search:
    """Finds sequences under a structure that decodes. One row of the result per row of the memory or prompt, best first."""

    def __init__(self):
        pass

    def limit(self, source_length: int) -> int:
        """Most tokens to generate for an input of so many tokens."""
        raise TypeError(f"{type(self).__name__} has no limit")

    def __call__(
        self, model: Any, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        """Args: prompt: ids to go on from (default: the begin mark). limits: most tokens to generate, per row.
        keys: a number per row that randomness depends on, so that results do not depend on what else is in the batch."""
        raise TypeError(f"{type(self).__name__} has no __call__")


@dataclass(frozen=True)
class Subject:
    """What a metric is given that looks at the model itself.

    Args:
        model: In evaluation mode, without gradients.
        objective: The one that evaluates.
        dataset: The rows that are judged.
        codec: Of the data.
        device: Where the model is.
        batch: Tokens per batch.
        last: Whether training is over: a figure that costs much may be rougher before.
    """

    model: Any
    objective: Objective
    dataset: Dataset
    codec: Codec
    device: torch.device
    batch: int
    last: bool = True


@slot
class Metric:
    """A figure from predictions and references. ``wants`` is text, label, loss (then ``predictions`` is one dict: the sum of
    every term of the loss), or model (then ``measure`` is asked, not ``compute``)."""

    wants: ClassVar[str] = "text"
    needs: ClassVar[tuple[type, ...]] = ()
    """Protocols that the structure must have."""
    by_row: ClassVar[bool] = True
    """Whether it is about each row by itself, so that rows can be drawn again for an interval. False where it is about the set:
    how much its texts differ."""
    least: ClassVar[int] = 1
    """The fewest rows that it can say something of."""

    def __init__(self):
        pass

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        """By name, from the predicted strings and the raw rows."""
        raise TypeError(f"{type(self).__name__} has no compute")

    def measure(self, subject: Subject) -> dict[str, float]:
        """By name, from the model itself. Equal whenever it is asked, and whatever rows are in a batch together."""
        raise TypeError(f"{type(self).__name__} has no measure")

    def remarks(self, figures: Mapping[str, float]) -> list[str]:
        """What a person should know who reads these figures: sentences for the log and the screen."""
        return []

    def check(self, info: Info) -> None:
        """Raise ValueError where it can say nothing of such data. Classes may not be known yet."""

    def signature(self) -> str:
        """How it was computed, where there is more than one way and others must know; else nothing."""
        return ""
