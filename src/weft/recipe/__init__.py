"""Recipes: parse and validate YAML, build factories from it, and write them back; JSON Schema."""

from weft.recipe.override import override
from weft.recipe.parser import RecipeParser
from weft.recipe.part import Part, located, problem_at
from weft.recipe.preset import apply_overrides
from weft.recipe.reference import deduplicate, resolve
from weft.recipe.serialize import dump, dump_options, to_yaml
from weft.recipe.text import parse, read_file
from weft.recipe.tree import COMMAND_LINE, Node, Problem, RecipeError, from_plain, nearest

__all__ = [
    "COMMAND_LINE",
    "Node",
    "Part",
    "Problem",
    "RecipeError",
    "RecipeParser",
    "apply_overrides",
    "deduplicate",
    "dump",
    "dump_options",
    "from_plain",
    "located",
    "nearest",
    "override",
    "parse",
    "problem_at",
    "read_file",
    "resolve",
    "to_yaml",
]
