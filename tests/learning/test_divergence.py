"""A training loss that diverges is noticed once, also after a resume; ordinary losses are not."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from weft.learning.divergence import LossTrend
from weft.learning.progress import Progress


@pytest.mark.parametrize(
    ("losses", "diverged"),
    [
        ([0.7, 0.5, 0.3] * 30, False),
        ([0.01] + [5.0] * 50, False),  # losses near 0 are compared with 1
        ([0.69] + [60.0] + [0.5] * 50, False),  # one bad batch
        ([4e4, 2e4, 1e4], False),  # large, but falling
        ([-3.0, -4.0, -9.0], False),
        ([0.69] + [7.5] * 80, False),  # 7.5 is below 10
        ([0.69] + [11.0] * 80, True),
        ([2.0, 1e17], True),
        ([5.0] + [60.0] * 80, True),
    ],
)
def test_a_loss_diverges_when_its_average_is_ten_times_the_first(losses: list[float], diverged: bool) -> None:
    trend = LossTrend()
    told = [step for step, loss in enumerate(losses, 1) if trend.add(loss, step)]
    assert (len(told) == 1) == diverged and trend.step == (told[0] if told else None)
    assert trend.is_diverged == diverged


def test_the_average_is_part_of_a_checkpoint() -> None:
    whole, progress = LossTrend(), Progress()
    for step, loss in enumerate([1.0, 3.0, 70.0, 90.0], 1):
        whole.add(loss, step)
        progress.trend.add(loss, step)
        progress = Progress(**asdict(progress))
    assert progress.trend == whole and whole.step is not None


def test_a_loss_that_recovers_is_not_diverged_at_the_end() -> None:
    trend = LossTrend()
    for step, loss in enumerate([1.0] + [100.0] * 5 + [0.5] * 60, 1):
        trend.add(loss, step)
    assert trend.step is not None and not trend.is_diverged
