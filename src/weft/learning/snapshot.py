"""A loop as files, and back: weights, optimisers, moving average and where training stands. All tensors are whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from weft.learning.active_phase import Active
from weft.learning.averaging import EMA
from weft.learning.network import Network
from weft.learning.optimizers import flatten_state, restore_state
from weft.learning.progress import Progress
from weft.learning.sharding import gathered_all, spread

Files = dict[str, dict[str, Tensor]]


def pack(network: Network, phases: Sequence[Active], ema: EMA | None, progress: Progress) -> tuple[Files, dict[str, Any]]:
    """Tensors by file and name, and documents by file."""
    tensors = {"model.safetensors": gathered_all(network.tensors())}
    rest: dict[str, Any] = {}
    for phase in phases:
        names = {p: n for n, p in phase.parameters.items()}
        state, rest[phase.name] = flatten_state(phase.optimizer, names)
        tensors[f"optimizer-{phase.name}.safetensors"] = gathered_all(state)
    if ema:
        tensors["ema.safetensors"] = gathered_all(ema.state())
    return tensors, {"state.json": {"progress": asdict(progress), "optimizers": rest}}


def unpack(network: Network, phases: Sequence[Active], ema: EMA | None, tensors: Files, documents: dict[str, Any]) -> Progress:
    """Go on from what ``pack`` gave: where training stood then."""
    state = documents["state.json"]
    network.load(tensors["model.safetensors"])
    for phase in phases:
        names = {p: n for n, p in phase.parameters.items()}
        stored = tensors[f"optimizer-{phase.name}.safetensors"]
        here = {n: _laid_out(t, phase.parameters.get(n.rpartition("/")[0])) for n, t in stored.items()}
        restore_state(phase.optimizer, names, here, state["optimizers"][phase.name])
    if ema:
        own = network.tensors()
        ema.restore({n: _laid_out(t, own.get(n.partition("/")[2])) for n, t in tensors["ema.safetensors"].items()})
    return Progress(**state["progress"])


def _laid_out(whole: Tensor, like: Tensor | None) -> Tensor:
    """As the weight that it belongs to. Others, such as counters, every process has for itself."""
    return whole if like is None or like.shape != whole.shape else spread(whole, like)
