"""What the documentation reads from weft itself. No other module of the generators imports weft."""

from __future__ import annotations

import functools
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
import typer.main

import weft
from weft.cli.app import app
from weft.cli.listing import first_sentence
from weft.core.fields import TextField
from weft.core.masks import Causal, Full, Mask, Prefix, Window
from weft.core.registry import (
    CATALOG,
    alternatives,
    base_of,
    document,
    is_composition,
    name_of,
    option_parameters,
    recipe_key,
    slot_of,
    wiring,
)
from weft.core.seq import Seq
from weft.inspect import architecture
from weft.recipe import RecipeParser, parse
from weft.recipe.describe import allowed
from weft.recipe.serialize import dump, to_yaml
from weft.training.catalog import fill_catalog
from weft.training.recipes import read_run, shipped_recipes
from weft.training.run import Run

fill_catalog()

__all__ = [
    "ROOT",
    "Option",
    "Part",
    "Recipe",
    "Slot",
    "Yaml",
    "allowed_pairs",
    "architecture_figure",
    "catalog",
    "command_line",
    "inline",
    "masks",
    "position_vectors",
    "problems_of",
    "recipes",
    "source_of",
    "top_level",
]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(str(weft.__file__)).resolve().parent


@dataclass(frozen=True)
class Option:
    """A keyword-only parameter of a part: one row of its table of options."""

    name: str
    type: str
    default: str | None
    """As YAML; None where the option is required."""
    text: str
    slots: tuple[str, ...]
    """Slots whose parts it accepts."""
    annotation: Any


@dataclass(frozen=True)
class Part:
    """An entry of the catalog."""

    slot: str
    name: str
    summary: str
    body: str
    options: tuple[Option, ...]
    path: str
    """Import path of the class or function."""
    composition: bool
    factory: Callable[..., Any]


@dataclass(frozen=True)
class Slot:
    """A contract of the catalog with the parts that fill it."""

    name: str
    summary: str
    body: str
    wiring: tuple[str, ...]
    path: str
    """Import path of the contract."""
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Recipe:
    """A shipped recipe."""

    name: str
    text: str
    summary: str


def kebab(name: str) -> str:
    """``FreeBits`` -> ``free-bits``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


@functools.cache
def catalog() -> tuple[Slot, ...]:
    """Every slot that has parts, in alphabetical order."""
    found = []
    for kind, entries in CATALOG.items():
        if ours := {name: factory for name, factory in entries.items() if factory.__module__.partition(".")[0] == "weft"}:
            slot = kebab(kind.__name__)
            doc = document(kind)
            parts = tuple(_part(slot, name, factory) for name, factory in sorted(ours.items()))
            found.append(Slot(slot, doc.summary, doc.body, wiring(kind), _path(kind), parts))
    return tuple(sorted(found, key=lambda slot: slot.name))


def top_level() -> tuple[Option, ...]:
    """The keys of a recipe."""
    return _options(Run)


def _part(slot: str, name: str, factory: Callable[..., Any]) -> Part:
    doc = document(factory)
    return Part(slot, name, doc.summary, doc.body, _options(factory), _path(factory), is_composition(factory), factory)


def _options(factory: Callable[..., Any]) -> tuple[Option, ...]:
    texts = document(factory).args
    return tuple(
        Option(
            name=recipe_key(name),
            type=allowed(parameter.annotation),
            default=None if parameter.default is parameter.empty else inline(_written(parameter.default)),
            text=texts.get(name, ""),
            slots=tuple(kebab(kind.__name__) for kind in _slots(parameter.annotation)),
            annotation=parameter.annotation,
        )
        for name, parameter in option_parameters(factory).items()
    )


def _slots(annotation: Any) -> Iterator[type]:
    """The slots that an annotation names: ``Build[Slot]``, and lists and mappings of it."""
    for member in alternatives(annotation):
        if (kind := slot_of(member)) is not None:
            yield kind
        else:
            yield from (kind for inner in get_args(member) if (kind := slot_of(inner)) is not None)


def _path(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _written(value: Any) -> Any:
    """A default as a recipe writes it: a part by its name, with the options that differ from its own defaults."""
    if base_of(value) is not None:
        given = value.keywords if isinstance(value, functools.partial) else {}
        name = name_of(value)
        return {"type": name, **{recipe_key(key): _written(inner) for key, inner in given.items()}} if given else name
    if isinstance(value, list | tuple):
        return [_written(inner) for inner in value]
    return dump(value)


class Yaml(str):
    """A value that is YAML already."""


def inline(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, Yaml):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inline(key)}: {inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return to_yaml(value).strip().removesuffix("...").strip()


# ------------------------------------------------------------------------------------------------------------------ recipes


@functools.cache
def recipes() -> tuple[Recipe, ...]:
    """The shipped recipes, in alphabetical order."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in shipped_recipes().items()}
    return tuple(Recipe(name, text, first_sentence(text)) for name, text in sorted(texts.items()))


def problems_of(option: Option, line: str) -> list[str]:
    """What is wrong with a line of a recipe that gives ``option`` a value; files that it names need not exist."""
    parser = RecipeParser(ROOT, files=False)
    node = parse(line, "example.yaml")
    parser.read(option.annotation, node.value[option.name], option.name)
    return [str(problem) for problem in [*node.problems, *parser.problems]]


def architecture_figure(recipe: str) -> str:
    """The architecture of a recipe as SVG, as ``weft check --figure`` draws it; files that the recipe names need not exist."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{recipe}.svg"
        architecture(read_run(recipe, files=False)).save(file)
        return file.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- command line


@functools.cache
def command_line() -> Any:
    """The command group behind ``weft``."""
    return typer.main.get_command(app)


# ------------------------------------------------------------------------------------------------------------------- masks


def masks() -> dict[str, Mask]:
    """Attention masks by the expression that makes them."""
    return {
        "Full()": Full(),
        "Causal()": Causal(),
        "Prefix(4)": Prefix(4),
        "Window(reach=2)": Window(reach=2),
        "Causal() & Window(reach=2)": Causal() & Window(reach=2),
        "Prefix(4) | Window(reach=2)": Prefix(4) | Window(reach=2),
    }


def allowed_pairs(mask: Mask, length: int) -> Any:
    """Which query (rows) attends to which key (columns), as an array of zeros and ones."""
    position = torch.arange(length)[None]
    allow = mask.allow(position, position)
    return torch.ones(length, length).numpy() if allow is None else allow[0].float().numpy()


def position_vectors(embedder: Callable[..., Any], dim: int, length: int) -> Any:
    """The vectors that an embedder of positions gives to the first positions, length x dim."""
    ids = Seq(torch.zeros(1, length, dtype=torch.long))
    return embedder(dim, TextField("text", 8, max_length=length))(ids).data[0].detach().numpy()


def source_of(factory: Callable[..., Any]) -> str:
    """Path of the file that defines a part, relative to the repository."""
    return str(Path(inspect.getsourcefile(factory) or "").resolve().relative_to(SOURCE.parents[1]))
