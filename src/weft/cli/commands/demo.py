"""``weft demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import Overrides, command
from weft.cli.runs import resumable


@command
def demo(
    overrides: Overrides = None,
    recipe: Annotated[str, typer.Option(help="A shipped sequence-to-sequence recipe.")] = "dates",
    run: Annotated[Path, typer.Option("--run", metavar="DIR", help="Run folder.")] = Path("runs/demo"),
) -> None:
    """Train a small recipe and show the result: test examples, learning curve and a page of attention weights."""
    from weft.cli.demo_run import demo as train_and_show

    with resumable(run):
        train_and_show(recipe, run, overrides or [])
