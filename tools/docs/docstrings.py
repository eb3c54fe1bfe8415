"""A griffe extension: docstrings of weft as mkdocstrings expects them, with formulas as mathematics."""

from __future__ import annotations

import re
from typing import Any

import griffe
from tools.docs.markdown import docstring, prose

SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Attributes|Note|Warning|Examples?):$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring of the package before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)
            if isinstance(obj, griffe.Class) and is_named_tuple(obj):  # griffe knows no constructor of it
                obj.docstring.value = re.sub(r"^Args:$", "Attributes:", obj.docstring.value, flags=re.MULTILINE)


def is_named_tuple(thing: griffe.Class) -> bool:
    """Whether a class is declared as a ``typing.NamedTuple``."""
    return any(str(base).rpartition(".")[2] == "NamedTuple" for base in thing.bases)


def rewritten(text: str) -> str:
    """A docstring with its formulas as MathML, its prose escaped, and ``Example:`` as the section of examples."""
    found = SECTION.search(text)
    head, tail = (text[: found.start()], text[found.start() :]) if found else (text, "")
    summary, _, body = head.strip().partition("\n\n")
    return "\n\n".join(
        filter(None, [prose(summary), docstring(body), re.sub(r"^Example:$", "Examples:", tail, flags=re.MULTILINE)])
    )
