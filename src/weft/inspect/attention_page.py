"""Write an interactive page of attention weights, token probabilities and class probabilities.

Shape suffixes: H heads, T queries, S keys.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.inspect.attention_html import as_heads, example_html, map_html
from weft.inspect.web_page import write_page

MAX_WEIGHTS = 6_000_000
"""Maximum number of weights of a page, two bytes each; of more, the heads of each layer are averaged."""

CROSS = "Cross-attention"
"""Group of the cross-attention maps."""

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_LEVELS = 64 * 64 - 1


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights of one module, with the tokens of queries and keys.

    Args:
        weights: T x S or H x T x S (tensor, array or nested lists).
        queries: The T tokens that attend.
        keys: The S tokens that are attended to.
        kind: Name of the group that the map is a layer of, such as ``CROSS``.
        action: What the model does at a query: ``Encoding``, ``Generating``, ``Predicting``.
    """

    weights: Any
    queries: Sequence[str]
    keys: Sequence[str]
    kind: str = CROSS
    action: str = "Generating"

    def _repr_html_(self) -> str:
        return map_html(self)


@dataclass(frozen=True)
class DecodingStep:
    """A token of the output with its probability, and the most probable tokens at its position.

    Args:
        token: The token.
        probability: Its probability.
        rank: Its rank among all tokens; 1 = the most probable one.
        candidates: The most probable tokens with their probabilities, best first.
        forced: Whether the token is part of the prompt.
    """

    token: str
    probability: float
    rank: int
    candidates: Sequence[tuple[str, float]]
    forced: bool = False


@dataclass(frozen=True)
class AttentionExample:
    """An input with its output, attention weights and probabilities.

    Args:
        source: The tokens of the input.
        target: The tokens of the output, with EOS if the model generated it.
        maps: Attention by module name: an ``AttentionMap``, or weights T x S or H x T x S of the output over the input.
        reference: The reference output; None = not known.
        correct: Whether the output equals the reference; None = not known.
        candidates: Other hypotheses with their scores, best first.
        input: The input as text; None = its tokens joined.
        output: The output as text; None = its tokens joined.
        steps: The most probable tokens at each position of the output.
        classes: The classes with their probabilities.
        notes: Remarks to show, such as that the output is truncated.
    """

    source: Sequence[str]
    target: Sequence[str]
    maps: Mapping[str, Any] = field(default_factory=dict)
    reference: str | None = None
    correct: bool | None = None
    candidates: Sequence[tuple[str, float]] = field(default=())
    input: str | None = None
    output: str | None = None
    steps: Sequence[DecodingStep] = field(default=())
    classes: Sequence[tuple[str, float]] = field(default=())
    notes: Sequence[str] = field(default=())

    def named_maps(self, number: int = 0) -> dict[str, AttentionMap]:
        """Return every map by name with weights H x T x S in numpy. Raises ValueError for weights that are not attention.

        Args:
            number: Index of the example, for the message.
        """
        return {name: _checked_map(self, name, weights, number) for name, weights in self.maps.items()}

    def _repr_html_(self) -> str:
        return example_html(self)


def attention_page(examples: Sequence[AttentionExample], path: str | Path, title: str) -> Path:
    """Write a page of tokens, attention weights, token probabilities and classes as one HTML file; return its path.

    The file needs no network and no other file. Texts are data: a content security policy allows no script except that of the
    page.

    Args:
        examples: The examples.
        path: The file to write.
        title: Title of the page.
    """
    if not examples:
        raise ValueError("got no examples; pass at least one")
    maps = [example.named_maps(number) for number, example in enumerate(examples)]
    size = sum(m.weights.size for named in maps for m in named.values())
    documents = [_as_json(e, named, average=size > MAX_WEIGHTS) for e, named in zip(examples, maps, strict=True)]
    data = json.dumps({"title": title, "examples": documents}, separators=(",", ":"))
    for unsafe in "<>&":
        data = data.replace(unsafe, f"\\u{ord(unsafe):04x}")
    values = {"title": html.escape(title), "data": data}
    return write_page("attention_page", path, values, ["attention_page"], "attention_page")


def _checked_map(example: AttentionExample, name: str, value: Any, number: int) -> AttentionMap:
    found = value if isinstance(value, AttentionMap) else AttentionMap(value, example.target, example.source)
    weight_HTS, size = as_heads(found.weights), (len(found.queries), len(found.keys))
    where = f"attention map {name!r} of example {number}"
    if weight_HTS.ndim != 3 or weight_HTS.shape[1:] != size or not len(weight_HTS):
        raise ValueError(
            f"{where} has shape {' x '.join(map(str, weight_HTS.shape))} for {size[0]} queries and {size[1]} keys; "
            f"expected {size[0]} x {size[1]} or heads x {size[0]} x {size[1]}"
        )
    if not np.isfinite(weight_HTS).all():
        raise ValueError(f"{where} has weights that are not finite")
    if weight_HTS.size and (weight_HTS.min() < 0 or weight_HTS.max() > 1.001):
        low, high = weight_HTS.min(), weight_HTS.max()
        raise ValueError(f"{where} has weights from {low:.3g} to {high:.3g}; attention weights are between 0 and 1")
    return AttentionMap(weight_HTS, list(found.queries), list(found.keys), found.kind, found.action)


def _as_json(example: AttentionExample, maps: Mapping[str, AttentionMap], *, average: bool) -> dict[str, Any]:
    """Return an example as JSON values; with ``average``, the mean over the heads of each map."""
    tokens: list[list[str]] = []

    def index_of(sequence: Sequence[str]) -> int:
        if list(sequence) not in tokens:
            tokens.append(list(sequence))
        return tokens.index(list(sequence))

    notes = list(example.notes)
    source, target = index_of(example.source), index_of(example.target)
    kinds = dict[tuple[str, int, int], dict[str, Any]]()  # maps of one kind over the same tokens are its layers
    for name, m in maps.items():
        key = m.kind, index_of(m.queries), index_of(m.keys)
        kind = {"name": m.kind, "action": m.action, "rows": key[1], "columns": key[2], "layers": []}
        weight_HTS = m.weights.mean(0, keepdims=True) if average else m.weights
        layer = {"name": name, "heads": len(weight_HTS), "weights": _encode_weights(weight_HTS)}
        kinds.setdefault(key, kind)["layers"].append(layer)
    if average and any(len(m.weights) > 1 for m in maps.values()):
        notes.append(f"The page has more than {MAX_WEIGHTS:,} attention weights: each layer shows the mean of its heads.")
    return {
        "tokens": tokens,
        "source": source,
        "target": target,
        "kinds": list(kinds.values()),
        "reference": example.reference,
        "correct": None if example.correct is None else bool(example.correct),
        "candidates": [[text, float(score)] for text, score in example.candidates],
        "input": example.input,
        "output": example.output,
        "steps": [
            [
                s.token,
                round(float(s.probability), 5),
                int(s.rank),
                [[t, round(float(p), 5)] for t, p in s.candidates],
                bool(s.forced),
            ]
            for s in example.steps
        ],
        "classes": [[name, round(float(p), 5)] for name, p in example.classes],
        "notes": notes,
    }


def _encode_weights(weights: np.ndarray) -> str:
    """Quantize each weight to 12 bits and write it as two characters of base 64."""
    levels = np.rint(weights.clip(0, 1) * _LEVELS).astype(np.uint16).ravel()
    return _BASE64[np.stack([levels >> 6, levels & 63], -1)].tobytes().decode()
