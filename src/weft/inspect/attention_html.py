"""Display of attention weights in a notebook, as heat maps.

Shape suffixes: H heads, T queries, S keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import html

if TYPE_CHECKING:
    from weft.inspect.attention_page import AttentionExample, AttentionMap

MAX_HEADS, MAX_MAPS = 8, 6
"""Maximum number of heads shown for a map, and of maps shown for an example."""


def map_html(found: AttentionMap, name: str = "") -> str:
    """The mean over the heads of an attention map, then each head."""
    weight_HTS = as_heads(found.weights)
    heads = len(weight_HTS)
    parts = [html.heat_map(weight_HTS.mean(0).tolist(), found.queries, found.keys, caption=_caption(name, heads))]
    for number, weight_TS in enumerate(weight_HTS[:MAX_HEADS] if heads > 1 else (), 1):
        parts.append(html.heat_map(weight_TS.tolist(), found.queries, found.keys, caption=f"head {number}"))
    left = [f"{heads - MAX_HEADS} more heads are not shown"] if heads > MAX_HEADS else []
    return html.page(*parts, html.notes(left))


def example_html(example: AttentionExample) -> str:
    """Input and output of the model, class probabilities, and the mean over the heads of every attention map."""
    facts = [["input", example.input if example.input is not None else " ".join(example.source)]]
    facts += [["output", example.output if example.output is not None else " ".join(example.target)]]
    facts += [["reference", example.reference]] if example.reference is not None else []
    parts = [html.table(["", "text"], facts, numbers=False)]
    if example.classes:
        rows = [[name, f"{probability:.3f}"] for name, probability in example.classes]
        parts.append(html.table(["class", "probability"], rows))
    maps = example.named_maps()
    for name, found in list(maps.items())[:MAX_MAPS]:
        caption = _caption(name, len(found.weights))
        parts.append(html.heat_map(found.weights.mean(0).tolist(), found.queries, found.keys, caption=caption))
    left = [f"{len(maps) - MAX_MAPS} more attention maps are not shown"] if len(maps) > MAX_MAPS else []
    return html.page(*parts, html.notes([*left, *example.notes]))


def recorded_html(maps: Mapping[str, Sequence[Any]]) -> str:
    """The mean over the heads of every recorded module, for the first example of its first call."""
    if not maps:
        return html.page(html.notes(["no attention was recorded"]))
    parts = []
    for name, calls in list(maps.items())[:MAX_MAPS]:
        weight_HTS = as_heads(calls[0][0])
        rows, columns = ([str(i) for i in range(1, size + 1)] for size in weight_HTS.shape[1:])
        parts.append(html.heat_map(weight_HTS.mean(0).tolist(), rows, columns, caption=_caption(name, len(weight_HTS))))
    left = [f"{len(maps) - MAX_MAPS} more attention maps are not shown"] if len(maps) > MAX_MAPS else []
    return html.page(*parts, html.notes(left))


def as_heads(weights: Any) -> np.ndarray:
    """Return weights T x S or H x T x S (tensor, array or nested lists) as an array H x T x S."""
    array = np.asarray(weights.detach().float().cpu() if hasattr(weights, "detach") else weights, np.float64)
    return array[None] if array.ndim == 2 else array


def _caption(name: str, heads: int) -> str:
    mean = f"mean of {heads} heads" if heads > 1 else ""
    return ", ".join(part for part in (name, mean) if part)
