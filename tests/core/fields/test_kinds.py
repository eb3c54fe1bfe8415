"""Every kind of field keeps the promises of the contract: declared, synthetic, stored, read from text and written as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from weft.core.example import MarkedIds, Sequences, Targets
from weft.core.fields import (
    FIELD_KINDS,
    Encoding,
    Field,
    Frame,
    ImageField,
    Info,
    InvalidCell,
    LabelField,
    LabelsField,
    NumberField,
    SpanField,
    Special,
    TagsField,
    TextField,
    TextsField,
    UnknownKind,
    VectorField,
    field_from_json,
    field_kind,
)
from weft.core.ragged_array import RaggedArray
from weft.data.encoding import assemble, columns_from, columns_of, rows_of
from weft.data.tokenizers.character import Character

FRAME = Frame((5,), (6,), (2,), segments=True, single=((5, 0), (-1, 0), (6, 0)), pair=((5, 0), (-1, 0), (6, 0), (-2, 1)))
LETTERS = ("a", "b", "c")
FIELDS: dict[str, Field] = {
    "text": TextField("text", 40, max_length=9, special=Special(mask=-1), frame=FRAME, sentence_ends=(9, 8), words=True),
    "texts": TextsField("choices", 40, max_length=9, extra_eos=(3,)),
    "label": LabelField("label", 3, LETTERS),
    "labels": LabelsField("sets", 3, LETTERS),
    "tags": TagsField("tags", 3, LETTERS, of="text"),
    "span": SpanField("answer", of="text"),
    "number": NumberField("score"),
    "vector": VectorField("point", 2, 3, grid=(1, 3)),
    "image": ImageField("image", 3, 2, 4),
}
INFO = Info({field.name: field for field in FIELDS.values()}, target="text")


@pytest.fixture
def no_new_kinds() -> Iterator[None]:
    before = dict(FIELD_KINDS)
    yield
    FIELD_KINDS.clear()
    FIELD_KINDS.update(before)


def same(one: Any, two: Any) -> bool:
    """Whether two values of examples are equal, their types included."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and np.array_equal(one, two)
    if isinstance(one, MarkedIds):
        return same(one.ids, two.ids) and same(one.marks, two.marks)
    if isinstance(one, Sequences):
        return same(list(one.parts), list(two.parts))
    if isinstance(one, Targets):
        return one.of == two.of and same([one.at, one.ids], [two.at, two.ids])
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[name], two[name]) for name in one)
    return one == two


def test_the_cases_cover_every_kind() -> None:
    assert {name: type(field) for name, field in FIELDS.items()} == FIELD_KINDS


@pytest.mark.parametrize("kind", FIELDS)
def test_a_declaration_survives_json_and_damage_is_found(kind: str) -> None:
    content = json.loads(json.dumps(FIELDS[kind].to_json()))
    assert field_from_json(content) == FIELDS[kind] and hash(field_from_json(content)) == hash(FIELDS[kind])
    for name in content:
        damaged = [{**content, name: wrong} for wrong in (None, [None], {"x": 1}, 1.5)]
        for one in [*damaged, {key: value for key, value in content.items() if key != name}]:
            with pytest.raises(ValueError, match=r"the field|a field is an object|it lacks"):
                field_from_json(one)
    with pytest.raises(UnknownKind, match=r"unknown kind 'graph'; kinds are text|kinds are .*text.*pass --import"):
        field_from_json({**content, "kind": "graph"})


def test_sizes_are_positive() -> None:
    for make in (
        lambda: TextField("x", 0),
        lambda: TextsField("x", 9, max_length=0),
        lambda: LabelField("x", 0),
        lambda: VectorField("x", 0),
        lambda: ImageField("x", 3, 0, 4),
    ):
        with pytest.raises(ValueError, match=r"the field 'x' has .* it must be at least 1"):
            make()
    with pytest.raises(ValueError, match="the field 'x' has 2 classes, but 3 names for them"):
        LabelField("x", 2, LETTERS)


CELLS = [
    {
        "text": "ab c",
        "choices": "a\tbc\tc",
        "label": "c",
        "sets": "c\ta",
        "tags": "b a",
        "answer": "c",
        "start": "3",
        "score": "-2.5",
        "point": "0 1 2 3.5 4 5",
    },
    {
        "text": "c",
        "choices": "ca\ta",
        "label": "a",
        "sets": "",
        "tags": "c",
        "answer": "",
        "start": "",
        "score": "7",
        "point": "1 1 1 1 1 1",
    },
]


PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


@pytest.fixture(autouse=True, scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The cell of an image is a file."""
    for number, row in enumerate(CELLS):
        row["image"] = str(tmp_path_factory.mktemp("images") / "a.npy")
        np.save(row["image"], PIXELS + number)


def encoding() -> Encoding:
    tokenizer = Character(vocab_size=40)
    tokenizer.train(["a b c"])
    return Encoding(INFO, {"text": tokenizer})


def test_cells_become_columns_and_columns_values() -> None:
    columns: dict[str, Any] = {}
    for field in FIELDS.values():
        if field.columns():
            columns |= field.encode(CELLS, encoding())
    assert columns.keys() - {"answer/widened"} == columns_of(INFO).keys()
    rows = rows_of(columns)
    first, second = (assemble(INFO, row) for row in rows)
    assert first["label"] == 2 and first["sets"].tolist() == [1, 0, 1] and first["score"] == -2.5
    assert first["tags"].ids.tolist() == [1, 0] and first["tags"].at.tolist() == [0, 2]
    assert first["answer"].tolist() == [3, 3] and second["answer"].tolist() == []
    assert first["point"].tolist() == [[0, 1], [2, 3.5], [4, 5]]
    assert [len(part) for part in first["choices"].parts] == [1, 2, 1]
    assert np.allclose(second["image"], (PIXELS + 1).transpose(2, 0, 1) / 127.5 - 1)
    stored = columns_from(INFO, rows)
    for name, column in columns_of(INFO).items():  # what is stored is what was encoded, in the declared type
        flat, again = (one.flat if isinstance(one, RaggedArray) else one for one in (columns[name], stored[name]))
        assert flat.tolist() == again.astype(column.dtype).tolist()


@pytest.mark.parametrize("kind", FIELDS)
def test_a_synthetic_value_is_of_the_type_of_a_stored_one(kind: str) -> None:
    field, made = FIELDS[kind], INFO.synthetic_example(np.random.default_rng(0))[FIELDS[kind].name]
    values = {
        name: value
        for one in FIELDS.values()
        if one.columns()
        for name, value in rows_of(one.encode(CELLS, encoding()))[0].items()
    }
    read = field.assemble(values, INFO)
    assert type(read) is type(made)
    if isinstance(made, np.ndarray):
        assert made.dtype == read.dtype and made.ndim == read.ndim
    assert field.lengths(read).keys() == field.lengths(made).keys() == {n for n, c in field.columns().items() if c.counted}


@pytest.mark.parametrize(
    ("kind", "value", "text", "json_value"),
    [
        ("label", 1, "b", "b"),
        ("label", 7, "7", "7"),
        ("labels", [0, 2], "a\tc", ["a", "c"]),
        ("labels", [], "", []),
        ("tags", [2, 0], "c a", ["c", "a"]),
        ("number", 0.123456789, "0.123457", 0.123457),
        ("vector", [0.5, 2.0], "0.5 2", [0.5, 2.0]),
        ("text", "a word", "a word", "a word"),
    ],
)
def test_a_prediction_is_written_as_text_and_as_json(kind: str, value: Any, text: str, json_value: Any) -> None:
    assert FIELDS[kind].to_text(value) == text and type(FIELDS[kind]).json_value(text) == json_value


@pytest.mark.parametrize("cell", ["1 2 3 4 5", "1 2 3 4 5 6 7", "1 2 3 4 5 x", "1 2 3 4 5 nan", ""])
def test_a_vector_has_as_many_numbers_as_declared(cell: str) -> None:
    with pytest.raises(InvalidCell, match="column 'point' must"):
        FIELDS["vector"].encode([{"point": cell}], encoding())


def test_heads_positions_and_advice() -> None:
    assert [FIELDS[kind].outputs for kind in ("text", "label", "labels", "tags", "span", "number")] == [40, 3, 3, 3, 2, 1]
    assert FIELDS["text"].positions == 16 and VectorField("image", 4, 7).positions == 7
    with pytest.raises(ValueError, match="no head predicts the field 'image', which is image, 3 x 2 x 4"):
        _ = FIELDS["image"].outputs
    with pytest.raises(ValueError, match="the field 'label', which is label, up to 3 classes, has no positions"):
        _ = FIELDS["label"].positions


@pytest.mark.usefixtures("no_new_kinds")
def test_a_name_is_registered_once() -> None:
    @field_kind("graph")
    @dataclass(frozen=True)
    class GraphOfATest(Field):
        nodes: int = 3

        def synthetic(self, rng: np.random.Generator, sizes: Any) -> int:
            return self.nodes

    assert field_from_json({"kind": "graph", "name": "g", "nodes": 5}) == GraphOfATest("g", 5)
    assert Info({"g": GraphOfATest("g")}).synthetic_example(np.random.default_rng(0)) == {"g": 3}
    with pytest.raises(TypeError, match="the kind of field 'graph' is taken by GraphOfATest"):
        field_kind("graph")(LabelField)
    assert FIELD_KINDS["label"] is LabelField and LabelField.kind == "label"


def test_several_texts_have_the_options_of_one() -> None:
    text = replace(INFO.text("text"), characters=5, sentinel_count=2)
    several = text.several("choices")
    assert several.name == "choices" and several.frame == FRAME and several.characters == 5 and several.sentinel_count == 2
