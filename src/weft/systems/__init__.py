"""Research systems: each a composition of the catalog, and what it alone needs. Importing this package registers them."""

from weft.systems import cara, ctrl_gen

__all__ = ["cara", "ctrl_gen"]
