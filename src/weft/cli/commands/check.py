"""``weft check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import message, print_json
from weft.cli.options import Json, Overrides, Recipe, command
from weft.cli.runs import read_recipe


@command
def check(
    recipe: Recipe,
    overrides: Overrides = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", help="Draw the architecture to this .svg file.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Validate a recipe without reading its data: print composition, shapes, parameter counts, memory and FLOPs.

    Nothing is downloaded.
    """
    from weft.cli.check_report import print_reports, reports_as_json
    from weft.core.hub import no_downloads
    from weft.inspect.architecture import architecture, check_suffix
    from weft.training.dry_run import check as dry_run

    if figure is not None:
        check_suffix(figure)
    with no_downloads():
        run = read_recipe(recipe, overrides)
        reports = dry_run(run)
        if figure is not None:
            message(f"wrote {architecture(run).save(figure)}")
    if as_json:
        print_json(reports_as_json(reports))
    else:
        print_reports(run, reports)
