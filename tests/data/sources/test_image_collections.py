"""Images in folders and archives, by class and in the layout of WebDataset; tables with several images or labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.sources.image_files import COLORS, class_files, png, write_files

from weft.core.contracts import Dataset
from weft.core.fields import LabelsField, NumberField
from weft.data import LabeledImages

NAMES = ["photos", "photos.tar", "photos.tar.gz", "photos.tgz", "photos.zip"]


def opened(path: Path | list[str], **options: Any) -> Any:
    train = path if isinstance(path, list) else str(path)
    return LabeledImages(**{"train": train, "size": 4, "validation_fraction": 0.0, **options}).open()


def labels_and_colors(split: Dataset) -> list[tuple[str, bool]]:
    """The label of each row, and whether its image is red."""
    return [(split.raw(row)["label"], split[row]["image"][0].mean() > 0) for row in range(len(split))]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_for_each_class(tmp_path: Path, name: str) -> None:
    files = {**class_files(), "README.md": b"x", "red/Thumbs.db": b"x", "red/nested.zip": b"x", "blue/.DS_Store": b"x"}
    corpus = opened(write_files(tmp_path / name, files))
    train = corpus.splits["train"]
    assert corpus.codec.info["label"].labels == ("blue", "red") and len(train) == 12
    assert all((label == "red") == red for label, red in labels_and_colors(train))
    assert corpus.ledger["train"]["other files"] == 3 and corpus.ledger["train"]["rows"] == 12
    assert train.raw(0)["image"].startswith(str(tmp_path / name))


def test_folders_around_the_classes_of_an_archive_are_left_out(tmp_path: Path) -> None:
    nested = {f"photos/all/{name}": data for name, data in class_files(2).items()}
    nested["photos/all/red/more/5.png"] = png()
    assert opened(write_files(tmp_path / "a.tar", nested)).codec.info["label"].labels == ("blue", "red")
    test = write_files(tmp_path / "t.zip", {name: data for name, data in nested.items() if "red" in name})
    corpus = opened(tmp_path / "a.tar", test=str(test))
    assert [label for label, _ in labels_and_colors(corpus.splits["test"])] == ["red"] * 3


def sidecars(suffix: str) -> dict[str, bytes]:
    """Images with a file beside each."""
    files: dict[str, bytes] = {}
    for number in range(8):
        name = sorted(COLORS)[number % 2]
        files[f"{number // 4}/{number:03}.png"] = png(COLORS[name], seed=number)
        content = json.dumps({"category": name, "id": number}) if suffix == "json" else f"{name}\n"
        files[f"{number // 4}/{number:03}.{suffix}"] = content.encode()
    return files


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("suffix", ["cls", "txt", "json"])
def test_the_layout_of_webdataset(tmp_path: Path, name: str, suffix: str) -> None:
    corpus = opened(write_files(tmp_path / name, sidecars(suffix)))
    assert corpus.codec.info["label"].labels == ("blue", "red") and corpus.ledger["train"]["other files"] == 0
    assert all((label == "red") == red for label, red in labels_and_colors(corpus.splits["train"]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"0/001.cls": None}, r"0/001\.png: has no label: other images have a file \.cls"),
        ({"0/001.cls": b"\xff\xfe"}, r"0/001\.cls: not in UTF-8"),
        ({"0/001.cls": b""}, r"label is empty"),
        ({"0/001.cls": b"x" * (1 << 21)}, r"0/001\.cls: has 2,097,152 bytes; at most"),
    ],
)
@pytest.mark.parametrize("name", ["photos", "photos.zip"])
def test_files_beside_an_image_are_checked(tmp_path: Path, changed: Mapping[str, Any], message: str, name: str) -> None:
    files = {name: data for name, data in {**sidecars("cls"), **changed}.items() if data is not None}
    path = write_files(tmp_path / name, files)
    with pytest.raises(ValueError, match=message):
        opened(path)
    counted = opened(path, on_bad_row="skip")
    assert len(counted.splits["train"]) == 7 and counted.ledger["train"]["malformed rows"] == 1
    assert "photos" in counted.ledger["train"]["first malformed rows"][0]


def test_json_beside_an_image_is_checked(tmp_path: Path) -> None:
    files = sidecars("json")
    for content, message in (
        (b"{", "001.json: not valid JSON"),
        (b"[1]", r"must have an object"),
        (b'{"x": 1}', "no column 'label'"),
    ):
        path = write_files(tmp_path / f"{len(content)}.tar", {**files, "0/001.json": content})
        with pytest.raises(ValueError, match=message):
            opened(path)


def test_classes_that_differ_in_case_or_are_splits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the classes 'Cat' and 'cat' differ only in case"):
        opened(write_files(tmp_path / "a", {"cat/1.png": png(), "Cat/2.png": png()}))
    both = opened(tmp_path / "a", labels=("cat", "Cat"))
    assert both.codec.info["label"].labels == ("cat", "Cat")
    with pytest.raises(ValueError, match=r"has the classes test, train, which are splits"):
        opened(write_files(tmp_path / "b.zip", {"train/cat/1.png": png(), "test/cat/2.png": png()}))
    with pytest.raises(ValueError, match=r"is in no folder of a class"):
        opened(write_files(tmp_path / "c", {"1.png": png(), "cat/2.png": png()}))
    with pytest.raises(ValueError, match=r"d: there is no image"):
        opened(write_files(tmp_path / "d", {"1.txt": b"x"}))
    with pytest.raises(ValueError, match=r"1\.png: is an image; give a table"):
        opened(tmp_path / "c/1.png")


def table(folder: Path, rows: list[dict[str, Any]], name: str = "train.jsonl") -> Path:
    write_files(folder / "images", {f"{i}.png": png(COLORS["red" if i % 2 else "blue"], seed=i) for i in range(8)})
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def test_a_table_with_a_folder_or_an_archive_of_images(tmp_path: Path) -> None:
    rows = [{"image": f"{i}.png", "label": "red" if i % 2 else "blue"} for i in range(8)]
    path = table(tmp_path, rows)
    archive = write_files(tmp_path / "images.tar.gz", {f"{i}.png": (tmp_path / f"images/{i}.png").read_bytes() for i in range(8)})
    with pytest.raises(
        ValueError, match=r"train\.jsonl:1: image not found: .*0\.png; file names are relative to the folder of the"
    ):
        opened(path)
    for folder in (tmp_path / "images", archive):
        assert all((label == "red") == red for label, red in labels_and_colors(opened(path, folder=str(folder)).splits["train"]))
    with pytest.raises(ValueError, match=r"train\.jsonl:1: image not found: .*; file names are relative to the option folder"):
        opened(path, folder=str(tmp_path))


def test_several_labels_and_numbers(tmp_path: Path) -> None:
    names = [[], ["a"], ["a", "b"], ["b"], ["c", "a"], ["b"], [], ["c"]]
    path = table(tmp_path, [{"file": f"images/{i}.png", "labels": own} for i, own in enumerate(names)])
    corpus = opened(path, label_type="multiple")
    assert isinstance(corpus.codec.info["label"], LabelsField) and corpus.codec.info["label"].labels == ("a", "b", "c")
    found = [corpus.splits["train"][row]["label"].tolist() for row in range(8)]
    assert found == [[float(letter in own) for letter in "abc"] for own in names]
    lines = [f"images/{i}.png\t{'|'.join(own)}" for i, own in enumerate(names)]
    (tmp_path / "train.tsv").write_text("\n".join(["file\tlabel", *lines]) + "\n")
    again = opened(tmp_path / "train.tsv", label_type="multiple").splits["train"]
    assert [again[row]["label"].tolist() for row in range(8)] == found
    path = table(tmp_path, [{"image": f"images/{i}.png", "target": i / 4} for i in range(8)])
    corpus = opened(path, label_type="number")
    assert isinstance(corpus.codec.info["label"], NumberField) and corpus.splits["train"][3]["label"] == 0.75


def test_several_images_of_an_example(tmp_path: Path) -> None:
    pairs = [{"front": f"images/{i}.png", "side": f"images/{i + 1}.png", "label": "ab"[i % 2]} for i in range(7)]
    lists = [{"images": [row["front"], row["side"]], "label": row["label"]} for row in pairs]
    one = opened(table(tmp_path, pairs), image=("front", "side"))
    two = opened(table(tmp_path, lists, "lists.jsonl"), views=2)
    for corpus in (one, two):
        assert [field.name for field in corpus.codec.info.images()] == ["image1", "image2"]
        for row in range(6):
            example, after = corpus.splits["train"][row], corpus.splits["train"][row + 1]
            assert np.array_equal(example["image2"], after["image1"])
            assert not np.array_equal(example["image1"], example["image2"])
    path = table(tmp_path, [*lists, {"images": ["images/1.png"], "label": "a"}], "short.jsonl")
    with pytest.raises(ValueError, match=r"short\.jsonl:8: 1 images; the option image or views declares 2"):
        opened(path, views=2)
    with pytest.raises(ValueError, match="several images of an example need a table"):
        opened(write_files(tmp_path / "photos", class_files()), views=2)


def test_rows_are_held_out_by_name_wherever_the_data_is(tmp_path: Path) -> None:
    files = class_files(20)
    splits = []
    for at in ("here/photos", "there/photos", "photos.tar"):
        (tmp_path / at).parent.mkdir(exist_ok=True)
        corpus = opened(write_files(tmp_path / at, files), validation_fraction=0.25, stratify=True)
        splits.append({corpus.splits["valid"].raw(row)["image"].split("photos", 1)[1].removeprefix(".tar") for row in range(10)})
        assert [len(corpus.splits[name]) for name in ("train", "valid")] == [30, 10]
    assert splits[0] == splits[1] == splits[2] and sum("/red/" in name for name in splits[0]) == 5


def test_an_interrupted_preparation_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.data.sources import split_preparation

    monkeypatch.setattr(split_preparation, "_COMMIT_BYTES", 1)
    monkeypatch.setattr(split_preparation, "_BATCH_BYTES", 100)
    path = write_files(tmp_path / "photos.tar.gz", class_files())
    add, calls = split_preparation._BatchEncoder.add, []

    def stopped(self: Any, rows: Any) -> None:
        calls.append(len(rows))
        if len(calls) == 5:
            raise KeyboardInterrupt
        add(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(split_preparation._BatchEncoder, "add", stopped)
        with pytest.raises(KeyboardInterrupt):
            opened(path)
    before = sum(calls)
    calls.clear()
    monkeypatch.setattr(split_preparation._BatchEncoder, "add", lambda self, rows: (calls.append(len(rows)), add(self, rows)))
    corpus = opened(path)
    assert 0 < sum(calls) < 12 and before + sum(calls) <= 14 and len(corpus.splits["train"]) == 12
    assert all((label == "red") == red for label, red in labels_and_colors(corpus.splits["train"]))
    assert corpus.ledger["train"]["rows read"] == 12
