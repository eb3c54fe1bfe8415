"""DistilBERT: BERT with half as many layers, without segments and without a pooler, distilled from BERT."""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.blocks import ClassifierHead, Dense, FirstPooler, ReLU
from weft.core.contracts import Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import HIDDEN, Key, activation
from weft.models.zoo.encoders import (
    BUFFERS,
    body,
    embedding_rules,
    masked_lm_head,
    mlm_bias_module,
    task_head_rules,
    task_model,
    tasks,
)
from weft.models.zoo.family import TIED_EMBEDDINGS, Family, Task, register_family
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

DISTILBERT = ModelSize(768, 6, 12, 3072)
"""Sanh et al. 2019, section 3."""
_RELU_POOLER: Build[Pooler] = partial(FirstPooler, transform=partial(Dense, activation=ReLU))
"""The ``pre_classifier`` of transformers: a dense layer with ReLU over the first hidden state."""
_POOLED = ("classification", "multiple-choice")


def _for_task(task: Task, parts: dict[str, Any], *, dropout: float = 0.1, tied: bool = True) -> Build[Structure]:
    """Add the head of the task; classifiers and question answering have their own dropout probabilities in transformers."""
    pooled = task in _POOLED
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(tied=tied),
        published_pooler=_RELU_POOLER if pooled else None,
        head=partial(ClassifierHead, dropout=0.2 if pooled else dropout),
    )
    return partial(model, head=partial(ClassifierHead, dropout=0.1)) if task == "question-answering" else model


@composition("distilbert")
def distilbert(
    *,
    dim: Dim = DISTILBERT.dim,
    layers: Layers = DISTILBERT.layers,
    heads: Heads = DISTILBERT.heads,
    hidden: Dim | None = None,
    length: Count = 512,
    dropout: Dropout = 0.1,
    task: Task = "masked-lm",
    pooler: Build[Pooler] | None = None,
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """DistilBERT: BERT of half the depth, without segment embeddings.

    Sanh et al. 2019, https://arxiv.org/abs/1910.01108

    Args:
        dim: Hidden size.
        layers: Number of layers.
        heads: Attention heads per layer.
        hidden: Inner dimension of the feed-forward network; None = 4 dim.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = the first hidden state, and a dense layer with ReLU for a class or a choice, as
            published.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> distilbert().keywords["dim"]
        768
    """
    parts = body(ModelSize(dim, layers, heads, hidden), length=length, segments=None, dropout=dropout)
    model = _for_task(task, parts, dropout=dropout)
    return partial(model, weights=weights) if pooler is None else partial(model, pooler=pooler, weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def _structure(config: ModelConfig, task: Task, names: set[str]) -> Build[Structure]:
    return _for_task(task, body(DISTILBERT, length=512, segments=None), tied=config["tie_word_embeddings"])


_KEYS = (
    Key("dim", Dim, "dim", "text-encoder:discriminator.hidden"),
    Key("n_layers", Layers, "encoder.layers"),
    Key("n_heads", Heads, "encoder.layer.mixer.heads"),
    Key("hidden_dim", HIDDEN, "encoder.layer.feedforward.hidden"),
    Key(
        "activation",
        activation("activation"),
        "encoder.layer.feedforward.activation",
        "text-encoder:head.transform.activation",
        "text-encoder:discriminator.activation",
        default="gelu",
    ),
    Key("dropout", Dropout, "encoder.layer.residual.dropout", "embedder.dropout", "tagger:head.dropout", default=0.1),
    Key("attention_dropout", Dropout, "encoder.layer.mixer.dropout", default=0.1),
    Key("seq_classif_dropout", Dropout, "classifier:head.dropout", "multiple-choice:head.dropout", default=0.2),
    Key("qa_dropout", Dropout, "span-extractor:head.dropout", default=0.1),
    Key("max_position_embeddings", Dim, "embedder.parts.1.length"),
    TIED_EMBEDDINGS,
)


def _rules(structure: Any) -> list[Rule]:
    theirs, ours = "distilbert.transformer.layer.#", "encoder.stack.layers.#"
    named = {
        f"{theirs}.attention.q_lin.*": f"{ours}.mixer.query.*",
        f"{theirs}.attention.k_lin.*": f"{ours}.mixer.key.*",
        f"{theirs}.attention.v_lin.*": f"{ours}.mixer.value.*",
        f"{theirs}.attention.out_lin.*": f"{ours}.mixer.out.*",
        f"{theirs}.sa_layer_norm.*": f"{ours}.mixer_residual.norm.*",
        f"{theirs}.ffn.lin1.*": f"{ours}.feedforward.up.*",
        f"{theirs}.ffn.lin2.*": f"{ours}.feedforward.down.*",
        f"{theirs}.output_layer_norm.*": f"{ours}.feedforward_residual.norm.*",
        "pre_classifier.*": "pooler.transform.map.*",
        "vocab_transform.*": "head.transform.map.*",
        "vocab_layer_norm.*": "head.transform.norm.*",
        "vocab_projector.*": f"{mlm_bias_module(structure)}.*",
    }
    return embedding_rules("distilbert.") + rules(named | task_head_rules(structure))


register_family(
    Family(
        model_type="distilbert",
        prefix="distilbert.",
        body=("embeddings", "transformer"),
        structure=_structure,
        config=_KEYS,
        rules=_rules,
        tasks=tasks("DistilBert"),
        tied=("vocab_projector.weight",),
        ignored=BUFFERS,
    )
)
