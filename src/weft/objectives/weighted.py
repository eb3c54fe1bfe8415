"""Multi-task learning: a weighted sum of objectives on one structure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Dataset, Objective, Search, Structure
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss
from weft.core.options import NonNegative
from weft.core.registry import Build, block


@block("weighted")
class Weighted(Objective[Structure]):
    """Weighted sum of several objectives, each with its own denominator.

    loss = sum_k w_k total_k / count_k

    Caruana 1997 (multi-task learning); the language model as an auxiliary loss: Radford et al. 2018.

    Args:
        parts: The objectives by name; predictions are those of the first.
        weights: Weights by the names of ``parts``; default 1.

    Example:
        >>> from functools import partial
        >>> from weft.core.fields import TextField
        >>> from weft.objectives import NextToken
        >>> both = Weighted(Info({"text": TextField("text", vocab=9)}), 8, parts={"lm": NextToken}, weights={"lm": 0.5})
        >>> both.weights
        {'lm': 0.5}
    """

    def __init__(
        self, info: Info, dim: int, *, parts: dict[str, Build[Objective]], weights: dict[str, NonNegative] | None = None
    ):
        super().__init__(info, dim)
        if not parts:
            raise ValueError("parts is empty, but must have at least one objective")
        if wrong := [name for name in parts if not name or "." in name or hasattr(nn.ModuleDict, name)]:
            raise ValueError(f"parts has the name {wrong[0]!r}, which PyTorch does not allow for a submodule; choose another one")
        if unknown := set(weights or {}) - set(parts):
            raise ValueError(f"weights for unknown parts: {', '.join(sorted(unknown))}; the parts are {', '.join(parts)}")
        self.parts = nn.ModuleDict({name: build(info, dim) for name, build in parts.items()})
        self.weights = {name: (weights or {}).get(name, 1.0) for name in parts}
        self.needs = tuple(dict.fromkeys(need for part in self._parts() for need in part.needs))
        self.fills = self._parts()[0].fills
        self.couples = any(part.couples for part in self._parts())

    def _parts(self) -> list[Objective]:
        return [part for part in self.parts.values() if isinstance(part, Objective)]

    def _named(self) -> dict[str, Objective]:
        return dict(zip(self.parts, self._parts(), strict=True))

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.max([part.cost(lengths) for part in self._parts()], axis=0)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        instances = {name: part.prepare(example, rng, pool) for name, part in self._named().items()}
        return None if any(i is None for i in instances.values()) else Instance(**instances)

    def counts(self, batch: Batch) -> dict[str, int]:
        named = self._named().items()
        return {_term_name(name, k): n for name, part in named for k, n in part.counts(batch[name]).items()}

    def forward(self, model: Structure, batch: Batch, clock: Clock) -> Loss:
        loss = Loss()
        for name, part in self._named().items():
            for key, term in part(model, batch[name], clock).items():
                loss[_term_name(name, key)] = replace(term, weight=term.weight * self.weights[name])
        return loss

    def setup(self, model: Structure, dataset: Dataset) -> None:
        for part in self._parts():
            part.setup(model, dataset)

    def observe(self, means: Mapping[str, float]) -> None:
        for name, part in self._named().items():
            own = {k: v for k, v in means.items() if k == name or k.startswith(f"{name}.")}
            part.observe({k.removeprefix(name).removeprefix(".") or "loss": v for k, v in own.items()})

    def prepare_request(self, example: Example) -> Instance | None:
        name, part = next(iter(self._named().items()))
        instance = part.prepare_request(example)
        return None if instance is None else Instance({name: instance})

    def predict(self, model: Structure, batch: Batch, search: Search) -> list[Any]:
        name, part = next(iter(self._named().items()))
        return part.predict(model, batch[name], search)

    def probabilities(self, model: Structure, batch: Batch) -> Tensor | None:
        name, part = next(iter(self._named().items()))
        return part.probabilities(model, batch[name])


def _term_name(part: str, term: str) -> str:
    return part if term == "loss" else f"{part}.{term}"
