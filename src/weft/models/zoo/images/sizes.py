"""Named sizes of image networks: entries of the catalog that are made from the table of a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from weft.core.contracts import Backbone
from weft.core.registry import Build, composition, document

Sizes = Mapping[str, Mapping[str, Any]]
"""Catalog name -> the options of the network that differ from its defaults."""


def sized(name: str, network: type[Backbone], sizes: Sizes) -> Callable[[], Build[Backbone]]:
    """Register a size of a network under its name in the catalog. A recipe changes its parts with ``with``.

    Args:
        name: The name, a key of ``sizes``.
        network: The class of the network.
        sizes: The table of its sizes.
    """
    docs, function = document(network), name.replace("-", "_")

    def build() -> Build[Backbone]:
        return partial(network, **sizes[name])

    build.__name__, build.__qualname__, build.__module__ = function, function, network.__module__
    options = ", ".join(f"{option} = {_written(value)}" for option, value in sizes[name].items())
    build.__doc__ = (
        f"The size {name}: {docs.summary}\n\nThe network {network.__name__} with {options}\n\n{_paper(docs.body)}\n\n"
        f"Example:\n    >>> {function}().func.__name__\n    '{network.__name__}'\n"
    )
    return composition(name)(build)


def _paper(body: str) -> str:
    """The paragraph of a docstring that cites the paper."""
    return next(part for part in body.split("\n\n") if "https://" in part)


def _written(value: Any) -> str:
    """A value of the table for a docstring; a part by its name."""
    base = value.func if isinstance(value, partial) else value
    if not callable(base):
        return str(value)
    given = [f"{option} = {_written(inner)}" for option, inner in getattr(value, "keywords", {}).items()]
    return getattr(base, "__name__", str(base)) + (f" ({', '.join(given)})" if given else "")
