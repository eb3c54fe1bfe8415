"""After an update that is not finite: where it began, and how training goes on without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from weft.core.batch import Clock
from weft.learning.network import Step
from weft.learning.nonfinite import NonFinite, bad_parameter, finite, watching
from weft.learning.sharding import gathered

if TYPE_CHECKING:
    from weft.learning.active_phase import Active, Micro
    from weft.learning.loop import Loop

_WEIGHTS, _GRADIENT, _NOWHERE = "the weights themselves", "the gradient of", "the sum of the loss's terms"


def recover(loop: Loop, trouble: NonFinite) -> bool:
    """Skip the update, or go back to the last checkpoint without its rows; False = stop."""
    p, policy = loop.progress, loop.learning.on_nonfinite
    if policy == "stop" or p.skips >= loop.learning.max_skips:
        return False
    loop.log({"event": policy, "round": p.round + 1, "problem": str(trouble), "rows": trouble.rows})
    data = next(a.phase.data for a in loop.phases if a.name == trouble.phase)
    if policy == "skip":
        p.skips += 1
        p.skipped.setdefault(data, []).extend(trouble.rows)
        return True
    left_out = p.left_out
    left_out[data] = sorted({*left_out.get(data, []), *trouble.rows})
    loop.restore()
    loop.progress.left_out, loop.progress.skips = left_out, p.skips + 1
    loop.progress.elapsed, loop.progress.spent = p.elapsed, p.spent
    return True


def trouble_of(
    loop: Loop, phase: Active, micros: list[Micro], repeat: int, again: int, clock: Clock, total: float, norm: float
) -> NonFinite:
    """What is to be said of an update: the rows of all processes, and the first bad module of the first that found one."""
    with phase.sync.unsharded():
        own = find(loop, phase, micros, repeat, again, clock)
    rows = [row for micro in micros if micro.real for row in micro.batch.rows]
    heard = loop.processes.gather([own, rows])
    module = min((found for found, _ in heard), key=_certain)
    what = f"the loss is {total}" if not finite(total) else f"the norm of the gradient is {norm}"
    return NonFinite(clock.update, phase.name, [row for _, of_one in heard for row in of_one], what, module)


def _certain(found: str) -> int:
    """The gradient is a sum over processes: one that found its own module bad knows more than one that only sees the sum."""
    return 0 if found.startswith(_WEIGHTS) else 2 if found.startswith(_GRADIENT) else 3 if found == _NOWHERE else 1


def find(loop: Loop, phase: Active, micros: list[Micro], repeat: int, again: int, clock: Clock) -> str:
    """Compute the update's loss once more, to name the first module whose output is not finite."""
    if bad := bad_parameter(loop.network.parameters(), "data"):
        return f"{_WEIGHTS} ({bad})"
    for i, micro in enumerate(micros):
        loop.reseed(phase, repeat, again, i)
        with torch.no_grad(), loop.autocast(), watching(Step(loop.network.model, phase.objective)) as found:
            phase.objective(loop.network.model, micro.batch, clock)
        if found:
            return found[0].removeprefix("model.")
    for name, parameter in phase.parameters.items():
        if parameter.grad is not None and not torch.isfinite(gathered(parameter.grad)).all():
            return f"{_GRADIENT} {name}"
    return _NOWHERE
