"""Every distribution that is imported is declared in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tools.lock import normalize, requirements

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
FOR_USERS = [extra for extra in EXTRAS if extra not in ("dev", "docs")]
KNOWN = packages_distributions()
OWN = {"weft", "tests", "benchmarks", "tools"}
DYNAMIC = {"import_module", "importorskip", "find_spec"}


def declared(*extras: str) -> set[str]:
    """The distributions that weft with these extras requires directly."""
    return {normalize(re.split(r"[\s\[<>=!~;@]", text, maxsplit=1)[0]) for text in requirements(PROJECT, extras)}


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a file imports from elsewhere, also those that it imports by a name in quotes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function in DYNAMIC and isinstance(node.args[0].value, str):
                yield node.args[0].value


def distributions(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """The packages that a file imports, neither of Python nor of this repository, and the distributions that have them."""
    for top in sorted({name.partition(".")[0] for name in imported(tree)} - OWN - sys.stdlib_module_names):
        yield top, {normalize(name) for name in KNOWN.get(top, [top])}


def undeclared(folder: Path, allowed: set[str]) -> list[str]:
    """Imports of a folder whose distribution is not among the ``allowed``, with the file."""
    return [
        f"{file.relative_to(folder)}: {top} (of {', '.join(sorted(names))}) is not declared"
        for file in sorted(folder.rglob("*.py"))
        for top, names in distributions(ast.parse(file.read_text(encoding="utf-8")))
        if not names & allowed and not (file.parent / f"{top}.py").exists()
    ]


@pytest.mark.parametrize(
    ("folder", "extras"),
    [("src", FOR_USERS), ("tests", ["dev"]), ("benchmarks", ["dev"]), ("tools", ["dev"])],
    ids=["src", "tests", "benchmarks", "tools"],
)
def test_imports_are_declared(folder: str, extras: list[str]) -> None:
    assert undeclared(ROOT / folder, declared(*extras)) == []


def test_what_weft_imports_at_once_needs_no_extra() -> None:
    """A module of src may import an optional package only inside a function."""
    core = declared()
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {top}"
        for file in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for top, names in distributions(node)
        if not names & core
    ]
    assert found == []


def test_an_undeclared_import_is_found(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "module.py").write_text("def f():\n    import hypothesis.strategies\n")
    (tmp_path / "other.py").write_text("from PIL import Image\nimport json, weft\nimport_module('sklearn.metrics')\n")
    assert undeclared(tmp_path, {"pillow"}) == [
        "inner/module.py: hypothesis (of hypothesis) is not declared",
        "other.py: sklearn (of scikit-learn) is not declared",
    ]
    assert undeclared(tmp_path, {"pillow", "hypothesis", "scikit-learn"}) == []


def test_extras_of_weft_itself_are_resolved() -> None:
    assert {"pillow", "tensorboard", "mkdocs", "pytest", "torch"} <= declared("dev")
    assert "pytest" not in declared(*FOR_USERS) and "pillow" not in declared()
