"""Sampling: temperature, top-k, nucleus.

N running rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from weft.core.contracts import Decodes
from weft.core.options import Count, Fraction, Natural, Positive
from weft.core.outputs import Hypothesis
from weft.core.registry import block
from weft.core.seq import Memory, Seq
from weft.generate.autoregressive import walk
from weft.generate.length_limit import LengthLimited


@block("sample")
class Sampling(LengthLimited):
    """Sampling from the model's distribution, with temperature, top-k and nucleus (top-p) filtering.

    q(v) ~ p(v)^(1/temperature), restricted to the top_k most probable tokens, then to the smallest set with mass >= top_p

    Tokens tied with the last one kept are kept too. The uniform sample behind the t-th token of a row depends only on ``seed``,
    the key of the row and t, so a result does not depend on the rest of the batch. The score is the log-probability under the
    model itself, not under q.

    Top-k: Fan et al. 2018, https://arxiv.org/abs/1805.04833; nucleus: Holtzman et al. 2020, https://arxiv.org/abs/1904.09751

    Args:
        temperature: Below 1 sharpens the distribution, above 1 flattens it.
        top_k: Sample from this many of the most probable tokens; None = all.
        top_p: Sample from the most probable tokens whose total probability reaches this value; None = all.
        seed: Random seed.
        max_length: Maximum number of generated tokens, EOS included.
        max_length_ratio: Maximum number of tokens per input token (plus ``max_length_extra``); None = ``max_length`` alone.
        max_length_extra: Tokens added to ``max_length_ratio`` times the input length.

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.1, 0.5, 0.15, 0.25]]).log()
        >>> Sampling(top_k=2).distribution(p).round(decimals=2).tolist()
        [[0.0, 0.67, 0.0, 0.33]]
    """

    def __init__(
        self,
        *,
        temperature: Positive = 1.0,
        top_k: Count | None = None,
        top_p: Fraction | None = None,
        seed: Natural = 0,
        max_length: Count = 200,
        max_length_ratio: Positive | None = None,
        max_length_extra: Natural = 10,
    ):
        super().__init__(max_length, max_length_ratio, max_length_extra)
        self.temperature, self.top_k, self.top_p, self.seed = temperature, top_k, top_p, seed

    def __call__(
        self, model: Decodes, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        if len(keys) not in (0, len(limits)):
            raise ValueError(f"got {len(keys)} keys for {len(limits)} rows; pass one key per row, or none")
        draws = [
            np.random.Generator(np.random.Philox(key=np.array([self.seed, key % 2**64], np.uint64)))
            for key in (keys or range(len(limits)))
        ]

        def choose(logp_NV: Tensor, rows: list[int]) -> Tensor:
            p_NV = self.distribution(logp_NV)
            return pick(p_NV, torch.tensor([draws[row].random() for row in rows]).to(p_NV))

        return walk(model, memory, prompt, limits, choose)

    def distribution(self, logp_NV: Tensor) -> Tensor:
        """N x V probabilities to sample from."""
        # Double precision (not available on mps): rounding in the sum over a large vocabulary would bias rare tokens.
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
    """Inverse-transform sampling: the token at which the cumulative probability exceeds ``uniform_N``."""
    sum_NV = p_NV.cumsum(-1)
    token_N1 = torch.searchsorted(sum_NV, uniform_N[:, None] * sum_NV[:, -1:], right=True)
    at_V = torch.arange(p_NV.shape[1], device=p_NV.device)
    last_N = torch.where(p_NV > 0, at_V, 0).amax(-1)
    return token_N1.flatten().minimum(last_N)


def _only(p_NV: Tensor, keep_NV: Tensor) -> Tensor:
    kept_NV = torch.where(keep_NV, p_NV, 0)
    return kept_NV / kept_NV.sum(-1, keepdim=True)
