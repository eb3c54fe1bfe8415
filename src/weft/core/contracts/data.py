"""Contracts of data: datasets, tokenizers, codecs, sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from weft.core.example import Example
from weft.core.fields import Frame, Info, Special
from weft.core.outputs import SpanPrediction
from weft.core.registry import choices, identity, name_of, slot


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

    def sentence_ends(self) -> list[int]:
        """The ids that end a sentence."""
        return []

    @property
    def sentinel_count(self) -> int:
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
        end = self.info[field].vocab - self.info[field].sentinel_count
        return self.tokenizers[self.info[field].space].decode([i for i in ids if i < end])

    def excerpt(self, passage: SpanPrediction, text: str) -> str:
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


ProgressCallback = Callable[[str, int, int], None]
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
        tell: ProgressCallback | None = None,
    ) -> Corpus:
        """Args: codec: vocabularies and classes that a run has; None = find them in the training split.
        known: where there is no codec, trained tokenizers by id space, so that ids mean what they meant before.
        only: the splits that are wanted; none = all. tell: hears of what takes long."""
        raise TypeError(f"{type(self).__name__} has no open")

    def tokenizers(self) -> dict[str, Tokenizer]:
        """Untrained tokenizers by id space, to be loaded from a run's folder."""
        raise TypeError(f"{type(self).__name__} has no tokenizers")
