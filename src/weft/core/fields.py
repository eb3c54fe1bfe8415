"""Fields: what the data declares about each column, and ``Info``, the declaration of a whole dataset."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import Any

import numpy as np

from weft.core.example import Example, MarkedIds, Sequences, Targets, _join, surround


@dataclass(frozen=True)
class Special:
    """Ids with a meaning of their own, equal in all vocabularies that weft makes."""

    pad: int = 0
    bos: int = 1
    eos: int = 2
    unk: int = 3
    mask: int = 4
    cls: int = 5
    sep: int = 6

    NAMES = ("<pad>", "<bos>", "<eos>", "<unk>", "<mask>", "<cls>", "<sep>")


@dataclass(frozen=True)
class Frame:
    """Ids around what is read as one sequence: ``first`` text ``last``, or ``first`` text ``between`` text ``last``.

    Args:
        first: Before the first text.
        between: Between two texts.
        last: After the last text.
        segments: Whether a second text is told apart by the mark ``segment`` (0, and 1 for it and what follows it).
    """

    first: tuple[int, ...] = ()
    between: tuple[int, ...] = (Special.sep,)
    last: tuple[int, ...] = (Special.eos,)
    segments: bool = False

    def around(self, texts: Sequence[np.ndarray | MarkedIds]) -> np.ndarray | MarkedIds:
        """The texts as one sequence."""
        parts = [surround(self.first if i == 0 else (), text, self.between) for i, text in enumerate(texts[:-1])]
        parts.append(surround(() if parts else self.first, texts[-1], self.last))
        if not self.segments or len(parts) == 1:
            return reduce(_join, parts)
        segment = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        whole = reduce(_join, parts)
        marks = whole.marks if isinstance(whole, MarkedIds) else {}
        return MarkedIds(whole.ids if isinstance(whole, MarkedIds) else whole, {**marks, "segment": segment})


@dataclass(frozen=True)
class Field:
    """One column of the data as a network sees it.

    Args:
        name: ``text``, ``source``, ``target``, ``label``, ...
        vocab: Number of ids (for labels and tags: of classes; for a span: 2, its begin and its end; for a vector: its width; for
            an image: its channels).
        kind: ``text``; ``texts`` (several in a row); ``label`` (a class), ``labels`` (a set of classes), ``tags`` (a class for
            each word of the text that ``space`` names), ``span`` (first and last token of an answer in the text that ``space``
            names, or none), ``number``; ``vector``; or ``image`` (channels x height x width).
        length: Longest text in tokens, as far as it is known; for an image, its height and its width in pixels.
        space: Name of the id space; fields of one space share a tokenizer, so an embedder may be shared.
        special: Ids with a meaning of their own.
        labels: The classes' names, for labels and tags.
        words: Whether the text is given as words with spaces between them, each of which may have a tag; without tags, each token
            says which word it is of (the mark ``word``, counted from 1; 0 for what stands around the text).
        most_words: Most words of such a text; 0 = as many as ``length`` has place for.
        letters: Where words are also spelled (the mark ``letters``): ids of characters are below this number; 0 = they are not.
        frame: Ids around a text that is read.
        pieces: Which ids go on with the word before them, packed (see ``continues``); empty = every id begins one.
        stops: Ids that end a sentence.
        spare: So many ids at the end of the vocabulary stand in no text: objectives use them as marks (sentinels).
        ends: Ids that end a text which is written, besides the end mark of ``special``: published models may have several.
        start: What a decoder that looks at an encoded text is given first, where a published model has said so; -1 = the begin
            mark.
    """

    name: str
    vocab: int
    kind: str = "text"
    max_length: int = 512
    space: str = "text"
    special: Special = Special()
    labels: tuple[str, ...] = ()
    words: bool = False
    max_words: int = 0
    characters: int = 0
    frame: Frame = Frame()
    continuations: str = ""
    sentence_ends: tuple[int, ...] = ()
    sentinel_count: int = 0
    extra_eos: tuple[int, ...] = ()
    decoder_start: int = -1

    def decoder_prefix(self) -> tuple[int, ...]:
        """What stands before a text that is written from another one: the begin mark; or the published start and then what the
        frame has before a text, which is written too (BART: ``</s> <s> text``)."""
        return (self.special.bos,) if self.decoder_start < 0 else (self.decoder_start, *self.frame.first)

    def eos_ids(self) -> list[int]:
        """All ids that end a text which is written, the end mark first."""
        return [i for i in dict.fromkeys((self.special.eos, *self.extra_eos)) if 0 <= i < self.vocab]

    def reserved_ids(self) -> np.ndarray:
        """The ids that are no part of any text: special ones, those of the frame, spare ones."""
        named = {value for value in vars(self.special).values() if value >= 0}
        named |= {*self.frame.first, *self.frame.between, *self.frame.last, *range(self.vocab - self.sentinel_count, self.vocab)}
        return np.array(sorted(named), np.int64)

    def ordinary_ids(self) -> np.ndarray:
        """All other ids."""
        return _ordinary(self)

    def is_reserved(self) -> np.ndarray:
        """For each id, whether it is reserved."""
        return _is_reserved(self)

    def continues(self) -> np.ndarray:
        """For each id, whether it goes on with the word before it."""
        return _continues(self.continuations, self.vocab)


@cache
def _is_reserved(field: Field) -> np.ndarray:
    found = np.zeros(field.vocab, bool)
    found[field.reserved_ids()] = True
    return found


@cache
def _ordinary(field: Field) -> np.ndarray:
    return np.flatnonzero(~field.is_reserved())


@cache
def _continues(pieces: str, vocab: int) -> np.ndarray:
    found = np.zeros(vocab, bool)
    known = np.unpackbits(np.frombuffer(base64.b64decode(pieces), np.uint8))[:vocab]
    found[: len(known)] = known
    return found


def pack_pieces(continues: Sequence[bool]) -> str:
    """What ``Field.continuations`` holds: a bit for each id."""
    return base64.b64encode(np.packbits(np.asarray(continues, bool)).tobytes()).decode() if any(continues) else ""


@dataclass(frozen=True)
class Info:
    """What the data tells structure and objective: its fields, and which of them is to be generated.

    ``hints`` says of fields that are not there how the data would give them.
    """

    fields: dict[str, Field]
    target: str = "text"
    data: str = "data"
    hints: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __getitem__(self, name: str) -> Field:
        if name not in self.fields:
            raise ValueError(
                f"needs a field {name!r}, but the data ({self.data}) gives: {', '.join(self.fields)}{self.hint(name)}"
            )
        return self.fields[name]

    def hint(self, name: str) -> str:
        """How the data would give a field that is not there, as the end of a message; nothing where it cannot."""
        return f"; to have it, {self.hints[name]}" if name in self.hints else ""

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def single_text(self, name: str) -> Info:
        """One text as if there were no other, under the name ``text``, and the label: for a network inside another."""
        label = {"label": self.fields["label"]} if "label" in self.fields else {}
        return Info({"text": replace(self[name], name="text"), **label}, "text", self.data, self.hints)

    def texts(self) -> list[Field]:
        return [f for f in self.fields.values() if f.kind == "text"]

    def tokenized(self) -> list[Field]:
        """All fields that a tokenizer encodes: those of one text a row, and those of several."""
        return [f for f in self.fields.values() if f.kind in ("text", "texts")]

    def images(self) -> list[Field]:
        return [f for f in self.fields.values() if f.kind == "image"]

    def inputs(self) -> list[Field]:
        """What an answer is about: an image, in data without texts; else the texts (``given``)."""
        return self.images()[:1] if self.images() and not self.texts() else self.input_texts()

    def input_texts(self) -> list[Field]:
        """The texts that an answer is about: ``text``; or ``source``, where a label is to be predicted and ``target`` is another
        answer; or all there are, which then must be of one id space."""
        alone = "text" if "text" in self.fields else "source" if "label" in self.fields and "target" in self.fields else ""
        found = [self.fields[alone]] if alone in self.fields else self.texts()
        if len({f.space for f in found}) != 1:
            raise ValueError(f"needs texts of one id space, but the data ({self.data}) gives: {', '.join(self.fields)}")
        return found

    def lengths(self, example: Example) -> dict[str, int]:
        """What a dataset says of an example's lengths: the tokens of each text; of several, all tokens and how many they are."""
        found: dict[str, int] = {}
        for f in self.tokenized():
            value = example[f.name]
            found[f.name] = value.tokens if isinstance(value, Sequences) else len(value)
            if isinstance(value, Sequences):
                found[f"{f.name}/sizes"] = len(value)
        return found

    def synthetic_example(self, rng: np.random.Generator, length: int | None = None) -> dict[str, Any]:
        """A made-up example of these fields: what ``weft check`` and the catalog's tests run on."""
        example: dict[str, Any] = {}
        places = {f.name: max(1, length or min(f.max_length, 32)) for f in self.texts()}
        several = [f.name for f in self.tokenized() if f.kind == "texts"]
        number = int(rng.integers(2, 5)) if several else 0
        for f in self.fields.values():
            if f.kind == "label":  # of several texts, one of them
                example[f.name] = int(rng.integers(min(f.vocab, number or f.vocab)))
            elif f.kind == "labels":
                example[f.name] = rng.integers(0, 2, f.vocab).astype(np.float32)
            elif f.kind == "tags":
                example[f.name] = Targets(f.space, np.arange(places[f.space]), rng.integers(0, f.vocab, places[f.space]))
            elif f.kind == "span":
                first = int(rng.integers(places[f.space]))
                last = int(rng.integers(first, places[f.space]))
                example[f.name] = np.array([first, last] if rng.random() < 0.8 else [], np.int64)
            elif f.kind == "number":
                example[f.name] = float(rng.normal())
            elif f.kind == "vector":
                example[f.name] = rng.normal(size=f.vocab).astype(np.float32)
            elif f.kind == "texts":
                most = max(1, length or min(f.max_length, 32))
                sizes = rng.integers(1, most + 1, number).tolist()
                example[f.name] = Sequences(tuple(_imagined(f, rng, size) for size in sizes))
            elif f.kind == "image":
                example[f.name] = rng.normal(size=(f.vocab, f.max_length, f.max_length)).astype(np.float32)
            else:
                example[f.name] = _imagined(f, rng, places[f.name], self.marks_words(f))
        return example

    def marks_words(self, field: Field) -> bool:
        """Whether each token of a text says which word it is of: it is given as words, and no tags say where these are."""
        return field.words and not any(other.kind == "tags" and other.space == field.name for other in self.fields.values())


def _imagined(field: Field, rng: np.random.Generator, size: int, marks_words: bool = False) -> np.ndarray | MarkedIds:
    first = min(len(Special.NAMES), field.vocab - 1)
    ids = rng.integers(first, field.vocab - field.sentinel_count, size)
    marks = {"letters": rng.integers(1, field.characters, (len(ids), 5))} if field.characters else {}
    marks |= {"word": 1 + np.arange(size) // 4} if marks_words else {}
    return MarkedIds(ids, marks) if marks else ids
