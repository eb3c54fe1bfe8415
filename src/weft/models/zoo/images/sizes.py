"""Named sizes of image networks: entries of the catalog that are made from the table of a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from weft.core.contracts import Backbone
from weft.core.registry import Build, composition, document


class SizeTable(dict[str, Mapping[str, Any]]):
    """The sizes of a network: catalog name -> the options that differ from the defaults.

    Args:
        network: The class of the network.
        module: The module with the table, for links in the documentation.
        sizes: The options of each size.
    """

    def __init__(self, network: type[Backbone], module: str, sizes: Mapping[str, Mapping[str, Any]]):
        super().__init__(sizes)
        self.network, self.module = network, module

    def networks(self) -> dict[str, Build[Backbone]]:
        """The network of each size, by its name in published files."""
        return {name.replace("-", "_"): partial(self.network, **options) for name, options in self.items()}

    def register(self, name: str) -> Callable[[], Build[Backbone]]:
        """Register a size under its name in the catalog. A recipe changes its parts with ``with``."""
        docs, function, network, options = document(self.network), name.replace("-", "_"), self.network, self[name]

        def build() -> Build[Backbone]:
            return partial(network, **options)

        build.__name__, build.__qualname__, build.__module__ = function, function, self.module
        listed = ", ".join(f"{option} = {_written(value)}" for option, value in options.items())
        build.__doc__ = (
            f"The size {name}: {docs.summary}\n\nThe network {network.__name__} with {listed}\n\n{_paper(docs.body)}\n\n"
            f"Example:\n    >>> from weft import models\n    >>> models.{function}().func.__name__\n    '{network.__name__}'\n"
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
