"""A page that shows where a decoder looked.

T output tokens, S input tokens, H heads.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

_MARK = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Example:
    """One input with what was made of it.

    Args:
        source: The input's tokens.
        target: The output's tokens, the end mark included if it was looked from.
        maps: Attention weights by name, each T x S or H x T x S (tensors, arrays or lists).
        reference: What would have been right, if that is known.
        right: Whether the output is right, if that is known.
        candidates: Other outputs with their scores, best first.
        input: The input as a person wrote it (default: its tokens).
        output: The output as a person reads it (default: its tokens).
    """

    source: Sequence[str]
    target: Sequence[str]
    maps: Mapping[str, Any]
    reference: str | None = None
    right: bool | None = None
    candidates: Sequence[tuple[str, float]] = field(default=())
    input: str | None = None
    output: str | None = None


def attention_page(examples: Sequence[Example], path: str | Path, title: str) -> Path:
    """Write one HTML file that needs no network and no other file, and shows for each example where the decoder looked.

    Texts are shown, never run: they stand in the page as data, and a policy in its head lets no script run but the page's own.
    """
    if not examples:
        raise ValueError("there are no examples to show: give at least one")
    data = json.dumps({"title": title, "examples": [_plain(e, number) for number, e in enumerate(examples)]})
    for unsafe in "<>&":
        data = data.replace(unsafe, f"\\u{ord(unsafe):04x}")
    page = resources.files("weft.inspect").joinpath("page.html").read_text(encoding="utf-8")
    style, script = (_between(page, f"<{tag}>", f"</{tag}>") for tag in ("style", "script"))
    policy = f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    # In one pass: a title that looks like a mark stays a title.
    values = {"title": html.escape(title), "policy": policy, "data": data}
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_MARK.sub(lambda mark: values[mark[1]], page), encoding="utf-8", errors="replace", newline="\n")
    return file


def _plain(example: Example, number: int) -> dict[str, Any]:
    """An example as JSON has it. Weights become thousandths: what a page can show, at a third of the size."""
    size = len(example.target), len(example.source)
    maps = []
    for name, weights in example.maps.items():
        weight_HTS = np.asarray(weights.detach().cpu().float() if hasattr(weights, "detach") else weights, np.float64)
        weight_HTS = weight_HTS[None] if weight_HTS.ndim == 2 else weight_HTS
        if weight_HTS.ndim != 3 or weight_HTS.shape[1:] != size or not len(weight_HTS):
            raise ValueError(
                f"map {name!r} of example {number} is {' x '.join(map(str, weight_HTS.shape))}, but there are {size[0]} output "
                f"and {size[1]} input tokens: give {size[0]} x {size[1]}, or heads x {size[0]} x {size[1]}"
            )
        if not np.isfinite(weight_HTS).all():
            raise ValueError(f"map {name!r} of example {number} has weights that are not numbers")
        maps.append({"name": name, "heads": np.rint(weight_HTS * 1000).astype(int).tolist()})
    if not maps:
        raise ValueError(f"example {number} has no attention map: record one with weft.inspect.attention")
    return {
        "source": list(example.source),
        "target": list(example.target),
        "maps": maps,
        "reference": example.reference,
        "right": None if example.right is None else bool(example.right),
        "candidates": [[text, float(score)] for text, score in example.candidates],
        "input": example.input,
        "output": example.output,
    }


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
