"""Critics whose slope is kept near 1. P width of what they look at, B rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def gradient_penalty(score: Callable[[Tensor], Tensor], real_BP: Tensor, fake_BP: Tensor, share_B: Tensor) -> Tensor:
    """B: how far the slope of a critic is from 1, at a place between something real and something made.

    (|grad D(x)| - 1)^2,  x = share real + (1 - share) made,  share ~ U(0, 1)

    Differentiable in the critic's parameters, not in what it looks at. The critic must look at each row by itself. Where
    gradients are off, as in evaluation, there is no slope to be had: zeros.

    Gulrajani et al. 2017 (WGAN-GP), https://arxiv.org/abs/1704.00028

    Args:
        score: The critic, B x P to B.
        real_BP: Something real in each row.
        fake_BP: Something made.
        share_B: How near to the real one, uniform between 0 and 1.

    >>> ones, zeros, half = torch.ones(3, 4), torch.zeros(3, 4), torch.full((3,), 0.5)
    >>> gradient_penalty(lambda x_BP: x_BP.sum(-1), ones, zeros, half).tolist()  # the slope of a sum of four is 2
    [1.0, 1.0, 1.0]
    """
    if not torch.is_grad_enabled():
        return real_BP.new_zeros(len(real_BP))
    dtype = torch.promote_types(real_BP.dtype, fake_BP.dtype)  # in bfloat16 one of them may be more exact
    real_BP, fake_BP = real_BP.detach().to(dtype), fake_BP.detach().to(dtype)
    x_BP = torch.lerp(fake_BP, real_BP, share_B[:, None].to(dtype)).requires_grad_()
    (slope_BP,) = torch.autograd.grad(score(x_BP).sum(), x_BP, create_graph=True)
    return (slope_BP.norm(dim=-1) - 1) ** 2
