"""``weft show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import message
from weft.cli.options import Overrides, Recipe, command
from weft.cli.runs import read_recipe

Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write; a PNG of images is written beside it.")]


@command
def show(
    recipe: Recipe,
    overrides: Overrides = None,
    split: Annotated[
        list[str] | None,
        typer.Option("--split", metavar="NAME", help="train, valid or test; may be repeated. Default: all.", show_default=False),
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", help="Examples of each split.", min=1, max=1000)] = 32,
    out: Out = Path("show.html"),
) -> None:
    """Show the data of a recipe: examples of each split, and what the objective sees of them in training.

    Images are shown with their labels or texts, before and after augmentation; texts as tokens, and as the masked or noised
    versions from which the objective learns.
    """
    from weft.inspect.contact_sheet import sheet_image, sheet_page
    from weft.training.examples import sheet_sections

    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{out}: the page is an HTML file; give it the suffix .html")
    sections = sheet_sections(read_recipe(recipe, overrides), split or [], number)
    message(f"wrote {sheet_page(sections, out, f'Data of {recipe}')}")
    if (image := sheet_image(sections, out.with_suffix(".png"))) is not None:
        message(f"wrote {image}")
