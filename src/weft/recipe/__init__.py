"""YAML <-> constructors: read, check, write, schema."""

from weft.recipe.override import override
from weft.recipe.part import Part
from weft.recipe.preset import change
from weft.recipe.reader import Reader
from weft.recipe.reference import once, resolve
from weft.recipe.text import parse, read_file
from weft.recipe.tree import COMMAND_LINE, Node, Problem, RecipeError, from_plain, nearest
from weft.recipe.writer import dump, dump_options, to_yaml

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
