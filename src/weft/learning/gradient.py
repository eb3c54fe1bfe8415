"""Learning by gradient descent: its choices. The loop is in loop.py."""

from __future__ import annotations

from typing import Literal

from weft.core.contracts import Learning, Optimizer, Schedule, Sync
from weft.core.options import Count, Natural, NonNegative
from weft.core.registry import Build, block
from weft.learning.averaging import EMA
from weft.learning.optimizers import Adam
from weft.learning.phase import Phase
from weft.learning.schedules import Constant


@block("gradient")
class Gradient(Learning):
    """Move the weights against the gradient, update by update.

    g = sum_k w_k grad(total_k) / N_k over all micro-batches of the update;  clip g;  theta <- optimiser(theta, g, lr * schedule)

    Robbins & Monro 1951; clipping: Pascanu et al. 2013, https://arxiv.org/abs/1211.5063

    Args:
        steps: Rounds to train; with one phase a round is an update.
        batch: Tokens per batch: rows of similar length are put together up to this budget.
        accumulate: Batches per update.
        optimizer: How gradients become steps.
        schedule: The learning rate over time, as a factor of the optimiser's.
        rates: Factors of the learning rate by globs of parameters, of which the first that fits counts: lower for lower layers
            (Howard & Ruder 2018, section 3.2), 0 for what is frozen; none = 1 for all.
        clip: Largest norm of the gradient; 0 = no clipping.
        phases: Kinds of update that alternate; none = one phase that trains everything.
        ema: A moving average of the weights, used for evaluation and as the final weights; none = without.
        average: Final weights are the mean of this many last checkpoints; 0 = of none.
        final: Which weights are the final ones, the last or the best in evaluation.
        save_every: Rounds between checkpoints; 0 = only the last.
        keep: Checkpoints kept, the best one besides.
        log_every: Rounds between lines of the log.
        patience: Stop after this many evaluations without improvement; 0 = never.
        on_nonfinite: A loss or gradient that is not finite: stop there, skip the update, or go back to the last checkpoint
            and leave those rows out.
        most_skips: Skipped updates or rollbacks before training stops all the same.
        compile: Compile the step with torch.compile.
        sync: How several processes (torchrun) exchange gradients; none = ddp, or all-reduce where phases train the same
            parameters.

    Example:
        >>> from functools import partial
        >>> Gradient(steps=100, batch=512).keep
        3
    """

    def __init__(
        self,
        *,
        steps: Count,
        batch: Count = 2000,
        accumulate: Count = 1,
        optimizer: Build[Optimizer] = Adam,
        schedule: Build[Schedule] = Constant,
        rates: dict[str, NonNegative] | None = None,
        clip: NonNegative = 1.0,
        phases: list[Build[Phase]] | None = None,
        ema: Build[EMA] | None = None,
        average: Natural = 0,
        final: Literal["last", "best"] = "last",
        save_every: Natural = 1000,
        keep: Count = 3,
        log_every: Count = 10,
        patience: Natural = 0,
        on_nonfinite: Literal["stop", "skip", "rollback"] = "stop",
        most_skips: Count = 10,
        compile: bool = False,
        sync: Build[Sync] | None = None,
    ):
        if average > keep:
            raise ValueError(f"the mean of the last {average} checkpoints needs keep of at least {average}, it is {keep}")
        if average and ema is not None:
            raise ValueError("ema and average both decide the final weights: choose one")
        if final == "best" and (average or ema is not None):
            raise ValueError("final: best takes one checkpoint's weights; ema and average are means of several: choose one")
        self.steps, self.batch, self.accumulate = steps, batch, accumulate
        self.optimizer, self.schedule, self.rates, self.clip = optimizer, schedule, rates or {}, clip
        self.phases = [build() for build in phases or [Phase]]
        self.ema, self.average, self.final = ema, average, final
        self.save_every, self.keep, self.log_every, self.patience = save_every, keep, log_every, patience
        self.on_nonfinite, self.most_skips, self.compile, self.sync = on_nonfinite, most_skips, compile, sync
