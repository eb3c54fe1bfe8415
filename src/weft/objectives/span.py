"""Find the answer to a question in a text. L most tokens of an answer; other suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.batch import Batch, Clock, Example, Info, Instance, Loss, Passage
from weft.catalog import block
from weft.choices import Count
from weft.objectives.given import Given
from weft.slots import Objective, Points, Search


@block("span")
class SpanAnswer(Objective):
    """Predict where the answer to a question begins and ends in its context, or that it is not there.

    Question and context are read as one sequence. Begin i and end j are tokens of the context; both are the first place of the
    sequence where there is no answer:

    loss = - log softmax(s)_i - log softmax(e)_j, over the context and that place; the count is the number of questions.

    predicted: argmax of s_i + e_j over i <= j < i + longest, if it is above s_0 + e_0 + threshold; else that there is none

    Devlin et al. 2019, sections 4.2 and 4.3, https://arxiv.org/abs/1810.04805

    Args:
        longest: Most tokens of a predicted answer.
        threshold: By how much the best answer must be above that there is none. A large negative number: one is always given.

    Example:
        >>> import numpy as np
        >>> from weft.batch import Field
        >>> texts = {"question": Field("question", 20), "context": Field("context", 20)}
        >>> info = Info({**texts, "answer": Field("answer", 2, kind="span", space="context")})
        >>> example = {"question": np.array([7, 8]), "context": np.array([9, 10, 11]), "answer": np.array([1, 2])}
        >>> made = SpanAnswer(info, 8).prepare(example, None, None)
        >>> made["text"].tolist(), made["begin"], made["end"]
        ([7, 8, 6, 9, 10, 11, 2], 4, 5)
    """

    needs = (Points,)

    def __init__(self, info: Info, dim: int, *, longest: Count = 30, threshold: float = 0.0):
        super().__init__(info, dim)
        self.answer = info["answer"]
        if self.answer.kind != "span":
            raise ValueError(f"needs a place in a text, but in the data ({info.data}) the field 'answer' is a {self.answer.kind}")
        self.given = Given(info)
        self.longest, self.threshold = longest, threshold

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        frame, before = self.given.frame, len(self.given.frame.first)
        for field in self.given.fields:
            if field.name == self.answer.space:
                break
            before += len(example[field.name]) + len(frame.between)
        begin, end = (int(place) + before for place in example["answer"]) if len(example["answer"]) else (0, 0)
        size = len(example[self.answer.space])
        return Instance(text=self.given(example), first=before, size=size, begin=begin, end=end)

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        scores = Scores.of(model, batch)
        begin_B = scores.begin_BT.log_softmax(1).gather(1, batch["begin"][:, None])
        end_B = scores.end_BT.log_softmax(1).gather(1, batch["end"][:, None])
        return Loss.of(-(begin_B + end_B).sum(), len(batch))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        """A passage of each context."""
        scores = Scores.of(model, batch)
        best = scores.best(self.longest)
        none_B = scores.begin_BT[:, 0] + scores.end_BT[:, 0] + self.threshold
        rows = zip(
            best.begin_B.tolist(), best.end_B.tolist(), (best.score_B - none_B).tolist(), batch["first"].tolist(), strict=True
        )
        name = self.answer.space
        return [
            Passage(name, begin - before, end - before, score) if score > 0 else Passage(name, score=score)
            for begin, end, score, before in rows
        ]


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
    def of(cls, model: Any, batch: Batch) -> Scores:
        hidden = model.encode(batch["text"])
        place_T = torch.arange(hidden.width, device=hidden.data.device)
        first_B1 = batch["first"][:, None]
        inside_BT = (place_T >= first_B1) & (place_T < first_B1 + batch["size"][:, None])
        score_BT2 = model.pointer(hidden.data.flatten(0, 1)).unflatten(0, hidden.data.shape[:2]).float()
        score_BT2 = score_BT2.masked_fill(~(inside_BT | (place_T == 0))[..., None], -torch.inf)
        return cls(score_BT2[..., 0], score_BT2[..., 1], inside_BT)

    def best(self, longest: int) -> Best:
        """The best i <= j < i + longest in the context: the ends that each begin can have are a window of L places."""
        begin_BT = self.begin_BT.masked_fill(~self.inside_BT, -torch.inf)
        end_BT = F.pad(self.end_BT.masked_fill(~self.inside_BT, -torch.inf), (0, longest - 1), value=-torch.inf)
        score_BTL = begin_BT[..., None] + end_BT.unfold(1, longest, 1)
        score_B, at_B = score_BTL.flatten(1).max(1)
        begin_B = at_B // longest
        return Best(begin_B, begin_B + at_B % longest, score_B)
