"""State of a training loop as checkpoint files: weights, optimizer states, moving average, progress. All tensors are full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from weft.learning.active_phase import ActivePhase
from weft.learning.averaging import EMA
from weft.learning.network import Network
from weft.learning.optimizers import flatten_state, restore_state
from weft.learning.progress import Progress
from weft.learning.sharding import full_tensors, shard_like

Files = dict[str, dict[str, Tensor]]


def take_snapshot(
    network: Network, phases: Sequence[ActivePhase], ema: EMA | None, progress: Progress
) -> tuple[Files, dict[str, Any]]:
    """Return the files of a checkpoint: tensors by file and name, and JSON documents by file."""
    tensors = {"model.safetensors": full_tensors(network.tensors())}
    rest: dict[str, Any] = {}
    for phase in phases:
        names = {p: n for n, p in phase.parameters.items()}
        state, rest[phase.name] = flatten_state(phase.optimizer, names)
        tensors[f"optimizer-{phase.name}.safetensors"] = full_tensors(state)
    if ema:
        tensors["ema.safetensors"] = full_tensors(ema.state_dict())
    return tensors, {"state.json": {"progress": asdict(progress), "optimizers": rest}}


def restore_snapshot(
    network: Network, phases: Sequence[ActivePhase], ema: EMA | None, tensors: Files, documents: dict[str, Any]
) -> Progress:
    """Load the files that ``take_snapshot`` returned. Returns the progress of training at that time."""
    state = documents["state.json"]
    network.load(tensors["model.safetensors"])
    for phase in phases:
        names = {p: n for n, p in phase.parameters.items()}
        stored = tensors[f"optimizer-{phase.name}.safetensors"]
        own = {n: _sharded(t, phase.parameters.get(n.rpartition("/")[0])) for n, t in stored.items()}
        restore_state(phase.optimizer, names, own, state["optimizers"][phase.name])
    if ema:
        weights = network.tensors()
        ema.load_state_dict({n: _sharded(t, weights.get(n.partition("/")[2])) for n, t in tensors["ema.safetensors"].items()})
    return Progress(**state["progress"])


def _sharded(full: Tensor, like: Tensor | None) -> Tensor:
    """Shard a tensor as the weight that it belongs to. Others, such as step counters, are replicated."""
    return full if like is None or like.shape != full.shape else shard_like(full, like)
