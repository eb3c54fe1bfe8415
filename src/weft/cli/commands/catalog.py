"""``weft catalog``, ``weft recipes`` and ``weft schema``: what a recipe can be composed of."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.console import print_json
from weft.cli.options import command


@command
def catalog(
    slot: Annotated[
        str | None,
        typer.Argument(
            help="List only this slot, e.g. encoder, or the parts of an option, e.g. mixer; or show a part, e.g. beam.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(help="Show this entry: options, defaults, formula, paper.", show_default=False)
    ] = None,
) -> None:
    """List the catalog: every slot and the components registered for it."""
    from weft.cli.listing import print_catalog

    print_catalog(slot, name)


@command
def recipes() -> None:
    """List the shipped recipes."""
    from weft.cli.listing import print_recipes

    print_recipes()


@command
def schema() -> None:
    """Print the JSON Schema of recipes, for editors: weft schema > recipe.schema.json"""
    from weft.recipe.schema import schema as recipe_schema
    from weft.training.run import Run

    print_json(recipe_schema(Run))
