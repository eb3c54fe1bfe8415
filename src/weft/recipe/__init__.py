"""YAML <-> constructors: read, check, write, schema."""

from weft.recipe.override import override
from weft.recipe.parser import Reader
from weft.recipe.part import Part
from weft.recipe.preset import change
from weft.recipe.reference import once, resolve
from weft.recipe.serialize import dump, dump_options, to_yaml
from weft.recipe.text import parse, read_file
from weft.recipe.tree import COMMAND_LINE, Node, Problem, RecipeError, from_plain, nearest

__all__ = [
    "COMMAND_LINE",
    "Node",
    "Part",
    "Problem",
    "Reader",
    "RecipeError",
    "change",
    "dump",
    "dump_options",
    "from_plain",
    "nearest",
    "once",
    "override",
    "parse",
    "read_file",
    "resolve",
    "to_yaml",
]
