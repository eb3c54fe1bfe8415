"""Sampling: temperature, top-k, nucleus.

N running rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.options import Count, Natural, Positive, Share
from weft.core.outputs import Hypothesis
from weft.core.registry import block
from weft.core.seq import Memory, Seq
from weft.generate.autoregressive import walk
from weft.generate.length_limit import Limited


@block("sample")
class Sample(Limited):
    """Draw every token from the model's distribution, sharpened or cut if wanted.

    q(v) ~ p(v)^(1/temperature), kept for the top_k likeliest tokens, then for the fewest whose share reaches top_p

    Tokens as likely as the last one kept are kept too. The uniform number behind the t-th token of a row depends on ``seed``, the
    row's key and t alone, and the distribution is walked through in the order of the ids: what a row becomes does not depend on
    what else is in the batch. The score is the log-probability under the model itself, not under q.

    Top-k: Fan et al. 2018, https://arxiv.org/abs/1805.04833; nucleus: Holtzman et al. 2020, https://arxiv.org/abs/1904.09751

    Args:
        temperature: Below 1 the likely gets likelier, above 1 everything gets more alike.
        top_k: Draw from this many of the likeliest tokens; none: from all.
        top_p: Draw from the likeliest tokens that together have this share of the probability; none: from all.
        seed: Another seed gives other draws.
        length: Most tokens to generate, the end mark included.
        ratio: Most tokens per token of the input (and ``extra`` more); none: ``length`` alone counts.
        extra: Tokens granted on top of ``ratio``.

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.1, 0.5, 0.15, 0.25]]).log()
        >>> Sample(top_k=2).distribution(p).round(decimals=2).tolist()
        [[0.0, 0.67, 0.0, 0.33]]
    """

    def __init__(
        self,
        *,
        temperature: Positive = 1.0,
        top_k: Count | None = None,
        top_p: Share | None = None,
        seed: Natural = 0,
        length: Count = 200,
        ratio: Positive | None = None,
        extra: Natural = 10,
    ):
        super().__init__(length, ratio, extra)
        self.temperature, self.top_k, self.top_p, self.seed = temperature, top_k, top_p, seed

    def __call__(
        self, model: Any, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        if len(keys) not in (0, len(limits)):
            raise ValueError(f"{len(keys)} keys for {len(limits)} rows: give one key per row, or none")
        draws = [
            np.random.Generator(np.random.Philox(key=np.array([self.seed, key % 2**64], np.uint64)))
            for key in (keys or range(len(limits)))
        ]

        def choose(logp_NV: Tensor, rows: list[int]) -> Tensor:
            p_NV = self.distribution(logp_NV)
            return pick(p_NV, torch.tensor([draws[row].random() for row in rows]).to(p_NV))

        return walk(model, memory, prompt, limits, choose)

    def distribution(self, logp_NV: Tensor) -> Tensor:
        """N x V probabilities to draw from."""
        # In double precision (mps has none): rounding in the sum over a large vocabulary would be seen in rare tokens.
        exact_NV = logp_NV if logp_NV.device.type == "mps" else logp_NV.double()
        p_NV = (exact_NV / self.temperature).softmax(-1)
        if self.top_k is not None and self.top_k < p_NV.shape[1]:
            least_N1 = p_NV.topk(self.top_k, -1).values[:, -1:]
            p_NV = _only(p_NV, p_NV >= least_N1)
        if self.top_p is not None and self.top_p < 1:
            sorted_NV = p_NV.sort(-1, descending=True).values
            before_NV = sorted_NV.cumsum(-1) - sorted_NV
            needed_N1 = (before_NV < self.top_p).sum(-1, keepdim=True).clamp(min=1)
            p_NV = _only(p_NV, p_NV >= sorted_NV.gather(1, needed_N1 - 1))
        return p_NV


def pick(p_NV: Tensor, uniform_N: Tensor) -> Tensor:
    """The token at which the summed probability, in the order of the ids, passes ``uniform_N``."""
    sum_NV = p_NV.cumsum(-1)
    token_N1 = torch.searchsorted(sum_NV, uniform_N[:, None] * sum_NV[:, -1:], right=True)
    at_V = torch.arange(p_NV.shape[1], device=p_NV.device)
    last_N = torch.where(p_NV > 0, at_V, 0).amax(-1)
    return token_N1.flatten().minimum(last_N)


def _only(p_NV: Tensor, keep_NV: Tensor) -> Tensor:
    kept_NV = torch.where(keep_NV, p_NV, 0)
    return kept_NV / kept_NV.sum(-1, keepdim=True)
