"""``weft latent RUN ...``: the latent space of a trained run. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.console import (
    AsJson,
    Beam,
    Imports,
    Label,
    Length,
    Lines,
    RunDir,
    Seed,
    Temperature,
    TopK,
    TopP,
    import_plugins,
    lines_of,
    said_lost,
    say,
    search_for,
    together,
)

if TYPE_CHECKING:
    from weft.systems.latent_text.space import LatentSpace

latent = typer.Typer(no_args_is_help=True, help="Use the latent space of a trained run: read, write, draw, walk, steer, map.")
Scale = Annotated[float, typer.Option(help="How far: 2 or 3 where 1 changes nothing; below 0, the other way.")]


@latent.callback()
def _of(context: typer.Context, run: RunDir) -> None:
    context.obj = run


def _opened(context: typer.Context, imports: list[str] | None, *how: Any) -> tuple[LatentSpace, Any]:
    """The run's space, and how it writes."""
    import_plugins(imports)
    from weft.core.registry import options
    from weft.systems.latent_text.space import open_latent

    space = open_latent(context.obj)
    return space, search_for(options(space.run.evaluate)["search"], *how) if how else None


def _answer(text: str, about: dict[str, Any], as_json: bool) -> None:
    print(json.dumps({**about, "text": text}, ensure_ascii=False) if as_json else text, flush=True)


def _rewritten(
    space: LatentSpace, file: Path | None, change: Callable[[Any], Any] | None, label: str | None, search: Any, as_json: bool
) -> None:
    """Lines read and written again, as they come."""
    batch = 1 if sys.stdin.isatty() else 64
    for line, text in together(lines_of(file), lambda used: space.rewrite(used, change, label, search, batch)):
        _answer(text, {"input": line}, as_json)
    said_lost(space)


@latent.command()
def reconstruct(
    context: typer.Context,
    file: Lines = None,
    label: Label = None,
    beam: Beam = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Read each line and write it again: what the space keeps of it."""
    space, search = _opened(context, imports, beam, temperature, top_k, top_p, length, seed)
    _rewritten(space, file, None, label, search, as_json)


@latent.command()
def sample(
    context: typer.Context,
    number: Annotated[int, typer.Option(help="How many texts.", min=1)] = 10,
    label: Label = None,
    beam: Beam = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Draw texts as nobody has written them; of all classes in turn, and with their names, where no class is asked for."""
    space, search = _opened(context, imports, beam, temperature, top_k, top_p, length, seed)
    labels = space.wanted(number, label)
    names = [labels] * number if labels is None or isinstance(labels, str) else labels
    for name, text in zip(names, space.sample(number, labels, seed, search), strict=True):
        told = text if as_json or label is not None or name is None else f"{name}\t{text}"
        _answer(told, {} if name is None else {"label": name}, as_json)


@latent.command()
def interpolate(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A", help="The text to begin with.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The text to end with.")],
    steps: Annotated[int, typer.Option(help="How many texts, both ends included.", min=2)] = 11,
    spherical: Annotated[bool, typer.Option("--spherical", help="On an arc, not on a straight line.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write a page (.html) too.")] = None,
    label: Label = None,
    beam: Beam = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write the texts on the way from one to another."""
    if out is not None and out.suffix != ".html":
        raise ValueError(f"{out}: the page is written as .html")
    space, search = _opened(context, imports, beam, temperature, top_k, top_p, length, seed)
    how = "spherical" if spherical else "linear"
    found = space.interpolate(a, b, steps, how, label, search)
    for tau, text in found:
        print(json.dumps({"tau": round(tau, 6), "text": text}, ensure_ascii=False) if as_json else f"{tau:.2f}\t{text}")
    said_lost(space)
    if out is not None:
        from weft.inspect.interpolation import way_page

        say(f"wrote {way_page(found, out, first=a, last=b, how=how, title=f'From one text to another: {context.obj}')}")


@latent.command()
def analogy(
    context: typer.Context,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    scale: Scale = 1.0,
    label: Label = None,
    beam: Beam = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write what is to C as B is to A: z = z_C + scale (z_B - z_A)."""
    space, search = _opened(context, imports, beam, temperature, top_k, top_p, length, seed)
    _answer(space.analogy(a, b, c, scale, label, search), {"a": a, "b": b, "c": c, "scale": scale}, as_json)
    said_lost(space)


@latent.command(context_settings={"ignore_unknown_options": True})  # or -0.5 would be one
def arithmetic(
    context: typer.Context,
    terms: Annotated[
        list[str], typer.Argument(metavar="TERM...", help="Texts with + or - between them, and numbers before them.")
    ],
    label: Label = None,
    beam: Beam = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write the text at a sum of places: weft latent RUN arithmetic "good food" - "food" + 0.5 "staff"."""
    _no_options(context, terms)
    space, search = _opened(context, imports, beam, temperature, top_k, top_p, length, seed)
    from weft.systems.latent_text.space import read_terms

    read = read_terms(terms)
    _answer(space.arithmetic(read, label, search), {"terms": read}, as_json)
    said_lost(space)


def _no_options(context: typer.Context, terms: list[str]) -> None:
    """Where unknown options are taken for terms: raises ValueError for those that can only be options."""
    from weft.recipe import nearest

    for term in terms:
        if re.fullmatch(r"--?[A-Za-z][\w-]*(=.*)?", term):
            known = [name for option in context.command.params for name in option.opts if name.startswith("-")]
            hint = nearest(term.partition("=")[0], known) if term.startswith("--") else "; a sign is a word of its own"
            raise ValueError(f"there is no option {term}{hint}")


@latent.command()
def guide(
    context: typer.Context,
    towards: Annotated[Path, typer.Option(metavar="FILE", help="Texts of the kind that lines are to become, one a line.")],
    away: Annotated[Path, typer.Option(metavar="FILE", help="Texts of the kind that they are.")],
    file: Lines = None,
    scale: Scale = 1.0,
    label: Label = None,
    beam: Beam = 0,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    length: Length = None,
    seed: Seed = 0,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite lines along the difference of two groups of texts: z + scale (mean of towards - mean of away)."""
    space, search = _opened(context, imports, beam, temperature, top_k, top_p, length, seed)
    from weft.data.text_files import read_texts

    kinds = [[row.text for row in read_texts(group)] for group in (towards, away)]
    along_P = space.direction(kinds[0], kinds[1], scale)
    _rewritten(space, file, lambda z_BP: z_BP + along_P, label, search, as_json)


@latent.command("map")
def draw_map(
    context: typer.Context,
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|SPLIT|CLASS=FILE...",
            help="Texts: a table, a text a line, a split of the run's data, or the files of each class.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture.")] = Path("latent.png"),
    most: Annotated[int, typer.Option(help="At most so many texts, taken from all of them.", min=2)] = 2000,
    annotate: Annotated[int, typer.Option(help="At most so many are shown with their words.", min=0, max=100)] = 14,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Draw where texts lie, coloured by class: the two principal components of their places."""
    if out.suffix != ".png":
        raise ValueError(f"{out}: the picture is written as .png")
    space, _ = _opened(context, imports)
    from weft.inspect.scatter import latent_picture
    from weft.systems.latent_text.space import texts_at
    from weft.training.display import Terminal

    rows = texts_at(space.run, places, most)
    with Terminal().waiting(f"reading {len(rows):,} texts"):
        z_NP = space.encode([row.text for row in rows])
    about = {"labels": [row.label for row in rows], "texts": [row.text for row in rows]}
    plane = latent_picture(z_NP, out, **about, annotate=annotate, title=f"{context.obj}: {' '.join(places)}")
    said_lost(space)
    if as_json:
        print(json.dumps({"file": str(out), "texts": len(rows), "variance": plane.share_2.tolist()}))
    else:
        print(f"wrote {out}: {len(rows):,} texts, {plane.share_2.sum():.1%} of their variance")
