"""How long a generated sequence may get: what all searches have in common."""

from __future__ import annotations

from weft.core.contracts import Search


class Limited(Search):
    """A search that stops after ``length`` tokens, or ``ratio`` times the input's length and ``extra`` more, whichever is less.

    The end mark counts as a token.
    """

    def __init__(self, length: int, ratio: float | None, extra: int):
        super().__init__()
        self.length, self.ratio, self.extra = length, ratio, extra

    def limit(self, source_length: int) -> int:
        """Most tokens to generate for an input of this many tokens."""
        if self.ratio is None:
            return self.length
        return min(self.length, int(self.ratio * source_length) + self.extra)
