"""Build the networks of all stages of a run, for figures and parameter counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.data.several import merge
from weft.inspect.architecture import StageNetwork
from weft.inspect.diagram.describe import kind_of
from weft.pretrained.empty_init import SkipInit
from weft.training.build import build_network, plans
from weft.training.sources import declare

if TYPE_CHECKING:
    from weft.training.run import Run

SMALL = 2**25
"""Networks of at most this size are built on the CPU: the first operation on the meta device imports torch's compiler, which
takes several seconds."""


def stage_networks(run: Run) -> list[StageNetwork]:
    """Build model and objectives of every stage, without reading data. Raises RecipeError for parts that cannot be built."""
    found: list[StageNetwork] = []
    for plan in plans(run):
        infos = declare(plan)
        with SkipInit():
            network = build_network(plan, infos, run.seed, "meta")
        if sum(p.numel() for p in network.parameters().values()) <= SMALL:
            network = build_network(plan, infos, run.seed)
        found.append(StageNetwork(network.model, network.objectives, merge(infos), plan.name, kind_of(network.model)))
    return found
