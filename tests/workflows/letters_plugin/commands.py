"""The command of the plug-in: imported when weft starts, so torch is imported inside the function."""

from typing import Annotated

import typer

from weft.cli.console import print_result
from weft.cli.options import Json, RunFolderArgument, command
from weft.cli.plugins import register_command


@command
def vowels(
    run: RunFolderArgument,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Strings of letters.")],
    as_json: Json = False,
) -> None:
    """Print the number of vowels that a run predicts for each text."""
    import json

    from weft.core.batch import Instance
    from weft.inference.load import load

    trained = load(run)
    batch = trained.collate([Instance(text=trained.codec.encode("text", text)) for text in texts])
    found = trained.objective.estimate(trained.model, batch).tolist()
    print_result(json.dumps(found) if as_json else "\n".join(map("{:.1f}\t{}".format, found, texts)))


register_command(vowels, "vowels", supports=lambda run: run.codec.info.data == "letters")
