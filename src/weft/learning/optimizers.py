"""Optimizers, and their state as named tensors and JSON.

They are those of ``torch.optim``, in the fused implementation where the device has one. ``groups`` are passed on unchanged: a
group may have its own ``lr`` or ``weight_decay``, which replaces the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from weft.core.contracts import Optimizer
from weft.core.options import NonNegative, Positive
from weft.core.registry import block
from weft.learning.sharding import is_sharded

Decay = Annotated[float, Ge(0), Lt(1)]
"""Decay rate of a running mean."""

_FUSED = ("cpu", "cuda")
# Options of the implementation: they depend on the machine and are not restored from a checkpoint.
_IMPLEMENTATION = ("fused", "foreach", "capturable")


@block("adam")
class Adam(Optimizer):
    """Adam: adaptive learning rates from running means of the gradient and of its square.

    m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2;  w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    Kingma and Ba 2015, https://arxiv.org/abs/1412.6980

    Args:
        lr: Learning rate; the schedule multiplies it.
        betas: Decay rates of the running means of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: L2 penalty, added to the gradient (decoupled weight decay: adamw).

    Example:
        >>> weight = nn.Parameter(torch.zeros(1))
        >>> optimizer = Adam([{"params": [weight]}], lr=0.5)
        >>> weight.grad = torch.tensor([4.0])
        >>> optimizer.inner.step()
        >>> weight.data
        tensor([-0.5000])
    """

    kind: ClassVar[type[torch.optim.Adam]] = torch.optim.Adam

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: Positive = 1e-3,
        betas: tuple[Decay, Decay] = (0.9, 0.999),
        eps: Positive = 1e-8,
        weight_decay: NonNegative = 0.0,
    ):
        fused = _can_fuse(groups)
        self.inner = self.kind(groups, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)
        if fused:
            self.inner.register_step_pre_hook(_align)


@block("adamw")
class AdamW(Adam):
    """Adam with decoupled weight decay.

    w <- (1 - lr weight_decay) w, then Adam's step

    Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101

    Args:
        lr: Learning rate; the schedule multiplies it.
        betas: Decay rates of the running means of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Decoupled weight decay coefficient, multiplied by lr.

    Example:
        >>> weight = nn.Parameter(torch.ones(1))
        >>> optimizer = AdamW([{"params": [weight]}], lr=0.5, weight_decay=0.1)
        >>> weight.grad = torch.tensor([4.0])
        >>> optimizer.inner.step()
        >>> weight.data
        tensor([0.4500])
    """

    kind: ClassVar[type[torch.optim.Adam]] = torch.optim.AdamW

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: Positive = 1e-3,
        betas: tuple[Decay, Decay] = (0.9, 0.999),
        eps: Positive = 1e-8,
        weight_decay: NonNegative = 0.01,
    ):
        super().__init__(groups, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)


@block("sgd")
class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum.

    u <- momentum u + g;  w <- w - lr u, or with nesterov  w <- w - lr (g + momentum u)

    Sutskever et al. 2013 (momentum, Nesterov's form), https://proceedings.mlr.press/v28/sutskever13.html

    Args:
        lr: Learning rate; the schedule multiplies it.
        momentum: Momentum factor; 0 = no momentum.
        nesterov: Nesterov momentum; requires a momentum above 0.
        weight_decay: L2 penalty, added to the gradient.

    Example:
        >>> weight = nn.Parameter(torch.zeros(1))
        >>> optimizer = SGD([{"params": [weight]}], lr=0.5)
        >>> weight.grad = torch.tensor([4.0])
        >>> optimizer.inner.step()
        >>> weight.data
        tensor([-2.])
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: Positive = 0.1,
        momentum: Decay = 0.0,
        nesterov: bool = False,
        weight_decay: NonNegative = 0.0,
    ):
        if nesterov and momentum == 0:
            raise ValueError(
                "nesterov requires a momentum above 0, but momentum is 0; set momentum (0.9 is common) or nesterov: false"
            )
        fused = _can_fuse(groups) and not _has_shards(groups)
        self.inner = torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, fused=fused)
        if fused:
            self.inner.register_step_pre_hook(_align)
            self.inner.register_step_pre_hook(_fill_momentum)


@block("rmsprop")
class RMSprop(Optimizer):
    """RMSprop: gradients divided by the root of a running mean of their squares.

    v <- alpha v + (1 - alpha) g^2;  u <- momentum u + g / (sqrt(v) + eps);  w <- w - lr u

    Tieleman and Hinton 2012, Neural Networks for Machine Learning, lecture 6.5

    Args:
        lr: Learning rate; the schedule multiplies it.
        alpha: Decay rate of the running mean of squared gradients.
        momentum: Momentum factor; 0 = no momentum.
        eps: Added to the denominator.
        weight_decay: L2 penalty, added to the gradient.

    Example:
        >>> weight = nn.Parameter(torch.zeros(1))
        >>> optimizer = RMSprop([{"params": [weight]}], lr=0.5, alpha=0.75)
        >>> weight.grad = torch.tensor([4.0])
        >>> optimizer.inner.step()
        >>> weight.data
        tensor([-1.])
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        *,
        lr: Positive = 1e-3,
        alpha: Decay = 0.99,
        momentum: Decay = 0.0,
        eps: Positive = 1e-8,
        weight_decay: NonNegative = 0.0,
    ):
        _can_fuse(groups)
        self.inner = torch.optim.RMSprop(groups, lr=lr, alpha=alpha, momentum=momentum, eps=eps, weight_decay=weight_decay)


def _can_fuse(groups: list[dict[str, Any]]) -> bool:
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not parameters:
        raise ValueError("the optimizer has no parameters; check which parameters match the `train` option of the phase")
    return all(parameter.device.type in _FUSED and parameter.is_floating_point() for parameter in parameters)


def _has_shards(groups: list[dict[str, Any]]) -> bool:
    """Whether a parameter is a DTensor, as with FSDP. PyTorch has no fused SGD for them."""
    return any(is_sharded(parameter) for group in groups for parameter in group["params"])


def _align(inner: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Give gradients the strides of their parameters: fused kernels ignore strides and would silently mix up the elements."""
    for group in inner.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.stride() != parameter.stride():
                parameter.grad = _like(parameter, parameter.grad)


def _fill_momentum(inner: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Initialize momentum buffers with 0: fused SGD fails if a parameter gets its first gradient later than others."""
    for group in inner.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            if parameter.grad is not None and inner.state[parameter].get("momentum_buffer") is None:
                inner.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """Return a copy of ``value`` in its own data type, on the device and with the strides of the parameter."""
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


# ------------------------------------------------------------------------------------------------------------------ state


def flatten_state(
    optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the optimizer state: tensors by '<parameter>/<key>' (``encoder.weight/exp_avg``), and the rest as JSON values.

    Args:
        optimizer: A torch optimizer.
        names: The name of each of its parameters.
    """
    unnamed = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter not in names]
    if unnamed:
        shapes = [tuple(parameter.shape) for parameter in unnamed]
        raise ValueError(f"{len(unnamed)} parameters of the optimizer have no name (shapes {shapes}); all must be in names")
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        options = {key: value for key, value in group.items() if key != "params" and key not in _IMPLEMENTATION}
        groups.append({"params": [names[parameter] for parameter in group["params"]], "options": options})
        for parameter in group["params"]:
            state, name = optimizer.state.get(parameter, {}), names[parameter]
            tensors |= {f"{name}/{key}": value.detach() for key, value in state.items() if isinstance(value, Tensor)}
            values[name] = {key: value for key, value in state.items() if not isinstance(value, Tensor)}
    rest = {"kind": type(optimizer).__name__, "groups": groups, "tensors": sorted(tensors)}
    return tensors, rest | {"values": {name: value for name, value in values.items() if value}}


def restore_state(
    optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str], tensors: Mapping[str, Tensor], rest: Mapping[str, Any]
) -> None:
    """Restore the state that ``flatten_state`` returned, bit for bit. Raises ValueError, with nothing changed, on a mismatch.

    The options of the groups are restored too (including the scheduled ``lr``), but not the implementation (fused).

    Args:
        optimizer: A torch optimizer over the same parameters.
        names: The name of each of its parameters.
        tensors: The tensors by name.
        rest: The second value of ``flatten_state``.
    """
    own = {names[parameter]: (parameter, group) for group in optimizer.param_groups for parameter in group["params"]}
    problems = _problems(optimizer, [[names[p] for p in group["params"]] for group in optimizer.param_groups], tensors, rest)
    state: dict[str, dict[str, Any]] = {name: dict(value) for name, value in rest["values"].items()}
    for full, tensor in tensors.items():
        name, _, key = full.rpartition("/")
        if name not in own:
            continue
        parameter, group = own[name]
        if key == "step":
            device = parameter.device if group.get("fused") or group.get("capturable") else "cpu"
            state.setdefault(name, {})[key] = tensor.to(device, copy=True)
        elif tensor.shape != parameter.shape:
            problems.append(
                f"{full}: stored with shape {tuple(tensor.shape)}, but the parameter has shape {tuple(parameter.shape)}"
            )
        elif tensor.dtype != parameter.dtype:
            problems.append(f"{full}: stored as {tensor.dtype}, but the parameter is {parameter.dtype}")
        else:
            state.setdefault(name, {})[key] = _like(parameter, tensor)
    if problems:
        raise ValueError("the stored state does not match the optimizer:\n  " + "\n  ".join(problems))
    for group, stored in zip(optimizer.param_groups, rest["groups"], strict=True):
        for key, value in stored["options"].items():
            group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    optimizer.state.clear()
    for name, entries in state.items():
        optimizer.state[own[name][0]] = entries


def _problems(
    optimizer: torch.optim.Optimizer, groups: list[list[str]], tensors: Mapping[str, Tensor], rest: Mapping[str, Any]
) -> list[str]:
    """Return mismatches of names: another optimizer, missing or unexpected parameters and tensors."""
    if rest["kind"] != type(optimizer).__name__:
        return [f"it is the state of {rest['kind']}, but the optimizer is {type(optimizer).__name__}"]
    stored = [group["params"] for group in rest["groups"]]
    ours, theirs = {name for group in groups for name in group}, {name for group in stored for name in group}
    found: list[str] = []
    if missing := sorted(ours - theirs):
        found.append(f"missing parameters (in the optimizer, not in the state): {', '.join(missing)}")
    if extra := sorted(theirs - ours):
        found.append(f"unexpected parameters (in the state, not in the optimizer): {', '.join(extra)}")
    if not found and [set(group) for group in groups] != [set(group) for group in stored]:
        found.append(f"different parameter groups: stored {stored}, expected {groups}")
    if missing := sorted(set(rest["tensors"]) - tensors.keys()):
        found.append(f"missing tensors: {', '.join(missing)}")
    if extra := sorted(tensors.keys() - set(rest["tensors"])):
        found.append(f"unexpected tensors: {', '.join(extra)}")
    return found
