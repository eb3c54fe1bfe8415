"""Beam search.

R rows still searching, W width of the beam, N running hypotheses of all rows, K tokens considered per hypothesis,
C candidates considered per row, E end marks, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from weft.core.options import Count, Natural, NonNegative, Positive
from weft.core.outputs import Hypothesis
from weft.core.registry import block
from weft.core.seq import Memory, Seq
from weft.generate.frontier import bounded, prefill
from weft.generate.hypotheses import Pool
from weft.generate.length_limit import Limited


@block("beam")
class Beam(Limited):
    """Follow the ``width`` likeliest beginnings side by side and return the best whole sequences.

    score(y) = log p(y | x) / n^alpha  (power)  or  log p(y | x) / ((5 + n) / 6)^alpha  (gnmt),  n tokens with the end mark

    A candidate that is among the ``width`` best and ends leaves the beam into the row's pool; the ``width`` best that do not
    end go on. A row stops when none of its running hypotheses could still enter the ``best`` of the pool: log p only falls, so
    log p / penalty(limit) is the most that one can reach. Hypotheses cut at the limit enter the pool with their score,
    ``finished`` False. With width 1 the first end mark ends the search: that is greedy search, whatever the penalty.

    gnmt: Wu et al. 2016, https://arxiv.org/abs/1609.08144; prune: Freitag and Al-Onaizan 2017, https://arxiv.org/abs/1702.01806

    Args:
        width: Hypotheses followed per row.
        alpha: How strongly long sequences are favoured; 0: the score is the log-probability.
        penalty: What the log-probability is divided by.
        prune: Drop candidates whose log-probability is further than this below that of the row's best; none: drop nothing.
        best: Sequences returned per row, best first (fewer, where fewer were found).
        length: Most tokens to generate, the end mark included.
        ratio: Most tokens per token of the input (and ``extra`` more); none: ``length`` alone counts.
        extra: Tokens granted on top of ``ratio``.

    Example:
        >>> Beam(width=4, alpha=0.6, penalty="gnmt").normaliser(7).round(decimals=2).item()
        1.52
    """

    def __init__(
        self,
        *,
        width: Count = 4,
        alpha: NonNegative = 0.0,
        penalty: Literal["power", "gnmt"] = "power",
        prune: Positive | None = None,
        best: Count = 1,
        length: Count = 200,
        ratio: Positive | None = None,
        extra: Natural = 10,
    ):
        super().__init__(length, ratio, extra)
        if best > width:
            raise ValueError(f"best {best} is more than width {width}: a beam returns at most as many sequences as it follows")
        self.width, self.alpha, self.penalty, self.prune, self.best = width, alpha, penalty, prune, best

    def normaliser(self, length: int | torch.Tensor) -> torch.Tensor:
        """What the log-probability of that many tokens is divided by."""
        n = torch.as_tensor(length, dtype=torch.float64)
        return (n if self.penalty == "power" else (5 + n) / 6) ** self.alpha

    @torch.inference_mode()
    def __call__(
        self, model: Any, memory: Memory | None, *, prompt: Seq | None = None, limits: Sequence[int], keys: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        limits = bounded(model, prompt, limits)
        pools = [Pool(self.best) for _ in limits]
        rows = [row for row, limit in enumerate(limits) if limit > 0]
        for row in set(range(len(limits))).difference(rows):
            pools[row].add(Hypothesis([], 0.0, 0.0, finished=False))
        if not rows:
            return [pool.found for pool in pools]
        front, width, ends = prefill(model, memory, prompt, limits, rows), self.width, model.target.eos_ids()
        end_E, more = torch.tensor(ends, dtype=torch.long), max(1, len(ends))
        # Everything small is done on the CPU, in double precision: only logits and states stay on the model's device.
        limit_R = torch.tensor([limits[row] for row in rows])
        total_RW = torch.full((len(rows), width), -torch.inf, dtype=torch.float64)
        total_RW[:, 0] = 0
        slot_N = torch.arange(len(rows)) * width  # where each hypothesis stands in R x W, ascending
        ids_NT = torch.empty((len(rows), 0), dtype=torch.long)
        steps_NT = torch.empty((len(rows), 0), dtype=torch.float64)
        while True:
            length = ids_NT.shape[1] + 1
            logp_NV = front.logprobs()
            # As many continuations of each end as there are end marks. So width and those of each, and the width and as much
            # again for every end mark of a row, leave as many to go on.
            step_NK, token_NK = (x.cpu() for x in logp_NV.topk(min(width + more, logp_NV.shape[1])))
            step_NK, k = step_NK.double(), token_NK.shape[1]
            at_RW = torch.zeros(total_RW.shape, dtype=torch.long)
            at_RW.view(-1)[slot_N] = torch.arange(len(slot_N))
            top_RC, flat_RC = (total_RW[:, :, None] + step_NK[at_RW]).flatten(1).topk(min((1 + more) * width, width * k))
            from_RC = at_RW.gather(1, flat_RC // k)
            token_RC, step_RC = token_NK[from_RC, flat_RC % k], step_NK[from_RC, flat_RC % k]
            if self.prune is not None:
                top_RC = top_RC.masked_fill(top_RC < top_RC[:, :1] - self.prune, -torch.inf)

            first_C = torch.arange(top_RC.shape[1]) < width
            possible_RC = top_RC > -torch.inf
            marked_RC = torch.isin(token_RC, end_E)
            ends_RC = marked_RC | (limit_R <= length)[:, None]
            norm = float(self.normaliser(length))
            for r, c in (possible_RC & ends_RC & first_C).nonzero().tolist():
                pool, logprob = pools[rows[r]], float(top_RC[r, c])
                if logprob / norm > pool.worst:
                    n, token, done = from_RC[r, c], int(token_RC[r, c]), bool(marked_RC[r, c])
                    ids, steps = ids_NT[n].tolist() + [token] * (not done), [*steps_NT[n].tolist(), float(step_RC[r, c])]
                    pool.add(Hypothesis(ids, logprob / norm, logprob, done, steps, token if done else None))

            goes_RC = possible_RC & ~ends_RC & (first_C if width == 1 else True)
            place_RC = goes_RC.cumsum(1) - 1
            goes_RC &= place_RC < width
            reach_R = top_RC.masked_fill(~goes_RC, -torch.inf).amax(1) / self.normaliser(limit_R)
            stays_R = reach_R > torch.tensor([pools[row].worst for row in rows], dtype=torch.float64)
            goes_RC &= stays_R[:, None]
            if not goes_RC.any():
                return [pool.found for pool in pools]

            rows, limit_R = [row for row, stays in zip(rows, stays_R.tolist(), strict=True) if stays], limit_R[stays_R]
            from_N, token_N, step_N = from_RC[goes_RC], token_RC[goes_RC], step_RC[goes_RC]
            slot_N = ((stays_R.cumsum(0) - 1)[:, None] * width + place_RC)[goes_RC]
            total_RW = torch.full((len(rows), width), -torch.inf, dtype=torch.float64)
            total_RW.view(-1)[slot_N] = top_RC[goes_RC]
            ids_NT = torch.cat([ids_NT[from_N], token_N[:, None]], 1)
            steps_NT = torch.cat([steps_NT[from_N], step_N[:, None]], 1)
            front = front.advance(from_N, token_N)
