"""Check the limits that ruff has no rule for: lines per file, lines per function, and class names that occur twice.

``make lint`` runs it. Exceptions are listed here with their reason, and in docs/design.md; there are at most five.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES = 500
FUNCTION_LINES = 60
EXCEPTIONS: dict[str, str] = {}  # "path:function" or "path" -> reason


def problems(root: Path, exceptions: dict[str, str]) -> Iterator[str]:
    """Yield one message per file or function that is too long and per class name that is defined twice."""
    classes: dict[str, str] = {}
    for path in sorted((root / "src").rglob("*.py")):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        if lines > FILE_LINES and name not in exceptions:
            yield f"{name}: {lines} lines; at most {FILE_LINES} are allowed: split the module"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES and f"{name}:{node.name}" not in exceptions:
                    allowed = f"at most {FUNCTION_LINES} are allowed: split the function"
                    yield f"{name}:{node.lineno}: {node.name} has {length} lines; {allowed}"
            elif isinstance(node, ast.ClassDef):
                where = f"{name}:{node.lineno}"
                if (first := classes.setdefault(node.name, where)) != where:
                    yield f"{where}: class {node.name} is also defined in {first}: rename one of them"


def main() -> int:
    """Print every problem; return 1 if there is one."""
    found = list(problems(ROOT, EXCEPTIONS))
    print("\n".join(found) or "limits: kept")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
