from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.fields import Info, LabelField, LabelsField, NumberField, TagsField, TextField
from weft.data import PreparedDataset, prepared
from weft.data.encoding import assemble, columns_from, rows_of
from weft.data.prepared import DamagedDataError, DatasetWriter, is_done

INFO = Info(
    {
        "text": TextField("text", 70_000, words=True, characters=40),
        "tags": TagsField("tags", 3),
        "label": LabelField("label", 5),
        "several": LabelsField("several", 300),
        "score": NumberField("score"),
    }
)
CELLS = ["text", "label"]


@st.composite
def row(draw: st.DrawFn) -> dict[str, Any]:
    sizes = draw(st.lists(st.integers(1, 3), max_size=4))
    ids = draw(st.lists(st.integers(0, 69_999), min_size=sum(sizes), max_size=sum(sizes)))
    spelled = [draw(st.lists(st.integers(1, 39), min_size=1, max_size=3)) for _ in ids]
    return {
        "text": np.array(ids, np.uint32),
        "text/words": (np.cumsum(sizes) - sizes).astype(np.uint32) if sizes else np.array([], np.uint32),
        "text/characters": np.array([n for letters in spelled for n in (*letters, 0)], np.uint32),
        "tags": np.array([draw(st.integers(0, 2)) for _ in sizes], np.uint32),
        "label": draw(st.integers(0, 4)),
        "several": np.array(sorted(draw(st.sets(st.integers(0, 299), max_size=3))), np.uint32),
        "score": draw(st.floats(allow_nan=False)),
    }


raws = st.fixed_dictionaries({"text": st.text(st.characters(codec="utf-8"), max_size=6), "label": st.sampled_from("ab\u00e4")})
batches = st.lists(st.lists(st.tuples(row(), raws), min_size=1, max_size=4), min_size=1, max_size=4)


def equal(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(equal(one[k], two[k]) for k in one)
    if hasattr(one, "__dataclass_fields__"):
        return equal(vars(one), vars(two))
    return np.array_equal(one, two)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@given(content=batches, small=st.booleans())
@settings(max_examples=60, deadline=None)
def test_round_trip(content: list[list[tuple[Any, Any]]], small: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("rows")
    writer = DatasetWriter(folder, INFO, CELLS)
    for batch in content:
        writer.add(columns_from(INFO, [values for values, _ in batch]), [raw for _, raw in batch])
    assert not is_done(folder)
    writer.done({"rows": 1})
    assert is_done(folder) and not (folder / "state.json").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "IN_MEMORY", 2**26 if small else -1)
        dataset = PreparedDataset(folder, INFO)
        flat = [pair for batch in content for pair in batch]
        assert len(dataset) == len(flat) and dataset.ledger == {"rows": 1}
        assert dataset.lengths["text"].tolist() == [len(values["text"]) for values, _ in flat]
        for number, (values, raw) in enumerate(flat):
            assert equal(dataset[number], assemble(INFO, values)) and dataset.raw(number) == raw
        texts = dataset.cells["text"]
        expected = [raw["text"] for _, raw in flat]
        assert list(texts) == expected == texts[:] and texts[1::2] == expected[1::2] and texts[::-1] == expected[::-1]
        assert texts[2:1] == []


@given(content=batches, data=st.data())
@settings(max_examples=60, deadline=None)
def test_resuming_anywhere_gives_the_same_files(
    content: list[list[tuple[Any, Any]]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def write(writer: DatasetWriter, start: int, stop: int, notes: bool) -> None:
        for number in range(start, stop):
            writer.add(columns_from(INFO, [values for values, _ in content[number]]), [raw for _, raw in content[number]])
            if notes and data.draw(st.booleans()):
                writer.commit({"next": number + 1})

    whole, killed = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("killed")
    writer = DatasetWriter(whole, INFO, CELLS)
    write(writer, 0, len(content), notes=False)
    writer.done({})
    for _ in range(3):
        writer = DatasetWriter(killed, INFO, CELLS)
        start = (writer.state or {"next": 0})["next"]
        write(writer, start, data.draw(st.integers(start, len(content))), notes=True)
        writer.close()  # what was added after the last note is in the files, and must go
        with (killed / "text").open("ab") as torn:
            torn.write(b"torn")
    writer = DatasetWriter(killed, INFO, CELLS)
    write(writer, (writer.state or {"next": 0})["next"], len(content), notes=False)
    writer.done({})
    assert files_of(killed) == files_of(whole)


def one_row(folder: Path) -> DatasetWriter:
    writer = DatasetWriter(folder, Info({"text": TextField("text", 10)}), ["text"])
    writer.add(
        {"text": columns_from(Info({"text": TextField("text", 10)}), [{"text": np.array([1, 2])}])["text"]}, [{"text": "x"}]
    )
    return writer


def test_what_is_cut_or_of_another_format_is_not_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_row(tmp_path).done({})
    assert is_done(tmp_path)
    monkeypatch.setattr(prepared, "FORMAT", 99)
    assert not is_done(tmp_path)
    monkeypatch.undo()
    (tmp_path / "raw.text").write_bytes(b"y")  # as long as before
    assert not is_done(tmp_path)
    (tmp_path / "raw.text").write_bytes(b"")
    assert not is_done(tmp_path)
    (tmp_path / "done.json").write_text("{")
    assert not is_done(tmp_path)
    one_row(tmp_path).done({})
    assert is_done(tmp_path) and len(PreparedDataset(tmp_path, Info({"text": TextField("text", 10)}))) == 1
    writer = one_row(tmp_path)
    writer.commit({"here": 1})
    writer.close()
    (tmp_path / "text").unlink()
    assert DatasetWriter(tmp_path, Info({"text": TextField("text", 10)}), ["text"]).state is None


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of ten blocks in a file that is read from disk."""
    monkeypatch.setattr(prepared, "IN_MEMORY", -1)
    monkeypatch.setattr(prepared, "BLOCK", 64)
    info = Info({"text": TextField("text", 10)})
    writer = DatasetWriter(tmp_path, info, ["text"])
    for row in range(40):
        columns = {"text": columns_from(info, [{"text": np.full(8, row % 10)}])["text"]}
        writer.add(columns, [{"text": "x" * 16}])
    writer.done({})
    return tmp_path


@pytest.mark.parametrize("name", ["text", "text.ends", "raw.text", "raw.text.ends"])
def test_a_flipped_bit_in_a_file_on_disk_is_reported_when_its_block_is_read(name: str, on_disk: Path) -> None:
    data = bytearray((on_disk / name).read_bytes())
    data[len(data) // 2] ^= 1
    (on_disk / name).write_bytes(data)
    assert is_done(on_disk), "larger files are verified when they are read"

    def read_all() -> None:
        dataset = PreparedDataset(on_disk, Info({"text": TextField("text", 10)}))
        for row in range(len(dataset)):
            assert dataset[row]["text"].tolist() == [row % 10] * 8 and dataset.raw(row) == {"text": "x" * 16}

    with pytest.raises(DamagedDataError, match=rf"{name}: the prepared data has changed on disk: bytes .* the next command"):
        read_all()
    assert not is_done(on_disk), "it is prepared again"


def test_each_block_is_verified_once(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, seen = PreparedDataset(on_disk, Info({"text": TextField("text", 10)})), list[int]()
    real = prepared.zlib.crc32
    monkeypatch.setattr(prepared.zlib, "crc32", lambda data, *before: seen.append(len(data)) or real(data, *before))
    for _ in range(3):
        for row in reversed(range(40)):
            assert dataset[row]["text"].tolist() == [row % 10] * 8
    assert seen == [64] * (40 * 8 * 2 // 64)


def test_a_preparation_does_not_resume_from_damaged_files(tmp_path: Path) -> None:
    writer = one_row(tmp_path)
    writer.commit({"here": 1})
    writer.close()
    info = Info({"text": TextField("text", 10)})
    assert DatasetWriter(tmp_path, info, ["text"]).state == {"here": 1}
    content = (tmp_path / "state.json").read_text()
    (tmp_path / "state.json").write_text(content.replace('"here": 1', '"here": 2'))
    assert DatasetWriter(tmp_path, info, ["text"]).state is None
    writer = one_row(tmp_path)
    writer.commit({"here": 1})
    writer.close()
    (tmp_path / "raw.text").write_bytes(b"y")
    assert DatasetWriter(tmp_path, info, ["text"]).state is None


def test_a_changed_count_in_done_json_is_noticed(tmp_path: Path) -> None:
    one_row(tmp_path).done({"rows": 1})
    content = (tmp_path / "done.json").read_text()
    (tmp_path / "done.json").write_text(content.replace('"rows": 1', '"rows": 2'))
    assert not is_done(tmp_path)


def test_rows_that_do_not_exist(tmp_path: Path) -> None:
    one_row(tmp_path).done({})
    dataset = PreparedDataset(tmp_path, Info({"text": TextField("text", 10)}))
    for number in (-1, 1):
        with pytest.raises(IndexError, match=f"row {number} is out of range: the dataset has 1 rows"):
            dataset[number]
        with pytest.raises(IndexError):
            dataset.raw(number)
    dataset[0]["text"][:] = 0
    assert dataset[0]["text"].tolist() == [1, 2]


def test_rows_are_taken_apart_and_put_together() -> None:
    values = {"text": np.array([1, 2], np.uint32), "label": 3}
    info = Info({"text": TextField("text", 9), "label": LabelField("label", 4)})
    assert all(equal(one, values) for one in rows_of(columns_from(info, [values, values])))
