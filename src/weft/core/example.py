"""Values of one example before collation: ids with annotations, several sequences, prediction targets, values of new kinds."""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

Example = Mapping[str, Any]
"""One example of a dataset: ids (1-D integer arrays) of text fields, ``Sequences`` of them, an int for a label, two ints or none
for a span, C x H x W floats for an image, a ``Value`` for other kinds; and a ``MixedLabel`` where training mixes examples."""


CHOICE_LABELS = tuple(string.ascii_uppercase)
"""Class names for multiple choice: A is the first choice, whatever the file calls it."""


class Value(ABC):
    """A value that knows how a batch of its kind is made: what a new kind of field gives where arrays and numbers do not suffice
    (a graph, a signal)."""

    @classmethod
    @abstractmethod
    def collate(cls, values: Sequence[Self]) -> Any:
        """The values of a batch together: an object with ``to(device)``, such as a dataclass of tensors; with ``tokens()`` where
        it counts in a token budget."""

    @property
    @abstractmethod
    def tokens(self) -> int:
        """What it counts as in a token budget."""


@dataclass(frozen=True)
class MarkedIds:
    """Ids with per-token annotations (marks): character ids, segment. A mark is T or T x C, padded with 0.

    Args:
        ids: T ids.
        marks: Annotations by name.
    """

    ids: np.ndarray
    marks: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.ids)

    def surround(self, first: Sequence[int], last: Sequence[int]) -> MarkedIds:
        """Add ids before and after; their marks are 0."""
        around = (len(first), len(last))
        marks = {n: np.pad(m, [around] + [(0, 0)] * (m.ndim - 1)) for n, m in self.marks.items()}
        return MarkedIds(np.concatenate([np.asarray(first, np.int64), self.ids, np.asarray(last, np.int64)]), marks)

    def __getitem__(self, part: slice) -> MarkedIds:
        return MarkedIds(self.ids[part], {name: mark[part] for name, mark in self.marks.items()})


def ids_of(text: np.ndarray | MarkedIds) -> np.ndarray:
    """The ids of a text, without its marks."""
    return np.asarray(text.ids if isinstance(text, MarkedIds) else text, np.int64)


def surround(first: Sequence[int], ids: np.ndarray | MarkedIds, last: Sequence[int]) -> np.ndarray | MarkedIds:
    """A text with ids before and after it, such as BOS and EOS."""
    if isinstance(ids, MarkedIds):
        return ids.surround(first, last)
    return np.concatenate([np.asarray(first, np.int64), np.asarray(ids, np.int64), np.asarray(last, np.int64)])


def _join(one: np.ndarray | MarkedIds, two: np.ndarray | MarkedIds) -> np.ndarray | MarkedIds:
    if not isinstance(one, MarkedIds) or not isinstance(two, MarkedIds):
        return np.concatenate([one, two])  # pyright: ignore[reportArgumentType, reportCallIssue]
    marks: dict[str, np.ndarray] = {}
    for name in one.marks:
        width = max(one.marks[name].shape[-1], two.marks[name].shape[-1])
        pads = [np.pad(m.marks[name], ((0, 0), (0, width - m.marks[name].shape[-1]))) for m in (one, two)]
        marks[name] = np.concatenate(pads)
    return MarkedIds(np.concatenate([one.ids, two.ids]), marks)


@dataclass(frozen=True)
class Sequences:
    """Several sequences of one example: the choices of a question, the sentences of a report.

    Args:
        parts: The ids of each; all with the same marks, or none.
    """

    parts: tuple[np.ndarray | MarkedIds, ...]

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.parts)

    @property
    def tokens(self) -> int:
        """Number of ids in all sequences."""
        return sum(map(len, self.parts))


MIXED = "label/mixed"
"""Name of the ``MixedLabel`` of an example that training has mixed with another one."""


@dataclass(frozen=True)
class MixedLabel:
    """The label of the example that was mixed into another, whose own label stays what it is.

    Args:
        label: The label of the other example.
        weight: Weight of the own label; the other one has the rest.
    """

    label: Any
    weight: float


@dataclass(frozen=True)
class Targets:
    """Positions of a sequence with their target ids: the hidden states that an objective gathers.

    Args:
        of: Name of the sequence in the instance.
        at: Positions in it.
        ids: Target id of each position.
    """

    of: str
    at: np.ndarray
    ids: np.ndarray
