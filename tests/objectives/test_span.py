"""Where an answer stands: the loss and the best span by hand, and what must not matter."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from weft.blocks import OrdinalHead
from weft.core.batch import Clock, collate
from weft.core.contracts import Encodes, ExtractsSpans
from weft.core.fields import Frame, Info, LabelField, SpanField, TextField
from weft.core.outputs import SpanPrediction
from weft.generate import GreedySearch
from weft.models import SpanExtractor, bert
from weft.objectives import SpanAnswer
from weft.objectives.span import SpanScores

ANSWER = SpanField("answer", of="context")


def info_of(frame: Frame = Frame()) -> Info:
    texts = {name: TextField(name, 40, frame=frame) for name in ("question", "context")}
    return Info({**texts, "answer": ANSWER}, "context")


INFO = info_of()
FRAMED = info_of(Frame((5,), (6,), (6,), True))


def example(question: int, context: int, answer: list[int], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "question": rng.integers(7, 40, question),
        "context": rng.integers(7, 40, context),
        "answer": np.array(answer, np.int64),
    }


ROWS = [example(3, 6, [1, 3], 1), example(2, 9, [0, 0], 2), example(4, 1, [], 3), example(1, 4, [3, 3], 4)]


def logits_of(model: Any, objective: SpanAnswer, row: dict[str, Any]) -> tuple[Tensor, Tensor, int]:
    """Logits of one row alone, by the definition: [position 0, context 0, context 1, ...]."""
    made = objective.prepare(row, None, None)
    assert made is not None
    x = collate([made])["text"]
    before = x.width - len(objective.input.frame.last) - len(row["context"])
    both = model.span_head(model.encode(x).data[0]).double()
    kept = both[[0, *range(before, before + len(row["context"]))]]
    return kept[:, 0], kept[:, 1], before


@pytest.fixture(params=[INFO, FRAMED], ids=["plain", "framed"])
def setting(request: pytest.FixtureRequest) -> tuple[Any, SpanAnswer]:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"dim": 16, "layers": 1, "heads": 2, "hidden": 24, "length": 40, "dropout": 0.0}
    factory = partial(SpanExtractor, dim=16) if request.param is INFO else bert(**sizes, task="question-answering")
    model = factory(request.param)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model.eval(), SpanAnswer(request.param, 16, max_answer_length=3)


def test_the_sequence_is_question_and_context_in_their_frame() -> None:
    row = {"question": np.array([7, 8]), "context": np.array([9, 10, 11]), "answer": np.array([1, 2])}
    plain, framed = (SpanAnswer(info, 8).prepare(row, None, None) for info in (INFO, FRAMED))
    assert plain is not None and framed is not None
    assert plain["text"].tolist() == [7, 8, 6, 9, 10, 11, 2]
    assert framed["text"].ids.tolist() == [5, 7, 8, 6, 9, 10, 11, 6]
    assert framed["text"].marks["segment"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert (framed["first"], framed["size"], framed["start"], framed["end"]) == (4, 3, 5, 6)
    none = SpanAnswer(FRAMED, 8).prepare({**row, "answer": np.array([], np.int64)}, None, None)
    assert none is not None and (none["start"], none["end"]) == (0, 0)


def test_the_loss_is_that_of_the_definition(setting: tuple[Any, SpanAnswer]) -> None:
    model, objective = setting
    batch = collate([objective.prepare(row, None, None) for row in ROWS])
    loss = objective(model, batch, Clock())["loss"]
    want = torch.zeros((), dtype=torch.float64)
    for row in ROWS:
        begin, end, _ = logits_of(model, objective, row)
        first, last = (index + 1 for index in row["answer"].tolist()) if len(row["answer"]) else (0, 0)
        want = want - begin.log_softmax(0)[first] - end.log_softmax(0)[last]
    assert loss.count == 4 and objective.counts(batch) == {"loss": 4}
    torch.testing.assert_close(loss.total.double(), want, atol=1e-4, rtol=1e-5)
    loss.total.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert grads and all(bool(torch.isfinite(grad).all()) for grad in grads)


@pytest.mark.parametrize("threshold", [-1e9, 0.0, 1e9])
def test_the_best_span_is_that_of_trying_all(setting: tuple[Any, SpanAnswer], threshold: float) -> None:
    model, objective = setting
    objective.threshold = threshold
    model.requires_grad_(False)
    rows = [example(q, c, [], 10 * q + c) for q in (1, 3) for c in (1, 2, 5, 12)]
    found = objective.predict(model, collate([objective.prepare(row, None, None) for row in rows]), GreedySearch())
    for row, passage in zip(rows, found, strict=True):
        begin, end, _ = logits_of(model, objective, row)
        size = len(row["context"])
        scores = {(i, j): float(begin[i + 1] + end[j + 1]) for i in range(size) for j in range(i, min(i + 3, size))}
        best = max(scores, key=lambda span: scores[span])
        margin = scores[best] - float(begin[0] + end[0]) - threshold
        assert passage.of == "context" and passage.score == pytest.approx(margin, rel=1e-4, abs=1e-4)
        assert (passage.first, passage.last) == (best if margin > 0 else (-1, -1))


def test_longest_and_order_are_kept_whatever_the_scores() -> None:
    torch.manual_seed(0)
    for longest in (1, 2, 5, 40):
        begin, end = torch.randn(50, 12), torch.randn(50, 12)
        first, size = torch.randint(1, 5, (50, 1)), torch.randint(1, 8, (50, 1))
        inside = (torch.arange(12) >= first) & (torch.arange(12) < first + size)
        best = SpanScores(begin, end, inside).best(longest)
        assert bool((best.start_B <= best.end_B).all()) and bool((best.end_B - best.start_B < longest).all())
        for row in range(50):
            positions = inside[row].nonzero()[:, 0].tolist()
            every = [(float(begin[row, i] + end[row, j]), i, j) for i in positions for j in positions if i <= j < i + longest]
            assert max(every)[1:] == (int(best.start_B[row]), int(best.end_B[row]))


def test_padding_and_the_question_are_no_answers() -> None:
    class Fixed(torch.nn.Module):
        """The highest logits where no answer may be."""

        def encode(self, x: Any) -> Any:
            high = torch.full((*x.data.shape, 2), 100.0)
            high[0, 3:5], high[1, 3:4] = 1.0, 1.0  # the contexts
            high[:, 0] = 0.0
            return replace(x, data=high)

        def span_head(self, hidden: Tensor) -> Tensor:
            return hidden

    objective = SpanAnswer(INFO, 2)
    rows = [example(2, 2, [0, 1]), example(2, 1, [0, 0])]
    batch = collate([objective.prepare(row, None, None) for row in rows])
    assert objective.predict(Fixed(), batch, GreedySearch())[1] == SpanPrediction("context", 0, 0, 2.0)
    want = 2 * np.log(2 + np.exp(-1)) + 2 * np.log(1 + np.exp(-1))
    assert float(objective(Fixed(), batch, Clock())["loss"].total) == pytest.approx(want, rel=1e-5)


def test_a_context_without_tokens_has_no_answer(setting: tuple[Any, SpanAnswer]) -> None:
    model, objective = setting
    rows = [example(2, 0, []), example(0, 3, [])]
    found = objective.predict(model, collate([objective.prepare(row, None, None) for row in rows]), GreedySearch())
    assert found[0].first == -1


def test_what_does_not_fit_is_refused() -> None:
    wrong = Info({**INFO.fields, "answer": LabelField("answer", 2)}, data="synthetic")
    for build in (partial(SpanAnswer, wrong, 8), partial(SpanExtractor, wrong, dim=8)):
        with pytest.raises(ValueError, match=r"field 'answer' of the data \(synthetic\) has the kind 'label', expected 'span'"):
            build()
    with pytest.raises(ValueError, match="needs a field 'answer'"):
        SpanExtractor(Info({"text": TextField("text", 9)}), dim=8)
    apart = Info({**INFO.fields, "question": TextField("question", 40, space="other")})
    with pytest.raises(ValueError, match="needs texts of one id space"):
        SpanExtractor(apart, dim=8)
    with pytest.raises(ValueError, match="the head ordinal needs ordered classes, but the field 'answer' is a span"):
        SpanExtractor(INFO, dim=8, head=OrdinalHead)
    assert SpanExtractor(INFO, dim=8).provides() == (Encodes, ExtractsSpans)
