"""config.json as a table: its keys and the options of the structure that they set, one row for both directions.

A family lists its rows. Read from top to bottom they set options of a structure that has the right parts
(``structure_of``); read from the structure they give config.json (``config_of_structure``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.contracts import Structure
from weft.core.options import Dim
from weft.core.registry import Build, name_of
from weft.models.zoo.config import REQUIRED, ModelConfig, activation_name, activation_named
from weft.models.zoo.option_paths import has_option, option_at, with_option_at


@dataclass(frozen=True)
class Conversion:
    """How the values of a key translate to those of an option, and back.

    Args:
        type: Type of the value in config.json.
        ours: (value, config.json) -> option.
        theirs: (option, structure) -> value.
        null: Whether null is a value of its own; otherwise it means that the key is missing.
    """

    type: Any
    ours: Callable[[Any, ModelConfig], Any]
    theirs: Callable[[Any, Build[Structure]], Any]
    null: bool = False


def same(type_: Any) -> Conversion:
    """Conversion of a type that config.json and the option share."""
    return Conversion(type_, lambda value, _: value, lambda option, _: option)


def activation(key: str, *, null: bool = False) -> Conversion:
    """Names of activations; with ``null``, null is none."""
    return Conversion(
        str,
        lambda name, _: activation_named(name, key) if name or not null else None,
        lambda part, _: None if part is None else activation_name(part),
        null,
    )


HIDDEN = Conversion(Dim, lambda value, _: value, lambda option, structure: option or 4 * option_at(structure, "dim"))
"""Inner dimension of feed-forward networks; an option that is None stands for 4 dim."""


class Row:
    """A row of the table of a family."""

    name: str
    type: Any
    default: Any

    def apply(self, structure: Build[Structure], config: ModelConfig) -> Build[Structure]:
        """The structure with the options that the key of config.json sets."""
        raise NotImplementedError

    def write(self, structure: Build[Structure]) -> dict[str, Any]:
        """The key with its value for a structure; empty where config.json does not need it."""
        raise NotImplementedError


class Key(Row):
    """A key of config.json that is an option of the structure.

    Args:
        name: The key.
        values: Type of its values; or how they translate to those of the option.
        paths: The options that it sets. Saving reads the first one that the structure has, and where the others differ, the
            structure is not of this family. ``classifier:head.dropout`` is an option of the type ``classifier`` only.
        default: The value that transformers uses where config.json lacks the key; a ``SameAs`` names another key.
        when: Structures that have the key; None = all.
        optional: Whether the key is written only where it differs from the default.

    Example:
        >>> from functools import partial
        >>> from weft.core.options import Dim
        >>> from weft.models import TextEncoder
        >>> from weft.models.zoo.config import ModelConfig
        >>> row = Key("hidden_size", Dim, "dim")
        >>> encoder = row.apply(TextEncoder, ModelConfig({"hidden_size": 64}, defaults={}))
        >>> row.write(encoder)
        {'hidden_size': 64}
    """

    def __init__(
        self,
        name: str,
        values: Any,
        *paths: str,
        default: Any = REQUIRED,
        when: Callable[[Build[Structure]], bool] | None = None,
        optional: bool = False,
    ):
        self.name, self.default, self.when, self.optional = name, default, when, optional
        self.values = values if isinstance(values, Conversion) else same(values)
        self.type = self.values.type
        self.paths = [path.rpartition(":") for path in paths]

    def apply(self, structure: Build[Structure], config: ModelConfig) -> Build[Structure]:
        paths = self._paths_in(structure)
        if not paths:
            return structure
        found = config.get(self.name, self.default) if self.values.null else config[self.name]
        option = self.values.ours(found, config)
        for path in paths:
            structure = with_option_at(structure, path, option)
        return structure

    def write(self, structure: Build[Structure]) -> dict[str, Any]:
        paths = self._paths_in(structure)
        if not paths:
            if self.default is REQUIRED:
                raise ValueError(f"the structure has no option {self.paths[0][2]}, which config.json has as {self.name}")
            return {}
        value = self.values.theirs(option_at(structure, paths[0]), structure)
        return {} if self.optional and value == self.default else {self.name: value}

    def _paths_in(self, structure: Build[Structure]) -> list[str]:
        """The paths of the options that the structure has."""
        if self.when is not None and not self.when(structure):
            return []
        type_ = name_of(structure)
        return [path for of, _, path in self.paths if of in ("", type_) and has_option(structure, path)]


@dataclass(frozen=True)
class Constant(Row):
    """A key of config.json whose only supported value is this one.

    Args:
        name: The key.
        default: Its value, also where config.json lacks it.
        written: Whether saving writes it.
    """

    name: str
    default: Any
    written: bool = False
    type: Any = None

    def apply(self, structure: Build[Structure], config: ModelConfig) -> Build[Structure]:
        config.require(**{self.name: self.default})
        return structure

    def write(self, structure: Build[Structure]) -> dict[str, Any]:
        return {self.name: self.default} if self.written else {}


@dataclass(frozen=True)
class Computed(Row):
    """A key of config.json that decides about parts of the structure: the family's ``structure`` reads it.

    Args:
        name: The key.
        type: Type of its value.
        of: structure -> its value; None = the key is not written.
        default: The value that transformers uses where config.json lacks the key.
    """

    name: str
    type: Any
    of: Callable[[Build[Structure]], Any]
    default: Any = REQUIRED

    def apply(self, structure: Build[Structure], config: ModelConfig) -> Build[Structure]:
        return structure

    def write(self, structure: Build[Structure]) -> dict[str, Any]:
        value = self.of(structure)
        return {} if value is None else {self.name: value}


@dataclass(frozen=True)
class DataKey(Row):
    """A key of config.json that no option sets: the data determines it, or it is only checked.

    Args:
        name: The key.
        type: Type of its value.
        default: The value that transformers uses where config.json lacks the key.
    """

    name: str
    type: Any
    default: Any = REQUIRED

    def apply(self, structure: Build[Structure], config: ModelConfig) -> Build[Structure]:
        return structure

    def write(self, structure: Build[Structure]) -> dict[str, Any]:
        return {}


def structure_of(config: ModelConfig, structure: Build[Structure], table: Sequence[Row]) -> Build[Structure]:
    """A structure with the options that config.json sets."""
    for row in table:
        structure = row.apply(structure, config)
    return structure


def config_of_structure(structure: Build[Structure], table: Sequence[Row]) -> dict[str, Any]:
    """The keys of config.json for a structure. Raises ValueError where it lacks an option that the family always has."""
    return {key: value for row in table for key, value in row.write(structure).items()}


def revised(table: Sequence[Row], *rows: Row, without: Sequence[str] = ()) -> tuple[Row, ...]:
    """A table with some rows replaced by those of the same key, and others added or removed."""
    names = {row.name for row in table}
    own = {row.name: row for row in rows}
    kept = [own.get(row.name, row) for row in table if row.name not in without]
    return (*kept, *(row for row in rows if row.name not in names))
