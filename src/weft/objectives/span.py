"""Extractive question answering. L maximum tokens of an answer, N encoded sequences; other suffixes: see seq.py."""

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
from weft.core.fields import Info, SpanField
from weft.core.loss import Loss
from weft.core.options import Count
from weft.core.outputs import SpanPrediction
from weft.core.registry import block
from weft.core.seq import Seq
from weft.objectives.inputs import EncoderInput

TOKENS_PER_PASS = 2**15
"""Tokens encoded at once in prediction, where an example may have very many windows."""


@block("span")
class SpanAnswer(Objective[ExtractsSpans]):
    """Extractive question answering: predict the start and end of the answer in the context, or that there is none.

    Question and context are one sequence. Start i and end j are tokens of the context, with logits s_i and e_j; both are position
    0 of the sequence where there is no answer:

    loss = - log softmax(s)_i - log softmax(e)_j, over the context and position 0; the count is the number of questions.

    prediction: argmax of s_i + e_j over i <= j < i + max_answer_length, if above s_0 + e_0 + threshold; else no answer

    A long context is split into overlapping windows, each with the question. In training every window is an example of its own,
    without an answer where it does not contain the full answer; the count is then the number of windows. The prediction is the
    best span of all windows, compared with the smallest s_0 + e_0 of them.

    Devlin et al. 2019 (BERT), sections 4.2 and 4.3, https://arxiv.org/abs/1810.04805; windows: the code published with it

    Args:
        max_answer_length: Maximum tokens of a predicted answer.
        threshold: Margin by which the best span must exceed the score of no answer. A large negative number: always answer.
        window: Maximum tokens of a sequence, with the question and special tokens; at most the positions of the model. Examples
            whose question leaves no room for the context are skipped, and counted. None = no windows.
        stride: Tokens of the context between the starts of two windows; at most as many as fit into one.

    Example:
        >>> import numpy as np
        >>> from weft.core.fields import SpanField, TextField
        >>> texts = {"question": TextField("question", 20), "context": TextField("context", 20)}
        >>> info = Info({**texts, "answer": SpanField("answer", of="context")})
        >>> example = {"question": np.array([7, 8]), "context": np.array([9, 10, 11]), "answer": np.array([1, 2])}
        >>> instance = SpanAnswer(info, 8).prepare(example, None, None)
        >>> instance["text"].tolist(), instance["start"], instance["end"]
        ([7, 8, 6, 9, 10, 11, 2], 4, 5)
    """

    needs = (ExtractsSpans,)
    metrics = ("answer-exact-match", "answer-f1")

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        max_answer_length: Count = 30,
        threshold: float = 0.0,
        window: Count | None = None,
        stride: Count = 128,
    ):
        super().__init__(info, dim)
        self.answer = info.expect("answer", SpanField, "use data such as question-answering")
        self.input = EncoderInput(info)
        self.max_answer_length, self.threshold, self.window, self.stride = max_answer_length, threshold, window, stride

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """Tokens of all windows."""
        if self.window is None:
            return super().cost(lengths)
        size, frame = np.asarray(lengths[self.answer.of], np.int64), self.input.frame
        around = super().cost(lengths) - size + frame.size(len(self.input.fields))
        room = np.maximum(self.window - around, 1)
        step = np.minimum(self.stride, room)
        windows = 1 + np.maximum(0, -(-(size - room) // step))
        return windows * around + size + (windows - 1) * (room - step)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["text"]) if self.window is not None else len(batch)}

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        names = [field.name for field in self.input.fields]
        before = self.input.frame.start([len(example[name]) for name in names], names.index(self.answer.of))
        start, end = (int(token) + before for token in example["answer"]) if len(example["answer"]) else (0, 0)
        size = len(example[self.answer.of])
        if self.window is not None:
            windows = self._windows(example, before)
            return Instance(text=Sequences(tuple(windows))) if windows else None
        return Instance(text=self.input(example), first=before, size=size, start=start, end=end)

    def _windows(self, example: Example, before: int) -> list[MarkedIds]:
        """The windows of an example with per-token marks: ``context`` (1 + index in the context; 0 = outside), ``start`` and
        ``end``. Empty where the question leaves no room."""
        assert self.window is not None
        name, context, answer = self.answer.of, example[self.answer.of], example["answer"]
        room = self.window - (len(self.input(example)) - len(context))
        found: list[MarkedIds] = []
        if room < 1:
            return found
        for offset in window_starts(len(context), room, self.stride):
            part = context[offset : offset + room]
            text = self.input({**example, name: part})
            index, start, end = np.zeros((3, len(text)), np.int64)
            index[before : before + len(part)] = np.arange(offset, offset + len(part)) + 1
            inside = len(answer) and offset <= answer[0] and answer[-1] < offset + len(part)
            first, last = (int(token) - offset + before for token in answer) if inside else (0, 0)
            start[first] = end[last] = 1
            marks = text.marks if isinstance(text, MarkedIds) else {}
            found.append(MarkedIds(ids_of(text), {**marks, "context": index, "start": start, "end": end}))
        return found

    def prepare_request(self, example: Example) -> Instance | None:
        if (instance := super().prepare_request(example)) is None:
            around = len(self.input(example)) - len(example[self.answer.of])
            raise ValueError(
                f"the question with special tokens has {around} tokens, which leaves no room for the context in a window of "
                f"{self.window}; shorten the question"
            )
        return instance

    def forward(self, model: ExtractsSpans, batch: Batch, clock: Clock) -> Loss:
        windows = ContextWindows.of(batch)
        scores = SpanScores.of(model, windows.text, windows.context_NT)
        start_N = scores.start_BT.log_softmax(1).gather(1, windows.start_N[:, None])
        end_N = scores.end_BT.log_softmax(1).gather(1, windows.end_N[:, None])
        return Loss.of(-(start_N + end_N).sum(), len(start_N))

    def predict(self, model: ExtractsSpans, batch: Batch, search: Search) -> list[Any]:
        """A span of each context."""
        whole = ContextWindows.of(batch)
        best: dict[int, tuple[float, int, int]] = {}
        none: dict[int, float] = {}
        for windows in whole.split(TOKENS_PER_PASS):
            scores = SpanScores.of(model, windows.text, windows.context_NT)
            found = scores.best(self.max_answer_length)
            ends_2N = torch.stack([found.start_B, found.end_B])
            first_N, last_N = windows.context_NT.gather(1, ends_2N.T).T - 1
            none_N = scores.start_BT[:, 0] + scores.end_BT[:, 0]
            columns = (windows.owner_N, found.score_B, first_N, last_N, none_N)
            for row, score, first, last, no_answer in zip(*(column.tolist() for column in columns), strict=True):
                if row not in best or score > best[row][0]:
                    best[row] = (score, first, last)
                none[row] = min(none.get(row, no_answer), no_answer)
        name, answers = self.answer.of, list[SpanPrediction]()
        for row in range(len(batch)):
            score, first, last = best[row]
            margin = score - none[row] - self.threshold
            answers.append(SpanPrediction(name, first, last, margin) if margin > 0 else SpanPrediction(name, score=margin))
        return answers


def window_starts(size: int, room: int, stride: int) -> range:
    """Starts of windows of ``room`` tokens that cover a text of ``size`` tokens."""
    step = min(stride, room)
    return range(0, max(1, size - room + step), step)


@dataclass(frozen=True)
class ContextWindows:
    """The sequences of a batch: one per example, or its windows.

    Args:
        text: N x T.
        context_NT: 1 + the index of each token in its context; 0 outside of the context.
        start_N: Position of the start of the answer in the sequence.
        end_N: Position of its end.
        owner_N: The example of each sequence.
    """

    text: Seq
    context_NT: Tensor
    start_N: Tensor
    end_N: Tensor
    owner_N: Tensor

    @classmethod
    def of(cls, batch: Batch) -> ContextWindows:
        text = batch["text"]
        if isinstance(text, Ragged):
            marks = text.seq.marks
            return cls(text.seq, marks["context"], marks["start"].argmax(1), marks["end"].argmax(1), text.owner_N)
        rows = torch.arange(len(batch), device=text.data.device)
        context_BT = torch.arange(text.width, device=text.data.device) - batch["first"][:, None] + 1
        context_BT = context_BT.where((context_BT > 0) & (context_BT <= batch["size"][:, None]), 0)
        return cls(text, context_BT, batch["start"], batch["end"], rows)

    def split(self, tokens: int) -> list[ContextWindows]:
        """Parts of at most ``tokens`` tokens with padding, but at least one sequence. Without need for a split, the part is this
        object with the ``text`` of the batch, so that an evaluation encodes it once for loss and prediction."""
        size = max(1, tokens // max(1, self.text.width))
        if self.text.rows <= size:
            return [self]
        tensors = (self.context_NT, self.start_N, self.end_N, self.owner_N)
        parts = torch.arange(self.text.rows, device=self.context_NT.device).split(size)
        return [ContextWindows(self.text.select(rows), *(tensor[rows] for tensor in tensors)) for rows in parts]


@dataclass(frozen=True)
class BestSpans:
    """The best span of each sequence and its score."""

    start_B: Tensor
    end_B: Tensor
    score_B: Tensor


@dataclass(frozen=True)
class SpanScores:
    """Start and end logits of each position; -inf outside of the context, except at position 0 (no answer).

    Args:
        start_BT: Start logits.
        end_BT: End logits.
        inside_BT: True in the context.
    """

    start_BT: Tensor
    end_BT: Tensor
    inside_BT: Tensor

    @classmethod
    def of(cls, model: ExtractsSpans, text: Seq, context_BT: Tensor) -> SpanScores:
        """Scores of sequences; ``context_BT`` is 0 outside of the context."""
        hidden = model.encode(text)
        inside_BT = context_BT > 0
        allowed_BT = inside_BT | (torch.arange(hidden.width, device=context_BT.device) == 0)
        score_BT2 = model.span_head(hidden.data.flatten(0, 1)).unflatten(0, hidden.data.shape[:2]).float()
        score_BT2 = score_BT2.masked_fill(~allowed_BT[..., None], -torch.inf)
        return cls(score_BT2[..., 0], score_BT2[..., 1], inside_BT)

    def best(self, max_length: int) -> BestSpans:
        """The best i <= j < i + max_length in the context: the possible ends of each start are a sliding window of L
        positions."""
        start_BT = self.start_BT.masked_fill(~self.inside_BT, -torch.inf)
        end_BT = F.pad(self.end_BT.masked_fill(~self.inside_BT, -torch.inf), (0, max_length - 1), value=-torch.inf)
        score_BTL = start_BT[..., None] + end_BT.unfold(1, max_length, 1)
        score_B, at_B = score_BTL.flatten(1).max(1)
        start_B = at_B // max_length
        return BestSpans(start_B, start_B + at_B % max_length, score_B)
