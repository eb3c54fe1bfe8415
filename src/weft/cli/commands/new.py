"""``weft new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import message, print_result
from weft.cli.options import command

MAX_BYTES = 100_000_000
"""Size of training files for which baselines are computed without being asked for."""


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
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="The column of a table with the texts; twice for pairs. Default: detected.", show_default=False
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of a table with the labels. Default: detected.", show_default=False),
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline/--no-baseline", help="Evaluate the baselines of weft baseline on the validation split.")
    ] = True,
) -> None:
    """Detect the task of your data files and write a commented recipe for it."""
    from weft.core.io import write_text
    from weft.experiments.scaffold import detect_data, fine_tuning_recipe, scratch_recipe

    if out.exists():
        raise ValueError(f"{out} already exists; choose another file with --out")
    detected = detect_data(files, as_, texts=text or (), label=label)
    folder = out.absolute().parent
    write_text(out, scratch_recipe(detected, folder) if from_ is None else fine_tuning_recipe(detected, folder, from_))
    print_result("\n".join([f"{detected.source}: {detected.reason}", *detected.notes()]))
    print_result(f"wrote {out}")
    if baseline:
        _print_baselines(out, detected.size)
    print_result(f"\n  weft check {out}\n  weft train {out}")


def _print_baselines(recipe: Path, size: int) -> None:
    """Print the baselines on the validation split, or why there are none. The recipe is complete already."""
    from weft.experiments.baselines import run_baselines
    from weft.training.recipes import read_run

    if size > MAX_BYTES:
        message(f"no baseline: the training files have {size / 1e6:,.0f} MB; to compute it, run: weft baseline {recipe}")
        return
    try:
        report = run_baselines(read_run(str(recipe)))
    except (ValueError, OSError) as error:
        message(f"no baseline: {error}")
        return
    print_result("\n".join(report.lines(["valid"])))
