"""When a loss or gradient is not finite: say where it began."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class NonFinite(ArithmeticError):
    """An update whose loss or gradient is not finite, with the update's number, its rows and the first bad module."""

    def __init__(self, update: int, phase: str, rows: list[int], what: str, module: str):
        self.update, self.phase, self.rows, self.what, self.module = update, phase, rows, what, module
        shown = ", ".join(map(str, rows[:12])) + (f" and {len(rows) - 12} more" if len(rows) > 12 else "")
        super().__init__(f"update {update}{f' of phase {phase}' if phase else ''}: {what}; first seen in {module}; rows {shown}")


def finite(value: float) -> bool:
    return math.isfinite(value)


def bad_parameter(parameters: dict[str, nn.Parameter], of: str) -> str | None:
    """The first parameter whose value (``of='data'``) or gradient (``of='grad'``) is not finite."""
    for name, parameter in parameters.items():
        tensor = getattr(parameter, of)
        if tensor is not None and not torch.isfinite(tensor).all():
            return name
    return None


@contextmanager
def watching(root: nn.Module) -> Iterator[list[str]]:
    """Within it, the list receives the names of modules in whose output something is not finite, in order of computation."""
    found: list[str] = []

    def watch(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if any(not torch.isfinite(t).all() for t in tensors_in(output) if t.is_floating_point()):
                found.append(f"{name} ({type(module).__name__})")

        return hook

    handles = [module.register_forward_hook(watch(name or "the whole")) for name, module in root.named_modules()]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in a result: alone, or in tuples, lists, dicts and dataclasses."""
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
