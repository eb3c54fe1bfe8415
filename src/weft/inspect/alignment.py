"""Soft alignment of encoder-decoders: the cross-attention weights of given outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.core.contracts import Codec, Decodes, Structure
from weft.core.outputs import Hypothesis
from weft.inspect.attention_page import CROSS, AttentionExample
from weft.inspect.inspection import inspect_text


def alignments(
    model: Structure,
    codec: Codec,
    texts: Sequence[str],
    outputs: Sequence[Hypothesis | Sequence[int]],
    references: Sequence[str] = (),
) -> list[AttentionExample]:
    """Return the exact cross-attention weights of each output over its source text, for ``attention_page``.

    Args:
        model: An encoder-decoder with cross-attention.
        codec: Fields and tokenizers of the model.
        texts: The source texts.
        outputs: The output of each text: a hypothesis, or its token ids.
        references: The reference of each text; empty = none.
    """
    if not isinstance(model, Decodes) or "source" not in codec.info:
        raise ValueError(f"alignments need an encoder-decoder, got {type(model).__name__}")
    found = []
    for i, (text, output) in enumerate(zip(texts, outputs, strict=True)):
        example = inspect_text(model, codec, text, output)
        if not any(m.kind == CROSS for m in example.named_maps(i).values()):
            raise ValueError(f"{type(model.decoder).__name__} has no cross-attention, so it has no alignments to show")
        if references:
            example = replace(example, reference=references[i], correct=example.output == references[i])
        found.append(example)
    return found
