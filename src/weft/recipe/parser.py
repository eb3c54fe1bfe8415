"""Build a validated tree of factories from a recipe, driven by the signatures of the constructors.

Parts come from the catalog by name; pydantic validates leaves against the option's annotation. Every part keeps its source
location, so errors of a constructor are located as well.
"""

from __future__ import annotations

import fnmatch
import functools
import inspect
import json
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from weft.core.options import IsFile
from weft.core.registry import (
    CATALOG,
    Build,
    alternatives,
    base_of,
    is_composition,
    option_parameters,
    option_values,
    recipe_key,
    slot_of,
    wiring,
)
from weft.recipe.describe import allowed, entry, literals, with_article
from weft.recipe.part import Part, part, walk
from weft.recipe.reference import deduplicate
from weft.recipe.tree import BROKEN, COMMAND_LINE, Node, Problem, RecipeError, join, nearest, shorten

_MISSING = inspect.Parameter.empty


@dataclass
class RecipeParser:
    """Parses nodes against annotations and collects every problem.

    Args:
        folder: Folder that file paths are relative to.
        files: Whether files must exist with their recorded content; False to use a trained run without its training data.
        problems: The problems found so far.
    """

    folder: Path = Path()
    files: bool = True
    problems: list[Problem] = field(default_factory=list)

    def report(self, where: str, path: str, text: str) -> None:
        self.problems.append(Problem(where, path, text))

    def root(self, factory: Callable[..., Any], node: Node) -> Part:
        """Parse a full recipe as options of ``factory``. Raises RecipeError with every problem, syntax included."""
        given = self.options(factory, "a recipe", node, "", ())
        if problems := [*node.problems, *deduplicate(self.problems, node.copies)]:
            raise RecipeError(problems)
        return part(functools.partial(factory, **given), node.where, "")

    # ------------------------------------------------------------------------------------------------- any annotation

    def read(self, annotation: Any, node: Node, path: str, default: Any = None) -> Any:
        """Parse a part, a list or dict of parts, or a scalar."""
        if node.value is BROKEN:
            return None
        members = alternatives(annotation)
        if node.value is None and type(None) in members:
            return None
        forms = _forms(members)
        if not forms:
            return self.leaf(annotation, node, path)
        kind = next(iter(forms.values()))
        title = kind.__name__
        if isinstance(node.value, list) and "list" in forms:
            if not node.value:
                self.report(node.where, path, f"an empty list; at least one {title} is needed")
            return [self.part(kind, item, join(path, i)) for i, item in enumerate(node.value)]
        if isinstance(node.value, dict) and "lists" in forms:
            return {name: self.read(list[Build[kind]], item, join(path, name)) for name, item in node.value.items()}
        if isinstance(node.value, dict) and "dict" in forms and ("one" not in forms or "type" not in node.value):
            return self.named(kind, node, path, alone="one" in forms)
        if "one" in forms:
            return self.part(kind, node, path, default, or_null=type(None) in members)
        wanted = f"a list of {title}" if "list" in forms else f"a mapping of names to {title}"
        wanted += " or a mapping of names to such lists" if "lists" in forms else ""
        wanted += " or null" if type(None) in members else ""
        hint = (
            f": write [{node.value}]" if "list" in forms and isinstance(node.value, str) and node.value in CATALOG[kind] else ""
        )
        return self.report(node.location(), path, f"must be {wanted}, not {_show(node)}{hint}")

    def named(self, kind: type, node: Node, path: str, alone: bool) -> dict[str, Any]:
        """Parse a mapping of names to parts. ``alone``: a single part is allowed too, so its ``type`` may be missing."""
        title = kind.__name__
        if not node.value:
            self.report(node.location(), path, f"an empty mapping; at least one {title} is needed")
        found: dict[str, Any] = {}
        for name, item in node.value.items():
            if alone and nearest(name, ["type"]):
                self.report(item.where, join(path, name), f"{name!r} is too similar to 'type'; did you mean 'type'?")
            elif alone and item.value is not BROKEN and not _may_be_part(kind, item.value):
                text = f"without a type, these are several {title} parts by name: {name!r} must be one, not {_show(item)}"
                text += f" (known: {', '.join(CATALOG[kind])})" if isinstance(item.value, str) else ""
                self.report(item.location(), join(path, name), text)
            else:
                found[name] = self.part(kind, item, join(path, name))
        return found

    # -------------------------------------------------------------------------------------------------------- a leaf

    def leaf(self, annotation: Any, node: Node, path: str) -> Any:
        if node.broken():
            return None
        annotation = _meant(annotation, node)
        try:
            value = _adapter(annotation).validate_json(
                json.dumps(node.plain()), strict=True, context={"folders": self.folders(node), "files": self.files}
            )
        except ValidationError as error:
            found = [(self.explain(e, annotation, node, path), e["loc"], e["type"] == "value_error") for e in error.errors()]
            self.problems += dict.fromkeys(_furthest(annotation, found))
            return None
        members = [m for m in alternatives(annotation) if m is not type(None)]
        if all(get_origin(m) is Literal for m in members) and type(node.value) not in map(type, literals(annotation)):
            return self.report(node.where, path, _must(annotation, node))  # in Python, True and 1.0 equal 1
        return value

    def folders(self, node: Node) -> list[str]:
        """Folders to search for files: that of the recipe, and for a value of the command line the working directory."""
        return [str(self.folder), *(["."] if node.location() == COMMAND_LINE else [])]

    def explain(self, error: Any, annotation: Any, node: Node, path: str) -> Problem:
        key, parent = None, annotation
        for step in error["loc"]:  # pydantic also puts the names of union members here: follow what exists
            inner = node.value
            there = step in inner if isinstance(inner, dict) else isinstance(inner, list) and step in range(len(inner))
            if there and (below := entry(annotation, step)) is not None:
                key, parent = step, annotation
                node, path, annotation = inner[step], join(path, step), below
        if error["loc"][-1:] == ("[key]",) and key is not None:
            known = literals(parent)
            return Problem(node.where, path, f"no key {key!r} here{nearest(key, known)} (known: {', '.join(known)})")
        if error["type"] == "value_error":
            return Problem(node.location(), path, error["msg"].removeprefix("Value error, "))
        return Problem(node.location(), path, _must(annotation, node))

    # -------------------------------------------------------------------------------------------------------- a part

    def part(self, kind: type, node: Node, path: str, default: Any = None, or_null: bool = False) -> Any:
        """Parse a part: ``name``, ``{type: name, ...}``, or ``{options}`` of the default."""
        known = CATALOG[kind]
        value = node.value
        if value is BROKEN:
            return None
        if isinstance(value, str):
            value = {"type": Node(value, node.where)}
        if not isinstance(value, dict):
            wanted = f"{with_article(kind)}, a name or {{type: name, ...}}{' or null' if or_null else ''}"
            return self.report(node.where, path, f"must be {wanted}, not {_show(node)}")
        if "type" in value:
            name = value["type"]
            if name.value is BROKEN:
                return None
            # values of metrics and options have underscores, names of parts hyphens: macro_f1 is macro-f1
            factory = known.get(name.value, known.get(name.value.replace("_", "-"))) if isinstance(name.value, str) else None
            if factory is None:
                name_path = join(path, "type") if isinstance(node.value, dict) else path
                return self.report(name.where, name_path, _no_such(kind, name))
        elif odd := next((k for k in value if nearest(k, ["type"]) and k not in _options_of(default)), None):
            return self.report(value[odd].where, join(path, odd), f"no key {odd!r} here; did you mean 'type'?")
        elif base_of(default) is not None:
            factory = default
        elif len(known) == 1:
            factory = next(iter(known.values()))
        else:
            return self.report(node.location(), path, f"needs a type: which {kind.__name__}? (known: {', '.join(known)})")
        before = len(self.problems)
        given = self.options(factory, _title(factory), Node(value, node.where), path, wiring(kind))
        if len(self.problems) > before:
            return None
        tree = functools.partial(base_of(factory) or factory, **given)
        if is_composition(factory):
            if any(inner.value is BROKEN for inner in value.values()):
                return None  # already reported
            try:
                tree = tree()
            except ValueError as error:
                return self.report(node.where, path, str(error))
        result = part(tree, node.where, path, {name: inner.location() for name, inner in value.items()})
        return self.graft(result, value["with"], path) if "with" in value else result

    def options(self, factory: Any, title: str, node: Node, path: str, wires: tuple[str, ...]) -> dict[str, Any]:
        """Parse the options in a mapping and merge them over those that the factory already has."""
        base = base_of(factory) or factory
        known = {recipe_key(name): parameter for name, parameter in option_parameters(base).items()}
        already = {recipe_key(k): v for k, v in option_values(factory).items() if v is not _MISSING}
        given = dict(factory.keywords) if isinstance(factory, functools.partial) else {}
        meant = ""
        for name, inner in node.value.items():
            if name in ("type", "with") and path:
                continue
            sub = join(path, name)
            if name in wires:
                self.report(inner.location(), sub, f"{name!r} is set by the enclosing part, not by the recipe")
            elif name not in known:
                words = [*known, "with"] if path and isinstance(inner.value, dict) else known
                hint = nearest(name, words)
                meant += hint
                hint = _below(name, node, known) or hint or _deeper(name, factory) or _beside(name, base)
                listed = f"options: {', '.join(known)}" if known else "it has none"
                self.report(inner.location(), sub, f"{title} has no option {name!r}{hint} ({listed})")
            else:
                given[known[name].name] = self.read(known[name].annotation, inner, sub, already.get(name))
        for name, parameter in known.items():
            absent = name not in node.value and parameter.name not in given
            if parameter.default is _MISSING and absent and repr(name) not in meant:
                self.report(node.where, path, f"{title} needs {name!r}")
        return given

    # ------------------------------------------------------------------------------------------------------- grafts

    def graft(self, tree: Part, grafts: Node, path: str) -> Any:
        """Replace parts or options of a tree by glob: ``with: {encoder.layer.mixer: linear}``."""
        if grafts.value is BROKEN:
            return None
        if not isinstance(grafts.value, dict):
            return self.report(grafts.where, join(path, "with"), f"must be a mapping of paths to new parts, not {_show(grafts)}")
        for glob, node in grafts.value.items():
            inner = f"{path}.with.{glob}"
            paths = [p for p, _ in walk(tree)]
            hits = [p for p in paths if fnmatch.fnmatchcase(p, glob)]
            if not hits:
                some = ", ".join(sorted(paths, key=lambda p: p.count("."))[:8])
                self.report(node.location(), inner, f"matches nothing{nearest(glob, paths)} (available: {some}, ...)")
            before = len(self.problems)
            for hit in hits:
                if len(self.problems) == before and hit in [p for p, _ in walk(tree)]:  # an earlier hit may have replaced it
                    tree = self.put(tree, hit.split("."), node, inner)
        return tree

    def put(self, tree: Part, steps: list[str], node: Node, path: str) -> Part:
        """Return the tree with the value at ``steps`` replaced by the parsed node."""
        name, rest = steps[0], steps[1:]
        annotation, old = option_parameters(tree.func)[name].annotation, tree.keywords.get(name)
        if rest and isinstance(old, list | dict):
            at: Any = int(rest[0]) if isinstance(old, list) else rest[0]
            members = alternatives(annotation)
            element = next(get_args(a)[-1] for a in members if get_origin(a) is type(old))
            item = self.read(element, node, path, old[at]) if not rest[1:] else self.put(old[at], rest[1:], node, path)
            new: Any = list(old) if isinstance(old, list) else dict(old)
            new[at] = item
        elif rest:
            new = self.put(old, rest, node, path)  # pyright: ignore[reportArgumentType]
        else:
            new = self.read(annotation, node, path, old)
        result = Part(tree.func, **{**tree.keywords, name: new})
        result.where, result.path, result.written = tree.where, tree.path, tree.written
        return result


def _may_be_part(kind: type, value: Any) -> bool:
    """Whether a value is meant as a part: a mapping, or a name that is like one of the catalog."""
    return isinstance(value, dict) or (isinstance(value, str) and (value in CATALOG[kind] or bool(nearest(value, CATALOG[kind]))))


def _forms(members: tuple[Any, ...]) -> dict[str, type]:
    """The forms in which a slot takes parts: ``one`` Build[S], a ``list`` or a ``dict`` of them, or a dict of ``lists``."""
    forms: dict[str, type] = {}
    for member in members:
        if (kind := slot_of(member)) is not None:
            forms["one"] = kind
        elif get_origin(member) in (list, dict) and (kind := slot_of(get_args(member)[-1])) is not None:
            forms[get_origin(member).__name__] = kind
        elif get_origin(member) is dict and get_origin(lists := get_args(member)[-1]) is list:
            forms |= {"lists": kind} if (kind := slot_of(get_args(lists)[0])) is not None else {}
    return forms


def _meant(annotation: Any, node: Node) -> Any:
    """Resolve a mapping for an option that takes one file or named files: ``{path: ..., sha256: ...}`` is one file."""
    members = alternatives(annotation)
    named = [m for m in members if get_origin(m) is dict]
    files = [m for m in members if IsFile in getattr(m, "__metadata__", ())]
    if not isinstance(node.value, dict) or not named or not files:
        return annotation
    alone = set(node.value) == {"path", "sha256"} and all(isinstance(inner.value, str) for inner in node.value.values())
    return functools.reduce(operator.or_, files if alone else named)


def _furthest(annotation: Any, found: list[tuple[Problem, tuple[Any, ...], bool]]) -> list[Problem]:
    """Select the errors of the union member that matched furthest, or that validated the value itself.

    Applies to each entry of a list or mapping separately.
    """
    if len([m for m in alternatives(annotation) if m is not type(None)]) > 1:
        furthest = max((len(loc), validated) for _, loc, validated in found)
        return [problem for problem, loc, validated in found if (len(loc), validated) == furthest]
    problems: list[Problem] = []
    for step in dict.fromkeys(loc[0] if loc else None for _, loc, _ in found):
        group = [(problem, loc[1:], validated) for problem, loc, validated in found if (loc[0] if loc else None) == step]
        below = None if step is None else entry(annotation, step)
        problems += [problem for problem, _, _ in group] if below is None else _furthest(below, group)
    return problems


@functools.lru_cache(None)
def _cached_adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(annotation)
    except TypeError:  # an annotation that cannot be hashed
        return TypeAdapter(annotation)


# ------------------------------------------------------------------------------------------------------------- messages


def _must(annotation: Any, node: Node) -> str:
    hint = ""
    if isinstance(node.value, str):
        hint = nearest(node.value, [v for v in literals(annotation) if isinstance(v, str)])
    elif isinstance(node.value, int | float) and str in alternatives(annotation):
        hint = ": put it in quotes"
    return f"must be {allowed(annotation)}, not {_show(node)}{hint}"


def _no_such(kind: type, name: Node) -> str:
    known = CATALOG[kind]
    shown = repr(shorten(name.value)) if isinstance(name.value, str) else _show(name)
    hint = nearest(name.value, known)
    others = [k for k, entries in CATALOG.items() if isinstance(name.value, str) and name.value in entries]
    if not hint and others:
        hint = f": that is {with_article(others[0])}"
    return f"no {kind.__name__} named {shown}{hint} (known: {', '.join(known)}; your own: --import MODULE)"


def _below(name: str, node: Node, known: dict[str, inspect.Parameter]) -> str:
    """``; did you mean 'learning.epochs'?`` if a part that the recipe names has such an option."""
    for slot_name, inner in node.value.items():
        kind = next(iter(_forms(alternatives(known[slot_name].annotation)).values()), None) if slot_name in known else None
        named = inner.value.get("type", inner).value if isinstance(inner.value, dict) else inner.value
        entries = CATALOG[kind] if kind is not None else {}
        factory = entries.get(named) if isinstance(named, str) else next(iter(entries.values())) if len(entries) == 1 else None
        if found := _option_paths(name, factory):
            return f"; did you mean {join(slot_name, found[0])!r}?"
    return ""


def _deeper(name: str, factory: Any) -> str:
    """``; did you mean 'layer.mixer.heads'?`` if a part below has such an option."""
    below = _option_paths(name, factory)
    return f"; did you mean {below[0]!r}?" if below else ""


def _option_paths(name: str, factory: Any) -> list[str]:
    """The paths of the options of this name, of a part and of its default parts; the shortest first."""
    if is_composition(factory) or base_of(factory) is None:
        return []
    return sorted((p for p, _ in walk(part(factory, "", "")) if p == name or p.endswith(f".{name}")), key=len)


def _beside(name: str, base: Any) -> str:
    """``; 'beam' has one`` if another entry of the same slot has such an option."""
    entries = next((e for e in CATALOG.values() if base in e.values()), {})
    found = next((other for other, factory in entries.items() if name in option_parameters(factory)), None)
    return f"; {found!r} has one" if found else ""


def _options_of(factory: Any) -> dict[str, Any]:
    return option_values(factory) if base_of(factory) is not None else {}


def _title(factory: Any) -> str:
    base = base_of(factory) or factory
    return getattr(base, "__name__", str(base))


def _show(node: Node) -> str:
    if node.value is None:
        return "null"
    return shorten(json.dumps(node.plain(), ensure_ascii=False, default=str))
