"""What models predict: generated sequences, spans of a text, tokens at masked positions."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SpanPrediction:
    """A part of a text, found as the answer to something: tokens ``first`` to ``last``.

    Args:
        of: The name of the text's field.
        first: Its first token, or -1 where nothing was found.
        last: Its last token.
        score: How sure the network is, compared with finding nothing.
    """

    of: str
    first: int = -1
    last: int = -1
    score: float = 0.0


@dataclass(frozen=True)
class MaskPrediction:
    """What was found to stand at the masks of a text.

    Args:
        of: The name of the text's field.
        ids: An id for each mask.
    """

    of: str
    ids: tuple[int, ...]


@dataclass
class Hypothesis:
    """One generated sequence: its ids without the end mark, its score, and the summed log-probability behind the score.

    ``end`` is the end mark that it was finished with, where that is known.
    """

    ids: list[int]
    score: float
    logprob: float
    finished: bool = True
    steps: list[float] = field(default_factory=list)
    end: int | None = None
