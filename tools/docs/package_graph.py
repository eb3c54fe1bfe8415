"""Draw the package graph of weft: ``python -m tools.docs.package_graph`` writes docs/images/packages.svg.

Layers come from the import-linter contract in pyproject.toml, arrows from the import statements of the source. An import is shown
unless a path of other arrows implies it (transitive reduction); imports against the layers are dashed.
"""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "weft"
PICTURE = ROOT / "docs" / "images" / "packages.svg"

ABOUT = {
    "cli": "commands, options",
    "systems": "research systems",
    "experiments": "compare, sweep, tune",
    "sklearn": "estimators",
    "inference": "predict, generate, embed",
    "training": "a run on disk",
    "inspect": "attention, figures",
    "evaluate": "metrics, intervals",
    "generate": "greedy, beam, sampling",
    "pretrained": "published weights",
    "models": "STRUCTURE: models",
    "objectives": "OBJECTIVE: losses",
    "learning": "LEARNING: the loop",
    "blocks": "STRUCTURE: layers",
    "data": "DATA: sources, tokens",
    "recipe": "YAML to constructors",
    "core": "contracts, Seq, registry",
}
"""The second line of each box."""
COLUMNS = {
    "cli": 2.0, "sklearn": 0.3, "systems": 1.2, "experiments": 2.8, "inference": 2.0, "training": 2.0, "inspect": 1.7,
    "evaluate": 1.0, "generate": 0.0, "pretrained": 3.6, "models": 3.9, "objectives": 1.0, "learning": 1.95, "blocks": 0.3,
    "data": 2.8, "recipe": 3.9, "core": 1.95,
}  # fmt: skip
"""Horizontal positions, chosen so that no arrow crosses a box; a new package starts at the left edge."""
PITCH, ROW, WIDTH, HEIGHT, MARGIN = 180, 74, 152, 42, 14
INK, EDGE, AGAINST = "#1f2933", "#7a7f87", "#c5221f"
FILLS = {"blocks": "#dbe4ff", "models": "#dbe4ff", "data": "#d8f5e0", "objectives": "#ffe3cc", "learning": "#f3d9fa"}
"""The colors of the four parts; other packages are gray."""

Graph = Mapping[str, frozenset[str]]


def layers(pyproject: Path = ROOT / "pyproject.toml") -> list[list[str]]:
    """The packages of each layer, top to bottom, from the import-linter contract."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (found,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rows = [[name.strip() for name in layer.split("|")] for layer in found]
    return [row for row in rows if not row[0].startswith("_")]


@functools.cache
def imports(source: Path = SOURCE) -> Graph:
    """Which package imports which others at run time; imports for type checkers are left out."""
    packages = {path.name for path in source.iterdir() if (path / "__init__.py").is_file()}
    graph: dict[str, set[str]] = {name: set() for name in packages}
    for file in source.rglob("*.py"):
        package = file.relative_to(source).parts[0]
        if package in packages:
            modules = _modules(ast.parse(file.read_text(encoding="utf-8")), source.name)
            graph[package] |= {name for name in modules if name in packages and name != package}
    return {name: frozenset(found) for name, found in graph.items()}


def _modules(node: ast.AST, root: str) -> Iterator[str]:
    """The packages of ``root`` that a syntax tree imports."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from _modules(ast.Module([other], []), root)
        elif isinstance(child, ast.ImportFrom) and child.module == root:
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom | ast.Import):
            named = [child.module or ""] if isinstance(child, ast.ImportFrom) else [alias.name for alias in child.names]
            yield from (name.split(".")[1] for name in named if name.startswith(f"{root}."))
        else:
            yield from _modules(child, root)


def against(graph: Graph, rows: list[list[str]]) -> set[tuple[str, str]]:
    """The imports that lead upward."""
    level = {name: number for number, row in enumerate(rows) for name in row}
    return {(a, b) for a, found in graph.items() for b in found if level[b] < level[a]}


def reduced(graph: Graph) -> set[tuple[str, str]]:
    """The transitive reduction of an acyclic graph: edges that no longer path implies."""
    return {(a, b) for a, found in graph.items() for b in found if not any(b in _below(graph, c) for c in found - {b})}


def _below(graph: Graph, package: str) -> set[str]:
    """The packages that a package imports, directly or through others."""
    found: set[str] = set()
    todo = list(graph[package])
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += graph[name]
    return found


def svg() -> str:
    """The picture."""
    rows, graph = layers(), imports()
    upward = against(graph, rows)
    downward = {a: frozenset(b for b in found if (a, b) not in upward) for a, found in graph.items()}
    at = {name: (MARGIN + COLUMNS.get(name, 0) * PITCH, MARGIN + number * ROW) for number, row in enumerate(rows) for name in row}
    width, height = max(x for x, _ in at.values()) + WIDTH + MARGIN, MARGIN * 2 + (len(rows) - 1) * ROW + HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        'font-family="system-ui, sans-serif" role="img">',
        "<title>Packages of weft and their imports</title>",
        *(_arrow(at[a], at[b]) for a, b in sorted(reduced(downward))),
        *(_upward(at[a], at[b]) for a, b in sorted(upward)),
        *(_box(name, *at[name]) for row in rows for name in row),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _box(name: str, x: float, y: float) -> str:
    middle, fill, about = x + WIDTH / 2, FILLS.get(name, "#eceff1"), escape(ABOUT.get(name, ""))
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{EDGE}"/>'
        f'<text x="{middle:g}" y="{y + 18:g}" text-anchor="middle" font-size="14" font-weight="600" fill="{INK}">'
        f"{escape(name)}</text>"
        f'<text x="{middle:g}" y="{y + 33:g}" text-anchor="middle" font-size="11" fill="{INK}">{about}</text>'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve from the bottom of a box to the top of one below it."""
    lean = max(-1.0, min(1.0, (end[0] - start[0]) / PITCH)) * WIDTH * 0.3
    x1, y1, x2, y2 = start[0] + WIDTH / 2 + lean, start[1] + HEIGHT, end[0] + WIDTH / 2 - lean, end[1] - 7
    tangent = (y2 - y1) * 0.5
    curve = f"M{x1:.1f} {y1:g} C{x1:.1f} {y1 + tangent:.1f} {x2:.1f} {y2 - tangent:.1f} {x2:.1f} {y2:g}"
    return f'<path d="{curve}" fill="none" stroke="{EDGE}" stroke-width="1.5"/>' + _head(x2, y2 + 6, EDGE, down=True)


def _upward(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A dashed curve along the right sides of two boxes."""
    x1, y1, x2, y2 = start[0] + WIDTH, start[1] + HEIGHT / 2, end[0] + WIDTH, end[1] + HEIGHT - 12
    out = max(x1, x2) + 55
    curve = f"M{x1:g} {y1:g} C{out:g} {y1:g} {out:g} {y2:g} {x2 + 7:g} {y2:g}"
    line = f'<path d="{curve}" fill="none" stroke="{AGAINST}" stroke-width="1.5" stroke-dasharray="4 3"/>'
    return line + _head(x2 + 1, y2, AGAINST, down=False)


def _head(x: float, y: float, color: str, *, down: bool) -> str:
    points = [(x, y), (x - 4, y - 8), (x + 4, y - 8)] if down else [(x, y), (x + 8, y - 4), (x + 8, y + 4)]
    return f'<path d="M{" L".join(f"{a:.1f} {b:g}" for a, b in points)} Z" fill="{color}"/>'


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
