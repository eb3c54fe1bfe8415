"""Gradient penalty of Wasserstein GANs. B examples, P input features."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def gradient_penalty(score: Callable[[Tensor], Tensor], real_BP: Tensor, fake_BP: Tensor, mix_B: Tensor) -> Tensor:
    """B: gradient penalty of a critic at random interpolations of real and fake samples.

    (|grad D(x)| - 1)^2,  x = mix real + (1 - mix) fake,  mix ~ U(0, 1)

    Differentiable with respect to the parameters of the critic, not to its inputs. The critic must score each row independently.
    Zero where gradients are disabled, as in evaluation.

    Gulrajani et al. 2017 (WGAN-GP), https://arxiv.org/abs/1704.00028

    Args:
        score: The critic: B x P -> B.
        real_BP: Real samples.
        fake_BP: Fake samples.
        mix_B: Interpolation coefficients, uniform in (0, 1).

    Example:
        >>> ones, zeros, half = torch.ones(3, 4), torch.zeros(3, 4), torch.full((3,), 0.5)
        >>> gradient_penalty(lambda x_BP: x_BP.sum(-1), ones, zeros, half).tolist()  # the gradient norm of a sum of four is 2
        [1.0, 1.0, 1.0]
    """
    if not torch.is_grad_enabled():
        return real_BP.new_zeros(len(real_BP))
    dtype = torch.promote_types(real_BP.dtype, fake_BP.dtype)  # under autocast the dtypes may differ
    real_BP, fake_BP = real_BP.detach().to(dtype), fake_BP.detach().to(dtype)
    x_BP = torch.lerp(fake_BP, real_BP, mix_B[:, None].to(dtype)).requires_grad_()
    (grad_BP,) = torch.autograd.grad(score(x_BP).sum(), x_BP, create_graph=True)
    return (grad_BP.norm(dim=-1) - 1) ** 2
