"""Images with several texts: stored once, one training example per text or one sampled per epoch, all texts as references."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.sources.image_files import png, write_files

from weft.data import Feed, HorizontalFlip, ImageText, Word, load_codec, save_codec
from weft.data.sources import split_preparation
from weft.objectives import NextToken

TEXTS = {f"{i}.png": [f"picture {i} text {j}" + " more" * j for j in range(1 + i % 3)] for i in range(9)}
FILES = {name: png((i * 25, 0, 0), seed=i) for i, name in enumerate(TEXTS)}


def opened(path: Path, **options: Any) -> Any:
    return ImageText(**{"train": str(path), "size": 4, "validation_fraction": 0.0, "tokenizer": Word, **options}).open()


def jsonl(folder: Path) -> Path:
    write_files(folder / "images", FILES)
    rows = [json.dumps({"image": name, "captions": texts}) for name, texts in TEXTS.items()]
    (folder / "t.jsonl").write_text("\n".join(rows) + "\n")
    return folder / "t.jsonl"


def csv(folder: Path) -> Path:
    write_files(folder / "images", FILES)
    rows = [f'{name},"{text}"' for name, texts in TEXTS.items() for text in texts]
    (folder / "t.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    return folder / "t.csv"


def beside(suffix: str, name: str, folder: Path) -> Path:
    files = dict(FILES)
    for image, texts in TEXTS.items():
        content = json.dumps({"captions": texts}) if suffix == ".json" else "\n".join(texts) + "\n"
        files[image.replace(".png", suffix)] = content.encode()
    return write_files(folder / name, files)


LAYOUTS = {
    "jsonl": jsonl,
    "csv": csv,
    "folder": partial(beside, ".txt", "photos"),
    "zip": partial(beside, ".json", "photos.zip"),
    "tar.gz": partial(beside, ".txt", "photos.tar.gz"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_examples(tmp_path: Path, layout: str) -> None:
    path = LAYOUTS[layout](tmp_path)
    options = {"folder": str(tmp_path / "images")} if layout in ("jsonl", "csv") else {}
    corpus = opened(path, test=str(path), **options)
    train, test, codec = corpus.splits["train"], corpus.splits["test"], corpus.codec
    assert corpus.ledger["train"]["rows"] == 9 and len(train) == sum(map(len, TEXTS.values())) and len(test) == 9
    pairs = {(Path(train.raw(row)["image"]).name, train.raw(row)["target"]) for row in range(len(train))}
    assert pairs == {(name, text) for name, texts in TEXTS.items() for text in texts}
    for row in range(len(train)):
        name, text = Path(train.raw(row)["image"]).name, train.raw(row)["target"]
        assert codec.decode("target", train[row]["target"].tolist()) == text
        assert train.lengths["target"][row] == len(train[row]["target"]) and train.lengths["image"][row] == 4
        red = (train[row]["image"][0].mean() + 1) * 127.5
        assert abs(red - 25 * int(name[0])) < 6
    for row in range(9):
        assert test.raw(row)["target"] == "\t".join(TEXTS[Path(test.raw(row)["image"]).name])
        assert codec.decode("target", test[row]["target"].tolist()) == test.raw(row)["target"].split("\t")[0]
        assert test.lengths["target"][row] == len(test[row]["target"])


def test_a_text_is_sampled_in_every_epoch(tmp_path: Path) -> None:
    path = LAYOUTS["folder"](tmp_path)
    corpus = opened(path, captions="sampled", augment=[HorizontalFlip])
    train = corpus.splits["train"]
    assert len(train) == 9 and train.lengths["target"].tolist() == [len(texts[-1].split()) for texts in TEXTS.values()]
    feed = Feed(train, NextToken(corpus.codec.info, 8), key=0, budget=40)
    seen: Counter[tuple[int, str]] = Counter()
    for draw in range(40 * len(feed)):
        batch = feed.batch(draw)
        for row, ids in zip(batch.rows, batch["input"].data.tolist(), strict=True):
            seen[row, corpus.codec.decode("target", [i for i in ids if i > 6])] += 1
    expected = {(row, text) for row, texts in enumerate(TEXTS.values()) for text in texts}
    assert seen.keys() == expected and min(seen.values()) >= 5
    rows = [train.training_example(8, np.random.default_rng(3)) for _ in range(2)]
    assert all(np.array_equal(rows[0][name], rows[1][name]) for name in ("image", "target"))
    stored = opened(path, captions="each")
    assert stored.splits["train"].rows.columns["image"].size == train.rows.columns["image"].size == 9 * 48


def test_a_codec_is_saved_and_used_again(tmp_path: Path) -> None:
    path = LAYOUTS["zip"](tmp_path)
    corpus = opened(path)
    assert corpus.codec.info["target"].kind == "text" and corpus.codec.info.target == "target"
    save_codec(corpus.codec, tmp_path / "run")
    source = ImageText(train=str(path), test=str(path), size=4, tokenizer=Word, validation_fraction=0.0)
    codec = load_codec(source, tmp_path / "run")
    assert codec.info == corpus.codec.info
    again = source.open(codec, splits=("test",))
    assert again.codec.info == codec.info
    assert again.splits["test"][4]["target"].tolist() == corpus.splits["train"][7]["target"].tolist()


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_rows_of_an_image_stay_together_when_a_preparation_resumes(
    tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_preparation, "_COMMIT_BYTES", 1)
    monkeypatch.setattr(split_preparation, "_BATCH_BYTES", 1)
    path, add, calls = csv(tmp_path), split_preparation._BatchEncoder.add, []

    def stopped(self: Any, rows: Any) -> None:
        calls.append(len(rows))
        if len(calls) == 2 * stop:
            raise KeyboardInterrupt
        add(self, rows)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(split_preparation._BatchEncoder, "add", stopped)
        opened(path, folder=str(tmp_path / "images"))
    train = opened(path, folder=str(tmp_path / "images")).splits["train"]
    found = [(Path(train.raw(row)["image"]).name, train.raw(row)["target"]) for row in range(len(train))]
    assert found == [(name, text) for name, texts in TEXTS.items() for text in texts]


def test_images_without_texts_are_counted_or_errors(tmp_path: Path) -> None:
    path = LAYOUTS["folder"](tmp_path)
    (path / "3.txt").unlink()
    with pytest.raises(ValueError, match=r"3\.png: has no text: there is no file of the same name"):
        opened(path)
    assert opened(path, on_bad_row="skip").ledger["train"]["malformed rows"] == 1
    (path / "3.txt").write_text(" \n\n")
    corpus = opened(path)
    assert corpus.ledger["train"]["empty rows"] == 1 and corpus.ledger["train"]["rows"] == 8


def test_reports_with_two_views(tmp_path: Path) -> None:
    write_files(tmp_path / "images", FILES)
    rows = [{"images": [f"{i}.png", f"{i + 1}.png"], "report": f"the {i}th is clear"} for i in range(8)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = opened(tmp_path / "t.jsonl", folder=str(tmp_path / "images"), views=2)
    assert [field.name for field in corpus.codec.info.images()] == ["image1", "image2"]
    train = corpus.splits["train"]
    assert np.array_equal(train[0]["image2"], train[1]["image1"]) and train.raw(0)["target"] == "the 0th is clear"
