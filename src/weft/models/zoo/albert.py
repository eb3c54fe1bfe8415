"""ALBERT: BERT with factorized token embeddings and parameters shared across layers."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from weft.blocks import ClassifierHead, GELUTanh
from weft.core.contracts import Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.bert import BERT
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import Constant, Key, activation, revised
from weft.models.zoo.encoders import (
    BERT_KEYS,
    BODY,
    BUFFERS,
    CLASSIFIED,
    EMBEDDING_DIM,
    EMBEDDING_PATHS,
    body,
    embedding_rules,
    has_segment_head,
    masked_lm_head,
    mlm_bias_module,
    pooler_of,
    task_head_rules,
    task_model,
    tasks,
)
from weft.models.zoo.family import Family, Task, register_family
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

ALBERT = {
    "base": BERT["base"],
    "large": BERT["large"],
    "xlarge": ModelSize(2048, 24, 16, 8192),
    "xxlarge": ModelSize(4096, 12, 64, 16384),
}
"""Lan et al. 2020, table 1."""


@composition("albert")
def albert(
    *,
    size: Literal["base", "large", "xlarge", "xxlarge"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    embedding_dim: Dim = 128,
    groups: Layers = 1,
    length: Count = 512,
    dropout: Dropout = 0.0,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """ALBERT: BERT with factorized token embeddings and parameters shared across layers.

    Lan et al. 2020, https://arxiv.org/abs/1909.11942

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        embedding_dim: Dimension of the token embeddings, projected to dim.
        groups: Number of layer groups; the layers of a group share their parameters.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = a dense layer with tanh over the first hidden state, as published.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> albert().keywords["dim"]
        768
    """
    sizes = ALBERT[size].override(dim, layers, heads, hidden)
    parts = body(
        sizes, length=length, embedding_dim=embedding_dim, project=True, groups=groups, activation=GELUTanh, dropout=dropout
    )
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(activation=GELUTanh),
        with_segment_head=task == "masked-lm",
        head=partial(ClassifierHead, dropout=0.1),
        pooler=pooler,
    )
    return partial(model, weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def _structure(config: ModelConfig, task: Task, names: set[str]) -> Build[Structure]:
    return task_model(
        task,
        body(ALBERT["base"], length=512, project=True, groups=1),
        mlm_head=masked_lm_head(tied=config["tie_word_embeddings"]),
        with_segment_head=has_segment_head(task, names),
        published_pooler=pooler_of(task, names, ("classification", "next-sentence")),
    )


_KEYS = revised(
    BERT_KEYS,
    Key(
        "hidden_act",
        activation("hidden_act"),
        "encoder.layer.feedforward.activation",
        "text-encoder:head.transform.activation",
        "text-encoder:discriminator.activation",
        default="gelu_new",
    ),
    Key("hidden_dropout_prob", Dropout, "encoder.layer.residual.dropout", "embedder.dropout", default=0.0),
    Key("attention_probs_dropout_prob", Dropout, "encoder.layer.mixer.dropout", default=0.0),
    Key("embedding_size", EMBEDDING_DIM, *EMBEDDING_PATHS, default=128),
    Key("num_hidden_groups", Layers, "encoder.groups", default=1),
    Constant("inner_group_num", 1, written=True),
    Key("classifier_dropout_prob", Dropout, *(f"{of}head.dropout" for of in CLASSIFIED), default=0.1),
    without=("classifier_dropout",),
)


def _rules(structure: Any) -> list[Rule]:
    theirs, ours = "albert.encoder.albert_layer_groups.#.albert_layers.0", "encoder.stack.layers.#"
    named = {
        "albert.encoder.embedding_hidden_mapping_in.*": "embedder.project.map.*",
        f"{theirs}.attention.query.*": f"{ours}.mixer.query.*",
        f"{theirs}.attention.key.*": f"{ours}.mixer.key.*",
        f"{theirs}.attention.value.*": f"{ours}.mixer.value.*",
        f"{theirs}.attention.dense.*": f"{ours}.mixer.out.*",
        f"{theirs}.attention.LayerNorm.*": f"{ours}.mixer_residual.norm.*",
        f"{theirs}.ffn.*": f"{ours}.feedforward.up.*",
        f"{theirs}.ffn_output.*": f"{ours}.feedforward.down.*",
        f"{theirs}.full_layer_layer_norm.*": f"{ours}.feedforward_residual.norm.*",
        "albert.pooler.*": "pooler.transform.map.*",
        "predictions.dense.*": "head.transform.map.*",
        "predictions.LayerNorm.*": "head.transform.norm.*",
        "predictions.decoder.*": "head.out.*",
        "predictions.bias": f"{mlm_bias_module(structure)}.bias",
        "sop_classifier.classifier.*": "segment_head.out.*",
    }
    return embedding_rules("albert.") + rules(named | task_head_rules(structure))


register_family(
    Family(
        model_type="albert",
        prefix="albert.",
        body=BODY,
        structure=_structure,
        config=_KEYS,
        rules=_rules,
        tasks=tasks("Albert", ForPreTraining="masked-lm"),
        tied=("predictions.decoder.*",),
        ignored=BUFFERS,
    )
)
