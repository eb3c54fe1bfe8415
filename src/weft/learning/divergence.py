"""Detection of a training loss that diverges."""

from __future__ import annotations

from dataclasses import dataclass

FACTOR = 10.0
"""A loss this many times as large as the first one has diverged."""
_DECAY = 0.9


@dataclass
class LossTrend:
    """The first training loss and an exponential moving average of the losses, to detect divergence.

    m_t = 0.9 m_(t-1) + 0.1 loss_t, m_0 = loss_0;  diverged if m_t > 10 max(1, loss_0)

    The first loss is that of the untrained network, so a loss far above it is worse than no training. Losses near 0 are compared
    with 1, because their ratio means little.

    Attributes:
        first: Loss of the first update; None = no update yet.
        smoothed: Moving average of the losses.
        step: Step at which the loss had diverged; None = it has not.

    Example:
        >>> trend = LossTrend()
        >>> [trend.add(loss, step) for step, loss in enumerate([2.0, 1.5, 900.0, 900.0])]
        [False, False, True, False]
        >>> trend.step, trend.is_diverged
        (2, True)
    """

    first: float | None = None
    smoothed: float = 0.0
    step: int | None = None

    def add(self, loss: float, step: int) -> bool:
        """Add the loss of an update. Returns whether it diverges for the first time."""
        self.smoothed = loss if self.first is None else _DECAY * self.smoothed + (1 - _DECAY) * loss
        self.first = loss if self.first is None else self.first
        starts = self.step is None and self.is_diverged
        self.step = step if starts else self.step
        return starts

    @property
    def is_diverged(self) -> bool:
        """Whether the average is far above the first loss."""
        return self.first is not None and self.smoothed > FACTOR * max(1.0, self.first)

    def problem(self, lr: float) -> str:
        """Return what is wrong and what to do. ``lr``: the peak learning rate."""
        return (
            f"the training loss diverges: {self.smoothed:.4g} on average, but {self.first or 0:.4g} in the first update; lower "
            f"the learning rate (learning.optimizer.lr is {lr:g}), or add a warmup to the schedule"
        )
