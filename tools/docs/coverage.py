"""Documentation coverage: what is public but not documented. A list of problems for the API, the catalog and the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import griffe
from tools.docs.api_pages import exported, path_of, target
from tools.docs.docstrings import is_named_tuple
from tools.docs.package import Slot


def of_modules(modules: Iterable[griffe.Module], pages: Mapping[str, str]) -> list[str]:
    """Modules without docstring or page, and names of an ``__all__`` without docstring or without a page of their module."""
    found: list[str] = []
    for module in modules:
        if not module.docstring:
            found.append(f"{module.path}: the module has no docstring")
        if path_of(module) not in pages:
            found.append(f"{module.path}: the module has no page")
        for name in exported(module):
            if name not in module.members:
                found.append(f"{module.path}: __all__ has {name!r}, but the module does not define it")
                continue
            thing = target(module, name)
            home = thing if isinstance(thing, griffe.Module) else thing.module
            if not thing.docstring:
                found.append(f"{thing.path}: in __all__ of {module.path}, but without a docstring")
            if path_of(home) not in pages:
                found.append(f"{thing.path}: in __all__ of {module.path}, but {home.path} has no page")
    return found


def of_arguments(modules: Iterable[griffe.Module]) -> list[str]:
    """Arguments that a docstring describes but the signature does not have."""
    found: list[str] = []
    for module in modules:
        for thing in _callables(module):
            args = thing.docstring.value.partition("Args:\n")[2].partition("\n\n")[0] if thing.docstring else ""
            known = {parameter.name.lstrip("*") for parameter in thing.parameters}
            if isinstance(thing, griffe.Class) and is_named_tuple(thing):
                known = set(thing.attributes)
            unknown = [name for name in re.findall(r"^ {4}(\w+)(?: \([^)]*\))?: ", args, re.MULTILINE) if name not in known]
            found += [f"{thing.path}: describes the argument {name!r}, which it does not have" for name in unknown]
    return found


def _callables(parent: griffe.Module | griffe.Class) -> Iterator[griffe.Class | griffe.Function]:
    """Classes and functions that a module or class defines itself, with their contents."""
    for member in parent.members.values():
        if isinstance(member, griffe.Class | griffe.Function):
            yield member
        if isinstance(member, griffe.Class):
            yield from _callables(member)


def of_catalog(slots: Iterable[Slot], folder: str, pages: Mapping[str, str]) -> list[str]:
    """Slots, parts and options without a description or an entry in the catalog's pages."""
    found: list[str] = []
    for slot in slots:
        text = pages.get(f"{folder}/{slot.name}.md", "")
        if not slot.summary:
            found.append(f"{slot.name}: the slot has no docstring")
        for part in slot.parts:
            if not part.summary:
                found.append(f"{slot.name} {part.name}: no docstring")
            if f"## {part.name} {{#" not in text:
                found.append(f"{slot.name} {part.name}: no entry in the page of the slot")
            found += [f"{slot.name} {part.name}: option {o.name!r} is not described" for o in part.options if not o.text]
    return found


def of_commands(commands: Iterable[tuple[str, Any]], folder: str, pages: Mapping[str, str]) -> list[str]:
    """Commands, arguments and options without help or an entry in the pages of the command line."""
    found: list[str] = []
    for name, command in commands:
        text = pages.get(f"{folder}/{name.split()[0]}.md", "")
        if not command.help:
            found.append(f"weft {name}: no help")
        if f"# weft {name} {{#" not in text:
            found.append(f"weft {name}: no entry in the pages of the command line")
        for parameter in command.params:
            if parameter.name != "help" and not parameter.help:
                found.append(f"weft {name}: {parameter.opts[0]} has no help")
    return found
