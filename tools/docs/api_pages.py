"""Pages of the API reference: one for each package, with its public names, and one for each module.

They are read from the source (griffe), not from the imported package; mkdocstrings fills them from the docstrings.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import griffe
from tools.docs.markdown import cell, page, prose, table
from tools.docs.package import ROOT

FOLDER = "reference/api"
HIDDEN = {"weft.__main__"}


@functools.cache
def root() -> griffe.Module:
    """The package as griffe reads it, with re-exported names resolved."""
    loaded = griffe.load("weft", search_paths=[str(ROOT / "src")], resolve_aliases=True, resolve_implicit=True)
    assert isinstance(loaded, griffe.Module)
    return loaded


def inner(module: griffe.Module) -> list[griffe.Module]:
    """The public modules of a package, in alphabetical order."""
    found = [m for m in module.modules.values() if not m.is_alias and not m.name.startswith("_") and m.path not in HIDDEN]
    return sorted(found, key=lambda m: m.name)


def modules(module: griffe.Module | None = None) -> Iterator[griffe.Module]:
    """Every public module, packages before their contents."""
    module = module or root()
    yield module
    for below in inner(module):
        yield from modules(below)


def pages(package: griffe.Module | None = None) -> Iterator[tuple[str, str]]:
    """Path and Markdown of every page."""
    for module in modules(package):
        yield path_of(module), _package(module) if module.is_package or module.is_subpackage else _module(module)


def path_of(module: griffe.Module) -> str:
    """Where a module's page is."""
    folder = "/".join(module.path.split(".")[1:])
    if module.is_package or module.is_subpackage:
        return "/".join(filter(None, [FOLDER, folder, "index.md"]))
    return f"{FOLDER}/{folder}.md"


def exported(module: griffe.Module) -> list[str]:
    """The names in a module's ``__all__``."""
    return [str(name) for name in module.exports or []]


def target(module: griffe.Module, name: str) -> griffe.Object:
    """What a name in a module's ``__all__`` stands for; names imported on first use are found by their type-checking import."""
    member = module.members[name]
    found = member.final_target if isinstance(member, griffe.Alias) else member
    assert not isinstance(found, griffe.Alias)
    return found


def summary(thing: griffe.Object) -> str:
    """The first sentence of a docstring."""
    return " ".join(thing.docstring.value.partition("\n\n")[0].split()) if thing.docstring else ""


def _package(module: griffe.Module) -> str:
    rows = [[f"[`{m.path}`][{m.path}]", cell(prose(summary(m)))] for m in inner(module)]
    names = []
    for name in sorted(filter(module.members.__contains__, exported(module)), key=str.lower):
        thing = target(module, name)
        names.append([f"[`{name}`][{thing.path}]", cell(prose(summary(thing)))])
    return page(
        _title(module),
        _directive(module, "show_root_members_full_path: false", "members: " + str(_own(module))),
        "## Public names" if names else None,
        table(["Name", "Summary"], names) if names else None,
        "## Modules" if rows else None,
        table(["Module", "Purpose"], rows) if rows else None,
    )


def _title(module: griffe.Module) -> str:
    return f"# {module.path} {{#{module.path}}}"


def _own(module: griffe.Module) -> list[str]:
    """Public names that a package defines itself."""
    return [
        name
        for name, member in module.members.items()
        if not member.is_alias and not member.is_module and not name.startswith("_")
    ]


def _module(module: griffe.Module) -> str:
    return page(_title(module), f"Source: `{_source(module)}`", _directive(module))


def _source(module: griffe.Module) -> str:
    assert isinstance(module.filepath, Path)
    return module.filepath.relative_to(ROOT).as_posix() if module.filepath.is_relative_to(ROOT) else module.filepath.name


def _directive(module: griffe.Module, *options: str) -> str:
    lines = "".join(f"\n      {option}" for option in options)
    return f"::: {module.path}" + (f"\n    options:{lines}" if lines else "")
