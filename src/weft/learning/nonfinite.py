"""Non-finite losses and gradients: find the first module that produced one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class NonFiniteError(ArithmeticError):
    """An update with a non-finite loss or gradient.

    Args:
        update: Index of the update.
        phase: Name of the phase.
        rows: Examples of the update.
        what: Which value is not finite.
        module: First module with a non-finite output.
    """

    def __init__(self, update: int, phase: str, rows: list[int], what: str, module: str):
        self.update, self.phase, self.rows, self.what, self.module = update, phase, rows, what, module
        shown = ", ".join(map(str, rows[:12])) + (f" and {len(rows) - 12} more" if len(rows) > 12 else "")
        of_phase = f" of phase {phase}" if phase else ""
        super().__init__(f"update {update}{of_phase}: {what}; first non-finite value in {module}; examples {shown}")


def first_nonfinite(parameters: dict[str, nn.Parameter]) -> str | None:
    """Return the name of the first parameter with a non-finite value."""
    return next((name for name, parameter in parameters.items() if not torch.isfinite(parameter.data).all()), None)


@contextmanager
def record_nonfinite_outputs(root: nn.Module) -> Iterator[list[str]]:
    """Yield a list that receives the names of modules with a non-finite output, in the order of computation."""
    found: list[str] = []

    def record(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if any(not torch.isfinite(t).all() for t in tensors_in(output) if t.is_floating_point()):
                found.append(f"{name} ({type(module).__name__})")

        return hook

    handles = [module.register_forward_hook(record(name or "the root module")) for name, module in root.named_modules()]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in an output: a tensor, or nested tuples, lists, dicts and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from tensors_in(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from tensors_in(inner)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name))
