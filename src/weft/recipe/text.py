"""Parse YAML text into a tree of nodes. No code is executed; every syntax error is recorded with its line."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from weft.core.plain_number import is_plain_integer, is_plain_number
from weft.recipe.tree import BROKEN, COMMAND_LINE, MAX_DEPTH, MAX_NODES, Node, Problem, RecipeError, join, shorten
from weft.recipe.yaml_errors import LINE_BREAK, explain_syntax_error, location

MAX_BYTES = 200_000
MAX_KEY_LENGTH = 100
_PREFIX = "tag:yaml.org,2002:"
_BOOLS = {"true": True, "false": False}
_NULLS = ("", "~", "null")


_DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".conll", ".parquet")
"""File names that are data rather than recipes."""


def read_file(file: Path, shown: str | None = None) -> str:
    """Read the text of a recipe file. Raises RecipeError."""
    shown = shown or str(file)
    try:
        if file.is_dir():
            raise RecipeError([Problem(shown, "", "is a folder, not a recipe file")])
        with open(file, "rb", opener=_open_without_waiting) as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise RecipeError([Problem(shown, "", "there is no such file")]) from None
    except OSError as error:
        raise RecipeError([Problem(shown, "", f"cannot be read: {error.strerror}")]) from None
    if len(data) > MAX_BYTES:
        raise RecipeError([Problem(shown, "", f"is too large: a recipe has at most {MAX_BYTES:,} bytes")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RecipeError([Problem(f"{shown}:{line}", "", f"not valid UTF-8 (byte {error.start})")]) from None


def _open_without_waiting(file: str, flags: int) -> int:
    """Open a file; a pipe that no process writes to is empty, instead of waiting for one."""
    handle = os.open(file, flags | getattr(os, "O_NONBLOCK", 0))
    os.set_blocking(handle, True)
    return handle


def is_key(name: str) -> bool:
    """Whether a recipe may have this key."""
    return 0 < len(name) <= MAX_KEY_LENGTH and name.isprintable()


def parse(text: str, file: str) -> Node:
    """Parse the text of a recipe; recoverable errors are recorded in ``problems``. Raises RecipeError for invalid YAML."""
    found = _compose(text, file)
    if found is None:
        raise RecipeError([Problem(f"{file}:1", "", "the recipe is empty")])
    builder = _Builder(file)
    root = builder.build(found, f"{file}:1", "")
    if not isinstance(root.value, dict):
        text = "a recipe is a mapping: `key: value` lines at its top level"
        if file.lower().endswith(_DATA_SUFFIXES):
            text += f"; this looks like data: write a recipe for it with: weft new {file}"
        raise RecipeError([Problem(f"{file}:1", "", text)])
    root.problems = builder.problems
    return root


def parse_value(text: str, path: str) -> Node:
    """Parse one value from the command line, for a path. Raises RecipeError."""
    try:
        found = _compose(text.strip(), COMMAND_LINE)
    except RecipeError as error:
        raise RecipeError([Problem(COMMAND_LINE, path, problem.text) for problem in error.problems]) from None
    if found is None:
        if text.strip():
            raise RecipeError([Problem(COMMAND_LINE, path, f"{shorten(text)!r} is only a comment; does it need quotes?")])
        return Node(None, COMMAND_LINE)
    builder = _Builder(COMMAND_LINE)
    node = builder.build(found, COMMAND_LINE, path)
    if builder.problems:
        raise RecipeError(builder.problems)
    return node


def _compose(text: str, file: str) -> Any:
    """The node graph of the single YAML document; None for an empty text."""

    def error_at(line: int | None, message: str) -> RecipeError:
        return RecipeError([Problem(location(file, line), "", message)])

    if version := re.search(r"(?m)^%YAML[ \t]+(?!1\.2\b)(\S+)", text):
        raise error_at(_line_at(text, version.start()), f"a recipe is YAML 1.2, not {shorten(version[1])}")
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH + 2  # one level for key and value each, so that the check in _Builder applies first
    yaml.composer.warn_double_anchors = False
    try:
        documents = list(yaml.compose_all(text))
    except MarkedYAMLError as error:
        if type(error).__name__ == "MaxDepthExceededError":
            mark = error.problem_mark
            raise error_at(mark.line + 1 if mark else None, f"nested more than {MAX_DEPTH} levels deep") from None
        raise RecipeError(explain_syntax_error(error, text, file)) from None
    except YAMLError as error:
        position = getattr(error, "position", None)
        character = getattr(error, "character", None)
        if isinstance(position, int) and isinstance(character, int):
            message = f"not valid YAML: the character #x{character:04x} is not allowed in a text file"
            raise error_at(_line_at(text, position), message) from None
        raise error_at(None, f"not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise error_at(None, f"nested more than {MAX_DEPTH} levels deep") from None
    except (ValueError, OverflowError) as error:  # an escape such as "\Uffffffff"
        raise error_at(None, f"not valid YAML: {error}") from None
    if len(documents) > 1:
        raise error_at(documents[1].start_mark.line + 1, "a recipe is one YAML document, but a second one starts here")
    return documents[0] if documents else None


def _line_at(text: str, position: int) -> int:
    return len(LINE_BREAK.findall(text, 0, position)) + 1


@dataclass
class _Builder:
    """Builds nodes from the node graph of ruamel.yaml. Aliases are copied, so the number of nodes is bounded."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def at(self, node: Any) -> str:
        return location(self.file, node.start_mark.line + 1)

    def report(self, where: str, path: str, text: str) -> None:
        self.problems.append(Problem(where, path, text))

    def build(self, node: Any, where: str, path: str, above: tuple[int, ...] = ()) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise RecipeError([Problem(where, shorten(path), f"more than {MAX_NODES:,} values once anchors are written out")])
        if id(node) in above:
            raise RecipeError([Problem(where, shorten(path), "an anchor that contains itself")])
        if len(above) >= MAX_DEPTH:
            raise RecipeError([Problem(where, shorten(path), f"nested more than {MAX_DEPTH} levels deep")])
        above = (*above, id(node))
        if isinstance(node, ScalarNode):
            return Node(self.scalar(node, where, path), where)
        if str(node.tag) not in (_PREFIX + "map", _PREFIX + "seq"):
            self.report(where, path, f"the tag {_tag(node)} is not supported; a recipe has plain values only")
            return Node(BROKEN, where)
        if isinstance(node, SequenceNode):
            return Node([self.build(item, self.at(item), join(path, i), above) for i, item in enumerate(node.value)], where)
        return Node(self.mapping(node, path, above), where)

    def mapping(self, node: MappingNode, path: str, above: tuple[int, ...]) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key, value in node.value:
            at, name = self.at(key), self.key(key, path)
            if name is None:
                continue
            # a scalar may be on the line after its key; an alias has the position of its anchor
            below = isinstance(value, ScalarNode) and value.value and value.anchor is None
            inner = self.build(value, self.at(value) if below else at, join(path, name), above)
            if name in found:
                self.report(at, join(path, name), f"duplicate key {name!r} (first: {found[name].where})")
                found[name] = Node(BROKEN, found[name].where)  # which of the values is meant is unknown
            else:
                found[name] = inner
        return found

    def key(self, node: Any, path: str) -> str | None:
        at = self.at(node)
        if not isinstance(node, ScalarNode):
            return self.report(at, path, "a key must be a scalar")
        name = str(node.value)
        if str(node.tag) == _PREFIX + "merge":
            return self.report(at, join(path, name), "merging (<<) is not part of a recipe; ${a.b} copies the value at a.b")
        if not name:
            return self.report(at, path, "the key before the colon is missing")
        if not is_key(name):
            shown = ascii(shorten(name))
            return self.report(
                at, path, f"{shown} is no key: a key has at most {MAX_KEY_LENGTH} characters, all of them printable"
            )
        if self.scalar(node, at, join(path, name)) is BROKEN:
            return None
        return name

    def scalar(self, node: ScalarNode, where: str, path: str) -> Any:
        text = str(node.value)
        try:
            text.encode()
            match str(node.tag).removeprefix(_PREFIX):
                case "null" if text.lower() in _NULLS:
                    return None
                case "bool" if text.lower() in _BOOLS:
                    return _BOOLS[text.lower()]
                case "int" if is_plain_integer(text) or re.fullmatch(r"[-+]?0(x[0-9A-Fa-f]+|o[0-7]+|b[01]+)", text):
                    return int(text, 10 if is_plain_integer(text) else 0)
                case "float" if is_plain_number(text) or re.fullmatch(r"[-+]?\.(inf|nan)", text.lower()):
                    return float(re.sub(r"\.(inf|nan)$", r"\1", text.lower()))
                case "int" | "float" if "_" in text:
                    message = (
                        f"{shorten(text)!r} has underscores; write a number in plain digits: {shorten(text.replace('_', ''))}"
                    )
                    self.report(where, path, message)
                    return BROKEN
                case "str" | "timestamp" | "value" | "merge":
                    return text
            message = f"cannot read {shorten(text)!r} as {_tag(node)}; a recipe has plain values only"
        except UnicodeEncodeError:
            message = f"{shorten(text)!a} is not valid Unicode: an unpaired surrogate"
        except ValueError:
            message = f"cannot read {shorten(text)!r} as {_tag(node)}"
        self.report(where, path, message)
        return BROKEN


def _tag(node: Any) -> str:
    return shorten(str(node.tag).replace(_PREFIX, "!!"))
