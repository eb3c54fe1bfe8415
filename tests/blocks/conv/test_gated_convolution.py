"""The gated convolution against the convolution of torch, and its state."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from weft.blocks import GatedConvolution
from weft.core.masks import Causal, Full, Latest, Window
from weft.core.seq import Seq


def convolution(linear, kernel_size, x_BTD, left):
    """torch's convolution with the weights of a linear layer over windows."""
    weight = linear.weight.unflatten(1, (kernel_size, -1)).transpose(1, 2)
    return F.conv1d(F.pad(x_BTD.mT, (left, kernel_size - 1 - left)), weight, linear.bias).mT


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("mask", [Full(), Causal()])
def test_output_equals_the_convolution_of_torch(kernel_size, mask):
    module, x_BTD = GatedConvolution(4, kernel_size=kernel_size), torch.randn(2, 7, 4)
    left = kernel_size - 1 if isinstance(mask, Causal) else kernel_size // 2
    value, opening = (convolution(f, kernel_size, x_BTD, left) for f in (module.unit.value, module.unit.opening))
    torch.testing.assert_close(module(Seq(x_BTD), mask).hidden.data, value * opening.sigmoid())


def test_the_receptive_field_is_the_kernel():
    module = GatedConvolution(3, kernel_size=4).double()
    for mask, want in ((Causal(), range(3, 7)), (Full(), range(4, 8))):  # floor(k / 2) before, floor((k - 1) / 2) after
        jacobian = torch.autograd.functional.jacobian(
            lambda x, mask=mask: module(Seq(x[None]), mask).hidden.data[0, 6], torch.randn(10, 3, dtype=torch.float64)
        )
        assert jacobian.abs().sum((0, 2)).nonzero().flatten().tolist() == list(want)


def test_the_state_is_the_last_real_inputs():
    module, x_BTD = GatedConvolution(2, kernel_size=3), torch.randn(3, 4, 2)
    mask = torch.tensor([[True, True, True, False], [False, False, False, True], [False] * 4])
    state = module(Seq(x_BTD, mask), Causal()).state
    want = torch.stack([x_BTD[0, 1:3], torch.stack([torch.zeros(2), x_BTD[1, 3]]), torch.zeros(2, 2)])
    assert state.input_BPD.equal(want)
    later = module(Seq(x_BTD[:, :1], mask[:, 1:2]), Latest(), None, state).state
    assert later.input_BPD[1].equal(want[1]), "a row without a real token keeps its state"
    assert later.input_BPD[0].equal(torch.stack([x_BTD[0, 2], x_BTD[0, 0]]))


def test_a_window_mask_is_refused():
    with pytest.raises(ValueError, match="GatedConvolution does not support the mask Window; supported: Full, Causal"):
        GatedConvolution(4)(Seq(torch.ones(1, 2, 4)), Window(reach=1))
