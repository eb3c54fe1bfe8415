"""The declaration of a dataset: its fields, and which of them is generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from weft.core.example import Example
from weft.core.fields.base import FIELD_KINDS, Field
from weft.core.fields.image import ImageField
from weft.core.fields.tags import TagsField
from weft.core.fields.text import TextField
from weft.core.fields.texts import TextsField
from weft.core.fields.tokenized import TokenizedField

K = TypeVar("K", bound=Field)


@dataclass(frozen=True)
class Info:
    """The declaration of a dataset for structure and objective: its fields, and which of them is generated.

    ``hints`` maps an absent field to the option that would add it.
    """

    fields: dict[str, Field]
    target: str = "text"
    data: str = "data"
    hints: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __getitem__(self, name: str) -> Field:
        if name not in self.fields:
            raise ValueError(f"needs a field {name!r}, but the data ({self.data}) has: {', '.join(self.fields)}{self.hint(name)}")
        return self.fields[name]

    def expect(self, name: str, kind: type[K], advice: str = "use other data") -> K:
        """Return the field of this name; raise ValueError with ``advice`` on what to do if it is of another kind."""
        field = self[name]
        if not isinstance(field, kind):
            expected = " or ".join(repr(known) for known, cls in sorted(FIELD_KINDS.items()) if issubclass(cls, kind))
            raise ValueError(
                f"field {name!r} of the data ({self.data}) has the kind {field.kind!r}, expected {expected}; {advice}"
            )
        return field

    def text(self, name: str) -> TextField:
        """Return the text of this name; raise ValueError if the field is of another kind."""
        return self.expect(name, TextField, "use data with such a text")

    def hint(self, name: str) -> str:
        """How to add an absent field, as the end of a message; empty where it cannot be added."""
        return f"; to add it, {self.hints[name]}" if name in self.hints else ""

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def single_text(self, name: str) -> Info:
        """One text under the name ``text``, and the label: the declaration for a structure inside another."""
        label = {"label": self.fields["label"]} if "label" in self.fields else {}
        return Info({"text": replace(self.text(name), name="text"), **label}, "text", self.data, self.hints)

    def of_kind(self, kind: type[K]) -> list[K]:
        """Fields of a kind."""
        return [f for f in self.fields.values() if isinstance(f, kind)]

    def texts(self) -> list[TextField]:
        """Fields with one text."""
        return self.of_kind(TextField)

    def tokenized(self) -> list[TokenizedField]:
        """Fields that a tokenizer encodes: with one text or several."""
        return self.of_kind(TokenizedField)

    def images(self) -> list[ImageField]:
        """Fields with an image."""
        return self.of_kind(ImageField)

    def given(self) -> list[Field]:
        """Fields that are given where the others are predicted: texts, images."""
        return [f for f in self.fields.values() if f.is_input]

    def annotations(self, text: TokenizedField) -> list[Field]:
        """Fields that refer to the words or tokens of this text."""
        return [f for f in self.fields.values() if f.annotates == text.name]

    def tags_of(self, text: TokenizedField) -> list[TagsField]:
        """Fields that tag the words of this text."""
        return [f for f in self.of_kind(TagsField) if f.of == text.name]

    def inputs(self) -> Sequence[TextField | ImageField]:
        """The input fields of models that read a text or an image: an image, in data without texts; else ``input_texts``."""
        return self.images()[:1] if self.images() and not self.texts() else self.input_texts()

    def input_texts(self) -> list[TextField]:
        """The input texts: ``text``; or ``source``, in data with a label and a ``target``; or all texts, which must share an id
        space."""
        single = "text" if "text" in self.fields else "source" if "label" in self.fields and "target" in self.fields else ""
        found = [self.text(single)] if single in self.fields else self.texts()
        if len({f.space for f in found}) != 1:
            raise ValueError(f"needs texts of one id space, but the data ({self.data}) has: {', '.join(self.fields)}")
        return found

    def lengths(self, example: Example) -> dict[str, int]:
        """Lengths of an example: tokens of each text; for several texts, the total and their number."""
        return {name: length for f in self.fields.values() for name, length in f.lengths(example[f.name]).items()}

    def synthetic_example(self, rng: np.random.Generator, length: int | None = None) -> dict[str, Any]:
        """A random example of these fields: what ``weft check`` and the catalog tests run on.

        Args:
            rng: The random generator.
            length: Tokens of each text; None = ``max_length`` of the field, at most 32.
        """
        tokens = {f.name: max(1, length or min(f.max_length, 32)) for f in self.tokenized()}
        sizes = SyntheticSizes(self, tokens, int(rng.integers(2, 5)) if self.of_kind(TextsField) else 0)
        return {f.name: f.synthetic(rng, sizes) for f in self.fields.values()}


@dataclass(frozen=True)
class SyntheticSizes:
    """What the fields of a synthetic example agree on.

    Args:
        info: All fields.
        tokens: Tokens of each text, by field name.
        choices: Number of texts in fields of several, of which a label is one; 0 = there are no such fields.
    """

    info: Info
    tokens: Mapping[str, int]
    choices: int
