"""``weft demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import print_result
from weft.cli.options import command
from weft.cli.runs import resumable


@command
def demo(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [PATH=VALUE]...",
            help="Name of the demonstration (see --list; default: dates), and options of its recipe to override.",
            show_default=False,
        ),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the demonstrations.")] = False,
    recipe: Annotated[
        str | None, typer.Option(help="Another sequence-to-sequence recipe for the demonstration dates.", show_default=False)
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Run folder (default: runs/demo, or runs/demo-NAME).", show_default=False),
    ] = None,
) -> None:
    """Train a small model on data of installed packages and show the result: test examples, metrics, and a page of attention
    weights or attributions. Each demonstration takes at most two minutes."""
    from weft.cli.demos import DEMOS

    if show_list:
        width = max(map(len, DEMOS))
        print_result("\n".join(f"{name:{width}}  {chosen.summary}" for name, chosen in DEMOS.items()))
        return
    given, default = arguments or [], next(iter(DEMOS))
    named = bool(given) and "=" not in given[0]
    name, overrides = (given[0], given[1:]) if named else (default, given)
    if name not in DEMOS:
        from weft.recipe import nearest

        raise ValueError(f"there is no demonstration {name!r}{nearest(name, DEMOS)} (demonstrations: {', '.join(DEMOS)})")
    if recipe is not None and name != default:
        raise ValueError(f"--recipe is an option of the demonstration {default}, but {name} is chosen; remove it")
    from weft.cli.demo_run import demo as run_demo

    folder = run or Path("runs/demo" if name == default else f"runs/demo-{name}")
    with resumable(folder):
        run_demo(name, folder, overrides, recipe)
