"""Image networks in plain torch, straight from the papers, over a state dict with the names of torchvision (of timm, for
EfficientNet-Lite). One function per family; nothing here is of weft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

State = Mapping[str, Tensor]


def norm(s: State, name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
    """Batch normalization in evaluation mode."""
    mean, var, weight, bias = (s[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias"))
    return (x - mean) / torch.sqrt(var + eps) * weight + bias


def alexnet(s: State, x: Tensor) -> Tensor:
    def conv(at: int, x: Tensor, stride: int, padding: int) -> Tensor:
        return F.relu(F.conv2d(x, s[f"features.{at}.weight"], s[f"features.{at}.bias"], stride, padding))

    x = F.max_pool2d(conv(0, x, 4, 2), 3, 2)
    x = F.max_pool2d(conv(3, x, 1, 2), 3, 2)
    x = F.max_pool2d(conv(10, conv(8, conv(6, x, 1, 1), 1, 1), 1, 1), 3, 2)
    x = F.adaptive_avg_pool2d(x, 6).flatten(1)
    for at in (1, 4):
        x = F.relu(F.linear(x, s[f"classifier.{at}.weight"], s[f"classifier.{at}.bias"]))
    return F.linear(x, s["classifier.6.weight"], s["classifier.6.bias"])


def vgg(s: State, x: Tensor, plan: Sequence[int | str], batch_norm: bool) -> Tensor:
    """``plan`` as in torchvision: a number of channels is a convolution, M is max pooling."""
    at = 0
    for step in plan:
        if step == "M":
            x, at = F.max_pool2d(x, 2), at + 1
            continue
        x = F.conv2d(x, s[f"features.{at}.weight"], s[f"features.{at}.bias"], padding=1)
        assert x.shape[1] == step
        x = F.relu(norm(s, f"features.{at + 1}", x) if batch_norm else x)
        at += 3 if batch_norm else 2
    x = F.adaptive_avg_pool2d(x, 7).flatten(1)
    for layer in (0, 3):
        x = F.relu(F.linear(x, s[f"classifier.{layer}.weight"], s[f"classifier.{layer}.bias"]))
    return F.linear(x, s["classifier.6.weight"], s["classifier.6.bias"])


def resnet(s: State, x: Tensor, layers: Sequence[int], bottleneck: bool, cifar: bool) -> Tensor:
    x = F.conv2d(x, s["conv1.weight"], None, 1 if cifar else 2, 1 if cifar else 3)
    x = F.relu(norm(s, "bn1", x))
    x = x if cifar else F.max_pool2d(x, 3, 2, 1)
    for stage, number in enumerate(layers, 1):
        for unit in range(number):
            name, stride = f"layer{stage}.{unit}", 2 if unit == 0 and stage > 1 else 1
            y, strides = x, (1, stride, 1) if bottleneck else (stride, 1)
            for at, own in enumerate(strides, 1):
                weight = s[f"{name}.conv{at}.weight"]
                y = norm(s, f"{name}.bn{at}", F.conv2d(y, weight, None, own, weight.shape[-1] // 2))
                y = F.relu(y) if at < len(strides) else y
            if f"{name}.downsample.0.weight" in s:
                x = norm(s, f"{name}.downsample.1", F.conv2d(x, s[f"{name}.downsample.0.weight"], None, stride))
            x = F.relu(x + y)
    return F.linear(x.mean((2, 3)), s["fc.weight"], s["fc.bias"])


def _conv_bn(s: State, name: str, x: Tensor, stride: int = 1, padding: int | tuple[int, int] = 0) -> Tensor:
    """The unit of GoogLeNet and Inception v3."""
    return F.relu(norm(s, f"{name}.bn", F.conv2d(x, s[f"{name}.conv.weight"], None, stride, padding), 1e-3))


def googlenet(s: State, x: Tensor) -> Tensor:
    def inception(name: str, x: Tensor) -> Tensor:
        name = f"inception{name}"
        three = _conv_bn(s, f"{name}.branch2.1", _conv_bn(s, f"{name}.branch2.0", x), 1, 1)
        five = _conv_bn(s, f"{name}.branch3.1", _conv_bn(s, f"{name}.branch3.0", x), 1, 1)
        pooled = _conv_bn(s, f"{name}.branch4.1", F.max_pool2d(x, 3, 1, 1, ceil_mode=True))
        return torch.cat([_conv_bn(s, f"{name}.branch1", x), three, five, pooled], 1)

    x = F.max_pool2d(_conv_bn(s, "conv1", x, 2, 3), 3, 2, ceil_mode=True)
    x = _conv_bn(s, "conv3", _conv_bn(s, "conv2", x), 1, 1)
    x = F.max_pool2d(x, 3, 2, ceil_mode=True)
    x = F.max_pool2d(inception("3b", inception("3a", x)), 3, 2, ceil_mode=True)
    for letter in "abcde":
        x = inception(f"4{letter}", x)
    x = F.max_pool2d(x, 2, 2, ceil_mode=True)
    x = inception("5b", inception("5a", x))
    return F.linear(x.mean((2, 3)), s["fc.weight"], s["fc.bias"])


def inception_v3(s: State, x: Tensor) -> Tensor:
    def unit(name: str, x: Tensor, stride: int = 1) -> Tensor:
        height, width = s[f"{name}.conv.weight"].shape[2:]
        return _conv_bn(s, name, x, stride, (height // 2, width // 2) if stride == 1 else 0)

    def chain(name: str, x: Tensor, *parts: str, last: int = 1) -> Tensor:
        for part in parts:
            x = unit(f"{name}.{part}", x, last if part is parts[-1] else 1)
        return x

    def a(n: str, x: Tensor) -> list[Tensor]:
        pooled = chain(n, F.avg_pool2d(x, 3, 1, 1), "branch_pool")
        double = chain(n, x, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3")
        return [chain(n, x, "branch1x1"), chain(n, x, "branch5x5_1", "branch5x5_2"), double, pooled]

    def b(n: str, x: Tensor) -> list[Tensor]:
        double = chain(n, x, "branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3", last=2)
        return [chain(n, x, "branch3x3", last=2), double, F.max_pool2d(x, 3, 2)]

    def c(n: str, x: Tensor) -> list[Tensor]:
        seven = chain(n, x, "branch7x7_1", "branch7x7_2", "branch7x7_3")
        double = chain(n, x, *(f"branch7x7dbl_{i}" for i in range(1, 6)))
        return [chain(n, x, "branch1x1"), seven, double, chain(n, F.avg_pool2d(x, 3, 1, 1), "branch_pool")]

    def d(n: str, x: Tensor) -> list[Tensor]:
        three = chain(n, x, "branch3x3_1", "branch3x3_2", last=2)
        return [three, chain(n, x, *(f"branch7x7x3_{i}" for i in range(1, 5)), last=2), F.max_pool2d(x, 3, 2)]

    def e(n: str, x: Tensor) -> list[Tensor]:
        three, double = chain(n, x, "branch3x3_1"), chain(n, x, "branch3x3dbl_1", "branch3x3dbl_2")
        sides = [chain(n, three, f"branch3x3_2{i}") for i in "ab"] + [chain(n, double, f"branch3x3dbl_3{i}") for i in "ab"]
        return [chain(n, x, "branch1x1"), *sides, chain(n, F.avg_pool2d(x, 3, 1, 1), "branch_pool")]

    x = _conv_bn(s, "Conv2d_2a_3x3", _conv_bn(s, "Conv2d_1a_3x3", x, 2))
    x = F.max_pool2d(_conv_bn(s, "Conv2d_2b_3x3", x, 1, 1), 3, 2)
    x = F.max_pool2d(_conv_bn(s, "Conv2d_4a_3x3", _conv_bn(s, "Conv2d_3b_1x1", x)), 3, 2)
    modules = {"5b": a, "5c": a, "5d": a, "6a": b, "6b": c, "6c": c, "6d": c, "6e": c, "7a": d, "7b": e, "7c": e}
    for name, module in modules.items():
        x = torch.cat(module(f"Mixed_{name}", x), 1)
    return F.linear(x.mean((2, 3)), s["fc.weight"], s["fc.bias"])


def densenet(s: State, x: Tensor, layers: Sequence[int]) -> Tensor:
    x = F.conv2d(x, s["features.conv0.weight"], None, 2, 3)
    x = F.max_pool2d(F.relu(norm(s, "features.norm0", x)), 3, 2, 1)
    for number, count in enumerate(layers, 1):
        outputs = [x]
        for layer in range(1, count + 1):
            name = f"features.denseblock{number}.denselayer{layer}"
            y = F.conv2d(F.relu(norm(s, f"{name}.norm1", torch.cat(outputs, 1))), s[f"{name}.conv1.weight"])
            outputs.append(F.conv2d(F.relu(norm(s, f"{name}.norm2", y)), s[f"{name}.conv2.weight"], padding=1))
        x = torch.cat(outputs, 1)
        if number < len(layers):
            name = f"features.transition{number}"
            x = F.avg_pool2d(F.conv2d(F.relu(norm(s, f"{name}.norm", x)), s[f"{name}.conv.weight"]), 2)
    x = F.relu(norm(s, "features.norm5", x))
    return F.linear(x.mean((2, 3)), s["classifier.weight"], s["classifier.bias"])


def mobilenet_v2(s: State, x: Tensor, strides: Sequence[int]) -> Tensor:
    """``strides`` of the 17 inverted residuals."""

    def unit(conv: str, bn: str, x: Tensor, stride: int = 1, linear: bool = False) -> Tensor:
        weight = s[f"{conv}.weight"]
        groups = x.shape[1] if weight.shape[1] == 1 and x.shape[1] > 1 else 1
        y = norm(s, bn, F.conv2d(x, weight, None, stride, weight.shape[-1] // 2, groups=groups))
        return y if linear else y.clamp(0, 6)

    x = unit("features.0.0", "features.0.1", x, 2)
    for at, stride in enumerate(strides, 1):
        n, y = f"features.{at}.conv", x
        last = 1 if at == 1 else 2
        for part in range(last):
            y = unit(f"{n}.{part}.0", f"{n}.{part}.1", y, stride if part == last - 1 else 1)
        y = unit(f"{n}.{last}", f"{n}.{last + 1}", y, linear=True)
        x = x + y if stride == 1 and x.shape == y.shape else y
    x = unit(f"features.{len(strides) + 1}.0", f"features.{len(strides) + 1}.1", x)
    return F.linear(x.mean((2, 3)), s["classifier.1.weight"], s["classifier.1.bias"])


def efficientnet_lite(s: State, x: Tensor, stages: Sequence[tuple[int, int]]) -> Tensor:
    """``stages``: number of units and stride of each. Padding of TensorFlow; names of timm."""

    def unit(conv: str, bn: str, x: Tensor, stride: int = 1, linear: bool = False) -> Tensor:
        weight = s[f"{conv}.weight"]
        kernel, pads = weight.shape[-1], list[int]()
        for size in (x.shape[3], x.shape[2]):
            total = max(kernel - stride if size % stride == 0 else kernel - size % stride, 0)
            pads += [total // 2, total - total // 2]
        depthwise = "dw" in conv
        y = F.conv2d(F.pad(x, pads), weight, None, stride, groups=x.shape[1] if depthwise else 1)
        y = norm(s, bn, y, 1e-3)
        return y if linear else y.clamp(0, 6)

    x = unit("conv_stem", "bn1", x, 2)
    for stage, (number, first) in enumerate(stages):
        for layer in range(number):
            n, stride, y = f"blocks.{stage}.{layer}", first if layer == 0 else 1, x
            if stage == 0:
                y = unit(f"{n}.conv_pw", f"{n}.bn2", unit(f"{n}.conv_dw", f"{n}.bn1", y, stride), linear=True)
            else:
                y = unit(f"{n}.conv_dw", f"{n}.bn2", unit(f"{n}.conv_pw", f"{n}.bn1", y), stride)
                y = unit(f"{n}.conv_pwl", f"{n}.bn3", y, linear=True)
            x = x + y if stride == 1 and x.shape == y.shape else y
    x = unit("conv_head", "bn2", x)
    return F.linear(x.mean((2, 3)), s["classifier.weight"], s["classifier.bias"])
