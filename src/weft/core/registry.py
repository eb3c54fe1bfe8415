"""The catalog: which parts exist, under which slot and name.

A *slot* is a contract (``Encoder``, ``Norm``, ``Objective``, ...). Its own ``__init__`` states the **wiring**: the positional
parameters that the parent passes (``dim``, ``info``). A *block* fills a slot: a class whose keyword-only parameters are its
**options**, set in Python or in a recipe. The signature of the constructor is the schema; nothing about a block is declared
twice.

A *composition* is a function of options that returns a factory: a named model.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])

Build = Callable[..., T]
"""A factory that fills a slot: a class, or ``functools.partial(Class, option=...)``. The parent calls it with the wiring."""

CATALOG: dict[type, dict[str, Callable[..., Any]]] = {}
_NAMES: dict[Callable[..., Any], tuple[type, str]] = {}
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@functools.cache
def wiring(factory: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the positional parameters, which the parent passes."""
    return tuple(p.name for p in _parameters(factory) if p.kind is p.POSITIONAL_OR_KEYWORD)


@functools.cache
def option_parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters by name, with resolved annotations and their constraints."""
    hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory, include_extras=True)
    only = [p for p in _parameters(factory) if p.kind is p.KEYWORD_ONLY]
    return {p.name: p.replace(annotation=hints.get(p.name, Any)) for p in only}


def recipe_key(name: str) -> str:
    """Return the key of an option in a recipe: without the underscore after a Python keyword (``from_`` -> ``from``)."""
    return name.rstrip("_")


def _parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(factory).parameters.values())


def slot(cls: type[T]) -> type[T]:
    """Declare a contract. The positional parameters of its ``__init__`` are the wiring of every block that fills it."""
    CATALOG[cls] = {}
    return cls


def block(name: str) -> Callable[[type[T]], type[T]]:
    """Register a class under ``name`` in the slots it inherits from: every attention is also a mixer."""

    def add(cls: type[T]) -> type[T]:
        kinds = [base for base in cls.__mro__ if base in CATALOG]
        if not kinds:
            raise TypeError(f"{cls.__name__} inherits from no slot (slots: {', '.join(sorted(s.__name__ for s in CATALOG))})")
        if wiring(cls) != wiring(kinds[0]):
            raise TypeError(f"{cls.__name__}: wiring is {wiring(cls)}, but slot {kinds[0].__name__} has {wiring(kinds[0])}")
        for kind in reversed(kinds):  # the most specific one is the slot that the class belongs to
            _register(kind, name, cls)
        return cls

    return add


def composition(name: str) -> Callable[[C], C]:
    """Register a function of options that returns a factory (a named model) in the slot of its return type ``Build[Slot]``."""

    def add(function: C) -> C:
        returned = get_type_hints(function).get("return")
        kind = slot_of(returned)
        if kind is None or wiring(function):
            raise TypeError(f"{function.__name__}: a composition takes keyword-only options and returns Build[<slot>]")
        _register(kind, name, function)
        return function

    return add


def _register(kind: type, name: str, factory: Callable[..., Any]) -> None:
    variadic = [p.name for p in _parameters(factory) if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if variadic:
        raise TypeError(f"{factory.__name__}: *{variadic[0]} cannot be a schema; name every option")
    if not _KEBAB.fullmatch(name):
        raise TypeError(f"{factory.__name__}: a recipe name is kebab-case, not {name!r}")
    if name in CATALOG[kind]:
        raise TypeError(f"{name!r} is taken in slot {kind.__name__} by {CATALOG[kind][name].__name__}")
    bare = [p.name for p in _parameters(factory) if p.kind is p.KEYWORD_ONLY and p.annotation is p.empty]
    if bare:
        raise TypeError(f"{factory.__name__}: option {bare[0]!r} has no type; annotate it, for example {bare[0]}: float = 0.1")
    if taken := [p.name for p in _parameters(factory) if p.name in ("type", "with")]:
        raise TypeError(f"{factory.__name__}: an option cannot be named {taken[0]!r}, which is a reserved key of recipes")
    CATALOG[kind][name] = factory
    _NAMES[factory] = (kind, name)


def unregister(factory: Callable[..., Any]) -> None:
    """Remove a block from the catalog, for tests that register their own."""
    _, name = _NAMES.pop(factory)
    for entries in CATALOG.values():
        if entries.get(name) is factory:
            del entries[name]


def slot_of(annotation: Any) -> type | None:
    """The slot of ``Build[Slot]`` or ``Slot``; None for anything else."""
    if get_origin(annotation) is abc.Callable and get_args(annotation)[-1] in CATALOG:
        return get_args(annotation)[-1]
    return annotation if inspect.isclass(annotation) and annotation in CATALOG else None


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation alone."""
    return get_args(annotation) if get_origin(annotation) in (typing.Union, types.UnionType) else (annotation,)


def base_of(factory: Any) -> Callable[..., Any] | None:
    """The registered class or composition behind a factory; None when it is not in the catalog."""
    base = factory.func if isinstance(factory, functools.partial) else factory
    return base if callable(base) and _hashable(base) and base in _NAMES else None


def name_of(factory: Any) -> str:
    """The recipe name of a registered factory."""
    base = base_of(factory)
    if base is None:
        raise ValueError(f"{factory!r} is not in the catalog: register it with @weft.block to use it in a recipe")
    return _NAMES[base][1]


def is_composition(factory: Any) -> bool:
    return base_of(factory) is not None and not inspect.isclass(base_of(factory))


def option_values(factory: Any) -> dict[str, Any]:
    """Return every option of a factory with its value, or its default (``Parameter.empty`` without one)."""
    base, given = (factory.func, factory.keywords) if isinstance(factory, functools.partial) else (factory, {})
    return {name: given.get(name, parameter.default) for name, parameter in option_parameters(base).items()}


def identity(value: Any) -> Any:
    """A factory with all its options as a JSON value: equal for factories that build the same."""
    if base_of(value) is not None:
        return [name_of(value), {name: identity(option) for name, option in option_values(value).items()}]
    if isinstance(value, list | tuple):
        return [identity(inner) for inner in value]
    if isinstance(value, dict):
        return {str(name): identity(inner) for name, inner in value.items()}
    return value if isinstance(value, str | int | float | None) else repr(value)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class Doc:
    """The sections of a docstring that the catalog shows."""

    summary: str
    body: str
    args: dict[str, str]


def document(factory: Callable[..., Any]) -> Doc:
    """Split a docstring into its first sentence, the text with formula and paper, and the text of each argument."""
    text = inspect.getdoc(factory) or ""
    head, _, tail = text.partition("\nArgs:\n")
    summary, _, body = head.partition("\n\n")
    block_text, _, _ = tail.partition("\n\n")
    args: dict[str, str] = {}
    current = None
    for line in block_text.splitlines():
        if match := re.match(r" {4}(\w+): (.*)", line):
            current, args[match[1]] = match[1], match[2].strip()
        elif current:
            args[current] += " " + line.strip()
    return Doc(" ".join(summary.split()), body.strip(), args)
