"""Several sequences in a row: put together, moved, counted and taken apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.core.batch import Instance, Ragged, collate
from weft.core.example import MarkedIds, Sequences
from weft.core.fields import Frame, Info, LabelField, TextField, TextsField

ROWS = [[[7, 8, 9], [10]], [[11], [12, 13], [14, 15, 16, 17], [18]], [[19, 20], [21]]]


def batch_of(rows: list[list[list[int]]]) -> Ragged:
    return collate([Instance(choices=Sequences(tuple(np.array(part) for part in row))) for row in rows])["choices"]


def test_every_sequence_keeps_its_ids_and_its_owner() -> None:
    made = batch_of(ROWS)
    assert (len(made), made.rows, made.seq.rows) == (8, 3, 8)
    real = [ids[mask].tolist() for ids, mask in zip(made.seq.data, made.seq.real(), strict=True)]
    assert real == [part for row in ROWS for part in row]
    assert made.owner_N.tolist() == [0, 0, 1, 1, 1, 1, 2, 2]
    assert made.counts().tolist() == [2, 4, 2] and made.offsets().tolist() == [0, 2, 6]


def test_numbers_are_spread_to_the_rows_they_belong_to() -> None:
    made = batch_of(ROWS)
    spread = made.to_padded(torch.arange(8.0), -1.0)
    assert spread.tolist() == [[0, 1, -1, -1], [2, 3, 4, 5], [6, 7, -1, -1]]
    assert made.to_padded(torch.arange(8.0, requires_grad=True), 0.0).sum().requires_grad


def test_marks_are_padded_with_their_sequences() -> None:
    frame = Frame((1,), (2,), (2,), segments=True)
    texts = [(np.array([7, 8]), np.array([9])), (np.array([7]), np.array([9, 10, 11]))]
    framed = tuple(frame.around(pair) for pair in texts)
    made = collate([Instance(choices=Sequences(framed)), Instance(choices=Sequences(framed[:1]))])["choices"]
    assert made.seq.data.tolist() == [[1, 7, 8, 2, 9, 2, 0], [1, 7, 2, 9, 10, 11, 2], [1, 7, 8, 2, 9, 2, 0]]
    assert made.seq.marks["segment"].tolist() == [[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0]]
    letters = (
        MarkedIds(np.array([5, 6]), {"characters": np.array([[1, 2], [3, 0]])}),
        MarkedIds(np.array([5]), {"characters": np.array([[4]])}),
    )
    spelled = collate([Instance(choices=Sequences(letters))])["choices"].seq.marks["characters"]
    assert spelled.tolist() == [[[1, 2], [3, 0]], [[4, 0], [0, 0]]]


def test_a_batch_knows_its_sequences_also_inside_another_one() -> None:
    inner = Instance(choices=Sequences((np.array([7, 8, 9]), np.array([7]))), label=1)
    batch = collate([Instance(part=inner, text=np.array([7, 8]))])
    assert batch.tokens() == 4 + 2
    assert [seq.rows for seq in batch.sequences()] == [2, 1]
    moved = batch.to("meta")["part"]["choices"]
    assert moved.seq.data.is_meta and moved.owner_N.is_meta and moved.rows == 1


def test_a_row_without_any_sequence_is_refused() -> None:
    some, none = Instance(choices=Sequences((np.array([7]),))), Instance(choices=Sequences(()))
    with pytest.raises(ValueError, match="instance 1 of a batch has no sequence in 'choices'"):
        collate([some, none])


def test_imagined_rows_have_different_numbers_of_texts_and_a_label_among_them() -> None:
    fields = [TextField("question", 20), TextsField("choices", 20), LabelField("label", 26)]
    info, rng = Info({f.name: f for f in fields}), np.random.default_rng(0)
    examples = [info.synthetic_example(rng, 5) for _ in range(50)]
    assert {len(e["choices"]) for e in examples} == {2, 3, 4}
    assert all(0 <= e["label"] < len(e["choices"]) for e in examples)
    assert info.lengths(examples[0]) == {
        "question": 5,
        "choices": sum(map(len, examples[0]["choices"].parts)),
        "choices/sizes": len(examples[0]["choices"]),
    }


def test_what_goes_wrong_with_a_batch_names_its_longest_row() -> None:
    parts = [Sequences(tuple(np.array(part) for part in row)) for row in ROWS]
    made = collate([Instance(choices=part, text=np.arange(1, 3)) for part in parts], [30, 31, 32])
    for batch in (made, collate([Instance(inner=Instance(choices=part)) for part in parts], [30, 31, 32])):
        with (
            pytest.raises(ValueError, match=r"long \(the longest row here is row 31 of train.* 0: 4 tokens"),
            batch.naming("train"),
        ):
            raise ValueError("too long")
    with pytest.raises(ValueError, match=r"^too long$"), collate([Instance(text=np.arange(3))]).naming("train"):
        raise ValueError("too long")
    with pytest.raises(KeyError), made.naming("train"):
        raise KeyError("x")
