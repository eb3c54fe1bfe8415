"""GPT and GPT-2 that choose and write at once, against the package transformers' DoubleHeadsModel."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file

from weft.blocks import ClassifierHead
from weft.core.batch import Clock, collate
from weft.core.example import Sequences
from weft.core.fields import Info, LabelField, TextField
from weft.core.registry import identity
from weft.core.seq import Seq
from weft.models import LanguageModel, gpt, gpt2
from weft.objectives import MultipleChoiceObjective, NextToken, Weighted
from weft.pretrained import load, save

VOCAB, ROWS, NUMBER = 50, 3, 4
BODY: dict[str, Any] = {"vocab_size": VOCAB, "n_embd": 48, "n_layer": 2, "n_head": 3, "n_positions": 30}
THEIRS: dict[str, Any] = {
    "gpt": lambda: hf.OpenAIGPTDoubleHeadsModel(hf.OpenAIGPTConfig(**BODY)),
    "gpt2": lambda: hf.GPT2DoubleHeadsModel(hf.GPT2Config(**BODY, summary_first_dropout=0.3)),
}


def written(name: str, seed: int, folder: Path, norms: float = 0.0) -> Any:
    model = THEIRS[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            mean = norms if ".ln_" in key and key.endswith("weight") else 0.0
            tensor.copy_(mean + torch.randn(tensor.shape, generator=generator) * 0.3)
    model.tie_weights()
    model.save_pretrained(folder)
    return model.eval()


def questions(seed: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    return [
        {
            "question": draw.integers(7, VOCAB, 2 + row),
            "choices": Sequences(tuple(draw.integers(7, VOCAB, 1 + (row + n) % 3) for n in range(NUMBER))),
            "label": int(draw.integers(NUMBER)),
        }
        for row in range(ROWS)
    ]


@pytest.mark.parametrize("norms", [0.0, 1.0])
@pytest.mark.parametrize("name", THEIRS)
def test_logits_and_both_losses_are_the_same(name: str, norms: float, tmp_path: Path) -> None:
    for seed in (1, 2):
        theirs = written(name, seed, tmp_path / str(seed), norms)
        loaded = load(tmp_path / str(seed))
        assert isinstance(loaded.model, LanguageModel) and not loaded.report.new and not loaded.report.unused
        parts = {"answer": partial(MultipleChoiceObjective, bos=True), "lm": partial(NextToken, full_sequence=True)}
        both = Weighted(loaded.info, 48, parts=parts, weights={"lm": 0.5})
        rows = questions(seed)
        batch = collate([both.prepare(row, None, None) for row in rows])
        ragged = batch["answer"]["choices"]
        seq = ragged.seq
        right = (ragged.offsets() + batch["answer"]["label"]).tolist()
        target = torch.full_like(seq.data, -100)
        target[right] = seq.data[right].masked_fill(~seq.real()[right], -100)
        wide = (ROWS, NUMBER, -1)
        result = theirs(  # padding is on the right, where nothing looks
            seq.data.reshape(wide),
            mc_token_ids=(seq.lengths() - 1).reshape(ROWS, NUMBER),
            mc_labels=batch["answer"]["label"],
            labels=target.reshape(wide),
        )
        with torch.no_grad():
            logits = loaded.model.choice_head(loaded.model.features(seq)).reshape(ROWS, NUMBER)
            losses = both.eval()(loaded.model, batch, Clock())
        assert (logits - result.mc_logits).abs().max() <= 1e-5 * max(1e-3, float(result.mc_logits.detach().abs().max()))
        for key, expected in (("answer", result.mc_loss), ("lm", result.loss)):
            assert float(losses[key].total / losses[key].count) == pytest.approx(float(expected.detach()), rel=1e-5), key


@pytest.mark.parametrize("name", THEIRS)
def test_what_weft_writes_transformers_reads(name: str, tmp_path: Path) -> None:
    theirs = written(name, 7, tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    save(loaded.model, loaded.structure, tmp_path / "ours")
    first, second = (load_file(tmp_path / side / "model.safetensors") for side in ("theirs", "ours"))
    if name == "gpt":  # theirs keeps the tokens' vectors under the head's name
        first["transformer.tokens_embed.weight"] = first.pop("lm_head.weight")
    assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    ids = torch.randint(5, VOCAB, (2, 3, 7), generator=torch.Generator().manual_seed(0))
    at = torch.tensor([[6, 3, 1], [0, 5, 6]])
    with torch.no_grad():
        for a, b in zip(*(m(ids, mc_token_ids=at)[:2] for m in (theirs, again)), strict=True):
            assert torch.allclose(a, b, atol=1e-6)
    assert again.config.summary_first_dropout == theirs.config.summary_first_dropout


@pytest.mark.parametrize(("name", "make"), [("gpt", gpt), ("gpt2", gpt2)])
def test_a_named_model_has_the_parts_of_the_published_one(name: str, make: Any, tmp_path: Path) -> None:
    written(name, 1, tmp_path)
    loaded = load(tmp_path)
    structure = make(dim=48, layers=2, heads=3, length=30, task="multiple-choice")
    ours, theirs = ({k: tuple(p.shape) for k, p in m.named_parameters()} for m in (structure(loaded.info), loaded.model))
    assert ours == theirs


def test_a_model_that_writes_chooses_with_a_new_head(tmp_path: Path) -> None:
    hf.GPT2LMHeadModel(hf.GPT2Config(**BODY)).save_pretrained(tmp_path)
    loaded = load(tmp_path, task="multiple-choice")
    assert sorted(loaded.report.new) == ["choice_head.out.bias", "choice_head.out.weight"] and not loaded.report.unused
    with pytest.raises(
        ValueError,
        match="not supported by gpt2; use one of generation, classification, multiple-choice",
    ):
        load(tmp_path, task="token-classification")


def test_a_bias_of_a_class_has_no_tensor_in_their_layout(tmp_path: Path) -> None:
    hf.GPT2LMHeadModel(hf.GPT2Config(**BODY)).save_pretrained(tmp_path)
    loaded = load(tmp_path, task="classification")
    structure = partial(loaded.structure, classifier=partial(ClassifierHead, dropout=0.1))
    model: Any = structure(loaded.info)
    torch.nn.init.ones_(model.classifier.out.bias)
    with pytest.raises(ValueError, match=r"a published gpt2 has no tensors for: classifier.out.bias"):
        save(model, structure, tmp_path / "out")
    choices = load(tmp_path, task="multiple-choice").info
    structure = gpt2(dim=48, layers=2, heads=3, length=30, task="classification")
    with pytest.raises(
        ValueError, match=r"multiple-choice head of this gpt2 has no bias; build the model with task: multiple-choice"
    ):
        save(structure(choices), structure, tmp_path / "out")


CLASSES: dict[str, Any] = {
    "gpt": (hf.OpenAIGPTForSequenceClassification, hf.OpenAIGPTConfig),
    "gpt2": (hf.GPT2ForSequenceClassification, hf.GPT2Config),
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_classifier_without_a_bias(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, config = CLASSES[name]
    theirs = kind(config(**BODY, num_labels=3, pad_token_id=1)).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    assert not loaded.report.new and not loaded.report.unused
    assert isinstance(loaded.model, LanguageModel) and loaded.model.classifier.out.bias is None
    loaded.save(tmp_path / "ours")
    first, second = (load_file(tmp_path / side / "model.safetensors") for side in ("theirs", "ours"))
    assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    was, now = (json.loads((tmp_path / side / "config.json").read_text()) for side in ("theirs", "ours"))
    assert {key for key in was | now if was.get(key) != now.get(key)} <= {"dtype", "transformers_version", "tie_word_embeddings"}
    again = kind.from_pretrained(tmp_path / "ours").eval()
    ids = torch.randint(5, VOCAB, (2, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs(ids).logits
        assert torch.allclose(again(ids).logits, expected, atol=1e-6)
        assert torch.allclose(loaded.model.classifier(loaded.model.features(Seq(ids))), expected, atol=1e-5)


@pytest.mark.parametrize(("name", "make"), [("gpt", gpt), ("gpt2", gpt2)])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_named_model_with_a_classifier_is_saved(name: str, make: Any, dropout: float, tmp_path: Path) -> None:
    structure = make(dim=48, layers=2, heads=3, length=30, dropout=dropout, task="classification")
    info = Info({"text": TextField("text", VOCAB), "label": LabelField("label", 3, labels=("a", "b", "c"))})
    model: Any = structure(info).eval()
    save(model, structure, tmp_path, config={"pad_token_id": 1})
    loaded = load(tmp_path)
    assert identity(partial(structure, weights=None)) == identity(partial(loaded.structure, weights=None))
    theirs = CLASSES[name][0].from_pretrained(tmp_path).eval()
    ids = torch.randint(5, VOCAB, (2, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(theirs(ids).logits, model.classifier(model.features(Seq(ids))), atol=1e-5)


def test_another_summary_is_refused(tmp_path: Path) -> None:
    written("gpt2", 1, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"summary_type": "mean"}))
    with pytest.raises(ValueError, match="summary_type is 'mean', but only 'cls_index' is supported"):
        load(tmp_path)
