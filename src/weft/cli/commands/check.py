"""``weft check``."""

from __future__ import annotations

from weft.cli.console import print_json
from weft.cli.options import Json, Overrides, Recipe, command
from weft.cli.runs import read_recipe


@command
def check(recipe: Recipe, overrides: Overrides = None, as_json: Json = False) -> None:
    """Validate a recipe without reading its data: print composition, shapes, parameter counts, memory and FLOPs."""
    from weft.cli.check_report import print_reports, reports_as_json
    from weft.training.dry_run import check as dry_run

    run = read_recipe(recipe, overrides)
    reports = dry_run(run)
    if as_json:
        print_json(reports_as_json(reports))
    else:
        print_reports(run, reports)
