"""Masked patches: what is hidden, what the encoder sees, and the loss of the package transformers' ViTMAE."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file

from weft.blocks import (
    GELU,
    LayerNorm,
    MultiHeadAttention,
    PatchEmbedder,
    PositionwiseFeedForward,
    PreNorm,
    Transformer,
    TransformerLayer,
    patchify,
)
from weft.core.batch import Batch, Clock, collate
from weft.core.contracts import EncodesImages
from weft.core.fields import ImageField, Info, TextField
from weft.models import ImageEncoder, vit
from weft.objectives import MaskedPatches

INFO = Info({"image": ImageField("image", 2, 12, 12)}, "image")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def made(objective: MaskedPatches, rows: int = 3, info: Info = INFO) -> Batch:
    instances = [objective.prepare(info.synthetic_example(rng(row)), rng(10 + row), None) for row in range(rows)]
    return collate([i for i in instances if i is not None])


def pair(first: bool = True, **options: Any) -> tuple[ImageEncoder, MaskedPatches]:
    torch.manual_seed(0)
    model = ImageEncoder(INFO, dim=16, embedder=partial(PatchEmbedder, size=4, cls_token=first))
    return model, MaskedPatches(INFO, 16, **{"patch_size": 4, **options})


@pytest.mark.parametrize(("ratio", "masked"), [(0.75, 7), (0.5, 4), (0.1, 1), (0.9, 8)])  # of 9
def test_the_mask_ratio_sets_the_number_of_masked_patches(ratio: float, masked: int) -> None:
    objective = MaskedPatches(INFO, 16, patch_size=4, mask_ratio=ratio)
    often = np.zeros(9)
    for seed in range(300):
        instance = objective.prepare(INFO.synthetic_example(rng()), rng(seed), None)
        assert instance is not None
        assert len(instance["masked"]) == masked
        assert sorted([*instance["masked"], *instance["visible"]]) == list(range(9))
        often[instance["masked"]] += 1
    assert np.abs(often / 300 - masked / 9).max() < 0.12  # every patch as often as any other


def test_the_generator_decides_what_is_hidden_and_nothing_else() -> None:
    objective, example = MaskedPatches(INFO, 16, patch_size=4), INFO.synthetic_example(rng())
    before = example["image"].copy()
    draws = [objective.prepare(example, rng(seed), None) for seed in (1, 1, 2)]
    positions = [instance["masked"].tolist() for instance in draws if instance is not None]
    assert positions[0] == positions[1] != positions[2]
    assert np.array_equal(example["image"], before)


@pytest.mark.parametrize("first", [True, False])
def test_the_encoder_gets_the_seen_patches_and_no_pixel_of_the_others(first: bool) -> None:
    model, objective = pair(first)
    batch = made(objective, 1)
    seen = batch["visible"].data[0].tolist()
    sizes: list[int] = []
    model.encoder.register_forward_pre_hook(lambda module, args: sizes.append(args[0].width))

    def encoded(pixels: torch.Tensor) -> torch.Tensor:
        return objective.encode_visible(model, batch["image"].with_data(pixels), batch["visible"].data).data

    jacobian = torch.autograd.functional.jacobian(encoded, batch["image"].data)
    assert isinstance(jacobian, torch.Tensor)
    assert sizes == [len(seen) + first]
    touched = patchify(jacobian.abs().sum((0, 1, 2)), 4)[0].sum(-1) > 0
    assert touched.nonzero()[:, 0].tolist() == seen


@pytest.mark.parametrize("normalize", [True, False])
def test_predictions_depend_on_the_visible_patches_alone_and_are_made_for_masked_ones(normalize: bool) -> None:
    model, objective = pair(normalize_pixels=normalize)
    batch = made(objective, 1)
    changed = batch["image"].data.clone()
    hidden = batch["masked"].data[0].tolist()
    for position in hidden:
        row, column = divmod(position, 3)
        changed[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = torch.randn(1, 2, 4, 4)
    other = Batch({**batch.fields, "image": batch["image"].with_data(changed)}, 1)
    assert torch.equal(objective.predict_pixels(model, batch), objective.predict_pixels(model, other))
    assert not torch.equal(objective.target_pixels(batch), objective.target_pixels(other))
    true = patchify(batch["image"].data, 4)[:, hidden]
    if normalize:
        true = (true - true.mean(-1, keepdim=True)) / (true.var(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(objective.target_pixels(batch), true)


def test_a_masked_patch_is_identified_by_its_position_and_the_order_of_positions_does_not_matter() -> None:
    model, objective = pair()
    batch = made(objective, 2)
    predicted = objective.predict_pixels(model, batch)
    assert (predicted[0, 0] - predicted[0, 1]).abs().max() > 1e-3
    turned = {"visible": batch["visible"].with_data(batch["visible"].data.flip(1))}
    torch.testing.assert_close(objective.predict_pixels(model, Batch({**batch.fields, **turned}, 2)), predicted)
    turned = {"masked": batch["masked"].with_data(batch["masked"].data.flip(1))}
    torch.testing.assert_close(objective.predict_pixels(model, Batch({**batch.fields, **turned}, 2)), predicted.flip(1))


def test_the_loss_is_a_sum_of_means_over_masked_patches() -> None:
    model, objective = pair()
    batch = made(objective)
    loss = objective(model, batch, Clock())["loss"]
    assert loss.count == 21 == objective.counts(batch)["loss"]
    expected = (objective.predict_pixels(model, batch) - objective.target_pixels(batch)).pow(2).mean(-1).sum()
    torch.testing.assert_close(loss.total, expected)


def test_an_image_is_reconstructed_with_the_seen_patches_as_they_are() -> None:
    for normalize in (True, False):
        model, objective = pair(normalize_pixels=normalize)
        batch = made(objective)
        image = objective.reconstruct(model, batch)
        assert image.shape == batch["image"].data.shape
        before, after = patchify(batch["image"].data, 4), patchify(image, 4)
        for row in range(3):
            seen, hidden = batch["visible"].data[row], batch["masked"].data[row]
            assert torch.equal(before[row, seen], after[row, seen])
            assert not torch.allclose(before[row, hidden], after[row, hidden])
        objective.predict_pixels = lambda model, batch, objective=objective: objective.target_pixels(batch)  # type: ignore[method-assign]
        torch.testing.assert_close(objective.reconstruct(model, batch), batch["image"].data)


def test_the_loss_falls() -> None:
    """Images of one color each: visible patches determine masked ones."""
    torch.manual_seed(0)
    structure = vit(dim=32, layers=1, heads=2, hidden=64, patch=4, task="encode")
    model, objective = structure(INFO), MaskedPatches(INFO, 32, patch_size=4, normalize_pixels=False)
    optimizer = torch.optim.Adam([*model.parameters(), *objective.parameters()], 3e-3)
    losses = []
    for step in range(80):
        images = [np.repeat(rng(100 * step + i).normal(size=2), 144).reshape(2, 12, 12).astype(np.float32) for i in range(16)]
        instances = [objective.prepare({"image": image}, rng(100 * step + i), None) for i, image in enumerate(images)]
        loss = objective(model, collate([i for i in instances if i is not None]), Clock()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-5:]) < 0.3 * np.mean(losses[:5])
    assert np.mean(losses[-5:]) < 0.5  # 1 is the loss of predicting the mean of all colors


def test_mismatches_are_reported() -> None:
    with pytest.raises(ValueError, match=r"masked-patches needs images, but the fields of the data \(data\) are: text"):
        MaskedPatches(Info({"text": TextField("text", 9)}), 16)
    with pytest.raises(ValueError, match="images of 12 x 12 pixels are not divisible into patches of 16 x 16"):
        MaskedPatches(INFO, 16)
    with pytest.raises(ValueError, match=r"mask_ratio 0.01 masks 0 of the 9 patches of an image; at least one must be masked"):
        MaskedPatches(INFO, 16, patch_size=4, mask_ratio=0.01)
    with pytest.raises(ValueError, match=r"mask_ratio 1.0 masks 9 of the 9 patches"):
        MaskedPatches(INFO, 16, patch_size=4, mask_ratio=1.0)
    model, _ = pair()
    objective = MaskedPatches(INFO, 16, patch_size=2)
    with pytest.raises(
        ValueError, match="embeds an image as 10 vectors, but the objective has 36 patches of 2 x 2 pixels; set the same"
    ):
        objective(model, made(objective), Clock())
    assert EncodesImages in model.provides() and objective.needs == (EncodesImages,)


# --------------------------------------------------------------------------------------------------- transformers' ViTMAE


LAYER = {
    "attention.attention.query": "mixer.query",
    "attention.attention.key": "mixer.key",
    "attention.attention.value": "mixer.value",
    "attention.output.dense": "mixer.out",
    "layernorm_before": "mixer_residual.norm",
    "layernorm_after": "feedforward_residual.norm",
    "intermediate.dense": "feedforward.up",
    "output.dense": "feedforward.down",
}


def of_stack(file: dict[str, torch.Tensor], part: str, norm: str) -> dict[str, torch.Tensor]:
    """The tensors of a stack of theirs, by the names of ours. Between the part and the layer's number, versions differ."""
    found = {f"stack.norm.{end}": file[f"{norm}.{end}"] for end in ("weight", "bias")}
    for name, tensor in file.items():
        if match := re.fullmatch(rf"{part}\.\w+(?:\.layer)?\.(\d+)\.(.+)\.(weight|bias)", name):
            found[f"stack.layers.{match[1]}.{LAYER[match[2]]}.{match[3]}"] = tensor
    return found


def transfer_weights(file: dict[str, torch.Tensor], model: Any, objective: Any) -> None:
    """Give ours the weights of a file of theirs."""
    model.embedder.load_state_dict(
        {
            "weight": file["vit.embeddings.patch_embeddings.projection.weight"],
            "bias": file["vit.embeddings.patch_embeddings.projection.bias"],
            "cls_token": file["vit.embeddings.cls_token"][0, 0],
            "position.weight": file["vit.embeddings.position_embeddings"][0],
        }
    )
    model.encoder.load_state_dict(of_stack(file, "vit", "vit.layernorm"))
    objective.decoder.load_state_dict(of_stack(file, "decoder", "decoder.decoder_norm"))
    # theirs has the numbers of a patch by row, column, channel; ours by channel, row, column
    order = torch.arange(32).view(4, 4, 2).permute(2, 0, 1).flatten()
    with torch.no_grad():
        objective.mask_token.copy_(file["decoder.mask_token"][0, 0])
        objective.position.weight.copy_(file["decoder.decoder_pos_embed"][0])
        for end in ("weight", "bias"):
            getattr(objective.project, end).copy_(file[f"decoder.decoder_embed.{end}"])
            getattr(objective.pixel_head, end).copy_(file[f"decoder.decoder_pred.{end}"][order])


@pytest.mark.parametrize("normalize", [True, False])
def test_the_loss_is_that_of_transformers(normalize: bool, tmp_path: Path) -> None:
    config = hf.ViTMAEConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        image_size=12,
        patch_size=4,
        num_channels=2,
        decoder_hidden_size=8,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=12,
        mask_ratio=0.75,
        norm_pix_loss=normalize,
    )
    torch.manual_seed(0)
    theirs = hf.ViTMAEForPreTraining(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3)
    norm = partial(LayerNorm, eps=1e-12)

    def stack(layers: int, hidden: int) -> Any:
        layer = partial(
            TransformerLayer,
            mixer=partial(MultiHeadAttention, heads=2),
            feedforward=partial(PositionwiseFeedForward, hidden=hidden, activation=GELU),
            residual=partial(PreNorm, norm=norm),
        )
        return partial(Transformer, layers=layers, layer=layer, position=None, norm=norm)

    model = ImageEncoder(INFO, dim=16, embedder=partial(PatchEmbedder, size=4), encoder=stack(2, 20))
    objective = MaskedPatches(INFO, 16, patch_size=4, decoder=stack(1, 12), decoder_dim=8, normalize_pixels=normalize)
    theirs.save_pretrained(tmp_path)
    transfer_weights(load_file(tmp_path / "model.safetensors"), model, objective)
    batch = made(objective)
    noise = torch.zeros(3, 9).scatter(1, batch["masked"].data, 1.0)  # they keep the smallest
    with torch.no_grad():
        loss = objective(model, batch, Clock())["loss"]
        expected = theirs(batch["image"].data, noise=noise).loss
    torch.testing.assert_close(loss.total / loss.count, expected, rtol=1e-4, atol=1e-5)
