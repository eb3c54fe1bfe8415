"""Describe the values that an option's annotation allows."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from weft.core.options import IsFile
from weft.core.registry import alternatives, slot_of

_WORDS: dict[Any, tuple[str, str]] = {
    type(None): ("null", "null"),
    bool: ("true or false", "true or false"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
}


def allowed(annotation: Any, many: bool = False) -> str:
    """``an integer from 1 to 1,000``; with ``many``, ``integers from 1 to 1,000``. Parts by the name of their slot."""
    if (part := slot_of(annotation)) is not None:
        return f"{part.__name__}s" if many else with_article(part)
    members = alternatives(annotation)
    if len(members) > 1:
        return " or ".join(allowed(m, many) for m in sorted(members, key=lambda m: m is type(None)))
    extra: tuple[Any, ...] = ()
    if get_origin(annotation) is Annotated:
        annotation, *rest = get_args(annotation)
        extra = tuple(rest)
    inner = get_args(annotation)
    if IsFile in extra:
        return "paths of files" if many else "the path of a file"
    kind = get_origin(annotation) or annotation
    if kind is Literal:
        return ", ".join(map(_word, inner[:-1])) + (" or " if inner[1:] else "") + _word(inner[-1])
    if kind is list:
        return f"{'lists' if many else 'a list'} of {allowed(inner[0], many=True)}"
    if kind is tuple:
        number = "" if inner[1:] == (Ellipsis,) else f"{len(inner)} "
        return f"{'lists' if many else 'a list'} of {number}{allowed(inner[0], many=True)}"
    if kind is dict and get_origin(inner[0]) is Literal:
        return "{" + ", ".join(f"{key}: {allowed(inner[1])}" for key in get_args(inner[0])) + "}"
    if kind is dict:
        return f"{'mappings' if many else 'a mapping'} of names to {allowed(inner[1], many=True)}"
    if kind in _WORDS:
        return _WORDS[kind][many] + _range(extra)
    return inspect.formatannotation(annotation)


def with_article(kind: type) -> str:
    """``an Encoder``."""
    return f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"


def entry(annotation: Any, step: str | int) -> Any:
    """The annotation of the value at a key or index of a list, tuple or dict; None if there is none."""
    for member in alternatives(annotation):
        kind, inner = get_origin(member), get_args(member)
        if (kind is list and isinstance(step, int)) or (kind is tuple and inner[1:] == (Ellipsis,)):
            return inner[0]
        if kind is tuple and isinstance(step, int):
            return inner[min(step, len(inner) - 1)]
        if kind is dict and isinstance(step, str):
            return inner[1]
    return None


def literals(annotation: Any) -> list[Any]:
    """The values of the literals in an annotation; for a dict, of its keys."""
    return [
        value
        for member in alternatives(annotation)
        for part in (member, *get_args(member)[:1])
        if get_origin(part) is Literal
        for value in get_args(part)
    ]


def _range(extra: tuple[Any, ...]) -> str:
    low = next((e for e in extra if isinstance(e, Ge | Gt)), None)
    high = next((e for e in extra if isinstance(e, Le | Lt)), None)
    match low, high:
        case Ge(a), Le(b):
            return f" from {_number(a)} to {_number(b)}"
        case Ge(a), Lt(b):
            return f" from {_number(a)} to below {_number(b)}"
        case Gt(a), Le(b):
            return f" above {_number(a)}, up to {_number(b)}"
        case Gt(a), Lt(b):
            return f" between {_number(a)} and {_number(b)}"
        case Ge(a), None:
            return f" from {_number(a)}"
        case Gt(a), None:
            return f" above {_number(a)}"
        case None, Le(b):
            return f" up to {_number(b)}"
        case None, Lt(b):
            return f" below {_number(b)}"
    return ""


def _number(value: Any) -> str:
    if value and value == int(value) and abs(value) >= 10**7:
        zeros = len(str(int(abs(value)))) - 1
        if abs(value) == 10**zeros:
            return f"{'-' if value < 0 else ''}10^{zeros}"
    return f"{value:,}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
