"""Fields: what the data declares about each column, and ``Info``, the declaration of a dataset. A kind of field is one file."""

from weft.core.fields.base import (
    FIELD_KINDS,
    Columns,
    Encoding,
    Field,
    InvalidCell,
    StoredColumn,
    UnknownKind,
    Values,
    field_from_json,
    field_kind,
)
from weft.core.fields.class_field import ClassField
from weft.core.fields.frame import Frame, Special
from weft.core.fields.image import ImageField, read_image
from weft.core.fields.info import Info, SyntheticSizes
from weft.core.fields.label import LabelField
from weft.core.fields.labels import LabelsField
from weft.core.fields.number import NumberField
from weft.core.fields.span import SpanField
from weft.core.fields.tags import TagsField
from weft.core.fields.text import TextField
from weft.core.fields.texts import TextsField
from weft.core.fields.tokenized import TokenizedField, pack_continuations
from weft.core.fields.vector import VectorField

__all__ = [
    "FIELD_KINDS",
    "ClassField",
    "Columns",
    "Encoding",
    "Field",
    "Frame",
    "ImageField",
    "Info",
    "InvalidCell",
    "LabelField",
    "LabelsField",
    "NumberField",
    "SpanField",
    "Special",
    "StoredColumn",
    "SyntheticSizes",
    "TagsField",
    "TextField",
    "TextsField",
    "TokenizedField",
    "UnknownKind",
    "Values",
    "VectorField",
    "field_from_json",
    "field_kind",
    "pack_continuations",
    "read_image",
]
