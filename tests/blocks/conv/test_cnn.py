"""Gated convolutions against the convolution of torch."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from weft.blocks import CNN, Identity, PostNorm, PreNorm
from weft.blocks.conv.cnn import DilatedConvolution, windows
from weft.core.masks import Causal, Full, Window
from weft.core.seq import Seq

MASK = torch.tensor([[True] * 6, [True, True, True, False, False, False], [False, False, True, True, True, True]])


def taps(weight, kernel_size):
    """Weight of a linear layer in the layout of torch's convolution: out x in x kernel size."""
    return weight.unflatten(1, (kernel_size, -1)).transpose(1, 2)


@pytest.mark.parametrize(("kernel_size", "dilation"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 3)])
def test_gated_convolution_equals_torch(kernel_size, dilation):
    layer = DilatedConvolution(4, kernel_size, dilation, torch.nn.Sigmoid)
    x_BTD = torch.randn(2, 7, 4)
    reach = kernel_size // 2 * dilation

    def convolve(dense):
        return F.conv1d(x_BTD.mT, taps(dense.weight, kernel_size), dense.bias, padding=reach, dilation=dilation).mT

    torch.testing.assert_close(layer(x_BTD, False), convolve(layer.value) * convolve(layer.opening).sigmoid())


@pytest.mark.parametrize(("kernel_size", "dilation"), [(3, 1), (5, 2)])
def test_causal_convolution_ignores_later_positions(kernel_size, dilation):
    layer = DilatedConvolution(4, kernel_size, dilation, torch.nn.Sigmoid)
    x_BTD = torch.randn(2, 7, 4)
    got = layer(x_BTD, True)
    for dense in (layer.value, layer.opening):
        with torch.no_grad():
            dense.weight[:, (kernel_size // 2 + 1) * 4 :] = 0.0
    torch.testing.assert_close(got, layer(x_BTD, False))


def test_windows_of_a_small_example():
    x_BTD = torch.arange(1.0, 5.0)[None, :, None]
    assert windows(x_BTD, 3, 2).squeeze(0).tolist() == [[0, 1, 3], [0, 2, 4], [1, 3, 0], [2, 4, 0]]
    assert windows(x_BTD, 3, 1, causal=True).squeeze(0).tolist() == [[0, 1, 0], [1, 2, 0], [2, 3, 0], [3, 4, 0]]


def test_layers_use_their_dilations():
    encoder = CNN(4, layers=3, dilations=[1, 2], gate=Identity, norm=None)
    assert [layer.dilation for layer in encoder.layers] == [1, 2, 1]
    x = Seq(torch.randn(2, 6, 4))
    h = x.data
    for layer, residual in zip(encoder.layers, encoder.residuals, strict=True):
        h = h + layer(residual.norm(h), False)
    torch.testing.assert_close(encoder(x).data, h)
    assert len(encoder.states(x)) == 4


@pytest.mark.parametrize("residual", [PreNorm, PostNorm])
@pytest.mark.parametrize("mask", [Full(), Causal()])
def test_padding_does_not_change_the_output(residual, mask):
    """A norm may map zeros to other values, so padding must be zeroed before each layer."""
    encoder = CNN(4, layers=3, kernel_size=5, residual=residual)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    data = torch.randn(3, 6, 4)
    poisoned = data.masked_fill(~MASK[..., None], torch.nan)
    got = encoder(Seq(poisoned, MASK), mask).data
    for row in range(3):
        alone = encoder(Seq(data[row, MASK[row]][None]), mask).data[0]
        torch.testing.assert_close(got[row, MASK[row]], alone)


def test_invalid_options_and_unsupported_masks_are_rejected():
    with pytest.raises(ValueError, match="kernel_size is 4, but must be odd; use 5"):
        CNN(4, kernel_size=4)
    with pytest.raises(ValueError, match="dilations is empty"):
        CNN(4, dilations=[])
    with pytest.raises(ValueError, match="CNN does not support the mask Window; supported: Full, Causal"):
        CNN(4)(Seq(torch.ones(1, 2, 4)), Window(reach=1))


def test_residual_applies_dropout():
    encoder = CNN(4, residual=partial(PreNorm, dropout=0.5)).train()
    x = Seq(torch.randn(2, 6, 4))
    assert not torch.equal(encoder(x).data, encoder(x).data)
    encoder.eval()
    assert torch.equal(encoder(x).data, encoder(x).data)
