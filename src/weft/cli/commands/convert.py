"""``weft convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.console import print_result
from weft.cli.options import Model, command


@command
def convert(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write; new or empty.", show_default=False)],
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model family to export a run as: bert, gpt2, t5, ... (default: detected).")
    ] = None,
) -> None:
    """Export a trained run to the Hugging Face layout, or import a pretrained model as a run folder.

    The package transformers loads the exported folder.
    """
    from weft.inference.convert import to_published, to_run
    from weft.training.run_folder import RunFolder

    if family is not None and not RunFolder(model).is_run():
        raise ValueError(f"--family selects the format a run is exported to, but {model} is not a run folder")
    print_result(f"wrote {to_published(model, out, family) if RunFolder(model).is_run() else to_run(model, out)}")
