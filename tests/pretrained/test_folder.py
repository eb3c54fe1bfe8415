"""Files that are named otherwise than transformers writes them today: what it loads, weft loads, with the same outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file, save_model
from torch import Tensor

from weft.core.batch import Batch
from weft.core.registry import identity
from weft.core.seq import Seq
from weft.pretrained import load
from weft.pretrained.folder import PublishedModel
from weft.pretrained.model import PretrainedModel

BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 32,
    "vocab_size": 22,
}
VIT: dict[str, Any] = {
    key: BERT[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
} | {
    "image_size": 8,
    "patch_size": 4,
}
NARROW = BERT | {"embedding_size": 8}
DISTIL = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 20, "max_position_embeddings": 32, "vocab_size": 22}
GPT = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32, "vocab_size": 22}
T5 = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_ff": 20, "d_kv": 8, "vocab_size": 22}
SIDE = {"layers": 1, "attention_heads": 2, "ffn_dim": 20}
BART = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in SIDE.items()} | {
    "d_model": 16,
    "max_position_embeddings": 32,
    "vocab_size": 22,
}
MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bert": (hf.BertForMaskedLM, hf.BertConfig, BERT),
    "roberta": (hf.RobertaForMaskedLM, hf.RobertaConfig, BERT),
    "albert": (hf.AlbertForMaskedLM, hf.AlbertConfig, NARROW),
    "electra": (hf.ElectraForMaskedLM, hf.ElectraConfig, NARROW),
    "distilbert": (hf.DistilBertForMaskedLM, hf.DistilBertConfig, DISTIL),
    "xlm-roberta": (hf.XLMRobertaForMaskedLM, hf.XLMRobertaConfig, BERT),
    "mpnet": (hf.MPNetForMaskedLM, hf.MPNetConfig, BERT),
    "openai-gpt": (hf.OpenAIGPTLMHeadModel, hf.OpenAIGPTConfig, GPT),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config, GPT),
    "t5": (hf.T5ForConditionalGeneration, hf.T5Config, T5),
    "mt5": (hf.MT5ForConditionalGeneration, hf.MT5Config, T5),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig, BART),
}
IDS = torch.tensor([[4, 5, 6, 3, 9]])


def written(kind: str, folder: Path, **more: Any) -> dict[str, Tensor]:
    """A model of transformers in a folder, all its numbers at random; and its tensors."""
    build, config, sizes = MODELS[kind]
    torch.manual_seed(1)
    build(config(**sizes, **more)).save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    return {name: torch.randn(tensor.shape) * 0.3 for name, tensor in tensors.items()}


def rewrite(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors", {"format": "pt"})


def same(kind: str, folder: Path) -> PretrainedModel:
    """What weft loads, after its logits were compared with those of transformers."""
    theirs, loaded = MODELS[kind][0].from_pretrained(folder).eval(), load(folder)
    ours: Any = loaded.model
    pair = {"decoder_input_ids": IDS} if theirs.config.is_encoder_decoder else {}
    with torch.no_grad():
        if hasattr(ours, "decode"):
            hidden = ours.decode(Seq(IDS), ours.memory(Batch({"source": Seq(IDS)}, 1))).hidden
        else:
            hidden = ours.encode(Seq(IDS))
        logits = theirs(IDS, **pair).logits
    assert logits.std() > 0.01
    assert torch.allclose(ours.head(hidden.data), logits, atol=1e-5)
    assert not loaded.report.new
    return loaded


# ------------------------------------------------------------------------------------------------------------ tied tables

TIED = {
    "bert": ["bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"],
    "roberta": ["roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"],
    "albert": ["albert.embeddings.word_embeddings.weight", "predictions.decoder.weight"],
    "electra": ["electra.embeddings.word_embeddings.weight", "generator_lm_head.weight"],
    "distilbert": ["distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"],
    "xlm-roberta": ["roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"],
    "mpnet": ["mpnet.embeddings.word_embeddings.weight", "lm_head.decoder.weight"],
    "openai-gpt": ["transformer.tokens_embed.weight", "lm_head.weight"],
    "gpt2": ["transformer.wte.weight", "lm_head.weight"],
    "t5": ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"],
    "mt5": ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"],
    "bart": ["model.shared.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"],
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in TIED.items() for name in names[1:]])
def test_a_tied_table_is_found_under_any_of_its_names(kind: str, name: str, tmp_path: Path) -> None:
    tensors = written(kind, tmp_path)
    tensors[name] = tensors.pop(TIED[kind][0])
    rewrite(tmp_path, tensors)
    assert same(kind, tmp_path).report.unused == []


UNTIED = ["bert", "roberta", "albert", "electra", "distilbert", "xlm-roberta", "mpnet", "openai-gpt", "gpt2"]


@pytest.mark.parametrize("kind", UNTIED)
def test_a_head_of_its_own_is_no_table(kind: str, tmp_path: Path) -> None:
    tensors = written(kind, tmp_path, tie_word_embeddings=False)
    del tensors[TIED[kind][0]]
    rewrite(tmp_path, tensors)
    with pytest.raises(ValueError, match=f"missing: {TIED[kind][0]}"):
        load(tmp_path)


def test_a_tied_table_is_found_for_another_task(tmp_path: Path) -> None:
    tensors = written("bert", tmp_path)
    table = tensors["cls.predictions.decoder.weight"] = tensors.pop("bert.embeddings.word_embeddings.weight")
    rewrite(tmp_path, tensors)
    assert torch.equal(load(tmp_path, task="classification").model.state_dict()["embedder.parts.0.weight"], table)


@pytest.mark.parametrize("kind", ["t5", "bart", "bert", "gpt2"])
def test_what_safetensors_itself_wrote_is_read(kind: str, tmp_path: Path) -> None:
    written(kind, tmp_path)
    build, config, sizes = MODELS[kind]
    save_model(build(config(**sizes)), str(tmp_path / "model.safetensors"), {"format": "pt"})
    assert same(kind, tmp_path).report.unused == []


# ----------------------------------------------------------------------------------------------------------- bare bodies


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", [*UNTIED, "bart"])
def test_a_body_without_its_prefix_has_its_head_beside_it(kind: str, tied: bool, tmp_path: Path) -> None:
    tensors = written(kind, tmp_path, **({} if kind == "bart" else {"tie_word_embeddings": tied}))
    prefix = TIED[kind][0].split(".")[0] + "."
    rewrite(tmp_path, {name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    same(kind, tmp_path)


def test_the_head_of_a_vit_too(tmp_path: Path) -> None:
    hf.ViTForImageClassification(hf.ViTConfig(**VIT)).save_pretrained(tmp_path)
    expected, tensors = load(tmp_path).model.state_dict(), load_file(tmp_path / "model.safetensors")
    rewrite(tmp_path, {name.removeprefix("vit."): tensor for name, tensor in tensors.items()})
    assert all(torch.equal(tensor, expected[key]) for key, tensor in load(tmp_path).model.state_dict().items())


def test_what_stands_beside_a_bare_body_is_not_of_it(tmp_path: Path) -> None:
    tensors = {name.removeprefix("bert."): tensor for name, tensor in written("bert", tmp_path).items()}
    rewrite(tmp_path, tensors | {"adapter.weight": torch.ones(2)})
    assert same("bert", tmp_path).report.unused == ["adapter.weight"]
    rewrite(tmp_path, tensors | {"encoder.layer.1.output.dense.bias": torch.ones(16)})
    with pytest.raises(ValueError, match=r"config.json has 1 layers, but the file has 2"):
        load(tmp_path)


# --------------------------------------------------------------------------------------------------------------- defaults


def described(folder: Path, config: Mapping[str, Any]) -> Any:
    """All that config.json determines: the structure for each task, and the input field."""
    (folder / "config.json").write_text(json.dumps(config))
    found = PublishedModel(folder)
    tasks = dict.fromkeys(found.family.tasks.values())
    structures = {task: identity(found.family.from_config(found.config, task, [])) for task in tasks}
    return structures, found.family.field(found.config)


SIZES = {kind: (config, sizes) for kind, (_, config, sizes) in MODELS.items()} | {
    "albert": (hf.AlbertConfig, BERT),
    "electra": (hf.ElectraConfig, BERT),
    "vit": (hf.ViTConfig, VIT),
}


@pytest.mark.parametrize("kind", SIZES)
def test_a_config_of_sizes_alone_has_the_defaults_of_transformers(kind: str, tmp_path: Path) -> None:
    config, sizes = SIZES[kind]
    content = {"model_type": kind, **sizes}
    assert described(tmp_path, content) == described(tmp_path, config(**sizes).to_dict())
    for key in sizes:
        with pytest.raises(ValueError, match=f"config.json has no '{key}', which a {kind} needs"):
            described(tmp_path, {name: value for name, value in content.items() if name != key})


@pytest.mark.parametrize("kind", MODELS)
def test_a_config_of_sizes_alone_computes_the_same(kind: str, tmp_path: Path) -> None:
    rewrite(tmp_path, written(kind, tmp_path))
    build, _, sizes = MODELS[kind]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "architectures": [build.__name__], **sizes}))
    same(kind, tmp_path)


def test_keys_of_another_family_are_not_read(tmp_path: Path) -> None:
    for kind, more in (("openai-gpt", {"n_inner": 31}), ("bert", {"embedding_size": 31})):
        rewrite(tmp_path, written(kind, tmp_path))
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | more))
        same(kind, tmp_path)


# -------------------------------------------------------------------------------------------------------- names of norms


@pytest.mark.parametrize("module", ["bert.embeddings", "cls.predictions.transform"])
@pytest.mark.parametrize(("old", "new"), [("gamma", "weight"), ("beta", "bias")])
def test_of_an_old_and_a_new_name_one_is_told_of(module: str, old: str, new: str, tmp_path: Path) -> None:
    tensors = written("bert", tmp_path)
    rewrite(tmp_path, tensors | {f"{module}.LayerNorm.{old}": torch.randn(16)})
    assert same("bert", tmp_path).report.unused == [f"{module}.LayerNorm.{new}"]
