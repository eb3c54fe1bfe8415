"""Loss totals of an evaluation stay on the device until the last batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from weft.blocks import LSTM, AttentionLSTM
from weft.core.batch import Clock
from weft.data import Dates, evaluation_batches
from weft.evaluate import Evaluation
from weft.models import Seq2Seq
from weft.objectives import NextToken


class FloatReads(TorchFunctionMode):
    """Counts the reads of floating-point tensors by the host."""

    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("item", "tolist", "__float__", "numpy") and args[0].is_floating_point():
            self.calls += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def setup() -> Any:
    torch.manual_seed(0)
    corpus = Dates(train=4, valid=40, test=4).open()
    model = Seq2Seq(corpus.codec.info, dim=8, encoder=partial(LSTM, layers=1), decoder=AttentionLSTM)
    return model.eval(), NextToken(corpus.codec.info, model.dim).eval(), corpus.splits["valid"], corpus.codec


@pytest.mark.parametrize("batch_tokens", [4000, 200])
def test_the_number_of_device_reads_does_not_depend_on_the_number_of_batches(setup, batch_tokens):
    model, objective, dataset, codec = setup
    with FloatReads() as reads:
        Evaluation(batch_tokens=batch_tokens).evaluate(model, objective, dataset, codec, torch.device("cpu"))
    assert reads.calls == 1


def test_the_loss_equals_the_sum_of_item_over_the_batches(setup):
    model, objective, dataset, codec = setup
    total, count, batches = 0.0, 0, list(evaluation_batches(dataset, objective, 200, (0,)))
    for batch in batches:
        with torch.inference_mode():
            term = objective(model, batch, Clock())["loss"]
        total, count = total + term.total.item(), count + term.count
    assert len(batches) > 3
    result = Evaluation(batch_tokens=200).evaluate(model, objective, dataset, codec, torch.device("cpu"))
    # evaluation may use another layout of the weights, whose products round differently
    assert result.metric_values["loss"] == pytest.approx(total / count, rel=1e-6)
