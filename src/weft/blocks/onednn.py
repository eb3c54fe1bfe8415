"""torch's oneDNN operators for products with the weight of a linear layer."""

from __future__ import annotations

from typing import Any

import torch


def _operator(name: str) -> Any:
    """An operator of torch, or None where torch would not use MKL anyway, or was built without oneDNN."""
    available = torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()
    return getattr(getattr(torch.ops.mkldnn, name, None), "default", None) if available else None


LINEAR = _operator("_linear_pointwise")
"""Product, with a weight of E x D or a reordered one: (x, weight, bias, "none", [], "") to y."""
REORDER = _operator("_reorder_linear_weight")
"""Copies a weight of E x D into the blocked layout that oneDNN would otherwise make in every product."""
