"""A phase: which objective moves which parameters, how, and how often."""

from __future__ import annotations

from typing import Literal

from weft.core.contracts import Constraint, Optimizer, Schedule
from weft.core.options import Count, Natural, NonNegative
from weft.core.registry import Build, block, slot

When = Natural | dict[Literal["epochs"], Natural]
"""A number of rounds, or {epochs: n}."""


@block("phase")
@slot
class Phase:
    """One kind of update; a round is one pass over the phases.

    Plain training is one phase. Adversarial training is a list of them: each has its objective, its parameters and its
    optimiser, and what it does not train stays bit-identical, buffers too.

    Goodfellow et al. 2014, https://arxiv.org/abs/1406.2661 (two phases, the first repeated k times)

    Args:
        objective: The name of one of the recipe's objectives; none is needed when there is only one.
        train: Globs of the parameters that this phase moves, e.g. ``[encoder.*]``.
        optimizer: Its optimiser; none = the learning's.
        schedule: Its schedule; none = the learning's.
        lr_factors: Factors of the learning rate by parameter globs; None = those of the learning.
        clip: Largest norm of the gradient, 0 = no clipping; none = the learning's.
        accumulate: Batches per update; none = the learning's.
        data: The split it draws from.
        repeat: Updates per round.
        every: Runs in every so-many-th round, or {epochs: n}.
        start: First round in which it runs, or {epochs: n}.
        reuse: Updates on the same batches (PPO).
        constrain: Applied to its parameters after each step, e.g. WGAN's clipping.

    Example:
        >>> Phase(train=["critic.*"], repeat=5).repeat
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
        data: str = "train",
        repeat: Count = 1,
        every: When = 1,
        start: When = 0,
        reuse: Count = 1,
        constrain: list[Build[Constraint]] | None = None,
    ):
        self.objective, self.train, self.data = objective, train, data
        self.optimizer, self.schedule, self.clip, self.accumulate = optimizer, schedule, clip, accumulate
        self.lr_factors = lr_factors
        self.repeat, self.every, self.start, self.reuse = repeat, every, start, reuse
        self.constrain = [build() for build in constrain or []]
        for option, when in (("every", every), ("start", start)):
            if isinstance(when, dict) and set(when) != {"epochs"}:
                raise ValueError(f"{option} is a number of rounds or {{epochs: n}}, not {when}")
        if not train:
            raise ValueError("train is an empty list: the phase would move nothing; give globs such as encoder.*")
        if every == 0 or every == {"epochs": 0}:
            raise ValueError("every is 0: the phase would never run; leave it out, or give 1 or more")
