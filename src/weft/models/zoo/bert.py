"""BERT: encoder-only Transformer with learned positions, segment embeddings and post-norm."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from weft.blocks import ClassifierHead
from weft.core.contracts import Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.encoders import (
    BERT_KEYS,
    BODY,
    BUFFERS,
    body,
    embedding_rules,
    has_segment_head,
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

BERT = {
    "tiny": ModelSize(128, 2, 2, 512),
    "mini": ModelSize(256, 4, 4, 1024),
    "small": ModelSize(512, 4, 8, 2048),
    "medium": ModelSize(512, 8, 8, 2048),
    "base": ModelSize(768, 12, 12, 3072),
    "large": ModelSize(1024, 24, 16, 4096),
}
"""Devlin et al. 2019, section 3; the smaller ones: Turc et al. 2019, https://arxiv.org/abs/1908.08962"""


@composition("bert")
def bert(
    *,
    size: Literal["tiny", "mini", "small", "medium", "base", "large"] = "base",
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
    """BERT: bidirectional Transformer encoder.

    Token, learned position and segment embeddings; ``layers`` post-norm layers with GELU. The task masked-lm also has the
    next-sentence head, as in pre-training.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of layers; None = that of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers, the attention weights and the embeddings.
        task: The task, and so the head; encode has none.
        pooler: Pools the hidden states; None = a dense layer with tanh over the first hidden state, as published.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> bert(size="tiny").keywords["dim"]
        128
    """
    parts = body(BERT[size].override(dim, layers, heads, hidden), length=length, dropout=dropout)
    model = task_model(
        task,
        parts,
        mlm_head=masked_lm_head(),
        with_segment_head=task == "masked-lm",
        head=partial(ClassifierHead, dropout=dropout),
        pooler=pooler,
    )
    return partial(model, weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def _structure(config: ModelConfig, task: Task, names: set[str]) -> Build[Structure]:
    return task_model(
        task,
        body(BERT["base"], length=512),
        mlm_head=masked_lm_head(tied=config["tie_word_embeddings"]),
        with_segment_head=has_segment_head(task, names),
        published_pooler=pooler_of(task, names, ("classification", "next-sentence")),
    )


def _rules(structure: Any) -> list[Rule]:
    heads = {
        "bert.pooler.dense.*": "pooler.transform.map.*",
        "cls.predictions.transform.dense.*": "head.transform.map.*",
        "cls.predictions.transform.LayerNorm.*": "head.transform.norm.*",
        "cls.predictions.decoder.*": "head.out.*",
        "cls.predictions.bias": f"{mlm_bias_module(structure)}.bias",
        "cls.seq_relationship.*": "segment_head.out.*",
    }
    body_rules = embedding_rules("bert.") + layer_rules("bert.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | task_head_rules(structure))


register_family(
    Family(
        model_type="bert",
        prefix="bert.",
        body=BODY,
        structure=_structure,
        config=BERT_KEYS,
        rules=_rules,
        tasks=tasks("Bert", ForPreTraining="masked-lm", ForNextSentencePrediction="next-sentence"),
        tied=("cls.predictions.decoder.*",),
        ignored=BUFFERS,
    )
)
