"""The table of sizes in docs/howto/pretrained-models.md matches the models that are built and the published sizes."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from weft.core.contracts import Structure
from weft.core.fields import ImageField, Info, TextField
from weft.core.registry import CATALOG
from weft.models import (
    albert,
    bart,
    bert,
    byt5,
    distilbert,
    electra,
    gpt,
    gpt2,
    gpt3,
    llama,
    llama2,
    llama3,
    mistral,
    mpnet,
    mt5,
    qwen2,
    roberta,
    smollm2,
    t5,
    t5_v1_1,
    transformer_base,
    transformer_big,
    vit,
    xlm_roberta,
)

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "pretrained-models.md"
DECODERS = ("gpt", "llama", "mistral", "qwen2", "smollm2")
ROW = re.compile(r"\| `([\w-]+)` \| ([\w.]+|) +\| ([\d,]+) +\| ([\d,]+) +\| ([\d.]+) ([MB]) +\|")
BUILDERS: dict[str, Any] = {
    "albert": albert,
    "bart": bart,
    "bert": bert,
    "byt5": byt5,
    "distilbert": distilbert,
    "electra": electra,
    "gpt": gpt,
    "gpt2": gpt2,
    "gpt3": gpt3,
    "llama": llama,
    "llama2": llama2,
    "llama3": llama3,
    "mistral": mistral,
    "mpnet": mpnet,
    "mt5": mt5,
    "qwen2": qwen2,
    "roberta": roberta,
    "smollm2": smollm2,
    "t5": t5,
    "t5-v1-1": t5_v1_1,
    "transformer-base": transformer_base,
    "transformer-big": transformer_big,
    "vit": vit,
    "xlm-roberta": xlm_roberta,
}
ENCODERS = ("bert", "roberta", "albert", "electra", "distilbert", "xlm-roberta", "mpnet")


def rows() -> list[tuple[str, str, int, int, float]]:
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    scale = {"M": 1e6, "B": 1e9}
    return [(m, s, int(v.replace(",", "")), int(n.replace(",", "")), float(p) * scale[u]) for m, s, v, n, p, u in found]


def built(model: str, size: str, vocab: int) -> torch.nn.Module:
    told = {"size": size} if size else {}
    task = {"task": "encode"} if model in (*ENCODERS, "vit") else {}
    source = TextField("source", vocab)
    info = Info({"source": source, "target": TextField("target", vocab)}, "target")
    one = Info({"text": TextField("text", vocab)})
    if model == "vit":
        info = Info({"image": ImageField("image", vocab, 224, 224)})
    with torch.device("meta"):
        return BUILDERS[model](**told, **task)(one if model.startswith((*DECODERS, *ENCODERS)) else info)


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("model", "size", "vocab", "parameters", "published"), rows())
def test_a_published_size(model: str, size: str, vocab: int, parameters: int, published: float) -> None:
    assert count(built(model, size, vocab)) == parameters
    assert abs(parameters - published) < 0.07 * published


def test_every_named_model_and_size_is_in_the_table() -> None:
    from typing import get_args

    from weft.core.registry import alternatives, option_parameters

    there = {(m, s) for m, s, *_ in rows()}
    named = {name: f for name, f in CATALOG[Structure].items() if name in BUILDERS}
    assert set(named) == set(BUILDERS)
    for name, factory in named.items():
        known = option_parameters(factory)
        sizes = [s for a in alternatives(known["size"].annotation) for s in get_args(a)] if "size" in known else [""]
        assert {(name, s) for s in sizes} <= there


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "gpt2", "t5", "bart", "vit"])
def test_the_sizes_are_those_of_transformers(name: str) -> None:
    import transformers as hf

    config, model = {
        "bert": (hf.BertConfig(), hf.BertModel),
        "roberta": (hf.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1), hf.RobertaModel),
        "albert": (hf.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072), hf.AlbertModel),
        "gpt2": (hf.GPT2Config(), hf.GPT2LMHeadModel),
        "vit": (hf.ViTConfig(), partial(hf.ViTModel, add_pooling_layer=False)),
        "t5": (hf.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12), hf.T5ForConditionalGeneration),
        "bart": (
            hf.BartConfig(
                vocab_size=50265,
                d_model=768,
                encoder_layers=6,
                decoder_layers=6,
                encoder_attention_heads=12,
                decoder_attention_heads=12,
                encoder_ffn_dim=3072,
                decoder_ffn_dim=3072,
            ),
            hf.BartForConditionalGeneration,
        ),
    }[name]
    with torch.device("meta"):
        theirs = model(config)
    size = "small" if name == "gpt2" else "base"
    extra = sum(p.numel() for n, p in theirs.named_parameters() if n.startswith("pooler.")) if name == "roberta" else 0
    ours = count(built(name, size, config.num_channels if name == "vit" else config.vocab_size))
    extra -= config.vocab_size if name == "bart" else 0  # its bias of logits is a buffer there
    assert ours == count(theirs) - extra


XLM_R = {"vocab_size": 250_002, "max_position_embeddings": 514, "type_vocab_size": 1}
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


@pytest.mark.parametrize(
    ("model", "size", "vocab", "theirs"),
    [
        ("distilbert", "", 30_522, lambda: hf.DistilBertModel(hf.DistilBertConfig())),
        ("xlm-roberta", "base", 250_002, lambda: hf.XLMRobertaModel(hf.XLMRobertaConfig(**XLM_R), False)),
        ("xlm-roberta", "large", 250_002, lambda: hf.XLMRobertaModel(hf.XLMRobertaConfig(**XLM_R, **LARGE), False)),
        ("mpnet", "", 30_527, lambda: hf.MPNetModel(hf.MPNetConfig(max_position_embeddings=514), False)),
    ],
)
def test_a_composition_has_as_many_parameters_as_in_transformers(model: str, size: str, vocab: int, theirs: Any) -> None:
    with torch.device("meta"):
        assert count(built(model, size, vocab)) == count(theirs())
