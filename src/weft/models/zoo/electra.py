"""ELECTRA: BERT's encoder, pre-trained as a discriminator of replaced tokens."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from weft.blocks import GELU, ClassifierHead, Dense, FirstPooler
from weft.core.contracts import Activation, Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.bert import BERT
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import Key, activation, revised
from weft.models.zoo.encoders import (
    BERT_KEYS,
    BODY,
    BUFFERS,
    EMBEDDING_DIM,
    EMBEDDING_PATHS,
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
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

ELECTRA = {"small": ModelSize(256, 12, 4, 1024), "base": BERT["base"], "large": BERT["large"]}
"""Clark et al. 2020, appendix B, table 6 (the discriminators)."""
ELECTRA_EMBEDDING_DIM = {"small": 128, "base": 768, "large": 1024}


def electra_summary(activation: Build[Activation] | None = GELU) -> Build[Pooler]:
    """The pooler of ELECTRA's multiple-choice model in transformers: a dense layer over the first hidden state."""
    return partial(FirstPooler, transform=partial(Dense, activation=activation))


@composition("electra")
def electra(
    *,
    size: Literal["small", "base", "large"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    embedding_dim: Dim | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "replaced-token",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """ELECTRA: BERT's encoder, pre-trained as a discriminator of replaced tokens.

    Clark et al. 2020, https://arxiv.org/abs/2003.10555

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        embedding_dim: Dimension of the token embeddings; None = that of the size, or dim where dim is set.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none, masked-lm is the generator.
        pooler: Pools the hidden states; None = the first hidden state.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> electra(size="small").keywords["dim"]
        256
    """
    sizes = ELECTRA[size].override(dim, layers, heads, hidden)
    embedding_dim = embedding_dim or (ELECTRA_EMBEDDING_DIM[size] if dim is None else sizes.dim)
    parts = body(sizes, length=length, embedding_dim=None if embedding_dim == sizes.dim else embedding_dim, dropout=dropout)
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(),
        discriminator=partial(ClassifierHead, hidden=sizes.dim, activation=GELU),
        published_pooler=electra_summary() if task == "multiple-choice" else None,
        head=partial(ClassifierHead, hidden=sizes.dim, activation=GELU, dropout=dropout),
        pooler=pooler,
    )
    return partial(model, weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def _structure(config: ModelConfig, task: Task, names: set[str]) -> Build[Structure]:
    if task == "multiple-choice":
        config.require(summary_type="first", summary_use_proj=True, summary_proj_to_labels=False)
    return task_model(
        task,
        body(ELECTRA["base"], length=512),
        mlm_head=masked_lm_head(tied=config["tie_word_embeddings"]),
        published_pooler=electra_summary() if task == "multiple-choice" else pooler_of(task, names),
        head=partial(ClassifierHead, activation=GELU),
    )


_KEYS = revised(
    BERT_KEYS,
    Key("hidden_size", Dim, "dim", "text-encoder:discriminator.hidden", "classifier:head.hidden"),
    Key(
        "hidden_act",  # its masked-LM head always has GELU
        activation("hidden_act"),
        "encoder.layer.feedforward.activation",
        "text-encoder:discriminator.activation",
        default="gelu",
    ),
    Key("embedding_size", EMBEDDING_DIM, *EMBEDDING_PATHS, default=128),
    Key(
        "summary_activation",
        activation("summary_activation", null=True),
        "multiple-choice:pooler.transform.activation",
        default="gelu",
    ),
)


def _rules(structure: Any) -> list[Rule]:
    heads = {
        "electra.embeddings_project.*": "embedder.project.map.*",
        "sequence_summary.summary.*": "pooler.transform.map.*",
        "discriminator_predictions.dense.*": "discriminator.hidden.*",
        "discriminator_predictions.dense_prediction.*": "discriminator.out.*",
        "generator_predictions.dense.*": "head.transform.map.*",
        "generator_predictions.LayerNorm.*": "head.transform.norm.*",
        "generator_lm_head.*": f"{mlm_bias_module(structure)}.*",
    }
    body_rules = embedding_rules("electra.") + layer_rules("electra.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | task_head_rules(structure, hidden=True))


register_family(
    Family(
        model_type="electra",
        prefix="electra.",
        body=BODY,
        structure=_structure,
        config=_KEYS,
        rules=_rules,
        tasks=tasks("Electra", ForPreTraining="replaced-token"),
        tied=("generator_lm_head.weight",),
        ignored=BUFFERS,
    )
)
