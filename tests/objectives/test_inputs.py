"""The text that an answer is about: one, or a pair read as one."""

from __future__ import annotations

import numpy as np
import pytest

from weft.core.example import MarkedIds
from weft.core.fields import Info, LabelField, Special, TextField
from weft.objectives.inputs import EncoderInput

END, BETWEEN = Special.eos, Special.sep


def test_a_pair_is_read_as_one_text():
    info = Info({"first": TextField("first", 20), "second": TextField("second", 20), "label": LabelField("label", 2)})
    found = EncoderInput(info)({"first": np.array([7, 8]), "second": np.array([9])})
    assert found.tolist() == [7, 8, BETWEEN, 9, END]
    assert EncoderInput(Info({"text": TextField("text", 20)}))({"text": np.array([7])}).tolist() == [7, END]


def test_characters_stay_with_their_words():
    info = Info({name: TextField(name, 20, characters=15) for name in ("first", "second")})
    one = MarkedIds(np.array([7, 8]), {"characters": np.array([[9], [10]])})
    two = MarkedIds(np.array([11]), {"characters": np.array([[12, 13]])})
    found = EncoderInput(info)({"first": one, "second": two})
    assert found.ids.tolist() == [7, 8, BETWEEN, 11, END]
    assert found.marks["characters"].tolist() == [[9, 0], [10, 0], [0, 0], [12, 13], [0, 0]]


def test_texts_of_two_id_spaces_cannot_be_one():
    with pytest.raises(ValueError, match=r"one id space, but the data \(data\) has: first, second"):
        EncoderInput(Info({"first": TextField("first", 9, space="a"), "second": TextField("second", 9, space="b")}))
