"""Each augmentation does what its formula defines, depends on its arguments alone, and leaves them unchanged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.core.contracts import Augmentation, Mixing
from weft.core.registry import CATALOG
from weft.data import (
    ColorJitter,
    CutMix,
    HorizontalFlip,
    Mixup,
    RandomCrop,
    RandomErasing,
    RandomResizedCrop,
    SeveralOf,
)

RNG = np.random.default_rng
IMAGE = RNG(0).integers(0, 256, (3, 12, 16)).astype(np.uint8)


@pytest.mark.parametrize("name", CATALOG[Augmentation])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_the_shape_is_kept_and_the_result_follows_from_the_generator(name: str, channels: int) -> None:
    step, image = CATALOG[Augmentation][name](), RNG(1).integers(0, 256, (channels, 12, 16)).astype(np.uint8)
    before, other, changed = image.copy(), image[:, ::-1].copy(), 0
    for seed in range(20):
        results = [
            step.mix(image, other, RNG(seed))[0] if isinstance(step, Mixing) else step.augment(image, RNG(seed)) for _ in range(2)
        ]
        assert results[0].shape == image.shape and np.array_equal(*results) and np.array_equal(image, before)
        assert results[0].min() >= 0 and results[0].max() <= 255
        changed += not np.array_equal(results[0], image)
        if not isinstance(step, Mixing):  # after mixup, images are floats
            assert step.augment(image.astype(np.float32), RNG(seed)).shape == image.shape
    assert changed >= 3
    assert type(step).__module__.rpartition(".")[2] == name.replace("-", "_")


def test_a_random_crop_is_the_padded_image_at_every_position() -> None:
    padded = np.pad(IMAGE, ((0, 0), (2, 2), (2, 2)), constant_values=9)
    windows = {padded[:, y : y + 12, x : x + 16].tobytes(): (y, x) for y in range(5) for x in range(5)}
    step = RandomCrop(padding=2, fill=9)
    found = [windows[step.augment(IMAGE, RNG(seed)).tobytes()] for seed in range(500)]
    assert set(found) == set(windows.values())
    wide = RandomCrop(padding=30)  # the image may be outside altogether
    assert min(wide.augment(IMAGE, RNG(seed)).max() for seed in range(50)) == 0


def test_flips_occur_with_their_probability() -> None:
    step = HorizontalFlip(probability=0.3)
    flipped = [np.array_equal(step.augment(IMAGE, RNG(seed)), IMAGE[:, :, ::-1]) for seed in range(400)]
    assert 80 <= sum(flipped) <= 160


def test_a_resized_crop_is_a_part_of_the_image() -> None:
    ramp = np.broadcast_to(np.linspace(0, 255, 64).astype(np.uint8), (1, 64, 64)).copy()
    for seed in range(30):
        row = RandomResizedCrop(min_area=0.2).augment(ramp, RNG(seed))[0, 5].astype(int)
        assert (np.diff(row) >= 0).all()  # still a ramp
        assert 0.2 * 0.7 <= (row[-1] - row[0]) / 255 <= 1.0
    assert np.array_equal(RandomResizedCrop(min_area=1.0, max_ratio=1.0).augment(IMAGE, RNG(0)), IMAGE)


@pytest.mark.parametrize(
    ("options", "invariant"),
    [
        ({"brightness": 0.9, "contrast": 0, "saturation": 0}, lambda x: x / max(x.mean(), 1e-9)),
        ({"brightness": 0, "contrast": 0.9, "saturation": 0}, lambda x: np.tensordot([0.299, 0.587, 0.114], x, 1).mean()),
        ({"brightness": 0, "contrast": 0, "saturation": 0.9}, lambda x: np.tensordot([0.299, 0.587, 0.114], x, 1)),
    ],
    ids=["brightness", "contrast", "saturation"],
)
def test_color_jitter_keeps_what_it_does_not_change(options: dict, invariant: Callable) -> None:
    gentle = (100 + IMAGE // 12).astype(np.uint8)  # far from 0 and 255, where values are clipped
    results = [ColorJitter(**options).augment(gentle, RNG(seed)) for seed in range(30)]
    for result in results:
        assert np.allclose(invariant(result.astype(float)), invariant(gentle.astype(float)), rtol=0.05, atol=1.5)
    assert sum(not np.array_equal(result, gentle) for result in results) > 25
    none = ColorJitter(brightness=0, contrast=0, saturation=0)
    assert np.array_equal(none.augment(IMAGE, RNG(0)), IMAGE)


def test_random_erasing_replaces_a_rectangle() -> None:
    flat = np.full((3, 40, 40), 300, np.int32)  # no random value equals it
    areas = []
    for seed in range(50):
        erased = (RandomErasing(probability=1.0, min_area=0.1, max_area=0.3).augment(flat, RNG(seed)) != 300).all(0)
        rows, columns = np.flatnonzero(erased.any(1)), np.flatnonzero(erased.any(0))
        assert erased[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        areas.append(erased.mean())
    assert 0.09 <= min(areas) < 0.15 and 0.25 < max(areas) <= 0.32
    assert RandomErasing(probability=0.0).augment(flat, RNG(0)) is flat


def test_several_of_applies_a_number_of_the_list() -> None:
    class Add(Augmentation):
        def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return image_CHW + 1

    class AddTen(Augmentation):
        def augment(self, image_CHW: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return image_CHW + 10

    zero = np.zeros((1, 1, 1), int)
    sums = [int(SeveralOf(number=2, of=[Add, AddTen]).augment(zero, RNG(seed))[0, 0, 0]) for seed in range(100)]
    assert set(sums) == {2, 11, 20} and 30 <= sums.count(11) <= 70
    with pytest.raises(ValueError, match="of has no augmentation"):
        SeveralOf(of=[])
    with pytest.raises(ValueError, match="mixup mixes two examples; it cannot be one of several"):
        SeveralOf(of=[Mixup]).augment(zero, RNG(0))


def test_mixup_and_cutmix_weigh_the_labels_as_the_images() -> None:
    black, white = np.zeros((3, 16, 12), np.uint8), np.full((3, 16, 12), 255, np.uint8)
    for step in (Mixup(alpha=1.0), CutMix()):
        weights = []
        for seed in range(200):
            mixed, weight = step.mix(black, white, RNG(seed))
            assert mixed.mean() / 255 == pytest.approx(1 - weight, abs=1e-5)
            weights.append(weight)
        assert min(weights) < 0.3 and max(weights) > 0.9 and 0.4 < np.mean(weights) < 0.7
    mixed, weight = CutMix().mix(black, white, RNG(3))
    assert set(np.unique(mixed)) <= {0, 255} and 0 < weight < 1
    sharp = [min(w, 1 - w) for w in (Mixup(alpha=0.1).mix(black, white, RNG(seed))[1] for seed in range(100))]
    assert np.median(sharp) < 0.05
    kept = [Mixup(probability=0.25).mix(black, white, RNG(seed))[1] == 1.0 for seed in range(200)]
    assert 120 <= sum(kept) <= 180


@pytest.mark.parametrize("make", [lambda: RandomErasing(min_area=0.5, max_area=0.1), lambda: RandomResizedCrop(max_ratio=0.5)])
def test_impossible_sizes_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        make()
