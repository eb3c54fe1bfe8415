"""Find the answer to a question in a text. L most tokens of an answer, N sequences that are read; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance, Ragged
from weft.core.contracts import ExtractsSpans, Objective, Search
from weft.core.example import Example, MarkedIds, Sequences, ids_of
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.options import Count
from weft.core.outputs import SpanPrediction
from weft.core.registry import block
from weft.core.seq import Seq
from weft.objectives.inputs import Given

TOGETHER = 64
"""Windows that are asked at once: a row may have very many."""


@block("span")
class SpanAnswer(Objective):
    """Predict where the answer to a question begins and ends in its context, or that it is not there.

    Question and context are read as one sequence. Begin i and end j are tokens of the context; both are the first place of the
    sequence where there is no answer:

    loss = - log softmax(s)_i - log softmax(e)_j, over the context and that place; the count is the number of questions.

    predicted: argmax of s_i + e_j over i <= j < i + longest, if it is above s_0 + e_0 + threshold; else that there is none

    A long context is read in windows, each with the question. In training every window is a question of its own, without an
    answer where it does not hold the whole answer; the count is then the number of windows. Predicted is the best answer of all
    windows, compared with the least s_0 + e_0 of them.

    Devlin et al. 2019, sections 4.2 and 4.3, https://arxiv.org/abs/1810.04805; the windows: the code published with it

    Args:
        longest: Most tokens of a predicted answer.
        threshold: By how much the best answer must be above that there is none. A large negative number: one is always given.
        window: Most tokens that are read at once, with the question and what stands around both; at most the positions of the
            network; rows whose question leaves no room are left out, and counted. None = question and context are read whole.
        stride: So many tokens of the context after a window's begin, the next one begins; at most as many as fit into one.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import Field
        >>> texts = {"question": Field("question", 20), "context": Field("context", 20)}
        >>> info = Info({**texts, "answer": Field("answer", 2, kind="span", space="context")})
        >>> example = {"question": np.array([7, 8]), "context": np.array([9, 10, 11]), "answer": np.array([1, 2])}
        >>> made = SpanAnswer(info, 8).prepare(example, None, None)
        >>> made["text"].tolist(), made["begin"], made["end"]
        ([7, 8, 6, 9, 10, 11, 2], 4, 5)
    """

    needs = (ExtractsSpans,)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        longest: Count = 30,
        threshold: float = 0.0,
        window: Count | None = None,
        stride: Count = 128,
    ):
        super().__init__(info, dim)
        self.answer = info["answer"]
        if self.answer.kind != "span":
            raise ValueError(f"needs a place in a text, but in the data ({info.data}) the field 'answer' is a {self.answer.kind}")
        self.given = Given(info)
        self.longest, self.threshold, self.window, self.stride = longest, threshold, window, stride

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """The tokens of all windows."""
        if self.window is None:
            return super().cost(lengths)
        size, frame = np.asarray(lengths[self.answer.space], np.int64), self.given.frame
        around = super().cost(lengths) - size + len(frame.first) + len(frame.between) + len(frame.last)
        room = np.maximum(self.window - around, 1)
        step = np.minimum(self.stride, room)
        number = 1 + np.maximum(0, -(-(size - room) // step))
        return number * around + size + (number - 1) * (room - step)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["text"]) if self.window is not None else len(batch)}

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        frame, before = self.given.frame, len(self.given.frame.first)
        for field in self.given.fields:
            if field.name == self.answer.space:
                break
            before += len(example[field.name]) + len(frame.between)
        begin, end = (int(place) + before for place in example["answer"]) if len(example["answer"]) else (0, 0)
        size = len(example[self.answer.space])
        if self.window is not None:
            windows = self._windows(example, before)
            return Instance(text=Sequences(tuple(windows))) if windows else None
        return Instance(text=self.given(example), first=before, size=size, begin=begin, end=end)

    def _windows(self, example: Example, before: int) -> list[MarkedIds]:
        """What is read of a row, with marks: ``place`` (which token of the context, from 1; 0 = none), ``begin`` and ``end``.
        None where the question leaves no room."""
        assert self.window is not None
        name, context, answer = self.answer.space, example[self.answer.space], example["answer"]
        room = self.window - (len(self.given(example)) - len(context))
        found: list[MarkedIds] = []
        if room < 1:
            return found
        for start in window_begins(len(context), room, self.stride):
            part = context[start : start + room]
            whole = self.given({**example, name: part})
            place, begin, end = np.zeros((3, len(whole)), np.int64)
            place[before : before + len(part)] = np.arange(start, start + len(part)) + 1
            inside = len(answer) and start <= answer[0] and answer[-1] < start + len(part)
            first, last = (int(at) - start + before for at in answer) if inside else (0, 0)
            begin[first] = end[last] = 1
            marks = whole.marks if isinstance(whole, MarkedIds) else {}
            found.append(MarkedIds(ids_of(whole), {**marks, "place": place, "begin": begin, "end": end}))
        return found

    def prepare_request(self, example: Example) -> Instance | None:
        if (asked := super().prepare_request(example)) is None:
            around = len(self.given(example)) - len(example[self.answer.space])
            raise ValueError(
                f"the question and what stands around it have {around} tokens, so that nothing of the context has room in a "
                f"window of {self.window}: shorten it"
            )
        return asked

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        read = Read.of(batch)
        scores = Scores.at(model, read.text, read.place_NT)
        begin_N = scores.begin_BT.log_softmax(1).gather(1, read.begin_N[:, None])
        end_N = scores.end_BT.log_softmax(1).gather(1, read.end_N[:, None])
        return Loss.of(-(begin_N + end_N).sum(), len(begin_N))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        """A passage of each context."""
        read = Read.of(batch)
        best: dict[int, tuple[float, int, int]] = {}
        none: dict[int, float] = {}
        for rows in torch.arange(read.text.rows, device=read.place_NT.device).split(TOGETHER):
            scores = Scores.at(model, read.text.select(rows), read.place_NT[rows])
            found = scores.best(self.longest)
            ends_2N = torch.stack([found.begin_B, found.end_B])
            first_N, last_N = read.place_NT[rows].gather(1, ends_2N.T).T - 1
            none_N = scores.begin_BT[:, 0] + scores.end_BT[:, 0]
            columns = (read.owner_N[rows], found.score_B, first_N, last_N, none_N)
            for row, score, first, last, nothing in zip(*(column.tolist() for column in columns), strict=True):
                if row not in best or score > best[row][0]:
                    best[row] = (score, first, last)
                none[row] = min(none.get(row, nothing), nothing)
        name, answers = self.answer.space, list[SpanPrediction]()
        for row in range(len(batch)):
            score, first, last = best[row]
            above = score - none[row] - self.threshold
            answers.append(SpanPrediction(name, first, last, above) if above > 0 else SpanPrediction(name, score=above))
        return answers


def window_begins(size: int, room: int, stride: int) -> range:
    """Where windows of ``room`` tokens begin in a text of ``size``, so that each token is in one."""
    step = min(stride, room)
    return range(0, max(1, size - room + step), step)


@dataclass(frozen=True)
class Read:
    """The sequences of a batch, whole or in windows.

    Args:
        text: N x T.
        place_NT: Which token of its context each is, from 1; 0 = none of it.
        begin_N: Where the answer begins in the sequence.
        end_N: Where it ends.
        owner_N: The row that each is of.
    """

    text: Seq
    place_NT: Tensor
    begin_N: Tensor
    end_N: Tensor
    owner_N: Tensor

    @classmethod
    def of(cls, batch: Batch) -> Read:
        text = batch["text"]
        if isinstance(text, Ragged):
            marks = text.seq.marks
            return cls(text.seq, marks["place"], marks["begin"].argmax(1), marks["end"].argmax(1), text.owner_N)
        rows = torch.arange(len(batch), device=text.data.device)
        return cls(text, places(text, batch), batch["begin"], batch["end"], rows)


def places(text: Seq, batch: Batch) -> Tensor:
    """Of rows that are read whole, which token of its context each is, from 1; 0 = none of it."""
    place_BT = torch.arange(text.width, device=text.data.device) - batch["first"][:, None] + 1
    return place_BT.where((place_BT > 0) & (place_BT <= batch["size"][:, None]), 0)


@dataclass(frozen=True)
class Best:
    """The best begin and end of each row, and their score."""

    begin_B: Tensor
    end_B: Tensor
    score_B: Tensor


@dataclass(frozen=True)
class Scores:
    """Logits of a begin and of an end at each place; -inf outside of the context, but for the first place of the sequence.

    Args:
        begin_BT: Of a begin.
        end_BT: Of an end.
        inside_BT: Which places are the context's.
    """

    begin_BT: Tensor
    end_BT: Tensor
    inside_BT: Tensor

    @classmethod
    def at(cls, model: Any, text: Seq, place_BT: Tensor) -> Scores:
        """Of sequences, where ``place_BT`` is not 0 in the context."""
        hidden = model.encode(text)
        inside_BT = place_BT > 0
        open_BT = inside_BT | (torch.arange(hidden.width, device=place_BT.device) == 0)
        score_BT2 = model.span_head(hidden.data.flatten(0, 1)).unflatten(0, hidden.data.shape[:2]).float()
        score_BT2 = score_BT2.masked_fill(~open_BT[..., None], -torch.inf)
        return cls(score_BT2[..., 0], score_BT2[..., 1], inside_BT)

    def best(self, longest: int) -> Best:
        """The best i <= j < i + longest in the context: the ends that each begin can have are a window of L places."""
        begin_BT = self.begin_BT.masked_fill(~self.inside_BT, -torch.inf)
        end_BT = F.pad(self.end_BT.masked_fill(~self.inside_BT, -torch.inf), (0, longest - 1), value=-torch.inf)
        score_BTL = begin_BT[..., None] + end_BT.unfold(1, longest, 1)
        score_B, at_B = score_BTL.flatten(1).max(1)
        begin_B = at_B // longest
        return Best(begin_B, begin_B + at_B % longest, score_B)
