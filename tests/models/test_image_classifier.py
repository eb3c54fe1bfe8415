"""Image classification: any image network, from a recipe and from Python; a frozen network stays as it is."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import weft
from weft.blocks import MeanPooler, PatchEmbedder, ResNet, Transformer
from weft.core.fields import ImageField, Info, LabelField, TextField
from weft.data import LabeledImages
from weft.learning import Adam, Gradient, Phase
from weft.models import ImageClassifier, VisionTransformer, resnet20
from weft.objectives import Classification
from weft.training.recipes import read_run_text

SMALL = partial(ResNet, layers=[1, 1], dims=[8, 16], stem_dim=8)
IMAGE = ImageField("image", 3, 16, 16)
INFO = Info({"image": IMAGE, "label": LabelField("label", 3)}, target="image")
RECIPE = """\
data: {{type: labeled-images, train: {folder}/train.tsv, size: 16, validation_fraction: 0.2}}
structure: {{type: image-classifier, encoder: {encoder}}}
objective: classification
learning: {{type: gradient, steps: {steps}, batch_tokens: 256, save_every: 0, optimizer: {{type: adam, lr: 0.01}}}}
evaluate: {{every: {steps}, metrics: [accuracy]}}
"""
RESNET = "{type: resnet, layers: [1, 1], dims: [8, 16], stem_dim: 8}"
VIT = (
    "{type: vit, dim: 16, embedder: {type: patch, size: 4}, encoder: {type: transformer, layers: 1, position: null, "
    "layer: {mixer: {type: multihead, heads: 2}}}}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of 60 images whose class is the direction of their stripes."""
    rng, rows = np.random.default_rng(0), ["image\tlabel"]
    for number in range(60):
        stripes = np.where(np.arange(16) // 2 % 2 == number // 2 % 2, 200, 50)
        pixels = np.broadcast_to(stripes[:, None] if number % 2 else stripes, (16, 16))[..., None] + rng.integers(
            0, 50, (16, 16, 3)
        )
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png\t{'rows' if number % 2 else 'columns'}")
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("encoder", [RESNET, VIT], ids=["resnet", "vit"])
def test_the_encoder_is_one_line_of_the_recipe(folder: Path, encoder: str, tmp_path: Path):
    run = read_run_text(RECIPE.format(folder=folder, encoder=encoder, steps=40), "r.yaml", tmp_path)
    trained = run.train(tmp_path / "run", quiet=True)
    assert trained.result.metric_values["accuracy"] >= 0.9
    assert weft.load(tmp_path / "run").predict([str(folder / "0.png"), str(folder / "1.png")]) == ["columns", "rows"]


def test_trains_from_python(folder: Path, tmp_path: Path):
    run = weft.Run(
        data=partial(LabeledImages, train=str(folder / "train.tsv"), size=16, validation_fraction=0.2),
        structure=partial(ImageClassifier, encoder=resnet20()),
        objective=Classification,
        learning=partial(Gradient, steps=2, batch_tokens=256, optimizer=partial(Adam, lr=1e-3)),
    )
    assert run.train(tmp_path / "run", quiet=True).predict([str(folder / "0.png")])[0] in ("columns", "rows")


def test_a_phase_that_trains_the_head_leaves_the_batch_norm_of_the_encoder_as_it_is(folder: Path, tmp_path: Path):
    def final(train: list[str]) -> dict[str, torch.Tensor]:
        run = weft.Run(
            data=partial(LabeledImages, train=str(folder / "train.tsv"), size=16, validation_fraction=0.2),
            structure=partial(ImageClassifier, encoder=SMALL),
            objective=Classification,
            learning=partial(
                Gradient, steps=5, batch_tokens=256, optimizer=partial(Adam, lr=0.1), phases=[partial(Phase, train=train)]
            ),
        )
        return run.train(tmp_path / f"run-{len(train[0])}", quiet=True).model.state_dict()

    frozen, tuned = final(["classifier.*"]), final(["*"])
    fresh = ImageClassifier(Info({"image": IMAGE, "label": LabelField("label", 2)}), encoder=SMALL).state_dict()
    statistics = [name for name in frozen if name.endswith(("running_mean", "running_var"))]
    assert len(statistics) == 2 * 6
    for name in statistics:
        assert torch.equal(frozen[name], fresh[name]), name  # 0 and 1
        assert not torch.equal(tuned[name], fresh[name]), name
    assert not torch.equal(frozen["classifier.out.weight"], tuned["classifier.out.weight"])


@pytest.mark.parametrize("shape", [(2, 3, 16, 15), (2, 1, 16, 16), (3, 16, 16)])
@pytest.mark.parametrize("encoder", [SMALL, partial(VisionTransformer, dim=8, embedder=partial(PatchEmbedder, size=4))])
def test_images_of_another_shape_are_an_error(encoder, shape: tuple[int, ...]):
    encoder = partial(encoder, encoder=partial(Transformer, layers=1)) if encoder.func is VisionTransformer else encoder
    network = encoder(IMAGE)
    for call in (network, network.vector):
        with pytest.raises(ValueError, match=r"needs images B x 3 x 16 x 16, as the data declares them, but got "):
            call(torch.zeros(shape))


def test_data_without_images_is_an_error():
    with pytest.raises(ValueError, match="no image field, only text, label; use data such as labeled-images"):
        ImageClassifier(Info({"text": TextField("text", 20), "label": LabelField("label", 2)}))


def test_layers_and_dims_of_different_lengths_are_an_error():
    with pytest.raises(ValueError, match="layers has 2 stages and dims 3"):
        ResNet(IMAGE, layers=[1, 1], dims=[4, 4, 4])


def test_vit_maps_are_the_hidden_states_of_the_patches_in_row_major_order():
    field = ImageField("image", 1, 8, 12)
    encoder = partial(Transformer, layers=1, position=None)
    for cls_token in (True, False):
        embedder = partial(PatchEmbedder, size=4, cls_token=cls_token)
        network = VisionTransformer(field, dim=4, embedder=embedder, encoder=encoder, pooler=MeanPooler).eval()
        x_BCHW = torch.randn(2, 1, 8, 12)
        (maps_BCHW,) = network(x_BCHW)
        hidden_BTD = network._hidden(x_BCHW).data[:, int(cls_token) :]
        assert maps_BCHW.shape == (2, 4, 2, 3)
        assert torch.equal(maps_BCHW[:, :, 1, 2], hidden_BTD[:, 5])
        assert torch.equal(maps_BCHW[:, :, 0, 1], hidden_BTD[:, 1])


def test_an_embedder_without_patches_is_an_error():
    with pytest.raises(ValueError, match="cannot embed the image field"):
        VisionTransformer(IMAGE, embedder=weft.blocks.SumEmbedder)
