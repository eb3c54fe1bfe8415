"""Augmented training examples follow from seed, epoch and row alone: no process, batch or resumption changes them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.data.sources.image_files import COLORS, class_files, png, write_files

from weft.core.batch import Batch, Clock, collate
from weft.core.example import MIXED, MixedLabel
from weft.core.fields import ImageField, Info, LabelField
from weft.core.seq import Seq
from weft.data import (
    ColorJitter,
    CutMix,
    EvaluationFeed,
    Feed,
    HorizontalFlip,
    LabeledImages,
    Mixture,
    Mixup,
    RandomCrop,
)
from weft.models import vit
from weft.objectives import Classification, MaskedPatches
from weft.training.recipes import read_run_text

STEPS = [partial(RandomCrop, padding=2), HorizontalFlip, ColorJitter, partial(Mixup, alpha=1.0)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("data") / "photos", class_files(10))


def source(photos: Path, **options: Any) -> LabeledImages:
    return LabeledImages(**{"train": str(photos), "size": 8, "validation_fraction": 0.0, "augment": STEPS, **options})


def feed(photos: Path, cls: Any = Feed, key: Any = (0, 0, "main"), **options: Any) -> Any:
    corpus = source(photos, **options).open()
    return cls(corpus.splits["train"], Classification(corpus.codec.info, 8), key=key, budget=40)


def by_row(batch: Batch) -> dict[int, tuple[bytes, int, int, float]]:
    columns = [batch[name].tolist() for name in ("label", "other_label", "label_weight")]
    images = [image.numpy().tobytes() for image in batch["text"].data]
    return dict(zip(batch.rows, zip(images, *columns, strict=True), strict=True))


def test_processes_order_and_resumption_change_nothing(photos: Path) -> None:
    one, other = feed(photos), feed(photos)
    draws = range(2 * len(one))
    whole = [by_row(one.batch(draw)) for draw in draws]
    assert [by_row(other.batch(draw)) for draw in reversed(draws)] == whole[::-1]  # in any order, as after resuming
    parts = [[by_row(other.batch(draw, rank=rank, world=3)) for rank in range(3)] for draw in draws]
    assert [{row: value for part in found for row, value in part.items()} for found in parts] == whole
    first, second = ({r: v for batch in half for r, v in batch.items()} for half in (whole[: len(one)], whole[len(one) :]))
    assert first.keys() == second.keys() == set(range(20))
    assert all(first[row] != second[row] for row in first)  # another epoch
    assert {r: v for b in map(by_row, map(feed(photos, key=(1, 0, "main")).batch, draws)) for r, v in b.items()} != first


def test_evaluation_sees_no_augmentation(photos: Path) -> None:
    plain = source(photos, augment=None).open().splits["train"]
    for batch in feed(photos, EvaluationFeed):
        assert "other_label" not in batch
        seen = zip(batch.rows, batch["text"].data, strict=True)
        assert all(np.array_equal(image.numpy(), plain[row]["image"]) for row, image in seen)


def test_a_mixed_image_is_that_of_two_augmented_rows_and_the_label_stays(photos: Path) -> None:
    corpus = source(photos, augment=[HorizontalFlip, partial(CutMix, probability=0.5)], normalization="imagenet").open()
    train, mixed = corpus.splits["train"], 0
    for row in range(20):
        example = train.training_example(row, np.random.default_rng(row))
        assert example["label"] == train[row]["label"] and isinstance(example[MIXED], MixedLabel)
        own = [train[row]["image"], train[row]["image"][:, :, ::-1]]
        same = max((example["image"] == image).all(0).mean() for image in own)
        assert same >= example[MIXED].weight - 1e-9
        mixed += example[MIXED].weight < 1
        foreign = (example["image"] != max(own, key=lambda image: (example["image"] == image).all(0).mean())).any(0)
        if foreign.any():  # the other label is that of the pixels from another image: 1 = red
            shown = corpus.codec.info["image"].displayed(example["image"])
            assert (shown[foreign][:, 0].mean() > 128) == example[MIXED].label
        assert example[MIXED].weight < 1 or example[MIXED].label == example["label"]
    assert 3 <= mixed <= 17


def test_the_loss_of_a_mixed_example_is_the_weighted_loss_of_both_labels() -> None:
    info = Info({"image": ImageField("image", 1, 4, 4), "label": LabelField("label", 3)}, target="image")
    model = vit(dim=8, layers=1, heads=2, hidden=8, patch=2)(info)
    objective = Classification(info, 8)
    image = np.random.default_rng(0).normal(size=(1, 4, 4)).astype(np.float32)

    def loss(label: int, mixed: MixedLabel | None) -> float:
        example = {"image": image, "label": label} | ({MIXED: mixed} if mixed else {})
        batch = collate([objective.prepare(example, np.random.default_rng(0), None)] * 2)
        assert objective.counts(batch) == {"loss": 2}
        return objective.forward(model.eval(), batch, Clock())["loss"].total.item()

    expected = 0.3 * loss(0, None) + 0.7 * loss(2, None)
    assert loss(0, MixedLabel(2, 0.3)) == pytest.approx(expected, rel=1e-5)
    logits = model(Seq(torch.from_numpy(np.stack([image] * 2))))
    soft = torch.tensor([[0.3, 0.0, 0.7]] * 2)
    assert loss(0, MixedLabel(2, 0.3)) == pytest.approx(-(logits.log_softmax(-1) * soft).sum().item(), rel=1e-5)


def test_other_objectives_take_augmented_images(photos: Path) -> None:
    corpus = source(photos).open()
    objective = MaskedPatches(corpus.codec.info, 8, patch_size=4)
    assert Feed(corpus.splits["train"], objective, key=0, budget=40).batch(0)["image"].data.shape[1:] == (3, 8, 8)


def test_a_mixture_augments_the_examples_of_its_sources(photos: Path) -> None:
    make = partial(LabeledImages, train=str(photos), size=8, validation_fraction=0.0)
    flipped = [partial(HorizontalFlip, probability=1.0)]
    train = Mixture(of={"a": make, "b": partial(make, augment=flipped)}).open().splits["train"]
    for row in (0, 19, 20, 39):
        plain, seen = train[row]["image"], train.training_example(row, np.random.default_rng(0))["image"]
        assert np.array_equal(seen, plain[:, :, ::-1] if row >= 20 else plain)


def test_what_cannot_be_mixed_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="augment has mixup and cutmix; at most one may mix examples"):
        source(photos, augment=[Mixup, CutMix]).open()
    (tmp_path / "t.tsv").write_text("image\tlabel\na.png\t1\nb.png\t2\n")
    write_files(tmp_path / ".", {"a.png": png(), "b.png": png(COLORS["blue"])})
    with pytest.raises(ValueError, match=r"mixup mixes examples with one class each; remove it from augment"):
        source(tmp_path / "t.tsv", augment=[Mixup], label_type="number").open()


def test_a_run_with_augmentation_resumes_bit_exactly(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = (
        f"data: {{type: labeled-images, train: {photos}, size: 8, validation_fraction: 0.2, "
        "augment: [{type: random-crop, padding: 1}, horizontal-flip, {type: mixup, alpha: 1.0}]}\n"
        "structure: {type: vit, dim: 8, layers: 1, heads: 2, hidden: 8, patch: 4}\nobjective: classification\ndevice: cpu\n"
        "learning: {type: gradient, steps: 6, batch_tokens: 40, save_every: 2}\n"
    )

    def train(name: str, resume: bool = False) -> dict[str, torch.Tensor]:
        return read_run_text(recipe, "r.yaml", tmp_path).train(tmp_path / name, quiet=True, resume=resume).model.state_dict()

    whole, batch = train("whole"), Feed.batch

    def interrupted(self: Feed, draw: int, *rest: Any) -> Batch | None:
        if draw == 5:
            raise KeyboardInterrupt
        return batch(self, draw, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Feed, "batch", interrupted)
        train("stopped")
    resumed = train("stopped", resume=True)
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
    plain = recipe.replace("horizontal-flip, ", "")
    other = read_run_text(plain, "r.yaml", tmp_path).train(tmp_path / "plain", quiet=True).model.state_dict()
    assert not all(torch.equal(value, other[name]) for name, value in whole.items())
