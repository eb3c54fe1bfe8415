"""Published models that choose, against the package transformers: the same weights give the same logits and losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import load_file

from weft.core.batch import Clock, collate
from weft.core.example import Sequences
from weft.core.fields import Frame, Info
from weft.core.registry import name_of
from weft.core.seq import Seq
from weft.models import MultipleChoiceModel, albert, bert, distilbert, electra, mpnet, roberta, xlm_roberta
from weft.objectives import MultipleChoiceObjective
from weft.pretrained import load, save

VOCAB, ROWS, NUMBER = 50, 2, 3
BODY = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 30,
}
THEIRS: dict[str, Callable[[], Any]] = {
    "bert": lambda: hf.BertForMultipleChoice(hf.BertConfig(**BODY, classifier_dropout=0.3)),
    "roberta": lambda: hf.RobertaForMultipleChoice(hf.RobertaConfig(**BODY, type_vocab_size=1)),
    "albert": lambda: hf.AlbertForMultipleChoice(hf.AlbertConfig(**BODY, embedding_size=8)),
    "electra": lambda: hf.ElectraForMultipleChoice(hf.ElectraConfig(**BODY, embedding_size=8)),
    "electra-tanh": lambda: hf.ElectraForMultipleChoice(hf.ElectraConfig(**BODY, embedding_size=8, summary_activation="tanh")),
}
THEIRS |= {
    "distilbert": lambda: hf.DistilBertForMultipleChoice(
        hf.DistilBertConfig(vocab_size=VOCAB, dim=48, n_layers=2, n_heads=2, hidden_dim=20, max_position_embeddings=30)
    ),
    "xlm-roberta": lambda: hf.XLMRobertaForMultipleChoice(hf.XLMRobertaConfig(**BODY, type_vocab_size=1)),
    "mpnet": lambda: hf.MPNetForMultipleChoice(hf.MPNetConfig(**BODY)),
}
COUNTED = ("roberta", "xlm-roberta", "mpnet")
"""Families whose positions start after the padding id."""
FRAME = Frame((2,), (3,), (3,), segments=True)


def written(name: str, folder: Path) -> Any:
    """The folder of a transformers model with weights sampled from N(0, 0.3)."""
    model = THEIRS[name]()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    model.save_pretrained(folder)
    return model.eval()


def questions() -> list[dict[str, Any]]:
    """Rows of equally many choices (transformers cannot do otherwise), with texts of different lengths."""
    rng = np.random.default_rng(3)
    text = lambda: rng.integers(5, VOCAB, rng.integers(1, 7))  # noqa: E731
    return [
        {"question": text(), "choices": Sequences(tuple(text() for _ in range(NUMBER))), "label": 2 - row} for row in range(ROWS)
    ]


@pytest.mark.parametrize("name", THEIRS)
def test_logits_and_losses_are_the_same(name: str, tmp_path: Path) -> None:
    theirs = written(name, tmp_path)
    loaded = load(tmp_path)
    assert isinstance(loaded.model, MultipleChoiceModel) and not loaded.report.new and not loaded.report.unused
    frame = replace(FRAME, segments=name not in (*COUNTED, "distilbert"))
    info = Info({k: replace(f, frame=frame) if f.kind != "label" else f for k, f in loaded.info.fields.items()}, "question")
    objective = MultipleChoiceObjective(info, 48)
    batch = collate([objective.prepare(row, None, None) for row in questions()])
    seq = batch["choices"].seq
    # DistilBERT takes no segments, and its positions only for flat ids
    told: dict[str, Any] = {} if name == "distilbert" else {"position_ids": seq.positions()}
    if name in COUNTED:
        told["position_ids"] = seq.positions() + theirs.config.pad_token_id + 1
    elif name != "distilbert":
        told["token_type_ids"] = seq.marks["segment"]
    wide = {key: value.reshape(ROWS, NUMBER, -1) for key, value in told.items()}
    result = theirs(
        seq.data.reshape(ROWS, NUMBER, -1),
        attention_mask=seq.real().reshape(ROWS, NUMBER, -1).long(),
        labels=batch["label"],
        **wide,
    )
    with torch.no_grad():
        ours = loaded.model.choice_head(loaded.model.features(seq)).reshape(ROWS, NUMBER)
        loss = objective(loaded.model, batch, Clock())["loss"]
        shares = objective.probabilities(loaded.model, batch)
    scale = float(result.logits.detach().abs().max())
    assert (ours - result.logits).abs().max() <= 1e-5 * max(1.0, scale)
    assert torch.allclose(loss.total / loss.count, result.loss, atol=1e-5)
    assert torch.allclose(shares, result.logits.softmax(-1), atol=1e-5)


@pytest.mark.parametrize("name", THEIRS)
def test_what_weft_writes_transformers_reads(name: str, tmp_path: Path) -> None:
    theirs = written(name, tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    save(loaded.model, loaded.structure, tmp_path / "ours", config={"pad_token_id": theirs.config.pad_token_id})
    first, second = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours"))
    assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    ids = torch.randint(5, VOCAB, (2, 3, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(theirs(ids).logits, again(ids).logits, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("bert", partial(bert, length=30)),
        ("roberta", partial(roberta, length=28)),
        ("albert", partial(albert, length=30, embedding_dim=8)),
        ("electra", partial(electra, length=30, embedding_dim=8)),
        ("distilbert", partial(distilbert, length=30)),
        ("xlm-roberta", partial(xlm_roberta, length=28)),
        ("mpnet", partial(mpnet, length=28)),
    ],
)
def test_a_named_model_has_the_parts_of_the_published_one(name: str, make: Any, tmp_path: Path) -> None:
    structure = make(dim=48, layers=2, heads=2, hidden=20, task="multiple-choice")
    written(name, tmp_path)
    loaded = load(tmp_path)
    ours, theirs = (
        {key: tuple(p.shape) for key, p in model.named_parameters()} for model in (structure(loaded.info), loaded.model)
    )
    assert name_of(structure) == "multiple-choice" and ours == theirs


def test_another_summary_of_an_electra_is_refused_or_none(tmp_path: Path) -> None:
    theirs = written("electra", tmp_path)
    whole = json.loads((tmp_path / "config.json").read_text())
    for key, value in {"summary_type": "mean", "summary_use_proj": False, "summary_activation": "mish"}.items():
        (tmp_path / "config.json").write_text(json.dumps(whole | {key: value}))
        with pytest.raises(ValueError, match=f"config.json: {key} is {value!r}[,;] (but only|supported)"):
            load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(whole | {"summary_activation": None}))
    linear = load(tmp_path)
    theirs.sequence_summary.activation = torch.nn.Identity()
    ids = torch.randint(5, VOCAB, (1, 3, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = linear.model.choice_head(linear.model.features(Seq(ids[0], marks={"segment": torch.zeros_like(ids[0])}))).squeeze(
            -1
        )
        assert torch.allclose(ours, theirs(ids).logits[0], atol=1e-5)
    save(linear.model, linear.structure, tmp_path / "ours")
    assert json.loads((tmp_path / "ours/config.json").read_text())["summary_activation"] is None


def test_a_published_encoder_chooses_with_a_new_head(tmp_path: Path) -> None:
    hf.BertModel(hf.BertConfig(**BODY)).save_pretrained(tmp_path)
    loaded = load(tmp_path, task="multiple-choice")
    assert sorted(loaded.report.new) == ["choice_head.out.bias", "choice_head.out.weight"] and not loaded.report.unused
    with pytest.raises(ValueError, match="task multiple-choice is not supported by t5; use generation"):
        folder = tmp_path / "t5"
        hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=VOCAB, d_model=16, num_layers=1, num_heads=2)).save_pretrained(
            folder
        )
        load(folder, task="multiple-choice")
