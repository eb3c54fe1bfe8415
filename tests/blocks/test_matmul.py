"""Matrix product of linear layers: values and gradients equal those of torch, whichever library computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from weft.blocks import Linear
from weft.blocks import matmul as module
from weft.blocks.matmul import MIN_ROWS, linear

SHAPES = [(MIN_ROWS, 20), (4, MIN_ROWS, 20), (2, 3, 50, 20), (MIN_ROWS - 1, 20), (20,), (0, 20), (200, 0)]


def inputs(shape: tuple[int, ...], bias: bool = True) -> list[Tensor | None]:
    torch.manual_seed(0)
    x, weight = torch.randn(shape, requires_grad=True), torch.randn(30, shape[-1], requires_grad=True)
    return [x, weight, torch.randn(30, requires_grad=True) if bias else None]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry per call of oneDNN."""
    if module.onednn.LINEAR is None:
        pytest.skip("torch was built without oneDNN or MKL")
    inner, seen = module.onednn.LINEAR, list[int]()
    monkeypatch.setattr(module.onednn, "LINEAR", lambda *of: (seen.append(1), inner(*of))[1])
    return seen


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_equal_those_of_torch(shape: tuple[int, ...], bias: bool) -> None:
    given = inputs(shape, bias)
    wanted = [tensor for tensor in given if tensor is not None]
    ours, theirs = linear(*given), F.linear(*given)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    one = torch.randn(ours.shape)
    turned = torch.randn(ours.shape[::-1]).permute(*range(ours.ndim)[::-1])
    for gradient in (one, turned, torch.ones(1).expand(ours.shape)):
        for mine, reference in zip(
            *(torch.autograd.grad(y, wanted, gradient, retain_graph=True) for y in (ours, theirs)), strict=True
        ):
            torch.testing.assert_close(mine, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_only_tensors_that_require_gradients_get_them(frozen: int, calls: list[int]) -> None:
    given: list[Any] = inputs((MIN_ROWS, 20))
    given[frozen].requires_grad_(False)
    linear(*given).sum().backward()
    assert [tensor.grad is None for tensor in given] == [i == frozen for i in range(3)]
    assert len(calls) == (1 if frozen == 0 else 2)


def test_second_order_gradients_equal_those_of_torch(calls: list[int]) -> None:
    given: list[Any] = inputs((MIN_ROWS, 20))

    def twice(f: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        (first,) = torch.autograd.grad(f(*given).square().sum(), given[0], create_graph=True)
        return torch.autograd.grad(first.square().sum(), given)

    for ours, theirs in zip(twice(linear), twice(F.linear), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-2)
    assert calls


def test_onednn_computes_large_products_only(calls: list[int]) -> None:
    layer = Linear(20, 30)
    layer(torch.ones(MIN_ROWS - 1, 20))
    assert not calls
    layer(torch.ones(2, MIN_ROWS, 20)).sum().backward()
    assert len(calls) == 1  # the input needs no gradient
    with torch.inference_mode():
        layer(torch.ones(MIN_ROWS, 20))
    assert len(calls) == 2


def test_autocast_other_dtypes_and_function_transforms_use_torch(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    x, layer = torch.randn(2 * MIN_ROWS, 20), Linear(20, 30)
    weight, bias = layer.weight.detach(), layer.bias.detach()
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    layer(x)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert Linear(20, 30).double()(x.double()).dtype == torch.float64
    assert layer.to_empty(device="meta")(x.to("meta")).is_meta
    rows = torch.func.vmap(lambda row: linear(row, weight, bias))(x.view(2, MIN_ROWS, 20))
    torch.testing.assert_close(rows.flatten(0, 1), F.linear(x, weight, bias), rtol=1e-5, atol=1e-5)
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(linear(forward_ad.make_dual(x, torch.ones_like(x)), weight, bias)).tangent
    torch.testing.assert_close(moved, F.linear(torch.ones_like(x), weight), rtol=1e-5, atol=1e-5)
    assert not calls
