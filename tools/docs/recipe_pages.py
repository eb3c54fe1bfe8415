"""The gallery of shipped recipes: an index and a page for each recipe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from tools.docs.markdown import cell, code, page, prose, table
from tools.docs.package import ROOT, Recipe, architecture_figure, catalog, recipes

FOLDER = "reference/recipes"
RESULTS = "about/benchmarks.md"
"""The page with measured results."""
PARTS = ("data", "structure", "objective", "learning")


@dataclass(frozen=True)
class Result:
    """A row of a table of measured results that is about a recipe."""

    header: list[str]
    row: list[str]
    section: str
    anchor: str


def pages() -> Iterator[tuple[str, str]]:
    """Path and Markdown (or SVG) of every page."""
    figures = {recipe.name: architecture_figure(recipe.name) for recipe in recipes()}
    measured = results()
    yield f"{FOLDER}/index.md", _index()
    for name, svg in figures.items():
        yield f"{FOLDER}/images/{name}.svg", svg
    for recipe in recipes():
        yield f"{FOLDER}/{recipe.name}.md", _recipe(recipe, measured.get(recipe.name, []))


def _index() -> str:
    intro = (
        f"{len(recipes())} recipes are installed with weft. Each is a complete YAML file; `weft train NAME` trains it, and "
        "`weft train NAME path=value` changes single options. `weft recipes` prints this list."
    )
    rows = []
    for recipe in recipes():
        chosen = _types(recipe)
        rows.append([f"[{recipe.name}]({recipe.name}.md)", cell(prose(recipe.summary)), chosen["structure"], chosen["objective"]])
    cards = map(_card, recipes())
    gallery = '## Architectures\n\n<div class="gallery" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>"
    return page("# Recipe gallery", intro, table(["Recipe", "Task", "Structure", "Objective"], rows), gallery)


def _card(recipe: Recipe) -> str:
    image = f"![Architecture of the recipe {recipe.name}](images/{recipe.name}.svg)"
    caption = f"<figcaption markdown>[{recipe.name}]({recipe.name}.md)</figcaption>"
    return f"<figure markdown>\n[{image}]({recipe.name}.md)\n{caption}\n</figure>"


def _recipe(recipe: Recipe, measured: list[Result]) -> str:
    chosen = _types(recipe)
    presets = list((_tree(recipe).get("presets") or {}).keys())
    commands = [f"$ weft check {recipe.name}", f"$ weft train {recipe.name} --run runs/{recipe.name}"]
    commands += [f"$ weft train {recipe.name} preset={name}" for name in presets]
    text = re.sub(r"\A(?:#.*\n)+", "", recipe.text)
    found = mentioned(recipe.name)
    return page(
        f"# {recipe.name}",
        prose(_comment(recipe.text)),
        table(["Part", "Type"], ([part, chosen[part]] for part in PARTS)),
        f"![Architecture of the recipe {recipe.name}](images/{recipe.name}.svg)",
        code("\n".join(commands), "console"),
        "## Result" if measured or found else None,
        *(_result(result) for result in measured),
        f"Measured in {', '.join(found)}." if not measured and found else None,
        "## Recipe",
        code(text, "yaml"),
    )


def _result(result: Result) -> str:
    kept = [(head, value) for head, value in zip(result.header[1:], result.row[1:], strict=False) if value]
    shown = table([head for head, _ in kept], [[value for _, value in kept]])
    return f"{shown}\n\nMeasured as described in [{result.section}](../../{RESULTS}#{result.anchor})."


def _comment(text: str) -> str:
    """The comment at the head of a recipe."""
    lines = re.match(r"(?:#.*\n)*", text)
    assert lines is not None
    return " ".join(line.lstrip("# ").strip() for line in lines[0].splitlines())


def _tree(recipe: Recipe) -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load(recipe.text)


def _types(recipe: Recipe) -> dict[str, str]:
    """The type of each of the four parts, linked to the catalog; those of the stages follow."""
    tree = _tree(recipe)
    stages = [stage for stage in tree.get("stages") or [] if isinstance(stage, dict)]
    found: dict[str, str] = {}
    for part in PARTS:
        values = [tree.get(part), *(stage.get(part) for stage in stages)]
        names = [name for value in values if value is not None for name in _names(value)]
        found[part] = ", ".join(dict.fromkeys(_linked(part, name) for name in names))
    return found


def _names(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [str(value["type"])] if "type" in value else [name for inner in value.values() for name in _names(inner)]
    return []


def _linked(slot: str, name: str) -> str:
    known = next(s for s in catalog() if s.name == slot).parts
    return f"[{name}](../catalog/{slot}.md#{name})" if any(part.name == name for part in known) else f"`{name}`"


def results() -> dict[str, list[Result]]:
    """Rows of the tables of measured results, by the recipe that their first cell names."""
    found: dict[str, list[Result]] = {}
    section, header = "", None
    for line in (ROOT / "docs" / RESULTS).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            section, header = line.lstrip("# "), None
        elif not line.startswith("|"):
            header = None
        elif header is None:
            header = _cells(line)
        elif name := re.fullmatch(r"`([\w-]+)`", _cells(line)[0]):
            found.setdefault(name[1], []).append(Result(header, _cells(line), section, _anchor(section)))
    return found


def mentioned(recipe: str) -> list[str]:
    """Links to the sections on measured results that name the command which trains a recipe."""
    text = (ROOT / "docs" / RESULTS).read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    named = [title for title, body in sections if re.search(rf"weft train {re.escape(recipe)}(?![\w-])", body)]
    return [f"[{title}](../../{RESULTS}#{_anchor(title)})" for title in named]


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _cells(line: str) -> list[str]:
    return [text.strip() for text in line.strip().strip("|").split("|")]
