"""docs/architecture.md is up to date: its picture, its paths, its packages; and API references in all pages resolve."""

from __future__ import annotations

import importlib
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tools.docs import package_graph
from tools.docs.package_graph import ROOT

PAGE = ROOT / "docs" / "architecture.md"
REFERENCE = re.compile(r"\]\[(weft[\w.]*)\]")


def named_paths(text: str) -> list[str]:
    """Paths in inline code: files and folders of the repository."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [
        name for name in re.findall(r"`([^`\n]+)`", prose) if re.fullmatch(r"[\w.-]+(/[\w.-]+)+|[\w-]+\.(toml|yml)|docs", name)
    ]


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


def test_picture_of_the_package_graph_is_up_to_date() -> None:
    assert package_graph.PICTURE.read_text(encoding="utf-8") == package_graph.svg(), (
        "docs/images/packages.svg is out of date; run: python -m tools.docs.package_graph"
    )


def test_picture_shows_every_package() -> None:
    root = ElementTree.fromstring(package_graph.svg())
    shown = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert set(package_graph.imports()) <= shown
    assert set(package_graph.ABOUT) == set(package_graph.COLUMNS) == set(package_graph.imports())


def test_imports_are_read_from_the_source(tmp_path: Path) -> None:
    source = tmp_path / "weft"
    for package in ("top", "middle", "bottom"):
        (source / package).mkdir(parents=True)
        (source / package / "__init__.py").write_text("")
    (source / "top" / "a.py").write_text(
        "from typing import TYPE_CHECKING\nimport weft.middle.b\n"
        "if TYPE_CHECKING:\n    from weft.top import z\nelse:\n    import os\n"
        "def late():\n    from weft.bottom import c\n"
    )
    (source / "middle" / "b.py").write_text(
        "import typing\nfrom weft import bottom\nif typing.TYPE_CHECKING:\n    import weft.top.a\n"
    )
    graph = package_graph.imports(source)
    assert graph == {"top": {"middle", "bottom"}, "middle": {"bottom"}, "bottom": set()}
    assert package_graph.reduced(graph) == {("top", "middle"), ("middle", "bottom")}
    assert package_graph.against(graph, [["middle"], ["top"], ["bottom"]]) == {("top", "middle")}


def test_imports_against_the_layers_are_the_listed_exceptions() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.findall(r'"weft\.(\w+)[\w.]* -> weft\.(\w+)', text)
    assert package_graph.against(package_graph.imports(), package_graph.layers()) == set(listed)


def test_every_path_on_the_page_exists() -> None:
    paths = named_paths(PAGE.read_text(encoding="utf-8"))
    assert len(paths) >= 50
    assert not [path for path in paths if not (ROOT / path).exists() and not (ROOT / "src" / "weft" / path).exists()]


def test_every_package_has_a_paragraph() -> None:
    text = PAGE.read_text(encoding="utf-8")
    described = re.findall(r"^\*\*`(\w+)`\*\* \(`src/weft/(\w+)`\)", text, re.MULTILINE)
    assert all(name == folder for name, folder in described)
    assert {name for name, _ in described} == set(package_graph.imports())


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_references_to_the_api_resolve(page: Path) -> None:
    assert not [name for name in REFERENCE.findall(page.read_text(encoding="utf-8")) if not resolves(name)]


def test_a_reference_to_what_does_not_exist_is_found() -> None:
    assert resolves("weft.core.seq.Seq") and resolves("weft.Run")
    assert not resolves("weft.core.seq.Sequence") and not resolves("weft.nothing")
