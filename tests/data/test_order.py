from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.seeding import key
from weft.data.order import Buckets, mix, permute

COSTS = st.one_of(*(st.lists(st.integers(0, most), min_size=1, max_size=120) for most in (300, 12)))


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
@settings(max_examples=60)
def test_permute_is_a_bijection(n: int, k: int) -> None:
    assert sorted(permute(np.arange(n), n, k).tolist()) == list(range(n))


@given(st.integers(1, 10**12), st.integers(0, 2**64 - 1), st.data())
@settings(max_examples=40)
def test_permute_stays_in_range_and_each_number_is_sent_by_itself(n: int, k: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20, unique=True))
    together = permute(np.array(numbers), n, k).tolist()
    assert all(0 <= x < n for x in together) and len(set(together)) == len(numbers)
    assert together == [int(permute(np.array([i]), n, k)[0]) for i in numbers]


def test_permute_looks_random() -> None:
    n = 1000
    moved = permute(np.arange(n), n, key(3))
    assert abs(np.corrcoef(np.arange(n), moved)[0, 1]) < 0.15
    assert (np.diff(moved) == 1).mean() < 0.02
    other = permute(np.arange(n), n, key(4))
    assert (moved == other).mean() < 0.02


def test_the_order_is_a_promise() -> None:
    """A run that is resumed under a later version must find the same order: these numbers may never change."""
    assert key(1, "main", (2, 3)) == 16274212302096387455
    assert permute(np.arange(12), 12, 5).tolist() == [2, 4, 0, 6, 3, 9, 10, 11, 1, 5, 8, 7]
    assert Buckets(np.arange(40), 64).rows(key(1), 2, 11).tolist() == [13, 9, 12]


def test_permute_refuses_what_lies_outside() -> None:
    with pytest.raises(ValueError, match=r"0 \.\. 4, not 2 to 5"):
        permute(np.array([2, 5]), 5, 1)


def test_key_tells_parts_apart_but_not_kinds_of_int() -> None:
    assert key(1, 2) == key(np.int64(1), np.uint8(2))
    different = [
        key(1, 2),
        key(12),
        key("1", 2),
        key((1, 2)),
        key("1,2"),
        key(1, "2"),
        key(2, 1),
        key("a", "b"),
        key("ab"),
        key(),
    ]
    assert len(set(different)) == len(different)
    with pytest.raises(TypeError, match="float"):
        key(1.5)  # pyright: ignore[reportArgumentType]


def test_mix_is_splitmix64() -> None:
    # the first output of SplitMix64 seeded with 0 is the finalizer of its increment
    assert int(mix(np.array([0]), 0x9E3779B97F4A7C15)[0]) == 0xE220A8397B1DCDAF


@given(COSTS, st.integers(1, 400), st.integers(0, 5), st.integers(0, 2**64 - 1))
@settings(max_examples=150)
def test_every_row_exactly_once_an_epoch_and_no_batch_over_budget(costs: list[int], budget: int, epoch: int, seed: int) -> None:
    order = Buckets(np.array(costs), budget)
    batches = [order.rows(seed, epoch, i) for i in range(len(order))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(costs)))
    for rows in batches:
        widest = max(costs[r] for r in rows)
        assert len(rows) == 1 or len(rows) * widest <= budget


@given(COSTS, st.integers(1, 500), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_a_batch_depends_on_epoch_and_index_alone(costs: list[int], budget: int, random) -> None:
    first, second = Buckets(np.array(costs), budget), Buckets(np.array(costs, np.uint16), budget)
    indices = [(epoch, i) for epoch in range(3) for i in range(len(first))]
    there = {index: first.rows(9, *index).tolist() for index in indices}
    random.shuffle(indices)
    assert {index: second.rows(9, *index).tolist() for index in indices} == there


def test_epochs_and_seeds_differ_in_batches_and_in_their_order() -> None:
    costs = np.random.default_rng(0).integers(1, 6, 1000) * 12  # so that a batch's cost identifies its bucket
    order = Buckets(costs, 120)

    def epoch(seed: int, number: int) -> list[list[int]]:
        return [order.rows(key(seed), number, i).tolist() for i in range(len(order))]

    runs = [epoch(1, 0), epoch(1, 1), epoch(2, 0)]
    assert epoch(1, 0) == runs[0]
    for run in runs:
        assert sorted(row for batch in run for row in batch) == list(range(1000))
    sets = [{frozenset(batch) for batch in run if len(batch) > 2} for run in runs]
    assert sets[0].isdisjoint(sets[1]) and sets[0].isdisjoint(sets[2])
    buckets = [[int(costs[batch[0]]) for batch in run] for run in runs]
    assert buckets[0] != sorted(buckets[0])
    assert buckets[0] != buckets[1] and buckets[0] != buckets[2]


def test_rows_of_a_batch_are_alike_and_a_bucket_is_shared_out_evenly() -> None:
    costs = np.random.default_rng(1).integers(5, 200, 50_000)
    order = Buckets(costs, 1000)
    for i in range(len(order)):
        batch = costs[order.rows(key(0), 0, i)]
        assert batch.max() <= batch.min() * 1.08 + 1
    assert len(Buckets(np.full(9, 10), 80)) == 2
    nine = Buckets(np.full(9, 10), 80)
    assert sorted(len(nine.rows(1, 0, i)) for i in range(2)) == [4, 5]


def test_short_rows_are_parted_by_length_and_few_rows_make_few_batches() -> None:
    short = np.random.default_rng(2).integers(2, 9, 5000)
    order = Buckets(short, 400)
    sampled = [order.rows(key(0), 0, i) for i in range(len(order))]
    assert all(len(set(short[rows].tolist())) == 1 for rows in sampled)
    assert max(map(len, sampled)) <= 400 // 8, "a batch of hundreds of rows would be one update for all of them"
    assert len(Buckets(np.ones(64, np.int64), 32)) == 2, "rows that all cost one are no short texts"
    assert len(Buckets(np.arange(2, 42), 10_000)) == 1, "40 rows of 40 costs fit into one batch"
    assert len(Buckets(np.arange(2, 42), 400)) <= 6, "860 tokens"


@given(COSTS, COSTS, st.integers(1, 60))
@settings(max_examples=80)
def test_parted_by_a_second_length_every_row_is_still_there_once_and_within_the_budget(a, b, budget: int) -> None:
    n = min(len(a), len(b))
    first, cost = np.array(a[:n]), np.array(a[:n]) + np.array(b[:n])
    order = Buckets(cost, budget, beside=first)
    batches = [order.rows(7, 1, i) for i in range(len(order))]
    assert sorted(np.concatenate(batches).tolist()) == list(range(n))
    assert all(len(rows) == 1 or len(rows) * cost[rows].max() <= budget for rows in batches)


def test_two_texts_of_different_lengths_are_padded_less_when_both_count() -> None:
    rng = np.random.default_rng(3)
    first = rng.integers(5, 30, 20_000)
    second = np.maximum(1, (first * rng.normal(1.0, 0.25, first.size)).astype(int))

    def padded_tokens(order: Buckets) -> int:
        rows = [order.rows(key(0), 0, i) for i in range(len(order))]
        return sum(len(r) * int(first[r].max() + second[r].max()) for r in rows)

    real = int((first + second).sum())
    plain, parted = padded_tokens(Buckets(first + second, 1500)), padded_tokens(Buckets(first + second, 1500, beside=first))
    assert (parted - real) < 0.7 * (plain - real)


def test_messages() -> None:
    with pytest.raises(ValueError, match="one value per row"):
        Buckets(np.array([]), 10)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Buckets(np.array([1]), 0)
    with pytest.raises(ValueError, match=r"growth must be greater than 1, not 1\.0"):
        Buckets(np.array([1]), 1, growth=1.0)
    with pytest.raises(ValueError, match=r"the batch index must be in 0 \.\. 0, not 1"):
        Buckets(np.array([1]), 1).rows(0, 0, 1)
