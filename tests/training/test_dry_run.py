"""Costs reported by the check of a recipe, compared with torch's counter on real tensors and with formulas."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import weft.training.dry_run
import weft.training.flops
from weft.cli.check_report import print_reports
from weft.core.batch import Clock
from weft.core.fields import Info, TextField
from weft.objectives import Weighted
from weft.pretrained.empty_init import SkipInit
from weft.recipe import RecipeError
from weft.training.build import build_network, plans
from weft.training.dry_run import StageReport, batch_examples, batch_problem, check, synthetic_batch
from weft.training.flops import count_cost
from weft.training.meta_outputs import MetaOutputs
from weft.training.recipes import read_run, read_run_text
from weft.training.run import Run

LEARNING = "learning: {type: gradient, steps: 3, batch_tokens: 200}\n"
CLASSES = "data: {type: labeled-text, train: t.tsv, labels: [x, y]}\nobjective: classification\n" + LEARNING
TEXT = "data: {type: plain-text, train: t.txt}\nobjective: next-token\n" + LEARNING
RECIPES = {
    "dates": "dates",
    "dates-transformer": "dates-transformer",
    "bag of words": CLASSES
    + "structure: {type: classifier, dim: 12, encoder: {type: bag-of-words, feedforward: feed-forward}, head: {hidden: 6}}\n",
    "language model": TEXT + "structure: {type: language-model, dim: 12}\n",
    "gru": CLASSES + "structure: {type: classifier, dim: 12, encoder: {type: gru, layers: 2, bidirectional: true}}\n",
    "lstm that drops": TEXT + "structure: {type: language-model, dim: 12, decoder: {type: lstm, layers: 3, dropout: 0.1}}\n",
}


def read(name: str, folder: Path) -> Run:
    text = RECIPES[name]
    if "\n" not in text:
        return read_run(text)
    (folder / "t.txt").write_text("a\n", encoding="utf-8")
    (folder / "t.tsv").write_text("text\tlabel\na\tx\nb\ty\n", encoding="utf-8")
    return read_run_text(text, "r.yaml", folder)


def counted_by_torch(run: Run) -> int:
    """Both passes on the CPU with kernels that take networks apart: those of oneDNN and flash attention are not counted."""
    (plan,) = plans(run)
    info = plan.data().declare()
    network = build_network(plan, {"": info}, 0)
    (objective,) = network.objectives.values()
    batch = synthetic_batch(info, objective, batch_examples(info, objective, plan.learning()))
    fused = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    try:
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            objective(network.model, batch, Clock()).mean().backward()
    finally:
        torch.backends.mkldnn.enabled = fused
    return counter.get_total_flops()


@pytest.mark.parametrize("name", RECIPES)
def test_operations_equal_those_of_torchs_counter(name: str, tmp_path: Path) -> None:
    run = read(name, tmp_path)
    (report,) = check(run)
    assert report.operations == pytest.approx(counted_by_torch(run), rel=0.01)


def metric_values(report: StageReport) -> tuple[object, ...]:
    shapes = [(row.name, row.kind, row.shape, row.parameters) for row in report.rows]
    return report.memory, report.operations, report.parameters, report.batch, report.terms, report.idle, shapes


@pytest.mark.parametrize("name", RECIPES)
def test_the_meta_device_gives_the_same_costs_as_the_cpu(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (real,) = check(read(name, tmp_path))
    monkeypatch.setattr(weft.training.dry_run, "_SMALL_OPERATIONS", 0)
    (imagined,) = check(read(name, tmp_path))
    assert metric_values(imagined) == metric_values(real)


@pytest.mark.parametrize("gates", [4, 3, 1])
@pytest.mark.parametrize("first", [True, False])
def test_extrapolated_costs_of_recurrent_networks_equal_those_of_a_full_run(gates: int, first: bool) -> None:
    kind = {4: nn.LSTM, 3: nn.GRU, 1: nn.RNN}[gates]
    rows, steps, wide, hidden = 2, 7, 5, 3
    network = kind(wide, hidden, num_layers=2, batch_first=first)
    x = torch.randn((rows, steps, wide) if first else (steps, rows, wide), requires_grad=True)
    expected = network(x)
    with count_cost() as cost:
        out, state = network(x)
        out.sum().backward()
    assert out.shape == expected[0].shape
    assert [s.shape for s in state] == [s.shape for s in expected[1]]
    assert all(p.grad is not None and p.grad.shape == p.shape for p in [*network.parameters(), x])
    weights = gates * hidden * (wide + hidden + hidden + hidden)
    # three products per weight and token, but of the first state, which is fixed, there is no gradient
    assert cost.operations == 2 * rows * (3 * steps * weights - 2 * gates * hidden * hidden)


def test_without_gradients_only_the_forward_pass_is_counted() -> None:
    network, x = nn.LSTM(5, 3), torch.randn(7, 2, 5)
    with count_cost() as cost, torch.no_grad():
        assert not network(x)[0].requires_grad
    assert cost.operations == 2 * 7 * 2 * 12 * (5 + 3)
    assert cost.kept == 0
    with count_cost() as cost, torch.inference_mode():
        nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3))
    assert cost.operations == 2 * 2 * 3 * 4


def test_unknown_recurrent_calls_are_run() -> None:
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 5), torch.ones(2, 5)])
    odd = torch.ones(3, 3, requires_grad=True)
    with count_cost() as cost:
        torch.linalg.det(odd).backward()
        torch.fft.fft(odd)
    assert cost.operations == 0
    with count_cost() as cost:
        out = nn.GRU(5, 3)(packed)[0]
    assert out.data.shape == (5, 3)
    assert cost.operations > 0


def test_counting_restores_the_global_settings_of_torch() -> None:
    def settings() -> tuple[object, ...]:
        flash = torch.backends.cuda.flash_sdp_enabled()
        return torch.get_num_threads(), torch.backends.mkldnn.enabled, flash, torch.get_default_device()

    before = settings()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZeroDivisionError), count_cost():
            raise ZeroDivisionError
    assert settings() == before


def test_only_weights_on_the_meta_device_skip_initialization() -> None:
    with SkipInit():
        assert nn.init.normal_(torch.zeros(50)).std() > 0
        assert nn.init.normal_(torch.empty(50, device="meta")).is_meta
        assert torch.zeros(50).normal_().std() > 0


def test_a_thousand_layers_are_checked_quickly() -> None:
    """Reckoned, not run: step by step this would take minutes."""
    rows, steps, wide, layers = 2, 400, 4, 1000
    network, x = nn.LSTM(wide, wide, device="meta"), torch.empty(steps, rows, wide, device="meta")
    with count_cost() as cost:
        for _ in range(layers):
            x = network(x)[0]
    product = 2 * rows * 4 * wide * wide
    # no gradient of the first states, nor of what the first layer reads
    assert cost.operations == product * (layers * 3 * 2 * steps - layers - steps)


def test_a_check_does_not_import_the_compiler() -> None:
    code = "import sys; from weft.training.dry_run import check; from weft.training.recipes import read_run"
    code += "; check(read_run('dates'))"
    code += "; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SPANS = "data: {type: plain-text, train: t.txt, tokenizer: %s}\nobjective:\n  type: denoising\nstructure: t5\n" + LEARNING


@pytest.mark.parametrize(
    "tokenizer, message",
    [
        ("byte", "need 14 sentinels, but the vocabulary of 'text' has 0;"),
        # a text of 256 tokens: round(0.15 256) = 38 masked tokens, in 13 spans
        (
            "{type: with-sentinels, count: 13}",
            "texts of up to 256 tokens can have 13 spans, which need 14 sentinels, but .* has 13;",
        ),
    ],
)
def test_errors_of_the_objective_are_located_at_the_objective(tokenizer: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a\n", encoding="utf-8")
    run = read_run_text(SPANS % tokenizer, "r.yaml", tmp_path)
    with pytest.raises(RecipeError, match=message) as found:
        check(run)
    (problem,) = found.value.problems
    assert problem.path == "objective"


def test_objectives_with_text_pairs_are_checked_with_several_texts(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a\n", encoding="utf-8")
    text = "data: {type: plain-text, train: t.txt}\nobjective: {type: masked-lm, pairing: next-sentence}\n" + LEARNING
    run = read_run_text(text + "structure: {type: bert, dim: 16, layers: 1, heads: 2, hidden: 16}\n", "r.yaml", tmp_path)
    (report,) = check(run)
    assert "pairing" in report.terms


VAE = "data: {type: autoencoding-text, train: t.txt}\nobjective: elbo\n" + LEARNING
REFUSED = {
    "relative bias": (
        CLASSES + "structure: {type: classifier, dim: 8, encoder: {type: transformer, position: relative-bias, layer: {mixer: "
        "{heads: 2}}}}\n",
        r"r\.yaml:\d+: structure\.encoder: position\.heads is 4, but self-attention has 2 heads; set both to the same number",
    ),
    "relative bias with one head": (
        CLASSES + "structure: {type: classifier, dim: 8, encoder: {type: transformer, position: relative-bias, layer: {mixer: "
        "alignment}}}\n",
        r"r\.yaml:\d+: structure\.encoder: position\.heads is 4, but self-attention has 1 head;",
    ),
    "latent memory": (
        VAE + "structure: {type: text-vae, decoder: {type: language-model, dim: 16, decoder: {type: transformer, layer: {mixer: "
        "{heads: 2, head_dim: 3}}}}}\n",
        r"r\.yaml:\d+: structure\.injections\.0: vectors of size 16 cannot be keys and values of 2 heads of size 3;",
    ),
    "name of a part": (
        CLASSES.replace("classification", "{type: weighted, parts: {keys: classification}}")
        + "structure: {type: classifier, dim: 8}\n",
        r"r\.yaml:\d+: objective: parts has the name 'keys'",
    ),
    "too large": (
        "data: {type: labeled-images, train: t.tsv, labels: [x, y], size: 1000000000000}\nobjective: classification\n"
        + LEARNING
        + "structure: {type: image-encoder, embedder: {type: patch, size: 2, position: learned}}\n",
        r"r\.yaml:\d+: structure\.embedder\.position: a tensor is too large",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_parts_that_do_not_fit_are_located(name, tmp_path):
    text, message = REFUSED[name]
    with pytest.raises(RecipeError, match=message):
        check(read_run_text(text, "r.yaml", tmp_path, files=False))


def test_weighted_needs_a_part():
    with pytest.raises(ValueError, match="parts is empty"):
        Weighted(Info({"text": TextField("text", vocab=9)}), 8, parts={})


def test_heads_may_share_a_position_bias(tmp_path):
    text = (
        CLASSES
        + "structure: {type: classifier, dim: 8, encoder: {type: transformer, position: {type: relative-bias, heads: 1}}}\n"
    )
    assert check(read_run_text(text, "r.yaml", tmp_path, files=False))


def test_the_cost_of_a_huge_batch_is_scaled(capsys):
    """Twice the tokens are twice the activations and operations, also where the batch is too large to be computed."""
    runs = [read_run("dates", ["structure.dim=8", f"learning.batch_tokens={tokens}"]) for tokens in (10**8, 2 * 10**8)]
    (one,), (two,) = map(check, runs)
    weights = one.parameters * 16
    assert one.scaled_from and one.batch[1] == pytest.approx(10**8, rel=0.1)
    assert two.memory - weights == pytest.approx(2 * (one.memory - weights), rel=0.01)
    assert two.operations == pytest.approx(2 * one.operations, rel=0.01)
    print_reports(runs[0], [one])
    assert f"(synthetic; estimated from a batch of {one.scaled_from:,} tokens, scaled)" in capsys.readouterr().out
    (small,) = check(read_run("dates", ["structure.dim=8", "learning.batch_tokens=1000"]))
    assert not small.scaled_from
    assert one.memory - weights == pytest.approx((small.memory - weights) * one.batch[1] / small.batch[1], rel=0.1)
    assert "lower learning.batch_tokens" in (batch_problem(replace(one, memory=10**18)) or "")
    assert batch_problem(small) is None


# ----------------------------------------------------------------------------------------------------------------- bounds


def test_a_structure_that_is_too_deep_is_refused_at_its_deepest_stack(tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    (tmp_path / "p.tsv").write_text("a\tb\n")
    text = TEXT.replace("type: plain-text, train: t.txt", "type: parallel-text, train: p.tsv") + (
        "structure:\n  type: seq2seq\n  dim: 8\n  encoder: {type: transformer, layers: 300}\n"
        "  decoder:\n    type: transformer\n    layers: 701\n"
    )
    message = r"r\.yaml:\d+: structure\.decoder\.layers: layers is 701, 1001 in all stacks; a structure has at most 1000"
    with pytest.raises(RecipeError, match=message):
        check(read_run_text(text, "r.yaml", tmp_path))


def test_a_deep_structure_computes_each_operation_on_the_meta_device_once(tmp_path, monkeypatch):
    """The time of a check grows with the number of different layers."""
    (tmp_path / "t.txt").write_text("a\n")
    monkeypatch.setattr(weft.training.dry_run, "_SMALL_OPERATIONS", 0)
    known: list[int] = []
    for layers in (2, 20):
        monkeypatch.setattr(weft.training.flops, "KNOWN", outputs := MetaOutputs())
        mixer = "layer: {mixer: {heads: 2}}"
        text = f"structure: {{type: language-model, dim: 8, decoder: {{type: transformer, layers: {layers}, {mixer}}}}}\n"
        check(read_run_text(TEXT + text, "r.yaml", tmp_path))
        known.append(len(outputs.outputs))
    assert known[0] == known[1] > 10


def test_a_kernel_that_is_too_large_is_refused_before_it_is_built(tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    mixer = "layer: {mixer: {type: gated-convolution, kernel_size: 1000000}}"
    text = TEXT + f"structure: {{type: language-model, dim: 8, decoder: {{type: transformer, layers: 1, {mixer}}}}}\n"
    with pytest.raises(RecipeError, match=r"mixer\.kernel_size: must be an integer from 1 to 1,000, not 1000000"):
        read_run_text(text, "r.yaml", tmp_path)


def test_too_many_stages_and_long_names_are_refused_with_their_location(tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    text = TEXT + "structure: {type: language-model, dim: 8}\nstages:\n"
    many = text + "".join(f"  - {{name: s{i}, {LEARNING.strip()}}}\n" for i in range(101))
    with pytest.raises(RecipeError, match=r"r\.yaml:\d+: stages\.100: a run has at most 100 further stages, not 101"):
        check(read_run_text(many, "r.yaml", tmp_path))
    for name, size in (("n" * 101, 101), ("ä" * 51, 102)):
        long = text + f"  - {{name: {name}, {LEARNING.strip()}}}\n"
        with pytest.raises(
            RecipeError, match=rf"r\.yaml:\d+: stages\.0\.name: the name of a stage .* at most 100 bytes, not {size}"
        ):
            check(read_run_text(long, "r.yaml", tmp_path))


def test_a_long_objective_name_is_refused(tmp_path):
    (tmp_path / "t.txt").write_text("a\n")
    name = "ä" * 60
    text = "data: {type: plain-text, train: t.txt}\nstructure: {type: language-model, dim: 8}\n" + (
        f"objective: {{{name}: next-token}}\nlearning: {{type: gradient, steps: 3, phases: [{{objective: {name}}}]}}\n"
    )
    with pytest.raises(RecipeError, match="at most 100 bytes"):
        check(read_run_text(text, "r.yaml", tmp_path))
