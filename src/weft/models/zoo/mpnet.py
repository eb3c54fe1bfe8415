"""MPNet: BERT with a relative position bias beside the learned positions, trained by masked and permuted prediction."""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.blocks import ClassifierHead, RelativePositionBias
from weft.core.contracts import Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import Constant, Conversion, Key, activation, revised
from weft.models.zoo.encoders import (
    BERT_KEYS,
    BERT_POOLER,
    BODY,
    BUFFERS,
    CLASSIFIED,
    body,
    embedding_rules,
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

MPNET = ModelSize(768, 12, 12, 3072)
"""Song et al. 2020, section 3.1: the size of BERT base."""
_OFFSET = 2
"""Positions start after 1, the padding id, whatever the value in config.json."""
_BUCKETS = 32
"""Buckets of the relative position bias, whatever the value in config.json."""


def _body(size: ModelSize, *, length: int, dropout: float = 0.1) -> dict[str, Any]:
    position = partial(RelativePositionBias, heads=size.heads, buckets=_BUCKETS)
    return body(size, length=length, offset=_OFFSET, segments=None, position=position, dropout=dropout)


@composition("mpnet")
def mpnet(
    *,
    dim: Dim = MPNET.dim,
    layers: Layers = MPNET.layers,
    heads: Heads = MPNET.heads,
    hidden: Dim | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """MPNet: BERT without segments, with a relative position bias that all layers share.

    Song et al. 2020, https://arxiv.org/abs/2004.09297

    Args:
        dim: Hidden size.
        layers: Number of layers.
        heads: Attention heads per layer.
        hidden: Inner dimension of the feed-forward network; None = 4 dim.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = the first hidden state.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> mpnet().keywords["dim"]
        768
    """
    model = task_model(
        task,
        _body(ModelSize(dim, layers, heads, hidden), length=length, dropout=dropout),
        mlm_head=masked_lm_head(),
        published_pooler=BERT_POOLER if task == "multiple-choice" else None,
        head=partial(ClassifierHead, hidden=dim, dropout=dropout),
        pooler=pooler,
    )
    return partial(model, weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def _structure(config: ModelConfig, task: Task, names: set[str]) -> Build[Structure]:
    return task_model(
        task,
        _body(MPNET, length=512),
        mlm_head=masked_lm_head(tied=config["tie_word_embeddings"]),
        published_pooler=pooler_of(task, names),
    )


_KEYS = revised(
    BERT_KEYS,
    Key("hidden_size", Dim, "dim", "text-encoder:discriminator.hidden", "classifier:head.hidden"),
    Key("num_attention_heads", Heads, "encoder.layer.mixer.heads", "encoder.position.heads"),
    Key(
        "hidden_act",  # its masked-LM head always has GELU
        activation("hidden_act"),
        "encoder.layer.feedforward.activation",
        "text-encoder:discriminator.activation",
        default="gelu",
    ),
    Key(
        "hidden_dropout_prob",
        Dropout,
        "encoder.layer.residual.dropout",
        "embedder.dropout",
        *(f"{of}head.dropout" for of in CLASSIFIED),
        default=0.1,
    ),
    Key(
        "max_position_embeddings",
        Conversion(Dim, lambda rows, _: rows - _OFFSET, lambda length, _: length + _OFFSET),
        "embedder.parts.1.length",
    ),
    Constant("relative_attention_num_buckets", _BUCKETS, written=True),
    without=("classifier_dropout", "type_vocab_size", "position_embedding_type", "is_decoder", "add_cross_attention"),
)


def _rules(structure: Any) -> list[Rule]:
    theirs, ours = "mpnet.encoder.layer.#", "encoder.stack.layers.#"
    named = {
        f"{theirs}.attention.attn.q.*": f"{ours}.mixer.query.*",
        f"{theirs}.attention.attn.k.*": f"{ours}.mixer.key.*",
        f"{theirs}.attention.attn.v.*": f"{ours}.mixer.value.*",
        f"{theirs}.attention.attn.o.*": f"{ours}.mixer.out.*",
        f"{theirs}.attention.LayerNorm.*": f"{ours}.mixer_residual.norm.*",
        f"{theirs}.intermediate.dense.*": f"{ours}.feedforward.up.*",
        f"{theirs}.output.dense.*": f"{ours}.feedforward.down.*",
        f"{theirs}.output.LayerNorm.*": f"{ours}.feedforward_residual.norm.*",
        "mpnet.encoder.relative_attention_bias.weight": "encoder.stack.position.weight",
        "mpnet.pooler.dense.*": "pooler.transform.map.*",
        "lm_head.dense.*": "head.transform.map.*",
        "lm_head.layer_norm.*": "head.transform.norm.*",
        "lm_head.decoder.*": "head.out.*",
        "lm_head.bias": f"{mlm_bias_module(structure)}.bias",
    }
    return embedding_rules("mpnet.") + rules(named | task_head_rules(structure, hidden=True))


register_family(
    Family(
        model_type="mpnet",
        prefix="mpnet.",
        body=BODY,
        structure=_structure,
        config=_KEYS,
        rules=_rules,
        tasks=tasks("MPNet"),
        tied=("lm_head.decoder.*",),
        ignored=BUFFERS,
    )
)
