"""``weft inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import print_result
from weft.cli.options import RunFolderArgument, command


@command
def inspect(
    run: RunFolderArgument,
    texts: Annotated[list[str], typer.Option("--input", metavar="TEXT", help="Input text; may be repeated.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Page to write (.html), or an image (.png) of one text.")
    ] = Path("inspect.html"),
    top_k: Annotated[int, typer.Option(help="Most probable tokens to show at each step.", min=1, max=100)] = 5,
) -> None:
    """Visualize the forward pass of a trained run: tokens, attention weights by layer and head, token and class probabilities."""
    from weft.inference.load import load
    from weft.inspect.inspection import inspect_run

    print_result(str(inspect_run(load(run), texts, out, top=top_k)))
