"""Pages of the catalog: one for each slot, with an entry for each part."""

from __future__ import annotations

from collections.abc import Iterator

from tools.docs import figures
from tools.docs.markdown import cell, code, docstring, page, prose, table
from tools.docs.one_line import Use, example, uses
from tools.docs.package import Option, Part, Slot, catalog, source_of

FOLDER = "reference/catalog"
GROUPS = {
    "Data": ("weft.core.contracts.data", "weft.data"),
    "Structure": (
        "weft.core.contracts.model",
        "weft.core.contracts.networks",
        "weft.core.contracts.parts",
        "weft.core.contracts.feature_maps",
        "weft.core.masks",
        "weft.blocks",
        "weft.models",
    ),
    "Objective": ("weft.core.contracts.objective", "weft.objectives"),
    "Learning": ("weft.core.contracts.learning", "weft.learning", "weft.training"),
    "Generation and evaluation": ("weft.core.contracts.use", "weft.generate", "weft.evaluate"),
}
"""Titles of the groups of slots, and where their contracts are defined."""


def pages() -> Iterator[tuple[str, str]]:
    """Path and Markdown of every page."""
    yield f"{FOLDER}/index.md", _index()
    for slot in catalog():
        yield f"{FOLDER}/{slot.name}.md", _slot(slot)


def groups() -> dict[str, list[Slot]]:
    """Slots by group; those of no group last."""
    found: dict[str, list[Slot]] = {title: [] for title in [*GROUPS, "More"]}
    for slot in catalog():
        home = slot.path.rpartition(".")[0] + "."
        title = next((t for t, homes in GROUPS.items() if home.startswith(tuple(f"{h}." for h in homes))), "More")
        found[title].append(slot)
    return {title: slots for title, slots in found.items() if slots}


def _index() -> str:
    total = len({part.factory for slot in catalog() for part in slot.parts})  # an attention is also a mixer
    blocks = [
        "# Catalog",
        f"{total} parts in {len(catalog())} slots. A *slot* is a contract: an option of that kind accepts any part of the slot. "
        "Select a *part* by its name in a recipe, or by its class in Python. `weft catalog` prints the same in the terminal.",
    ]
    for title, slots in groups().items():
        rows = [
            [f"[{slot.name}]({slot.name}.md)", cell(prose(slot.summary)), ", ".join(f"`{part.name}`" for part in slot.parts)]
            for slot in slots
        ]
        blocks += [f"## {title}", table(["Slot", "Contract", "Parts"], rows)]
    return page(*blocks)


def _slot(slot: Slot) -> str:
    parts = table(["Part", "Summary"], ([f"[`{part.name}`](#{part.name})", cell(prose(part.summary))] for part in slot.parts))
    wiring = ", ".join(f"`{name}`" for name in slot.wiring)
    return page(
        f"# {slot.name}",
        prose(slot.summary),
        docstring(slot.body) if slot.body else None,
        _accepted(uses()[slot.name]),
        f"Contract: [`{slot.path}`][{slot.path}]" + (f"; the parent passes {wiring}." if wiring else "."),
        *map(_figure, figures.of_slot(slot.name)),
        parts if len(slot.parts) > 1 else None,
        *(_part(part) for part in slot.parts),
    )


def _figure(figure: tuple[str, str]) -> str:
    name, caption = figure
    return f"![{caption}](images/{name}.svg)\n/// caption\n{caption}\n///"


def _accepted(found: list[Use]) -> str | None:
    """Which options accept the slot's parts."""
    if not found:
        return None
    by_name: dict[str, list[str]] = {}
    for use in found:
        owner = use.owner
        link = "the recipe" if owner is None else f"[{owner.name}]({owner.slot}.md#{owner.name})"
        by_name.setdefault(use.option.name, []).append(link)
    lines = [f"- `{name}` of {', '.join(dict.fromkeys(owners))}" for name, owners in by_name.items()]
    if len(lines) == 1:
        return f"Accepted by the option {lines[0][2:]}."
    return "Accepted by these options:\n\n" + "\n".join(lines)


def _part(part: Part) -> str:
    shown = example(part)
    recipe = code(shown[1], "yaml") if shown else None
    kind = "function" if part.composition else "class"
    return page(
        f"## {part.name} {{#{part.name}}}",
        f"**{prose(part.summary)}**",
        docstring(part.body),
        *map(_figure, figures.of_part(part.slot, part.name)),
        recipe,
        table(["Option", "Type", "Default", "Description"], map(_option, part.options)) if part.options else "No options.",
        f"Python {kind}: [`{part.path}`][{part.path}] in `{source_of(part.factory)}`",
    )


def _option(option: Option) -> list[str]:
    kind = cell(prose(option.type))
    for slot in dict.fromkeys(option.slots):
        kind += f" ([{slot}]({slot}.md))"
    default = "required" if option.default is None else f"`{option.default}`"
    return [f"`{option.name}`", kind, cell(default), cell(prose(option.text))]
