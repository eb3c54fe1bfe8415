"""Keys and values that grow: in place where that is safe, always equal to a concatenation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.seq import KV


def pieces(rows: int, width: int, seed: int, masked: bool) -> KV:
    generator = torch.Generator().manual_seed(seed)
    key, value = torch.randn(2, rows, 2, width, 3, generator=generator)
    mask = torch.rand(rows, width, generator=generator) > 0.3 if masked else None
    return KV(key, value, mask, torch.randint(0, 99, (rows, width), generator=generator))


def joined(parts: list[KV]) -> KV:
    """The concatenation, as it is computed with gradients."""
    with torch.enable_grad():
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.join(part)
    return whole


def assert_equal(found: KV, expected: KV) -> None:
    for ours, theirs in zip(
        (found.key, found.value, found.position, found.real()),
        (expected.key, expected.value, expected.position, expected.real()),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=2, max_size=8))
def test_equals_a_concatenation(parts: list[tuple[int, bool]]) -> None:
    kvs = [pieces(3, width, seed, masked) for seed, (width, masked) in enumerate(parts)]
    with torch.no_grad():
        found = kvs[0]
        for kv in kvs[1:]:
            found = found.join(kv)
    assert_equal(found, joined(kvs))
    assert (found.mask is None) == (not any(masked for _, masked in parts))


@torch.no_grad()
def test_states_from_one_state_do_not_write_into_each_other() -> None:
    start = pieces(2, 4, 0, False).join(pieces(2, 1, 1, False))
    left, right = start.join(pieces(2, 1, 2, False)), start.join(pieces(2, 1, 3, True))
    longer = left.join(pieces(2, 1, 4, False))
    assert_equal(right, joined([pieces(2, 4, 0, False), pieces(2, 1, 1, False), pieces(2, 1, 3, True)]))
    assert_equal(longer, joined([pieces(2, 4, 0, False), pieces(2, 1, 1, False), pieces(2, 1, 2, False), pieces(2, 1, 4, False)]))


@torch.no_grad()
@pytest.mark.parametrize("masked", [False, True])
def test_a_selection_is_a_copy_of_its_rows(masked: bool) -> None:
    start = pieces(3, 4, 0, masked).join(pieces(3, 1, 1, False))
    expected = joined([pieces(3, 4, 0, masked), pieces(3, 1, 1, False)])
    rows = torch.tensor([2, 0, 2, 1])
    chosen = start.select(rows)
    start.join(pieces(3, 1, 5, False))
    chosen.join(pieces(4, 1, 6, False))
    assert_equal(chosen, expected.select(rows))
    assert_equal(start, expected)


@torch.no_grad()
def test_most_steps_copy_nothing() -> None:
    kv, moves = pieces(2, 8, 0, False), 0
    for step in range(500):
        before = kv.key.data_ptr()
        kv = kv.join(pieces(2, 1, step, False))
        moves += kv.key.data_ptr() != before
    assert kv.width == 508
    assert moves <= 7


def test_gradients_reach_every_part() -> None:
    first, second = pieces(2, 3, 0, False), pieces(2, 1, 1, False)
    first.key.requires_grad_()
    first.join(second).key.sum().backward()
    assert first.key.grad is not None and bool((first.key.grad == 1).all())
