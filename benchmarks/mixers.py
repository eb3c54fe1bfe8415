"""Layer types by length: complexity and maximum path length beside measurements. ``python -m benchmarks.mixers``

Each layer of ``TYPES`` runs forward and backward on a sequence of 1,024 to 16,384 positions, on one thread, in a new process.
Recorded measurements are not repeated, except with ``--again``. A length is left out where the memory of shorter ones
predicts more than 4 GB.

The path length is counted on 64 positions: the fewest applications of a layer, or steps of a recurrence, on a path from the first
input to the last output, found with gradients.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.document import IMAGES, scatter, show
from benchmarks.results import record, recorded
from weft.blocks import GRU, GatedConvolution, GRUDecoder, LinearAttention, MultiHeadAttention, StateSpace
from weft.core.masks import Causal, Mask, Window
from weft.core.seq import Seq

DIM, REACH, KERNEL = 64, 128, 5
LENGTHS = (1024, 2048, 4096, 8192, 16384)
SMALL, SMALL_REACH = 64, 8
"""Number of positions, and reach of the window, that path lengths are counted with."""
MAX_MEGABYTES = 4000
RESULT = "mixers"


@dataclass(frozen=True)
class LayerType:
    """A layer type: how it is built, its mask, and its published complexity for n positions of size d.

    Args:
        build: Builds the layer from the size of the vectors.
        mask: The mask, by the reach of windows; None for a recurrent network, which needs none.
        complexity: Operations of a layer.
        sequential: Minimum number of sequential operations.
        path: Maximum path length.
        small_path: The maximum path length for n = ``SMALL``.
    """

    build: Callable[[int], nn.Module]
    mask: Callable[[int], Mask] | None
    complexity: str
    sequential: str
    path: str
    small_path: int


def _causal(reach: int) -> Mask:
    return Causal()


def _window(reach: int) -> Mask:
    return Causal() & Window(reach=reach)


TYPES: dict[str, LayerType] = {
    "self-attention": LayerType(MultiHeadAttention, _causal, "n² d", "1", "1", 1),
    "window of r positions": LayerType(MultiHeadAttention, _window, "n r d", "1", "n / r", math.ceil((SMALL - 1) / SMALL_REACH)),
    "recurrent": LayerType(GRU, None, "n d²", "n", "n", SMALL),
    "convolution": LayerType(
        partial(GatedConvolution, kernel_size=KERNEL), _causal, "k n d²", "1", "n / k", math.ceil((SMALL - 1) / (KERNEL - 1))
    ),
    "linear attention": LayerType(LinearAttention, _causal, "n d² / H", "log n", "1", 1),
    "state-space": LayerType(partial(StateSpace, modes=16), _causal, "n d (log n + N)", "log n", "1", 1),
}


def output(layer: nn.Module, mask: Mask | None, x_BTD: Tensor) -> Tensor:
    """The output of a layer for every position."""
    x = Seq(x_BTD)
    return layer(x).data if mask is None else layer.mix(x, mask, None, None).hidden.data  # pyright: ignore[reportCallIssue]


def measure(name: str, length: int, seconds: float = 1.0) -> dict[str, float]:
    """CPU seconds of a forward and backward pass, the fastest of several, and the megabytes that the first one adds."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kind = TYPES[name]
    layer, mask = kind.build(DIM), None if kind.mask is None else kind.mask(REACH)
    x_BTD = torch.randn(1, length, DIM, requires_grad=True)
    output(layer, mask, x_BTD[:, :8]).sum().backward()  # loads what is loaded at the first call
    before, times = _peak_megabytes(), list[float]()
    peak = before
    while not times or (sum(times) < seconds and len(times) < 5):
        started = time.process_time()
        output(layer, mask, x_BTD).square().mean().backward()
        times.append(time.process_time() - started)
        peak = peak if len(times) > 1 else _peak_megabytes()
    return {"seconds": min(times), "megabytes": peak - before}


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def path_length(name: str) -> int:
    """The fewest applications of the layer, or steps of the recurrence, from the first input to the last output."""
    torch.manual_seed(0)
    kind = TYPES[name]
    x_BTD = torch.randn(1, SMALL, 8, dtype=torch.float64)
    if kind.mask is None:
        return _recurrent_path(x_BTD)
    layer, mask = kind.build(8).double(), kind.mask(SMALL_REACH)
    reach_TS = torch.zeros(SMALL, SMALL, dtype=torch.bool)
    x_BTD.requires_grad_()
    y_BTD = output(layer, mask, x_BTD)
    for t in range(SMALL):
        (gradient_BTD,) = torch.autograd.grad(y_BTD[0, t].sum(), x_BTD, retain_graph=True)
        reach_TS[t] = gradient_BTD[0].abs().sum(-1) > 0
    seen_S, applications = reach_TS[-1], 1
    while not seen_S[0]:
        seen_S, applications = reach_TS[seen_S].any(0), applications + 1
    return applications


def _recurrent_path(x_BTD: Tensor) -> int:
    """The steps from the first input to the last output: one more than the hidden states that the gradient passes."""
    decoder = GRUDecoder(8, None).double()
    decoded, passed = decoder.step(Seq(x_BTD[:, :1]), decoder.start(None, 1)), list[Tensor]()
    for x_BD in x_BTD[:, 1:].unbind(1):
        passed.append(decoded.state.vectors[0])
        decoded = decoder.step(Seq(x_BD[:, None]), decoded.state)
    gradients = torch.autograd.grad(decoded.hidden.data.sum(), passed, allow_unused=True)
    return 1 + sum(1 for g in gradients if g is not None and bool(g.abs().sum() > 0))


def measured(again: bool = False, lengths: tuple[int, ...] = LENGTHS) -> dict[str, dict[str, Any]]:
    """All measurements by layer type and length, recorded one by one; None where a length would need too much memory."""
    found: dict[str, dict[str, Any]] = {} if again else recorded(RESULT) or {}
    for name in TYPES:
        row = found.setdefault(name, {})
        for length in lengths:
            if str(length) in row:
                continue
            row[str(length)] = None
            if _predicted_megabytes(row, length) <= MAX_MEGABYTES:
                with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
                    row[str(length)] = pool.submit(measure, name, length).result()
            print(name, length, row[str(length)], flush=True)
            record(RESULT, found)
    return found


def _predicted_megabytes(row: dict[str, Any], length: int) -> float:
    """Quadratic growth from the longest shorter length; the first length is always measured."""
    shorter = [int(n) for n in row if int(n) < length]
    if not shorter:
        return 0.0
    last = row[str(max(shorter))]
    return math.inf if last is None else last["megabytes"] * (length / max(shorter)) ** 2


def tables(found: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """The two tables of the page, as lines of Markdown."""
    theory = ["| layer | operations | sequential operations | maximum path length | counted, n = 64 |", "|---|---|---|---|---|"]
    for name, kind in TYPES.items():
        theory.append(f"| {name} | O({kind.complexity}) | O({kind.sequential}) | O({kind.path}) | {path_length(name)} |")
    heads = " | ".join(f"n = {length:,}" for length in LENGTHS)
    cost = [f"| layer | {heads} | time for twice the length |", "|---" * (len(LENGTHS) + 2) + "|"]
    for name in TYPES:
        cells = [_cell(found[name][str(length)]) for length in LENGTHS]
        cost.append(f"| {name} | {' | '.join(cells)} | {_growth(found[name])} |")
    return {"layer types": theory, "cost by length": cost}


def _cell(value: dict[str, float] | None) -> str:
    return "" if value is None else f"{1000 * value['seconds']:,.0f} ms, {value['megabytes']:,.0f} MB"


def _growth(row: dict[str, Any]) -> str:
    """The ratio of the times of the two longest lengths."""
    known = [row[str(length)]["seconds"] for length in LENGTHS if row[str(length)] is not None]
    return f"{known[-1] / known[-2]:.1f}x" if len(known) > 1 else ""


def draw(found: dict[str, dict[str, Any]]) -> None:
    panels = {
        title: {name: [(n, scale * row[str(n)][key]) for n in LENGTHS if row[str(n)] is not None] for name, row in found.items()}
        for title, key, scale in (("CPU time in ms", "seconds", 1000.0), ("Peak memory in MB", "megabytes", 1.0))
    }

    def connect(plot: Any) -> None:
        plot.set_xscale("log", base=2)
        plot.set_yscale("log")
        for points in list(plot.collections):
            plot.plot(*points.get_offsets().T, color=points.get_facecolor()[0], linewidth=1.2, zorder=1)

    title = "Forward and backward pass of one layer over one sequence"
    scatter(IMAGES / "mixers.png", title, panels, ("length n in positions", "per sequence"), connect)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="repeat recorded measurements")
    found = measured(parser.parse_args().again)
    for name, lines in tables(found).items():
        show(name, lines)
    draw(found)


if __name__ == "__main__":
    main()
