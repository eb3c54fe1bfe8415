"""Special tokens: their ids, and the frame of special tokens around a text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from weft.core.example import MarkedIds, _join, surround


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
