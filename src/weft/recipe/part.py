"""Factories with a source location."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from weft.core.registry import base_of, option_values
from weft.recipe.tree import Problem, RecipeError, join


class Part(functools.partial):
    """A factory with a source location. A ValueError of its constructor becomes a located RecipeError."""

    where: str = ""
    path: str = ""

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            return super().__call__(*args, **keywords)
        except RecipeError:
            raise
        except (ValueError, RuntimeError, TypeError) as error:
            problem = str(error) if isinstance(error, ValueError) else too_large(error)
            if problem is None:
                raise
            raise RecipeError([Problem(self.where, self.path, problem)]) from error


def too_large(error: Exception) -> str | None:
    """Return a message where PyTorch cannot represent or allocate a tensor of the requested size; None for other errors."""
    text = str(error)
    if re.search(r"[Oo]verflow|can't allocate memory|not enough memory|out of memory", text) is None:
        return None
    return f"a tensor is too large ({text.splitlines()[0][:100]}); lower the sizes (dim, hidden, max_length, vocab_size)"


def part(factory: Callable[..., Any], where: str, path: str) -> Part:
    """The factory as Parts all the way down, its defaults included, each with location and path."""
    given = factory.keywords if isinstance(factory, functools.partial) else {}
    base = base_of(factory) or (factory.func if isinstance(factory, functools.partial) else factory)
    filled = {
        name: _located(value, where, join(path, name))
        for name, value in option_values(factory).items()
        if value is not inspect.Parameter.empty
    }
    result = Part(base, **{**given, **filled})
    result.where, result.path = where, path
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
