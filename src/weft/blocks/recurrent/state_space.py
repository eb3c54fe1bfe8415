"""Diagonal state-space layer. Shape suffixes: M modes, Q blocks of positions, C positions of a block; others: see seq.py."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.activation import GELU
from weft.blocks.linear import Linear
from weft.blocks.recurrent.ordering import SequenceOrder
from weft.core.contracts import Activation, Mixed, Mixer, Position
from weft.core.masks import Causal, Mask
from weft.core.options import Count, Positive
from weft.core.registry import Build, block
from weft.core.seq import Seq

DIRECT = 64
"""Length up to which the convolution is a matrix product, which is faster than Fourier transforms and exactly causal."""


@dataclass(frozen=True)
class Modes:
    """State of a state-space layer: the complex modes of every feature, B x D x M."""

    mode_BDM: Tensor

    def select(self, rows: Tensor) -> Modes:
        return Modes(self.mode_BDM[rows])


@block("state-space")
class StateSpace(Mixer):
    """Diagonal state-space layer (S4D): a linear recurrence with complex modes for every feature, computed as a convolution.

    h_t = exp(step A) h_t-1 + (exp(step A) - 1) / A x_t,  s_t = 2 Re(C . h_t) + skip x_t,  y_t = a * sigmoid(b),
    [a; b] = W activation(s_t) + c

    with A diagonal, initialized to A_n = -1/2 + i pi n (S4D-Lin), and A, C, step and skip learned for each feature. A whole
    sequence is the convolution of x with the kernel K_t = 2 Re(C . exp(t step A) (exp(step A) - 1) / A), by fast Fourier
    transforms if it is long, which are causal up to rounding. Incremental decoding is the recurrence. The position encoding of
    the stack is not used.

    Gu et al. 2022, https://arxiv.org/abs/2206.11893

    Args:
        modes: Number of complex modes of each feature; the state has twice as many real dimensions.
        min_step: Smallest initial step size; the initial step sizes of the features are log-uniform.
        max_step: Largest initial step size.
        activation: Activation before the output projection.

    Example:
        >>> StateSpace(8, modes=4)(Seq(torch.ones(2, 3, 8)), Causal()).hidden.data.shape
        torch.Size([2, 3, 8])
    """

    supported_masks = (Causal,)

    def __init__(
        self,
        dim: int,
        *,
        modes: Count = 32,
        min_step: Positive = 0.001,
        max_step: Positive = 0.1,
        activation: Build[Activation] = GELU,
    ):
        super().__init__(dim)
        if min_step > max_step:
            raise ValueError(f"min_step is {min_step}, but must be at most max_step, which is {max_step}")
        self.log_step = nn.Parameter(torch.rand(dim) * math.log(max_step / min_step) + math.log(min_step))
        self.log_decay = nn.Parameter(torch.full((dim, modes), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(modes, dtype=torch.float).repeat(dim, 1))
        self.readout = nn.Parameter(torch.randn(dim, modes, 2) * 0.5**0.5)
        self.skip = nn.Parameter(torch.randn(dim))
        self.activation, self.out = activation(), Linear(dim, 2 * dim)

    def forward(self, x: Seq, mask: Mask, position: Position | None = None, past: Modes | None = None) -> Mixed:
        self.check_mask(mask)
        order = SequenceOrder.of(x)
        s_BTD, state = self.scan(order.reorder(x.data), x, past)
        return Mixed(x.with_data(order.restore(F.glu(self.out(self.activation(s_BTD))))), state)

    def scan(self, x_BTD: Tensor, x: Seq, past: Modes | None) -> tuple[Tensor, Modes]:
        """s, and the modes after the last real token of each row; in ``x_BTD``, real tokens come first, then zeros."""
        exact = torch.promote_types(x_BTD.dtype, torch.float32)
        log_decay_DM, frequency_DM, readout, log_step_D = (
            p.to(exact) for p in (self.log_decay, self.frequency, self.readout, self.log_step)
        )
        a_DM = torch.complex(-log_decay_DM.exp(), frequency_DM)
        rate_DM = a_DM * log_step_D.exp()[:, None]
        input_DM, readout_DM = torch.expm1(rate_DM) / a_DM, torch.view_as_complex(readout)
        u_BDT = x_BTD.to(exact).mT
        s_BDT = convolve(u_BDT, response(readout_DM * input_DM, rate_DM, x.width))
        backwards_BTD = SequenceOrder.of(x, reverse=True).reorder(x.data)
        mode_BDM = input_DM * decayed_sum(backwards_BTD.to(exact).mT, rate_DM)
        if past is not None:
            s_BDT = s_BDT + response(readout_DM * rate_DM.exp() * past.mode_BDM, rate_DM, x.width)
            mode_BDM = mode_BDM + torch.exp(rate_DM * x.lengths()[:, None, None]) * past.mode_BDM
        return s_BDT.mT.to(x_BTD.dtype) + self.skip * x_BTD, Modes(mode_BDM)


def convolve(u_BDT: Tensor, kernel_DT: Tensor) -> Tensor:
    """Causal convolution of each feature with its own kernel: y_t = sum_{s <= t} K_t-s u_s."""
    length = u_BDT.shape[-1]
    if length <= DIRECT:
        at_T = torch.arange(length, device=u_BDT.device)
        lag_TT = at_T[:, None] - at_T
        toeplitz_DTT = kernel_DT[:, lag_TT.clamp(min=0)].tril()
        return (u_BDT.transpose(0, 1) @ toeplitz_DTT.mT).transpose(0, 1)
    spectrum = torch.fft.rfft(u_BDT, 2 * length) * torch.fft.rfft(kernel_DT, 2 * length)
    return torch.fft.irfft(spectrum, 2 * length)[..., :length]


def response(coefficient_XDM: Tensor, rate_DM: Tensor, length: int) -> Tensor:
    """X x D x T: 2 Re(sum_m c_m exp(rate_m t)) for t = 0 to T - 1, without a tensor of size D M T."""
    near_DMC, far_DMQ = _powers(rate_DM, length)
    left_XDMQ = coefficient_XDM[..., None] * far_DMQ
    left = torch.cat([left_XDMQ.real, -left_XDMQ.imag], -2)
    y_XDQC = left.mT @ torch.cat([near_DMC.real, near_DMC.imag], -2)
    return 2 * y_XDQC.flatten(-2)[..., :length]


def decayed_sum(u_BDT: Tensor, rate_DM: Tensor) -> Tensor:
    """B x D x M: sum_t exp(rate_m t) u_t, without a tensor of size D M T."""
    near_DMC, far_DMQ = _powers(rate_DM, u_BDT.shape[-1])
    block = near_DMC.shape[-1]
    u_BDQC = F.pad(u_BDT, (0, far_DMQ.shape[-1] * block - u_BDT.shape[-1])).unflatten(-1, (-1, block))
    sum_BDQM = torch.complex(u_BDQC @ near_DMC.real.mT, u_BDQC @ near_DMC.imag.mT)
    return (sum_BDQM * far_DMQ.mT).sum(2)


def _powers(rate_DM: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """exp(rate r) for r = 0 to C - 1 and exp(rate q C) for q = 0 to Q - 1, with Q C >= T; their products are all powers."""
    block = max(math.isqrt(max(length, 1) - 1) + 1, 1)
    near_C = torch.arange(block, device=rate_DM.device)
    far_Q = torch.arange(max(-(-length // block), 1), device=rate_DM.device) * block
    return torch.exp(rate_DM[..., None] * near_C), torch.exp(rate_DM[..., None] * far_Q)
