"""What forward and backward passes cost: operations, and bytes kept between the two. Suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@dataclass
class Cost:
    """What was counted so far."""

    operations: int = 0
    """Floating-point operations of matrix products, convolutions and the like."""
    kept: int = 0
    """Bytes of what the backward pass needs, as often as it is needed."""


@contextmanager
def counting() -> Iterator[Cost]:
    """Counts what runs inside the context, backward passes too, on any device. Recurrent networks are not run but reckoned.

    Everything runs on one thread and by plain kernels: the fused ones of the CPU cannot be looked into.
    """
    cost, threads, fused = Cost(), torch.get_num_threads(), torch.backends.mkldnn.enabled
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    try:
        with sdpa_kernel(SDPBackend.MATH), _kept(cost), _Operations(cost), _Reckoned(cost):
            yield cost
    finally:
        torch.backends.mkldnn.enabled = fused
        torch.set_num_threads(threads)


class _Operations(TorchDispatchMode):
    """Counts as torch's own FlopCounterMode does."""

    def __init__(self, cost: Cost):
        super().__init__()
        self.cost = cost

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch loads its compiler, which takes longer than everything that is counted here

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled():  # nothing above has taken composed operations apart
            with self:
                if (result := func.decompose(*args, **kwargs)) is not NotImplemented:
                    return result
        result = func(*args, **kwargs)
        if formula := _formula(func):
            self.cost.operations += formula(*args, **kwargs, out_val=result)
        return result


@cache
def _formula(func: Any) -> Callable[..., int] | None:
    return flop_registry.get(func.overloadpacket)


def _kept(cost: Cost) -> saved_tensors_hooks:
    def keep(tensor: Tensor) -> Tensor:
        cost.kept += tensor.numel() * tensor.element_size()
        return tensor

    return saved_tensors_hooks(keep, lambda tensor: tensor)


class _Reckoned(TorchFunctionMode):
    """Recurrent networks by their first two steps: each further step costs what the second does.

    Step by step, a thousand layers on the meta device would take an hour.
    """

    def __init__(self, cost: Cost):
        super().__init__()
        self.cost = cost
        self.known: dict[Any, tuple[list[torch.Size], Cost, Cost]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Of packed rows, the third argument is not the weights; those networks run as they are.
        if getattr(func, "__name__", "") in _RECURRENT and len(args) == 9 and isinstance(args[2], list) and args[0].dim() == 3:
            x, first, weights, *rest = args
            return self._reckon(func, x, [first] if isinstance(first, Tensor) else list(first), weights, rest)
        return func(*args, **(kwargs or {}))

    def _reckon(self, func: Any, x: Tensor, first: list[Tensor], weights: list[Tensor], rest: list[Any]) -> Any:
        time = 1 if rest[-1] else 0  # the last argument: whether the batch stands first
        tensors = [x, *first, *weights]
        kind = (func, *rest, x.dtype, torch.is_grad_enabled(), *((t.shape, t.requires_grad) for t in tensors))
        if kind not in self.known:
            _, one = self._run(1, func, x.narrow(time, 0, 1), first, weights, rest)
            shapes, two = self._run(2, func, x.narrow(time, 0, 1), first, weights, rest)
            self.known[kind] = shapes, one, two
        shapes, one, two = self.known[kind]
        self.cost.operations += one.operations + (x.shape[time] - 1) * (two.operations - one.operations)
        self.cost.kept += one.kept + (x.shape[time] - 1) * (two.kept - one.kept)
        out = torch.Size(x.shape[i] if i == time else n for i, n in enumerate(shapes[0]))
        return _Reached.apply([out, *shapes[1:]], *tensors)

    def _run(
        self, steps: int, func: Any, x: Tensor, first: list[Tensor], weights: list[Tensor], rest: list[Any]
    ) -> tuple[list[torch.Size], Cost]:
        """The shapes of the results, and the cost of both passes, apart from everything else that is counted."""
        before, cost, outs = self.cost.operations, Cost(), list[Tensor]()
        x, *others = (t.detach().requires_grad_(t.requires_grad) for t in (x, *first, *weights))
        state, weights = others[: len(first)], others[len(first) :]
        with _kept(cost):
            for _ in range(steps):
                out, *state = func(x, state if len(state) > 1 else state[0], weights, *rest)
                outs.append(out)
            if outs[0].requires_grad:
                torch.stack(outs).sum().backward()
        cost.operations, self.cost.operations = self.cost.operations - before, before
        return [tensor.shape for tensor in (outs[0], *state)], cost


class _Reached(torch.autograd.Function):
    """Results of given shapes that depend on all of the tensors."""

    @staticmethod
    def forward(ctx: Any, shapes: list[torch.Size], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.shapes = [tensor.shape for tensor in tensors]
        return tuple(tensors[0].new_zeros(shape) for shape in shapes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, *(gradients[0].new_zeros(shape) for shape in ctx.shapes)
