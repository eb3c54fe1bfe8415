"""Where a decoder looked while it wrote its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import nn

from weft.core.contracts import Codec, Decodes
from weft.core.outputs import Hypothesis
from weft.inspect.attention_page import CROSS, Example
from weft.inspect.trace import look


def alignments(
    model: nn.Module,
    codec: Codec,
    texts: Sequence[str],
    answers: Sequence[Hypothesis | Sequence[int]],
    references: Sequence[str] = (),
) -> list[Example]:
    """For each text and its answer (as found, or its ids), the exact attention over the text at every step of the answer."""
    if not isinstance(model, Decodes) or "source" not in codec.info:
        raise ValueError("only a structure with a source and a decoder has something to align")
    found = []
    for i, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        example = look(model, codec, text, answer)
        if not any(m.kind == CROSS for m in example.named_maps(i).values()):
            raise ValueError(f"{type(model.decoder).__name__} does not look at its source: there is nothing to show")
        if references:
            example = replace(example, reference=references[i], right=example.output == references[i])
        found.append(example)
    return found
