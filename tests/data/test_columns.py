from __future__ import annotations

import numpy as np
import pytest

from weft.data import Column, TokenDataset


def test_rows_of_a_column() -> None:
    rows = [[7, 8, 9], [], [10]]
    column = Column.of(rows)
    assert len(column) == 3 and column.lengths.tolist() == [3, 0, 1]
    assert [column[r].tolist() for r in range(3)] == rows and column[0].dtype == np.int64
    column[0][:] = 0
    assert column[0].tolist() == [7, 8, 9]
    with pytest.raises(ValueError, match="must increase from 0 to 3"):
        Column(np.arange(3), np.array([0, 2]))
    with pytest.raises(ValueError, match="must increase from 0 to 3"):
        Column(np.arange(3), np.array([0, 2, 1, 3]))


def test_examples_from_columns() -> None:
    data = TokenDataset(
        {"source": Column.of([[7], [8, 9]]), "target": Column.of([[], [1]])}, raw=lambda row: {"source": str(row)}
    )
    assert len(data) == 2 and {name: ids.tolist() for name, ids in data[1].items()} == {"source": [8, 9], "target": [1]}
    assert data.raw(1) == {"source": "1"} and data.lengths["source"].tolist() == [1, 2]
    for row in (-1, 2):
        with pytest.raises(IndexError, match=f"row {row} is out of range: the dataset has 2 rows"):
            data[row]
        with pytest.raises(IndexError):
            data.raw(row)
    with pytest.raises(ValueError, match=r"same number of rows, not \{'a': 1, 'b': 2\}"):
        TokenDataset({"a": Column.of([[1]]), "b": Column.of([[1], [2]])}, raw=lambda row: {})
