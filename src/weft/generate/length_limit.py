"""The length limit that all searches share."""

from __future__ import annotations

from weft.core.contracts import Search


class LengthLimited(Search):
    """A search that generates at most ``max_length`` tokens, and at most ``max_length_ratio`` times the input length plus
    ``max_length_extra``. EOS counts as a token.
    """

    def __init__(self, max_length: int, max_length_ratio: float | None, max_length_extra: int):
        super().__init__()
        self.max_length, self.max_length_ratio, self.max_length_extra = max_length, max_length_ratio, max_length_extra

    def limit(self, source_length: int) -> int:
        """Maximum number of tokens to generate for an input of ``source_length`` tokens."""
        if self.max_length_ratio is None:
            return self.max_length
        return min(self.max_length, int(self.max_length_ratio * source_length) + self.max_length_extra)
