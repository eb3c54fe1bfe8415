"""Factories -> a plain tree -> YAML: the filled recipe, with every default written."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any, get_args

from ruamel.yaml import YAML

from weft.catalog import base_of, choices, is_composition, name_of, options
from weft.choices import IsFile, content_hash


def dump(value: Any, *, annotation: Any = None, hashes: bool = False) -> Any:
    """A factory, or a tree of them, as dicts, lists and scalars. ``hashes`` writes files absolute, with their SHA-256.

    A named model is written as what it is composed of: the result says everything.
    """
    if base_of(value) is not None:
        if is_composition(value):
            return dump(value(), hashes=hashes)
        return {"type": name_of(value), **dump_options(value, hashes=hashes)}
    if isinstance(value, functools.partial) or callable(value):
        name_of(value)  # raises: it is not in the catalog
    if isinstance(value, list | tuple):
        return [dump(v, annotation=annotation, hashes=hashes) for v in value]
    if isinstance(value, dict):
        return {str(k): dump(v, annotation=annotation, hashes=hashes) for k, v in value.items()}
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, str) and _names_file(annotation):
        absolute = str(Path(value).resolve())
        return {"path": absolute, "sha256": content_hash(absolute)} if hashes else absolute
    return value


def dump_options(factory: Any, *, hashes: bool = False) -> dict[str, Any]:
    """Every option of a factory with its value."""
    base = factory.func if isinstance(factory, functools.partial) else factory
    known = choices(base)
    return {
        name: dump(value, annotation=known[name].annotation, hashes=hashes)
        for name, value in options(factory).items()
        if value is not known[name].empty
    }


def _names_file(annotation: Any) -> bool:
    return (
        annotation is IsFile
        or any(_names_file(a) for a in get_args(annotation))
        or IsFile in getattr(annotation, "__metadata__", ())
    )


def to_yaml(tree: Any) -> str:
    """YAML text that reads back to exactly this tree."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # pyright: ignore[reportAttributeAccessIssue]
    yaml.width = 120
    yaml.representer.add_representer(float, _float)
    yaml.representer.ignore_aliases = lambda *_: True
    stream = io.StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


def _float(representer: Any, value: float) -> Any:
    """Shortest exact form, always with a point: other YAML readers take 1e-05 for a word."""
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        text = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[text]
    elif "." not in text:
        mantissa, e, exponent = text.partition("e")
        text = f"{mantissa}.0{e}{exponent}"
    return representer.represent_scalar("tag:yaml.org,2002:float", text)
