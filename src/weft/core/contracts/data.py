"""Contracts of data: datasets, tokenizers, codecs, sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from weft.core.example import Example
from weft.core.fields import Frame, Info, Special, TokenizedField
from weft.core.outputs import SpanPrediction
from weft.core.registry import identity, name_of, option_parameters, slot


class ExamplePool(Protocol):
    """Examples by index, from which objectives sample."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Example: ...


class Dataset(ExamplePool, Protocol):
    """Examples by index, with their lengths. Opening the same data again gives the same examples."""

    lengths: Mapping[str, np.ndarray]

    def raw(self, row: int) -> dict[str, str]:
        """The example as strings: texts, label, and columns that metrics group by."""
        ...


@runtime_checkable
class TrainingDataset(Dataset, Protocol):
    """A dataset whose examples training sees in another version each time: augmented images, one of several captions."""

    def training_example(self, row: int, rng: np.random.Generator) -> Example:
        """The example as training sees it; ``rng`` is the generator of this example in this epoch."""
        ...


@slot
class Augmentation(ABC):
    """A random change of training images. It depends on nothing but its arguments, so that a resumed run sees the same images."""

    def __init__(self):
        pass

    @abstractmethod
    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the changed image, of the same shape: bytes, or floats between 0 and 255. The argument is not modified."""


class Mixing(Augmentation):
    """An augmentation that mixes two training examples, and with them their labels."""

    @abstractmethod
    def mix(self, image_CHW: np.ndarray, other_CHW: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """Return the mixed image and the weight of the label of the first; 1 = the image is unchanged."""

    def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise ValueError(f"{name_of(type(self))} mixes two examples; it cannot be one of several alternatives")


@slot
class Tokenizer(ABC):
    """Text <-> ids. Ids 0 to 6 are the special tokens of ``Special``, except in published vocabularies: see ``special``."""

    def __init__(self):
        pass

    @abstractmethod
    def max_vocab(self) -> int:
        """Upper bound of the vocabulary size, known before any text is read."""

    def train(self, texts: Iterable[str]) -> None:
        """Learn the vocabulary. Some tokenizers iterate over the texts twice: pass a list, or an object whose ``__iter__`` reads
        them again, and memory stays flat. An iterator works too, but may be stored as a list."""

    @property
    @abstractmethod
    def vocab(self) -> int:
        """Number of ids."""

    @property
    def special(self) -> Special:
        """Ids of the special tokens, which fields of these texts carry; -1 where a published vocabulary lacks one."""
        return Special()

    @property
    def frame(self) -> Frame:
        """Special tokens around a text, or a pair of texts, that is encoded."""
        return Frame()

    @property
    def decoder_start(self) -> int:
        """First input id of a decoder with an encoder, where a published model declares one; -1 = BOS."""
        return -1

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of the text without special tokens; objectives add those."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """``encode`` of each text; override where a batch is faster."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""

    @abstractmethod
    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each id as a readable string, for figures."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character offsets of each token of ``encode(text)``: text[a:b]. Tokens that share a character both include it."""
        raise TypeError(f"{type(self).__name__} has no character offsets; use another tokenizer")

    @property
    def word_prefix(self) -> str:
        """What precedes a word that is encoded by itself, so that it has the tokens that it has inside a text: a space where
        tokens include the space before them. The first word of a text has none."""
        return ""

    def spell(self, text: str) -> list[list[int]] | None:
        """Character ids of each token of the text; None for tokenizers without character ids."""
        return None

    def continues(self) -> list[bool]:
        """For each id, whether it continues the previous word; empty where that is unknown."""
        return []

    def sentence_ends(self) -> list[int]:
        """The ids that end a sentence."""
        return []

    @property
    def sentinel_count(self) -> int:
        """Number of sentinel ids at the end of the vocabulary, which occur in no text."""
        return 0

    @property
    def character_vocab(self) -> int:
        """Number of character ids, special tokens included; 0 for tokenizers without character ids."""
        return 0

    def spec(self) -> Any:
        """Name and options as JSON: equal for tokenizers that learn the same vocabulary from the same text."""
        return [name_of(type(self)), {name: identity(getattr(self, name)) for name in option_parameters(type(self))}]

    def save(self, file: Path) -> None:
        """Write the trained vocabulary to a file."""

    def load(self, file: Path) -> None:
        """Read a vocabulary that ``save`` has written."""


@dataclass
class Codec:
    """Text <-> ids for every field: the measured ``info`` and the tokenizer of each id space."""

    info: Info
    tokenizers: dict[str, Tokenizer]

    def tokenized(self, field: str) -> TokenizedField:
        """The field of this name; raises ValueError if no tokenizer encodes it."""
        return self.info.expect(field, TokenizedField, "use a field of texts")

    def encode(self, field: str, text: str) -> np.ndarray:
        return np.array(self.tokenizers[self.tokenized(field).space].encode(text), np.int64)

    def decode(self, field: str, ids: Sequence[int]) -> str:
        """The text of these ids, without sentinels."""
        text = self.tokenized(field)
        end = text.vocab - text.sentinel_count
        return self.tokenizers[text.space].decode([i for i in ids if i < end])

    def excerpt(self, span: SpanPrediction, text: str) -> str:
        """The predicted span of the text, stripped; empty where no answer was predicted."""
        if span.first < 0:
            return ""
        offsets = self.tokenizers[self.tokenized(span.of).space].offsets(text)
        return text[offsets[span.first][0] : offsets[span.last][1]].strip()


@dataclass
class Corpus:
    """Opened data: the codec, the datasets by split (``train``, ``valid``, ``test``), and the ledger of what was counted."""

    codec: Codec
    splits: Mapping[str, Dataset]
    ledger: dict[str, Any]


ProgressCallback = Callable[[str, int, int], None]
"""Called with the current step, the amount done and the total (0 = unknown): ``progress("reading", 3, 10)``."""


@slot
class Data(ABC):
    """A data source. ``declare`` opens no file; ``open`` reads the data."""

    hints: ClassVar[Mapping[str, str]] = {}
    """For optional fields: which option adds them (see ``Info``)."""

    def __init__(self):
        pass

    @abstractmethod
    def declare(self) -> Info:
        """Fields with upper bounds of their sizes: what ``weft check`` builds on."""

    def check_files(self) -> None:
        """Raise ValueError for a file that does not match the options. ``weft check`` calls it; large files are read in part."""

    @abstractmethod
    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        """Read the data.

        Args:
            codec: Vocabularies and classes of an existing run; None = learn them from the training split.
            tokenizers: Trained tokenizers by id space to reuse when there is no codec, so that ids keep their meaning.
            splits: The splits to open; empty = all.
            progress: Called with the progress.
        """

    @abstractmethod
    def tokenizers(self) -> dict[str, Tokenizer]:
        """Untrained tokenizers by id space, to be loaded from a run folder."""

    def parts(self) -> tuple[str, ...]:
        """Names of the parts of its splits that are evaluated separately: the sources of a mixture. Empty = a single source."""
        return ()

    def training_key(self) -> Any:
        """What the training texts depend on, as a JSON value, to cache a tokenizer trained on them; None = it is not cached."""
        return None

    def training_texts(self, folder: Path, progress: ProgressCallback | None = None) -> dict[str, Iterable[str]]:
        """The texts of the training split by id space, on which sources of one id space train a common tokenizer.

        Args:
            folder: An empty folder for temporary files, which exists as long as the texts are read.
            progress: Called with the progress.
        """
        corpus = self.open(splits=("train",), progress=progress)
        split, info = corpus.splits["train"], corpus.codec.info
        spaces = {f.space: [g.name for g in info.tokenized() if g.space == f.space] for f in info.tokenized()}
        return {space: _Cells(split, names) for space, names in spaces.items()}


class _Cells:
    """The texts of some fields of a dataset; may be iterated over several times."""

    def __init__(self, dataset: Dataset, names: Sequence[str]):
        self.dataset, self.names = dataset, names

    def __iter__(self) -> Iterator[str]:
        for row in range(len(self.dataset)):
            cells = self.dataset.raw(row)
            for name in self.names:
                yield from cells[name].split("\t")
