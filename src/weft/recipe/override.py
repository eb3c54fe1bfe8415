"""``path=value`` on the command line."""

from __future__ import annotations

from weft.recipe.text import parse_value
from weft.recipe.tree import BROKEN, COMMAND_LINE, Node, Problem, RecipeError, shorten

_ALTERNATIVES = {"steps": "epochs", "epochs": "steps", "batch_tokens": "batch_size", "batch_size": "batch_tokens"}
"""Options of which at most one is set: setting one on the command line removes the other from the file."""


def override(root: Node, assignment: str) -> None:
    """Apply ``path=value`` to a tree. Changing a ``type`` drops the options that the old one has in the file.

    An invalid override is recorded in ``root.problems``.
    """
    path, equals, text = assignment.partition("=")
    path = path.strip()
    try:
        if not equals or not all(path.split(".")):
            raise RecipeError([Problem(COMMAND_LINE, shorten(assignment), "an override is path=value, as in learning.steps=100")])
        assign(root, path, parse_value(text, path))
    except RecipeError as error:
        root.problems += error.problems


def assign(root: Node, path: str, value: Node) -> None:
    """Set the value at a path; missing levels become mappings."""
    steps, node = path.split("."), root
    for i, step in enumerate(steps[:-1]):
        node = _child(node, step, steps[:i])
    _assign(node, steps, value)


def _child(node: Node, step: str, above: list[str]) -> Node:
    _open(node, above)
    if isinstance(node.value, list):
        return node.value[_index(node, step, above)]
    if not isinstance(node.value, dict):
        return Node({}, COMMAND_LINE)
    return node.value.setdefault(step, Node({}, COMMAND_LINE))


def _assign(node: Node, steps: list[str], value: Node) -> None:
    step = steps[-1]
    _open(node, steps[:-1])
    if isinstance(node.value, list):
        node.value[_index(node, step, steps[:-1])] = value
    elif isinstance(node.value, dict) and step == "type":
        old = node.value.get("type")
        kept = node.value if old is not None and old.value == value.value else _overridden(node).value
        node.value = {**kept, "type": value}
    elif isinstance(node.value, dict):
        node.value[step] = value
        other = node.value.get(_ALTERNATIVES.get(step, ""))
        if value.value is not None and other is not None and other.where != COMMAND_LINE:
            del node.value[_ALTERNATIVES[step]]


def _overridden(node: Node) -> Node:
    """The keys of a mapping that were set on the command line: overrides apply in any order."""
    if not isinstance(node.value, dict):
        return node
    inner = {k: _overridden(v) for k, v in node.value.items() if v.where == COMMAND_LINE or isinstance(v.value, dict)}
    return Node({k: v for k, v in inner.items() if v.where == COMMAND_LINE or v.value}, node.where)


def _open(node: Node, steps: list[str]) -> None:
    """A bare name becomes ``{type: name}``, so that options can be set on it."""
    if isinstance(node.value, str) and "${" in node.value:
        text = f"this is the reference {node.value}: change the value it refers to, or assign a full value here first"
        raise RecipeError([Problem(COMMAND_LINE, ".".join(steps), text)])
    if isinstance(node.value, str):
        node.value = {"type": Node(node.value, node.where)}
    elif node.value is None:
        node.value = {}
    elif node.value is not BROKEN and not isinstance(node.value, dict | list):
        raise RecipeError([Problem(COMMAND_LINE, ".".join(steps), f"cannot set an option below the scalar {node.value!r}")])


def _index(node: Node, step: str, above: list[str]) -> int:
    if not (step.isascii() and step.isdigit() and int(step) < len(node.value)):
        there = f"0 to {len(node.value) - 1}" if len(node.value) > 1 else "0" if node.value else "none"
        text = f"{step!r} is not an index of this list (indices: {there})"
        raise RecipeError([Problem(COMMAND_LINE, ".".join([*above, step]), text)])
    return int(step)
