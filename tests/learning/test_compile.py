"""torch.compile: the training step is one graph for all batch sizes and gives the same values."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from weft.blocks import MeanPooler, SinusoidalPositionEmbedder, SumEmbedder, TokenEmbedder, Transformer, TransformerDecoder
from weft.core.batch import Clock, collate
from weft.core.fields import Info, LabelField, TextField
from weft.learning import TrainingStep
from weft.learning import active_phase as active_module
from weft.models import Classifier, LanguageModel, Seq2Seq
from weft.objectives import Classification, NextToken

WORDS = partial(SumEmbedder, parts=[TokenEmbedder, SinusoidalPositionEmbedder])
PAIR = Info({"source": TextField("source", 17), "target": TextField("target", 17)}, target="target")
TEXT = Info({"text": TextField("text", 17), "label": LabelField("label", 3)})
CASES = {
    "seq2seq": (PAIR, partial(Seq2Seq, dim=8, embedder=WORDS, encoder=Transformer, decoder=TransformerDecoder), NextToken),
    "language model": (TEXT, partial(LanguageModel, dim=8, embedder=WORDS), NextToken),
    "classifier": (TEXT, partial(Classifier, dim=8, encoder=Transformer, pooler=MeanPooler), Classification),
}


@pytest.mark.parametrize("case", CASES)
def test_a_compiled_step_equals_the_eager_one(case, monkeypatch):
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda step: real(step, backend=backend, fullgraph=True))
    torch._dynamo.reset()
    info, structure, build = CASES[case]
    torch.manual_seed(0)
    model = structure(info)
    objective = build(info, model.dim)
    step = TrainingStep(model, objective)
    fast = active_module.compile_step(step)
    rng = np.random.default_rng(0)
    for rows, shortest in ((3, 4), (5, 6), (4, 9)):
        instances = [objective.prepare(info.synthetic_example(rng, shortest + i), rng, None) for i in range(rows)]
        batch = collate(instances)
        plain, quick = step(batch, Clock()), fast(batch, Clock())
        assert plain.keys() == quick.keys()
        for name in plain:
            torch.testing.assert_close(quick[name].total, plain[name].total)
            assert quick[name].count == plain[name].count
    assert len(graphs) == 1
