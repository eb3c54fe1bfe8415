"""Training by gradient descent: its options. The training loop is in ``loop.py``."""

from __future__ import annotations

import math
from typing import Literal

from weft.core.contracts import Learning, Optimizer, Schedule, Sync
from weft.core.options import Count, Natural, NonNegative, OptionError, Positive
from weft.core.registry import Build, block
from weft.learning.averaging import EMA
from weft.learning.optimizers import Adam
from weft.learning.phase import Phase
from weft.learning.schedules import ConstantSchedule

DEFAULT_BATCH_TOKENS = 2000


@block("gradient")
class Gradient(Learning):
    """Training by gradient descent.

    g = sum_k w_k grad(total_k) / N_k over all micro-batches of the update;  clip g;  theta <- optimizer(theta, g, lr * schedule)

    Robbins & Monro 1951; clipping: Pascanu et al. 2013, https://arxiv.org/abs/1211.5063

    Args:
        steps: Number of steps. A step is one pass over the phases; with one phase it is one optimizer step. Set steps or epochs.
        epochs: Passes over the training data of the first phase, instead of ``steps``.
        batch_tokens: Token budget of a batch; examples of similar length are batched together. None = 2,000 tokens, unless
            ``batch_size`` is set.
        batch_size: Examples of a batch, instead of ``batch_tokens``.
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
        steps: Count | None = None,
        epochs: Positive | None = None,
        batch_tokens: Count | None = None,
        batch_size: Count | None = None,
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
        _check_exclusive(steps, epochs, batch_tokens, batch_size)
        self.total_steps = steps
        """Number of steps; with ``epochs``, None until the batches of an epoch are known."""
        self.epochs, self.batch_tokens, self.batch_size = epochs, batch_tokens or DEFAULT_BATCH_TOKENS, batch_size
        self.accumulate = accumulate
        self.optimizer, self.schedule, self.lr_factors, self.clip = optimizer, schedule, lr_factors or {}, clip
        self.phases = [build() for build in phases or [Phase]]
        self.ema, self.average, self.final = ema, average, final
        self.save_every, self.keep, self.log_every, self.patience = save_every, keep, log_every, patience
        self.on_nonfinite, self.max_skips, self.compile, self.sync = on_nonfinite, max_skips, compile, sync

    @property
    def steps(self) -> int:
        """Number of steps. Raises ValueError before ``resolve_epochs`` if only the number of epochs is known."""
        if self.total_steps is None:
            raise ValueError("the number of steps follows from epochs and the training data, which has not been opened")
        return self.total_steps

    def resolve_epochs(self, batches: int) -> float:
        """Compute ``steps`` from ``epochs``. Returns the steps per epoch: of the data of the first phase.

        Args:
            batches: Batches per epoch of the first phase.

        Example:
            >>> learning = Gradient(epochs=3, accumulate=2)
            >>> learning.resolve_epochs(5), learning.steps
            (2.5, 8)
        """
        first = self.phases[0]
        every = first.every if isinstance(first.every, int) else 1
        per_epoch = batches * every / ((first.accumulate or self.accumulate) * first.repeat)
        if self.epochs is not None:
            self.total_steps = max(1, math.ceil(self.epochs * per_epoch - 1e-9))
        return per_epoch


def _check_exclusive(steps: int | None, epochs: float | None, batch_tokens: int | None, batch_size: int | None) -> None:
    """Raise OptionError unless the length of training is given once, and the size of a batch at most once."""
    if steps is None and epochs is None:
        raise OptionError("steps", "the length of training is missing; set steps or epochs")
    if steps is not None and epochs is not None:
        raise OptionError(
            "epochs", f"steps is {steps} and epochs is {epochs:g}, but only one of them can be set; set the other to null"
        )
    if batch_tokens is not None and batch_size is not None:
        raise OptionError(
            "batch_size",
            f"batch_tokens is {batch_tokens} and batch_size is {batch_size}, but only one of them can be set: tokens or examples "
            "per batch; set the other to null",
        )
