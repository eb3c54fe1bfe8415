"""Prepared weights: products equal those of torch, copies follow the weights, hooks are honored, memory is bounded."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks import Linear, MultiHeadAttention, onednn, prepared
from weft.blocks.linear import joint_products
from weft.blocks.prepared import USES_OF_ROW, USES_OF_ROWS, PreparedWeights, prepared_for, prepared_weights
from weft.core.masks import Causal
from weft.core.seq import Seq

CALLS = max(USES_OF_ROW, USES_OF_ROWS) + 2
SMALL, MIDDLE, LARGE = (20, 30), (512, 1024), (1024, 1600)
"""Never copied; transposed for one row; reordered for one row."""

pytestmark = pytest.mark.skipif(onednn.LINEAR is None, reason="torch was built without oneDNN or MKL")


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def layer_of(shape: tuple[int, int], bias: bool = True) -> Linear:
    return Linear(*shape, bias)


def used(layer: Linear, weights: PreparedWeights, rows: int = 2) -> Tensor:
    """An input, put through the layer so often that its weight is copied."""
    x = torch.randn(rows, layer.in_features)
    with weights.active():
        for _ in range(CALLS):
            layer(x)
    return x


def equal_to_torch(layer: Linear, weights: PreparedWeights, x: Tensor) -> None:
    with weights.active():
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lead", [(1,), (1, 1), (2,), (3, 5), (0,), ()])
@pytest.mark.parametrize("shape", [SMALL, MIDDLE, LARGE])
def test_products_equal_those_of_torch_before_and_after_the_copy(
    shape: tuple[int, int], lead: tuple[int, ...], bias: bool
) -> None:
    layer, weights = layer_of(shape, bias), PreparedWeights()
    for _ in range(CALLS):
        equal_to_torch(layer, weights, torch.randn(*lead, shape[0]))
    copied = shape != SMALL and lead not in ((0,), ())
    assert weights.bytes == (4 * shape[0] * shape[1] if copied else 0)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("biases", [(True, True, True), (True, False, True), (False, False, False)])
def test_joint_products_equal_those_of_each_layer(rows: int, biases: tuple[bool, bool, bool]) -> None:
    layers = [Linear(300, size, bias) for size, bias in zip((300, 100, 200), biases, strict=True)]
    weights, x = PreparedWeights(), torch.randn(2, rows // 2, 300) if rows > 1 else torch.randn(1, 1, 300)
    for _ in range(CALLS):
        with weights.active():
            found = joint_products(x, layers, nn.Module())
        assert found is not None
        for y, layer in zip(found, layers, strict=True):
            torch.testing.assert_close(y, F.linear(x, layer.weight, layer.bias), rtol=1e-5, atol=1e-5)
    assert weights.bytes == 4 * 300 * 600


def double(layer: Linear) -> None:
    layer.weight.mul_(2)


def replace_weight(layer: Linear) -> None:
    layer.weight = nn.Parameter(2 * layer.weight)


def replace_data(layer: Linear) -> None:
    layer.weight.data = 2 * layer.weight.data


def load(layer: Linear) -> None:
    layer.load_state_dict({name: 2 * value for name, value in layer.state_dict().items()})


@pytest.mark.parametrize("change", [double, replace_weight, replace_data, load])
@pytest.mark.parametrize("rows", [1, 2])
def test_changed_weights_are_copied_again(rows: int, change: Callable[[Linear], None]) -> None:
    layer, weights = layer_of(MIDDLE), PreparedWeights()
    x = used(layer, weights, rows)
    before = weights.bytes
    assert before > 0
    change(layer)
    equal_to_torch(layer, weights, x)
    weights.drop_changed()
    used(layer, weights, rows)
    equal_to_torch(layer, weights, x)
    assert weights.bytes == before


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_changed_weights_of_joint_products_are_copied_again(part: str) -> None:
    layers, weights, x = [layer_of(MIDDLE) for _ in range(3)], PreparedWeights(), torch.randn(2, 512)
    for change in (False, True):
        if change:
            getattr(layers[1], part).mul_(2)
        for _ in range(CALLS):
            with weights.active():
                found = joint_products(x, layers, nn.Module())
            assert found is not None
            torch.testing.assert_close(found[1], F.linear(x, layers[1].weight, layers[1].bias), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("change", ["data", "numpy", "order"])
def test_changes_that_torch_does_not_count_are_found_at_the_next_use(change: str) -> None:
    layer = layer_of(MIDDLE)
    x = used(layer, prepared_for(layer))
    version = layer.weight._version
    if change == "order":
        layer.weight.data[:, :2] = layer.weight.data[:, :2].flip(1)
    elif change == "data":
        layer.weight.data[:, 5] += 1
    else:
        layer.weight.numpy()[:, 5] += 1
    assert layer.weight._version == version
    equal_to_torch(layer, prepared_for(layer), x)


def test_copies_of_unchanged_weights_are_kept_as_long_as_the_model_lives() -> None:
    layer = layer_of(MIDDLE)
    weights = prepared_for(layer)
    used(layer, weights)
    before = weights.bytes
    assert prepared_for(layer) is weights and weights.bytes == before > 0
    reference = weakref.ref(weights)
    del layer, weights
    gc.collect()
    assert reference() is None


def test_copies_take_at_most_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 4 * MIDDLE[0] * MIDDLE[1]
    monkeypatch.setattr(prepared, "MAX_BYTES", 2 * size)
    weights, layers = PreparedWeights(), [layer_of(MIDDLE) for _ in range(3)]
    for layer in layers:
        x = used(layer, weights)
        equal_to_torch(layer, weights, x)
    assert weights.bytes == 2 * size


def test_gradients_lower_precision_and_other_contexts_use_the_weights_as_they_are() -> None:
    layer, weights = layer_of(MIDDLE), PreparedWeights()
    x = used(layer, weights)
    assert prepared_weights(x) is None
    with weights.active():
        assert prepared_weights(x) is weights
        assert prepared_weights(x.double()) is None and prepared_weights(x[0]) is None and prepared_weights(x.to("meta")) is None
        with torch.enable_grad():
            assert prepared_weights(x) is None
            layer(x).sum().backward()
        with torch.autocast("cpu", torch.bfloat16):
            assert prepared_weights(x) is None and layer(x).dtype == torch.bfloat16
        found = torch.func.vmap(lambda one: layer(one[None]))(x)
    assert layer.weight.grad is not None
    torch.testing.assert_close(found[:, 0], layer(x), rtol=1e-5, atol=1e-5)


def test_computed_weights_are_used_as_they_are() -> None:
    layer, weights = layer_of(MIDDLE), PreparedWeights()
    torch.nn.utils.parametrizations.weight_norm(layer)
    x = used(layer, weights)
    equal_to_torch(layer, weights, x)
    assert weights.bytes == 0 and not weights._of


class Doubled(Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


@pytest.mark.parametrize("change", ["hook", "pre-hook", "subclass", "forward", "hook of the attention"])
def test_attention_honors_hooks_and_subclasses(change: str) -> None:
    """Self-attention computes queries, keys and values in one product, unless a module does more than its own product."""
    attention: Any = MultiHeadAttention(64, heads=4)
    weights, x = PreparedWeights(), Seq(torch.randn(2, 40, 64))
    calls: list[int] = []

    def note(*of: object) -> None:
        calls.append(1)

    if change == "hook":
        attention.key.register_forward_hook(note)
    elif change == "pre-hook":
        attention.value.register_forward_pre_hook(note)
    elif change == "subclass":
        changed = Doubled(64, 64)
        changed.load_state_dict(attention.query.state_dict())
        attention.query = changed
    elif change == "forward":
        attention.query.forward = lambda input: torch.zeros_like(input)
    else:
        attention.register_forward_hook(note)
    wanted = attention.mix(x, Causal(), None, None).hidden.data
    before = len(calls)
    with weights.active():
        for _ in range(CALLS):
            found = attention.mix(x, Causal(), None, None).hidden.data
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert len(calls) == before + (CALLS if before else 0) and bool(before) == ("hook" in change)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2}, {"tied": "query-key"}, {"bias": False}])
def test_self_attention_with_prepared_weights_equals_that_without(options: dict[str, Any]) -> None:
    weights, attention = PreparedWeights(), MultiHeadAttention(64, heads=4, **options)
    x = Seq(torch.randn(2, 80, 64))
    wanted: Any = attention.mix(x, Causal(), None, None)
    with weights.active():
        for _ in range(CALLS):
            found: Any = attention.mix(x, Causal(), None, None)
            torch.testing.assert_close(found.hidden.data, wanted.hidden.data, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(found.state.key, wanted.state.key, rtol=1e-5, atol=1e-5)
    assert weights.bytes > 0


def test_two_threads_may_drop_a_copy_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, weights = layer_of(MIDDLE), PreparedWeights()
    used(layer, weights)
    layer.weight.data.add_(1)
    is_unchanged = prepared._Prepared.is_unchanged

    def after_another_thread(found: prepared._Prepared) -> bool:
        unchanged = is_unchanged(found)
        monkeypatch.undo()
        weights.drop_changed()
        return unchanged

    monkeypatch.setattr(prepared._Prepared, "is_unchanged", after_another_thread)
    weights.drop_changed()
    assert weights.bytes == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_model_may_change_its_precision_between_uses(dtype: torch.dtype) -> None:
    layer = layer_of(MIDDLE)
    weights = prepared_for(layer)
    x = used(layer, weights)
    layer.to(dtype)
    with prepared_for(layer).active():
        assert layer(x.to(dtype)).dtype == dtype
    assert weights.bytes == 0
    layer.float()
    equal_to_torch(layer, prepared_for(layer), x)
