"""YAML text -> a tree of nodes that know where they stand. Nothing is executed, every mistake is collected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

COMMAND_LINE = "command line"
MOST_BYTES = 1_000_000
MOST_NODES = 50_000
MOST_DEPTH = 60
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_REFERENCE = re.compile(r"\$\{([^${}]*)\}")


@dataclass(frozen=True)
class Problem:
    """One mistake: where it stands, the path of the option, and what to do about it."""

    where: str
    path: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.text) if part)


class RecipeError(ValueError):
    """All mistakes of a recipe at once."""

    def __init__(self, problems: Iterable[Problem]):
        unique = dict.fromkeys(problems)
        self.problems = sorted(unique, key=lambda p: _line_of(p.where))
        super().__init__("\n".join(map(str, self.problems)))


def _line_of(where: str) -> int:
    head, _, line = where.rpartition(":")
    return int(line) if head and line.isdigit() else 0


def nearest(word: object, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` if something known is close to the word."""
    close = difflib.get_close_matches(str(word).lower(), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


@dataclass
class Node:
    """A value of a recipe: a dict or list of nodes, or a plain scalar; and where it was written."""

    value: Any
    where: str
    start: str = ""
    """Where the value itself begins (``where`` is the line of its key)."""

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {k: v.plain() for k, v in self.value.items()}
        if isinstance(self.value, list):
            return [v.plain() for v in self.value]
        return self.value


def from_plain(value: Any, where: str) -> Node:
    """A tree of nodes from dicts, lists and scalars, all at one place."""
    if isinstance(value, Mapping):
        return Node({str(k): from_plain(v, where) for k, v in value.items()}, where, where)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Node([from_plain(v, where) for v in value], where, where)
    return Node(value, where, where)


def read_file(file: Path, shown: str | None = None) -> str:
    """The text of a recipe file, or a RecipeError that says why not."""
    shown = shown or str(file)

    def refuse(text: str) -> RecipeError:
        return RecipeError([Problem(shown, "", text)])

    try:
        if file.is_dir():
            raise refuse("is a folder, not a recipe file")
        if file.stat().st_size > MOST_BYTES:
            raise refuse(f"has {file.stat().st_size:,} bytes; a recipe has at most {MOST_BYTES:,}")
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise refuse("there is no such file") from None
    except UnicodeDecodeError as error:
        raise refuse(f"is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror}") from None


@dataclass
class _Builder:
    """Walks ruamel's node graph once; aliases are copied, so their number is bounded."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def at(self, mark: Any) -> str:
        return f"{self.file}:{mark.line + 1}"

    def build(self, node: Any, where: str, path: str, above: tuple[int, ...] = ()) -> Node:
        self.nodes += 1
        start = self.at(node.start_mark)
        if self.nodes > MOST_NODES:
            raise RecipeError([Problem(where, path, f"more than {MOST_NODES:,} values once anchors are written out")])
        if id(node) in above:
            raise RecipeError([Problem(where, path, "an anchor that contains itself")])
        if len(above) > MOST_DEPTH:
            raise RecipeError([Problem(where, path, f"nested more than {MOST_DEPTH} levels deep")])
        above = (*above, id(node))
        if isinstance(node, MappingNode | SequenceNode) and str(node.tag) not in _COLLECTIONS:
            self.problems.append(Problem(where, path, f"the tag {node.tag} means nothing here; a recipe has plain values only"))
        if isinstance(node, MappingNode):
            return Node(self.mapping(node, path, above), where, start)
        if isinstance(node, SequenceNode):
            items = [self.build(item, self.at(item.start_mark), _join(path, i), above) for i, item in enumerate(node.value)]
            return Node(items, where, start)
        return Node(self.scalar(node, where, path), where, start)

    def mapping(self, node: MappingNode, path: str, above: tuple[int, ...]) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key, value in node.value:
            at = self.at(key.start_mark)
            if not isinstance(key, ScalarNode):
                self.problems.append(Problem(at, path, "a key must be a word"))
                continue
            name = str(key.value)
            inner = _join(path, name)
            if name in found:
                self.problems.append(Problem(at, inner, f"the key {name!r} is there twice (first: {found[name].where})"))
                continue
            found[name] = self.build(value, at, inner, above)
        return found

    def scalar(self, node: ScalarNode, where: str, path: str) -> Any:
        tag = str(node.tag)
        text = node.value
        try:
            match tag.removeprefix("tag:yaml.org,2002:"):
                case "null":
                    return None
                case "bool":
                    return text.lower() == "true"
                case "int":
                    return int(text.replace("_", ""), 0) if not re.fullmatch(r"[-+]?0\d+", text) else int(text)
                case "float":
                    return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan").replace(".NaN", "nan"))
                case "str" | "timestamp":
                    return str(text)
        except ValueError:
            pass
        self.problems.append(Problem(where, path, f"cannot read {text!r} as {tag}; a recipe has plain values only"))
        return None


def parse(text: str, file: str) -> Node:
    """The tree of a recipe's text. Raises RecipeError with every mistake of form."""
    tabs = [i for i, line in enumerate(text.splitlines(), 1) if re.match(r"[ ]*\t", line) and line.strip()]
    try:
        documents = list(YAML(typ="safe", pure=True).compose_all(text))
        if len(documents) > 1:
            mark = documents[1].start_mark
            raise RecipeError([Problem(f"{file}:{mark.line + 1}", "", "a recipe is one YAML document; here a second one begins")])
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        if tabs and (line in tabs or line - 1 in tabs):
            raise RecipeError([Problem(f"{file}:{n}", "", "a tab in the indentation: YAML wants spaces") for n in tabs]) from None
        detail = " ".join(str(error.problem or error.context or "not YAML").split())
        begun = error.context_mark
        hint = f" ({error.context}, begun in line {begun.line + 1})" if error.context and begun and begun.line + 1 != line else ""
        raise RecipeError([Problem(f"{file}:{line}", "", f"not valid YAML: {detail}{hint}")]) from None
    except YAMLError as error:
        raise RecipeError([Problem(file, "", f"not valid YAML: {' '.join(str(error).split())}")]) from None
    except RecursionError:
        raise RecipeError([Problem(file, "", f"nested more than {MOST_DEPTH} levels deep")]) from None
    if not documents or documents[0] is None:
        raise RecipeError([Problem(f"{file}:1", "", "the recipe is empty")])
    builder = _Builder(file)
    root = builder.build(documents[0], f"{file}:1", "")
    if builder.problems:
        raise RecipeError(builder.problems)
    if not isinstance(root.value, dict):
        raise RecipeError([Problem(f"{file}:1", "", "a recipe is a mapping: `key: value` lines at its top level")])
    return root


def _join(path: str, step: object) -> str:
    return f"{path}.{step}" if path else str(step)


# ---------------------------------------------------------------------------------------------------------- overrides


def override(root: Node, assignment: str) -> None:
    """Apply ``path=value`` from the command line. Changing a ``type`` drops the options of the old one."""
    path, equals, text = assignment.partition("=")
    steps = path.strip().split(".")
    if not equals or not all(steps):
        raise RecipeError([Problem(COMMAND_LINE, assignment, "an override is path=value, e.g. learning.steps=100")])
    value = parse(f"value: {text}" if text.strip() else "value: null", COMMAND_LINE).value["value"]
    _set_place(value)
    node = root
    for i, step in enumerate(steps[:-1]):
        node = _child(node, step, ".".join(steps[: i + 1]), last=False)
    _assign(node, steps[-1], path, value)


def _set_place(node: Node) -> None:
    node.where = node.start = COMMAND_LINE
    for inner in node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ():
        _set_place(inner)


def _child(node: Node, step: str, path: str, last: bool) -> Node:
    _open(node, path)
    if isinstance(node.value, list):
        return node.value[_index(node, step, path)]
    return node.value.setdefault(step, Node({}, COMMAND_LINE, COMMAND_LINE))


def _open(node: Node, path: str) -> None:
    """A bare name becomes ``{type: name}``, so that options can be set on it."""
    if isinstance(node.value, str):
        node.value = {"type": Node(node.value, node.where, node.start)}
    elif node.value is None:
        node.value = {}
    elif not isinstance(node.value, dict | list):
        raise RecipeError([Problem(COMMAND_LINE, path, f"nothing can be set below the plain value {node.value!r}")])


def _index(node: Node, step: str, path: str) -> int:
    if not step.isdigit() or int(step) >= len(node.value):
        raise RecipeError([Problem(COMMAND_LINE, path, f"{step!r} is no place in a list of {len(node.value)}")])
    return int(step)


def _assign(node: Node, step: str, path: str, value: Node) -> None:
    _open(node, path)
    if isinstance(node.value, list):
        node.value[_index(node, step, path)] = value
        return
    if step == "type" and (old := node.value.get("type")) is not None and old.value != value.value:
        node.value = {}
    elif step == "type" and "type" not in node.value:
        node.value = {}  # the options were those of the slot's default
    node.value = {step: value, **node.value} if step == "type" else {**node.value, step: value}


# --------------------------------------------------------------------------------------------------------- references


def resolve(root: Node) -> Node:
    """The tree with every ``${a.b}`` replaced by a copy of what stands there. Raises RecipeError with all that do not resolve."""
    resolver = _Resolver(root)
    result = resolver.walk(root, "", ())
    if resolver.problems:
        raise RecipeError(resolver.problems)
    return result


@dataclass
class _Resolver:
    root: Node
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def walk(self, node: Node, path: str, seen: tuple[str, ...]) -> Node:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise RecipeError([Problem(node.where, path, f"more than {MOST_NODES:,} values once references are written out")])
        if isinstance(node.value, dict):
            return replace(node, value={k: self.walk(v, _join(path, k), seen) for k, v in node.value.items()})
        if isinstance(node.value, list):
            return replace(node, value=[self.walk(v, _join(path, i), seen) for i, v in enumerate(node.value)])
        if isinstance(node.value, str) and "${" in node.value:
            return self.refer(node, path, seen)
        return node

    def refer(self, node: Node, path: str, seen: tuple[str, ...]) -> Node:
        match = _REFERENCE.fullmatch(node.value)
        if not match:
            return self.fail(node, path, f"{node.value!r}: a reference stands alone, as ${{structure.dim}}; nothing computes")
        target = match[1].strip()
        if target in seen:
            return self.fail(node, path, f"{node.value} refers to itself ({' -> '.join((*seen, target))})")
        found = self.root
        for step in target.split("."):
            inner = found.value
            if isinstance(inner, dict) and step in inner:
                found = inner[step]
            elif isinstance(inner, list) and step.isdigit() and int(step) < len(inner):
                found = inner[int(step)]
            else:
                known = inner if isinstance(inner, dict) else []
                hint = nearest(step, known)
                return self.fail(node, path, f"{node.value}: nothing is written at {target!r} in this recipe{hint}")
        copy = self.walk(found, path, (*seen, target))
        return replace(copy, where=node.where, start=node.start)

    def fail(self, node: Node, path: str, text: str) -> Node:
        self.problems.append(Problem(node.where, path, text))
        return replace(node, value=None)
