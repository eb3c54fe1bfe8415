"""Layer mixes: features of a pretrained model without fine-tuning."""

from __future__ import annotations

import functools
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from weft.blocks import ScalarMix, SharedTransformer, SumLast, Transformer
from weft.core.registry import option_values
from weft.core.seq import Seq
from weft.pretrained import load, save
from weft.pretrained.weights import initialize_weights
from weft.training.recipes import read_run_text

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fine", "poor", "film", "play", "very", "not"]
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "hidden_size": 48,
    "num_hidden_layers": 5,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 30,
}


@functools.cache
def theirs() -> Any:
    """A BERT of transformers with parameters sampled from N(0, 0.3)."""
    model = hf.BertModel(hf.BertConfig(**SIZES)).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder_path = tmp_path / "published"
    theirs().save_pretrained(folder_path)
    (folder_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder_path


def ours(folder: Path, mix: Any) -> Any:
    """The same network in weft, with a layer mix."""
    loaded = load(folder)
    structure = partial(
        loaded.structure, encoder=partial(option_values(loaded.structure)["encoder"], layer_mix=mix), weights=str(folder)
    )
    model = structure(loaded.info).eval()
    (taken,) = initialize_weights(model, structure).values()
    assert taken.new == [name for name, _ in model.named_parameters() if ".layer_mix." in name]
    return model


def sequences() -> tuple[Seq, list[torch.Tensor]]:
    """A padded batch of ids, and its hidden states in transformers."""
    ids = torch.randint(5, len(WORDS), (3, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(7) < torch.tensor([[7], [4], [2]])
    with torch.no_grad():
        states = theirs()(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    return Seq(ids, mask), list(states)


def near(got: Seq, want: torch.Tensor) -> None:
    off = (got.data - want).abs()[got.real()].max()
    assert off <= 1e-4 * max(1.0, float(want.abs().max()))


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_sum_of_last_layers_equals_transformers(folder: Path, number: int) -> None:
    x, states = sequences()
    near(ours(folder, partial(SumLast, layers=number)).encode(x), torch.stack(states[-number:]).sum(0))


def test_scalar_mix_weighs_all_hidden_states_embeddings_included(folder: Path) -> None:
    x, states = sequences()
    model = ours(folder, ScalarMix)
    near(model.encode(x), torch.stack(states).mean(0))  # initial weights
    score = torch.tensor([0.3, -1.0, 0.5, 2.0, -0.2, 0.1])
    with torch.no_grad():
        model.encoder.layer_mix.score.copy_(score)
        model.encoder.layer_mix.scale.fill_(1.7)
    near(model.encode(x), 1.7 * torch.stack([w * h for w, h in zip(score.softmax(0), states, strict=True)]).sum(0))


@pytest.mark.parametrize("encoder", [Transformer, partial(SharedTransformer, groups=2)])
@pytest.mark.parametrize("mix", [ScalarMix, SumLast])
def test_mixed_states_are_the_last_of_the_states(encoder: Any, mix: Any) -> None:
    torch.manual_seed(0)
    model = encoder(8, layers=5, layer_mix=mix)
    x = Seq(torch.randn(2, 3, 8))
    states = model.states(x)
    assert len(states) == 7  # the input, five layers, their mix
    assert torch.equal(states[-1].data, model.layer_mix(states[:-1]).data) and torch.equal(model(x).data, states[-1].data)
    plain = encoder(8, layers=5)
    plain.load_state_dict({name: t for name, t in model.state_dict().items() if not name.startswith("layer_mix.")})
    assert all(torch.equal(a.data, b.data) for a, b in zip(plain.states(x), states, strict=False))


def test_scalar_mix_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    numbers = [torch.randn(2, 3, 4, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(4)]
    scalar, last = ScalarMix(4, 4).double(), SumLast(4, 4, layers=2).double()

    def mixed(score: torch.Tensor, scale: torch.Tensor, *of: torch.Tensor) -> torch.Tensor:
        given = ([Seq(x) for x in of],)
        return torch.func.functional_call(scalar, {"score": score, "scale": scale}, given).data

    score = torch.randn(4, dtype=torch.float64, generator=generator, requires_grad=True)
    scale = torch.tensor([1.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(mixed, (score, scale, *numbers))
    assert torch.autograd.gradcheck(lambda *of: last([Seq(x) for x in of]).data, numbers)


def test_sum_last_rejects_more_layers_than_the_encoder_has() -> None:
    with pytest.raises(ValueError, match="cannot sum the last 4 of 3 layers; set layers of sum-last to at most 3"):
        Transformer(8, layers=3, layer_mix=SumLast)
    Transformer(8, layers=4, layer_mix=SumLast)


def recipe(folder: Path, mix: str, train: str) -> str:
    (folder.parent / "train.tsv").write_text(
        "sentence\tlabel\n" + "good film\tyes\nbad play\tno\nfine film\tyes\npoor play\tno\n" * 4
    )
    return f"""
data: {{type: labeled-text, train: train.tsv, valid: train.tsv, tokenizer: {{type: pretrained, from: {folder}}}, max_length: 20}}
structure: {{type: pretrained, from: {folder}, task: classification, pooler: mean, with: {{encoder.layer_mix: {mix}}}}}
objective: classification
learning:
  type: gradient
  steps: 40
  batch_tokens: 200
  optimizer: {{type: adamw, lr: 1.0e-2}}
  phases: [{{train: {train}}}]
  save_every: 0
evaluate: {{every: 0, metrics: [accuracy]}}
"""


@pytest.mark.parametrize(
    ("mix", "globs", "moved"),
    [
        (
            "scalar-mix",
            '["encoder.layer_mix.*", "classifier.*"]',
            {"encoder.layer_mix.score", "encoder.layer_mix.scale", "classifier.out.weight", "classifier.out.bias"},
        ),
        ("{type: sum-last, layers: 4}", '["classifier.*"]', {"classifier.out.weight", "classifier.out.bias"}),
    ],
)
def test_recipe_trains_only_the_scalar_mix_and_the_head(
    mix: str, globs: str, moved: set[str], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = read_run_text(recipe(folder, mix, globs), "r.yaml", tmp_path)
    trained = run.train(tmp_path / "run")
    told = capsys.readouterr().err
    assert "tensors loaded; newly initialized: " in told
    assert ("encoder.layer_mix.score, encoder.layer_mix.scale" in told) == (mix == "scalar-mix")
    before = load(folder).model.state_dict()
    after = trained.model.state_dict()
    frozen = {name for name in after if name in before}
    assert set(after) - frozen == moved
    assert len(frozen) > 50 and all(torch.equal(after[name].cpu(), before[name]) for name in frozen)  # bit for bit
    if mix == "scalar-mix":
        assert bool(after["encoder.layer_mix.score"].abs().max() > 0) and float(after["encoder.layer_mix.scale"]) != 1.0


def test_layer_mix_cannot_be_exported(folder: Path, tmp_path: Path) -> None:
    loaded = load(folder)
    structure = partial(loaded.structure, encoder=partial(option_values(loaded.structure)["encoder"], layer_mix=ScalarMix))
    with pytest.raises(ValueError, match=r"config\.json of a bert cannot express its encoder"):
        save(ours(folder, ScalarMix), structure, tmp_path / "out")
