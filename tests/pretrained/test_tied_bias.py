"""The bias of the masked-LM head has two names in a file: the one transformers uses is loaded, and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from weft.core.seq import Seq
from weft.pretrained import load

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
FAMILIES: dict[str, tuple[Any, Any, str]] = {
    "bert": (hf.BertConfig, hf.BertForMaskedLM, "cls.predictions."),
    "roberta": (hf.RobertaConfig, hf.RobertaForMaskedLM, "lm_head."),
    "albert": (hf.AlbertConfig, hf.AlbertForMaskedLM, "predictions."),
}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("there", ["both", "equal", "decoder"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_bias_is_the_one_that_transformers_computes_with(kind: str, there: str, tied: bool, tmp_path: Path) -> None:
    config, build, prefix = FAMILIES[kind]
    more = {"embedding_size": 16} if kind == "albert" else {}
    build(config(vocab_size=22, max_position_embeddings=32, tie_word_embeddings=tied, **SIZES, **more)).save_pretrained(tmp_path)
    tensors = {n: t for n, t in load_file(tmp_path / "model.safetensors").items() if n != f"{prefix}bias"}
    tensors[f"{prefix}decoder.bias"] = torch.randn(22)
    if there != "decoder":
        tensors[f"{prefix}bias"] = torch.randn(22) if there == "both" else tensors[f"{prefix}decoder.bias"].clone()
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    ids = torch.tensor([[4, 5, 6, 3]])
    with torch.no_grad():
        wanted = build.from_pretrained(tmp_path).eval()(ids).logits[0]
        loaded: Any = load(tmp_path)
        assert torch.allclose(loaded.model.head(loaded.model.encode(Seq(ids)).data[0]), wanted, atol=1e-5)
    unread = there == "both" or (there == "equal" and not tied)  # an untied head has one bias that transformers never uses
    assert loaded.report.unused == ([f"{prefix}bias"] if unread else [])
