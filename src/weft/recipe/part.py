"""Factories with a source location."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from weft.core.registry import base_of, option_values
from weft.recipe.tree import Problem, RecipeError, join


class Part(functools.partial):
    """A factory with a source location. A ValueError of its constructor becomes a located RecipeError."""

    where: str = ""
    path: str = ""
    written: Mapping[str, str] = MappingProxyType({})
    """Locations of the options that the recipe or the command line sets."""

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            return super().__call__(*args, **keywords)
        except RecipeError:
            raise
        except (ValueError, RuntimeError, TypeError) as error:
            problem = str(error) if isinstance(error, ValueError) else too_large(error)
            if problem is None:
                raise
            raise RecipeError([problem_at(self, problem, getattr(error, "option", ""))]) from error


def problem_at(factory: Any, text: str, option: str = "") -> Problem:
    """Return a problem at a part, or at one of its options; without a location for a factory that is not from a recipe."""
    if not isinstance(factory, Part):
        return Problem("", "", text)
    where = factory.written.get(option, factory.where)
    return Problem(where, join(factory.path, option) if option else factory.path, text)


def located(factory: Any, error: ValueError, option: str = "") -> RecipeError:
    """Return an error as a RecipeError at a part, or at the option that it is about."""
    return RecipeError([problem_at(factory, str(error), option or getattr(error, "option", ""))])


def too_large(error: Exception) -> str | None:
    """Return a message where PyTorch cannot represent or allocate a tensor of the requested size; None for other errors."""
    text = str(error)
    if re.search(r"[Oo]verflow|can't allocate memory|not enough memory|out of memory", text) is None:
        return None
    return f"a tensor is too large ({text.splitlines()[0][:100]}); lower the sizes (dim, hidden, max_length, vocab_size)"


def part(factory: Callable[..., Any], where: str, path: str, written: Mapping[str, str] | None = None) -> Part:
    """The factory as Parts all the way down, its defaults included, each with location and path.

    Args:
        factory: A factory of the catalog.
        where: Its location: file and line.
        path: Its path in the recipe.
        written: Locations of the options that are set.
    """
    given = factory.keywords if isinstance(factory, functools.partial) else {}
    base = base_of(factory) or (factory.func if isinstance(factory, functools.partial) else factory)
    filled = {
        name: _located(value, where, join(path, name))
        for name, value in option_values(factory).items()
        if value is not inspect.Parameter.empty
    }
    result = Part(base, **{**given, **filled})
    result.where, result.path, result.written = where, path, written or {}
    return result


def _located(value: Any, where: str, path: str) -> Any:
    if isinstance(value, Part):
        return value
    if base_of(value) is not None:
        return part(value, where, path)
    if isinstance(value, list):
        return [_located(v, where, join(path, i)) for i, v in enumerate(value)]
    if isinstance(value, dict):
        return {k: _located(v, where, join(path, k)) for k, v in value.items()}
    return value


def walk(tree: Part, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every option below a tree with its path: ``encoder.layer.0.mixer.heads``."""
    for name, value in tree.keywords.items():
        here = join(path, name)
        yield here, value
        inner: Any = ()
        if isinstance(value, Part):
            yield from walk(value, here)
        elif isinstance(value, list):
            inner = enumerate(value)
        elif isinstance(value, dict):
            inner = value.items()
        for step, item in inner:
            if isinstance(item, Part):
                yield join(here, step), item
                yield from walk(item, join(here, step))
