"""Greedy search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.options import Count, Natural, Positive
from weft.core.outputs import Hypothesis
from weft.core.registry import block
from weft.core.seq import Memory, Seq
from weft.generate.autoregressive import walk
from weft.generate.length_limit import Limited


@block("greedy")
class Greedy(Limited):
    """Take the likeliest token at every step.

    y_t = argmax_v p(v | y_<t, x)

    The first of equally likely tokens is taken. The score is the log-probability.

    Args:
        length: Most tokens to generate, the end mark included.
        ratio: Most tokens per token of the input (and ``extra`` more); none: ``length`` alone counts.
        extra: Tokens granted on top of ``ratio``.

    Example:
        >>> Greedy(ratio=1.5, extra=5).limit(10)
        20
    """

    def __init__(self, *, length: Count = 200, ratio: Positive | None = None, extra: Natural = 10):
        super().__init__(length, ratio, extra)

    def __call__(
        self, model: Any, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        return walk(model, memory, prompt, limits, lambda logp_NV, rows: logp_NV.argmax(-1))
