"""What texts have in common, one or several per example: ids of a vocabulary."""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from weft.core.example import MarkedIds
from weft.core.fields.base import Columns, Field, StoredColumn, Values, integers, require_positive
from weft.core.fields.frame import Frame, Special

if TYPE_CHECKING:
    from weft.core.contracts import Tokenizer
    from weft.core.fields.info import Info

CHARACTERS_PER_TOKEN, MIN_TOKENS = 64, 1024
"""A text is cut to 64 characters for each token of its maximum length, and to no less than 65,536, before it is tokenized: the
tokenizer needs about 100 bytes for each character, most of them for tokens that would then be removed."""
_SPECIAL, _FRAME = Special(), Frame()
_KNOWN_FIELDS = 8
"""Fields whose arrays over the vocabulary are kept; each may take gigabytes."""


@dataclass(frozen=True)
class TokenizedField(Field):
    """Ids of a vocabulary: ``TextField`` or ``TextsField``.

    Args:
        name: ``text``, ``source``, ``target``, ...
        vocab: Number of ids.
        max_length: Upper bound of the length of a text in tokens.
        space: Name of the id space; fields of one space share a tokenizer, so an embedder may be shared.
        special: Ids of the special tokens.
        characters: Number of character ids where words carry their characters (the mark ``characters``); 0 = they do not.
        frame: Special tokens around an encoded text.
        continuations: Which ids continue the previous word, packed (see ``continues``); empty = every id begins a word.
        sentence_ends: Ids that end a sentence.
        sentinel_count: Number of ids at the end of the vocabulary that occur in no text and serve as sentinels.
        extra_eos: Ids that end a generated text besides EOS; published models may have several.
        decoder_start: First input id of a decoder with an encoder, where a published model declares one; -1 = BOS.
    """

    is_input: ClassVar[bool] = True

    vocab: int
    max_length: int = 512
    space: str = "text"
    special: Special = _SPECIAL
    characters: int = 0
    frame: Frame = _FRAME
    continuations: str = ""
    sentence_ends: tuple[int, ...] = ()
    sentinel_count: int = 0
    extra_eos: tuple[int, ...] = ()
    decoder_start: int = -1

    def __post_init__(self):
        require_positive(self, "vocab", "max_length")

    @property
    def outputs(self) -> int:
        return self.vocab

    @property
    def positions(self) -> int:
        return self.max_length + len(Special.NAMES)

    # --------------------------------------------------------------------------------------------------------- ids

    def decoder_prefix(self) -> tuple[int, ...]:
        """The first decoder inputs: BOS; or the published start id, then the frame's first ids, which are generated too (BART:
        ``</s> <s> text``)."""
        return (self.special.bos,) if self.decoder_start < 0 else (self.decoder_start, *self.frame.first)

    def eos_ids(self) -> list[int]:
        """All ids that end a generated text, EOS first."""
        return [i for i in dict.fromkeys((self.special.eos, *self.extra_eos)) if 0 <= i < self.vocab]

    def reserved_ids(self) -> np.ndarray:
        """Ids that are not part of any text: special tokens, those of the frame, sentinels."""
        named = {value for value in vars(self.special).values() if value >= 0}
        named |= {*self.frame.ids(), *range(self.vocab - self.sentinel_count, self.vocab)}
        return np.array(sorted(named), np.int64)

    def ordinary_ids(self) -> np.ndarray:
        """All other ids."""
        return _ordinary(self)

    def is_reserved(self) -> np.ndarray:
        """For each id, whether it is reserved."""
        return _is_reserved(self)

    def continues(self) -> np.ndarray:
        """For each id, whether it continues the previous word."""
        return _continues(self.continuations, self.vocab)

    # ----------------------------------------------------------------------------------------------- examples, cells

    def synthetic_text(self, rng: np.random.Generator, size: int, marks_words: bool = False) -> np.ndarray | MarkedIds:
        """A random text of ``size`` tokens."""
        first = min(len(Special.NAMES), self.vocab - 1)
        ids = rng.integers(first, self.vocab - self.sentinel_count, size)
        marks = {"characters": rng.integers(1, self.characters, (len(ids), 5))} if self.characters else {}
        marks |= {"word": 1 + np.arange(size) // 4} if marks_words else {}
        return MarkedIds(ids, marks) if marks else ids

    def parts(self, cell: str) -> list[str]:
        """The texts in a cell."""
        return [cell]

    def cut_cell(self, cell: str) -> str:
        """The cell with ``cut_text`` of each text."""
        return "\t".join(cut_text(part, self.max_length) for part in self.parts(cell))

    def character_ids(self, tokenizer: Tokenizer, parts: Sequence[str], unknown: list[list[int]]) -> list[int]:
        """The character ids of each token, terminated by 0; of a part without tokens, ``unknown``."""
        return [char for part in parts for chars in tokenizer.spell(part) or unknown for char in (*chars, 0)]

    def id_column(self) -> StoredColumn:
        """The column of its ids, and that of its characters."""
        return StoredColumn(integers(max(self.vocab, self.characters)), counted=True)

    def character_columns(self) -> dict[str, StoredColumn]:
        """The column of its characters, where tokens have them."""
        found = {f"{self.name}/characters": self.id_column()._replace(counted=False)}
        return found if self.characters else {}

    def with_characters(self, ids: np.ndarray, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The marks of ids: their characters, where tokens have them."""
        return {"characters": _character_matrix(values[f"{self.name}/characters"], len(ids))} if self.characters else {}

    # ------------------------------------------------------------------------------------------------ texts too long

    @abstractmethod
    def token_counts(self, columns: Columns) -> np.ndarray:
        """Number of tokens of each text of the columns of rows."""

    @abstractmethod
    def longest(self, values: Values) -> int:
        """Number of tokens of a row's text, or of the longest of its texts."""

    @abstractmethod
    def truncate(self, info: Info, values: Values) -> tuple[Values, int]:
        """What changes in a row where its texts are truncated to the maximum length, and the number of tokens removed."""


@lru_cache(_KNOWN_FIELDS)
def _is_reserved(field: TokenizedField) -> np.ndarray:
    found = np.zeros(field.vocab, bool)
    found[field.reserved_ids()] = True
    return found


@lru_cache(_KNOWN_FIELDS)
def _ordinary(field: TokenizedField) -> np.ndarray:
    return np.flatnonzero(~field.is_reserved())


@lru_cache(_KNOWN_FIELDS)
def _continues(pieces: str, vocab: int) -> np.ndarray:
    found = np.zeros(vocab, bool)
    known = np.unpackbits(np.frombuffer(base64.b64decode(pieces), np.uint8))[:vocab]
    found[: len(known)] = known
    return found


def pack_continuations(continues: Sequence[bool]) -> str:
    """What ``TokenizedField.continuations`` holds: a bit for each id."""
    return base64.b64encode(np.packbits(np.asarray(continues, bool)).tobytes()).decode() if any(continues) else ""


def cut_text(text: str, max_length: int) -> str:
    """Return the part of a text that can have the first ``max_length`` tokens; see ``CHARACTERS_PER_TOKEN``.

    >>> len(cut_text("a" * 100_000, 512)), len(cut_text("a" * 100_000, 2048))
    (65536, 100000)
    """
    return text[: max(max_length, MIN_TOKENS) * CHARACTERS_PER_TOKEN]


def _character_matrix(characters: np.ndarray, tokens: int) -> np.ndarray:
    """The characters of each token, terminated by 0, as a matrix padded with 0."""
    ends = np.flatnonzero(characters == 0)
    sizes = np.diff(ends, prepend=-1) - 1
    matrix = np.zeros((tokens, max(1, int(sizes.max(initial=0)))), np.int64)
    real = np.arange(matrix.shape[1])[None] < sizes[:, None]
    matrix[real] = characters[characters != 0]
    return matrix
