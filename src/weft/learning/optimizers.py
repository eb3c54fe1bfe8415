"""Optimisers: how gradients become steps; and their state as named tensors and JSON.

They are torch's, in the fused implementation where the device has one. ``groups`` go to torch as they are: a group may have an
``lr`` or a ``weight_decay`` of its own, which then replaces the option.
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

Decay = Annotated[float, Ge(0), Lt(1)]
"""How much of a running mean stays at each update."""

_FUSED = ("cpu", "cuda")
# How the step is computed, not what: it belongs to the machine and is not restored from another one's checkpoint.
_MACHINE = ("fused", "foreach", "capturable")


@block("adam")
class Adam(Optimizer):
    """Adam: steps scaled by running means of the gradient and of its square.

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
    """Steps along the gradient, with momentum if wanted.

    u <- momentum u + g;  w <- w - lr u, or with nesterov  w <- w - lr (g + momentum u)

    Sutskever et al. 2013 (momentum, Nesterov's form), https://proceedings.mlr.press/v28/sutskever13.html

    Args:
        lr: Learning rate; the schedule multiplies it.
        momentum: How much of the last step's direction stays; 0 = none.
        nesterov: Take the gradient as if the momentum's step had been made; needs a momentum.
        weight_decay: Times the weight, added to the gradient.

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
                "nesterov looks ahead along the momentum, but momentum is 0: set momentum (0.9 is common) or nesterov: false"
            )
        fused = _can_fuse(groups)
        self.inner = torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, fused=fused)
        if fused:
            self.inner.register_step_pre_hook(_align)
            self.inner.register_step_pre_hook(_fill_momentum)


@block("rmsprop")
class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of the squared gradient.

    v <- alpha v + (1 - alpha) g^2;  u <- momentum u + g / (sqrt(v) + eps);  w <- w - lr u

    Tieleman and Hinton 2012, Neural Networks for Machine Learning, lecture 6.5

    Args:
        lr: Learning rate; the schedule multiplies it.
        alpha: How much of the mean of squares stays at each update.
        momentum: How much of the last step's direction stays; 0 = none.
        eps: Added to the denominator.
        weight_decay: Times the weight, added to the gradient.

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
        raise ValueError("the optimiser was given no parameters to train: see which names the phase's `train` matches")
    return all(parameter.device.type in _FUSED and parameter.is_floating_point() for parameter in parameters)


def _align(inner: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Fused kernels walk through memory and never look at strides: a gradient laid out otherwise would be mixed up silently."""
    for group in inner.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.stride() != parameter.stride():
                parameter.grad = _like(parameter, parameter.grad)


def _fill_momentum(inner: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Fused SGD fails when a parameter gets its first gradient later than others. From zero, momentum 0 + g = g is the same."""
    for group in inner.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            if parameter.grad is not None and inner.state[parameter].get("momentum_buffer") is None:
                inner.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """A copy of ``value`` in its own type, with the parameter's device and layout in memory."""
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


# ------------------------------------------------------------------------------------------------------------------ state


def flatten_state(
    optimizer: torch.optim.Optimizer, names: Mapping[nn.Parameter, str]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimiser's state as tensors by '<parameter>/<key>' (``encoder.weight/exp_avg``), and the rest as JSON can say it.

    Args:
        optimizer: A torch optimiser.
        names: The name of each of its parameters.
    """
    unnamed = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter not in names]
    if unnamed:
        shapes = [tuple(parameter.shape) for parameter in unnamed]
        raise ValueError(f"{len(unnamed)} parameters of the optimiser have no name (shapes {shapes}): give names for all")
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        options = {key: value for key, value in group.items() if key != "params" and key not in _MACHINE}
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
    """Go on from what ``flatten_state`` gave, bit for bit. Nothing is changed if it does not fit.

    The options of the groups are restored too (also ``lr``, as it was after the schedule); how a step is computed (fused) is not.

    Args:
        optimizer: A torch optimiser over the same parameters.
        names: The name of each of its parameters.
        tensors: The tensors by name.
        rest: What else ``flatten_state`` gave.
    """
    here = {names[parameter]: (parameter, group) for group in optimizer.param_groups for parameter in group["params"]}
    problems = _problems(optimizer, [[names[p] for p in group["params"]] for group in optimizer.param_groups], tensors, rest)
    state: dict[str, dict[str, Any]] = {name: dict(value) for name, value in rest["values"].items()}
    for full, tensor in tensors.items():
        name, _, key = full.rpartition("/")
        if name not in here:
            continue
        parameter, group = here[name]
        if key == "step":
            device = parameter.device if group.get("fused") or group.get("capturable") else "cpu"
            state.setdefault(name, {})[key] = tensor.to(device, copy=True)
        elif tensor.shape != parameter.shape:
            problems.append(
                f"{full}: stored with the shape {tuple(tensor.shape)}, but the parameter has {tuple(parameter.shape)}"
            )
        elif tensor.dtype != parameter.dtype:
            problems.append(f"{full}: stored as {tensor.dtype}, but the parameter is {parameter.dtype}")
        else:
            state.setdefault(name, {})[key] = _like(parameter, tensor)
    if problems:
        raise ValueError("the stored state does not fit the optimiser:\n  " + "\n  ".join(problems))
    for group, stored in zip(optimizer.param_groups, rest["groups"], strict=True):
        for key, value in stored["options"].items():
            group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    optimizer.state.clear()
    for name, entries in state.items():
        optimizer.state[here[name][0]] = entries


def _problems(
    optimizer: torch.optim.Optimizer, groups: list[list[str]], tensors: Mapping[str, Tensor], rest: Mapping[str, Any]
) -> list[str]:
    """What the names say: another optimiser, missing or extra parameters, missing or extra tensors."""
    if rest["kind"] != type(optimizer).__name__:
        return [f"it is the state of {rest['kind']}, but the optimiser is {type(optimizer).__name__}"]
    stored = [group["params"] for group in rest["groups"]]
    ours, theirs = {name for group in groups for name in group}, {name for group in stored for name in group}
    found: list[str] = []
    if missing := sorted(ours - theirs):
        found.append(f"missing parameters (the optimiser has them, the state has not): {', '.join(missing)}")
    if extra := sorted(theirs - ours):
        found.append(f"extra parameters (the state has them, the optimiser has not): {', '.join(extra)}")
    if not found and [set(group) for group in groups] != [set(group) for group in stored]:
        found.append(f"the parameters are grouped differently: stored {stored}, here {groups}")
    if missing := sorted(set(rest["tensors"]) - tensors.keys()):
        found.append(f"missing tensors: {', '.join(missing)}")
    if extra := sorted(tensors.keys() - set(rest["tensors"])):
        found.append(f"extra tensors: {', '.join(extra)}")
    return found
