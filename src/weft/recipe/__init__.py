"""YAML <-> constructors: read, check, write, schema."""

from weft.recipe.read import Part, Reader
from weft.recipe.tree import COMMAND_LINE, Node, Problem, RecipeError, from_plain, nearest, override, parse, read_file, resolve
from weft.recipe.write import dump, dump_options, to_yaml

__all__ = [
    "COMMAND_LINE",
    "Node",
    "Part",
    "Problem",
    "Reader",
    "RecipeError",
    "dump",
    "dump_options",
    "from_plain",
    "nearest",
    "override",
    "parse",
    "read_file",
    "resolve",
    "to_yaml",
]
