"""ViT against the package transformers: the same weights give the same states, logits and gradients, and go back unchanged."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor

import weft
from weft.blocks import InterpolatedPositionEmbedder
from weft.core.fields import ImageField, Info, LabelField, TextField, VectorField
from weft.core.seq import Seq
from weft.models import ImageEncoder, vit
from weft.models.zoo.family import FAMILIES
from weft.pretrained import load, save
from weft.training.recipes import read_run_text

BODY = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "image_size": 12,
    "patch_size": 4,
}
MODELS: dict[str, Callable[[], Any]] = {
    "pooled": lambda: hf.ViTModel(hf.ViTConfig(**BODY)),
    "bare": lambda: hf.ViTModel(hf.ViTConfig(**BODY, num_channels=2), add_pooling_layer=False),
    "odd": lambda: hf.ViTModel(hf.ViTConfig(**BODY | {"patch_size": 2}, hidden_act="gelu_new", layer_norm_eps=1e-6)),
    "one patch": lambda: hf.ViTModel(hf.ViTConfig(**BODY | {"patch_size": 12})),
    "classify": lambda: hf.ViTForImageClassification(hf.ViTConfig(**BODY, num_labels=5)),
    "gray": lambda: hf.ViTForImageClassification(hf.ViTConfig(**BODY, num_channels=1)),
}


def written(name: str, seed: int, folder: Path, norms: float = 0.0) -> Any:
    """A model of transformers whose every parameter is sampled from N(0, 0.3), those of norms around ``norms``."""
    model = MODELS[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            mean = norms if "norm" in key and key.endswith("weight") else 0.0
            tensor.copy_(mean + torch.randn(tensor.shape, generator=generator) * 0.3)
    model.save_pretrained(folder)
    return model.eval()


def pixels(model: Any, seed: int = 1, rows: int = 3) -> Tensor:
    config = model.config
    shape = rows, config.num_channels, config.image_size, config.image_size
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor, theirs: Tensor, to: float = 1e-5) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= to * max(1e-3, float(theirs.abs().max()))


def answers(ours: Any, x: Seq) -> Tensor:
    """Logits, or one vector of the image."""
    return ours.classifier(ours.features(x)) if hasattr(ours, "classifier") else ours.features(x)


def expected(result: Any) -> Tensor:
    if "logits" in result:
        return result.logits
    return result.last_hidden_state[:, 0] if result.pooler_output is None else result.pooler_output


@pytest.mark.parametrize("name", MODELS)
def test_states_and_answers_are_the_same(name: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        theirs = written(name, seed, tmp_path / str(seed))
        ours = load(tmp_path / str(seed)).model
        image = pixels(theirs, seed)
        with torch.no_grad():
            result = theirs(image, output_hidden_states=True)
            states = ours.encoder.states(ours.embedder(Seq(image)))
            assert len(states) == len(result.hidden_states)
            for a, b in zip(states[:-1], result.hidden_states[:-1], strict=True):
                close(a.data, b)
            norm = getattr(theirs, "vit", theirs).layernorm  # their last state is the one before it
            close(states[-1].data, norm(result.hidden_states[-1]))
            close(ours.encode(Seq(image)).data, norm(result.hidden_states[-1]))
            close(answers(ours, Seq(image)), expected(result))


@pytest.mark.parametrize("name", MODELS)
def test_what_weft_writes_transformers_reads(name: str, tmp_path: Path) -> None:
    theirs = written(name, 7, tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    kept = {k: v for k, v in loaded.published.config.items() if k in ("id2label", "label2id")}
    save(loaded.model, loaded.structure, tmp_path / "ours", config=kept)
    first, second = load_file(tmp_path / "theirs/model.safetensors"), load_file(tmp_path / "ours/model.safetensors")
    assert set(first) == set(second)
    for key, tensor in second.items():
        assert torch.equal(first[key], tensor), key
    told = {"add_pooling_layer": False} if name == "bare" else {}
    again = type(theirs).from_pretrained(tmp_path / "ours", **told).eval()
    for key in (*BODY, "num_channels", "hidden_act", "layer_norm_eps"):
        assert getattr(again.config, key) == getattr(theirs.config, key), key
    with torch.no_grad():
        assert torch.equal(theirs(pixels(theirs))[0], again(pixels(theirs))[0])


def test_gradients_are_the_same(tmp_path: Path) -> None:
    theirs = written("classify", 5, tmp_path, norms=1.0)
    ours = load(tmp_path).model
    image = pixels(theirs)
    theirs(image).logits.pow(2).mean().backward()
    answers(ours, Seq(image)).pow(2).mean().backward()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(parameter.grad)
    theirs.save_pretrained(tmp_path / "gradients")
    named = dict(load(tmp_path / "gradients").model.named_parameters())
    largest = max(float(p.grad.abs().max()) for p in ours.parameters())
    for key, parameter in ours.named_parameters():
        assert (parameter.grad - named[key].detach()).abs().max() <= 1e-4 * largest, key


def test_two_tensors_that_are_swapped_are_noticed(tmp_path: Path) -> None:
    theirs = written("pooled", 9, tmp_path, norms=1.0)
    whole, image = load_file(tmp_path / "model.safetensors"), Seq(pixels(theirs))

    def result() -> list[Tensor]:
        ours = load(tmp_path).model
        with torch.no_grad():
            return [*(s.data for s in ours.encoder.states(ours.embedder(image))), ours.features(image)]

    before = result()
    pairs = [(a, b) for a, b in itertools.combinations(whole, 2) if whole[a].shape == whole[b].shape]
    pairs = [pair for pair in pairs if not all(key.endswith("key.bias") for key in pair)]  # no softmax can tell these
    chosen = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))[:60].tolist()
    for one, two in (pairs[i] for i in chosen):
        save_file({**whole, one: whole[two], two: whole[one]}, tmp_path / "model.safetensors", metadata={"format": "pt"})
        off = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(result(), before, strict=True))
        assert off > 2e-5, (one, two)


def test_an_encoder_becomes_a_classifier_and_the_other_way(tmp_path: Path) -> None:
    theirs = written("pooled", 3, tmp_path)
    loaded = load(tmp_path, task="classification")
    assert sorted(loaded.report.new) == ["classifier.out.bias", "classifier.out.weight"]
    image = Seq(pixels(theirs))
    with torch.no_grad():
        close(loaded.model.encode(image).data, theirs(image.data).last_hidden_state)
    written("classify", 3, tmp_path / "classes")
    assert isinstance(load(tmp_path / "classes", task="encode").model, ImageEncoder)
    assert load(tmp_path / "classes").info["label"].classes == 5


def test_weights_begin_a_structure_that_is_built_for_the_same_images(tmp_path: Path) -> None:
    written("classify", 3, tmp_path)
    from weft.pretrained.weights import initialize_weights

    def built(side: int) -> Any:
        structure = vit(dim=24, layers=3, heads=2, hidden=20, patch=4, weights=str(tmp_path))
        label = LabelField("label", 5)
        model = structure(Info({"image": ImageField("image", 3, side, side), "label": label}))
        initialize_weights(model, structure)
        return model

    assert torch.equal(built(12).classifier.out.weight, load(tmp_path).model.classifier.out.weight)
    with pytest.raises(ValueError, match=r"position_embeddings .* has shape \(10, 24\), expected \(17, 24\)"):
        built(16)


@pytest.mark.parametrize("name", ["pooled", "bare", "odd", "one patch", "classify"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_images_of_another_size_have_interpolated_positions(name: str, times: int, tmp_path: Path) -> None:
    theirs = written(name, 4, tmp_path / "theirs")
    side = theirs.config.patch_size * (times * 2 if name != "one patch" else times)
    image = torch.randn(2, theirs.config.num_channels, side, side, generator=torch.Generator().manual_seed(times))
    loaded = load(tmp_path / "theirs", side=side)
    assert not loaded.report.new and not loaded.report.unused
    with torch.no_grad():
        result = theirs(image, interpolate_pos_encoding=True, output_hidden_states=True)
        states = loaded.model.encoder.states(loaded.model.embedder(Seq(image)))  # pyright: ignore[reportAttributeAccessIssue]
        for a, b in zip(states[:-1], result.hidden_states[:-1], strict=True):
            close(a.data, b)
        close(answers(loaded.model, Seq(image)), expected(result))
    out = loaded.save(tmp_path / "ours")  # from now on it is one for images of that size
    assert json.loads((out / "config.json").read_text())["image_size"] == side
    again = type(theirs).from_pretrained(out, **({"add_pooling_layer": False} if name == "bare" else {})).eval()
    with torch.no_grad():
        close(expected(again(image)), expected(result))
        close(answers(load(out).model, Seq(image)), expected(result))


@pytest.mark.parametrize(("height", "width"), [(20, 20), (20, 12), (4, 16)])
def test_a_run_with_other_images_asks_for_interpolated_positions(height: int, width: int, tmp_path: Path) -> None:
    theirs = written("classify", 3, tmp_path)
    from weft.pretrained.weights import initialize_weights

    label = LabelField("label", 5)
    info = Info({"image": ImageField("image", 3, height, width), "label": label})
    parts = "with: {embedder.parts.0.position: interpolated}"
    kinds = (
        f"{{type: pretrained, from: {tmp_path}, {parts}}}",
        f"{{type: vit, dim: 24, layers: 3, heads: 2, hidden: 20, patch: 4, weights: {tmp_path}, {parts}}}",
    )
    for number, kind in enumerate(kinds):
        recipe = f"data: dates\nstructure: {kind}\nobjective: next-token\nlearning: {{type: gradient, steps: 1}}\n"
        structure = read_run_text(recipe, "r.yaml", Path()).structure
        model: Any = structure(info).eval()
        initialize_weights(model, structure)
        image = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            close(answers(model, Seq(image)), theirs(image, interpolate_pos_encoding=True).logits)
        if height != width:
            with pytest.raises(ValueError, match=f"images of {height} x {width} pixels, but published models have square ones"):
                save(model, structure, tmp_path / f"out-{number}", model_type="vit")
            continue
        out = save(model, structure, tmp_path / f"out-{number}", model_type="vit")
        assert load(out).info["image"].height == 20


def test_positions_that_are_no_grid_are_not_interpolated(tmp_path: Path) -> None:
    text = InterpolatedPositionEmbedder(4, TextField("text", 9, max_length=5))
    assert text.fitted(torch.ones(7, 4)).shape == (7, 4)
    grid = InterpolatedPositionEmbedder(4, VectorField("image", 4, 9))
    assert grid.fitted(torch.ones(17, 4)).shape == (17, 4)  # one has a vector before the grid, the other has none
    hf.BertModel(hf.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a text model: side applies to image models only"):
        load(tmp_path, side=32)


def test_the_published_choices_are_those_of_transformers() -> None:
    config, theirs = FAMILIES["vit"].to_config(vit(size="base")), hf.ViTConfig().to_dict()
    assert config == {key: theirs[key] for key in config} and len(config) == 10


# -------------------------------------------------------------------------------------------------------------- bad input


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written("pooled", 1, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qkv_bias": False}, "qkv_bias is False, but only True is supported"),
        ({"pooler_act": "relu"}, "pooler_act is 'relu', but only 'tanh' is supported"),
        ({"pooler_output_size": 7}, "pooler_output_size is 7, but only 24 is supported"),
        ({"image_size": [12, 8]}, r"image_size is \[12, 8\], but only square images are supported"),
        ({"image_size": 0}, "image_size is 0, but only square images are supported"),
        ({"patch_size": 0}, "patch_size is 0, but it must be an integer from 1"),
        ({"image_size": 13}, "images of 13 x 13 pixels are not divisible into patches of 4 x 4"),
        ({"image_size": 16}, r"position_embeddings .* has shape \(10, 24\), expected \(17, 24\)"),
        ({"num_channels": 1}, r"projection.weight .* has shape \(24, 3, 4, 4\), expected \(24, 1, 4, 4\)"),
    ],
)
def test_a_config_that_is_not_supported_or_does_not_fit(folder: Path, change: dict[str, Any], message: str) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_it_cannot_do_what_is_for_texts(folder: Path) -> None:
    with pytest.raises(ValueError, match="task masked-lm is not supported by vit; use classification or encode"):
        load(folder, task="masked-lm")
    with pytest.raises(
        ValueError,
        match=r"an image model that predicts no class of a gray or color image; load it with weft\.pretrained",
    ):
        weft.load(folder)
