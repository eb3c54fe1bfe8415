"""``weft new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import print_result
from weft.cli.options import command


@command
def new(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Data files or folders; train, dev and test in a name select the split.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Recipe file to write.")] = Path("recipe.yaml"),
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="MODEL", help="Fine-tune a pretrained model: a folder, minilm, or a hub name."),
    ] = None,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="SOURCE",
            help="Read the files as this data source, such as labeled-text.",
        ),
    ] = None,
) -> None:
    """Detect the task of your data files and write a commented recipe for it."""
    from weft.core.io import write_text
    from weft.experiments.scaffold import detect_data, fine_tuning_recipe, scratch_recipe

    if out.exists():
        raise ValueError(f"{out} already exists; choose another file with --out")
    detected = detect_data(files, as_)
    folder = out.absolute().parent
    write_text(out, scratch_recipe(detected, folder) if from_ is None else fine_tuning_recipe(detected, folder, from_))
    print_result("\n".join([f"{detected.source}: {detected.reason}", *detected.notes()]))
    print_result(f"wrote {out}\n\n  weft check {out}\n  weft train {out}")
