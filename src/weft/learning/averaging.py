"""Weight averaging: an exponential moving average during training, or the mean of the last checkpoints after it."""

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
    """Exponential moving average of the weights.

    a_0 = w_0;  a_t = d_t a_(t-1) + (1 - d_t) w_t, with d_t = decay, or min(decay, t / (9 + t)) with ``warmup`` (t = 1, 2, ...)

    The average of half-precision weights is kept in float32, because small updates would be rounded away; ``tensors`` returns
    the data types of the weights. Tensors that are not floating-point (counters, masks) are copied.

    Polyak and Juditsky 1992 (averaging), https://doi.org/10.1137/0330046

    Args:
        decay: Weight of the previous average in each update.
        warmup: Start with a small decay, so that the initial weights lose their influence early.

    Example:
        >>> average = EMA(decay=0.75)
        >>> average.update({"w": torch.zeros(1)})
        >>> average.update({"w": torch.ones(1)})
        >>> average.tensors()["w"]
        tensor([0.2500])
    """

    def __init__(self, *, decay: Fraction = 0.999, warmup: bool = False):
        if not 0 <= decay <= 1:
            raise ValueError(f"decay must be between 0 and 1, not {decay}")
        self.decay, self.warmup = decay, warmup
        self.updates: int | None = None
        self._average: dict[str, Tensor] = {}
        self._types: dict[str, torch.dtype] = {}

    @torch.no_grad()
    def update(self, weights: Mapping[str, Tensor]) -> None:
        """Update the average with the current weights; the first call copies them."""
        if self.updates is None:
            self.updates = 0
            self._types = {name: weight.dtype for name, weight in weights.items()}
            self._average = {
                name: weight.detach().to(_average_dtype(weight.dtype), copy=True) for name, weight in weights.items()
            }
            return
        _check_shapes(self._average, weights, "the weights of this update", "the average")
        self.updates += 1
        decay = min(self.decay, self.updates / (9 + self.updates)) if self.warmup else self.decay
        for name, average in self._average.items():
            if average.is_floating_point():
                average.lerp_(weights[name].detach().to(average), 1 - decay)
            else:
                average.copy_(weights[name])

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of the averaged weights by name, in the data types of the weights."""
        return {name: average.to(self._types[name], copy=True) for name, average in self._average.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as tensors; after ``load_state_dict`` the average continues bit for bit."""
        averages = {_AVERAGE + name: average.clone() for name, average in self._average.items()}
        types = {_TYPE + name: torch.empty(0, dtype=dtype) for name, dtype in self._types.items()}
        return averages | types | {_UPDATES: torch.tensor(-1 if self.updates is None else self.updates)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state. Raises ValueError where it belongs to other weights than those averaged so far."""
        if _UPDATES not in state:
            raise ValueError(f"not the state of a moving average: {_UPDATES!r} is missing")
        averages = {name.removeprefix(_AVERAGE): value for name, value in state.items() if name.startswith(_AVERAGE)}
        if self.updates is not None:
            _check_shapes(self._average, averages, "the stored average", "the current one")
        devices = {n: self._average[n].device if n in self._average else value.device for n, value in averages.items()}
        updates = int(state[_UPDATES])
        self.updates = None if updates < 0 else updates
        self._average = {name: value.detach().to(devices[name], copy=True) for name, value in averages.items()}
        self._types = {name: state[_TYPE + name].dtype for name in averages}


@torch.no_grad()
def average(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several weights of one model, such as those of the last checkpoints.

    Sums are computed in float64 and returned in the data types of the weights. Tensors that are not floating-point are those of
    the last element.

    Args:
        states: Weights by name, oldest first.

    Example:
        >>> average([{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0])}])
        {'w': tensor([1.5000])}
    """
    if not states:
        raise ValueError("there are no weights to average; at least one checkpoint is needed")
    last = states[-1]
    for number, state in enumerate(states[:-1]):
        _check_shapes(last, state, f"state {number + 1} of the {len(states)} to average", "the last")
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


def _average_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def _check_shapes(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], what: str, other: str) -> None:
    if expected.keys() != found.keys():
        missing, unexpected = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
        raise ValueError(f"{what} and {other} have different names: missing {missing}, unexpected {unexpected}")
    for name, tensor in expected.items():
        if found[name].shape != tensor.shape:
            raise ValueError(f"{name}: {what} has shape {tuple(found[name].shape)}, but {other} has {tuple(tensor.shape)}")
