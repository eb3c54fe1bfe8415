"""Normalization is a choice that is stored with the run; measured statistics are those of the training images."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.sources.image_files import class_files, png, write_files

from weft import Run, load
from weft.core.fields import ImageField
from weft.data import LabeledImages, prepared
from weft.data.sources.image_source import MEAN, STD
from weft.learning import Gradient
from weft.models import vit
from weft.objectives import Classification


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_files(tmp_path / "photos", class_files(10))


def opened(path: Path, **options: Any) -> Any:
    return LabeledImages(**{"train": str(path), "size": 8, "validation_fraction": 0.0, **options}).open()


def pixels(corpus: Any, split: str) -> np.ndarray:
    """N x C x H x W bytes of a split, from the files."""
    field, rows = corpus.codec.info["image"], corpus.splits[split]
    return np.stack([field.pixels(rows.raw(row)["image"]) for row in range(len(rows))])


def test_each_choice_is_its_formula(photos: Path) -> None:
    for name, mean, std in (("half", (0.5,) * 3, (0.5,) * 3), ("imagenet", MEAN, STD)):
        corpus = opened(photos, normalization=name)
        x_NCHW = pixels(corpus, "train") / 255
        expected = (x_NCHW - np.reshape(mean, (-1, 1, 1))) / np.reshape(std, (-1, 1, 1))
        found = np.stack([corpus.splits["train"][row]["image"] for row in range(20)])
        assert np.allclose(found, expected, atol=1e-5) and found.dtype == np.float32
        shown = corpus.codec.info["image"].displayed(found[0])
        assert np.array_equal(shown, (x_NCHW[0] * 255).round().transpose(1, 2, 0))


def test_statistics_are_measured_on_the_training_images_alone(photos: Path) -> None:
    corpus = opened(photos, normalization="measured", validation_fraction=0.3)
    x_NCHW = pixels(corpus, "train") / 255
    field = corpus.codec.info["image"]
    assert isinstance(field, ImageField) and len(corpus.splits["valid"])
    assert field.mean == pytest.approx(x_NCHW.mean((0, 2, 3))) and field.std == pytest.approx(x_NCHW.std((0, 2, 3)))
    train = np.stack([corpus.splits["train"][row]["image"] for row in range(len(x_NCHW))])
    assert np.allclose(train.mean((0, 2, 3)), 0, atol=1e-3) and np.allclose(train.std((0, 2, 3)), 1, atol=1e-3)
    assert opened(photos, normalization="measured", validation_fraction=0.3).codec.info == corpus.codec.info
    write_files(photos, {f"blue/{i}.png": png((200, 9, 9)) for i in range(30, 60)})
    assert opened(photos, normalization="measured").codec.info["image"].mean[0] > field.mean[0] + 0.1
    again = LabeledImages(train=str(photos), size=8, normalization="measured").open(corpus.codec)
    assert again.codec.info == corpus.codec.info  # a run keeps what it has measured


def test_images_of_one_color_have_a_deviation(tmp_path: Path) -> None:
    flat = write_files(tmp_path / "flat", {"a/1.ppm": b"P5 1 1 255\n\x07", "b/1.ppm": b"P5 1 1 255\n\x07"})
    corpus = opened(flat, normalization="measured", channels=1)
    assert corpus.codec.info["image"].std[0] > 0 and np.abs(corpus.splits["train"][0]["image"]).max() < 1e-4


def test_prediction_uses_the_statistics_of_the_run(photos: Path, tmp_path: Path) -> None:
    run = Run(
        data=partial(LabeledImages, train=str(photos), size=8, normalization="measured", resize="crop", validation_fraction=0.2),
        structure=vit(dim=8, layers=1, heads=2, hidden=8, patch=4),
        objective=Classification,
        learning=partial(Gradient, steps=2, batch_tokens=64),
    )
    trained = run.train(tmp_path / "run", quiet=True)
    field = load(tmp_path / "run").codec.info["image"]
    assert field == trained.codec.info["image"] and field.mean != (0.5,) and field.resize == "crop"
    write_files(photos, {f"blue/{i}.png": png((200, 9, 9)) for i in range(30, 60)})  # the folder changes after training
    assert load(tmp_path / "run").codec.info["image"] == field


def test_statistics_need_matching_channels() -> None:
    with pytest.raises(ValueError, match="imagenet is for 3 channels, not 1; use half or measured"):
        LabeledImages(train="x", channels=1, normalization="imagenet")
    for mean, std in (((0.1, 0.2), (0.5,)), ((0.5,), (0.0,))):
        with pytest.raises(ValueError, match=r"2 means or deviations for 3 channels|it must be positive"):
            ImageField("image", 3, 4, 4, mean=mean, std=std)
    with pytest.raises(ValueError, match="has resize 'zoom'; must be one of stretch, crop, pad"):
        ImageField("image", 3, 4, 4, resize="zoom")


def test_large_data_is_read_by_position_and_verified(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = opened(photos)
    monkeypatch.setattr(prepared, "IN_MEMORY", 100)
    large = opened(photos)
    column = large.splits["train"].rows.columns["image"]
    assert column.all is None and column.size == 20 * 3 * 8 * 8
    for row in (19, 0, 7):
        assert np.array_equal(large.splits["train"][row]["image"], small.splits["train"][row]["image"])
    file = column.file.path
    data = bytearray(file.read_bytes())
    data[500] ^= 1
    file.write_bytes(data)
    column.file.verified[:] = False
    with pytest.raises(prepared.DamagedDataError):
        large.splits["train"][2]
    assert np.array_equal(opened(photos).splits["train"][2]["image"], small.splits["train"][2]["image"])  # prepared again
