"""Scaling of rotary frequencies, for longer contexts than those of training. Shape suffix: k frequencies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.core.contracts import RotaryScaling
from weft.core.options import Count, Positive
from weft.core.registry import block


@block("linear")
class LinearScaling(RotaryScaling):
    """Position interpolation: all frequencies are divided by a factor, so that positions lie closer together.

    w'_i = w_i / factor

    Chen et al. 2023, https://arxiv.org/abs/2306.15595

    Args:
        factor: Length of the new context, as a multiple of that of training.

    Example:
        >>> LinearScaling(factor=2.0).scale(torch.tensor([1.0, 0.5]), 4.0).tolist()
        [0.5, 0.25]
    """

    def __init__(self, *, factor: Positive = 2.0):
        self.factor = factor

    def scale(self, frequency_k: Tensor, base: float) -> Tensor:
        return frequency_k / self.factor


@block("ntk")
class NTKScaling(RotaryScaling):
    """NTK-aware scaling: a larger base, which divides the lowest frequency by a factor and keeps the highest.

    w'_i = w_i factor^(-i / (k - 1)) for i = 0 .. k - 1

    Peng et al. 2023 (YaRN), section 3.1, https://arxiv.org/abs/2309.00071

    Args:
        factor: Length of the new context, as a multiple of that of training.

    Example:
        >>> NTKScaling(factor=2.0).scale(torch.tensor([1.0, 0.5]), 4.0).tolist()
        [1.0, 0.25]
    """

    def __init__(self, *, factor: Positive = 2.0):
        self.factor = factor

    def scale(self, frequency_k: Tensor, base: float) -> Tensor:
        size = len(frequency_k)
        return frequency_k * self.factor ** -(torch.arange(size, device=frequency_k.device) / max(size - 1, 1))


@block("llama3")
class Llama3Scaling(RotaryScaling):
    """Scaling of Llama 3.1: low frequencies are divided by a factor, high ones are kept, and those in between are interpolated.

    w' = (1 - s) w / factor + s w,  s = clip((n(w) - low) / (high - low), 0, 1),  n(w) = length w / (2 pi)

    n(w) is the number of rotations over the context of training.

    Grattafiori et al. 2024, https://arxiv.org/abs/2407.21783

    Args:
        factor: Divisor of low frequencies.
        low: Number of rotations up to which a frequency is low.
        high: Number of rotations from which a frequency is high.
        length: Length of the context of training.

    Example:
        >>> Llama3Scaling(factor=2.0, length=100).scale(torch.tensor([1.0, 0.001]), 4.0).tolist()
        [1.0, 0.0005000000237487257]
    """

    def __init__(self, *, factor: Positive = 8.0, low: Positive = 1.0, high: Positive = 4.0, length: Count = 8192):
        if high <= low:
            raise ValueError(f"high is {high:g}, but must be larger than low, which is {low:g}")
        self.factor, self.low, self.high, self.length = factor, low, high, length

    def scale(self, frequency_k: Tensor, base: float) -> Tensor:
        rotations_k = self.length * frequency_k / (2 * math.pi)
        kept_k = ((rotations_k - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - kept_k) * frequency_k / self.factor + kept_k * frequency_k


@block("yarn")
class YaRNScaling(RotaryScaling):
    """YaRN: the frequencies with few rotations over the context of training are divided by a factor, those with many are kept.

    w'_i = (1 - s_i) w_i / factor + s_i w_i,  s_i = 1 - clip((i - a) / (b - a), 0, 1),  q, k <- amplitude q, amplitude k

    a and b are the indices, rounded outwards, of the frequencies with ``fast`` and ``slow`` rotations.

    Peng et al. 2023, https://arxiv.org/abs/2309.00071

    Args:
        factor: Length of the new context, as a multiple of that of training.
        length: Length of the context of training.
        fast: Number of rotations from which a frequency is kept.
        slow: Number of rotations up to which a frequency is divided by the factor.
        amplitude: Factor of queries and keys; None = 1 + ln(factor) / 10.

    Example:
        >>> YaRNScaling(factor=2.0, length=100).scale(torch.tensor([1.0, 0.0001]), 10000.0).tolist()
        [1.0, 4.999999873689376e-05]
    """

    def __init__(
        self,
        *,
        factor: Positive = 4.0,
        length: Count = 4096,
        fast: Positive = 32.0,
        slow: Positive = 1.0,
        amplitude: Positive | None = None,
    ):
        if fast <= slow:
            raise ValueError(f"fast is {fast:g}, but must be larger than slow, which is {slow:g}")
        self.factor, self.length, self.fast, self.slow = factor, length, fast, slow
        self.amplitude = 1 + 0.1 * math.log(max(factor, 1.0)) if amplitude is None else amplitude

    def scale(self, frequency_k: Tensor, base: float) -> Tensor:
        if base <= 1:
            raise ValueError(f"YaRN needs frequencies that decrease: the base of the positions must be above 1, not {base:g}")
        size = len(frequency_k)
        first = max(math.floor(self._index(self.fast, size, base)), 0)
        last = min(math.ceil(self._index(self.slow, size, base)), 2 * size - 1)
        last = last + 0.001 if last == first else last
        kept_k = 1 - ((torch.arange(size, device=frequency_k.device) - first) / (last - first)).clamp(0, 1)
        return (1 - kept_k) * frequency_k / self.factor + kept_k * frequency_k

    def _index(self, rotations: float, size: int, base: float) -> float:
        """The index of the frequency with a number of rotations over the context of training."""
        return size * math.log(self.length / (rotations * 2 * math.pi)) / math.log(base)
