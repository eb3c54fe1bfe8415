"""ResNet: the sizes of the paper, and published weights."""

from __future__ import annotations

from weft.blocks import BottleneckUnit, Convolution, ResNet
from weft.core.contracts import Backbone
from weft.core.registry import Build
from weft.models.zoo.images.published import register_networks
from weft.models.zoo.images.sizes import SizeTable
from weft.models.zoo.tensor_names import Rule, rules

_WIDE = [256, 512, 1024, 2048]
_CIFAR = {"dims": [16, 32, 64], "stem": Convolution, "stem_dim": 16, "stem_stride": 1, "pool": None}
SIZES = SizeTable(
    ResNet,
    __name__,
    {
        "resnet18": {"layers": [2, 2, 2, 2]},
        "resnet34": {"layers": [3, 4, 6, 3]},
        "resnet50": {"layers": [3, 4, 6, 3], "dims": _WIDE, "unit": BottleneckUnit},
        "resnet101": {"layers": [3, 4, 23, 3], "dims": _WIDE, "unit": BottleneckUnit},
        "resnet152": {"layers": [3, 8, 36, 3], "dims": _WIDE, "unit": BottleneckUnit},
        "resnet20": {"layers": [3, 3, 3], **_CIFAR},
        "resnet32": {"layers": [5, 5, 5], **_CIFAR},
        "resnet56": {"layers": [9, 9, 9], **_CIFAR},
    },
)
"""He et al. 2016, table 1, and section 4.2 for the CIFAR forms (with projections in the shortcuts, option B)."""

resnet18 = SIZES.register("resnet18")
"""ResNet-18 for images of about 224 x 224 pixels."""
resnet34 = SIZES.register("resnet34")
"""ResNet-34."""
resnet50 = SIZES.register("resnet50")
"""ResNet-50, of bottleneck units."""
resnet101 = SIZES.register("resnet101")
"""ResNet-101, of bottleneck units."""
resnet152 = SIZES.register("resnet152")
"""ResNet-152, of bottleneck units."""
resnet20 = SIZES.register("resnet20")
"""ResNet-20 for images of 32 x 32 pixels."""
resnet32 = SIZES.register("resnet32")
"""ResNet-32 for images of 32 x 32 pixels."""
resnet56 = SIZES.register("resnet56")
"""ResNet-56 for images of 32 x 32 pixels."""


# --------------------------------------------------------------------------------------------------- published models


def _rules(network: Build[Backbone]) -> list[Rule]:
    named = {"conv1.weight": "encoder.stem.convolution.weight", "bn1.*": "encoder.stem.norm.*", "fc.*": "classifier.out.*"}
    for stage in range(4):
        theirs, ours = f"layer{stage + 1}.#", f"encoder.stages.{stage}.#"
        for number in range(3):
            named[f"{theirs}.conv{number + 1}.weight"] = f"{ours}.convolutions.{number}.convolution.weight"
            named[f"{theirs}.bn{number + 1}.*"] = f"{ours}.convolutions.{number}.norm.*"
        named[f"{theirs}.downsample.0.weight"] = f"{ours}.shortcut.convolution.weight"
        named[f"{theirs}.downsample.1.*"] = f"{ours}.shortcut.norm.*"
    return rules(named)


register_networks(
    "resnet",
    SIZES.networks(),
    _rules,
    sides=dict.fromkeys(("resnet20", "resnet32", "resnet56"), 32),
)
