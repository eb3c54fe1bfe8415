"""Weights without numbers."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode


class Unfilled(TorchFunctionMode):
    """Leaves weights on the meta device as they are: what torch does there for random numbers loads half of its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "exponential_", "log_normal_", "cauchy_", "geometric_"):
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **kwargs)
