"""Attention under masks that allow only nearby keys: equal to the dense computation, in linear memory."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from weft.blocks import AdditiveScore, MultiHeadAttention, RelativePositionBias, RotaryPosition, record_attention
from weft.blocks.attention import sequence
from weft.core.contracts import Position
from weft.core.masks import Causal, Full, Global, Mask, Prefix, Strided, Window
from weft.core.seq import Seq

WIDTH = 300
NEAR = [
    Window(reach=5),
    Window(reach=0),
    Causal() & Window(reach=7),
    Window(reach=40) & Causal(),
    Window(reach=3) | Global(tokens=2),
    Causal() & (Window(reach=3) | Global()),
    Strided(stride=4) & Window(reach=9),
]


class Distance(Position):
    """A bias that is a function of the positions, for any queries and keys."""

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor:
        slopes = torch.tensor([0.1, 0.2])
        return -slopes[:, None, None] * (query_BT[:, None, :, None] - key_BS[:, None, None, :]).abs()


def inputs(padding: str) -> Seq:
    data = torch.randn(2, WIDTH, 8, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, WIDTH, dtype=torch.bool)
    if padding == "right":
        mask[1, -131:] = False
    elif padding == "left":
        mask[1, :131] = False
    elif padding == "inside":
        mask[1, 60:68] = False
    return Seq(data, None if padding == "none" else mask)


def both(module: MultiHeadAttention, x: Seq, mask: Mask, position: Position | None = None) -> tuple[Tensor, Tensor, bool]:
    """The output as it is computed, the dense output, and whether the two were computed in different ways."""
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        original = sequence._attend_nearby
        patch.setattr(sequence, "_attend_nearby", lambda *given: (calls.append(1), original(*given))[1])
        found = module.mix(x, mask, position, None).hidden.data
        patch.setattr(sequence, "_nearby", lambda *given: None)
        dense = module.mix(x, mask, position, None).hidden.data
    return found, dense, bool(calls)


def assert_equal(x: Seq, found: Tensor, dense: Tensor) -> None:
    torch.testing.assert_close(found[x.real()], dense[x.real()], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("padding", ["none", "right", "left", "inside"])
@pytest.mark.parametrize("mask", NEAR, ids=str)
def test_equals_the_dense_mask(mask: Mask, padding: str) -> None:
    x, module = inputs(padding), MultiHeadAttention(8, heads=2)
    found, dense, skipped = both(module, x, mask)
    assert_equal(x, found, dense)
    assert skipped == (padding in ("none", "right") or (padding == "left" and not mask.locality().first))


@pytest.mark.parametrize("position", [Distance(8), RotaryPosition(8)], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("padding", ["none", "right"])
def test_position_encodings_see_the_same_positions(position: Position, padding: str) -> None:
    x, module = inputs(padding), MultiHeadAttention(8, heads=2)
    for mask in (Causal() & Window(reach=7), Window(reach=3) | Global(tokens=2)):
        found, dense, skipped = both(module, x, mask, position)
        assert skipped
        assert_equal(x, found, dense)


@pytest.mark.parametrize("options", [{"score": AdditiveScore}, {"kv_heads": 1}, {"tied": "query-key-value"}], ids=str)
def test_every_kind_of_attention(options: dict) -> None:
    x, module = inputs("right"), partial(MultiHeadAttention, heads=2, **options)(8)
    found, dense, skipped = both(module, x, Window(reach=5) | Global(tokens=3))
    assert skipped
    assert_equal(x, found, dense)


def test_gradients_equal_those_of_the_dense_mask() -> None:
    x, module = inputs("right"), MultiHeadAttention(8, heads=2)
    direction = torch.randn(2, WIDTH, 8, generator=torch.Generator().manual_seed(2)) * x.real()[:, :, None]
    found = []
    for output in both(module, x, Causal() & (Window(reach=6) | Global(tokens=2)))[:2]:
        found.append(torch.autograd.grad((output * direction).sum(), list(module.parameters()), retain_graph=True))
    for near, dense in zip(*found, strict=True):
        torch.testing.assert_close(near, dense, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mask", [Full(), Causal(), Prefix(3), Strided(stride=4), Window(reach=200)], ids=str)
def test_masks_that_save_nothing_are_computed_at_once(mask: Mask) -> None:
    assert not both(MultiHeadAttention(8, heads=2), inputs("none"), mask)[2]


def test_what_is_recorded_or_known_only_at_once_is_computed_at_once() -> None:
    x, module, mask = inputs("none"), MultiHeadAttention(8, heads=2), Window(reach=2)
    maps: list[Tensor] = []
    with record_attention(lambda owner, weight: maps.append(weight)):
        both(module, x, mask)
    assert maps[0].shape == (2, 2, WIDTH, WIDTH)
    position = RelativePositionBias(8, heads=2).at(x.positions(), None)
    assert not both(module, x, mask, position)[2]


def test_dropout_leaves_a_share_of_the_weights() -> None:
    module = MultiHeadAttention(8, heads=2, dropout=0.5)
    x, mask = inputs("none"), Window(reach=4)
    expected = module.eval().mix(x, mask, None, None).hidden.data
    module.train()
    mean = torch.stack([module.mix(x, mask, None, None).hidden.data for _ in range(300)]).mean(0)
    assert not torch.allclose(module.mix(x, mask, None, None).hidden.data, expected)
    torch.testing.assert_close(mean, expected, atol=0.15, rtol=0)


def test_memory_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor of the forward pass grows with the square of the length."""
    sizes = {}
    for width in (1000, 2000):
        largest = 0

        class Watch(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                nonlocal largest
                out = function(*args, **(kwargs or {}))
                if isinstance(out, Tensor) and not out.is_nested:
                    largest = max(largest, out.untyped_storage().nbytes())
                return out

        with Watch(), torch.no_grad():
            MultiHeadAttention(8, heads=2).mix(Seq(torch.ones(1, width, 8)), Causal() & Window(reach=16), None, None)
        sizes[width] = largest
    assert sizes[2000] < 2.2 * sizes[1000]
