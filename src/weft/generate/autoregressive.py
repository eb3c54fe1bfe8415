"""Autoregressive decoding without backtracking, one sequence per row: the loop of greedy search and sampling.

N unfinished rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from weft.core.contracts import Decodes
from weft.core.outputs import Hypothesis
from weft.core.seq import Memory, Seq
from weft.generate.frontier import bounded, prefill

Choose = Callable[[Tensor, list[int]], Tensor]
"""Maps N x V log-probabilities and the row indices to the N next tokens. Called once per step."""


@torch.inference_mode()
def walk(
    model: Decodes, memory: Memory | None, prompt: Seq | None, limits: Sequence[int], choose: Choose
) -> list[list[Hypothesis]]:
    """Extend every row by the chosen tokens up to EOS or its limit. Finished rows leave the batch."""
    limits = bounded(model, prompt, limits)
    found = [Hypothesis([], 0.0, 0.0, finished=False) for _ in limits]
    rows = [row for row, limit in enumerate(limits) if limit > 0]
    if not rows:
        return [[h] for h in found]
    ends = model.target.eos_ids()
    frontier = prefill(model, memory, prompt, limits, rows)
    while True:
        logp_NV = frontier.logprobs()
        token_N = choose(logp_NV, rows)
        going: list[int] = []
        steps = logp_NV.gather(1, token_N[:, None]).flatten().tolist()
        for n, (row, token, step) in enumerate(zip(rows, token_N.tolist(), steps, strict=True)):
            hypothesis = found[row]
            hypothesis.steps.append(step)
            if token in ends:
                hypothesis.finished, hypothesis.end = True, token
                continue
            hypothesis.ids.append(token)
            if len(hypothesis.ids) < limits[row]:
                going.append(n)
        if not going:
            break
        rows = [rows[n] for n in going]
        frontier = frontier.advance(torch.tensor(going), token_N.cpu()[going])
    for hypothesis in found:
        hypothesis.logprob = hypothesis.score = sum(hypothesis.steps)
    return [[h] for h in found]
