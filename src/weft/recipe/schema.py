"""A JSON Schema (2020-12) of recipes for completion and validation in editors, derived from the signatures of constructors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter

from weft.core.registry import CATALOG, alternatives, base_of, document, name_of, option_parameters, recipe_key, slot_of
from weft.recipe.preset import PRESETS
from weft.recipe.serialize import dump

_REFERENCE = {"$ref": "#/$defs/reference"}


def schema(root: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of a recipe whose top-level keys are the options of ``root``."""
    defs: dict[str, Any] = {"reference": {"type": "string", "pattern": r"^\$\{[^${}]*[^${}\s][^${}]*\}$"}}
    top = _options(root, defs)
    changes = {"type": "object", "additionalProperties": {"type": "object"}}
    top["properties"][PRESETS] = {"description": "Named sets of overrides, path: value; preset=name applies one.", **changes}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weft recipe",
        "description": document(root).summary,
        **top,
        "$defs": defs,
    }


def _options(factory: Any, defs: dict[str, Any], name: str | None = None) -> dict[str, Any]:
    """The object schema of the options of a factory; with ``name``, also of its ``type``."""
    known = option_parameters(base_of(factory) or factory)
    given = factory.keywords if isinstance(factory, functools.partial) else {}
    texts = document(base_of(factory) or factory).args
    properties: dict[str, Any] = {}
    for option, parameter in known.items():
        default = given.get(option, parameter.default)
        value = _value(parameter.annotation, defs, default)
        if texts.get(option):
            value = {"description": texts[option], **value}
        if default is not parameter.empty:
            value["default"] = dump(default)
        properties[recipe_key(option)] = value
    if name is not None:
        properties = {"type": {"const": name}, "with": {"anyOf": [{"type": "object"}, _REFERENCE]}, **properties}
    required = [recipe_key(n) for n, p in known.items() if p.default is p.empty and n not in given]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _value(annotation: Any, defs: dict[str, Any], default: Any = None) -> dict[str, Any]:
    forms: list[dict[str, Any]] = []
    plain: list[Any] = []
    for member in alternatives(annotation):
        inner = get_args(member)
        if (kind := slot_of(member)) is not None:
            forms.append(_slot(kind, defs, default if base_of(default) is not None else None))
        elif get_origin(member) is list and (kind := slot_of(inner[0])) is not None:
            forms.append({"type": "array", "items": _slot(kind, defs, None), "minItems": 1})
        elif get_origin(member) is dict and (kind := slot_of(inner[1])) is not None:
            entry = _slot(kind, defs, None)
            forms.append({"type": "object", "additionalProperties": entry, "minProperties": 1, "not": {"required": ["type"]}})
        elif get_origin(member) is dict and get_origin(inner[1]) is list and (kind := slot_of(get_args(inner[1])[0])) is not None:
            entry = {"type": "array", "items": _slot(kind, defs, None), "minItems": 1}
            forms.append({"type": "object", "additionalProperties": {"anyOf": [entry, _REFERENCE]}, "minProperties": 1})
        elif member is type(None):
            forms.append({"type": "null"})
        else:
            plain.append(member)
    forms.extend(_open(TypeAdapter(member).json_schema()) for member in plain)
    return {"anyOf": [*forms, _REFERENCE]}


def _open(leaf: dict[str, Any]) -> dict[str, Any]:
    """The schema of a leaf in which every entry may also be a reference."""
    opened = dict(leaf)
    for key in ("items", "additionalProperties"):
        if isinstance(leaf.get(key), dict):
            opened[key] = {"anyOf": [_open(leaf[key]), _REFERENCE]}
    if "prefixItems" in leaf:
        opened["prefixItems"] = [{"anyOf": [_open(item), _REFERENCE]} for item in leaf["prefixItems"]]
    return opened


def _slot(kind: type, defs: dict[str, Any], default: Any) -> dict[str, Any]:
    """A name, ``{type: name, ...}``, or options of the default; branches on ``type`` let editors locate errors."""
    if kind.__name__ not in defs:
        defs[kind.__name__] = {}
        names = list(CATALOG[kind])
        branches = []
        for name, factory in CATALOG[kind].items():
            key = f"{kind.__name__}.{name}"
            defs[key] = {}
            defs[key] = {"description": document(factory).summary, **_options(factory, defs, name)}
            branches.append({"if": {"properties": {"type": {"const": name}}}, "then": {"$ref": f"#/$defs/{key}"}})
        bare = [n for n, f in CATALOG[kind].items() if all(p.default is not p.empty for p in option_parameters(f).values())]
        defs[kind.__name__] = {"properties": {"type": {"enum": names}}, "required": ["type"], "allOf": branches}
        defs[f"{kind.__name__}-name"] = {"enum": bare}
    if default is None and len(CATALOG[kind]) == 1:
        default = next(iter(CATALOG[kind].values()))
    untyped: Any = False
    if default is not None:
        key = f"{kind.__name__}.{name_of(default)}"
        untyped = (
            {"$ref": f"#/$defs/{key}"}
            if not isinstance(default, functools.partial)
            else _options(default, defs, name_of(default))
        )
        # options that the default already sets are not required
        if isinstance(default, functools.partial):
            untyped = {**untyped, "required": []}
    return {
        "anyOf": [
            {"$ref": f"#/$defs/{kind.__name__}-name"},
            {"type": "object", "if": {"required": ["type"]}, "then": {"$ref": f"#/$defs/{kind.__name__}"}, "else": untyped},
            _REFERENCE,
        ]
    }
