"""Patch embeddings, and how they compose with positions and sums."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from weft.blocks import (
    LayerNorm,
    LearnedPositionEmbedder,
    PatchEmbedder,
    SinusoidalPositionEmbedder,
    SumEmbedder,
    TokenEmbedder,
    patchify,
    unpatchify,
)
from weft.core.batch import Batch, Clock, Instance, collate
from weft.core.contracts import Codec, Data
from weft.core.fields import ImageField, Info, LabelField, TextField
from weft.core.seq import Seq
from weft.data import load_codec, save_codec
from weft.models import Classifier, ImageEncoder
from weft.objectives import Classification, MaskedLM
from weft.training.dry_run import synthetic_batch

FIELD = ImageField("image", 3, 12, 12)
LABEL = LabelField("label", 2)
INFO = Info({"image": FIELD, "label": LABEL}, "image")


def images(rows: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, 3, 12, 12, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("channels", "height", "width", "size"), [(3, 12, 12, 4), (1, 6, 4, 2), (2, 5, 5, 5), (4, 6, 9, 1)])
def test_unpatchify_inverts_patchify(channels: int, height: int, width: int, size: int) -> None:
    x = torch.randn(2, channels, height, width)
    patches = patchify(x, size)
    assert patches.shape == (2, height * width // size**2, channels * size**2)
    assert torch.equal(unpatchify(patches, size, height, width), x)
    assert torch.equal(patches, F.unfold(x, size, stride=size).transpose(1, 2))


def test_patches_are_in_row_major_order() -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert patchify(x, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    with pytest.raises(ValueError, match="an image of 4 x 4 pixels is not divisible into patches of 3 x 3"):
        patchify(x, 3)


def test_images_need_not_be_square() -> None:
    oblong = ImageField("image", 3, 8, 12)
    patch = PatchEmbedder(5, oblong, size=4, cls_token=False, position=None)
    x = torch.randn(2, 3, 8, 12)
    expected = patchify(x, 4) @ patch.weight.flatten(1).T + patch.bias
    torch.testing.assert_close(patch(Seq(x)).data, expected)
    assert PatchEmbedder(5, oblong, size=4)(Seq(x)).data.shape == (2, 1 + 2 * 3, 5)
    with pytest.raises(ValueError, match=r"the image has 3 x 12 x 8 .* but the model expects 3 x 8 x 12"):
        patch(Seq(x.mT))
    with pytest.raises(ValueError, match=r"images of 8 x 12 pixels .* patches of 8 x 8; set size to a divisor of 8 and 12"):
        PatchEmbedder(5, oblong, size=8)


def test_patch_embedding_equals_a_linear_layer_on_patches() -> None:
    patch = PatchEmbedder(5, FIELD, size=4, cls_token=False, position=None)
    assert patch.weight.shape == (5, 3, 4, 4) and patch.bias.shape == (5,)
    torch.nn.init.normal_(patch.bias)
    out = patch(Seq(images())).data
    torch.testing.assert_close(out, F.linear(patchify(images(), 4), patch.weight.flatten(1), patch.bias))


def test_class_token_and_position_embeddings_are_added() -> None:
    patch = PatchEmbedder(5, FIELD, size=4)
    assert isinstance(patch.position, LearnedPositionEmbedder) and patch.position.weight.shape == (10, 5)
    out = patch(Seq(images())).data
    assert out.shape == (2, 10, 5)
    torch.testing.assert_close(out[1, 0], patch.cls_token + patch.position.weight[0])
    plain = F.linear(patchify(images(), 4), patch.weight.flatten(1), patch.bias)
    torch.testing.assert_close(out[:, 1:], plain + patch.position.weight[1:])
    waves = PatchEmbedder(6, FIELD, size=4, position=SinusoidalPositionEmbedder)
    assert waves(Seq(images())).data.shape == (2, 10, 6)


def test_each_embedding_depends_on_its_own_patch_only() -> None:
    patch = PatchEmbedder(5, FIELD, size=4)
    jacobian = torch.autograd.functional.jacobian(lambda x: patch(Seq(x)).data.sum(-1)[0], images(1))
    assert isinstance(jacobian, torch.Tensor)
    touched = patchify(jacobian[:, 0], 4).abs().sum(-1) > 0  # T x N
    assert not touched[0].any() and torch.equal(touched[1:], torch.eye(9, dtype=torch.bool))


def test_sum_normalizes_and_drops_patch_embeddings() -> None:
    total = SumEmbedder(5, FIELD, parts=[partial(PatchEmbedder, size=4)], norm=LayerNorm)
    torch.testing.assert_close(total(Seq(images())).data, F.layer_norm(total.parts[0](Seq(images())).data, (5,)))
    assert SumEmbedder(8, FIELD, parts=[partial(PatchEmbedder, size=4)], embedding_dim=5)(Seq(images())).data.shape == (2, 10, 8)


def test_initial_patch_embeddings_have_variance_one() -> None:
    out = PatchEmbedder(256, FIELD, size=4, position=None)(Seq(images(50))).data
    assert out[:, 1:].std().item() == pytest.approx(1, abs=0.05)


def test_invalid_images_and_patch_sizes_are_rejected() -> None:
    with pytest.raises(
        ValueError, match="images of 12 x 12 pixels are not divisible into patches of 5 x 5; set size to a divisor of 12"
    ):
        PatchEmbedder(4, FIELD, size=5)
    with pytest.raises(ValueError, match="the embedder patch needs images, but the field 'text' is of type text"):
        PatchEmbedder(4, TextField("text", 9), size=4)
    patch = PatchEmbedder(4, FIELD, size=4)
    with pytest.raises(
        ValueError, match=r"the image has 1 x 12 x 12 \(channels x height x width\), but the model expects 3 x 12 x 12"
    ):
        patch(Seq(torch.zeros(2, 1, 12, 12)))
    with pytest.raises(ValueError, match=r"the image has 3 x 16 x 12 .*the model expects 3 x 12 x 12"):
        patch(Seq(torch.zeros(2, 3, 16, 12)))
    for embedder in (TokenEmbedder, LearnedPositionEmbedder, SinusoidalPositionEmbedder, SumEmbedder):
        with pytest.raises(ValueError, match="cannot embed the image field 'image'; use the embedder patch"):
            embedder(4, FIELD)


# --------------------------------------------------------------------------------------------------------- image fields


def test_synthetic_images_are_collated() -> None:
    example = INFO.synthetic_example(np.random.default_rng(0), 3)
    assert example["image"].shape == (3, 12, 12) and example["image"].dtype == np.float32
    batch = collate([Instance(image=example["image"], label=1), Instance(image=example["image"] * 2, label=0)])
    x = batch["image"]
    assert x.data.shape == (2, 3, 12, 12) and x.mask is None
    assert (x.rows, x.width, x.real().tolist(), x.lengths().tolist()) == (2, 1, [[True], [True]], [1, 1])
    assert x.select(torch.tensor([1])).data.shape == (1, 3, 12, 12)
    assert batch.tokens() == 24  # the side of each
    floats = collate([Instance(v=np.zeros((2, 3), np.float32))])["v"]
    assert isinstance(floats, torch.Tensor)  # no image


def test_image_is_the_input_of_data_without_text() -> None:
    assert INFO.inputs() == [FIELD] and INFO.images() == [FIELD] and INFO.texts() == []
    text = TextField("text", 9)
    both = Info({"image": FIELD, "text": text})
    assert both.inputs() == [text] == both.input_texts()
    with pytest.raises(ValueError, match=r"needs texts of one id space, but the data .* has: image, label"):
        INFO.input_texts()
    with pytest.raises(ValueError, match="needs texts of one id space"):
        MaskedLM(INFO, 8)
    with pytest.raises(ValueError, match=r"the data \(data\) has no image field, only text; use data such as labeled-images"):
        ImageEncoder(Info({"text": text}))


def test_batch_size_of_images_follows_their_height() -> None:
    batch = synthetic_batch(INFO, Classification(INFO, 8), 5)
    assert isinstance(batch, Batch) and len(batch) == 5


def test_classifier_predicts_the_class_of_an_image() -> None:
    model = Classifier(INFO, dim=8, embedder=partial(PatchEmbedder, size=4))
    objective = Classification(INFO, 8)
    batch = collate(
        [objective.prepare(INFO.synthetic_example(np.random.default_rng(s)), None, None) or Instance() for s in range(3)]
    )
    assert objective(model, batch, Clock())["loss"].count == 3
    assert len(objective.predict(model, batch, None)) == 3  # pyright: ignore[reportArgumentType]


def test_image_encoder_without_pooler_has_no_features() -> None:
    with pytest.raises(ValueError, match="ImageEncoder has no pooler; set the option pooler"):
        ImageEncoder(INFO, dim=8, embedder=partial(PatchEmbedder, size=4)).features(Seq(images()))


def test_image_field_is_saved_and_loaded(tmp_path) -> None:
    class Pictures(Data):
        def declare(self):
            return INFO

        def open(self, codec=None, *, tokenizers=None, splits=(), progress=None):
            raise AssertionError("the codec is loaded without opening the data")

        def tokenizers(self):
            return {}

    save_codec(Codec(INFO, {}), tmp_path)
    assert load_codec(Pictures(), tmp_path).info == INFO
