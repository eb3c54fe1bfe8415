"""The inference engine: answers in the order of the requests, batches within their budgets, bounded windows, errors in order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.core.batch import Instance
from weft.core.example import MarkedIds, Sequences
from weft.inference import engine
from weft.inference.engine import MAX_WINDOW_BATCHES, answers, instance_length, length_buckets, windows

lengths = st.lists(st.integers(0, 40), max_size=120)
limits = st.tuples(st.integers(1, 9), st.integers(1, 60))


@given(lengths, limits)
def test_answers_come_in_the_order_of_the_requests_from_batches_within_the_budgets(sizes, limit):
    max_rows, max_tokens = limit
    batches: list[list[int]] = []

    def compute(batch: list[int], numbers: list[int]) -> list[tuple[int, int]]:
        assert torch.is_inference_mode_enabled()
        batches.append(batch)
        return list(zip(numbers, batch, strict=True))

    found = list(answers(sizes, lambda window, first: window, compute, length=int, max_rows=max_rows, max_tokens=max_tokens))
    assert found == list(enumerate(sizes)) and not torch.is_inference_mode_enabled()
    for batch in batches:
        assert len(batch) <= max_rows
        assert len(batch) == 1 or len(batch) * max(batch) <= max_tokens


@given(lengths, limits)
def test_length_buckets_cover_each_row_once_with_similar_lengths(sizes, limit):
    buckets = list(length_buckets(sizes, *limit))
    assert sorted(row for bucket in buckets for row in bucket) == list(range(len(sizes)))
    ordered = [sizes[row] for bucket in buckets for row in bucket]
    assert ordered == sorted(sizes, reverse=True)


def test_windows_grow_to_a_bound_and_end_early_for_long_texts(monkeypatch):
    sizes = [len(window) for window in windows(range(20_000), 64)]
    assert sizes[:5] == [64, 128, 256, 512, 1024] and max(sizes) == MAX_WINDOW_BATCHES * 64 and sum(sizes) == 20_000
    monkeypatch.setattr(engine, "MAX_WINDOW_CHARACTERS", 100)
    texts = ["a" * 60, {"text": "b" * 60}, ("c" * 30, ["d" * 80]), "e"]
    assert [len(window) for window in windows(texts, 64)] == [2, 1, 1]


def test_only_one_window_is_read_ahead():
    read = 0

    def requests() -> Iterator[int]:
        nonlocal read
        for number in range(10_000):
            read += 1
            yield number

    most = 0
    for answer in answers(
        requests(), lambda window, first: window, lambda batch, numbers: batch, length=lambda one: 1, max_rows=8
    ):
        most = max(most, read - answer)
    assert read == 10_000 and most <= 8 * MAX_WINDOW_BATCHES


def test_with_one_row_each_request_is_answered_before_the_next_is_read():
    read: list[int] = []

    def requests() -> Iterator[int]:
        for number in range(50):
            read.append(number)
            yield number

    for answer in answers(requests(), lambda window, first: window, lambda batch, numbers: batch, length=int, max_rows=1):
        assert read[-1] == answer


def test_an_error_comes_after_the_answers_to_earlier_requests():
    def encode(window: list[int], first: int) -> list[int | ValueError]:
        return [ValueError(f"request {number}") if number == 70 else number for number in window]

    found: list[int] = []
    with pytest.raises(ValueError, match="request 70"):
        found.extend(answers(range(200), encode, lambda batch, numbers: batch, length=lambda one: 1, max_rows=16))
    assert found == list(range(70))


def test_a_missing_answer_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        list(answers([1, 2, 3], lambda window, first: window, lambda batch, numbers: batch[1:], length=int))


def test_the_length_of_an_instance_is_that_of_its_padded_sequences():
    ids = np.arange(5)
    assert instance_length(None) == 0
    assert instance_length(Instance(text=ids, label=3, weight=0.5)) == 5
    assert instance_length(Instance(source=ids, input=MarkedIds(ids[:2], {}))) == 7
    assert instance_length(Instance(choices=Sequences((ids, ids[:1])))) == 10
    assert instance_length(Instance(inner=Instance(text=ids), image=np.zeros((3, 8, 8), np.float32))) == 13
