"""What the commands have in common: arguments, plug-ins, lines in and answers out, messages. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from weft.systems.latent_text.space import LatentSpace
    from weft.training.run import Run

Imports = Annotated[
    list[str] | None, typer.Option("--import", metavar="MODULE", help="Import a plug-in module that registers parts.")
]
RunDir = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Lines = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A text a line (default: standard input).")]
Beam = Annotated[int, typer.Option(help="Beam width; 1 = greedy, 0 = as the recipe says.", min=0, max=1000)]
Temperature = Annotated[float | None, typer.Option(help="Draw at random, at this temperature.", min=1e-6)]
TopK = Annotated[int | None, typer.Option(help="Draw from the k most probable tokens.", min=1)]
TopP = Annotated[float | None, typer.Option(help="Draw from the smallest set with this probability.", min=0, max=1)]
Length = Annotated[int | None, typer.Option(help="Most tokens to generate (default: as the recipe).", min=1)]
Seed = Annotated[int, typer.Option(help="What is drawn at random follows from it.", min=0)]
Label = Annotated[str | None, typer.Option(metavar="CLASS", help="The class that texts are to have, for runs that heed one.")]


def import_plugins(modules: list[str] | None) -> list[str]:
    """Import plug-ins: those named, and the installed ones with an entry point ``weft.plugins``. Returns their names."""
    from importlib.metadata import entry_points

    found = list(modules or [])
    if found and "" not in sys.path:
        sys.path.insert(0, "")
    found += [e.value for e in entry_points(group="weft.plugins") if e.value not in found]
    if found:
        importlib.import_module("weft.training.run")  # first, so that a plug-in cannot take a name of weft
    for module in found:
        try:
            importlib.import_module(module.partition(":")[0])
        except (Exception, SystemExit) as error:  # a plug-in is somebody else's code: anything can be wrong with it
            raise ValueError(f"the plug-in {module} cannot be imported: {type(error).__name__}: {error}") from error
    return found


def needs(run: Run, protocol: str, otherwise: str) -> None:
    if protocol not in [p.__name__ for p in run.model.provides()]:
        raise ValueError(otherwise)


def lines_of(file: Path | None) -> Iterator[str]:
    """The lines of a UTF-8 file or of standard input. Only a line feed ends one: so many lines in, so many answers out."""
    name = str(file or "standard input")
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if file is None else file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
                except UnicodeDecodeError as error:
                    raise ValueError(f"{name}:{number}: is not UTF-8 text: {error.reason} (byte {error.start})") from None
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from None


def together(rows: Iterator[Any], answer: Callable[[Iterator[Any]], Iterator[Any]]) -> Iterator[tuple[Any, Any]]:
    """Rows with their answers. One that cannot be read ends them: what came before it is answered first."""
    from itertools import tee

    trouble: list[ValueError] = []

    def readable() -> Iterator[Any]:
        try:
            yield from rows
        except ValueError as error:
            trouble.append(error)

    shown, used = tee(readable())
    yield from zip(shown, answer(used), strict=True)
    if trouble:
        raise trouble[0]


def search_for(
    default: Any, beam: int, temperature: float | None, top_k: int | None, top_p: float | None, length: int | None, seed: int = 0
) -> Any:
    """How texts are written, from the options of a command; ``default``, a factory, where they say nothing."""
    from functools import partial

    from weft.generate import Beam, Greedy, Sample

    chosen = {
        name: value for name, value in (("temperature", temperature), ("top_k", top_k), ("top_p", top_p)) if value is not None
    }
    if beam and chosen:
        raise ValueError("a beam searches, a temperature draws at random: choose one of --beam and --temperature/--top-k/--top-p")
    most = {} if length is None else {"length": length}
    if chosen:
        return partial(Sample, seed=seed, **chosen, **most)
    if beam:
        return partial(Greedy, **most) if beam == 1 else partial(Beam, width=beam, **most)
    return partial(default, **most)


def said_lost(space: LatentSpace) -> None:
    """Say how many texts were read in part only, and how many have words that were read as unknown."""
    if space.cut:
        most = f"{space.source.max_words} words or " * bool(space.source.max_words) + f"{space.source.length} tokens"
        say(f"of {space.cut:,} text{'s' * (space.cut > 1)} longer than {most}, the rest was left out")
    if space.unknown:
        texts = f"{space.unknown:,} of {space.read:,} text{'s' * (space.read > 1)} {'has' if space.unknown == 1 else 'have'}"
        say(f"{texts} words that the run does not know: they are read as unknown, which is written as \ufffd or as another word")


def say(text: str) -> None:
    """On standard error; of several processes that train together, only the first speaks."""
    if os.environ.get("RANK", "0") == "0":
        print(text, file=sys.stderr, flush=True)
