"""Blocks of image networks against their formulas, written out or from torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks import (
    AdaptiveAveragePool2d,
    AveragePool2d,
    BasicUnit,
    BatchNorm2d,
    BottleneckUnit,
    Convolution,
    DenseBlock,
    DepthwiseSeparable,
    FeaturePyramid,
    GroupNorm,
    Identity,
    Inception,
    InvertedResidual,
    MaxPool2d,
    PlainUnit,
    PreActivationUnit,
    ReLU6,
    ResNet,
    SiLU,
    SqueezeExcitation,
    Transition,
)
from weft.blocks.conv.convolution import total_padding
from weft.core.fields import ImageField
from weft.models import VGG

close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)
BARE = partial(Convolution, norm=None, activation=None)


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def doubled(module: nn.Module, training: bool = False) -> Any:
    """The module in float64 with generic scales, shifts and statistics."""
    module.double().train(training)
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if tensor.ndim == 1:
                noise = torch.rand_like(tensor)
                tensor.copy_(0.5 + noise if name.endswith(("weight", "running_var")) else noise - 0.5)
    return module


def cross_correlation(x: Tensor, weight: Tensor, stride: int, pads: tuple[int, int], dilation: int, groups: int) -> Tensor:
    """The definition, position by position. ``pads``: zeros before and after each side."""
    x = F.pad(x, (*pads, *pads))
    out, own, k, _ = weight.shape
    positions = (x.shape[2] - (k - 1) * dilation - 1) // stride + 1
    y = x.new_zeros(len(x), out, positions, positions)
    for o in range(out):
        first = o // (out // groups) * own
        for h in range(positions):
            for w in range(positions):
                for i in range(k):
                    for j in range(k):
                        pixel = x[:, first : first + own, h * stride + i * dilation, w * stride + j * dilation]
                        y[:, o, h, w] += pixel @ weight[o, :, i, j]
    return y


@pytest.mark.parametrize(
    ("kernel_size", "stride", "dilation", "groups", "size"),
    [(3, 1, 1, 1, 5), (3, 2, 1, 2, 6), (5, 2, 1, 4, 7), (3, 1, 2, 1, 7), (1, 2, 1, 2, 5), (3, 2, 2, 4, 8)],
)
def test_convolution_is_the_cross_correlation_of_each_group(kernel_size: int, stride: int, dilation: int, groups: int, size: int):
    unit = BARE(4, 8, stride, kernel_size=kernel_size, dilation=dilation, groups=groups, bias=False).double()
    x_BCHW, zeros = maps(2, 4, size, size), (kernel_size - 1) * dilation // 2
    close(unit(x_BCHW), cross_correlation(x_BCHW, unit.convolution.weight, stride, (zeros, zeros), dilation, groups))


def test_depthwise_convolves_each_channel_on_its_own():
    unit = BARE(4, 4, 1, groups="depthwise").double()
    x_BCHW = maps(2, 4, 5, 5)
    close(unit(x_BCHW)[:, 2:3], F.conv2d(x_BCHW[:, 2:3], unit.convolution.weight[2:3], unit.convolution.bias[2:3], padding=1))


@pytest.mark.parametrize("size", [5, 6, 7, 8])
@pytest.mark.parametrize(("kernel_size", "stride"), [(3, 2), (5, 2), (5, 1), (1, 2), (3, 3)])
def test_padding_of_tensorflow_has_the_odd_zero_at_the_end(size: int, kernel_size: int, stride: int):
    unit = BARE(2, 3, stride, kernel_size=kernel_size, padding="tensorflow", bias=False).double()
    x_BCHW = maps(1, 2, size, size)
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel_size - size, 0)
    assert total_padding(size, kernel_size, stride) == total
    pads = (total // 2, total - total // 2)
    y_BCHW = unit(x_BCHW)
    assert y_BCHW.shape == (1, 3, outputs, outputs)
    close(y_BCHW, cross_correlation(x_BCHW, unit.convolution.weight, stride, pads, 1, 1))


def test_padding_of_tensorflow_differs_only_with_a_stride():
    x_BCHW = maps(1, 2, 6, 6)
    for stride, equal in ((1, True), (2, False)):
        one, two = BARE(2, 2, stride).double(), BARE(2, 2, stride, padding="tensorflow").double()
        two.load_state_dict(one.state_dict())
        assert torch.allclose(one(x_BCHW), two(x_BCHW)) == equal


def test_a_convolution_has_a_bias_only_without_norm():
    assert BARE(2, 2, 1).convolution.bias is not None
    assert Convolution(2, 2, 1).convolution.bias is None
    assert Convolution(2, 2, 1, bias=True).convolution.bias is not None


def test_weights_are_initialized_for_rectified_linear_units():
    unit = BARE(64, 128, 1)
    assert float(unit.convolution.weight.detach().std()) == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.05)
    assert not unit.convolution.bias.any()


@pytest.mark.parametrize(("channels", "out", "groups"), [(4, 6, 4), (3, 6, 2)])
def test_groups_must_divide_the_channels(channels: int, out: int, groups: int):
    with pytest.raises(ValueError, match=f"groups is {groups}, but it must divide the numbers of channels, {channels} and {out}"):
        Convolution(channels, out, 1, groups=groups)


def test_batch_norm_equals_torch_in_training_and_evaluation():
    ours, theirs = BatchNorm2d(3, momentum=0.2, eps=1e-3), nn.BatchNorm2d(3, momentum=0.2, eps=1e-3)
    theirs.double().train().load_state_dict(doubled(ours, training=True).state_dict(), strict=False)
    for _ in range(3):
        x_BCHW = maps(4, 3, 5, 2) * 3 + 1
        close(ours(x_BCHW), theirs(x_BCHW))
    close(ours.running_mean, theirs.running_mean)
    close(ours.running_var, theirs.running_var)
    close(ours.eval()(x_BCHW), theirs.eval()(x_BCHW))


def test_batch_norm_of_a_single_value_per_channel_uses_running_statistics():
    norm = doubled(BatchNorm2d(3), training=True)
    x_BCHW, before = maps(1, 3, 1, 1), norm.running_mean.clone()
    assert torch.equal(norm(x_BCHW), norm.eval()(x_BCHW))
    assert torch.equal(norm.running_mean, before)


def test_group_norm_equals_torch():
    ours, theirs = doubled(GroupNorm(6, groups=3)), nn.GroupNorm(3, 6).double()
    theirs.load_state_dict(ours.state_dict())
    close(ours(x_BCHW := maps(2, 6, 3, 4)), theirs(x_BCHW))
    with pytest.raises(ValueError, match="groups is 4, but it must divide the number of channels, 6"):
        GroupNorm(6)


def test_poolings_of_windows():
    x_BCHW = maps(1, 1, 5, 5)
    top, mean = MaxPool2d(kernel_size=3, stride=2, padding=1), AveragePool2d(kernel_size=3, stride=2, padding=1)
    padded = F.pad(x_BCHW, (1, 1, 1, 1), value=-torch.inf)
    for h in range(3):
        for w in range(3):
            window = padded[0, 0, 2 * h : 2 * h + 3, 2 * w : 2 * w + 3]
            close(top(x_BCHW)[0, 0, h, w], window.max())
            close(mean(x_BCHW)[0, 0, h, w], window.masked_fill(window.isinf(), 0.0).sum() / 9)
    assert MaxPool2d(ceil=True)(x_BCHW).shape == (1, 1, 3, 3)
    assert MaxPool2d()(x_BCHW).shape == (1, 1, 2, 2)
    close(AdaptiveAveragePool2d()(x_BCHW)[0, 0, 0, 0], x_BCHW.mean())
    with pytest.raises(ValueError, match="padding is 2, but at most half of kernel_size"):
        MaxPool2d(kernel_size=3, padding=2)


def test_squeeze_and_excitation():
    gate = SqueezeExcitation(8, reduction=4, activation=SiLU).double()
    x_BCHW = maps(2, 8, 3, 4)
    z_BC = x_BCHW.mean((2, 3))
    inner = F.silu(F.linear(z_BC, gate.squeeze.weight[:, :, 0, 0], gate.squeeze.bias))
    weight_BC = torch.sigmoid(F.linear(inner, gate.excite.weight[:, :, 0, 0], gate.excite.bias))
    assert inner.shape == (2, 2)
    close(gate(x_BCHW), x_BCHW * weight_BC[:, :, None, None])


@pytest.mark.parametrize(("channels", "stride", "projected"), [(8, 1, False), (8, 2, True), (6, 1, True)])
def test_residual_units(channels: int, stride: int, projected: bool):
    x_BCHW = maps(2, channels, 6, 5)
    for unit in (BasicUnit(channels, 8, stride, gate=SqueezeExcitation), BottleneckUnit(channels, 8, stride)):
        doubled(unit)
        assert (unit.shortcut is not None) == projected
        shortcut = unit.shortcut(x_BCHW) if unit.shortcut is not None else x_BCHW
        y_BCHW = x_BCHW
        for convolution in unit.convolutions:
            y_BCHW = convolution(y_BCHW)
        y_BCHW = y_BCHW if unit.gate is None else unit.gate(y_BCHW)
        close(unit(x_BCHW), F.relu(y_BCHW + shortcut))
        assert float(y_BCHW.min()) < 0  # no activation before the sum
    pre = doubled(PreActivationUnit(channels, 8, stride))
    y_BCHW = F.conv2d(F.relu(pre.first.norm(x_BCHW)), pre.first.convolution.weight, None, stride, 1)
    y_BCHW = F.conv2d(F.relu(pre.second.norm(y_BCHW)), pre.second.convolution.weight, None, 1, 1)
    shortcut = F.conv2d(x_BCHW, pre.shortcut.weight, None, stride) if projected else x_BCHW
    close(pre(x_BCHW), y_BCHW + shortcut)


def test_a_plain_unit_is_a_basic_one_without_its_shortcut():
    plain, basic = doubled(PlainUnit(4, 4, 1)), BasicUnit(4, 4, 1).double().eval()
    basic.load_state_dict(plain.state_dict())
    x_BCHW = maps(2, 4, 5, 5)
    close(plain(x_BCHW), F.relu(basic.residual(x_BCHW)))
    assert not torch.allclose(plain(x_BCHW), basic(x_BCHW))


def test_a_bottleneck_needs_channels_that_its_expansion_divides():
    with pytest.raises(ValueError, match="expansion is 4, but it must divide the number of output channels, 6"):
        BottleneckUnit(4, 6, 1)


def test_inverted_residual():
    unit = doubled(InvertedResidual(4, 4, 1, expansion=3, gate=SqueezeExcitation))
    x_BCHW = maps(2, 4, 5, 5)
    expand, depthwise = unit.convolutions
    y_BCHW = F.relu6(expand.norm(F.conv2d(x_BCHW, expand.convolution.weight)))
    y_BCHW = F.relu6(depthwise.norm(F.conv2d(y_BCHW, depthwise.convolution.weight, padding=1, groups=12)))
    y_BCHW = unit.project.norm(F.conv2d(unit.gate(y_BCHW), unit.project.convolution.weight))
    close(unit(x_BCHW), x_BCHW + y_BCHW)
    assert len(InvertedResidual(4, 4, 1, expansion=1).convolutions) == 1
    strided = doubled(InvertedResidual(4, 4, 2))
    assert not torch.allclose(strided(x_BCHW), strided(x_BCHW) + x_BCHW[:, :, ::2, ::2])
    close(ReLU6()(torch.tensor([7.0, 5.0])), torch.tensor([6.0, 5.0]))


def test_depthwise_separable():
    unit = doubled(DepthwiseSeparable(4, 6, 2, activation=Identity))
    x_BCHW = maps(2, 4, 6, 6)
    y_BCHW = unit.depthwise.norm(F.conv2d(x_BCHW, unit.depthwise.convolution.weight, None, 2, 1, groups=4))
    close(unit(x_BCHW), unit.pointwise.norm(F.conv2d(y_BCHW, unit.pointwise.convolution.weight)))


def test_a_dense_block_keeps_its_input_and_adds_growth_per_layer():
    block = doubled(DenseBlock(4, layers=3, growth=2))
    x_BCHW = maps(2, 4, 5, 5)
    y_BCHW = block(x_BCHW)
    assert y_BCHW.shape[1] == block.out == 10
    close(y_BCHW[:, :4], x_BCHW)
    for number in range(3):
        at = 4 + 2 * number
        close(y_BCHW[:, at : at + 2], block.layers[number](y_BCHW[:, :at]))
    half = doubled(Transition(10, compression=0.33))
    assert half(y_BCHW).shape == (2, 3, 2, 2) and half.stride == 2
    with pytest.raises(ValueError, match="pool is AdaptiveAveragePool2d, whose output has a fixed size"):
        Transition(10, pool=AdaptiveAveragePool2d)


def test_inception_concatenates_its_branches():
    layer = doubled(Inception(5, dim_1=2, reduce_3=3, dim_3=4, reduce_5=2, dim_5=3, dim_pool=1))
    x_BCHW = maps(2, 5, 6, 7)
    one, three, five, pooled = layer.branches.branches
    want = [one[0](x_BCHW), three[1](three[0](x_BCHW)), five[1](five[0](x_BCHW)), pooled[1](F.max_pool2d(x_BCHW, 3, 1, 1))]
    close(layer(x_BCHW), torch.cat(want, 1))
    assert [part.shape[1] for part in want] == [2, 4, 3, 1] and layer.out == 10
    assert five[1].convolution.kernel_size == (5, 5)


def test_feature_pyramid_adds_the_coarser_stages():
    encoder = partial(ResNet, layers=[1, 1, 1], dims=[4, 6, 8], stem_dim=4)
    pyramid = doubled(FeaturePyramid(ImageField("image", 3, 36, 40), encoder=encoder, dim=5))
    x_BCHW = maps(2, 3, 36, 40)
    stages = pyramid.encoder(x_BCHW)
    merged = [lateral(own) for lateral, own in zip(pyramid.lateral, stages, strict=True)]
    for s in (1, 0):
        rows, columns = (torch.arange(n) * m // n for n, m in zip(merged[s].shape[2:], merged[s + 1].shape[2:], strict=True))
        merged[s] = merged[s] + merged[s + 1][:, :, rows][..., columns]  # nearest neighbor
    for got, smooth, own in zip(pyramid(x_BCHW), pyramid.smooth, merged, strict=True):
        close(got, smooth(own))
    assert pyramid.strides == (4, 8, 16) and pyramid.channels == (5, 5, 5)


def test_a_pyramid_has_no_layers_that_only_the_vector_of_its_network_needs():
    field = ImageField("image", 3, 32, 32)
    pyramid = FeaturePyramid(field, encoder=partial(VGG, layers=[1, 1], dims=[4, 8], hidden=6))
    assert not [name for name, _ in pyramid.named_parameters() if "fully_connected" in name]
    x_BCHW = torch.randn(2, 3, 32, 32)
    close(pyramid.encoder.vector(x_BCHW), pyramid.encoder(x_BCHW)[-1].mean((2, 3)))
    assert pyramid.encoder.dim == 8
