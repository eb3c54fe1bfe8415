"""A checked tree of factories from a recipe: one walker over the constructors' signatures.

Parts come from the catalog by name; leaves are checked by pydantic against the option's annotation. Every part of the result
knows where it was written, so that what a constructor refuses is located too.
"""

from __future__ import annotations

import fnmatch
import functools
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from weft.catalog import CATALOG, alternatives, base_of, choices, is_composition, options, slot_of, wiring
from weft.recipe.tree import Node, Problem, RecipeError, nearest

_MISSING = inspect.Parameter.empty


class Part(functools.partial):
    """A factory that knows where it was written. What its constructor refuses becomes a located RecipeError."""

    where: str = ""
    path: str = ""

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            return super().__call__(*args, **keywords)
        except RecipeError:
            raise
        except ValueError as error:
            raise RecipeError([Problem(self.where, self.path, str(error))]) from error


def part(factory: Callable[..., Any], where: str, path: str) -> Part:
    """The factory as Parts all the way down, its defaults included: each with a place and a path."""
    given = factory.keywords if isinstance(factory, functools.partial) else {}
    base = base_of(factory) or (factory.func if isinstance(factory, functools.partial) else factory)
    filled = {name: _located(value, where, f"{path}.{name}") for name, value in options(factory).items() if value is not _MISSING}
    result = Part(base, **{**given, **filled})
    result.where, result.path = where, path
    return result


def _located(value: Any, where: str, path: str) -> Any:
    if isinstance(value, Part):
        return value
    if base_of(value) is not None:
        return part(value, where, path)
    if isinstance(value, list):
        return [_located(v, where, f"{path}.{i}") for i, v in enumerate(value)]
    if isinstance(value, dict):
        return {k: _located(v, where, f"{path}.{k}") for k, v in value.items()}
    return value


@dataclass
class Reader:
    """Reads nodes against annotations and collects every problem.

    Args:
        folder: What paths of files are relative to.
    """

    folder: Path = Path()
    problems: list[Problem] = field(default_factory=list)

    def say(self, where: str, path: str, text: str) -> None:
        self.problems.append(Problem(where, path, text))

    def root(self, factory: Callable[..., Any], node: Node) -> Part:
        """The whole recipe as options of ``factory``. Raises RecipeError with every mistake."""
        given = self.options(factory, "a recipe", node, "", ())
        if self.problems:
            raise RecipeError(self.problems)
        return part(functools.partial(factory, **given), node.where, "")

    # ------------------------------------------------------------------------------------------------- any annotation

    def read(self, annotation: Any, node: Node, path: str, default: Any = None) -> Any:
        """A part, a list or dict of parts, or a checked plain value."""
        members = alternatives(annotation)
        if node.value is None and type(None) in members:
            return None
        members = tuple(m for m in members if m is not type(None))
        chosen = self.choose(members, node)
        if chosen is None:
            return self.leaf(annotation, node, path)
        kind, shape = chosen
        if shape == "list" and isinstance(node.value, list):
            if not node.value:
                self.say(node.where, path, f"an empty list; at least one {kind.__name__} is needed")
            return [self.part(kind, item, f"{path}.{i}") for i, item in enumerate(node.value)]
        if shape == "dict" and isinstance(node.value, dict):
            if not node.value:
                self.say(node.where, path, f"an empty mapping; at least one {kind.__name__} is needed")
            return {name: self.part(kind, item, f"{path}.{name}") for name, item in node.value.items()}
        if shape in ("list", "dict"):
            wanted = "a list" if shape == "list" else "a mapping by name"
            return self.say(node.where, path, f"must be {wanted} of {kind.__name__}, not {_show(node)}")
        return self.part(kind, node, path, default)

    def choose(self, members: tuple[Any, ...], node: Node) -> tuple[type, str] | None:
        """Which of the forms Build[S], list[Build[S]], dict[str, Build[S]] the value is written in."""
        forms: dict[str, type] = {}
        for member in members:
            inner = get_args(member)
            if (kind := slot_of(member)) is not None:
                forms["one"] = kind
            elif get_origin(member) is list and (kind := slot_of(inner[0])) is not None:
                forms["list"] = kind
            elif get_origin(member) is dict and (kind := slot_of(inner[1])) is not None:
                forms["dict"] = kind
        if "list" in forms and (isinstance(node.value, list) or len(forms) == 1):
            return forms["list"], "list"
        if "dict" in forms and ("one" not in forms or (isinstance(node.value, dict) and "type" not in node.value)):
            return forms["dict"], "dict"
        return (forms["one"], "one") if "one" in forms else None

    # -------------------------------------------------------------------------------------------------------- a leaf

    def leaf(self, annotation: Any, node: Node, path: str) -> Any:
        try:
            text = json.dumps(node.plain())
            return _adapter(annotation).validate_json(text, strict=True, context={"folder": str(self.folder)})
        except ValidationError as error:
            for text, where, inner in dict.fromkeys(self.explain(e, node, path) for e in error.errors()):
                self.say(where, inner, text)
        except ValueError as error:
            self.say(node.where, path, str(error))
        return None

    def explain(self, error: Any, node: Node, path: str) -> tuple[str, str, str]:
        found = node
        for step in error["loc"]:  # pydantic also puts the names of union members here: follow what exists
            inner = found.value
            there = step in inner if isinstance(inner, dict) else isinstance(inner, list) and step in range(len(inner))
            if there:
                found, path = inner[step], f"{path}.{step}"
        message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
        allowed = [a.strip("'") for a in re.findall(r"'[^']*'", error.get("ctx", {}).get("expected", ""))]
        hint = nearest(found.value, allowed) if isinstance(found.value, str) else ""
        if error["type"] == "value_error":
            return message, found.where, path
        return f"{_show(found)}: {message[0].lower()}{message[1:]}{hint}", found.where, path

    # -------------------------------------------------------------------------------------------------------- a part

    def part(self, kind: type, node: Node, path: str, default: Any = None) -> Any:
        """``name``, ``{type: name, ...}``, or ``{options}`` of the default."""
        known = CATALOG[kind]
        value = node.value
        if isinstance(value, str):
            value = {"type": Node(value, node.where, node.start)}
        if not isinstance(value, dict):
            return self.say(node.where, path, f"a {kind.__name__} is a name or {{type: name, ...}}, not {_show(node)}")
        if "type" in value:
            name = value["type"]
            factory = known.get(name.value) if isinstance(name.value, str) else None
            if factory is None:
                hint = nearest(name.value, known)
                text = f"no {kind.__name__} named {name.value!r}{hint} (known: {', '.join(known)})"
                return self.say(name.where, f"{path}.type" if isinstance(node.value, dict) else path, text)
        elif default is not None and default is not _MISSING:
            factory = default
        elif len(known) == 1:
            factory = next(iter(known.values()))
        else:
            return self.say(node.where, path, f"needs a type: which {kind.__name__}? (known: {', '.join(known)})")
        before = len(self.problems)
        given = self.options(factory, _title(factory), Node(value, node.where, node.start), path, wiring(kind))
        if len(self.problems) > before:
            return None
        grafts = value.get("with")
        tree = functools.partial(base_of(factory) or factory, **given)
        if is_composition(factory):
            try:
                tree = tree()
            except ValueError as error:
                return self.say(node.where, path, str(error))
        result = part(tree, node.where, path)
        return self.graft(result, grafts, path) if grafts is not None else result

    def options(self, factory: Any, title: str, node: Node, path: str, wires: tuple[str, ...]) -> dict[str, Any]:
        """The choices written in a mapping, checked, over those that the factory already has."""
        base = base_of(factory) or factory
        known = choices(base)
        already = {k: v for k, v in options(factory).items() if v is not _MISSING}
        given = dict(factory.keywords) if isinstance(factory, functools.partial) else {}
        for name, inner in node.value.items():
            if name in ("type", "with") and path:
                continue
            sub = f"{path}.{name}" if path else name
            if name in wires:
                self.say(inner.where, sub, f"{name!r} is given by the part above, not by the recipe")
            elif name not in known:
                listed = f"options: {', '.join(known)}" if known else "it has none"
                self.say(inner.where, sub, f"{title} has no option {name!r}{nearest(name, known)} ({listed})")
            else:
                given[name] = self.read(known[name].annotation, inner, sub, already.get(name))
        for name, parameter in known.items():
            if parameter.default is _MISSING and name not in node.value and name not in given:
                self.say(node.where, path, f"{title} needs {name!r}")
        return given

    # ------------------------------------------------------------------------------------------------------- grafts

    def graft(self, tree: Part, grafts: Node, path: str) -> Any:
        """Replace parts or options of a tree by glob: ``with: {encoder.layer.mixer: linear}``."""
        if not isinstance(grafts.value, dict):
            return self.say(grafts.where, f"{path}.with", "a mapping of paths to new parts")
        for glob, node in grafts.value.items():
            inner = f"{path}.with.{glob}"
            paths = [p for p, _ in walk(tree)]
            hits = [p for p in paths if fnmatch.fnmatchcase(p, glob)]
            if not hits:
                self.say(node.where, inner, f"matches nothing{nearest(glob, paths)} (e.g. {', '.join(paths[:6])})")
            for hit in hits:
                if hit in [p for p, _ in walk(tree)]:  # an earlier hit may have replaced the part that held this one
                    tree = self.put(tree, hit.split("."), node, inner)
        return tree

    def put(self, tree: Part, steps: list[str], node: Node, path: str) -> Part:
        name, rest = steps[0], steps[1:]
        annotation = choices(tree.func)[name].annotation
        old = tree.keywords.get(name)
        if not rest:
            new = self.read(annotation, node, path, old)
        elif isinstance(old, list):
            i = int(rest[0])
            element = next(get_args(a)[0] for a in alternatives(annotation) if get_origin(a) is list)
            item = self.read(element, node, path, old[i]) if not rest[1:] else self.put(old[i], rest[1:], node, path)
            new = [*old[:i], item, *old[i + 1 :]]
        else:
            new = self.put(old, rest, node, path)
        result = Part(tree.func, **{**tree.keywords, name: new})
        result.where, result.path = tree.where, tree.path
        return result


def walk(tree: Part, path: str = "") -> list[tuple[str, Any]]:
    """Every option below a tree with its path: ``encoder.layer.0.mixer.heads``."""
    found: list[tuple[str, Any]] = []
    for name, value in tree.keywords.items():
        here = f"{path}.{name}" if path else name
        found.append((here, value))
        for i, item in enumerate(value) if isinstance(value, list) else ():
            if isinstance(item, Part):
                found.append((f"{here}.{i}", item))
                found.extend(walk(item, f"{here}.{i}"))
        if isinstance(value, Part):
            found.extend(walk(value, here))
    return found


@functools.lru_cache(None)
def _cached_adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return TypeAdapter(annotation)


def _title(factory: Any) -> str:
    base = base_of(factory) or factory
    return getattr(base, "__name__", str(base))


def _show(node: Node) -> str:
    text = "nothing" if node.value is None else json.dumps(node.plain(), ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
