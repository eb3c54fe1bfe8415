"""Gated convolution of ConvS2S. Shape suffixes: W kernel size times D features, P earlier inputs; others: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.activation import Sigmoid
from weft.blocks.linear import Linear
from weft.blocks.recurrent.ordering import SequenceOrder
from weft.core.contracts import Activation, Mixed, Mixer, Position
from weft.core.masks import Causal, Full, Mask
from weft.core.options import KernelSize
from weft.core.registry import Build, block
from weft.core.seq import Seq


class GatedUnit(nn.Module):
    """Gated linear unit: the element-wise product of a linear layer and an activated second one."""

    def __init__(self, size: int, dim: int, gate: Build[Activation]):
        super().__init__()
        self.value, self.opening = Linear(size, dim), Linear(size, dim)
        self.gate = gate()

    def forward(self, x: Tensor) -> Tensor:
        return self.value(x) * self.gate(self.opening(x))


def taps(x_BTD: Tensor, kernel_size: int, dilation: int = 1) -> list[Tensor]:
    """The inputs of each weight of a convolution without padding, in order: T - (kernel_size - 1) dilation positions each."""
    length = x_BTD.shape[1] - (kernel_size - 1) * dilation
    return [x_BTD[:, i * dilation : i * dilation + length] for i in range(kernel_size)]


@dataclass(frozen=True)
class RecentInputs:
    """State of a convolution: the last inputs, B x P x D; zeros before the first token."""

    input_BPD: Tensor

    def select(self, rows: Tensor) -> RecentInputs:
        return RecentInputs(self.input_BPD[rows])


@block("gated-convolution")
class GatedConvolution(Mixer):
    """Gated convolution (GLU): a convolution over neighboring positions, times a gate that a second convolution computes.

    y_t = (V w_t + b) * gate(U w_t + c),  w_t = [x_t-k+1; ...; x_t]

    with k the kernel size. Under the mask Full, the window is centered: w_t = [x_t-floor(k/2); ...; x_t+floor((k-1)/2)]. The
    sequence is zero-padded. L layers see L (k - 1) + 1 positions. The position encoding of the stack is not used.

    Gehring et al. 2017 (ConvS2S), https://arxiv.org/abs/1705.03122; gates: Dauphin et al. 2017, https://arxiv.org/abs/1612.08083

    Args:
        kernel_size: Kernel size in positions.
        gate: Activation of the gate; sigmoid gives gated linear units.

    Example:
        >>> GatedConvolution(8, kernel_size=5)(Seq(torch.ones(2, 3, 8)), Causal()).hidden.data.shape
        torch.Size([2, 3, 8])
    """

    supported_masks = (Full, Causal)

    def __init__(self, dim: int, *, kernel_size: KernelSize = 3, gate: Build[Activation] = Sigmoid):
        super().__init__(dim)
        self.kernel_size = kernel_size
        self.unit = GatedUnit(kernel_size * dim, dim, gate)

    def forward(self, x: Seq, mask: Mask, position: Position | None = None, past: RecentInputs | None = None) -> Mixed:
        self.check_mask(mask)
        order, reach = SequenceOrder.of(x), self.kernel_size - 1
        x_BTD = order.reorder(x.data)
        before_BPD = x_BTD.new_zeros(x.rows, reach, x_BTD.shape[-1]) if past is None else past.input_BPD
        ahead = 0 if isinstance(mask, Causal) else reach // 2
        known_BTD = torch.cat([before_BPD, x_BTD], 1)
        window_BTW = torch.cat(taps(F.pad(known_BTD[:, ahead:], (0, 0, 0, ahead)), self.kernel_size), -1)
        last_BP = x.lengths()[:, None] + torch.arange(reach, device=x_BTD.device)
        row_B1 = torch.arange(x.rows, device=x_BTD.device)[:, None]
        return Mixed(x.with_data(order.restore(self.unit(window_BTW))), RecentInputs(known_BTD[row_B1, last_BP]))
