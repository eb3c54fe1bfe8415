"""What models predict: generated sequences, spans of a text, tokens at masked positions, values of a field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SpanPrediction:
    """A span of a text predicted as the answer: tokens ``first`` to ``last``.

    Args:
        of: Name of the text field.
        first: First token, or -1 for no answer.
        last: Last token.
        score: Score of the span minus the score of no answer.
    """

    of: str
    first: int = -1
    last: int = -1
    score: float = 0.0


@dataclass(frozen=True)
class MaskPrediction:
    """The tokens predicted at the masked positions of a text.

    Args:
        of: Name of the text field.
        ids: One id per mask.
    """

    of: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class FieldPrediction:
    """The predicted value of a field, which writes it as text (``Field.to_text``).

    Args:
        of: Name of the field.
        value: The value.
    """

    of: str
    value: Any


@dataclass
class Hypothesis:
    """One generated sequence: ids without EOS, score, and the total log-probability behind the score.

    ``end`` is the EOS id that finished it, where known.
    """

    ids: list[int]
    score: float
    logprob: float
    finished: bool = True
    steps: list[float] = field(default_factory=list)
    end: int | None = None
