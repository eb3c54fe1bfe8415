"""ViT: Transformer encoder over the patches of an image."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import isqrt
from typing import Any, Literal

from torch import nn

from weft.blocks import (
    GELU,
    ClassifierHead,
    FirstPooler,
    LayerNorm,
    MultiHeadAttention,
    PatchEmbedder,
    PositionwiseFeedForward,
    PreNorm,
    SumEmbedder,
    Transformer,
    TransformerLayer,
)
from weft.core.contracts import Activation, Embedder, Pooler, Structure
from weft.core.fields import ImageField
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers, NonNegative
from weft.core.registry import Build, composition
from weft.models.classifier import Classifier
from weft.models.image_encoder import ImageEncoder
from weft.models.zoo.config import ModelConfig, SameAs
from weft.models.zoo.config_table import HIDDEN, Constant, DataKey, Key, activation
from weft.models.zoo.encoders import BERT_POOLER, task_head_rules
from weft.models.zoo.family import Family, register_family
from weft.models.zoo.option_paths import option_at, with_options
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

VIT = {
    "base": ModelSize(768, 12, 12, 3072),
    "large": ModelSize(1024, 24, 16, 4096),
    "huge": ModelSize(1280, 32, 16, 5120),
}
"""Dosovitskiy et al. 2021, table 1."""
PATCHES = {"base": 16, "large": 16, "huge": 14}
"""Patch sizes in pixels: B/16, L/16, H/14."""


def body(
    size: ModelSize,
    *,
    patch: int,
    activation: Build[Activation] = GELU,
    eps: float = 1e-12,
    dropout: float = 0.0,
) -> dict[str, Any]:
    """``dim``, ``embedder`` and ``encoder`` of ViT: a class token and patches with learned positions, pre-norm layers."""
    norm = partial(LayerNorm, eps=eps)
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHeadAttention, heads=size.heads, dropout=dropout),
        feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation),
        residual=partial(PreNorm, norm=norm, dropout=dropout),
    )
    return {
        "dim": size.dim,
        "embedder": partial(SumEmbedder, parts=[partial(PatchEmbedder, size=patch)], dropout=dropout),
        "encoder": partial(Transformer, layers=size.layers, layer=layer, position=None, norm=norm),
    }


@composition("vit")
def vit(
    *,
    size: Literal["base", "large", "huge"] = "base",
    patch: Count | None = None,
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    dropout: Dropout = 0.0,
    task: Literal["encode", "classification"] = "classification",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """Vision Transformer: Transformer encoder over the patches of an image.

    A learned class token and the patch embeddings, with learned positions; ``layers`` pre-norm layers with GELU. The number of
    positions follows from the image size of the data.

    Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929

    Args:
        size: A published size: B/16, L/16, H/14.
        patch: Patch size in pixels; None = that of the size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        dropout: Dropout probability of the sub-layers, the attention weights and the patch embeddings.
        task: classification, or encode (no head).
        pooler: Pools the hidden states; None = the hidden state of the class token, as published.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> vit(size="huge").keywords["dim"]
        1280
    """
    parts = body(VIT[size].override(dim, layers, heads, hidden), patch=patch or PATCHES[size], dropout=dropout)
    return partial(_for_task(task, parts, pooler or FirstPooler), weights=weights)


def _for_task(task: str, parts: Mapping[str, Any], pooler: Build[Pooler]) -> Build[Structure]:
    if task == "classification":
        return partial(Classifier, **parts, pooler=pooler, head=partial(ClassifierHead))
    if task != "encode":
        raise ValueError(f"task {task} is not supported by vit; use classification or encode")
    return partial(ImageEncoder, **parts, pooler=pooler)


# --------------------------------------------------------------------------------------------------- published models


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
    first = rules({"vit.embeddings.cls_token": "embedder.parts.0.cls_token"}, lead=2)
    position = rules({"vit.embeddings.position_embeddings": "embedder.parts.0.position.weight"}, lead=1)
    return first + position + rules(named | task_head_rules(structure))


def _structure(config: ModelConfig, task: str, names: set[str]) -> Build[Structure]:
    pooled = task == "encode" and any("pooler." in name for name in names)
    if pooled:
        config.require(pooler_act="tanh")
        size, dim = config["pooler_output_size"], config["hidden_size"]
        if size != dim:
            raise ValueError(f"config.json: pooler_output_size is {size}, but only {dim} is supported")
    return _for_task(task, body(VIT["base"], patch=PATCHES["base"]), BERT_POOLER if pooled else FirstPooler)


_KEYS = (
    Key("hidden_size", Dim, "dim"),
    Key("num_hidden_layers", Layers, "encoder.layers"),
    Key("num_attention_heads", Heads, "encoder.layer.mixer.heads"),
    Key("intermediate_size", HIDDEN, "encoder.layer.feedforward.hidden"),
    Key("hidden_act", activation("hidden_act"), "encoder.layer.feedforward.activation", default="gelu"),
    Key("hidden_dropout_prob", Dropout, "encoder.layer.residual.dropout", "embedder.dropout", default=0.0),
    Key("attention_probs_dropout_prob", Dropout, "encoder.layer.mixer.dropout", default=0.0),
    Key("layer_norm_eps", NonNegative, "encoder.layer.residual.norm.eps", "encoder.norm.eps", default=1e-12),
    Key("patch_size", Dim, "embedder.parts.0.size"),
    Constant("qkv_bias", True, written=True),
    DataKey("num_channels", Dim, default=3),
    DataKey("pooler_output_size", Dim, default=SameAs("hidden_size")),
)


def _image_field(config: ModelConfig) -> ImageField:
    side = config["image_size"]
    if type(side) is not int or side < 1:
        raise ValueError(f"config.json: image_size is {side!r}, but only square images are supported: one integer from 1")
    return ImageField("image", config["num_channels"], side, side)


def _data_config(model: nn.Module) -> dict[str, Any]:
    tensors = model.state_dict()
    _, channels, patch, _ = tensors["embedder.parts.0.weight"].shape
    positions = len(tensors["embedder.parts.0.position.weight"])
    return {"num_channels": channels, "image_size": isqrt(positions - 1) * patch}


def _with_positions(structure: Build[Structure], position: Build[Embedder]) -> Build[Structure]:
    patch = with_options(option_at(structure, "embedder.parts.0"), position=position)
    return with_options(structure, embedder=with_options(option_at(structure, "embedder"), parts=[patch]))


register_family(
    Family(
        model_type="vit",
        prefix="vit.",
        body=("embeddings", "encoder", "layernorm", "pooler"),
        structure=_structure,
        config=_KEYS,
        rules=_rules,
        tasks={"ViTModel": "encode", "ViTForImageClassification": "classification"},
        ignored=("*mask_token",),
        field=_image_field,
        data_config=_data_config,
        with_positions=_with_positions,
    )
)
