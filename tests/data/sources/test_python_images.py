"""Images in memory become files, rows with them a table, and requests with them predictions."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.sources.image_files import COLORS, png, write_files

from weft import Run
from weft.data import LabeledImages, cache_rows
from weft.data.sources.python_images import image_path
from weft.learning import Gradient
from weft.models import vit
from weft.objectives import Classification

ARRAYS = [np.full((6, 5, 3), COLORS["red" if i % 2 else "blue"], np.uint8) + np.uint8(i % 5) for i in range(10)]
LABELS = ["red" if i % 2 else "blue" for i in range(10)]


def train_split(rows: Any, **options: Any) -> Any:
    return LabeledImages(train=rows, size=(6, 5), validation_fraction=0.0, **options).open().splits["train"]


def datasets_rows() -> Any:
    """What an iteration over a Dataset of ``datasets`` gives, with images that are decoded or not."""
    features = {"image": SimpleNamespace(), "label": SimpleNamespace(names=["blue", "red"])}
    rows = [{"image": Image.fromarray(a), "label": i % 2} for i, a in enumerate(ARRAYS)]
    return type("Dataset", (), {"features": features, "column_names": ["image", "label"], "__iter__": lambda self: iter(rows)})()


def encoded_rows() -> Any:
    return [
        {"image": {"bytes": png(tuple(map(int, a[0, 0])), (5, 6)), "path": None}, "label": n}
        for a, n in zip(ARRAYS, LABELS, strict=True)
    ]


FORMS = {
    "tuples of arrays": lambda: (list(zip(ARRAYS, LABELS, strict=True)), ("image", "label")),
    "dicts of PIL images": lambda: ([{"image": Image.fromarray(a), "label": n} for a, n in zip(ARRAYS, LABELS, strict=True)],),
    "columns": lambda: ({"image": ARRAYS, "label": LABELS},),
    "Dataset": lambda: (datasets_rows(),),
    "encoded": lambda: (encoded_rows(),),
}


@pytest.mark.parametrize("form", FORMS)
def test_images_in_memory_are_stored_without_loss(form: str) -> None:
    table = cache_rows(*FORMS[form]())
    assert cache_rows(*FORMS[form]()) == table  # equal content, equal name
    train = train_split(table)
    assert [train.raw(row)["label"] for row in range(10)] == LABELS
    field = train.info["image"]
    for row in range(10):
        shown = field.displayed(train[row]["image"]).astype(int)
        assert np.abs(shown - ARRAYS[row]).max() <= (5 if form == "encoded" else 0)


def test_a_data_frame_of_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    write_files(tmp_path, {f"{i}.png": png(tuple(map(int, a[0, 0]))) for i, a in enumerate(ARRAYS)})
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame({"path": [f"{i}.png" for i in range(10)], "label": LABELS})
    train = train_split(cache_rows(frame))
    assert len(train) == 10 and train.raw(3)["image"] == str(tmp_path / "3.png")


def test_arrays_of_many_channels_and_gray_ones(tmp_path: Path) -> None:
    many = [np.random.default_rng(i).integers(0, 256, (4, 4, 6)).astype(np.uint8) for i in range(4)]
    train = train_split(cache_rows(list(zip(many, "abab", strict=True)), ("image", "label")), channels=6)
    assert train.info["image"].shape == (6, 6, 5)
    assert image_path(many[0]).endswith(".npy") and image_path(many[0][..., 0]).endswith(".png")
    with pytest.raises(ValueError, match=r"float64 arrays must be in \[0, 1\]"):
        image_path(np.full((2, 2, 3), 300.0))


def test_other_values_are_no_images(tmp_path: Path) -> None:
    for value in ("a photo.png", "x" * 5000 + ".png", 3, None, [1, 2], {"a": 1}, np.zeros((2, 3)), np.arange(3)):
        assert image_path(value) is None
    rows = [
        json.loads(line) for line in Path(cache_rows([{"text": "no.png", "vector": np.zeros((2, 2))}])).read_text().splitlines()
    ]
    assert rows == [{"text": "no.png", "vector": [[0, 0], [0, 0]]}]


def test_a_run_predicts_images_in_memory(tmp_path: Path) -> None:
    run = Run(
        data=partial(LabeledImages, train=cache_rows(list(zip(ARRAYS * 3, LABELS * 3, strict=True)), ("image", "label")), size=8),
        structure=vit(dim=16, layers=1, heads=2, hidden=32, patch=4),
        objective=Classification,
        learning=partial(Gradient, steps=40, batch_tokens=64),
    )
    trained = run.train(tmp_path / "run", quiet=True)
    images = [Image.fromarray(ARRAYS[1]), ARRAYS[0]]
    assert trained.predict(images) == ["red", "blue"] == trained.predict([{"image": image} for image in images])
    assert trained.predict(np.stack(ARRAYS[:4])) == LABELS[:4]
