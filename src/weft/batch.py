"""The currency between data, objective and learning: fields, instances, batches, losses.

N gathered rows; other suffixes as in seq.py.
"""

from __future__ import annotations

import base64
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.seq import Seq

Example = Mapping[str, Any]
"""One clean row of a dataset: ids (1-D integer arrays) of text fields, ``Several`` of them, an int for a label, two ints or none
for a span, C x H x W numbers for an image."""


PLACES = tuple(string.ascii_uppercase)
"""The classes where the label is one of a row's own texts: A is the first, whatever a file calls it."""


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

    def around(self, texts: Sequence[np.ndarray | Marked]) -> np.ndarray | Marked:
        """The texts as one sequence."""
        parts = [between(self.first if i == 0 else (), text, self.between) for i, text in enumerate(texts[:-1])]
        parts.append(between(() if parts else self.first, texts[-1], self.last))
        if not self.segments or len(parts) == 1:
            return reduce(_join, parts)
        segment = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        whole = reduce(_join, parts)
        marks = whole.marks if isinstance(whole, Marked) else {}
        return Marked(whole.ids if isinstance(whole, Marked) else whole, {**marks, "segment": segment})


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
    length: int = 512
    space: str = "text"
    special: Special = Special()
    labels: tuple[str, ...] = ()
    words: bool = False
    most_words: int = 0
    letters: int = 0
    frame: Frame = Frame()
    pieces: str = ""
    stops: tuple[int, ...] = ()
    spare: int = 0
    ends: tuple[int, ...] = ()
    start: int = -1

    def opening(self) -> tuple[int, ...]:
        """What stands before a text that is written from another one: the begin mark; or the published start and then what the
        frame has before a text, which is written too (BART: ``</s> <s> text``)."""
        return (self.special.bos,) if self.start < 0 else (self.start, *self.frame.first)

    def endings(self) -> list[int]:
        """All ids that end a text which is written, the end mark first."""
        return [i for i in dict.fromkeys((self.special.eos, *self.ends)) if 0 <= i < self.vocab]

    def reserved(self) -> np.ndarray:
        """The ids that are no part of any text: special ones, those of the frame, spare ones."""
        named = {value for value in vars(self.special).values() if value >= 0}
        named |= {*self.frame.first, *self.frame.between, *self.frame.last, *range(self.vocab - self.spare, self.vocab)}
        return np.array(sorted(named), np.int64)

    def ordinary(self) -> np.ndarray:
        """All other ids."""
        return _ordinary(self)

    def is_reserved(self) -> np.ndarray:
        """For each id, whether it is reserved."""
        return _is_reserved(self)

    def continues(self) -> np.ndarray:
        """For each id, whether it goes on with the word before it."""
        return _continues(self.pieces, self.vocab)


@cache
def _is_reserved(field: Field) -> np.ndarray:
    found = np.zeros(field.vocab, bool)
    found[field.reserved()] = True
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
    """What ``Field.pieces`` holds: a bit for each id."""
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

    def alone(self, name: str) -> Info:
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

    def about(self) -> list[Field]:
        """What an answer is about: an image, in data without texts; else the texts (``given``)."""
        return self.images()[:1] if self.images() and not self.texts() else self.given()

    def given(self) -> list[Field]:
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
            found[f.name] = value.tokens if isinstance(value, Several) else len(value)
            if isinstance(value, Several):
                found[f"{f.name}/sizes"] = len(value)
        return found

    def imagine(self, rng: np.random.Generator, length: int | None = None) -> dict[str, Any]:
        """A made-up example of these fields: what ``weft check`` and the catalog's tests run on."""
        example: dict[str, Any] = {}
        places = {f.name: max(1, length or min(f.length, 32)) for f in self.texts()}
        several = [f.name for f in self.tokenized() if f.kind == "texts"]
        number = int(rng.integers(2, 5)) if several else 0
        for f in self.fields.values():
            if f.kind == "label":  # of several texts, one of them
                example[f.name] = int(rng.integers(min(f.vocab, number or f.vocab)))
            elif f.kind == "labels":
                example[f.name] = rng.integers(0, 2, f.vocab).astype(np.float32)
            elif f.kind == "tags":
                example[f.name] = Picks(f.space, np.arange(places[f.space]), rng.integers(0, f.vocab, places[f.space]))
            elif f.kind == "span":
                first = int(rng.integers(places[f.space]))
                last = int(rng.integers(first, places[f.space]))
                example[f.name] = np.array([first, last] if rng.random() < 0.8 else [], np.int64)
            elif f.kind == "number":
                example[f.name] = float(rng.normal())
            elif f.kind == "vector":
                example[f.name] = rng.normal(size=f.vocab).astype(np.float32)
            elif f.kind == "texts":
                most = max(1, length or min(f.length, 32))
                sizes = rng.integers(1, most + 1, number).tolist()
                example[f.name] = Several(tuple(_imagined(f, rng, size) for size in sizes))
            elif f.kind == "image":
                example[f.name] = rng.normal(size=(f.vocab, f.length, f.length)).astype(np.float32)
            else:
                example[f.name] = _imagined(f, rng, places[f.name], self.says_words(f))
        return example

    def says_words(self, field: Field) -> bool:
        """Whether each token of a text says which word it is of: it is given as words, and no tags say where these are."""
        return field.words and not any(other.kind == "tags" and other.space == field.name for other in self.fields.values())


def _imagined(field: Field, rng: np.random.Generator, size: int, says_words: bool = False) -> np.ndarray | Marked:
    first = min(len(Special.NAMES), field.vocab - 1)
    ids = rng.integers(first, field.vocab - field.spare, size)
    marks = {"letters": rng.integers(1, field.letters, (len(ids), 5))} if field.letters else {}
    marks |= {"word": 1 + np.arange(size) // 4} if says_words else {}
    return Marked(ids, marks) if marks else ids


@dataclass(frozen=True)
class Marked:
    """Ids with annotations of each: the numbers of its letters, its segment. A mark is T or T x C, padded with 0.

    Args:
        ids: T ids.
        marks: By name.
    """

    ids: np.ndarray
    marks: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.ids)

    def between(self, first: Sequence[int], last: Sequence[int]) -> Marked:
        """With these ids before and after; their marks are 0."""
        around = (len(first), len(last))
        marks = {n: np.pad(m, [around] + [(0, 0)] * (m.ndim - 1)) for n, m in self.marks.items()}
        return Marked(np.concatenate([np.asarray(first, np.int64), self.ids, np.asarray(last, np.int64)]), marks)

    def __getitem__(self, part: slice) -> Marked:
        return Marked(self.ids[part], {name: mark[part] for name, mark in self.marks.items()})


def ids_of(text: np.ndarray | Marked) -> np.ndarray:
    """The ids of a text, without its marks."""
    return np.asarray(text.ids if isinstance(text, Marked) else text, np.int64)


def between(first: Sequence[int], ids: np.ndarray | Marked, last: Sequence[int]) -> np.ndarray | Marked:
    """A text with ids before and after it, such as the marks of its begin and end."""
    if isinstance(ids, Marked):
        return ids.between(first, last)
    return np.concatenate([np.asarray(first, np.int64), np.asarray(ids, np.int64), np.asarray(last, np.int64)])


def _join(one: np.ndarray | Marked, two: np.ndarray | Marked) -> np.ndarray | Marked:
    if not isinstance(one, Marked) or not isinstance(two, Marked):
        return np.concatenate([one, two])  # pyright: ignore[reportArgumentType, reportCallIssue]
    marks: dict[str, np.ndarray] = {}
    for name in one.marks:
        width = max(one.marks[name].shape[-1], two.marks[name].shape[-1])
        pads = [np.pad(m.marks[name], ((0, 0), (0, width - m.marks[name].shape[-1]))) for m in (one, two)]
        marks[name] = np.concatenate(pads)
    return Marked(np.concatenate([one.ids, two.ids]), marks)


@dataclass(frozen=True)
class Several:
    """Several sequences of one row: the choices of a question, the sentences of a report.

    Args:
        parts: The ids of each; all with the same marks, or none.
    """

    parts: tuple[np.ndarray | Marked, ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.parts)

    @property
    def tokens(self) -> int:
        """The ids of all together."""
        return sum(map(len, self.parts))


@dataclass(frozen=True)
class Picks:
    """Positions of a sequence with what is to be predicted there: the rows an objective will gather.

    Args:
        of: The name of the instance's sequence that ``at`` counts in.
        at: Positions in it.
        ids: What is to be predicted, one per position.
    """

    of: str
    at: np.ndarray
    ids: np.ndarray


@dataclass(frozen=True)
class Passage:
    """A part of a text, found as the answer to something: tokens ``first`` to ``last``.

    Args:
        of: The name of the text's field.
        first: Its first token, or -1 where nothing was found.
        last: Its last token.
        score: How sure the network is, compared with finding nothing.
    """

    of: str
    first: int = -1
    last: int = -1
    score: float = 0.0


@dataclass(frozen=True)
class Filled:
    """What was found to stand at the masks of a text.

    Args:
        of: The name of the text's field.
        ids: An id for each mask.
    """

    of: str
    ids: tuple[int, ...]


class Instance(dict[str, Any]):
    """A training instance made by ``Objective.prepare``: ``Instance(text=ids, label=1)``.

    Integer arrays and ``Marked`` ids become padded sequences, ``Several`` of them ``Ragged`` ones, ``Picks`` gathered rows, ints
    and floats one number per row, float arrays stacked tensors (those of three dimensions, which are images, as a ``Seq``), and
    an ``Instance`` inside becomes a batch inside.
    """


@dataclass(frozen=True)
class Picked:
    """Gathered rows of a batch: flat indices into (B*T) and the targets there."""

    index_N: Tensor
    target_N: Tensor

    def __len__(self) -> int:
        return self.index_N.shape[0]

    def gather(self, x: Seq) -> Tensor:
        """The N vectors at these rows."""
        return x.data.flatten(0, 1).index_select(0, self.index_N)

    def to(self, device: torch.device | str) -> Picked:
        return Picked(self.index_N.to(device), self.target_N.to(device))


@dataclass(frozen=True)
class Ragged:
    """Several sequences for each row of a batch, not equally many: N in all, M for the row that has most.

    Args:
        seq: The N sequences, those of the first row first.
        owner_N: The row that each belongs to.
        rows: B, how many rows there are.
    """

    seq: Seq
    owner_N: Tensor
    rows: int

    def __len__(self) -> int:
        """N."""
        return self.owner_N.shape[0]

    def number(self) -> Tensor:
        """B: how many sequences each row has."""
        return torch.zeros(self.rows, dtype=torch.long, device=self.owner_N.device).index_add(
            0, self.owner_N, torch.ones_like(self.owner_N)
        )

    def first(self) -> Tensor:
        """B: where the sequences of each row begin."""
        number_B = self.number()
        return number_B.cumsum(0) - number_B

    def spread(self, x_N: Tensor, filler: float) -> Tensor:
        """B x M: the numbers of each row's sequences side by side, ``filler`` after them."""
        place_N = torch.arange(len(self), device=self.owner_N.device) - self.first()[self.owner_N]
        most = int(place_N.max()) + 1 if len(self) else 0
        return x_N.new_full((self.rows, most), filler).index_put((self.owner_N, place_N), x_N)

    def to(self, device: torch.device | str) -> Ragged:
        return Ragged(self.seq.to(device), self.owner_N.to(device), self.rows)


@dataclass(frozen=True)
class Batch:
    """Instances put together. ``rows`` are the numbers of the examples in their dataset."""

    fields: dict[str, Any]
    size: int
    rows: tuple[int, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __len__(self) -> int:
        return self.size

    def to(self, device: torch.device | str) -> Batch:
        return replace(self, fields={k: v.to(device) for k, v in self.fields.items()})

    def tokens(self) -> int:
        """Real tokens in its sequences; an image counts as its side, as it does where a batch is filled."""
        return sum(_tokens(s) for s in self.sequences())

    @contextmanager
    def naming(self, of: str, first: int = 0) -> Iterator[None]:
        """A ValueError inside names the row with most tokens in a sequence: a text may be too long for a network."""
        try:
            yield
        except ValueError as error:
            lengths = list(self._lengths())
            if not lengths or len(self.rows) != len(self) or type(error) is not ValueError:
                raise
            longest_B = torch.stack(lengths).amax(0)
            row, tokens = self.rows[int(longest_B.argmax())], int(longest_B.max())
            raise ValueError(
                f"{error} (the longest row here is row {row} of {of}, counted from {first}: {tokens} tokens)"
            ) from None

    def _lengths(self) -> Iterator[Tensor]:
        """B: the tokens of each row, of every field that has some; of several sequences, those of the longest."""
        for value in self.fields.values():
            if isinstance(value, Seq) and value.data.ndim == 2:
                yield value.lengths()
            elif isinstance(value, Ragged) and value.seq.data.ndim == 2:
                blank_B = value.owner_N.new_zeros(value.rows)
                yield blank_B.scatter_reduce(0, value.owner_N, value.seq.lengths(), "amax")
            elif isinstance(value, Batch):
                yield from value._lengths()

    def sequences(self) -> Iterator[Seq]:
        for value in self.fields.values():
            if isinstance(value, Seq):
                yield value
            elif isinstance(value, Ragged):
                yield value.seq
            elif isinstance(value, Batch):
                yield from value.sequences()


def _tokens(x: Seq) -> int:
    if x.mask is not None:
        return int(x.mask.sum())
    return x.rows * (x.data.shape[-1] if x.data.ndim == 4 else x.width)


def pad(rows: Sequence[np.ndarray], value: int = 0) -> Seq:
    """Integer arrays of different lengths, padded on the right to B x T with a mask."""
    lengths = np.array([len(r) for r in rows])
    data = np.full((len(rows), max(1, int(lengths.max()))), value, np.int64)
    mask = np.arange(data.shape[1])[None] < lengths[:, None]
    data[mask] = np.concatenate([np.asarray(r, np.int64) for r in rows])
    return Seq(torch.from_numpy(data), None if mask.all() else torch.from_numpy(mask))


def _pad_marks(rows: Sequence[np.ndarray], width: int) -> Tensor:
    """Marks of rows of different lengths, T or T x C, padded with 0 to B x T or B x T x C."""
    wide = (max(1, *(r.shape[1] for r in rows), 1),) if rows[0].ndim == 2 else ()
    data = np.zeros((len(rows), width, *wide), np.int64)
    for i, row in enumerate(rows):
        data[(i, slice(len(row)), *(slice(n) for n in row.shape[1:]))] = row
    return torch.from_numpy(data)


def _sequences(rows: Sequence[np.ndarray | Marked]) -> Seq:
    """Ids, with or without marks, padded on the right to B x T."""
    ids = pad([row.ids if isinstance(row, Marked) else row for row in rows])
    marked = [row for row in rows if isinstance(row, Marked)]
    if not marked:
        return ids
    blank = {name: mark[:0] for name, mark in marked[0].marks.items()}  # of a row without marks they are 0
    every = [row.marks if isinstance(row, Marked) else blank for row in rows]
    return ids.mark(**{name: _pad_marks([marks[name] for marks in every], ids.width) for name in blank})


def _ragged(values: Sequence[Several], name: str) -> Ragged:
    if empty := [row for row, value in enumerate(values) if not len(value)]:
        raise ValueError(f"instance {empty[0]} of a batch has no sequence in {name!r}: give at least one")
    owner = np.repeat(np.arange(len(values)), [len(value) for value in values])
    return Ragged(_sequences([part for value in values for part in value.parts]), torch.from_numpy(owner), len(values))


def collate(instances: Sequence[Instance], rows: Sequence[int] = ()) -> Batch:
    """Put instances together by the type of each value (see ``Instance``). All instances have the same names."""
    fields: dict[str, Any] = {}
    for name, first in instances[0].items():
        values = [i[name] for i in instances]
        if isinstance(first, Picks):
            continue
        if isinstance(first, Instance):
            fields[name] = collate(values, rows)
        elif isinstance(first, int | np.integer):
            fields[name] = torch.tensor([int(v) for v in values])
        elif isinstance(first, float | np.floating):
            fields[name] = torch.tensor([float(v) for v in values])
        elif isinstance(first, Several):
            fields[name] = _ragged(values, name)
        elif isinstance(first, Marked) or (isinstance(first, np.ndarray) and first.dtype.kind in "iu"):
            fields[name] = _sequences(values)
        else:
            stacked = torch.from_numpy(np.stack(values))
            fields[name] = Seq(stacked) if stacked.ndim == 4 else stacked
    for name, first in instances[0].items():
        if isinstance(first, Picks):
            width = fields[first.of].width
            at = np.concatenate([np.asarray(i[name].at, np.int64) + row * width for row, i in enumerate(instances)])
            ids = np.concatenate([np.asarray(i[name].ids, np.int64) for i in instances])
            fields[name] = Picked(torch.from_numpy(at), torch.from_numpy(ids))
    return Batch(fields, len(instances), tuple(int(r) for r in rows))


@dataclass(frozen=True)
class Term:
    """One term of a loss: a *sum* with the count it is to be divided by, never a mean."""

    total: Tensor
    count: int
    weight: float = 1.0


class Loss(dict[str, Term]):
    """The terms of a loss by name. Sums and counts, so that accumulation, uneven batches and several processes are right."""

    @classmethod
    def of(cls, total: Tensor, count: int, name: str = "loss") -> Loss:
        return cls({name: Term(total, count)})

    def mean(self) -> Tensor:
        """sum_k weight_k total_k / count_k: the loss of this batch alone, for a loop of your own."""
        return torch.stack([t.weight * t.total / max(t.count, 1) for t in self.values()]).sum()


@dataclass(frozen=True)
class Clock:
    """Where training stands; drives annealing inside objectives."""

    update: int = 0
    updates: int = 1
    epoch: int = 0

    @property
    def share(self) -> float:
        return self.update / max(self.updates, 1)


@dataclass
class Hypothesis:
    """One generated sequence: its ids without the end mark, its score, and the summed log-probability behind the score.

    ``end`` is the end mark that it was finished with, where that is known.
    """

    ids: list[int]
    score: float
    logprob: float
    finished: bool = True
    steps: list[float] = field(default_factory=list)
    end: int | None = None
