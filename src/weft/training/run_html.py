"""A run in one line, and as HTML in a notebook: its four parts and stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.core import html
from weft.core.registry import base_of, identity, name_of, option_parameters, recipe_key
from weft.training.build import plans

if TYPE_CHECKING:
    from weft.training.run import Run

MAX_LENGTH = 120
PARTS = ("data", "structure", "objective", "learning")


def run_html(run: Run, facts: Sequence[str] = ()) -> str:
    """Return a table of the four parts of every stage, with the options that differ from the defaults.

    Args:
        run: The specification.
        facts: Lines below the table.
    """
    rows: list[list[str | html.Cell]] = []
    for plan in plans(run):
        for part in PARTS:
            of_stage = f"{plan.name}: {part}" if plan.index else part
            for name, factory in _named(getattr(plan, part)):
                kind, options = summary(factory)
                rows.append([of_stage, html.Cell(f"{name}: {kind}" if name else kind, strong=True), options])
    below = [f"seed {run.seed}, device {run.device}, precision {run.precision}", *facts]
    table = html.table(["part", "type", "options"], rows, caption=f"Run {run.name}", numbers=False)
    return html.page(table, html.notes(below))


def parts_of(run: Run) -> list[str]:
    """Return the catalog names of data, structure and objectives of the last stage: a run in one line."""
    plan = plans(run)[-1]
    return [summary(factory)[0] for part in PARTS[:3] for _, factory in _named(getattr(plan, part))]


def _named(part: Any) -> list[tuple[str, Any]]:
    """Return the factories of a part by name; only several objectives have names."""
    return list(part.items()) if isinstance(part, Mapping) else [("", part)]


def summary(factory: Any) -> tuple[str, str]:
    """Return the catalog name of a part, and its options that differ from the defaults."""
    base = base_of(factory)
    kind = name_of(factory) if base is not None else getattr(factory, "__name__", type(factory).__name__)
    given = factory.keywords if isinstance(factory, partial) else {}
    defaults = {name: parameter.default for name, parameter in option_parameters(base).items()} if base is not None else {}
    changed = {name: value for name, value in given.items() if identity(value) != identity(defaults.get(name, base))}
    return kind, ", ".join(f"{recipe_key(name)}: {_shown(value)}" for name, value in changed.items())


def _shown(value: Any) -> str:
    """Return a value as short text; a part as its name and options."""
    if base_of(value) is not None:
        kind, options = summary(value)
        text = f"{kind} ({options})" if options else kind
    elif isinstance(value, Mapping):
        text = f"{{{', '.join(f'{name}: {_shown(inner)}' for name, inner in value.items())}}}"
    elif isinstance(value, list | tuple):
        text = f"[{', '.join(map(_shown, value))}]"
    else:
        text = str(value)
    return text if len(text) <= MAX_LENGTH else f"{text[:20]}…{text[-MAX_LENGTH + 21 :]}"
