"""A phase of training: which objective trains which parameters, how, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from weft.core.contracts import Constraint, Optimizer, Schedule
from weft.core.options import Count, Natural, NonNegative
from weft.core.registry import Build, block, slot

When = Natural | dict[Literal["epochs"], Natural]
"""A number of steps, or {epochs: n}."""


def phase_names(phases: Sequence[Phase]) -> list[str]:
    """Return a name for each phase: its objective or source, ``main`` for a single one, else its number."""
    names: list[str] = []
    for i, phase in enumerate(phases):
        name = phase.objective or phase.data or ("main" if len(phases) == 1 else f"phase-{i}")
        names.append(name if name not in names else f"{name}-{i}")
    return names


@block("phase")
@slot
class Phase:
    """One update of a training step: the parameters that it trains, with their objective and optimizer.

    A step runs every phase once, in order. Ordinary training has one phase. Adversarial training alternates between several, each
    with its objective, parameters and optimizer. Parameters and buffers that a phase does not train stay bit-identical.

    Goodfellow et al. 2014, https://arxiv.org/abs/1406.2661 (two phases, the first repeated k times)

    Args:
        objective: Name of an objective of the recipe; None = the only one.
        train: Globs of the parameters to train, e.g. ``[encoder.*]``.
        optimizer: The optimizer; None = that of ``learning``.
        schedule: The learning-rate schedule; None = that of ``learning``.
        lr_factors: Factors of the learning rate by parameter globs; None = those of ``learning``.
        clip: Maximum gradient norm; 0 = no clipping; None = that of ``learning``.
        accumulate: Batches per update (gradient accumulation); None = that of ``learning``.
        data: Name of a source of the recipe to train on; None = the only one.
        split: Split of the source to train on.
        repeat: Updates per step.
        every: Run in every n-th step, or {epochs: n}.
        start: First step of the phase, or {epochs: n}.
        reuse: Updates on the same batches, as in PPO.
        constrain: Constraints on the parameters after each update, e.g. weight clipping (WGAN).

    Example:
        >>> Phase(train=["discriminator.*"], repeat=5).repeat
        5
    """

    def __init__(
        self,
        *,
        objective: str | None = None,
        train: list[str] = ["*"],
        optimizer: Build[Optimizer] | None = None,
        schedule: Build[Schedule] | None = None,
        lr_factors: dict[str, NonNegative] | None = None,
        clip: NonNegative | None = None,
        accumulate: Count | None = None,
        data: str | None = None,
        split: str = "train",
        repeat: Count = 1,
        every: When = 1,
        start: When = 0,
        reuse: Count = 1,
        constrain: list[Build[Constraint]] | None = None,
    ):
        self.objective, self.train, self.data, self.split = objective, train, data, split
        self.optimizer, self.schedule, self.clip, self.accumulate = optimizer, schedule, clip, accumulate
        self.lr_factors = lr_factors
        self.repeat, self.every, self.start, self.reuse = repeat, every, start, reuse
        self.constrain = [build() for build in constrain or []]
        for option, when in (("every", every), ("start", start)):
            if isinstance(when, dict) and set(when) != {"epochs"}:
                raise ValueError(f"{option} must be a number of steps or {{epochs: n}}, not {when}")
        if not train:
            raise ValueError("train is empty, so the phase would train no parameter; use globs such as encoder.*")
        if every == 0 or every == {"epochs": 0}:
            raise ValueError("every is 0, so the phase would never run; use 1 or more")

    @property
    def dataset(self) -> str:
        """The name of the examples that it trains on: that of the split, after that of the source if it has one."""
        return self.split if self.data is None else f"{self.data}.{self.split}"
