"""Everything that is trained under one set of names: the structure's own, and ``objective.`` for what the objectives own."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Objective, Structure
from weft.core.loss import Loss
from weft.learning.sharding import is_sharded, spread


class Step(nn.Module):
    """Model and objective as one module: what data parallelism and torch.compile wrap. One per phase."""

    def __init__(self, model: Structure, objective: Objective):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch, clock: Clock) -> Loss:
        return self.objective(self.model, batch, clock)


class Network:
    """A structure with its objectives (by name; one alone has the name ``""``)."""

    def __init__(self, model: Structure, objectives: Mapping[str, Objective]):
        self.model, self.objectives = model, dict(objectives)

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        yield "", self.model
        for name, objective in self.objectives.items():
            yield f"objective.{name}." if name else "objective.", objective

    def parameters(self) -> dict[str, nn.Parameter]:
        return {prefix + n: p for prefix, module in self.modules() for n, p in module.named_parameters()}

    def buffers(self) -> dict[str, Tensor]:
        return {prefix + n: b for prefix, module in self.modules() for n, b in module.named_buffers()}

    def tensors(self) -> dict[str, Tensor]:
        """Everything a checkpoint keeps; tied weights stand under one name."""
        found: dict[str, Tensor] = {}
        seen: set[int] = set()
        for prefix, module in self.modules():
            for name, tensor in module.state_dict(keep_vars=True).items():
                if id_of(tensor) not in seen or tensor.numel() == 0:
                    seen.add(id_of(tensor))
                    found[prefix + name] = tensor.detach()
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy weights in, in place. Raises ValueError listing what is missing, extra or of another shape."""
        own = self.tensors()
        wrong = [f"missing {n}" for n in own if n not in tensors] + [f"extra {n}" for n in tensors if n not in own]
        wrong += [
            f"{n} has shape {tuple(tensors[n].shape)}, here it is {tuple(t.shape)}"
            for n, t in own.items()
            if n in tensors and tensors[n].shape != t.shape
        ]
        if wrong:
            more = f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""
            raise ValueError(f"the weights do not fit the network: {'; '.join(wrong[:8])}{more}")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(spread(tensors[name], tensor))

    def is_sharded(self) -> bool:
        """Whether each process holds a part of the weights: the modules then work within the step only."""
        return any(is_sharded(p) for p in self.parameters().values())

    def to(self, device: torch.device) -> Network:
        for _, module in self.modules():
            module.to(device)
        return self

    def train(self, mode: bool = True) -> None:
        for _, module in self.modules():
            module.train(mode)


def id_of(tensor: Tensor) -> int:
    """Equal for tensors that are the same numbers in memory. A process may hold nothing of a sharded one, so that is itself."""
    if is_sharded(tensor):
        return id(tensor)
    return hash((tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape)))


def picked(names: Iterable[str], globs: Iterable[str]) -> list[str]:
    """The names that a list of globs picks."""
    return [name for name in names if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]


def taken_from(own: Iterable[str], old: Iterable[str], start: Mapping[str, str]) -> dict[str, str]:
    """Which names of an earlier stage stand for which own ones, by globs: own -> old. ``*`` is the same text on both sides."""
    own, old, taken = list(own), set(old), dict[str, str]()
    for new_glob, old_glob in start.items():
        if new_glob.count("*") != old_glob.count("*"):
            raise ValueError(f"start: {new_glob!r} and {old_glob!r} must have the same number of *")
        pattern = re.compile("(.*)".join(map(re.escape, new_glob.split("*"))))
        hits = 0
        for name in own:
            if not (match := pattern.fullmatch(name)):
                continue
            parts = iter(match.groups())
            source = "".join(next(parts) if c == "*" else c for c in old_glob)
            if source in old:
                taken[name] = source
                hits += 1
        if not hits:
            tops = ({f"{name.partition('.')[0]}.*" for name in names} for names in (own, old))
            here, there = (", ".join(sorted(some)) for some in tops)
            raise ValueError(
                f"start: {new_glob!r} from {old_glob!r} takes nothing from the stage before (here: {here}; there: {there})"
            )
    return taken


def take_weights(network: Network, old: Mapping[str, Tensor], start: Mapping[str, str]) -> dict[str, str]:
    """Copy weights of an earlier stage, those that ``taken_from`` finds; returns new name -> old name."""
    own, taken = network.tensors(), taken_from(network.tensors(), old, start)
    for name, source in taken.items():
        if old[source].shape != own[name].shape:
            raise ValueError(
                f"start: {name} has shape {tuple(own[name].shape)}, {source} of the stage before {tuple(old[source].shape)}"
            )
        with torch.no_grad():
            own[name].copy_(old[source])
    return taken
