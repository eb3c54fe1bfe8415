"""Fields: what the data declares about each column, and ``Info``, the declaration of a dataset."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from weft.core.example import Example, MarkedIds, Sequences, Targets, _join, surround

_KNOWN_FIELDS = 8
"""Fields whose arrays over the vocabulary are kept; each may take gigabytes."""


@dataclass(frozen=True)
class Special:
    """Ids of the special tokens, the same in all vocabularies that weft learns."""

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
    """Special tokens around an encoded text or pair: ``first`` text ``last``, or ``first`` text ``between`` text ``last``.

    Args:
        first: Before the first text.
        between: Between two texts.
        last: After the last text.
        segments: Whether tokens carry the mark ``segment``: 0 in the first text, 1 in the second.
        single: A published template of one text where it has another form: pairs of an id, or ``FIRST`` for the text, and the
            segment. Empty = ``first`` text ``last``.
        pair: A published template of two texts, with ``SECOND`` for the second one; empty = as above.
    """

    FIRST = -1
    SECOND = -2

    first: tuple[int, ...] = ()
    between: tuple[int, ...] = (Special.sep,)
    last: tuple[int, ...] = (Special.eos,)
    segments: bool = False
    single: tuple[tuple[int, int], ...] = ()
    pair: tuple[tuple[int, int], ...] = ()

    def template(self, texts: int) -> tuple[tuple[int, int], ...]:
        """The published template of one text or of two; empty where they have the usual form."""
        return self.single if texts == 1 else self.pair if texts == 2 else ()

    def size(self, texts: int) -> int:
        """Number of special tokens around this many texts."""
        if template := self.template(texts):
            return sum(id_ >= 0 for id_, _ in template)
        return len(self.first) + len(self.between) * (texts - 1) + len(self.last)

    def start(self, lengths: Sequence[int], index: int) -> int:
        """Position at which text ``index`` starts, from the lengths of all texts."""
        if template := self.template(len(lengths)):
            before = itertools.takewhile(lambda part: part[0] != self.FIRST - index, template)
            return sum(1 if id_ >= 0 else lengths[self.FIRST - id_] for id_, _ in before)
        return len(self.first) + sum(lengths[:index]) + index * len(self.between)

    def ids(self) -> set[int]:
        """All special tokens."""
        templates = (id_ for id_, _ in (*self.single, *self.pair) if id_ >= 0)
        return {*self.first, *self.between, *self.last, *templates}

    def with_bos(self, bos: int) -> Frame:
        """The frame with a BOS token at its start."""
        single, pair = (((bos, 0), *template) if template else () for template in (self.single, self.pair))
        return replace(self, first=(bos, *self.first), single=single, pair=pair)

    def around(self, texts: Sequence[np.ndarray | MarkedIds]) -> np.ndarray | MarkedIds:
        """The texts as one sequence with special tokens."""
        if template := self.template(len(texts)):
            return self._filled(template, texts)
        parts = [surround(self.first if i == 0 else (), text, self.between) for i, text in enumerate(texts[:-1])]
        parts.append(surround(() if parts else self.first, texts[-1], self.last))
        if not self.segments or len(parts) == 1:
            return reduce(_join, parts)
        segment = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return _with_segments(reduce(_join, parts), segment)

    def _filled(self, template: Sequence[tuple[int, int]], texts: Sequence[np.ndarray | MarkedIds]) -> np.ndarray | MarkedIds:
        """The template with the texts in it. Special tokens belong to the text before or after them, for their marks."""
        parts: list[np.ndarray | MarkedIds] = []
        waiting: list[int] = []
        for id_, _ in template:
            if id_ < 0:
                parts.append(surround(waiting, texts[self.FIRST - id_], ()))
                waiting = []
            elif parts:
                parts[-1] = surround((), parts[-1], (id_,))
            else:
                waiting.append(id_)
        sizes = [1 if id_ >= 0 else len(texts[self.FIRST - id_]) for id_, _ in template]
        segment = np.repeat([of for _, of in template], sizes)
        whole = reduce(_join, parts)
        return _with_segments(whole, segment) if any(of for _, of in template) else whole


def _with_segments(whole: np.ndarray | MarkedIds, segment: np.ndarray) -> MarkedIds:
    marks = whole.marks if isinstance(whole, MarkedIds) else {}
    return MarkedIds(whole.ids if isinstance(whole, MarkedIds) else whole, {**marks, "segment": segment})


@dataclass(frozen=True)
class Field:
    """One column of the data as a network sees it.

    Args:
        name: ``text``, ``source``, ``target``, ``label``, ...
        vocab: Number of ids (for labels and tags: of classes; for a span: 2, start and end; for a vector: its size; for
            an image: its channels).
        kind: ``text``; ``texts`` (several per example); ``label`` (a class), ``labels`` (a set of classes), ``tags`` (a
            class for each word of the text named by ``space``), ``span`` (first and last token of an answer in the text named
            by ``space``, or none), ``number``; ``vector``; or ``image`` (channels x height x width).
        max_length: Upper bound of the text length in tokens; for an image, its height and width in pixels.
        space: Name of the id space; fields of one space share a tokenizer, so an embedder may be shared.
        special: Ids of the special tokens.
        labels: Class names, for labels and tags.
        words: Whether the text is split into words by spaces, each of which may have a tag; without tags, each token carries the
            index of its word (the mark ``word``, from 1; 0 for special tokens).
        max_words: Upper bound of the number of words of such a text; 0 = bounded by ``max_length`` alone.
        characters: Number of character ids where words carry their characters (the mark ``characters``); 0 = they do not.
        frame: Special tokens around an encoded text.
        continuations: Which ids continue the previous word, packed (see ``continues``); empty = every id begins a word.
        sentence_ends: Ids that end a sentence.
        sentinel_count: Number of ids at the end of the vocabulary that occur in no text and serve as sentinels.
        extra_eos: Ids that end a generated text besides EOS; published models may have several.
        decoder_start: First input id of a decoder with an encoder, where a published model declares one; -1 = BOS.
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


@lru_cache(_KNOWN_FIELDS)
def _is_reserved(field: Field) -> np.ndarray:
    found = np.zeros(field.vocab, bool)
    found[field.reserved_ids()] = True
    return found


@lru_cache(_KNOWN_FIELDS)
def _ordinary(field: Field) -> np.ndarray:
    return np.flatnonzero(~field.is_reserved())


@lru_cache(_KNOWN_FIELDS)
def _continues(pieces: str, vocab: int) -> np.ndarray:
    found = np.zeros(vocab, bool)
    known = np.unpackbits(np.frombuffer(base64.b64decode(pieces), np.uint8))[:vocab]
    found[: len(known)] = known
    return found


def pack_continuations(continues: Sequence[bool]) -> str:
    """What ``Field.continuations`` holds: a bit for each id."""
    return base64.b64encode(np.packbits(np.asarray(continues, bool)).tobytes()).decode() if any(continues) else ""


@dataclass(frozen=True)
class Info:
    """The declaration of a dataset for structure and objective: its fields, and which of them is generated.

    ``hints`` maps an absent field to the option that would add it.
    """

    fields: dict[str, Field]
    target: str = "text"
    data: str = "data"
    hints: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __getitem__(self, name: str) -> Field:
        if name not in self.fields:
            raise ValueError(f"needs a field {name!r}, but the data ({self.data}) has: {', '.join(self.fields)}{self.hint(name)}")
        return self.fields[name]

    def expect(self, name: str, kind: str, advice: str) -> Field:
        """Return the field of this name; raise ValueError with ``advice`` on what to do if it is of another kind."""
        field = self[name]
        if field.kind != kind:
            raise ValueError(f"field {name!r} of the data ({self.data}) has the kind {field.kind!r}, expected {kind!r}; {advice}")
        return field

    def hint(self, name: str) -> str:
        """How to add an absent field, as the end of a message; empty where it cannot be added."""
        return f"; to add it, {self.hints[name]}" if name in self.hints else ""

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def single_text(self, name: str) -> Info:
        """One text under the name ``text``, and the label: the declaration for a structure inside another."""
        label = {"label": self.fields["label"]} if "label" in self.fields else {}
        return Info({"text": replace(self[name], name="text"), **label}, "text", self.data, self.hints)

    def texts(self) -> list[Field]:
        """Fields of kind ``text``."""
        return [f for f in self.fields.values() if f.kind == "text"]

    def tokenized(self) -> list[Field]:
        """Fields that a tokenizer encodes: ``text`` and ``texts``."""
        return [f for f in self.fields.values() if f.kind in ("text", "texts")]

    def images(self) -> list[Field]:
        """Fields of kind ``image``."""
        return [f for f in self.fields.values() if f.kind == "image"]

    def inputs(self) -> list[Field]:
        """The input fields: an image, in data without texts; else ``input_texts``."""
        return self.images()[:1] if self.images() and not self.texts() else self.input_texts()

    def input_texts(self) -> list[Field]:
        """The input texts: ``text``; or ``source``, in data with a label and a ``target``; or all texts, which must share an id
        space."""
        single = "text" if "text" in self.fields else "source" if "label" in self.fields and "target" in self.fields else ""
        found = [self.fields[single]] if single in self.fields else self.texts()
        if len({f.space for f in found}) != 1:
            raise ValueError(f"needs texts of one id space, but the data ({self.data}) has: {', '.join(self.fields)}")
        return found

    def lengths(self, example: Example) -> dict[str, int]:
        """Lengths of an example: tokens of each text; for ``texts``, the total and the number of texts."""
        found: dict[str, int] = {}
        for f in self.tokenized():
            value = example[f.name]
            found[f.name] = value.tokens if isinstance(value, Sequences) else len(value)
            if isinstance(value, Sequences):
                found[f"{f.name}/sizes"] = len(value)
        return found

    def synthetic_example(self, rng: np.random.Generator, length: int | None = None) -> dict[str, Any]:
        """A random example of these fields: what ``weft check`` and the catalog tests run on.

        Args:
            rng: The random generator.
            length: Tokens of each text; None = ``max_length`` of the field, at most 32.
        """
        sizes = {f.name: max(1, length or min(f.max_length, 32)) for f in self.tokenized()}
        choices = int(rng.integers(2, 5)) if any(f.kind == "texts" for f in self.fields.values()) else 0
        example: dict[str, Any] = {}
        for f in self.fields.values():
            if f.kind == "text":
                example[f.name] = _synthetic_text(f, rng, sizes[f.name], self.marks_words(f))
            elif f.kind == "texts":
                lengths = rng.integers(1, sizes[f.name] + 1, choices).tolist()
                example[f.name] = Sequences(tuple(_synthetic_text(f, rng, size) for size in lengths))
            elif f.kind in ("tags", "span"):
                example[f.name] = _synthetic_annotation(f, rng, sizes[f.space])
            else:
                example[f.name] = _synthetic_value(f, rng, choices)
        return example

    def marks_words(self, field: Field) -> bool:
        """Whether tokens carry the index of their word: the text is split into words, and no tags locate them."""
        return field.words and not any(other.kind == "tags" and other.space == field.name for other in self.fields.values())


def _synthetic_text(field: Field, rng: np.random.Generator, size: int, marks_words: bool = False) -> np.ndarray | MarkedIds:
    first = min(len(Special.NAMES), field.vocab - 1)
    ids = rng.integers(first, field.vocab - field.sentinel_count, size)
    marks = {"characters": rng.integers(1, field.characters, (len(ids), 5))} if field.characters else {}
    marks |= {"word": 1 + np.arange(size) // 4} if marks_words else {}
    return MarkedIds(ids, marks) if marks else ids


def _synthetic_annotation(field: Field, rng: np.random.Generator, size: int) -> Targets | np.ndarray:
    """Tags or a span of a text of ``size`` tokens."""
    if field.kind == "tags":
        return Targets(field.space, np.arange(size), rng.integers(0, field.vocab, size))
    first = int(rng.integers(size))
    last = int(rng.integers(first, size))
    return np.array([first, last] if rng.random() < 0.8 else [], np.int64)


def _synthetic_value(field: Field, rng: np.random.Generator, choices: int) -> Any:
    """A label (with ``choices`` > 0: the index of a choice), a set of labels, a number, a vector or an image."""
    if field.kind == "label":
        return int(rng.integers(min(field.vocab, choices or field.vocab)))
    if field.kind == "labels":
        return rng.integers(0, 2, field.vocab).astype(np.float32)
    if field.kind == "number":
        return float(rng.normal())
    shape = (field.vocab, field.max_length, field.max_length) if field.kind == "image" else (field.vocab,)
    return rng.normal(size=shape).astype(np.float32)
