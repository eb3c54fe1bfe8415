"""Model and objectives under one set of parameter names, and the transfer of weights between stages."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Clock
from weft.core.contracts import Objective, Structure
from weft.core.loss import Loss
from weft.learning.sharding import is_sharded, shard_like


class TrainingStep(nn.Module):
    """Model and objective as one module, which data parallelism and ``torch.compile`` wrap. One per phase.

    Args:
        model: The structure.
        objective: Computes the loss.
    """

    def __init__(self, model: Structure, objective: Objective):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch, clock: Clock) -> Loss:
        return self.objective(self.model, batch, clock)


class Network:
    """A model with its objectives.

    Parameters of the model keep their names; those of an objective start with ``objective.`` or ``objective.<name>.``.

    Args:
        model: The structure.
        objectives: Objectives by name; a single one has the name ``""``.
    """

    def __init__(self, model: Structure, objectives: Mapping[str, Objective]):
        self.model, self.objectives = model, dict(objectives)

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield the model and the objectives, each with the prefix of its parameter names."""
        yield "", self.model
        for name, objective in self.objectives.items():
            yield f"objective.{name}." if name else "objective.", objective

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return all parameters by name."""
        return {prefix + n: p for prefix, module in self.modules() for n, p in module.named_parameters()}

    def buffers(self) -> dict[str, Tensor]:
        """Return all buffers by name."""
        return {prefix + n: b for prefix, module in self.modules() for n, b in module.named_buffers()}

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint by name; tied weights have one name."""
        found: dict[str, Tensor] = {}
        seen: set[int] = set()
        for prefix, module in self.modules():
            for name, tensor in module.state_dict(keep_vars=True).items():
                if storage_id(tensor) not in seen or tensor.numel() == 0:
                    seen.add(storage_id(tensor))
                    found[prefix + name] = tensor.detach()
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy weights in place. Raises ValueError with the tensors that are missing, unexpected or of a different shape."""
        own = self.tensors()
        wrong = [f"missing {n}" for n in own if n not in tensors] + [f"unexpected {n}" for n in tensors if n not in own]
        wrong += [
            f"{n} has shape {tuple(tensors[n].shape)}, expected {tuple(t.shape)}"
            for n, t in own.items()
            if n in tensors and tensors[n].shape != t.shape
        ]
        if wrong:
            more = f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""
            raise ValueError(f"the weights do not match the network: {'; '.join(wrong[:8])}{more}")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(shard_like(tensors[name], tensor))

    def is_sharded(self) -> bool:
        """Return whether each process holds only a shard of the weights; the modules then work only within the step."""
        return any(is_sharded(p) for p in self.parameters().values())

    def to(self, device: torch.device) -> Network:
        """Move all modules to a device."""
        for _, module in self.modules():
            module.to(device)
        return self

    def train(self, mode: bool = True) -> None:
        """Set training or evaluation mode."""
        for _, module in self.modules():
            module.train(mode)


def storage_id(tensor: Tensor) -> int:
    """Return an id that is equal for tensors that share memory. A sharded tensor may be empty here, so it has its own id."""
    if is_sharded(tensor):
        return id(tensor)
    return hash((tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape)))


def match_globs(names: Iterable[str], globs: Iterable[str]) -> list[str]:
    """Return the names that match at least one glob."""
    return [name for name in names if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]


def match_weights(own: Iterable[str], old: Iterable[str], start: Mapping[str, str]) -> dict[str, str]:
    """Match the weights of a stage with those of the previous stage. Returns own name -> old name.

    Args:
        own: Names of the stage.
        old: Names of the previous stage.
        start: Globs of own names -> globs of old names; ``*`` stands for the same text in both.
    """
    own, old, matched = list(own), set(old), dict[str, str]()
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
                matched[name] = source
                hits += 1
        if not hits:
            here, there = (", ".join(sorted({f"{name.partition('.')[0]}.*" for name in names})) for names in (own, old))
            raise ValueError(
                f"start: {new_glob!r} from {old_glob!r} matches no weight of the previous stage "
                f"(this stage: {here}; previous stage: {there})"
            )
    return matched


def transfer_weights(network: Network, old: Mapping[str, Tensor], start: Mapping[str, str]) -> dict[str, str]:
    """Initialize weights from the previous stage, as ``match_weights`` matches them. Returns own name -> old name."""
    own, matched = network.tensors(), match_weights(network.tensors(), old, start)
    for name, source in matched.items():
        if old[source].shape != own[name].shape:
            raise ValueError(
                f"start: {name} has shape {tuple(own[name].shape)}, but {source} of the previous stage has shape "
                f"{tuple(old[source].shape)}"
            )
        with torch.no_grad():
            own[name].copy_(old[source])
    return matched
