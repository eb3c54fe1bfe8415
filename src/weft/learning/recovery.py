"""Recovery from a non-finite update: find the cause, then skip the update or roll back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from weft.core.batch import Clock
from weft.learning.network import TrainingStep
from weft.learning.nonfinite import NonFiniteError, first_nonfinite, record_nonfinite_outputs
from weft.learning.sharding import full_tensor

if TYPE_CHECKING:
    from weft.learning.active_phase import ActivePhase, MicroBatch
    from weft.learning.loop import TrainingLoop

_WEIGHTS, _GRADIENT, _SUM = "the weights", "the gradient of", "the sum of the loss terms"


def recover(loop: TrainingLoop, error: NonFiniteError) -> bool:
    """Skip the update, or roll back to the last checkpoint and exclude its examples. Returns False where training must stop."""
    p, policy = loop.progress, loop.learning.on_nonfinite
    if policy == "stop" or p.skips >= loop.learning.max_skips:
        return False
    loop.log({"event": policy, "step": p.step + 1, "problem": str(error), "rows": error.rows})
    split = next(a.phase.dataset for a in loop.phases if a.name == error.phase)
    if policy == "skip":
        p.skips += 1
        p.skipped.setdefault(split, []).extend(error.rows)
        return True
    left_out = p.left_out
    left_out[split] = sorted({*left_out.get(split, []), *error.rows})
    loop.restore()
    loop.progress.left_out, loop.progress.skips = left_out, p.skips + 1
    loop.progress.elapsed, loop.progress.spent = p.elapsed, p.spent
    return True


def diagnose(
    loop: TrainingLoop,
    phase: ActivePhase,
    micro_batches: list[MicroBatch],
    repeat: int,
    again: int,
    clock: Clock,
    loss: float,
    grad_norm: float,
) -> NonFiniteError:
    """Return the error of a non-finite update: the examples of all processes and the most specific cause that one found."""
    with phase.sync.unsharded():
        own = find_cause(loop, phase, micro_batches, repeat, again, clock)
    rows = [row for micro in micro_batches if micro.real for row in micro.batch.rows]
    gathered = loop.processes.gather([own, rows])
    cause = min((found for found, _ in gathered), key=_specificity)
    what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient norm is {grad_norm}"
    return NonFiniteError(clock.update, phase.name, [row for _, of_one in gathered for row in of_one], what, cause)


def _specificity(cause: str) -> int:
    """Sort key of causes. Gradients are summed over processes, so a module that one process found is more specific."""
    return 0 if cause.startswith(_WEIGHTS) else 2 if cause.startswith(_GRADIENT) else 3 if cause == _SUM else 1


def find_cause(
    loop: TrainingLoop, phase: ActivePhase, micro_batches: list[MicroBatch], repeat: int, again: int, clock: Clock
) -> str:
    """Repeat the forward pass of an update to find the first module with a non-finite output."""
    if name := first_nonfinite(loop.network.parameters()):
        return f"{_WEIGHTS} ({name})"
    for i, micro in enumerate(micro_batches):
        loop.seed_generators(phase, repeat, again, i)
        step = TrainingStep(loop.network.model, phase.objective)
        with torch.no_grad(), loop.autocast(), record_nonfinite_outputs(step) as found:
            phase.objective(loop.network.model, micro.batch, clock)
        if found:
            return found[0].removeprefix("model.")
    for name, parameter in phase.parameters.items():
        if parameter.grad is not None and not torch.isfinite(full_tensor(parameter.grad)).all():
            return f"{_GRADIENT} {name}"
    return _SUM
