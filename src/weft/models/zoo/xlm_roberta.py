"""XLM-R: RoBERTa in 100 languages."""

from __future__ import annotations

from functools import partial
from typing import Literal

from weft.core.contracts import Pooler, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.zoo.encoders import BODY, BUFFERS, tasks
from weft.models.zoo.family import Family, Task, register_family
from weft.models.zoo.roberta import ROBERTA_KEYS, roberta, roberta_rules, roberta_structure


@composition("xlm-roberta")
def xlm_roberta(
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
    """XLM-R (XLM-RoBERTa): RoBERTa for 100 languages, with a vocabulary of 250,000 subwords.

    Conneau et al. 2020, https://arxiv.org/abs/1911.02116

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
        >>> xlm_roberta(size="large").keywords["dim"]
        1024
    """
    model = roberta(
        size=size, dim=dim, layers=layers, heads=heads, hidden=hidden, length=length, dropout=dropout, task=task, pooler=pooler
    )
    return partial(model, weights=weights)


register_family(
    Family(
        model_type="xlm-roberta",
        prefix="roberta.",
        body=BODY,
        structure=roberta_structure,
        config=ROBERTA_KEYS,
        rules=roberta_rules,
        tasks=tasks("XLMRoberta"),
        tied=("lm_head.decoder.*",),
        ignored=BUFFERS,
    )
)
