"""Outputs of operations on the meta device: remembered ones equal those that PyTorch derives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.training import meta_outputs
from weft.training.meta_outputs import MetaOutputs

ATEN = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="meta")


def described(result: object) -> object:
    if isinstance(result, Tensor):
        return tuple(result.shape), result.stride(), result.dtype, result.device.type
    return [described(value) for value in result] if isinstance(result, tuple | list) else result


CALLS = {
    "matrix product": (ATEN.mm.default, (meta(3, 4), meta(4, 5)), {}),
    "transposed": (ATEN.mm.default, (meta(4, 3).t(), meta(5, 4).t()), {}),
    "broadcast": (ATEN.add.Tensor, (meta(3, 1), meta(4)), {"alpha": 2}),
    "strides of the input": (ATEN.mul.Tensor, (meta(4, 3).t(), 2.0), {}),
    "an integer by a float": (ATEN.mul.Tensor, (meta(3, dtype=torch.int64), 1.0), {}),
    "an integer by an integer": (ATEN.mul.Tensor, (meta(3, dtype=torch.int64), 1), {}),
    "an integer by a boolean": (ATEN.mul.Tensor, (meta(3, dtype=torch.int64), True), {}),
    "several outputs": (ATEN.native_layer_norm.default, (meta(2, 3), [3], meta(3), meta(3), 1e-5), {}),
    "list of tensors": (ATEN.cat.default, ([meta(2, 3), meta(1, 3)], 0), {}),
    "a copy of another type": (ATEN._to_copy.default, (meta(2, 3),), {"dtype": torch.bfloat16}),
    "no tensor": (ATEN.arange.start_step, (0, 7, 2), {"dtype": torch.int64, "device": torch.device("meta")}),
    "topk": (ATEN.topk.default, (meta(2, 9), 3), {}),
}


def test_remembered_outputs_equal_those_of_pytorch() -> None:
    known = MetaOutputs()
    for _ in range(2):  # all of them first, so that equal keys of different operations would be found
        for name, (func, args, kwargs) in CALLS.items():
            assert described(known(func, args, kwargs)) == described(func(*args, **kwargs)), name
    assert len(known.outputs) == len(CALLS)


def test_an_operation_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known, calls = MetaOutputs(), list[object]()

    def func(*args: object) -> Tensor:
        calls.append(args)
        return ATEN.mm.default(*args)

    monkeypatch.setattr(meta_outputs, "_is_functional", lambda _: True)
    for rows in (3, 3, 7, 3):
        assert known(func, (meta(rows, 4), meta(4, 5)), {}).shape == (rows, 5)
    assert len(calls) == 2


def test_views_and_changes_of_arguments_are_not_remembered() -> None:
    known, x = MetaOutputs(), meta(2, 3)
    assert known(ATEN.add_.Tensor, (x, 1), {}) is x
    assert known(ATEN.view.default, (x, [6]), {})._base is x
    out = meta(2, 3)
    assert known(ATEN.add.out, (x, x), {"out": out}) is out
    assert not known.outputs


def test_tensors_with_values_are_computed() -> None:
    known = MetaOutputs()
    for value in (1.0, 2.0):
        assert known(ATEN.mul.Tensor, (torch.tensor([value]), 2), {}).tolist() == [2 * value]
    assert known(ATEN.arange.default, (3,), {}).tolist() == [0, 1, 2]
    assert not known.outputs


def test_the_default_type_is_part_of_the_key() -> None:
    known = MetaOutputs()
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert known(ATEN.mul.Tensor, (meta(3, dtype=torch.int64), 1.5), {}).dtype == dtype
        finally:
            torch.set_default_dtype(torch.float32)


def test_errors_are_raised_again() -> None:
    known = MetaOutputs()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            known(ATEN.mm.default, (meta(3, 4), meta(3, 4)), {})


def test_the_number_of_remembered_operations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meta_outputs, "MAX_KNOWN", 5)
    known = MetaOutputs()
    for size in range(1, 30):
        known(ATEN.add.Tensor, (meta(size), 1), {})
        assert len(known.outputs) <= 5
