"""A page that shows what a model read, wrote and looked at.

T rows (who looks), S columns (what is looked at), H heads.
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

from weft.inspect.attention_html import example_html, map_html

MOST_WEIGHTS = 6_000_000
"""More weights than this (two bytes each) make a page slow to open: then heads are averaged."""

CROSS = "Alignment: output to input"
"""The kind of the maps from what was written to what was read."""

_MARK = re.compile(r"\{\{(\w+)\}\}")
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_STEPS = 64 * 64 - 1


@dataclass(frozen=True)
class Map:
    """The weights of one attention, with what looked and what was looked at.

    Args:
        weights: T x S or H x T x S (a tensor, an array or lists).
        rows: The T tokens that look.
        columns: The S tokens that are looked at.
        kind: What the maps of all layers together are called.
        verb: What the model did at a row: reading, or writing.
    """

    weights: Any
    rows: Sequence[str]
    columns: Sequence[str]
    kind: str = CROSS
    verb: str = "Writing"

    def _repr_html_(self) -> str:
        return map_html(self)


@dataclass(frozen=True)
class Step:
    """One written token, and what else could have been written.

    Args:
        token: What was written.
        probability: Its probability.
        rank: 1 = the likeliest.
        candidates: The likeliest tokens with their probabilities, best first.
        given: Whether it was not chosen but stood in the prompt.
    """

    token: str
    probability: float
    rank: int
    candidates: Sequence[tuple[str, float]]
    given: bool = False


@dataclass(frozen=True)
class Example:
    """One input with what was made of it.

    Args:
        source: The input's tokens.
        target: The output's tokens, the end mark included if it was looked from.
        maps: Attention by name: a ``Map``, or weights T x S or H x T x S of the output's tokens over the input's.
        reference: What would have been right, if that is known.
        right: Whether the output is right, if that is known.
        candidates: Other outputs with their scores, best first.
        input: The input as a person wrote it (default: its tokens).
        output: The output as a person reads it (default: its tokens).
        steps: The candidates at each token of the output.
        classes: The classes with their probabilities.
        notes: What a reader should know, such as that something was left out.
    """

    source: Sequence[str]
    target: Sequence[str]
    maps: Mapping[str, Any] = field(default_factory=dict)
    reference: str | None = None
    right: bool | None = None
    candidates: Sequence[tuple[str, float]] = field(default=())
    input: str | None = None
    output: str | None = None
    steps: Sequence[Step] = field(default=())
    classes: Sequence[tuple[str, float]] = field(default=())
    notes: Sequence[str] = field(default=())

    def named_maps(self, number: int = 0) -> dict[str, Map]:
        """Every map by name, its weights checked and H x T x S in numpy. ``number`` is for messages."""
        return {name: _checked(self, name, weights, number) for name, weights in self.maps.items()}

    def _repr_html_(self) -> str:
        return example_html(self)


def attention_page(examples: Sequence[Example], path: str | Path, title: str) -> Path:
    """Write one HTML file that needs no network and no other file: tokens, attention, candidates and classes of each example.

    Texts are shown, never run: they stand in the page as data, and a policy in its head lets no script run but the page's own.
    """
    if not examples:
        raise ValueError("there are no examples to show: give at least one")
    maps = [example.named_maps(number) for number, example in enumerate(examples)]
    size = sum(m.weights.size for named in maps for m in named.values())
    plain = [_plain(e, named, size > MOST_WEIGHTS) for e, named in zip(examples, maps, strict=True)]
    data = json.dumps({"title": title, "examples": plain}, separators=(",", ":"))
    for unsafe in "<>&":
        data = data.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return fill("attention_page", path, {"title": html.escape(title), "data": data}, ["attention_page"], "attention_page")


def fill(name: str, path: str | Path, values: Mapping[str, str], styles: Sequence[str], script: str = "") -> Path:
    """Write a page of this folder (``<name>.html``) with values in the places of its marks; they must be fit to stand there.

    Args:
        name: The page.
        path: The file to write.
        values: What stands in the place of each mark.
        styles: Style sheets of this folder.
        script: A script of this folder; without one, none can run.
    """
    style, code = "".join(_file(f"{sheet}.css") for sheet in styles), _file(f"{script}.js") if script else ""
    allowed = f"'{_digest(code)}'" if code else "'none'"
    policy = f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src {allowed}"
    # In one pass: a title that looks like a mark stays a title.
    known = {**values, "policy": policy, "style": style, "script": code}
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = _MARK.sub(lambda mark: known[mark[1]], _file(f"{name}.html"))
    file.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return file


def _checked(example: Example, name: str, given: Any, number: int) -> Map:
    found = given if isinstance(given, Map) else Map(given, example.target, example.source)
    weights, size = found.weights, (len(found.rows), len(found.columns))
    weight_HTS = np.asarray(weights.detach().cpu().float() if hasattr(weights, "detach") else weights, np.float64)
    weight_HTS = weight_HTS[None] if weight_HTS.ndim == 2 else weight_HTS
    if weight_HTS.ndim != 3 or weight_HTS.shape[1:] != size or not len(weight_HTS):
        raise ValueError(
            f"map {name!r} of example {number} is {' x '.join(map(str, weight_HTS.shape))}, but {size[0]} tokens look at "
            f"{size[1]}: give {size[0]} x {size[1]}, or heads x {size[0]} x {size[1]}"
        )
    if not np.isfinite(weight_HTS).all():
        raise ValueError(f"map {name!r} of example {number} has weights that are not numbers")
    if weight_HTS.size and (weight_HTS.min() < 0 or weight_HTS.max() > 1.001):
        low, high = weight_HTS.min(), weight_HTS.max()
        raise ValueError(f"map {name!r} of example {number} has weights from {low:.3g} to {high:.3g}: attention lies in 0 to 1")
    return Map(weight_HTS, list(found.rows), list(found.columns), found.kind, found.verb)


def _plain(example: Example, maps: Mapping[str, Map], average: bool) -> dict[str, Any]:
    """An example as JSON has it. Maps of one kind over the same tokens become its layers."""
    tokens: list[list[str]] = []

    def listed(sequence: Sequence[str]) -> int:
        if list(sequence) not in tokens:
            tokens.append(list(sequence))
        return tokens.index(list(sequence))

    notes, kinds = list(example.notes), dict[tuple[str, int, int], dict[str, Any]]()
    source, target = listed(example.source), listed(example.target)
    for name, m in maps.items():
        key = m.kind, listed(m.rows), listed(m.columns)
        kind = {"name": m.kind, "verb": m.verb, "rows": key[1], "columns": key[2], "layers": []}
        weight_HTS = m.weights.mean(0, keepdims=True) if average else m.weights
        layer = {"name": name, "heads": len(weight_HTS), "weights": _letters(weight_HTS)}
        kinds.setdefault(key, kind)["layers"].append(layer)
    if average and any(len(m.weights) > 1 for m in maps.values()):
        notes.append("There are too many weights for a page: each layer shows the mean of its heads.")
    return {
        "tokens": tokens,
        "source": source,
        "target": target,
        "kinds": list(kinds.values()),
        "reference": example.reference,
        "right": None if example.right is None else bool(example.right),
        "candidates": [[text, float(score)] for text, score in example.candidates],
        "input": example.input,
        "output": example.output,
        "steps": [
            [
                s.token,
                round(float(s.probability), 5),
                int(s.rank),
                [[t, round(float(p), 5)] for t, p in s.candidates],
                bool(s.given),
            ]
            for s in example.steps
        ],
        "classes": [[name, round(float(p), 5)] for name, p in example.classes],
        "notes": notes,
    }


def _letters(weights: np.ndarray) -> str:
    """Each weight in 4095ths as two letters of base 64: finer than what is shown, at two bytes a weight."""
    steps = np.rint(weights.clip(0, 1) * _STEPS).astype(np.uint16).ravel()
    return _LETTERS[np.stack([steps >> 6, steps & 63], -1)].tobytes().decode()


def _file(name: str) -> str:
    return resources.files("weft.inspect").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
