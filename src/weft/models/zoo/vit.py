"""ViT: a Transformer over the patches of an image, as choices over blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from math import isqrt
from typing import Any, Literal

from torch import Tensor

from weft.blocks import (
    GELU,
    ClassifierHead,
    First,
    LayerNorm,
    MultiHead,
    Patch,
    PositionwiseFeedForward,
    PreNorm,
    Sum,
    Transformer,
    TransformerLayer,
)
from weft.core.contracts import Activation, Embedder, Pooler, Structure
from weft.core.fields import Field
from weft.core.options import Count, Dropout, Heads, Layers, Place, Width
from weft.core.registry import Build, composition, name_of
from weft.models.classifier import Classifier
from weft.models.image_encoder import ImageEncoder
from weft.models.zoo.bert import Size, chosen
from weft.models.zoo.family import CLS, Config, Layout, activation_name, at, changed, class_rules, layout
from weft.models.zoo.tensor_names import Rule, rules

VIT = {
    "base": Size(768, 12, 12, 3072),
    "large": Size(1024, 24, 16, 4096),
    "huge": Size(1280, 32, 16, 5120),
}
"""Dosovitskiy et al. 2021, table 1."""
PATCHES = {"base": 16, "large": 16, "huge": 14}
"""The sides of their patches: B/16, L/16, H/14."""


def body(
    size: Size,
    *,
    patch: int,
    activation: Build[Activation] = GELU,
    eps: float = 1e-12,
    dropout: float = 0.0,
    attention_dropout: float | None = None,
) -> dict[str, Any]:
    """dim, embedder and encoder of a ViT: patches after a learned vector, with positions, then layers with pre-norm."""
    norm = partial(LayerNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHead, heads=size.heads, dropout=dropout if attention_dropout is None else attention_dropout),
        feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation),
        residual=partial(PreNorm, norm=norm, dropout=dropout),
    )
    return {
        "dim": size.dim,
        "embedder": partial(Sum, parts=[partial(Patch, size=patch)], dropout=dropout),
        "encoder": partial(Transformer, layers=size.layers, layer=layer, position=None, norm=norm),
    }


@composition("vit")
def vit(
    *,
    size: Literal["base", "large", "huge"] = "base",
    patch: Count | None = None,
    dim: Width | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Width | None = None,
    dropout: Dropout = 0.0,
    task: Literal["encode", "classification"] = "classification",
    pooler: Build[Pooler] | None = None,
    weights: Place | None = None,
) -> Build[Structure]:
    """ViT: a Transformer that looks at the patches of an image as it would at words.

    A learned vector, then the patches with learned positions; ``layers`` layers with pre-norm and GELU. The data says how large
    images are, and with that how many positions there are.

    Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929

    Args:
        size: A published size: B/16, L/16, H/14.
        patch: Side of a patch in pixels; None = that of the size.
        dim: Width; None = that of the size. Where it is given, heads are 64 wide and the feed-forward maps 4 dim, unless said.
        layers: Layers; None = those of the size.
        heads: Heads of every attention; None = those of the size.
        hidden: Width inside the feed-forward maps; None = that of the size.
        dropout: Of every sub-layer's result, of the attention weights and of the embedded patches.
        task: What it is for: classify, encode.
        pooler: Makes one vector of an image; None = the learned first vector's, as published.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> vit(size="huge").keywords["dim"]
        1280
    """
    parts = body(chosen(VIT[size], dim, layers, heads, hidden), patch=patch or PATCHES[size], dropout=dropout)
    return partial(_seer(task, parts, pooler or First), weights=weights)


def _seer(task: str, parts: Mapping[str, Any], pooler: Build[Pooler]) -> Build[Structure]:
    if task == "classification":
        return partial(Classifier, **parts, pooler=pooler, head=partial(ClassifierHead))
    if task != "encode":
        raise ValueError(f"a vit cannot {task}: it can encode or classify")
    return partial(ImageEncoder, **parts, pooler=pooler)


# --------------------------------------------------------------------------------------------------- the published layout


def _rules(structure: Any) -> list[Rule]:
    theirs, ours = "vit.encoder.layer.#", "encoder.stack.layers.#"
    named = {
        "vit.embeddings.patch_embeddings.projection.weight": "embedder.parts.0.weight",
        "vit.embeddings.patch_embeddings.projection.bias": "embedder.parts.0.bias",
        f"{theirs}.layernorm_before.*": f"{ours}.mixer_residual.norm.*",
        f"{theirs}.attention.attention.query.*": f"{ours}.mixer.query.*",
        f"{theirs}.attention.attention.key.*": f"{ours}.mixer.key.*",
        f"{theirs}.attention.attention.value.*": f"{ours}.mixer.value.*",
        f"{theirs}.attention.output.dense.*": f"{ours}.mixer.out.*",
        f"{theirs}.layernorm_after.*": f"{ours}.feedforward_residual.norm.*",
        f"{theirs}.intermediate.dense.*": f"{ours}.feedforward.up.*",
        f"{theirs}.output.dense.*": f"{ours}.feedforward.down.*",
        "vit.layernorm.*": "encoder.stack.norm.*",
        "vit.pooler.dense.*": "pooler.transform.map.*",
    }
    first = rules({"vit.embeddings.cls_token": "embedder.parts.0.first"}, lead=2)
    position = rules({"vit.embeddings.position_embeddings": "embedder.parts.0.position.weight"}, lead=1)
    return first + position + rules(named | class_rules(structure))


def _read(config: Config, task: str, names: Iterable[str]) -> Build[Structure]:
    dim = config["hidden_size"]
    config.refuse(qkv_bias=True)
    size = Size(dim, *(config[k] for k in ("num_hidden_layers", "num_attention_heads", "intermediate_size")))
    parts = body(
        size,
        patch=config["patch_size"],
        activation=config.activation("hidden_act"),
        eps=config["layer_norm_eps"],
        dropout=config["hidden_dropout_prob"],
        attention_dropout=config["attention_probs_dropout_prob"],
    )
    pooled = task == "encode" and any("pooler." in name for name in names)
    if pooled:
        config.refuse(pooler_act="tanh")
        if config.get("pooler_output_size") not in (None, dim):
            raise ValueError(f"config.json: pooler_output_size is {config['pooler_output_size']}, but only {dim} is supported")
    return _seer(task, parts, CLS if pooled else First)


def _write(tree: Any) -> dict[str, Any]:
    layer, dim = at(tree, "encoder.layer"), at(tree, "dim")
    if name_of(at(tree, "embedder.parts.0")) != "patch":
        raise ValueError("a vit is built of patches")
    return {
        "hidden_size": dim,
        "num_hidden_layers": at(tree, "encoder.layers"),
        "num_attention_heads": at(layer, "mixer.heads"),
        "intermediate_size": at(layer, "feedforward.hidden") or 4 * dim,
        "hidden_act": activation_name(at(layer, "feedforward.activation")),
        "hidden_dropout_prob": at(layer, "residual.dropout"),
        "attention_probs_dropout_prob": at(layer, "mixer.dropout"),
        "layer_norm_eps": at(layer, "residual.norm.eps"),
        "patch_size": at(tree, "embedder.parts.0.size"),
        "qkv_bias": True,
    }


def _field(config: Config) -> Field:
    side = config["image_size"]
    if type(side) is not int or side < 1:
        raise ValueError(f"config.json: image_size is {side!r}, but only squares are supported, said by one number from 1")
    return Field("image", config["num_channels"], kind="image", max_length=side, space="image")


def _sizes(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    _, channels, patch, _ = tensors["embedder.parts.0.weight"].shape
    positions = len(tensors["embedder.parts.0.position.weight"])
    return {"num_channels": channels, "image_size": isqrt(positions - 1) * patch}


def _stretched(structure: Build[Structure], position: Build[Embedder]) -> Build[Structure]:
    patch = changed(at(structure, "embedder.parts.0"), position=position)
    return changed(structure, embedder=changed(at(structure, "embedder"), parts=[patch]))


layout(
    Layout(
        type="vit",
        prefix="vit.",
        body=("embeddings", "encoder", "layernorm", "pooler"),
        read=_read,
        write=_write,
        rules=_rules,
        tasks={"ViTModel": "encode", "ViTForImageClassification": "classification"},
        defaults={
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "layer_norm_eps": 1e-12,
            "num_channels": 3,
        },
        ignored=("*mask_token",),
        field=_field,
        sizes=_sizes,
        stretched=_stretched,
    )
)
