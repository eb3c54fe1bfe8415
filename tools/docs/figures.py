"""Figures of the catalog, plotted from the parts themselves: attention masks, activations, schedules, position encodings."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import torch
from cycler import cycler
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from tools.docs.package import Part, allowed_pairs, catalog, masks, position_vectors

FOLDER = "reference/catalog/images"
INK = "#7a7f87"
"""Readable on a light and on a dark page."""
CYCLE = ["#3f51b5", "#e8710a", "#1e8e3e", "#c5221f", "#8430ce", "#12858d", "#b58a00", "#d01884"]
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "weft", "svg.fonttype": "path", "font.size": 9, "axes.prop_cycle": cycler(color=CYCLE),
    "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "text.color": INK,
    "axes.titlecolor": INK, "axes.grid": True, "grid.color": INK, "grid.alpha": 0.25, "axes.spines.top": False,
    "axes.spines.right": False, "legend.frameon": False,
}  # fmt: skip

SLOTS: dict[str, list[tuple[str, str]]] = {
    "attention": [("masks", "Attention masks over 10 positions; in a filled cell the query (row) attends to the key (column).")],
    "activation": [("activations", "Activations f(x) for x from -4 to 4, and the identity (dotted).")],
    "schedule": [("schedules", "Learning-rate factor over 1,000 updates, with warmup 100 where the schedule has one.")],
    "annealing": [("annealing", "Weight over the course of training, with default options.")],
}
"""Names and captions of the figures of a slot."""
PARTS: dict[tuple[str, str], list[tuple[str, str]]] = {
    ("embedder", "sinusoidal"): [
        ("sinusoidal", "Vectors of the first 64 positions in 64 dimensions: each half goes from fast waves to slow ones.")
    ],
    ("position", "rotary"): [
        ("rotary", "Inner product of a rotated query and key that were equal before, by the distance of their positions.")
    ],
    ("position", "relative-bias"): [
        ("relative-bias", "Bucket of each offset from query to key: near offsets have one each, far ones share.")
    ],
}
"""Names and captions of the figures of a part."""


def of_slot(slot: str) -> list[tuple[str, str]]:
    """Names and captions of a slot's figures."""
    return SLOTS.get(slot, [])


def of_part(slot: str, part: str) -> list[tuple[str, str]]:
    """Names and captions of a part's figures."""
    return PARTS.get((slot, part), [])


def files() -> Iterator[tuple[str, str]]:
    """Path and SVG of every figure."""
    for name, draw in FIGURES.items():
        with matplotlib.rc_context(STYLE):
            yield f"{FOLDER}/{name}.svg", _svg(draw())


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return out.getvalue()


@functools.cache
def _parts(slot: str) -> tuple[Part, ...]:
    return next(s.parts for s in catalog() if s.name == slot)


def _part(slot: str, name: str) -> Callable[..., Any]:
    return next(part.factory for part in _parts(slot) if part.name == name)


def _masks() -> Figure:
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    axes = figure.subplots(2, 3)
    for ax, (title, mask) in zip(axes.flat, masks().items(), strict=True):
        ax.imshow(allowed_pairs(mask, 10), cmap=ListedColormap(["#00000000", CYCLE[0]]), vmin=0, vmax=1)
        ax.set_title(title, family="monospace", fontsize=9)
        ax.set_xticks(np.arange(-0.5, 10), minor=True)
        ax.set_yticks(np.arange(-0.5, 10), minor=True)
        ax.grid(False)
        ax.grid(which="minor", color=INK, alpha=0.35)
        ax.tick_params(which="both", length=0)
        ax.set(xlabel="key position", ylabel="query position", xticks=[0, 3, 6, 9], yticks=[0, 3, 6, 9])
    return figure


def _activations() -> Figure:
    x = torch.linspace(-4, 4, 401)
    parts = _parts("activation")
    columns = 4
    rows = -(-len(parts) // columns)
    figure = Figure(figsize=(7.6, 1.9 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax in axes.flat[len(parts) :]:
        ax.axis("off")
    for ax, part in zip(axes.flat, parts, strict=False):
        ax.plot(x, x, color=INK, linestyle=":", linewidth=1)
        ax.plot(x, part.factory()(x).detach())
        ax.set_title(part.name, family="monospace", fontsize=9)
        ax.set(ylim=(-1.6, 4.1), xlim=(-4, 4))
    figure.supxlabel("x", fontsize=9)
    figure.supylabel("f(x)", fontsize=9)
    return figure


def _schedules() -> Figure:
    updates = 1000
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    ax = figure.subplots()
    for part in _parts("schedule"):
        options = {"warmup": 100} if any(option.name == "warmup" for option in part.options) else {}
        schedule = part.factory(**options)
        ax.plot(range(updates), [schedule.factor(t, updates) for t in range(updates)], label=part.name)
    ax.set(xlabel="update", ylabel="factor of lr", ylim=(0, 1.05))
    ax.legend(loc="upper right", bbox_to_anchor=(1, 0.95))
    return figure


def _annealing() -> Figure:
    shares = np.linspace(0, 1, 400)
    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    ax = figure.subplots()
    for part in _parts("annealing"):
        annealing = part.factory()
        ax.plot(shares, [annealing.weight(float(share)) for share in shares], label=part.name)
    ax.set(xlabel="fraction of training", ylabel="weight", ylim=(0, 1.05))
    ax.legend()
    return figure


def _sinusoidal() -> Figure:
    figure = Figure(figsize=(6.2, 3.4), layout="constrained")
    ax = figure.subplots()
    image = ax.imshow(position_vectors(_part("embedder", "sinusoidal"), 64, 64), aspect="auto", cmap="coolwarm", vmin=-1, vmax=1)
    ax.grid(False)
    ax.set(xlabel="dimension", ylabel="position")
    figure.colorbar(image, label="value")
    return figure


def _rotary() -> Figure:
    dim, length = 64, 128
    rotary = _part("position", "rotary")(dim)
    ones = torch.ones(1, 1, length, dim) / dim**0.5
    turned = rotary.rotate(ones, torch.arange(length)[None])[0, 0]
    figure = Figure(figsize=(6.2, 2.8), layout="constrained")
    ax = figure.subplots()
    ax.plot(range(length), (turned[0] @ turned.T).detach())
    ax.set(xlabel="distance between query and key (positions)", ylabel="inner product")
    return figure


def _relative_bias() -> Figure:
    offsets = torch.arange(-160, 161)
    figure = Figure(figsize=(6.2, 2.8), layout="constrained")
    ax = figure.subplots()
    for bidirectional in (True, False):
        buckets = _part("position", "relative-bias")(64, bidirectional=bidirectional).bucket(offsets)
        ax.step(offsets, buckets, where="mid", label=f"bidirectional: {str(bidirectional).lower()}")
    ax.set(xlabel="key position - query position", ylabel="bucket")
    ax.legend()
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "masks": _masks,
    "activations": _activations,
    "schedules": _schedules,
    "annealing": _annealing,
    "sinusoidal": _sinusoidal,
    "rotary": _rotary,
    "relative-bias": _relative_bias,
}
