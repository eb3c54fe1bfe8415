from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Objective
from weft.core.fields import Info, TextField
from weft.core.loss import Loss
from weft.data import Column, Feed, TokenDataset, evaluation_batches

INFO = Info({"text": TextField("text", 1000)})


class Noisy(Objective):
    """Passes on the ids and a number sampled for the row; rows whose first id is 13 teach nothing."""

    def __init__(self):
        super().__init__(INFO, 4)

    def prepare(self, example: Any, rng: np.random.Generator, pool: Any) -> Instance | None:
        if example["text"][0] == 13:
            rng.random(5)
            return None
        extra = rng.integers(0, 2**31, int(rng.integers(1, 4)), dtype=np.int32)
        return Instance(text=example["text"], noise=float(rng.random()), extra=extra)

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        raise AssertionError("a feed computes no loss")


class Other(Noisy):
    pass


def dataset(rows: int = 200, bad: tuple[int, ...] = ()) -> TokenDataset:
    rng = np.random.default_rng(5)
    ids = [[13 if r in bad else r + 20, *rng.integers(20, 900, int(rng.integers(0, 30)))] for r in range(rows)]
    return TokenDataset({"text": Column.of(ids)}, raw=lambda row: {"text": str(row)})


def contents(batch: Batch | None) -> dict[int, tuple[list[int], float]]:
    """What each row became, by its number."""
    if batch is None:
        return {}
    text, noise = batch["text"], batch["noise"]
    return {row: (text.data[i][text.real()[i]].tolist(), float(noise[i])) for i, row in enumerate(batch.rows)}


def test_an_epoch_has_every_row_once() -> None:
    feed = Feed(dataset(), Noisy(), key=(1, "main"), budget=100)
    for epoch in (0, 3):
        draws = range(epoch * len(feed), (epoch + 1) * len(feed))
        assert sorted(int(r) for d in draws for r in feed.rows(d)) == list(range(200))
        assert {feed.epoch(d) for d in draws} == {epoch}
    assert [feed.rows(0).tolist()] != [feed.rows(len(feed)).tolist()]


def test_the_batch_is_the_rows_of_the_draw() -> None:
    data = dataset()
    feed = Feed(data, Noisy(), key=1, budget=100)
    batch = feed.batch(7)
    assert batch is not None and batch.rows == tuple(feed.rows(7).tolist()) and len(batch) == len(batch.rows)
    assert {row: ids for row, (ids, _) in contents(batch).items()} == {r: data[r]["text"].tolist() for r in batch.rows}


@given(st.integers(0, 500), st.integers(1, 5), st.sets(st.integers(0, 199), max_size=150))
@settings(max_examples=40, deadline=None)
def test_neither_processes_nor_missing_rows_change_what_a_row_becomes(draw: int, world: int, without: set[int]) -> None:
    whole = contents(Feed(dataset(), Noisy(), key=(1, "main"), budget=150).batch(draw))
    feed = Feed(dataset(), Noisy(), key=(1, "main"), budget=150)
    feed.batch((draw * 7 + 1) % 300)  # earlier batches do not matter
    parts = [feed.batch(draw, frozenset(without), rank, world) for rank in range(world)]
    merged = {row: value for part in parts for row, value in contents(part).items()}
    assert merged == {row: value for row, value in whole.items() if row not in without}
    sizes = [len(part) if part is not None else 0 for part in parts]
    assert sum(sizes) == len(merged) and max(sizes) - min(sizes) <= 1


def test_process_r_takes_every_wth_row() -> None:
    feed = Feed(dataset(), Noisy(), key=1, budget=200)
    rows = feed.rows(3).tolist()
    gone = frozenset(rows[:1])
    batch = feed.batch(3, gone, 1, 2)
    assert batch is not None and batch.rows == tuple(rows[1:][1::2])


def test_randomness_differs_by_seed_epoch_row_and_objective() -> None:
    def noise(key: Any, epoch: int, objective: Objective) -> dict[int, float]:
        feed = Feed(dataset(), objective, key=key, budget=100)
        draws = range(epoch * len(feed), (epoch + 1) * len(feed))
        return {row: value for d in draws for row, (_, value) in contents(feed.batch(d)).items()}

    first = noise((1, "main"), 0, Noisy())
    assert len(set(first.values())) == 200
    for other in (
        noise((2, "main"), 0, Noisy()),
        noise((1, "aux"), 0, Noisy()),
        noise((1, "main"), 1, Noisy()),
        noise((1, "main"), 0, Other()),
    ):
        assert all(first[row] != other[row] for row in first)
    assert noise((1, "main"), 0, Noisy()) == first


def test_rows_that_teach_nothing_are_counted_and_a_batch_without_rows_is_none() -> None:
    feed = Feed(dataset(bad=(3, 50, 51)), Noisy(), key=1, budget=100)
    rows = [r for d in range(len(feed)) if (b := feed.batch(d)) is not None for r in b.rows]
    assert feed.skipped == 3 and sorted(rows) == sorted(set(range(200)) - {3, 50, 51})
    assert feed.batch(0, frozenset(range(200))) is None
    only = Feed(dataset(2, bad=(0, 1)), Noisy(), key=1, budget=100)
    assert only.batch(0) is None


def test_padding_is_counted() -> None:
    feed = Feed(dataset(), Noisy(), key=1, budget=300)
    real = total = 0
    for draw in range(len(feed)):
        batch = feed.batch(draw)
        assert batch is not None
        for name in ("text", "extra"):
            real += int(batch[name].lengths().sum())
            total += batch[name].data.numel()
    assert (feed.padding.real, feed.padding.total) == (real, total)
    assert feed.padding.ratio == pytest.approx(1 - real / total) and 0 < feed.padding.ratio < 0.3


def test_evaluation_sees_every_row_once_shortest_first_the_same_each_time() -> None:
    data = dataset(bad=(9,))
    sweep = evaluation_batches(data, Noisy(), 100, (1, "valid"))
    batches = list(sweep)
    assert sorted(r for b in batches for r in b.rows) == sorted(set(range(200)) - {9}) and sweep.skipped == 1
    lengths = [int(data.lengths["text"][r]) for b in batches for r in b.rows]
    assert lengths == sorted(lengths)
    assert all(len(b) == 1 or len(b) * b["text"].width <= 100 for b in batches)
    again = list(evaluation_batches(data, Noisy(), 1000, (1, "valid")))
    assert len(again) < len(batches)
    merged = [{row: value for b in run for row, value in contents(b).items()} for run in (batches, again)]
    assert merged[0] == merged[1]
    assert all(b["text"].width > 100 or len(b) > 1 for b in batches[:-1])


def test_messages() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Feed(dataset(), Noisy(), key=1, budget=0)
    with pytest.raises(ValueError, match="the dataset is empty"):
        Feed(dataset(0), Noisy(), key=1, budget=10)
    feed = Feed(dataset(), Noisy(), key=1, budget=10)
    with pytest.raises(ValueError, match="the batch index must be at least 0, not -1"):
        feed.batch(-1)
    with pytest.raises(ValueError, match=r"rank must be in 0 \.\. 1, not 2"):
        feed.batch(0, rank=2, world=2)

    class Wrong(Noisy):
        def cost(self, lengths: Any) -> np.ndarray:
            return np.ones(3)

    with pytest.raises(ValueError, match=r"Wrong: cost has shape \(3,\), but must be \(200,\): one value per row"):
        Feed(dataset(), Wrong(), key=1, budget=10)
