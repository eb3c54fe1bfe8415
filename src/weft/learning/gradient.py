"""Training by gradient descent: its options. The training loop is in ``loop.py``."""

from __future__ import annotations

from typing import Literal

from weft.core.contracts import Learning, Optimizer, Schedule, Sync
from weft.core.options import Count, Natural, NonNegative
from weft.core.registry import Build, block
from weft.learning.averaging import EMA
from weft.learning.optimizers import Adam
from weft.learning.phase import Phase
from weft.learning.schedules import ConstantSchedule


@block("gradient")
class Gradient(Learning):
    """Training by gradient descent.

    g = sum_k w_k grad(total_k) / N_k over all micro-batches of the update;  clip g;  theta <- optimizer(theta, g, lr * schedule)

    Robbins & Monro 1951; clipping: Pascanu et al. 2013, https://arxiv.org/abs/1211.5063

    Args:
        steps: Number of steps. A step is one pass over the phases; with one phase it is one optimizer step.
        batch_tokens: Token budget of a batch; examples of similar length are batched together.
        accumulate: Batches per update (gradient accumulation).
        optimizer: The optimizer.
        schedule: Learning-rate schedule, as a factor of the optimizer's ``lr``.
        lr_factors: Factors of the learning rate by parameter globs, first match wins: lower for lower layers (discriminative
            fine-tuning, Howard and Ruder 2018, section 3.2), 0 to freeze; None = 1 for all parameters.
        clip: Maximum gradient norm; 0 = no clipping.
        phases: Alternating updates with their own objective and parameters; None = one phase that trains all parameters.
        ema: Exponential moving average of the weights, used for evaluation and as final weights; None = off.
        average: Use the mean of this many last checkpoints as final weights; 0 = off.
        final: Which weights are final: those of the last step, or the best in evaluation.
        save_every: Steps between checkpoints; 0 = only at the end.
        keep: Number of checkpoints to keep, in addition to the best one.
        log_every: Steps between log entries.
        patience: Early stopping: stop after this many evaluations without improvement; 0 = off.
        on_nonfinite: On a non-finite loss or gradient: stop, skip the update, or roll back to the last checkpoint and leave those
            examples out.
        max_skips: Maximum number of skipped updates or rollbacks before training stops.
        compile: Compile the training step with ``torch.compile``.
        sync: Gradient synchronization of several processes; None = ddp, or all-reduce where phases share parameters.

    Example:
        >>> from functools import partial
        >>> Gradient(steps=100, batch_tokens=512).keep
        3
    """

    def __init__(
        self,
        *,
        steps: Count,
        batch_tokens: Count = 2000,
        accumulate: Count = 1,
        optimizer: Build[Optimizer] = Adam,
        schedule: Build[Schedule] = ConstantSchedule,
        lr_factors: dict[str, NonNegative] | None = None,
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
        max_skips: Count = 10,
        compile: bool = False,
        sync: Build[Sync] | None = None,
    ):
        if average > keep:
            raise ValueError(f"average is {average}, but keep is {keep}; averaging needs keep of at least {average}")
        if average and ema is not None:
            raise ValueError("ema and average both define the final weights; choose one")
        if final == "best" and (average or ema is not None):
            raise ValueError("final: best uses the weights of one checkpoint, ema and average a mean of several; choose one")
        self.steps, self.batch_tokens, self.accumulate = steps, batch_tokens, accumulate
        self.optimizer, self.schedule, self.lr_factors, self.clip = optimizer, schedule, lr_factors or {}, clip
        self.phases = [build() for build in phases or [Phase]]
        self.ema, self.average, self.final = ema, average, final
        self.save_every, self.keep, self.log_every, self.patience = save_every, keep, log_every, patience
        self.on_nonfinite, self.max_skips, self.compile, self.sync = on_nonfinite, max_skips, compile, sync
