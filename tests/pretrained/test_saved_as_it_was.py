"""A published model that is loaded and saved is the folder it was: class, config.json, tensors, and again the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from weft.core.seq import Seq
from weft.pretrained import load
from weft.pretrained.saving import FILE_KEYS

VOCAB = 20
BODY = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 12,
}
DISTIL = {"vocab_size": VOCAB, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 12}
GPT = {"vocab_size": VOCAB, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 12, "pad_token_id": 0}
T5 = {"vocab_size": VOCAB, "d_model": 16, "d_kv": 6, "num_heads": 2, "num_layers": 1, "d_ff": 12}
BART = {"vocab_size": VOCAB, "d_model": 16, "max_position_embeddings": 12} | {
    f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 12))
}
UNTIED = {"tie_word_embeddings": False}
MADE: dict[str, Callable[[], Any]] = {
    "bert-untied": lambda: hf.BertForMaskedLM(hf.BertConfig(**BODY, **UNTIED)),
    "bert-model-untied": lambda: hf.BertModel(hf.BertConfig(**BODY, **UNTIED)),
    "bert-classify": lambda: hf.BertForSequenceClassification(hf.BertConfig(**BODY, num_labels=3, **UNTIED)),
    "roberta-untied": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**BODY, **UNTIED)),
    "roberta-classify": lambda: hf.RobertaForSequenceClassification(hf.RobertaConfig(**BODY, classifier_dropout=0.3)),
    "albert-untied": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**BODY, embedding_size=8, **UNTIED)),
    "electra-untied": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**BODY, embedding_size=8, **UNTIED)),
    "electra-tag": lambda: hf.ElectraForTokenClassification(hf.ElectraConfig(**BODY, embedding_size=8)),
    "distilbert-model": lambda: hf.DistilBertModel(hf.DistilBertConfig(**DISTIL)),
    "distilbert-untied": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(**DISTIL, **UNTIED)),
    "distilbert-classify": lambda: hf.DistilBertForSequenceClassification(hf.DistilBertConfig(**DISTIL, seq_classif_dropout=0.4)),
    "xlm-roberta-untied": lambda: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**BODY, **UNTIED)),
    "xlm-roberta-choose": lambda: hf.XLMRobertaForMultipleChoice(hf.XLMRobertaConfig(**BODY)),
    "mpnet-model": lambda: hf.MPNetModel(hf.MPNetConfig(**BODY)),
    "mpnet-untied": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**BODY, **UNTIED)),
    "mpnet-classify": lambda: hf.MPNetForSequenceClassification(hf.MPNetConfig(**BODY, num_labels=3)),
    "gpt-model": lambda: hf.OpenAIGPTModel(hf.OpenAIGPTConfig(**GPT)),
    "gpt-model-untied": lambda: hf.OpenAIGPTModel(hf.OpenAIGPTConfig(**GPT, **UNTIED)),
    "gpt-classify-untied": lambda: hf.OpenAIGPTForSequenceClassification(hf.OpenAIGPTConfig(**GPT, **UNTIED)),
    "gpt2-model": lambda: hf.GPT2Model(hf.GPT2Config(**GPT)),
    "gpt2-model-untied": lambda: hf.GPT2Model(hf.GPT2Config(**GPT, **UNTIED)),
    "gpt2-untied": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT, **UNTIED)),
    "gpt2-classify-untied": lambda: hf.GPT2ForSequenceClassification(hf.GPT2Config(**GPT, **UNTIED)),
    "t5-model": lambda: hf.T5Model(hf.T5Config(**T5)),
    "t5-model-untied": lambda: hf.T5Model(hf.T5Config(**T5, **UNTIED)),
    "t5-untied": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5, **UNTIED)),
    "mt5-model": lambda: hf.MT5Model(hf.MT5Config(**T5)),
    "bart-model": lambda: hf.BartModel(hf.BartConfig(**BART)),
    "bart-classify": lambda: hf.BartForSequenceClassification(hf.BartConfig(**BART, classifier_dropout=0.3)),
    "vit-model": lambda: hf.ViTModel(
        hf.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, image_size=8, patch_size=4)
    ),
}


def written(name: str, folder: Path) -> Any:
    torch.manual_seed(3)
    theirs = MADE[name]()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_()
    theirs.tie_weights()
    theirs.save_pretrained(folder)
    return theirs.eval()


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def check(folder: Path, out: Path) -> None:
    """Saved twice: config.json and tensors as they were, and the second copy has the bytes of the first."""
    one = load(folder).save(out / "one")
    two = load(one).save(out / "two")
    for file in ("config.json", "model.safetensors"):
        assert (one / file).read_bytes() == (two / file).read_bytes()
    assert config_of(one) == {key: value for key, value in config_of(folder).items() if key not in FILE_KEYS}
    before, after = (load_file(path / "model.safetensors") for path in (folder, one))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    ours, again = (load(path).model.state_dict() for path in (folder, one))
    assert ours.keys() == again.keys() and all(torch.equal(ours[key], again[key]) for key in ours)


@pytest.mark.parametrize("name", MADE)
def test_a_saved_model_is_the_published_one(name: str, tmp_path: Path) -> None:
    theirs = written(name, tmp_path / "theirs")
    assert config_of(tmp_path / "theirs")["architectures"] == [type(theirs).__name__]
    check(tmp_path / "theirs", tmp_path)
    again, report = type(theirs).from_pretrained(tmp_path / "one", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    tensors = again.state_dict()
    assert all(torch.equal(tensor, tensors[key]) for key, tensor in theirs.state_dict().items())


@pytest.mark.parametrize("name", ["bert-classify", "bert-untied", "gpt2-untied", "bart-model"])
def test_a_config_without_a_class_keeps_its_tensors(name: str, tmp_path: Path) -> None:
    written(name, tmp_path / "theirs")
    config = config_of(tmp_path / "theirs")
    del config["architectures"]
    (tmp_path / "theirs/config.json").write_text(json.dumps(config))
    check(tmp_path / "theirs", tmp_path)


def test_a_trained_head_is_not_dropped(tmp_path: Path) -> None:
    written("bart-model", tmp_path / "theirs")
    loaded: Any = load(tmp_path / "theirs")
    with torch.no_grad():
        loaded.model.head.bias += 1
    loaded.save(tmp_path / "ours")
    assert config_of(tmp_path / "ours")["architectures"] == ["BartForConditionalGeneration"]
    theirs: Any = hf.BartForConditionalGeneration.from_pretrained(tmp_path / "ours")
    assert torch.equal(theirs.final_logits_bias, torch.ones(1, VOCAB))


def test_another_task_has_another_class(tmp_path: Path) -> None:
    written("bert-untied", tmp_path / "theirs")
    loaded = load(tmp_path / "theirs", task="classification")
    loaded.save(tmp_path / "ours")
    assert config_of(tmp_path / "ours")["architectures"] == ["BertForSequenceClassification"]
    again = load(tmp_path / "ours").model.state_dict()
    assert all(torch.equal(tensor, again[key]) for key, tensor in loaded.model.state_dict().items())


@pytest.mark.parametrize("name", ["gpt-model-untied", "gpt2-model-untied", "gpt2-classify-untied", "gpt-classify-untied"])
def test_a_decoder_without_a_head_ignores_tying(name: str, tmp_path: Path) -> None:
    theirs, ids = written(name, tmp_path), torch.tensor([[5, 7, 9, 4]])
    ours: Any = load(tmp_path).model
    with torch.no_grad():
        if "classify" in name:
            assert torch.allclose(ours.classifier(ours.features(Seq(ids))), theirs(ids).logits, atol=1e-5)
        else:
            assert torch.allclose(ours.decode(Seq(ids), None).hidden.data, theirs(ids).last_hidden_state, atol=1e-5)


def test_an_untied_head_that_is_missing_is_named(tmp_path: Path) -> None:
    written("gpt2-untied", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"the weights do not fit config.json: missing: lm_head.weight"):
        load(tmp_path)


@pytest.mark.parametrize(("buckets", "distance"), [(8, 4), (8, 3), (32, 16), (7, 3)])
def test_buckets_that_the_distance_does_not_reach_are_refused(buckets: int, distance: int, tmp_path: Path) -> None:
    sizes = {"relative_attention_num_buckets": buckets, "relative_attention_max_distance": distance}
    hf.T5ForConditionalGeneration(hf.T5Config(**T5, **sizes)).save_pretrained(tmp_path)
    message = (
        rf"{tmp_path}: config.json: relative_attention_max_distance is {distance}, but it must be above {buckets // 2}, half"
    )
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(("buckets", "distance"), [(8, 5), (7, 4), (4, 3), (32, 17)])
def test_the_smallest_distance_that_reaches_them_is_theirs(buckets: int, distance: int, tmp_path: Path) -> None:
    sizes = {"relative_attention_num_buckets": buckets, "relative_attention_max_distance": distance}
    theirs = hf.T5ForConditionalGeneration(hf.T5Config(**T5, **sizes)).eval()
    theirs.save_pretrained(tmp_path)
    ours: Any = load(tmp_path).model
    at = torch.arange(40)
    for side, bias in (("encoder", ours.encoder.stack.position), ("decoder", ours.decoder.stack.position)):
        attention = getattr(theirs, side).block[0].layer[0].SelfAttention
        expected = attention._relative_position_bucket(at - at[:, None], side == "encoder", buckets, distance)
        assert torch.equal(bias.bucket(at - at[:, None]), expected)
