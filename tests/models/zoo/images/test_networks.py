"""Image networks: published numbers of parameters, and outputs equal to a plain torch implementation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from tests.models.zoo.images import references
from torch import Tensor

from weft.blocks import BatchNorm2d, BottleneckUnit, Convolution, ResNet
from weft.core.contracts import Backbone
from weft.core.fields import ImageField, Info, LabelField
from weft.core.registry import CATALOG
from weft.models import VGG, AlexNet, DenseNet, EfficientNetLite, GoogLeNet, ImageClassifier, InceptionV3, MobileNetV2
from weft.models.zoo.family import FAMILIES
from weft.models.zoo.tensor_names import to_theirs

PARAMETERS = {
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "vgg11-bn": 132_868_840,
    "vgg13-bn": 133_053_736,
    "vgg16-bn": 138_365_992,
    "vgg19-bn": 143_678_248,
    "googlenet": 6_624_904,
    "inception-v3": 23_834_568,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "densenet121": 7_978_856,
    "densenet161": 28_681_000,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "mobilenet-v2": 3_504_872,
    "efficientnet-lite0": 4_652_008,
    "efficientnet-lite1": 5_416_680,
    "efficientnet-lite2": 6_092_072,
    "efficientnet-lite3": 8_197_096,
    "efficientnet-lite4": 13_006_568,
    "vit": 5_717_416,
}
"""With 1,000 classes: torchvision (without auxiliary classifiers), timm for EfficientNet-Lite and ViT-Ti/16."""
CIFAR = {"resnet20": 0.27, "resnet32": 0.46, "resnet56": 0.85}
"""Millions, with 10 classes: He et al. 2016, table 6."""


def network(name: str) -> Any:
    found = CATALOG[Backbone][name]
    return found if inspect.isclass(found) else found()


def parameters(encoder: Any, side: int, classes: int) -> int:
    info = Info({"image": ImageField("image", 3, side, side), "label": LabelField("label", classes)})
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in ImageClassifier(info, encoder=encoder).parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_published_number_of_parameters(name: str):
    assert parameters(network(name), 224, 1000) == PARAMETERS[name]


@pytest.mark.parametrize("name", CIFAR)
def test_published_number_of_parameters_for_cifar(name: str):
    assert parameters(network(name), 32, 10) / 1e6 == pytest.approx(CIFAR[name], abs=0.01)


def test_every_network_of_the_catalog_is_counted():
    general = {"resnet", "vgg", "densenet", "efficientnet-lite", "feature-pyramid"}
    ours = {name for name, factory in CATALOG[Backbone].items() if factory.__module__.startswith("weft.")}
    assert ours == {*PARAMETERS, *CIFAR, *general}


CASES: dict[str, tuple[Any, str, int, Callable[..., Tensor]]] = {
    "alexnet": (partial(AlexNet, dims=[6, 8, 10, 8, 6], hidden=12), "alexnet", 80, references.alexnet),
    "vgg": (
        partial(VGG, layers=[1, 2], dims=[4, 6], hidden=8),
        "vgg",
        30,
        partial(references.vgg, plan=[4, "M", 6, 6, "M"], batch_norm=False),
    ),
    "vgg-bn": (
        partial(VGG, layers=[2, 1], dims=[4, 6], hidden=8, norm=BatchNorm2d),
        "vgg",
        32,
        partial(references.vgg, plan=[4, 4, "M", 6, "M"], batch_norm=True),
    ),
    "googlenet": (partial(GoogLeNet, width=0.125), "googlenet", 50, references.googlenet),
    "inception-v3": (partial(InceptionV3, width=0.125), "inception-v3", 90, references.inception_v3),
    "resnet-basic": (
        partial(ResNet, layers=[1, 2], dims=[8, 12], stem_dim=8),
        "resnet",
        33,
        partial(references.resnet, layers=[1, 2], bottleneck=False, cifar=False),
    ),
    "resnet-bottleneck": (
        partial(ResNet, layers=[1, 1, 2, 1], dims=[8, 12, 16, 20], stem_dim=8, unit=BottleneckUnit),
        "resnet",
        40,
        partial(references.resnet, layers=[1, 1, 2, 1], bottleneck=True, cifar=False),
    ),
    "resnet-cifar": (
        partial(ResNet, layers=[2, 1, 1], dims=[4, 8, 12], stem=Convolution, stem_dim=4, stem_stride=1, pool=None),
        "resnet",
        16,
        partial(references.resnet, layers=[2, 1, 1], bottleneck=False, cifar=True),
    ),
    "densenet": (
        partial(DenseNet, layers=[2, 3, 1], growth=4, stem_dim=6),
        "densenet",
        34,
        partial(references.densenet, layers=[2, 3, 1]),
    ),
    "mobilenet-v2": (
        partial(MobileNetV2, width=0.25),
        "mobilenet-v2",
        34,
        partial(references.mobilenet_v2, strides=[1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1]),
    ),
    "efficientnet-lite": (
        partial(EfficientNetLite, width=0.25, depth=1.2),
        "efficientnet-lite",
        38,
        partial(references.efficientnet_lite, stages=[(1, 1), (3, 2), (3, 2), (4, 2), (4, 1), (5, 2), (1, 1)]),
    ),
}
"""A small network of each family, the side of its images, and the reference."""


class Used(dict[str, Tensor]):
    """A state dict that knows which tensors were used."""

    def __init__(self, tensors: dict[str, Tensor]):
        super().__init__(tensors)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.names.add(name)
        return super().__getitem__(name)


def stirred(model: torch.nn.Module) -> Iterator[str]:
    """Give every parameter and buffer a generic value that keeps the outputs in range; yield the names."""
    generator = torch.Generator().manual_seed(3)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            if name.endswith("running_var"):
                tensor.copy_(0.5 + noise.abs())
            elif tensor.ndim == 1:
                tensor.add_(0.3 * noise)
        yield name


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_outputs_equal_a_plain_implementation_with_the_published_names(name: str):
    encoder, family, side, reference = CASES[name]
    structure = partial(ImageClassifier, encoder=encoder)
    info = Info({"image": ImageField("image", 3, side, side + 3), "label": LabelField("label", 5)})
    model = structure(info).double().eval()
    names = list(stirred(model))
    theirs = to_theirs(model.state_dict(), FAMILIES[family].rules(structure))
    assert not theirs.unknown and len(theirs.tensors) == len(names)
    state, x_BCHW = Used(theirs.tensors), torch.randn(2, 3, side, side + 3, dtype=torch.float64)
    want = reference(state, x_BCHW)
    torch.testing.assert_close(model(x_BCHW), want, rtol=1e-9, atol=1e-9)
    assert float(want.std()) > 0.01
    assert state.names == set(theirs.tensors)


@pytest.mark.parametrize(
    ("encoder", "side", "least"), [(AlexNet, 62, 63), (VGG, 31, 32), (InceptionV3, 74, 75), (DenseNet, 31, 32)]
)
def test_images_that_are_too_small_are_an_error(encoder: Any, side: int, least: int):
    message = f"needs images of at least {least} x {least} pixels, but they have {side} x 90"
    with pytest.raises(ValueError, match=message), torch.device("meta"):
        encoder(ImageField("image", 3, side, 90))
    with torch.device("meta"):  # one pixel more is enough
        small = encoder(ImageField("image", 3, least, 90))
        assert all(maps.numel() for maps in small(torch.zeros(1, 3, least, 90)))
        assert small.vector(torch.zeros(1, 3, least, 90)).shape == (1, small.dim)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (partial(AlexNet, dims=[4, 4]), "dims has 2 numbers, but AlexNet has 5 convolutions"),
        (partial(VGG, layers=[1], dims=[4, 4]), "layers has 1 stages and dims 2"),
        (partial(DenseNet, layers=[]), "layers is empty"),
    ],
)
def test_tables_of_the_wrong_length_are_an_error(encoder: Any, message: str):
    with pytest.raises(ValueError, match=message):
        encoder(ImageField("image", 3, 96, 96))


@pytest.mark.parametrize("before", [True, False])
def test_dropout_is_before_the_fully_connected_layers_of_alexnet_and_after_those_of_vgg(before: bool):
    """With everything dropped, a layer after dropout outputs its bias, and dropout after a layer zeros."""
    field = ImageField("image", 3, 64, 64)
    network: Any = AlexNet(field, dims=[2] * 5, hidden=4) if before else VGG(field, layers=[1], dims=[2], hidden=4)
    layers = network.fully_connected
    layers.drop.forward = torch.zeros_like
    torch.nn.init.constant_(layers.layers[1].bias, 0.5)
    assert torch.equal(network.vector(torch.randn(2, 3, 64, 64)), torch.full((2, 4), 0.5 if before else 0.0))
