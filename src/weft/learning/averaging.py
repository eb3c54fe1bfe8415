"""Averages of weights over time: an exponential moving average during training, a plain one of the last checkpoints after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from weft.core.options import Fraction
from weft.core.registry import block, slot

_AVERAGE, _TYPE, _UPDATES = "average/", "type/", "updates"


@block("ema")
@slot
class EMA:
    """An exponential moving average of weights.

    a_0 = w_0;  a_t = d_t a_(t-1) + (1 - d_t) w_t, with d_t = decay, or min(decay, t / (9 + t)) with ``warmup`` (t = 1, 2, ...)

    The average of half-precision weights is kept in float32, since small steps would vanish in it; ``tensors`` gives it back in
    the weights' own types. What is not floating-point (counters, masks) is copied.

    Polyak and Juditsky 1992 (averages of weights), https://doi.org/10.1137/0330046

    Args:
        decay: How much of the old average stays at each update.
        warmup: Begin with a small decay, so that the first weights are forgotten soon.

    Example:
        >>> average = EMA(decay=0.75)
        >>> average.update({"w": torch.zeros(1)})
        >>> average.update({"w": torch.ones(1)})
        >>> average.tensors()["w"]
        tensor([0.2500])
    """

    def __init__(self, *, decay: Fraction = 0.999, warmup: bool = False):
        if not 0 <= decay <= 1:
            raise ValueError(f"decay is the share of the old average that stays: from 0 to 1, not {decay}")
        self.decay, self.warmup = decay, warmup
        self.updates: int | None = None
        self._average: dict[str, Tensor] = {}
        self._types: dict[str, torch.dtype] = {}

    @torch.no_grad()
    def update(self, weights: Mapping[str, Tensor]) -> None:
        """Take weights into the average; the first ones, those at the start, are copied. They are only read."""
        if self.updates is None:
            self.updates = 0
            self._types = {name: weight.dtype for name, weight in weights.items()}
            self._average = {name: weight.detach().to(_precise(weight.dtype), copy=True) for name, weight in weights.items()}
            return
        _check_alike(self._average, weights, "the weights of this update", "the average")
        self.updates += 1
        decay = min(self.decay, self.updates / (9 + self.updates)) if self.warmup else self.decay
        for name, average in self._average.items():
            if average.is_floating_point():
                average.lerp_(weights[name].detach().to(average), 1 - decay)
            else:
                average.copy_(weights[name])

    def tensors(self) -> dict[str, Tensor]:
        """The averaged weights by name, in the weights' own types. Copies."""
        return {name: average.to(self._types[name], copy=True) for name, average in self._average.items()}

    def state(self) -> dict[str, Tensor]:
        """All there is to store: after ``restore`` of it the average goes on bit for bit."""
        averages = {_AVERAGE + name: average.clone() for name, average in self._average.items()}
        types = {_TYPE + name: torch.empty(0, dtype=kind) for name, kind in self._types.items()}
        return averages | types | {_UPDATES: torch.tensor(-1 if self.updates is None else self.updates)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what ``state`` gave. Where an average has begun, it must be of the same weights."""
        if _UPDATES not in state:
            raise ValueError(f"this is not the state of a moving average: it has no {_UPDATES!r}")
        averages = {name.removeprefix(_AVERAGE): value for name, value in state.items() if name.startswith(_AVERAGE)}
        if self.updates is not None:
            _check_alike(self._average, averages, "the stored average", "the present one")
        places = {name: self._average[name].device if name in self._average else value.device for name, value in averages.items()}
        updates = int(state[_UPDATES])
        self.updates = None if updates < 0 else updates
        self._average = {name: value.detach().to(places[name], copy=True) for name, value in averages.items()}
        self._types = {name: state[_TYPE + name].dtype for name in averages}


@torch.no_grad()
def average(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The plain mean of several weights of one model, such as those of the last checkpoints.

    Summed in float64 and given back in the weights' own types. What is not floating-point is taken from the last.

    Example:
        >>> average([{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0])}])
        {'w': tensor([1.5000])}
    """
    if not states:
        raise ValueError("there are no weights to average: give those of at least one checkpoint")
    last = states[-1]
    for number, state in enumerate(states[:-1]):
        _check_alike(last, state, f"number {number + 1} of the {len(states)} weights to average", "the last")
    mean: dict[str, Tensor] = {}
    for name, weight in last.items():
        if weight.is_floating_point():
            total = sum(
                (state[name].detach().to(weight.device, torch.float64) for state in states[:-1]), weight.detach().double()
            )
            mean[name] = (total / len(states)).to(weight.dtype)
        else:
            mean[name] = weight.clone()
    return mean


def _precise(kind: torch.dtype) -> torch.dtype:
    return torch.float32 if kind in (torch.bfloat16, torch.float16) else kind


def _check_alike(expected: Mapping[str, Tensor], given: Mapping[str, Tensor], what: str, other: str) -> None:
    if expected.keys() != given.keys():
        missing, extra = sorted(expected.keys() - given.keys()), sorted(given.keys() - expected.keys())
        raise ValueError(f"{what} and {other} do not have the same names: missing {missing}, extra {extra}")
    for name, tensor in expected.items():
        if given[name].shape != tensor.shape:
            raise ValueError(f"{name}: {what} has the shape {tuple(given[name].shape)}, but {other} has {tuple(tensor.shape)}")
