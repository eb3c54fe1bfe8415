"""Beam search.

R unfinished rows, W beams, N unfinished hypotheses of all rows, K tokens considered per hypothesis, C candidates considered per
row, E EOS ids, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weft.core.contracts import Decodes
from weft.core.options import Count, Natural, NonNegative, Positive
from weft.core.outputs import Hypothesis
from weft.core.registry import block
from weft.core.seq import Memory, Seq
from weft.generate.frontier import bounded, prefill
from weft.generate.hypotheses import HypothesisPool
from weft.generate.length_limit import LengthLimited


@dataclass(frozen=True)
class _Candidates:
    """The best continuations of every row, best first: total log-probability, hypothesis, token, log-probability of the token."""

    total_RC: Tensor
    from_RC: Tensor
    token_RC: Tensor
    step_RC: Tensor


@block("beam")
class BeamSearch(LengthLimited):
    """Beam search: extend the ``beams`` most probable prefixes in parallel and return the best sequences.

    score(y) = log p(y | x) / n^length_penalty  (power)  or  log p(y | x) / ((5 + n) / 6)^length_penalty  (gnmt),  n tokens

    A candidate among the ``beams`` best that ends is added to the finished hypotheses of the row; the ``beams`` best that do not
    end are extended. A row stops when no unfinished hypothesis can still enter the ``n_best`` finished ones: log p only falls, so
    log p divided by the normalizer of the length limit bounds the score. Hypotheses cut at the limit have ``finished`` False.
    With one beam the first EOS ends the search, which is greedy search whatever the length penalty.

    gnmt: Wu et al. 2016, https://arxiv.org/abs/1609.08144; pruning: Freitag and Al-Onaizan 2017, https://arxiv.org/abs/1702.01806

    Args:
        beams: Hypotheses kept per row.
        length_penalty: Exponent of the length normalization; larger values favor long sequences, 0 = no normalization.
        length_normalization: What the log-probability is divided by: ``power`` or ``gnmt``.
        prune_threshold: Drop candidates whose log-probability is this much lower than the best of the row; None = keep all.
        n_best: Sequences returned per row, best first (fewer if fewer were found).
        max_length: Maximum number of generated tokens, EOS included.
        max_length_ratio: Maximum number of tokens per input token (plus ``max_length_extra``); None = ``max_length`` alone.
        max_length_extra: Tokens added to ``max_length_ratio`` times the input length.

    Example:
        >>> BeamSearch(beams=4, length_penalty=0.6, length_normalization="gnmt").normalizer(7).round(decimals=2).item()
        1.52
    """

    def __init__(
        self,
        *,
        beams: Count = 4,
        length_penalty: NonNegative = 0.0,
        length_normalization: Literal["power", "gnmt"] = "power",
        prune_threshold: Positive | None = None,
        n_best: Count = 1,
        max_length: Count = 200,
        max_length_ratio: Positive | None = None,
        max_length_extra: Natural = 10,
    ):
        super().__init__(max_length, max_length_ratio, max_length_extra)
        if n_best > beams:
            raise ValueError(f"n_best is {n_best}, but beams is {beams}: at most one sequence per beam can be returned")
        self.beams, self.length_penalty, self.length_normalization = beams, length_penalty, length_normalization
        self.prune_threshold, self.n_best = prune_threshold, n_best

    def normalizer(self, length: int | Tensor) -> Tensor:
        """The divisor of the log-probability of a sequence of ``length`` tokens."""
        n = torch.as_tensor(length, dtype=torch.float64)
        return (n if self.length_normalization == "power" else (5 + n) / 6) ** self.length_penalty

    @torch.inference_mode()
    def __call__(
        self, model: Decodes, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        limits = bounded(model, prompt, limits)
        pools = [HypothesisPool(self.n_best) for _ in limits]
        rows = [row for row, limit in enumerate(limits) if limit > 0]
        for row in set(range(len(limits))).difference(rows):
            pools[row].add(Hypothesis([], 0.0, 0.0, finished=False))
        if not rows:
            return [pool.found for pool in pools]
        frontier, width = prefill(model, memory, prompt, limits, rows), self.beams
        eos_E = torch.tensor(model.target.eos_ids(), dtype=torch.long)
        # Small tensors stay on the CPU, in double precision; only logits and states are on the device of the model.
        limit_R = torch.tensor([limits[row] for row in rows])
        total_RW = torch.full((len(rows), width), -torch.inf, dtype=torch.float64)
        total_RW[:, 0] = 0
        slot_N = torch.arange(len(rows)) * width  # the index of each hypothesis in R x W, ascending
        ids_NT = torch.empty((len(rows), 0), dtype=torch.long)
        steps_NT = torch.empty((len(rows), 0), dtype=torch.float64)
        while True:
            best = self._candidates(frontier.logprobs(), total_RW, slot_N, max(1, len(eos_E)))
            length, first_C = ids_NT.shape[1] + 1, torch.arange(best.total_RC.shape[1]) < width
            possible_RC, eos_RC = best.total_RC > -torch.inf, torch.isin(best.token_RC, eos_E)
            ends_RC = eos_RC | (limit_R <= length)[:, None]
            for r, c in (possible_RC & ends_RC & first_C).nonzero().tolist():
                self._finish(pools[rows[r]], best, r, c, bool(eos_RC[r, c]), ids_NT, steps_NT)
            continues_RC = possible_RC & ~ends_RC & (first_C if width == 1 else True)
            rank_RC = continues_RC.cumsum(1) - 1
            continues_RC &= rank_RC < width
            bound_R = best.total_RC.masked_fill(~continues_RC, -torch.inf).amax(1) / self.normalizer(limit_R)
            open_R = bound_R > torch.tensor([pools[row].worst for row in rows], dtype=torch.float64)
            continues_RC &= open_R[:, None]
            if not continues_RC.any():
                return [pool.found for pool in pools]
            rows, limit_R = [row for row, is_open in zip(rows, open_R.tolist(), strict=True) if is_open], limit_R[open_R]
            from_N, token_N, step_N = (x[continues_RC] for x in (best.from_RC, best.token_RC, best.step_RC))
            slot_N = ((open_R.cumsum(0) - 1)[:, None] * width + rank_RC)[continues_RC]
            total_RW = torch.full((len(rows), width), -torch.inf, dtype=torch.float64)
            total_RW.view(-1)[slot_N] = best.total_RC[continues_RC]
            ids_NT = torch.cat([ids_NT[from_N], token_N[:, None]], 1)
            steps_NT = torch.cat([steps_NT[from_N], step_N[:, None]], 1)
            frontier = frontier.advance(from_N, token_N)

    def _candidates(self, logp_NV: Tensor, total_RW: Tensor, slot_N: Tensor, eos_ids: int) -> _Candidates:
        """The (1 + eos_ids) * beams best candidates of every row: even if each EOS id ends a hypothesis, ``beams`` remain."""
        width = self.beams
        step_NK, token_NK = (x.cpu() for x in logp_NV.topk(min(width + eos_ids, logp_NV.shape[1])))
        step_NK, k = step_NK.double(), token_NK.shape[1]
        at_RW = torch.zeros(total_RW.shape, dtype=torch.long)
        at_RW.view(-1)[slot_N] = torch.arange(len(slot_N))
        total_RC, flat_RC = (total_RW[:, :, None] + step_NK[at_RW]).flatten(1).topk(min((1 + eos_ids) * width, width * k))
        from_RC = at_RW.gather(1, flat_RC // k)
        if self.prune_threshold is not None:
            total_RC = total_RC.masked_fill(total_RC < total_RC[:, :1] - self.prune_threshold, -torch.inf)
        return _Candidates(total_RC, from_RC, token_NK[from_RC, flat_RC % k], step_NK[from_RC, flat_RC % k])

    def _finish(
        self, pool: HypothesisPool, best: _Candidates, r: int, c: int, by_eos: bool, ids_NT: Tensor, steps_NT: Tensor
    ) -> None:
        """Add candidate ``c`` of row ``r`` to the finished hypotheses, if its score is among the best."""
        logprob = float(best.total_RC[r, c])
        score = logprob / float(self.normalizer(ids_NT.shape[1] + 1))
        if score > pool.worst:
            n, token = best.from_RC[r, c], int(best.token_RC[r, c])
            ids, steps = ids_NT[n].tolist() + [token] * (not by_eos), [*steps_NT[n].tolist(), float(best.step_RC[r, c])]
            pool.add(Hypothesis(ids, score, logprob, by_eos, steps, token if by_eos else None))
