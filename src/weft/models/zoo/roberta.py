"""RoBERTa: BERT without next-sentence prediction, with positions that start after the padding id."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from weft.blocks import ClassifierHead
from weft.core.contracts import Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.bert import BERT
from weft.models.zoo.config import TYPES, ModelConfig
from weft.models.zoo.config_table import Conversion, Key, activation, revised
from weft.models.zoo.encoders import (
    BERT_KEYS,
    BERT_POOLER,
    BODY,
    BUFFERS,
    body,
    embedding_rules,
    layer_rules,
    masked_lm_head,
    mlm_bias_module,
    pooler_of,
    task_head_rules,
    task_model,
    tasks,
)
from weft.models.zoo.family import Family, Task, register_family
from weft.models.zoo.option_paths import option_at
from weft.models.zoo.tensor_names import Rule, rules


@composition("roberta")
def roberta(
    *,
    size: Literal["base", "large"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """RoBERTa: BERT without segments and without next-sentence prediction, trained longer.

    Liu et al. 2019, https://arxiv.org/abs/1907.11692

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = the first hidden state.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> roberta(size="large").keywords["dim"]
        1024
    """
    sizes = BERT[size].override(dim, layers, heads, hidden)
    parts = body(sizes, length=length, offset=2, segments=1, eps=1e-5, dropout=dropout)
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(eps=1e-5),
        published_pooler=BERT_POOLER if task == "multiple-choice" else None,
        head=partial(ClassifierHead, hidden=sizes.dim, dropout=dropout),
        pooler=pooler,
    )
    return partial(model, weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def roberta_structure(config: ModelConfig, task: Task, names: set[str]) -> Build[Structure]:
    """RoBERTa's parts for a task."""
    return task_model(
        task,
        body(BERT["base"], length=512),
        mlm_head=masked_lm_head(tied=config["tie_word_embeddings"]),
        published_pooler=pooler_of(task, names),
    )


_OFFSET = Conversion(TYPES["pad_token_id"], lambda pad, _: pad + 1, lambda offset, _: offset - 1)
_LENGTH = Conversion(
    Dim,
    lambda rows, config: rows - (config["pad_token_id"] + 1),
    lambda length, structure: length + option_at(structure, "embedder.parts.1.offset"),
)
ROBERTA_KEYS = revised(
    BERT_KEYS,
    Key("hidden_size", Dim, "dim", "text-encoder:discriminator.hidden", "classifier:head.hidden"),
    Key(
        "hidden_act",  # its masked-LM head always has GELU
        activation("hidden_act"),
        "encoder.layer.feedforward.activation",
        "text-encoder:discriminator.activation",
        default="gelu",
    ),
    Key("pad_token_id", _OFFSET, "embedder.parts.1.offset", default=1),
    Key("max_position_embeddings", _LENGTH, "embedder.parts.1.length"),
)
"""RoBERTa's config.json: BERT's, with positions counted from the padding id."""


def roberta_rules(structure: Any) -> list[Rule]:
    """Rules for the tensors of RoBERTa."""
    heads = {
        "roberta.pooler.dense.*": "pooler.transform.map.*",
        "lm_head.dense.*": "head.transform.map.*",
        "lm_head.layer_norm.*": "head.transform.norm.*",
        "lm_head.decoder.*": "head.out.*",
        "lm_head.bias": f"{mlm_bias_module(structure)}.bias",
    }
    body_rules = embedding_rules("roberta.") + layer_rules("roberta.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | task_head_rules(structure, hidden=True))


register_family(
    Family(
        model_type="roberta",
        prefix="roberta.",
        body=BODY,
        structure=roberta_structure,
        config=ROBERTA_KEYS,
        rules=roberta_rules,
        tasks=tasks("Roberta"),
        tied=("lm_head.decoder.*",),
        ignored=BUFFERS,
    )
)
