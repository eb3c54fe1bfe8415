"""``weft new`` recognizes images in every layout, and the recipe that it writes trains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.data.sources.image_files import COLORS, class_files, png, write_files

from weft.experiments.scaffold import DetectedData, detect_data, fine_tuning_recipe, scratch_recipe
from weft.experiments.scaffold.images import image_size
from weft.training.recipes import read_run

TEXTS = [f"picture number {i} shows {'a red' if i % 2 else 'some blue'} square" for i in range(12)]


def beside(suffix: str, contents: list[str]) -> dict[str, bytes]:
    files = {f"{i}.png": png(list(COLORS.values())[i % 2], seed=i) for i in range(len(contents))}
    return {**files, **{f"{i}{suffix}": content.encode() for i, content in enumerate(contents)}}


def table(folder: Path, name: str, rows: list[Mapping[str, object]], images: str = "images") -> Path:
    write_files(folder / images, {f"{i}.png": png(list(COLORS.values())[i % 2], seed=i) for i in range(12)})
    names = list(rows[0])
    lines = [json.dumps(row) for row in rows]
    if not name.endswith("jsonl"):
        lines = [",".join(names), *(",".join(str(row[column]) for column in names) for row in rows)]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


SETS = [["a"], ["a", "b"], ["c", "b"]]
LABELS = ["red" if i % 2 else "blue" for i in range(12)]
ROWS = [{"id": i, "photo": f"{i}.png", "color": LABELS[i]} for i in range(12)]
CASES = {
    "class folders": (lambda at: write_files(at / "photos", class_files()), "labeled-images", {}),
    "archive of class folders": (lambda at: write_files(at / "photos.tar.gz", class_files()), "labeled-images", {}),
    "classes beside": (lambda at: write_files(at / "p.zip", beside(".cls", LABELS)), "labeled-images", {}),
    "short texts beside are classes": (lambda at: write_files(at / "p.tar", beside(".txt", LABELS)), "labeled-images", {}),
    "json with labels": (
        lambda at: write_files(at / "p.tar", beside(".json", [json.dumps({"label": name}) for name in LABELS])),
        "labeled-images",
        {},
    ),
    "texts beside": (lambda at: write_files(at / "p", beside(".txt", TEXTS)), "image-text", {}),
    "json with texts": (
        lambda at: write_files(at / "p.zip", beside(".json", [json.dumps({"caption": text}) for text in TEXTS])),
        "image-text",
        {},
    ),
    "table beside a folder": (lambda at: table(at, "t.csv", ROWS), "labeled-images", {"label": "color"}),
    "table with paths": (
        lambda at: table(at, "t.csv", [{**row, "photo": f"images/{row['photo']}"} for row in ROWS]),
        "labeled-images",
        {"label": "color"},
    ),
    "captions": (
        lambda at: table(
            at, "t.jsonl", [{"file_name": f"{i}.png", "captions": [text, text + "!"]} for i, text in enumerate(TEXTS)]
        ),
        "image-text",
        {},
    ),
    "two views": (
        lambda at: table(at, "t.jsonl", [{"images": [f"{i}.png", "0.png"], "report": text} for i, text in enumerate(TEXTS)]),
        "image-text",
        {"views": "2"},
    ),
    "several labels": (
        lambda at: table(
            at, "t.jsonl", [{"image": f"{i}.png", "label": [["a"], ["a", "b"], ["c", "b"]][i % 3]} for i in range(12)]
        ),
        "labeled-images",
        {"label_type": "multiple"},
    ),
    "numbers": (
        lambda at: table(at, "t.jsonl", [{"image": f"{i}.png", "score": i / 7} for i in range(12)]),
        "labeled-images",
        {"label": "score", "label_type": "number"},
    ),
}


def recipe_of(detected: DetectedData, folder: Path) -> Path:
    (folder / "recipe.yaml").write_text(scratch_recipe(detected, folder))
    return folder / "recipe.yaml"


@pytest.mark.parametrize("case", CASES)
def test_each_layout_is_recognized_and_its_recipe_can_be_built(tmp_path: Path, case: str) -> None:
    make, source, options = CASES[case]
    detected = detect_data([str(make(tmp_path))])
    assert detected.source == source and options.items() <= detected.options.items()
    content = YAML(typ="safe").load(recipe_of(detected, tmp_path))
    assert content["data"]["type"] == source and content["data"]["size"] == 8
    run = read_run(str(tmp_path / "recipe.yaml"), ["learning.epochs=1", "data.validation_fraction=0.2", "device=cpu"])
    corpus = run.data().open()
    assert len(corpus.splits["train"]) and len(corpus.splits["valid"])


@pytest.mark.parametrize("case", ["class folders", "texts beside", "several labels", "numbers"])
def test_the_recipe_trains(tmp_path: Path, case: str) -> None:
    detected = detect_data([str(CASES[case][0](tmp_path))])
    overrides = ["learning={type: gradient, steps: 2, batch_size: 4}", "device=cpu", "structure.dim=8", "evaluate.every=0"]
    trained = read_run(str(recipe_of(detected, tmp_path)), overrides).train(tmp_path / "run", quiet=True)
    assert trained.result.metric_values if detected.source == "labeled-images" else trained.result is not None


def test_folders_and_names_select_splits(tmp_path: Path) -> None:
    files = {f"{split}/{name}": data for split in ("train", "val", "test") for name, data in class_files(2).items()}
    detected = detect_data([str(write_files(tmp_path / "data", files))])
    assert {split: [Path(p).name for p in paths] for split, paths in detected.splits.items()} == {
        "train": ["train"],
        "valid": ["val"],
        "test": ["test"],
    }
    archives = [str(write_files(tmp_path / f"{name}.tar", class_files(2))) for name in ("train-0", "train-1", "dev")]
    assert {s: len(paths) for s, paths in detect_data(archives).splits.items()} == {"train": 2, "valid": 1}


def test_a_table_among_the_images_is_used_and_others_are_not(tmp_path: Path) -> None:
    folder = table(tmp_path / "data", "train.jsonl", [{"image": f"{i}.png", "label": LABELS[i]} for i in range(12)]).parent
    (folder / "findings.json").write_text('{"a": ["x"]}')
    (folder / "notes.csv").write_text("a,b\n1,2\n")
    detected = detect_data([str(folder)])
    assert detected.splits == {"train": [str(folder / "train.jsonl")]} and detected.folder == str(folder / "images")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda at: write_files(at / "p", {"1.png": png(), "2.png": png()}), r"2 images without labels or texts"),
        (
            lambda at: table(at, "t.jsonl", [{"image": f"{i}.jpg", "label": "a"} for i in range(3)]),
            r"t\.jsonl: the images were not found, such as 0\.jpg",
        ),
        (lambda at: table(at, "t.jsonl", [{"image": f"{i}.png", "id": f"x{i}"} for i in range(9)]), "neither labels nor texts"),
    ],
)
def test_what_is_missing_is_reported(tmp_path: Path, make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        detect_data([str(make(tmp_path))])


def test_files_without_images_are_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"a text of words {i},{'ab'[i % 2]}\n" for i in range(20)))
    assert detect_data([str(tmp_path / "t.csv")]).source == "labeled-text"
    with pytest.raises(ValueError, match="leave out --from, which is for texts"):
        fine_tuning_recipe(detect_data([str(write_files(tmp_path / "p", class_files()))]), tmp_path, "minilm")


@pytest.mark.parametrize(
    ("size", "color", "expected"),
    [((20, 20), (1, 2, 3), (16, 3, "stretch")), ((500, 300), (1, 2, 3), (96, 3, "crop")), ((3, 3), (7,), (8, 1, "stretch"))],
)
def test_the_size_follows_from_the_images(
    tmp_path: Path, size: tuple[int, int], color: tuple[int, ...], expected: object
) -> None:
    from PIL import Image

    Image.new("RGB" if len(color) == 3 else "L", size, color if len(color) == 3 else color[0]).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    found = image_size([str(tmp_path / "a.png"), str(tmp_path / "b.png")])
    assert (found.side, found.channels, found.resize) == expected
    assert image_size([str(tmp_path / "b.png")]).channels == 3
