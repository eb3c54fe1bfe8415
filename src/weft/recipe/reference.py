"""References: ``${a.b}`` copies the value at path ``a.b`` of the recipe."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.recipe.tree import BROKEN, MAX_DEPTH, MAX_NODES, Node, Problem, RecipeError, join, shorten

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")


def resolve(root: Node, options: Iterable[str] = ()) -> Node:
    """Replace every ``${a.b}`` by a copy of the value at that path; unresolved references are recorded in ``problems``.

    Args:
        root: The tree.
        options: The top-level keys: a misspelled key is reported itself, not every reference to it.
    """
    try:
        return _Resolver(root, frozenset(options)).walk(root, "", (), 0)
    except RecipeError as error:
        raise RecipeError([*root.problems, *error.problems]) from None


@dataclass
class _Resolver:
    root: Node
    options: frozenset[str]
    nodes: int = 0

    def walk(self, node: Node, path: str, seen: tuple[str, ...], depth: int) -> Node:
        """Copy a node; ``seen`` is the chain of references that led to it."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.error(node, path, f"more than {MAX_NODES:,} values once references are written out")
        if depth > MAX_DEPTH:
            raise self.error(node, path, f"nested more than {MAX_DEPTH} levels deep once references are written out")
        if isinstance(node.value, dict):
            return replace(node, value={k: self.walk(v, join(path, k), seen, depth + 1) for k, v in node.value.items()})
        if isinstance(node.value, list):
            return replace(node, value=[self.walk(v, join(path, i), seen, depth + 1) for i, v in enumerate(node.value)])
        if not _refers(node.value):
            return node
        try:
            target, found = self.find(node, path, seen)
        except RecipeError as error:
            self.root.problems += error.problems
            return replace(node, value=BROKEN)
        self.root.copies[path] = target
        return _moved(self.walk(found, target, (*seen, target), depth), node.where)

    def find(self, node: Node, path: str, seen: tuple[str, ...]) -> tuple[str, Node]:
        """Return the path that a reference names, and the node at it."""
        match = _REFERENCE.fullmatch(node.value)
        if not match:
            text = f"{shorten(node.value)!r}: a reference must be the full value, as in ${{structure.dim}}"
            raise self.error(node, path, text)
        target = match[1].strip()
        if not target:
            raise self.error(node, path, f"{node.value} has no path; write for example ${{structure.dim}}")
        if target in seen:
            raise self.error(node, path, f"{node.value} refers to itself ({' -> '.join((*seen, target))})")
        if len(seen) > MAX_DEPTH:
            raise self.error(node, path, f"a chain of more than {MAX_DEPTH} references")
        found, steps = self.root, target.split(".")
        for i, step in enumerate(steps):
            above = ".".join(steps[:i])
            if _refers(found.value):
                _, found = self.find(found, above, (*seen, target))
            inner = found.value
            if isinstance(inner, dict) and step in inner:
                found = inner[step]
            elif isinstance(inner, list) and step.isascii() and step.isdigit() and int(step) < len(inner):
                found = inner[int(step)]
            elif isinstance(inner, str) and step == "type":  # a bare name is {type: name}
                found = Node(inner, found.where)
            elif inner is BROKEN:
                return target, found
            else:
                close = difflib.get_close_matches(step, list(inner) if isinstance(inner, dict) else [], 1)
                if not above and close and step in self.options and close[0] not in self.options:
                    return target, Node(BROKEN, node.where)
                hint = f"; did you mean {join(above, close[0])!r}?" if close else ""
                raise self.error(node, path, f"{shorten(node.value)}: the recipe has no value at {target!r}{hint}")
        return target, found

    def error(self, node: Node, path: str, text: str) -> RecipeError:
        return RecipeError([Problem(node.where, shorten(path, 200), text)])


def deduplicate(problems: Iterable[Problem], copies: Mapping[str, str]) -> list[Problem]:
    """Drop the problems of a copied value that the original has too.

    >>> twice = [Problem("r.yaml:1", "a.x", "too large"), Problem("r.yaml:2", "b.x", "too large")]
    >>> [str(problem) for problem in deduplicate(twice, {"b": "a"})]
    ['r.yaml:1: a.x: too large']
    """
    found = list(problems)
    paths = {p.path for p in found}
    return [p for p in found if not any(path in paths for path in _originals(p.path, copies))]


def _originals(path: str, copies: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths that a value was copied from, following chains of references."""
    seen = {path}
    for _ in range(MAX_DEPTH):
        steps = path.split(".")
        heads = (".".join(steps[:n]) for n in range(len(steps), 0, -1))
        copy = next((head for head in heads if head in copies), None)
        if copy is None:
            return
        path = copies[copy] + path[len(copy) :]
        if path in seen:  # a reference to itself
            return
        seen.add(path)
        yield path


def _refers(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def _moved(node: Node, where: str) -> Node:
    """Give a copied node the location of the reference."""
    if isinstance(node.value, dict):
        return Node({k: _moved(v, where) for k, v in node.value.items()}, where)
    if isinstance(node.value, list):
        return Node([_moved(v, where) for v in node.value], where)
    return Node(node.value, where)
