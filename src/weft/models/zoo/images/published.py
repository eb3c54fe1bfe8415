"""Published image networks: the layout of torchvision's tensor names with a config.json as the package timm writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from weft.core.contracts import Backbone, Structure
from weft.core.fields import ImageField
from weft.core.options import Dim, Dropout
from weft.core.registry import Build, identity, is_composition, option_values
from weft.models.image_classifier import ImageClassifier
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import Computed, DataKey, Key
from weft.models.zoo.family import Family, register_family
from weft.models.zoo.tensor_names import Rule

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Normalization of the weights of torchvision, where config.json has none."""
MOST_PIXELS = 4096
"""Largest side of an image that config.json may declare."""
_RESIZES = {"center": "crop", "squash": "stretch", "border": "pad"}
"""``resize`` of an image field by the ``crop_mode`` of a config.json."""


def register_networks(
    model_type: str,
    networks: Mapping[str, Build[Backbone]],
    rules: Callable[[Build[Backbone]], list[Rule]],
    *,
    sides: Mapping[str, int] = {},
    ignored: Sequence[str] = (),
) -> None:
    """Register the family of some image networks.

    Args:
        model_type: Its name.
        networks: Value of ``architecture`` in config.json -> network.
        rules: network -> rules between its tensor names and ours.
        sides: Height and width of the images by architecture, where config.json has no ``input_size``; 224 for others.
        ignored: Patterns of tensor names that are not used, such as those of auxiliary classifiers.
    """

    def structure(config: ModelConfig, task: str, names: set[str]) -> Build[Structure]:
        name = config["architecture"]
        if name not in networks:
            raise ValueError(f"config.json: architecture is {name!r}; a {model_type} is one of {', '.join(networks)}")
        return partial(ImageClassifier, encoder=networks[name])

    def name_of_network(built: Build[Structure]) -> str | None:
        own = identity(network_of(built))
        return next((name for name, network in networks.items() if identity(network) == own), None)

    def field(config: ModelConfig) -> ImageField:
        return image_field_of(config, sides.get(config["architecture"], 224))

    register_family(
        Family(
            model_type=model_type,
            prefix="",
            body=(),
            structure=structure,
            config=(
                Computed("architecture", str, name_of_network),
                Key("drop_rate", Dropout, "dropout", default=0.0, optional=True),
                DataKey("num_classes", Dim, default=1000),
                DataKey("input_size", list[int], default=None),
                DataKey("mean", list[float], default=None),
                DataKey("std", list[float], default=None),
                DataKey("crop_mode", str, default=None),
                DataKey("pretrained_cfg", dict[str, Any], default=None),
            ),
            rules=lambda built: rules(network_of(built)),
            tasks={"ImageClassifier": "classification"},
            ignored=("*num_batches_tracked", *ignored),
            field=field,
            data_config=_data_config,
            networks=tuple(networks),
        )
    )


def network_of(structure: Build[Structure]) -> Build[Backbone]:
    """The image network of a classifier. Raises ValueError for another structure."""
    found = option_values(structure).get("encoder")
    if found is None:
        raise ValueError("the structure has no image network")
    return found() if is_composition(found) else found


def image_field_of(config: ModelConfig, side: int) -> ImageField:
    """The image field of a config.json, from ``input_size``, ``mean``, ``std`` and ``crop_mode``, also in ``pretrained_cfg``."""
    nested = config.get("pretrained_cfg") or {}
    values = {name: config.get(name) or nested.get(name) for name in ("input_size", "mean", "std", "crop_mode")}
    size = values["input_size"] or [3, side, side]
    if not isinstance(size, list) or len(size) != 3 or not all(type(n) is int and 1 <= n <= MOST_PIXELS for n in size):
        raise ValueError(
            f"config.json: input_size is {size!r:.100}, but it must be channels, height and width: three integers from 1 to "
            f"{MOST_PIXELS}"
        )
    default = (IMAGENET_MEAN, IMAGENET_STD) if size[0] == 3 else ((0.5,), (0.5,))
    mean, std = (_channels(values, name, size[0]) or default[at] for at, name in enumerate(("mean", "std")))
    if not min(std) > 0:
        raise ValueError(f"config.json: std is {list(std)}, but it must be positive")
    mode = values["crop_mode"] or "center"
    if mode not in _RESIZES:
        raise ValueError(f"config.json: crop_mode is {mode!r:.40}; supported are {', '.join(_RESIZES)}")
    return ImageField("image", *size, resize=_RESIZES[mode], mean=mean, std=std)


def _channels(values: Mapping[str, Any], name: str, channels: int) -> tuple[float, ...] | None:
    """A number for each channel; None where config.json has none."""
    found = values[name]
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != channels or not all(type(n) in (int, float) and abs(n) < 1e6 for n in found):
        raise ValueError(f"config.json: {name} is {found!r:.100}, but it must be a list of {channels} numbers, one per channel")
    return tuple(float(n) for n in found)


def _data_config(model: nn.Module) -> dict[str, Any]:
    encoder = model.get_submodule("encoder")
    assert isinstance(encoder, Backbone)
    field = encoder.field
    mean, std = (list(values) * (field.channels // len(values)) for values in (field.mean, field.std))
    mode = next(mode for mode, resize in _RESIZES.items() if resize == field.resize)
    return {"input_size": list(field.shape), "mean": mean, "std": std, "crop_mode": mode}
