"""Cost of forward and backward passes: floating-point operations, and bytes saved for the backward pass."""

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

from weft.training.meta_outputs import KNOWN

_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@dataclass
class Cost:
    """Counts so far."""

    operations: int = 0
    """Floating-point operations of matrix products, convolutions and similar kernels."""
    kept: int = 0
    """Bytes of the tensors saved for the backward pass; a tensor saved twice counts twice."""


@contextmanager
def count_cost() -> Iterator[Cost]:
    """Count the cost of what runs within the context, on any device. Recurrent networks are extrapolated, not run.

    Everything runs on one thread and without fused CPU kernels, whose operations cannot be counted.
    """
    cost, threads, fused = Cost(), torch.get_num_threads(), torch.backends.mkldnn.enabled
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    try:
        with sdpa_kernel(SDPBackend.MATH), _kept(cost), _OperationCounter(cost), _RecurrentCost(cost):
            yield cost
    finally:
        torch.backends.mkldnn.enabled = fused
        torch.set_num_threads(threads)


class _OperationCounter(TorchDispatchMode):
    """Counts operations with the formulas of torch's ``FlopCounterMode``."""

    def __init__(self, cost: Cost):
        super().__init__()
        self.cost = cost

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes longer than the counted operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled():  # composite operations are not decomposed in inference mode
            with self:
                if (result := func.decompose(*args, **kwargs)) is not NotImplemented:
                    return result
        result = KNOWN(func, args, kwargs)
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


class _RecurrentCost(TorchFunctionMode):
    """Cost of recurrent networks, extrapolated from the first two time steps: each further step costs what the second does.

    Run step by step, a thousand layers on the meta device would take an hour.
    """

    def __init__(self, cost: Cost):
        super().__init__()
        self.cost = cost
        self.known: dict[Any, tuple[list[torch.Size], Cost, Cost]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # With packed sequences the third argument is not the weights; those networks are run.
        if getattr(func, "__name__", "") in _RECURRENT and len(args) == 9 and isinstance(args[2], list) and args[0].dim() == 3:
            x, first, weights, *rest = args
            return self._extrapolate(func, x, [first] if isinstance(first, Tensor) else list(first), weights, rest)
        return func(*args, **(kwargs or {}))

    def _extrapolate(self, func: Any, x: Tensor, first: list[Tensor], weights: list[Tensor], rest: list[Any]) -> Any:
        time = 1 if rest[-1] else 0  # the last argument is batch_first
        tensors = [x, *first, *weights]
        signature = (func, *rest, x.dtype, torch.is_grad_enabled(), *((t.shape, t.requires_grad) for t in tensors))
        if signature not in self.known:
            _, one = self._run(1, func, x.narrow(time, 0, 1), first, weights, rest)
            shapes, two = self._run(2, func, x.narrow(time, 0, 1), first, weights, rest)
            self.known[signature] = shapes, one, two
        shapes, one, two = self.known[signature]
        self.cost.operations += one.operations + (x.shape[time] - 1) * (two.operations - one.operations)
        self.cost.kept += one.kept + (x.shape[time] - 1) * (two.kept - one.kept)
        out = torch.Size(x.shape[i] if i == time else n for i, n in enumerate(shapes[0]))
        return _DependsOn.apply([out, *shapes[1:]], *tensors)

    def _run(
        self, steps: int, func: Any, x: Tensor, first: list[Tensor], weights: list[Tensor], rest: list[Any]
    ) -> tuple[list[torch.Size], Cost]:
        """Return the shapes of the outputs and the cost of both passes, without adding it to the total."""
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


class _DependsOn(torch.autograd.Function):
    """Zeros of given shapes whose gradient reaches all of the tensors."""

    @staticmethod
    def forward(ctx: Any, shapes: list[torch.Size], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.shapes = [tensor.shape for tensor in tensors]
        return tuple(tensors[0].new_zeros(shape) for shape in shapes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, *(gradients[0].new_zeros(shape) for shape in ctx.shapes)
