"""Weight clipping: in place, within the limit, gradients unchanged."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.learning.constraints import ClipWeights


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_clipped_in_place(dtype):
    weight, bias = nn.Parameter(torch.linspace(-2, 2, 101).to(dtype)), nn.Parameter(torch.zeros(3, dtype=dtype))
    before, pointer = weight.detach().clone(), weight.data_ptr()
    weight.grad = torch.ones_like(weight)
    ClipWeights(limit=0.5).apply({"weight": weight, "bias": bias})
    torch.testing.assert_close(weight.detach(), torch.where(before.abs() > 0.5, before.sign() * 0.5, before), rtol=0, atol=0)
    assert weight.data_ptr() == pointer and weight.requires_grad and weight.is_leaf
    assert torch.equal(weight.grad, torch.ones_like(weight)) and not bias.any()


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_limit_must_be_positive(limit):
    with pytest.raises(ValueError, match=f"above 0, not {limit}"):
        ClipWeights(limit=limit)
