"""Images from files: what is read, what is refused, and a run of each kind on them."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from weft import Run, load
from weft.core.fields import ImageField
from weft.data import HorizontalFlip, LabeledImages, load_codec, read_image, save_codec
from weft.evaluate import Accuracy, Evaluation
from weft.learning import Gradient
from weft.models import vit
from weft.objectives import Classification, MaskedPatches
from weft.training.dry_run import check
from weft.training.recipes import read_run_text

GRAY = ImageField("image", 1, 4, 4)
RED, BLUE = (250, 5, 5), (5, 5, 250)


def write_images(folder: Path, rows: int = 12, name: str = "train.tsv") -> Path:
    """Images that are red or blue, of different sizes, and a table of them."""
    rng, lines = np.random.default_rng(0), ["file\tlabel"]
    (folder / "images").mkdir(exist_ok=True)
    for i in range(rows):
        label, color = (("blue", BLUE), ("red", RED))[i % 2]
        pixels = np.clip(np.array(color) + rng.integers(-5, 6, (9 + i, 7 + 2 * i, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"images/{i}.png")
        lines.append(f"images/{i}.png\t{label}")
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_images_are_read_stretched_and_scaled(tmp_path: Path) -> None:
    corpus = LabeledImages(train=str(write_images(tmp_path)), size=8, validation_fraction=0.0).open()
    train = corpus.splits["train"]
    assert list(corpus.splits) == ["train"] and len(train) == 12
    assert corpus.codec.info["label"].labels == ("blue", "red")
    assert train.lengths["image"].tolist() == [8] * 12
    for row in range(12):
        example = train[row]
        assert example["image"].shape == (3, 8, 8) and example["image"].dtype == np.float32
        color = np.array((BLUE, RED)[example["label"]]) / 127.5 - 1
        assert np.abs(example["image"].mean((1, 2)) - color).max() < 0.05
        assert train.raw(row) == {"image": str(tmp_path / f"images/{row}.png"), "label": ("blue", "red")[example["label"]]}
    assert corpus.ledger["train"]["rows"] == corpus.ledger["train"]["rows read"] == 12
    with pytest.raises(IndexError, match="row 12 is out of range: the dataset has 12 rows"):
        train[12]


def test_images_need_not_be_square(tmp_path: Path) -> None:
    table = write_images(tmp_path)
    corpus = LabeledImages(train=str(table), size=(4, 8), validation_fraction=0.0).open()
    assert corpus.codec.info.images()[0].shape == (3, 4, 8) and corpus.splits["train"].lengths["image"].tolist() == [8] * 12
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[1, 6] = 255
    Image.fromarray(pixels).save(tmp_path / "images/0.png")
    corpus = LabeledImages(train=str(table), size=(4, 8), validation_fraction=0.0).open()
    assert np.argwhere(corpus.splits["train"][0]["image"] > 0).tolist() == [[c, 1, 6] for c in range(3)]
    recipe = (
        f"data: {{type: labeled-images, train: {table}, size: [4, 8], validation_fraction: 0}}\n"
        "structure: {type: vit, dim: 8, layers: 1, heads: 2, hidden: 8, patch: 2}\nobjective: classification\ndevice: cpu\n"
        "learning: {type: gradient, steps: 2, batch_tokens: 64}\n"
    )
    run = read_run_text(recipe, "r.yaml", tmp_path).train(tmp_path / "run", quiet=True)
    assert run.model.embedder.parts[0].number == 8 and run.predict([str(tmp_path / "images/1.png")])[0] in ("blue", "red")


def test_rows_and_columns_of_an_image_stay_where_they_are(tmp_path: Path) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3) * 5
    Image.fromarray(pixels).save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png", ImageField("image", 3, 4, 4))
    assert np.allclose(found, pixels.transpose(2, 0, 1) / 127.5 - 1)
    gray = read_image(tmp_path / "a.png", ImageField("image", 1, 4, 4))
    assert gray.shape == (1, 4, 4) and found.min() >= -1 and found.max() <= 1
    Image.fromarray(pixels[:, :, 0], "L").convert("LA").save(tmp_path / "b.png")
    assert read_image(tmp_path / "b.png", ImageField("image", 3, 2, 2)).shape == (3, 2, 2)


def test_rows_are_held_out_by_their_names_and_classes_are_kept(tmp_path: Path) -> None:
    table = str(write_images(tmp_path, 40))
    corpus = LabeledImages(train=table, size=4, validation_fraction=0.3).open()
    names = {s: {d.raw(i)["image"] for i in range(len(d))} for s, d in corpus.splits.items()}
    assert 4 <= len(names["valid"]) <= 20 and not names["train"] & names["valid"]
    assert len(names["train"] | names["valid"]) == 40
    again = LabeledImages(train=table, test=table, size=4, validation_fraction=0.3).open(corpus.codec, splits=("test",))
    assert list(again.splits) == ["test"] and len(again.splits["test"]) == 40
    save_codec(corpus.codec, tmp_path)
    assert load_codec(LabeledImages(train=table, size=4), tmp_path).info == corpus.codec.info


def opened(folder: Path, lines: list[str], **options: Any) -> Any:
    write_images(folder, 4)
    (folder / "table.tsv").write_text("\n".join(["image\tlabel", *lines]) + "\n")
    return LabeledImages(train=str(folder / "table.tsv"), size=4, validation_fraction=0.0, **options).open()


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["images/0.png\ta", "images/9.png\tb"], {}, r"table.tsv:3: image not found: .*images/9.png"),
        (["images/0.png\ta", "\tb"], {}, r"table.tsv:3: image is empty"),
        (["images/0.png\t ", "images/1.png\tb"], {}, r"table.tsv:2: label is empty"),
        (["images/0.png\ta\tb"], {}, r"table.tsv:2: 3 columns, but the header has 2"),
        (["images/0.png\ta"], {}, r"every row has the label 'a'; at least two classes are needed"),
        (
            ["images/0.png\ta", "images/1.png\tb"],
            {"labels": ("a", "c")},
            r"table.tsv:3: unknown label 'b'; known: a, c",
        ),
        (["images/0.png\ta"], {"label": "kind"}, r"no column 'kind'; available: image, label"),
        ([], {"labels": ("a", "b")}, r"table.tsv: no row has text"),
    ],
)
def test_errors_in_a_table_are_reported(tmp_path: Path, lines: list[str], options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        opened(tmp_path, lines, **options)


def test_other_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"nowhere.tsv: file not found"):
        LabeledImages(train=str(tmp_path / "nowhere.tsv")).open()
    with pytest.raises(ValueError, match=r"labels must be at least two distinct class names, not \['a', 'a'\]"):
        LabeledImages(train="t.tsv", labels=("a", "a"))
    with pytest.raises(ValueError, match="the data has no split 'test'; available: train, valid"):
        LabeledImages(train=str(write_images(tmp_path)), size=4).open(splits=("test",))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match="needs the package Pillow, which is not installed: pip install"):
        LabeledImages(train=str(tmp_path / "train.tsv"), size=4, validation_fraction=0.0).open()
    with pytest.raises(ValueError, match="needs the package Pillow, which is not installed: pip install"):
        read_image(tmp_path / "images/0.png", GRAY)


def test_a_damaged_image_is_found_before_training_with_its_line(tmp_path: Path) -> None:
    train, valid = write_images(tmp_path), write_images(tmp_path, 8, "valid.tsv")
    data = LabeledImages(train=str(train), valid=str(valid), size=4)
    data.open()
    good = (tmp_path / "images/3.png").read_bytes()
    (tmp_path / "images/3.png").write_bytes(good[: len(good) // 2])  # a valid header, half of the pixels
    with pytest.raises(ValueError, match=r"train\.tsv:5: .*images/3\.png: cannot be read as an image: .*truncated"):
        data.open()
    with pytest.raises(ValueError, match=r"valid\.tsv:5: .*images/3\.png"):
        data.open(splits=("valid",))
    (tmp_path / "images/3.png").write_bytes(good)
    assert len(data.open().splits["valid"]) == 8


def test_images_are_decoded_once_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, read = str(write_images(tmp_path)), []
    decode = ImageField._decoded
    monkeypatch.setattr(
        ImageField, "_decoded", lambda self, path, data: (read.append(Path(path).name), decode(self, path, data))[1]
    )
    for _ in range(2):
        LabeledImages(train=table, size=4, validation_fraction=0.0).open()
    assert sorted(read) == sorted(f"{i}.png" for i in range(12))
    Image.new("RGB", (50, 50)).save(tmp_path / "images/3.png")
    LabeledImages(train=table, size=4, validation_fraction=0.0).open()
    assert len(read) == 24
    LabeledImages(train=table, size=4, validation_fraction=0.0, normalization="imagenet", augment=[HorizontalFlip]).open()
    assert len(read) == 24  # neither changes what is stored


@pytest.mark.parametrize(
    "content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n", b"no image"], ids=["EPS", "text"]
)
def test_only_listed_formats_are_decoded(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow would call Ghostscript for an EPS file, whatever its name."""
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was called"))
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.png: cannot be read as an image: not one of PNG, JPEG, GIF, BMP, WEBP, TIFF, PPM"):
        read_image(tmp_path / "x.png", GRAY)


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "bmp", "webp", "tif", "ppm"])
def test_every_listed_format_is_read(tmp_path: Path, suffix: str) -> None:
    Image.new("RGB", (8, 8), (255, 255, 255)).save(tmp_path / f"a.{suffix}")
    assert np.allclose(read_image(tmp_path / f"a.{suffix}", GRAY), 1, atol=0.02)


def test_the_number_of_pixels_is_checked_before_decoding(tmp_path: Path) -> None:
    header = b"P6 60000 60000 255\n"  # 10 GB of pixels, which the file does not have
    (tmp_path / "a.ppm").write_bytes(header)
    with pytest.raises(ValueError, match=r"a\.ppm: cannot be read as an image: .*60000 x 60000|pixels"):
        read_image(tmp_path / "a.ppm", GRAY)
    (tmp_path / "a.ppm").write_bytes(b"P5 9000 9000 255\n")  # fewer than the limit of Pillow
    with pytest.raises(ValueError, match=r"it has 9000 x 9000 pixels; at most 67,108,864 are allowed"):
        read_image(tmp_path / "a.ppm", GRAY)


@pytest.mark.parametrize(
    ("pixels", "suffix", "expected"),
    [
        (np.array([[0, 30000, 65535]], np.uint16), "png", [0, 117, 255]),
        (np.array([[0, 30000, 65535]], np.uint16), "tif", [0, 117, 255]),
        (np.array([[0, 30000, 65535]], np.int32), "tif", [0, 117, 255]),
        (np.array([[0, 0.5, 1]], np.float32), "tif", [0, 128, 255]),
    ],
)
def test_wide_values_are_scaled_by_their_range(tmp_path: Path, pixels: np.ndarray, suffix: str, expected: list[int]) -> None:
    Image.fromarray(np.repeat(pixels, 3, 0)).save(tmp_path / f"a.{suffix}")
    for channels in (1, 3):
        found = read_image(tmp_path / f"a.{suffix}", ImageField("image", channels, 3, 3))
        assert np.allclose((found + 1) * 127.5, np.array(expected), atol=0.01)


@pytest.mark.parametrize("value", [70_000, -1, 1.5, math.nan])
def test_values_out_of_range_are_an_error(tmp_path: Path, value: float) -> None:
    Image.fromarray(np.full((2, 2), value, np.int32 if isinstance(value, int) else np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match=r"its values are in \[.*\]; (I images must be in \[0, 65535\]|F images .* \[0, 1\])"):
        read_image(tmp_path / "a.tif", GRAY)


EVALUATION = partial(Evaluation, metrics=[Accuracy])
SMALL = partial(vit, dim=16, layers=1, heads=2, hidden=32, patch=4)


def test_a_vit_learns_to_tell_images_apart(tmp_path: Path) -> None:
    data = partial(LabeledImages, train=str(write_images(tmp_path, 24)), size=8, validation_fraction=0.2)
    run = Run(
        data=data,
        structure=SMALL(),
        objective=Classification,
        learning=partial(Gradient, steps=40, batch_tokens=64),
        evaluate=EVALUATION,
    )
    assert check(run)[0].batch == (8, 64)
    trained = run.train(tmp_path / "run", quiet=True)
    judged = trained.evaluate("valid")
    assert judged.metric_values["accuracy"] == 1.0
    assert (tmp_path / "run/confusion.png").is_file()
    assert trained.predict([str(tmp_path / f"images/{i}.png") for i in (0, 1, 3)]) == ["blue", "red", "red"]
    again = load(tmp_path / "run")
    assert again.predict([{"image": str(tmp_path / "images/2.png")}]) == ["blue"]
    with pytest.raises(ValueError, match=r"nowhere.png: cannot be read as an image"):
        again.predict(["nowhere.png"])


def test_a_vit_learns_from_images_alone_and_then_begins_a_classifier(tmp_path: Path) -> None:
    data = partial(LabeledImages, train=str(write_images(tmp_path, 24)), size=8, validation_fraction=0.2)
    objective = partial(MaskedPatches, patch_size=4)
    first = Run(
        data=data, structure=SMALL(task="encode"), objective=objective, learning=partial(Gradient, steps=4, batch_tokens=64)
    )
    first.train(tmp_path / "first", quiet=True)
    second = Run(
        data=data,
        structure=SMALL(weights=str(tmp_path / "first")),
        objective=Classification,
        learning=partial(Gradient, steps=2, batch_tokens=64),
    )
    second.train(tmp_path / "second", quiet=True)
    with pytest.raises(ValueError, match="EncodesImages"):
        check(Run(data=data, structure=SMALL(), objective=objective, learning=partial(Gradient, steps=4)))
