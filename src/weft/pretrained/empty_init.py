"""Building modules without initializing their weights."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

_RANDOM = ("normal_", "exponential_", "log_normal_", "cauchy_", "geometric_")


class SkipInit(TorchFunctionMode):
    """Skips random initialization of tensors on the meta device, where torch would import a large part of its compiler for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **kwargs)
