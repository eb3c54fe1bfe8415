"""The shipped recipes for labels and tags: their parts fit each other, without their data being there."""

from __future__ import annotations

import pytest

from weft.core.batch import Clock
from weft.training.build import build_network, plans
from weft.training.dry_run import synthetic_batch
from weft.training.recipes import read_run

TERMS = {"classify": {"loss"}, "tag": {"loss"}, "tag-and-read": {"tagging", "reading"}}


@pytest.mark.parametrize("name", TERMS)
def test_parts_fit(name, monkeypatch):
    monkeypatch.delenv("WEFT_DATA", raising=False)
    plan = plans(read_run(name, files=False))[0]
    info = plan.data().declare()
    network = build_network(plan, {"": info}, 1, "meta")
    (objective,) = network.objectives.values()
    batch = synthetic_batch(info, objective, 64)
    loss = objective(network.model, batch.to("meta"), Clock())
    assert set(loss) == TERMS[name]
    loss.mean().backward()
    idle = [name for name, parameter in network.parameters().items() if parameter.grad is None]
    assert not idle
    assert {key: term.count for key, term in loss.items()} == objective.counts(batch)
