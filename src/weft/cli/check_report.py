"""The output of ``weft check``: the dry run of a recipe as a table, and warnings about its learning options."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from weft.cli.console import print_result
from weft.recipe import problem_at
from weft.training.build import plans
from weft.training.dry_run import StageReport, batch_problem, memory_problem
from weft.training.run import Run

FORMAT = 1
MAX_INITIAL_WEIGHT = 0.1
"""Largest weight that the initial parameters may keep in an exponential moving average without a warning."""


def print_reports(run: Run, reports: list[StageReport]) -> None:
    """Print the composition, size and cost of every stage, then warnings."""
    for report in reports:
        if len(reports) > 1:
            print_result(f"stage {report.stage}")
        fields = ", ".join(f"{f.name} ({f.describe()})" for f in report.info.fields.values())
        print_result(f"data        {report.info.data}: {fields}")
        examples, tokens = report.batch
        scaled = f"; estimated from a batch of {report.scaled_from:,} tokens, scaled" if report.scaled_from else ""
        print_result(f"batch       {examples:,} examples, {tokens:,} tokens (synthetic{scaled})")
        rows = [[row.name, row.kind, row.shape, f"{row.parameters:,}"] for row in report.rows]
        _print_table(["module", "class", "output shape", "parameters"], rows)
        print_result(f"parameters  {report.parameters:,}")
        print_result(f"memory      about {_bytes(report.memory)} (weights, gradients, optimizer state, activations of one batch)")
        print_result(f"FLOPs       about {_quantity(report.operations)} per training step")
        print_result(f"loss terms  {', '.join(report.terms)}")
        if report.idle:
            print_result(f"not trained {summarize_tensors(report.idle)}")
        if problem := memory_problem(report) or batch_problem(report):
            print_result(f"warning     {problem}")
    for warning in warnings_of(run):
        print_result(f"warning     {warning}")
    print_result(f"{run.name}: valid")


def reports_as_json(reports: list[StageReport]) -> dict[str, Any]:
    """The reports as a JSON document."""
    return {"format": FORMAT, "stages": [asdict(report) for report in reports]}


def summarize_tensors(names: list[str], limit: int = 5) -> str:
    """Return the number of tensors and the first modules they belong to, with ``*`` for layer numbers.

    >>> summarize_tensors(["layers.0.norm.weight", "layers.1.norm.weight"])
    '2 tensors: layers.*.norm'
    """
    modules = list(dict.fromkeys(re.sub(r"\b\d+\b", "*", name.rpartition(".")[0] or name) for name in names))
    more = f" and {len(modules) - limit} more" if len(modules) > limit else ""
    return f"{len(names)} tensor{'s' if len(names) > 1 else ''}: {', '.join(modules[:limit])}{more}"


def warnings_of(run: Run) -> list[str]:
    """Warnings about every stage: a warmup longer than its phase, and an EMA that still averages the initial parameters."""
    found: list[str] = []
    for learning in (plan.learning() for plan in plans(run)):
        found += _average_warnings(learning)
        for phase in getattr(learning, "phases", []):
            if learning.total_steps is None or isinstance(phase.start, dict) or isinstance(phase.every, dict):
                continue  # in epochs: their length in steps is only known from the data
            found += _warmup_warnings(learning, phase)
    return list(dict.fromkeys(found))


def _average_warnings(learning: Any) -> list[str]:
    build = getattr(learning, "ema", None)
    if build is None or learning.total_steps is None or (ema := build()).warmup:
        return []
    left = ema.decay**learning.steps
    if left <= MAX_INITIAL_WEIGHT:
        return []
    text = f"the EMA still has {left:.0%} of the initial weights at the end: lower decay or set warmup: true"
    return [str(problem_at(build, text))]


def _warmup_warnings(learning: Any, phase: Any) -> list[str]:
    steps = max(0, -(-(learning.steps - phase.start) // phase.every))
    build, updates = phase.schedule or learning.schedule, steps * phase.repeat * phase.reuse
    warmup = getattr(build(), "warmup", 0)
    if warmup <= updates:
        return []
    text = f"the warmup takes {warmup:,} optimizer steps but the phase has {updates:,}: the learning rate never reaches its peak"
    return [str(problem_at(build, text))]


def _print_table(header: list[str], rows: Iterable[list[str]]) -> None:
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        cells = [c.rjust(w) if i == len(header) - 1 else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        print_result("  " + "  ".join(cells))


def _bytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"


def _quantity(number: float) -> str:
    for limit, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= limit:
            return f"{number / limit:.1f} {prefix}FLOPs"
    return f"{number:.0f} FLOPs"
