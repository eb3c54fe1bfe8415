from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import Column, InMemory, TokenDataset

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=12)


@given(ROWS)
def test_rows_come_back(rows: list[list[int]]) -> None:
    column = Column.of(rows)
    assert [column[i].tolist() for i in range(len(column))] == rows
    assert column.lengths.tolist() == [len(row) for row in rows]


def test_an_example_is_a_copy() -> None:
    data = TokenDataset(
        {"text": Column.of([[7, 8], [9]])}, raw=lambda row: {"text": str(row)}, labels={"label": np.array([1, 0])}
    )
    example = data[0]
    example["text"][:] = 4
    assert data[0]["text"].tolist() == [7, 8] and data[0]["text"].dtype == np.int64
    assert data[0]["label"] == 1 and isinstance(data[0]["label"], int)
    assert len(data) == 2 and data.raw(1) == {"text": "1"} and set(data.lengths) == {"text"}


def test_a_row_that_does_not_exist() -> None:
    data = TokenDataset({"text": Column.of([[7]])}, raw=lambda row: {})
    for row in (1, -1):
        with pytest.raises(IndexError, match=f"row {row} does not exist: the dataset has 1 rows"):
            data[row]
        with pytest.raises(IndexError):
            data.raw(row)


def test_any_store_that_reads_by_position_will_do() -> None:
    class Counting(InMemory):
        reads: list[tuple[int, int]] = []

        def read(self, start: int, stop: int) -> np.ndarray:
            self.reads.append((start, stop))
            return super().read(start, stop)

    column = Column(Counting(np.arange(10)), np.array([0, 4, 10]))
    assert column[1].tolist() == [4, 5, 6, 7, 8, 9] and Counting.reads == [(4, 10)]


def test_messages() -> None:
    with pytest.raises(ValueError, match="rise from 0 to the 3 ids"):
        Column(InMemory(np.arange(3)), np.array([0, 2]))
    with pytest.raises(ValueError, match=r"same number of rows, not \{'a': 1, 'b': 2\}"):
        TokenDataset({"a": Column.of([[1]]), "b": Column.of([[1], [2]])}, raw=lambda row: {})
