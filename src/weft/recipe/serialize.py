"""Write factories as the filled recipe: a plain tree with every default, then YAML."""

from __future__ import annotations

import functools
import io
import numbers
from pathlib import Path
from typing import Any, get_args

from ruamel.yaml import YAML

from weft.core.hub_data import is_hub_name, pin
from weft.core.io import content_hash
from weft.core.options import IsFile
from weft.core.registry import CATALOG, base_of, is_composition, name_of, option_parameters, option_values, recipe_key, wiring
from weft.recipe.tree import join, nearest


def dump(value: Any, *, annotation: Any = None, hashes: bool = False, path: str = "") -> Any:
    """Return a factory, or a tree of factories, as dicts, lists and scalars. A named model is expanded into its parts.

    Args:
        value: The factory or value.
        annotation: The annotation of the option.
        hashes: Whether to write files as absolute paths with their SHA-256.
        path: The path of the value, for error messages.

    Raises ValueError for a value that a recipe cannot contain.
    """
    if base_of(value) is not None:
        given = dump_options(value, hashes=hashes, path=path)  # also for a named model, whose unknown options must be rejected
        return dump(value(), hashes=hashes, path=path) if is_composition(value) else {"type": name_of(value), **given}
    if isinstance(value, list | tuple):
        return [dump(v, annotation=annotation, hashes=hashes, path=join(path, i)) for i, v in enumerate(value)]
    if isinstance(value, dict):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise ValueError(f"the key {odd[0]!r} cannot be written in a recipe: keys must be strings")
        return {key: dump(v, annotation=annotation, hashes=hashes, path=join(path, key)) for key, v in value.items()}
    if is_hub_name(value) and _names_file(annotation):
        return pin(value) if hashes else value
    if isinstance(value, str | Path) and _names_file(annotation):
        absolute = str(Path(_text(str(value))).resolve())
        return {"path": absolute, "sha256": content_hash(absolute)} if hashes else absolute
    return _scalar(value, path)


def _scalar(value: Any, path: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | Path):
        return _text(str(value))
    if isinstance(value, numbers.Integral):  # NumPy scalars too
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, tuple(CATALOG)):
        built = f"not an instance of {type(value).__name__}: weft builds it itself"
        raise ValueError(f"{path or 'a part'} must be a class or functools.partial, {built}")
    if callable(value):
        name_of(value)  # raises: it is not in the catalog
    raise ValueError(f"{path + ': ' if path else ''}{value!r} cannot be written in a recipe: it is a {type(value).__name__}")


def _text(value: str) -> str:
    if "${" in value:
        raise ValueError(f"{value!r} cannot be written in a recipe: ${{ starts a reference")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{value!r} cannot be written in a recipe: it is not valid Unicode") from None
    return value


def dump_options(factory: Any, *, hashes: bool = False, path: str = "") -> dict[str, Any]:
    """Return the options of a factory with their values."""
    base = factory.func if isinstance(factory, functools.partial) else factory
    known, name = option_parameters(base), getattr(base, "__name__", str(base))
    if isinstance(factory, functools.partial):
        if factory.args:
            raise ValueError(f"{name}: {factory.args[0]!r} is a positional argument; pass every option by keyword")
        for odd in (key for key in factory.keywords if key not in known):
            if odd in wiring(base):
                raise ValueError(f"{name}: {odd!r} is set by the enclosing part, not by the recipe")
            raise ValueError(f"{name} has no option {odd!r}{nearest(odd, known)} (options: {', '.join(known)})")
    return {
        recipe_key(option): dump(value, annotation=known[option].annotation, hashes=hashes, path=join(path, recipe_key(option)))
        for option, value in option_values(factory).items()
        if value is not known[option].empty
    }


def _names_file(annotation: Any) -> bool:
    return (
        annotation is IsFile
        or any(_names_file(a) for a in get_args(annotation))
        or IsFile in getattr(annotation, "__metadata__", ())
    )


def to_yaml(tree: Any) -> str:
    """Return YAML text that parses to exactly this tree."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # pyright: ignore[reportAttributeAccessIssue]
    yaml.width = 120
    yaml.representer.add_representer(float, _float)
    yaml.representer.add_representer(str, _str)
    yaml.representer.ignore_aliases = lambda *_: True
    stream = io.StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


def _str(representer: Any, value: str) -> Any:
    """Double quotes for strings with non-printable characters, some of which other styles treat as line breaks."""
    return representer.represent_scalar("tag:yaml.org,2002:str", value, style=None if value.isprintable() else '"')


def _float(representer: Any, value: float) -> Any:
    """Shortest exact form, always with a decimal point: YAML 1.1 parsers read 1e-05 as a string."""
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        text = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[text]
    elif "." not in text:
        mantissa, e, exponent = text.partition("e")
        text = f"{mantissa}.0{e}{exponent}"
    return representer.represent_scalar("tag:yaml.org,2002:float", text)
