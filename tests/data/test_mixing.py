"""Sampling from several datasets: proportions, passes, batches."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.batch import Instance
from weft.core.contracts import Objective
from weft.core.seeding import key
from weft.data import Column, Feed, TokenDataset
from weft.data.mixing import MixtureBuckets, MixtureDataset, proportions, quotas

SIZES = st.lists(st.integers(1, 120), min_size=1, max_size=4)


class Copy(Objective):
    """The text itself, and a random number to see the random choices of each visit."""

    def __init__(self):
        super().__init__(None, 1)

    def cost(self, lengths):
        return lengths["text"]

    def prepare(self, example, rng, dataset):
        return Instance(text=example["text"], noise=int(rng.integers(1 << 40)))

    def counts(self, batch):
        return {}

    def forward(self, model, batch, clock):
        return {}


def dataset(rows: int, seed: int = 0) -> TokenDataset:
    lengths = np.random.default_rng(seed).integers(1, 30, rows)
    return TokenDataset({"text": Column.of([7] * n for n in lengths.tolist())}, lambda row: {"text": str(row)})


@given(SIZES, st.floats(0.2, 20))
def test_shares_of_sizes_follow_the_temperature(sizes, temperature):
    shares = proportions(sizes, temperature=temperature)
    assert math.isclose(sum(shares), 1)
    for n, p in zip(sizes, shares, strict=True):
        assert math.isclose(p / shares[0], (n / sizes[0]) ** (1 / temperature), rel_tol=1e-9)


def test_shares_do_not_overflow():
    assert proportions([1000, 10], temperature=1e-3) == [1.0, 0.0]
    assert proportions([10, 10], temperature=1e-300) == [0.5, 0.5]
    assert proportions([1000, 10], weights=[1e308, 1e308]) == [0.5, 0.5]


def test_a_cap_bounds_the_size_that_counts():
    assert proportions([100, 900], max_examples=[None, 100]) == [0.5, 0.5]
    assert proportions([100, 900], max_examples=[50, 2000]) == pytest.approx([50 / 950, 900 / 950])


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6).filter(lambda w: sum(w) > 0.1), st.integers(10, 5000))
def test_quotas_are_the_shares_of_an_epoch(weights, examples):
    shares = proportions([1] * len(weights), weights=weights)
    found = quotas(shares, examples)
    assert all(abs(n - p * examples) < 1 or (n == 1 and p * examples < 1) for n, p in zip(found, shares, strict=True))
    assert examples <= sum(found) <= examples + len(weights)
    assert all((n > 0) == (p > 0) for n, p in zip(found, shares, strict=True))


@settings(max_examples=40, deadline=None)
@given(SIZES, st.data())
def test_each_row_occurs_once_in_each_pass_of_its_source(sizes, data):
    limits = [data.draw(st.integers(0, 3 * n)) for n in sizes]
    if not any(limits):
        limits[0] = 1
    epochs, source = 4, np.repeat(np.arange(len(sizes)), sizes)
    cost = np.random.default_rng(data.draw(st.integers(0, 99))).integers(1, 40, len(source))
    beside = data.draw(st.sampled_from([None, cost // 2]))
    size = data.draw(st.sampled_from([None, 8]))
    order = MixtureBuckets(cost, 100, sizes=sizes, quotas=limits, beside=beside, batch_size=size)
    visits: Counter[tuple[int, int]] = Counter()
    for epoch in range(epochs):
        for index in range(len(order)):
            rows, passes = order.sample(5, epoch, index)
            visits.update(zip(rows.tolist(), passes.tolist(), strict=True))
            assert len(rows) <= (size or max(1, 100 // max(cost[rows].max(initial=1), 1)))
    assert set(visits.values()) == {1}
    for i, (n, quota) in enumerate(zip(sizes, limits, strict=True)):
        rows = np.flatnonzero(source == i).tolist()
        complete = epochs * quota // n
        assert all((row, t) in visits for row in rows for t in range(complete))
        assert not any((row, t) in visits for row in rows for t in range(-(-epochs * quota // n) + 1, 20))
        found = sum(count for (row, _), count in visits.items() if source[row] == i)
        assert abs(found - epochs * quota) <= len(order.rows)


@pytest.mark.parametrize("limits", [[300, 300], [1000, 100], [37, 5000]])
def test_the_numbers_in_an_epoch_are_within_binomial_error(limits):
    sizes = [700, 220]
    cost = np.random.default_rng(1).integers(5, 60, sum(sizes))
    order = MixtureBuckets(cost, 600, sizes=sizes, quotas=limits)
    total = sum(limits)
    for epoch in range(3):
        rows = np.concatenate([order.sample(key(2), epoch, i)[0] for i in range(len(order))])
        share = limits[0] / total
        assert abs((rows < 700).sum() - limits[0]) <= 3 * math.sqrt(total * share * (1 - share))


def test_batches_mix_sources_and_have_similar_lengths():
    sizes = [500, 500]
    cost = np.random.default_rng(1).integers(5, 60, 1000)
    order = MixtureBuckets(cost, 800, sizes=sizes, quotas=sizes)
    batches = [order.sample(1, 0, i)[0] for i in range(len(order))]
    assert sum(0 < (rows < 500).sum() < len(rows) for rows in batches) > 0.9 * len(batches)
    padding = 1 - cost[np.concatenate(batches)].sum() / sum(len(rows) * cost[rows].max() for rows in batches)
    assert padding < 0.1


def test_the_order_depends_on_seed_and_epoch_alone():
    def batches(seed: int, epoch: int) -> list[list[int]]:
        order = MixtureBuckets(np.arange(90) % 9 + 1, 60, sizes=[60, 30], quotas=[45, 45])
        return [order.sample(seed, epoch, i)[0].tolist() for i in range(len(order))]

    assert batches(1, 2) == batches(1, 2)
    assert batches(1, 2) != batches(1, 3)
    assert batches(1, 2) != batches(2, 2)


def mixture(*numbers: int) -> MixtureDataset:
    return MixtureDataset({"a": dataset(50, 1), "b": dataset(20, 2)}, numbers)


def test_processes_share_the_batches_of_one_process():
    feed = Feed(mixture(30, 40), Copy(), key=(1, 0, "main"), budget=120)
    for draw in range(2 * len(feed)):
        whole = feed.batch(draw)
        assert whole is not None
        for world in (2, 3):
            shares = [share for rank in range(world) if (share := feed.batch(draw, frozenset(), rank, world)) is not None]
            rows = [(row, noise) for s in shares for row, noise in zip(s.rows, s["noise"].tolist(), strict=True)]
            assert sorted(rows) == sorted(zip(whole.rows, whole["noise"].tolist(), strict=True))


def test_every_visit_of_a_row_has_its_own_random_choices():
    feed = Feed(mixture(30, 60), Copy(), key=(1, 0, "main"), budget=120)
    noise = [
        (row, n)
        for d in range(3 * len(feed))
        for b in [feed.batch(d)]
        if b
        for row, n in zip(b.rows, b["noise"].tolist(), strict=True)
    ]
    assert len(set(noise)) == len(noise)
    assert max(Counter(row for row, _ in noise).values()) >= 3


def test_examples_left_out_are_in_no_batch():
    feed = Feed(mixture(50, 20), Copy(), key=(1, 0, "main"), budget=120)
    left = frozenset({3, 55})
    rows = {row for d in range(len(feed)) for b in [feed.batch(d, left)] if b for row in b.rows}
    assert rows == set(range(70)) - left


def test_rows_of_the_mixture_are_those_of_its_sources():
    mixed = mixture()
    assert [mixed.raw(row) for row in (0, 49, 50, 69)] == [{"text": t} for t in ("0", "49", "0", "19")]
    assert len(mixed) == 70 and len(mixed.lengths["text"]) == 70
    assert [len(mixed[row]["text"]) for row in range(70)] == mixed.lengths["text"].tolist()
    with pytest.raises(IndexError, match="70 rows"):
        mixed.raw(70)


def test_an_empty_source_is_named():
    with pytest.raises(ValueError, match="'b' of the mixture has no examples"):
        MixtureDataset({"a": dataset(3), "b": TokenDataset({"text": Column.of([])}, lambda row: {})})
