"""Optimizers compared with torch's unfused ones, and a state that continues bit for bit."""

from __future__ import annotations

import copy
import json
from functools import partial

import pytest
import torch
from torch import nn

from weft.core.contracts import Optimizer
from weft.core.registry import CATALOG, option_parameters
from weft.learning.checkpoint import read_tensors, write_tensors
from weft.learning.optimizers import SGD, Adam, AdamW, RMSprop, flatten_state, restore_state

KINDS = {
    "adam": partial(Adam, lr=0.01, weight_decay=0.1),
    "adamw": partial(AdamW, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    "sgd": partial(SGD, lr=0.1),
    "sgd-momentum": partial(SGD, lr=0.05, momentum=0.9, weight_decay=0.01),
    "sgd-nesterov": partial(SGD, lr=0.05, momentum=0.9, nesterov=True),
    "rmsprop": partial(RMSprop, lr=0.01),
    "rmsprop-momentum": partial(RMSprop, lr=0.01, alpha=0.9, momentum=0.9, weight_decay=0.01),
}
PLAIN = {
    "adam": partial(torch.optim.Adam, lr=0.01, weight_decay=0.1, foreach=False, fused=False),
    "adamw": partial(torch.optim.AdamW, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, foreach=False, fused=False),
    "sgd": partial(torch.optim.SGD, lr=0.1, foreach=False, fused=False),
    "sgd-momentum": partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=0.01, foreach=False, fused=False),
    "sgd-nesterov": partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True, foreach=False, fused=False),
    "rmsprop": partial(torch.optim.RMSprop, lr=0.01, foreach=False),
    "rmsprop-momentum": partial(torch.optim.RMSprop, lr=0.01, alpha=0.9, momentum=0.9, weight_decay=0.01, foreach=False),
}


every = pytest.mark.parametrize("name", KINDS)


class Net(nn.Module):
    """Several shapes, a parameter laid out by columns, one that gets its first gradient late and one that never does."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(7, 33)
        self.columns = nn.Parameter(torch.randn(33, 5).t().contiguous().t())
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.late = nn.Parameter(torch.randn(5))
        self.never = nn.Parameter(torch.randn(2))

    def forward(self, x, late):
        y = torch.tanh(self.inner(x)) @ self.columns * self.scale
        return y + self.late if late else y


def names_of(net):
    return {parameter: name for name, parameter in net.named_parameters()}


def groups_of(net):
    own = [net.scale, net.late]
    rest = [p for p in net.parameters() if all(p is not o for o in own)]
    return [{"params": rest}, {"params": own, "lr": 0.02, "weight_decay": 0.0}]


def train(net, inner, updates):
    for t in updates:
        generator = torch.Generator().manual_seed(t)
        for group in inner.param_groups:  # as a schedule does
            group["lr"] *= 0.97
        inner.zero_grad()
        net(torch.randn(4, 7, generator=generator), late=t >= 2).pow(2).mean().backward()
        inner.step()


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def test_every_optimizer_of_the_catalog_is_tested():
    assert {factory.func for factory in KINDS.values()} == {
        CATALOG[Optimizer][name] for name in ("adam", "adamw", "sgd", "rmsprop")
    }


def test_default_learning_rates():
    assert [option_parameters(kind)["lr"].default for kind in (Adam, AdamW, SGD, RMSprop)] == [1e-3, 1e-3, 0.1, 1e-3]


@every
def test_steps_equal_those_of_torchs_unfused_optimizer(name):
    net, reference = Net(), Net()
    inner, plain = KINDS[name](groups_of(net)).inner, PLAIN[name](groups_of(reference))
    train(net, inner, range(8))
    train(reference, plain, range(8))
    for (which, a), b in zip(net.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda text, which=which: f"{which}: {text}")
    assert not torch.equal(net.late, Net().late) and torch.equal(net.never, Net().never)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "sgd-momentum"])
def test_fused_on_the_cpu_but_not_on_meta(name):
    assert KINDS[name](groups_of(Net())).inner.defaults["fused"] is True
    with torch.device("meta"):
        ghost = nn.Linear(2, 2)
    inner = KINDS[name]([{"params": list(ghost.parameters())}]).inner
    assert not inner.defaults["fused"]


@every
def test_an_optimizer_can_step_on_the_meta_device(name):
    with torch.device("meta"):
        ghost = nn.Linear(2, 2)
        inner = KINDS[name]([{"params": list(ghost.parameters())}]).inner
        ghost(torch.ones(1, 2)).sum().backward()
        inner.step()
    state = [value for values in inner.state.values() for value in values.values() if torch.is_tensor(value) and value.dim()]
    assert {value.device.type for value in state} <= {"meta"}
    assert {tuple(value.shape) for value in state} <= {(2, 2), (2,), (1, 2), (2, 1)}


@every
def test_a_gradient_with_other_strides_gives_the_same_step(name):
    start, gradient = torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4).sin()
    results = []
    for grad in (gradient.clone(), gradient.t().contiguous().t()):
        weight = nn.Parameter(start.clone())
        inner = KINDS[name]([{"params": [weight]}]).inner
        for _ in range(3):
            weight.grad = grad
            inner.step()
        results.append(weight.detach())
    assert torch.equal(*results)


def test_parameter_groups_keep_their_learning_rates():
    inner = Adam(groups_of(Net()), lr=0.5, weight_decay=0.1).inner
    assert [(g["lr"], g["weight_decay"]) for g in inner.param_groups] == [(0.5, 0.1), (0.02, 0.0)]


@every
@pytest.mark.parametrize("stop", [0, 1, 2, 5])
def test_a_restored_optimizer_continues_bit_for_bit(tmp_path, name, stop):
    straight = Net()
    inner = KINDS[name](groups_of(straight)).inner
    train(straight, inner, range(9))

    first = Net()
    inner = KINDS[name](groups_of(first)).inner
    train(first, inner, range(stop))
    tensors, rest = flatten_state(inner, names_of(first))
    write_tensors(tmp_path / "o.safetensors", tensors)
    rest = json.loads(json.dumps(rest))

    second = Net()
    second.load_state_dict(first.state_dict())
    inner = KINDS[name](groups_of(second)).inner
    restore_state(inner, names_of(second), read_tensors(tmp_path / "o.safetensors"), rest)
    again, more = flatten_state(inner, names_of(second))
    assert json.loads(json.dumps(more)) == rest
    assert all(isinstance(group["betas"], tuple) for group in inner.param_groups if "betas" in group)
    assert again.keys() == tensors.keys() and all(
        torch.equal(again[k], tensors[k]) and again[k].dtype == tensors[k].dtype for k in tensors
    )
    train(second, inner, range(stop, 9))
    assert same(second, straight)
    assert stop == 0 or not same(second, first)


@pytest.mark.parametrize("name", ["adam", "sgd-momentum", "rmsprop"])
def test_an_optimizer_without_its_state_continues_differently(name):
    """The test above can fail: a fresh optimizer does not give the same weights."""
    straight, second = Net(), Net()
    train(straight, KINDS[name](groups_of(straight)).inner, range(6))
    train(second, KINDS[name](groups_of(second)).inner, range(3))
    train(second, KINDS[name](groups_of(second)).inner, range(3, 6))
    assert not same(second, straight)


def test_a_restored_optimizer_of_bfloat16_continues_bit_for_bit():
    straight, net = Net().bfloat16(), Net().bfloat16()
    inner = [Adam([{"params": list(n.parameters())}], lr=0.01).inner for n in (straight, net)]
    for t in range(6):
        for n, o in zip((straight, net), inner, strict=True):
            for p in n.parameters():
                p.grad = torch.full_like(p, 0.1 * (t + 1))
            o.step()
        if t == 2:
            tensors, rest = flatten_state(inner[1], names_of(net))
            inner[1] = Adam([{"params": list(net.parameters())}], lr=0.5).inner
            restore_state(inner[1], names_of(net), tensors, rest)
    assert same(straight, net)


def test_state_tensors_are_named_by_parameter_and_key():
    net = Net()
    inner = Adam(groups_of(net)).inner
    train(net, inner, range(4))
    tensors, rest = flatten_state(inner, names_of(net))
    trained = ("inner.weight", "inner.bias", "columns", "scale", "late")
    assert set(tensors) == {f"{n}/{k}" for n in trained for k in ("step", "exp_avg", "exp_avg_sq")}
    assert tensors["inner.weight/step"].item() == 4 and tensors["late/step"].item() == 2
    assert rest["groups"][1]["params"] == ["scale", "late"] and "fused" not in rest["groups"][0]["options"]


def test_restored_tensors_are_copies():
    net = Net()
    inner = Adam(groups_of(net)).inner
    train(net, inner, range(3))
    tensors, rest = flatten_state(inner, names_of(net))
    stored = {key: tensor.clone() for key, tensor in tensors.items()}
    restore_state(inner, names_of(net), stored, rest)
    before = copy.deepcopy(stored)
    train(net, inner, range(3, 5))
    assert all(torch.equal(before[key], stored[key]) for key in stored)


def test_an_unfused_state_can_be_restored_into_a_fused_optimizer_and_back():
    """A checkpoint of one machine on another: how a step is computed is the machine's own."""
    net = Net()
    plain = torch.optim.Adam(groups_of(net), lr=0.01, fused=False)
    train(net, plain, range(3))
    fused = Adam(groups_of(net), lr=0.01).inner
    restore_state(fused, names_of(net), *flatten_state(plain, names_of(net)))
    assert all(group["fused"] for group in fused.param_groups)
    train(net, fused, range(3, 5))
    restore_state(plain, names_of(net), *flatten_state(fused, names_of(net)))
    assert not any(group["fused"] for group in plain.param_groups)
    train(net, plain, range(5, 7))
    assert plain.state[net.scale]["step"].item() == 7


@pytest.fixture
def saved():
    net = Net()
    inner = Adam(groups_of(net)).inner
    train(net, inner, range(3))
    return flatten_state(inner, names_of(net))


def refused(saved, match, net=None, kind: type[Optimizer] = Adam, groups=None):
    net = net or Net()
    inner = kind(groups or groups_of(net)).inner
    before = copy.deepcopy(inner.param_groups)
    with pytest.raises(ValueError, match=match):
        restore_state(inner, names_of(net), *saved)
    assert not inner.state
    assert [{k: v for k, v in g.items() if k != "params"} for g in inner.param_groups] == [
        {k: v for k, v in g.items() if k != "params"} for g in before
    ]


def test_missing_and_unexpected_parameters_are_listed(saved):
    net = Net()
    net.other = net.late
    del net.late
    groups = [
        {"params": [p for p in net.parameters() if p is not net.scale and p is not net.other]},
        {"params": [net.scale, net.other]},
    ]
    refused(saved, r"(?s)does not match.*missing parameters .*: other\n.*unexpected parameters .*: late", net, groups=groups)


def test_missing_and_unexpected_tensors_are_listed(saved):
    tensors, rest = saved
    tensors["x/exp_avg"] = tensors.pop("scale/exp_avg")
    del tensors["inner.bias/step"]
    refused((tensors, rest), r"(?s)missing tensors: inner\.bias/step, scale/exp_avg\n.*unexpected tensors: x/exp_avg")


def test_wrong_shapes_and_data_types_are_listed(saved):
    tensors, rest = saved
    tensors["late/exp_avg"] = torch.zeros(6)
    tensors["scale/exp_avg_sq"] = tensors["scale/exp_avg_sq"].double()
    refused((tensors, rest), r"late/exp_avg: stored with shape \(6,\), but the parameter has shape \(5,\)")
    refused((tensors, rest), r"scale/exp_avg_sq: stored as torch.float64, but the parameter is torch.float32")


def test_another_optimizer_or_grouping_is_refused(saved):
    refused(saved, "state of Adam, but the optimizer is SGD", kind=SGD)
    net = Net()
    refused(
        saved,
        "different parameter groups",
        net,
        groups=[{"params": list(net.parameters())}, {"params": [nn.Parameter(torch.ones(1))]}][:1],
    )


def test_the_order_within_a_group_does_not_matter(saved):
    net = Net()
    inner = Adam([{**g, "params": g["params"][::-1]} for g in groups_of(net)]).inner
    restore_state(inner, names_of(net), *saved)
    assert torch.equal(inner.state[net.late]["exp_avg"], saved[0]["late/exp_avg"])


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="the optimizer has no parameters"):
        RMSprop([{"params": []}])
    with pytest.raises(ValueError, match="momentum is 0"):
        SGD([{"params": [nn.Parameter(torch.ones(1))]}], nesterov=True)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        Adam([{"params": [nn.Parameter(torch.ones(1))]}], lr=-1)
    with pytest.raises(ValueError, match=r"1 parameters of the optimizer have no name \(shapes \[\(3,\)\]\)"):
        flatten_state(SGD([{"params": [nn.Parameter(torch.ones(3))]}]).inner, {})
