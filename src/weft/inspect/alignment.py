"""Where a decoder looked while it wrote its answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from weft.batch import Instance, collate
from weft.inspect.attention import attention
from weft.inspect.page import Example
from weft.slots import Codec, Decodes


def alignments(
    model: nn.Module, codec: Codec, texts: Sequence[str], answers: Sequence[Sequence[int]], references: Sequence[str] = ()
) -> list[Example]:
    """For each text and the ids of its answer, the exact attention over the text at every step of the answer."""
    if not isinstance(model, Decodes) or "source" not in codec.info:
        raise ValueError("only a structure with a source and a decoder has something to align")
    found = []
    source, target = codec.info["source"], codec.info["target"]
    device = next(model.parameters()).device
    for i, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        ids = np.append(codec.encode("source", text), source.special.eos)
        written = np.array([target.special.bos, *answer])
        batch = collate([Instance(source=ids, input=written)]).to(device)
        with torch.inference_mode(), attention(model.decoder) as maps:
            model.decode(batch["input"], model.memory(batch))
        # a decoder's own sequence is its mixer's affair; what is left looks at the source
        looked = {n or "attention": m[0][0] for n, m in maps.items() if "mixer" not in n and m[0].shape[-1] == len(ids)}
        if not looked:
            raise ValueError(f"{type(model.decoder).__name__} does not look at its source: there is nothing to show")
        said = codec.decode("target", answer)
        reference = references[i] if references else None
        found.append(
            Example(
                source=[*codec.tokenizers[source.space].tokens(ids[:-1].tolist()), "end"],
                target=[*codec.tokenizers[target.space].tokens(list(answer)), "end"],
                maps=looked,
                reference=reference,
                right=said == reference if reference is not None else None,
                input=text,
                output=said,
            )
        )
    return found
