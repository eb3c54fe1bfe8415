"""Presets: named sets of overrides in a recipe, selected by ``preset=name`` on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from weft.recipe.override import assign, override
from weft.recipe.tree import BROKEN, COMMAND_LINE, Node, Problem, RecipeError, join, nearest

PRESETS, PRESET = "presets", "preset"


def apply_overrides(root: Node, assignments: Sequence[str]) -> None:
    """Apply ``path=value`` overrides to a tree in order; ``preset=name`` is applied first.

    An invalid override is recorded in ``root.problems``.
    """
    sets = root.value.pop(PRESETS, None) if isinstance(root.value, dict) else None
    wanted = [text.partition("=")[2].strip() for text in assignments if text.partition("=")[0].strip() == PRESET]
    try:
        known = _known(sets)
        if len(wanted) > 1:
            raise RecipeError([Problem(COMMAND_LINE, PRESET, f"{len(wanted)} presets requested; at most one is allowed")])
        for name in wanted:
            for path, value in _changes(name, known).items():
                _assign(root, path, value)
    except RecipeError as error:
        root.problems += error.problems
    for text in assignments:
        if text.partition("=")[0].strip() != PRESET:
            override(root, text)


def _known(sets: Node | None) -> dict[str, Node]:
    """The presets of a recipe; all of them must be valid, also those not requested."""
    if sets is None or sets.value is BROKEN:
        return {}
    named = {join(PRESETS, name): node for name, node in sets.value.items()} if isinstance(sets.value, dict) else {PRESETS: sets}
    if wrong := {path: node for path, node in named.items() if path == PRESETS or not isinstance(node.value, dict)}:
        form = "a preset is a mapping of changes, as in presets: {small: {learning.steps: 100}}"
        raise RecipeError([Problem(node.where, path, form) for path, node in wrong.items()])
    return sets.value


def _assign(root: Node, path: str, value: Node) -> None:
    try:
        assign(root, path, value)
    except RecipeError as error:  # a preset is located in the recipe, not on the command line
        raise RecipeError([Problem(value.where, problem.path, problem.text) for problem in error.problems]) from None


def _changes(name: str, known: dict[str, Node]) -> dict[str, Node]:
    if name not in known:
        there = f"it has: {', '.join(known)}" if known else "it has none"
        text = f"the recipe has no preset {name!r} ({there}){nearest(name, known)}"
        raise RecipeError([Problem(COMMAND_LINE, PRESET, text)])
    return known[name].value
