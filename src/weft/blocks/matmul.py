"""Matrix product of linear layers, with oneDNN where it is faster than MKL. Shape suffixes: N rows, D and E features."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from weft.blocks import onednn
from weft.blocks.dropout import is_eager_cpu
from weft.blocks.prepared import prepared_weights

MIN_ROWS = 128
"""Minimum number of rows for oneDNN; with fewer rows, its setup costs more than it saves."""


def linear(x_ND: Tensor, weight_ED: Tensor, bias_E: Tensor | None) -> Tensor:
    """y = x W^T + b for any leading shape, as ``torch.nn.functional.linear``.

    On a CPU, torch computes float32 products with MKL, and uses oneDNN only for lower precisions and convolutions. oneDNN is
    faster on some processors: 1.1 times on an AMD EPYC with AVX-512. The results differ by rounding only.
    """
    prepared = prepared_weights(x_ND)
    if prepared is not None and (y_NE := prepared.product(x_ND, weight_ED, bias_E)) is not None:
        return y_NE
    if not _onednn_applies(x_ND, weight_ED):
        return F.linear(x_ND, weight_ED, bias_E)
    needs_grad = x_ND.requires_grad or weight_ED.requires_grad or (bias_E is not None and bias_E.requires_grad)
    if torch.is_grad_enabled() and needs_grad:
        return _OneDNNLinear.apply(x_ND, weight_ED, bias_E)  # pyright: ignore[reportReturnType]
    return _onednn_linear(x_ND, weight_ED, bias_E)


def _onednn_applies(x_ND: Tensor, weight_ED: Tensor) -> bool:
    """Whether oneDNN can compute the product: float32, enough rows, and no autocast, compiler or function transform active."""
    return (
        onednn.LINEAR is not None
        and x_ND.ndim > 1
        and x_ND.numel() >= MIN_ROWS * x_ND.shape[-1] > 0
        and x_ND.dtype == weight_ED.dtype == torch.float32
        and is_eager_cpu(x_ND)
        and is_eager_cpu(weight_ED)
        and torch.backends.mkldnn.enabled
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )


def _onednn_linear(x_ND: Tensor, weight_ED: Tensor, bias_E: Tensor | None) -> Tensor:
    assert onednn.LINEAR is not None
    return onednn.LINEAR(x_ND, weight_ED, bias_E, "none", [], "")


class _OneDNNLinear(torch.autograd.Function):
    """The product with its gradients: dx = dy W,  dW = dy^T x,  db = sum_n dy_n."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, weight_ED: Tensor, bias_E: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_ND, weight_ED)
        return _onednn_linear(x_ND, weight_ED, bias_E)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy_NE,), (x_ND, weight_ED) = grads, ctx.saved_tensors
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            # For second-order gradients (create_graph), use operators that are differentiable themselves.
            dx = dy_NE @ weight_ED if torch.is_grad_enabled() else _onednn_linear(dy_NE, weight_ED.t(), None)
        if ctx.needs_input_grad[1]:
            dw = dy_NE.flatten(0, -2).t() @ x_ND.flatten(0, -2)
        if ctx.needs_input_grad[2]:
            db = dy_NE.flatten(0, -2).sum(0)
        return dx, dw, db
