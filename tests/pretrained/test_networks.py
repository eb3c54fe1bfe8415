"""Image networks in the layout of torchvision's names and timm's config.json: loaded, used, fine-tuned, saved, converted."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

import weft
from weft.blocks import ClassifierHead
from weft.core.fields import ImageField, Info, LabelField
from weft.data import LabeledImages
from weft.inference.convert import to_published, to_run
from weft.learning import Adam, Gradient
from weft.models import ImageClassifier, MobileNetV2, resnet20, vgg11
from weft.objectives import Classification
from weft.pretrained import load, save
from weft.training.recipes import read_run_text

NAMES = ["bird", "cat", "dog"]
STRUCTURE = partial(ImageClassifier, encoder=resnet20())
INFO = Info(
    {
        "image": ImageField("image", 3, 16, 20, "crop", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.1)),
        "label": LabelField("label", 3, labels=tuple(NAMES)),
    },
    target="image",
)


@pytest.fixture
def model() -> ImageClassifier:
    """A model with statistics of its own."""
    built = STRUCTURE(INFO)
    built.train()(torch.randn(8, 3, 16, 20))
    return built.eval()


@pytest.fixture
def folder(model: ImageClassifier, tmp_path: Path) -> Path:
    """A published ResNet-20, as timm and torchvision write it."""
    save(model, STRUCTURE, tmp_path / "mine")
    tensors = load_file(tmp_path / "mine/model.safetensors")
    extra = {name.replace("running_mean", "num_batches_tracked"): torch.tensor(7) for name in tensors if "running_mean" in name}
    config = {
        "architecture": "resnet20",
        "num_classes": 3,
        "label_names": NAMES,
        "pretrained_cfg": {"input_size": [3, 16, 20], "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.1], "crop_pct": 0.9},
    }
    path = tmp_path / "published"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    save_file(tensors | extra, path / "model.safetensors")
    return path


def edit(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def edit_tensors(folder: Path, changes: dict[str, Tensor | None]) -> None:
    file = folder / "model.safetensors"
    found: dict[str, Any] = load_file(file) | changes
    save_file({name: tensor for name, tensor in found.items() if tensor is not None}, file)


def photo(folder: Path, seed: int = 0) -> str:
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 20, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(folder / f"{seed}.png")
    return str(folder / f"{seed}.png")


def test_names_and_config_are_the_published_ones(model: ImageClassifier, tmp_path: Path):
    path = save(model, STRUCTURE, tmp_path / "out", config={"id2label": dict(enumerate(NAMES)), "label2id": {}})
    names = load_file(path / "model.safetensors")
    assert len(names) == 5 * 21 + 2  # 19 convolutions and two projections, each with a norm; the head
    assert {"conv1.weight", "bn1.running_var", "layer1.2.conv2.weight", "layer3.0.downsample.1.bias", "fc.bias"} <= set(names)
    config = json.loads((path / "config.json").read_text())
    assert config == {
        "architecture": "resnet20",
        "num_classes": 3,
        "label_names": NAMES,
        "input_size": [3, 16, 20],
        "mean": [0.4, 0.5, 0.6],
        "std": [0.2, 0.3, 0.1],
        "crop_mode": "center",
    }


def test_a_published_network_computes_what_was_saved(folder: Path, model: ImageClassifier):
    loaded = load(folder)
    x_BCHW = torch.randn(2, 3, 16, 20)
    assert torch.equal(loaded.model(x_BCHW), model(x_BCHW))
    assert loaded.info["image"] == INFO["image"] and loaded.info["label"] == INFO["label"]
    assert not loaded.report.new and not loaded.report.unused


def test_it_is_saved_as_it_was(folder: Path, tmp_path: Path):
    edit(folder, tag="a1")
    load(folder).save(tmp_path / "again")
    ours, theirs = (load_file(path / "model.safetensors") for path in (tmp_path / "again", folder))
    assert set(ours) == {name for name in theirs if "num_batches" not in name}
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    before, after = (json.loads((path / "config.json").read_text()) for path in (folder, tmp_path / "again"))
    assert after == before | {"input_size": [3, 16, 20], "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.1], "crop_mode": "center"}


def test_it_predicts_images_and_goes_through_a_run_folder(folder: Path, model: ImageClassifier, tmp_path: Path):
    image = photo(tmp_path)
    pixels = torch.from_numpy(np.asarray(Image.open(image)).astype(np.float32) / 255).permute(2, 0, 1)
    normalized = (pixels - torch.tensor([0.4, 0.5, 0.6])[:, None, None]) / torch.tensor([0.2, 0.3, 0.1])[:, None, None]
    with torch.no_grad():
        want = model(normalized[None]).softmax(-1)[0]
    direct = weft.load(folder)
    np.testing.assert_allclose(direct.predict_proba([image])[0], want, rtol=1e-4)
    assert direct.predict([image]) == [NAMES[int(want.argmax())]]
    run = weft.load(to_run(folder, tmp_path / "run"))
    assert np.array_equal(run.predict_proba([image]), direct.predict_proba([image]))
    to_published(tmp_path / "run", tmp_path / "back")
    before, back = (load_file(path / "model.safetensors") for path in (folder, tmp_path / "back"))
    assert set(back) == {name for name in before if "num_batches" not in name}
    assert all(torch.equal(tensor, before[name]) for name, tensor in back.items())
    assert np.array_equal(weft.load(tmp_path / "back").predict_proba([image]), direct.predict_proba([image]))


def test_a_trained_run_is_published_with_its_classes(tmp_path: Path):
    table = "image\tlabel\n" + "".join(f"{photo(tmp_path, seed)}\t{'ab'[seed % 2]}\n" for seed in range(8))
    (tmp_path / "train.tsv").write_text(table)
    run = weft.Run(
        data=partial(LabeledImages, train=str(tmp_path / "train.tsv"), size=16, validation_fraction=0.0),
        structure=STRUCTURE,
        objective=Classification,
        learning=partial(Gradient, steps=1, batch_tokens=64, optimizer=partial(Adam, lr=1e-3)),
    )
    trained = run.train(tmp_path / "run", quiet=True)
    published = weft.load(to_published(tmp_path / "run", tmp_path / "out"))
    assert published.classes == ("a", "b")
    image = photo(tmp_path, 3)
    assert np.array_equal(published.predict_proba([image]), trained.predict_proba([image]))
    assert json.loads((tmp_path / "out/config.json").read_text())["mean"] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("classes", [3, 5])
def test_weights_initialize_a_classifier_of_any_classes(folder: Path, model: ImageClassifier, classes: int, tmp_path: Path):
    table = "image\tlabel\n" + "".join(f"{photo(tmp_path, seed)}\t{'abcde'[seed % classes]}\n" for seed in range(10))
    (tmp_path / "train.tsv").write_text(table)
    run = read_run_text(
        f"""\
data: {{type: labeled-images, train: {tmp_path}/train.tsv, size: [16, 20], validation_fraction: 0.0}}
structure: {{type: image-classifier, encoder: resnet20, weights: {folder}}}
objective: classification
learning: {{type: gradient, steps: 1, batch_tokens: 64, phases: [{{train: [classifier.*]}}]}}
""",
        "r.yaml",
        tmp_path,
    )
    trained: Any = run.train(tmp_path / "run", quiet=True).model
    encoder = model.encoder.state_dict()
    assert all(torch.equal(tensor, encoder[name]) for name, tensor in trained.encoder.state_dict().items())
    near = classes == 3 and torch.allclose(trained.classifier.out.weight, model.classifier.state_dict()["out.weight"], atol=0.05)
    assert near == (classes == 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "resnet19"}, r"config\.json: unknown architecture 'resnet19'; did you mean '?resnet1[80]"),
        ({"architecture": "mobilenet_v2"}, r"no tensor of the embedder, encoder or decoder has a matching name"),
        ({"architecture": "vgg11"}, r"VGG needs images of at least 32 x 32 pixels, but they have 16 x 20"),
        ({"architecture": 5}, r"unknown architecture '5'"),
        ({"architecture": "resnet32"}, r"missing: layer1\.3\.conv1\.weight"),
        ({"num_classes": 4, "label_names": None}, r"fc\.weight .*has shape \(3, 64\), expected \(4, 64\)"),
        ({"num_classes": 4}, r"label_names has 3 names, but num_classes is 4"),
        ({"num_classes": 10**9, "label_names": None}, r"num_classes is 1000000000, but it must be"),
        ({"label_names": "cat"}, r"label_names is 'cat', but it must be"),
        ({"input_size": [3, 16]}, r"input_size is \[3, 16\], but it must be channels, height and width"),
        ({"input_size": [3, 10**9, 10**9]}, r"input_size is \[3, 1000000000, 1000000000\]"),
        ({"input_size": "3x16x16"}, r"input_size is '3x16x16', but it must be"),
        ({"mean": [0.5]}, r"mean is \[0\.5\], but it must be a list of 3 numbers"),
        ({"std": [0.5, 0.0, 0.5]}, r"std is \[0\.5, 0\.0, 0\.5\], but it must be positive"),
        ({"pretrained_cfg": [1]}, r"pretrained_cfg is \[1\], but it must be"),
        ({"pretrained_cfg": {"mean": "x"}}, r"mean is 'x', but it must be a list of 3 numbers"),
    ],
)
def test_a_config_that_is_wrong(folder: Path, changes: dict[str, Any], message: str):
    edit(folder, **changes)
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv1.weight": None}, r"missing: conv1\.weight"),
        ({"layer1.0.bn1.running_var": None}, r"missing: layer1\.0\.bn1\.running_var"),
        ({"conv1.weight": torch.zeros(16, 3, 5, 5)}, r"conv1\.weight .* has shape \(16, 3, 5, 5\), expected \(16, 3, 3, 3\)"),
        ({"bn1.running_mean": torch.full((16,), torch.nan)}, r"bn1\.running_mean .* has NaN or infinite values"),
        ({"layer1.7.conv1.weight": torch.zeros(16, 16, 3, 3)}, r"unexpected: layer1\.7\.conv1\.weight"),
    ],
)
def test_tensors_that_do_not_fit(folder: Path, changes: dict[str, Tensor | None], message: str):
    edit_tensors(folder, changes)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_keys_of_config_json_precede_those_of_pretrained_cfg(folder: Path):
    edit(folder, input_size=[3, 24, 28], mean=[0.1, 0.2, 0.3])
    image = load(folder).info.images()[0]
    assert (image.shape, image.mean, image.std) == ((3, 24, 28), (0.1, 0.2, 0.3), (0.2, 0.3, 0.1))


def test_normalization_is_that_of_torchvision_where_config_has_none(folder: Path):
    edit(folder, pretrained_cfg=None)
    image = load(folder).info.images()[0]
    assert image.shape == (3, 32, 32)
    assert (image.mean, image.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.mark.parametrize(
    "structure",
    [
        partial(ImageClassifier, encoder=partial(MobileNetV2, width=0.5)),
        partial(ImageClassifier, encoder=resnet20(), head=partial(ClassifierHead, hidden=4)),
        partial(ImageClassifier, encoder=partial(vgg11(), hidden=8)),
    ],
)
def test_a_network_of_another_size_is_not_published(structure: Any, tmp_path: Path):
    info = Info({"image": ImageField("image", 3, 32, 32), "label": LabelField("label", 3)})
    with pytest.raises(ValueError, match="this structure is none of the published families"):
        save(structure(info), structure, tmp_path / "out")
