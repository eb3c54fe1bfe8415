"""What every kind of field is: its declaration, its examples, how it is stored, and how it is read and written as text."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from weft.core.ragged_array import RaggedArray

if TYPE_CHECKING:
    from weft.core.contracts import Tokenizer
    from weft.core.fields.info import Info, SyntheticSizes

F = TypeVar("F", bound="type[Field]")

Columns = dict[str, np.ndarray | RaggedArray]
"""Rows as columns, by name: one number per row, or a ragged array."""
Values = dict[str, Any]
"""One row: a number or an array per column."""

FIELD_KINDS: dict[str, type[Field]] = {}
"""The registered kinds of field, by name."""
OFFSETS = np.dtype("<u4")
"""The type of stored offsets and sizes."""


class UnknownKind(ValueError):
    """A field of a kind that is not registered."""


class InvalidCell(ValueError):
    """A cell that cannot be encoded; the message gives the reason."""


class StoredColumn(NamedTuple):
    """How a column of prepared data is stored.

    Args:
        dtype: The type of its numbers.
        ragged: Whether a row has any number of them; False = ``size``.
        counted: Whether a dataset exposes how many numbers each row has (its ``lengths``).
        size: Numbers of a row of a column that is not ragged.
        length: What a dataset exposes as the length of each row of such a column; 0 = nothing.
    """

    dtype: np.dtype[Any]
    ragged: bool = True
    counted: bool = False
    size: int = 1
    length: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a column that is not ragged."""
        return 0 if self.ragged else self.size * self.dtype.itemsize


def integers(values: int) -> np.dtype[Any]:
    """The stored type of integers below ``values``."""
    return np.dtype("<u2") if values <= 1 << 16 else np.dtype("<u4")


@dataclass(frozen=True)
class Encoding:
    """What the fields of a row are encoded with.

    Args:
        info: All fields.
        tokenizers: Trained tokenizers by id space.
        caches: Word caches by id space, to speed up large corpora; empty = none.
    """

    info: Info
    tokenizers: Mapping[str, Tokenizer]
    caches: Mapping[str, Callable[[Sequence[str]], RaggedArray]] = dataclasses.field(default_factory=dict)

    def ids(self, space: str, texts: Sequence[str]) -> RaggedArray:
        """The ids of texts."""
        if self.caches:
            return self.caches[space](texts)
        return RaggedArray.of(self.tokenizers[space].encode_batch(texts))


@dataclass(frozen=True)
class Field(ABC):
    """One column of the data as a network sees it. A kind of field is a subclass with what it needs, registered by
    ``field_kind``; it overrides what differs from one cell of text per row.

    Args:
        name: ``text``, ``source``, ``target``, ``label``, ...
    """

    kind: ClassVar[str] = ""
    """The name under which the kind is registered."""
    is_input: ClassVar[bool] = False
    """Whether a request has it: a text or an image has to be given, a label is predicted."""
    takes_rest: ClassVar[bool] = False
    """Whether it takes all remaining parts of a request, as several texts do."""
    may_be_empty: ClassVar[bool] = False
    """Whether an empty cell is a value, such as no answer, and not a malformed row."""

    name: str

    # ------------------------------------------------------------------------------------------------------- sizes

    @property
    def outputs(self) -> int:
        """Number of scores that a head gives to predict it: of ids, of classes, or 1 for a number."""
        raise ValueError(f"no head predicts the field {self.name!r}, which is {self.describe()}; use another objective")

    @property
    def positions(self) -> int:
        """Upper bound of the number of positions that its values have in a sequence, special tokens included."""
        raise ValueError(f"the field {self.name!r}, which is {self.describe()}, has no positions")

    def describe(self) -> str:
        """The kind and its sizes, for messages: ``text, up to 8,000 ids``."""
        return self.kind

    # ---------------------------------------------------------------------------------------------------- examples

    @abstractmethod
    def synthetic(self, rng: np.random.Generator, sizes: SyntheticSizes) -> Any:
        """A random value, as ``assemble`` returns it."""

    def lengths(self, value: Any) -> dict[str, int]:
        """Lengths of a value, by the names that a dataset exposes: they decide which examples are batched together."""
        return {}

    # ------------------------------------------------------------------------------------------------ prepared data

    @classmethod
    def declare(cls, name: str, labels: Sequence[str], of: str) -> Self:
        """The field of a column that is no text, as a source of text files declares it.

        Args:
            name: Its name.
            labels: The class names that are known.
            of: The text that it annotates; "" = none.
        """
        return cls(name)

    def columns(self) -> dict[str, StoredColumn]:
        """The columns in which it is stored, the first of the same name; none = no source of files has it."""
        return {}

    def stored(self) -> Self:
        """The field as far as its columns depend on it."""
        return self

    def encode(self, rows: Sequence[Mapping[str, str]], encoding: Encoding) -> Columns:
        """The columns of rows, given as cells by field name. A missing cell is an input whose label is not known. Raises
        InvalidCell."""
        raise TypeError(f"{type(self).__name__} has columns but does not implement encode(rows, encoding)")

    def assemble(self, values: Mapping[str, Any], info: Info) -> Any:
        """The value in an example, from the numbers of a row in ``columns``."""
        raise TypeError(f"{type(self).__name__} has columns but does not implement assemble(values, info)")

    @property
    def annotates(self) -> str:
        """The text whose words or tokens it refers to; "" = none."""
        return ""

    def cut(self, values: Values, text: Any, start: int, stop: int) -> Values:
        """What remains of it in a row where the text that it annotates is cut to tokens ``start`` to ``stop``."""
        return {}

    # --------------------------------------------------------------------------------------------- requests, answers

    @property
    def request_name(self) -> str:
        """What a request needs, for messages."""
        return self.name

    @property
    def takes_parts(self) -> bool:
        """Whether a request may give one value in parts, such as the words of a text."""
        return self.takes_rest

    def request_cell(self, value: str | Sequence[str]) -> str:
        """The cell of a value in a request. Raises InvalidCell, which completes "an input has ...", or ValueError."""
        return join_cell(value, "\t")

    def to_text(self, prediction: Any) -> str:
        """A predicted value in the notation of the data files."""
        return str(prediction)

    @classmethod
    def json_value(cls, text: str) -> Any:
        """A prediction of ``to_text`` as a JSON value."""
        return text

    # -------------------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> dict[str, Any]:
        """The declaration as in fields.json."""
        return {"kind": self.kind, **dataclasses.asdict(self)}


def field_kind(name: str) -> Callable[[F], F]:
    """Register a kind of field under a name; a plug-in registers its own.

    Example:
        >>> from weft.core.fields import FIELD_KINDS, LabelField
        >>> FIELD_KINDS["label"] is LabelField
        True
    """

    def add(cls: F) -> F:
        if (known := FIELD_KINDS.get(name)) is not None and known is not cls:
            raise TypeError(f"the kind of field {name!r} is taken by {known.__name__}; choose another name")
        cls.kind = name
        FIELD_KINDS[name] = cls
        return cls

    return add


def field_from_json(content: Any) -> Field:
    """The field of ``Field.to_json``. Raises ValueError for what is not one."""
    if not isinstance(content, dict) or not isinstance(content.get("name"), str) or not isinstance(content.get("kind"), str):
        raise ValueError(f"a field is an object with a name and a kind, not {content!r:.80}")
    kind = FIELD_KINDS.get(content["kind"])
    if kind is None:
        raise UnknownKind(
            f"the field {content['name']!r:.80} has the unknown kind {content['kind']!r:.80}; kinds are "
            f"{', '.join(FIELD_KINDS)}; if a plug-in defines it, pass --import"
        )
    options = {name: value for name, value in content.items() if name != "kind"}
    try:
        return _read(kind, options)
    except ValueError as error:
        raise ValueError(f"the field {content['name']!r:.80} of kind {content['kind']}: {error}") from None


def _read(annotation: Any, value: Any) -> Any:
    """A JSON value as a value of a declared type: str, int, float, bool, a tuple of one of them, or a dataclass."""
    if dataclasses.is_dataclass(annotation):
        hints, names = get_type_hints(annotation), [f.name for f in dataclasses.fields(annotation)]
        if not isinstance(value, dict):
            raise ValueError(f"expected {', '.join(names)}; found {value!r:.80}")
        for what, others in (("lacks", set(names) - set(value)), ("has the unknown", set(value) - set(names))):
            if others:
                raise ValueError(f"it {what} {', '.join(map(str, sorted(others)))[:200]}; it must have {', '.join(names)}")
        found: dict[str, Any] = {}
        for name in names:
            try:
                found[name] = _read(hints[name], value[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        make: Any = annotation
        return make(**found)
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)
        if not isinstance(value, list) or (inner[-1] is not ... and len(value) != len(inner)):
            raise ValueError(f"expected a list, not {value!r:.80}")
        return tuple(_read(inner[0], part) for part in value)
    if type(value) is not annotation:
        raise ValueError(f"expected {annotation.__name__}, not {value!r:.80}")
    return value


def require_positive(field: Field, *names: str) -> None:
    """Raise ValueError if one of these sizes is below 1."""
    for name in names:
        if getattr(field, name) < 1:
            raise ValueError(f"the field {field.name!r} has {name} {getattr(field, name)}; it must be at least 1")


def join_cell(value: str | Sequence[str], separator: str) -> str:
    """A text, or several joined by a separator that none of them has."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return separator.join(text_of(part).replace(separator, " ") for part in value)
    return text_of(value)


def text_of(value: Any) -> str:
    """A text, or a number as text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float) or value != value:
        raise ValueError(f"{value!r} ({type(value).__name__}) is not a text; pass a text, or leave the input out")
    return str(value)
