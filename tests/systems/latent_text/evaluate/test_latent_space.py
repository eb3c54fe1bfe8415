"""The metric latent-space: values against torch.distributions, its samples, and its remarks on collapse."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from tests.commands import weft
from torch.distributions import Normal, kl_divergence

from weft.core.batch import collate
from weft.core.contracts import EvaluationContext, Posterior
from weft.core.io import read_json
from weft.core.seeding import normal
from weft.core.seq import Seq
from weft.evaluate import BLEU, Evaluation
from weft.evaluate.evaluation import Subset
from weft.evaluate.subsample import subsample
from weft.generate import GreedySearch
from weft.inference.load import load
from weft.objectives.elbo import autoencoding_instance, sequence_nll
from weft.recipe import RecipeError
from weft.systems.latent_text.evaluate import LatentSpaceMetric
from weft.training.dry_run import check
from weft.training.recipes import read_run

WORDS = ["good", "bad", "food", "staff", "was", "the", "very", "a", "place", "slow", "fine"]
RECIPE = """
data: {type: autoencoding-text, train: {positive: good.txt, negative: bad.txt}, validation_fraction: 0.3,
       tokenizer: {type: character, vocab_size: 60}, target_tokenizer: {type: word, vocab_size: 60}}
structure:
  type: text-vae
  latent: 3
  encoder: {type: text-encoder, dim: 8, encoder: {layers: 1, layer: {mixer: {heads: 2}}}, head: null}
  decoder: {type: language-model, dim: 8, decoder: {layers: 1, layer: {mixer: {heads: 2}}}}
objective: {type: elbo, beta: BETA, free_bits: {type: clamp, nats: 0}}
learning: {type: gradient, steps: STEPS, batch_tokens: 400, optimizer: {type: adam, lr: 0.02}}
evaluate:
  every: 4
  max_examples: 9
  metrics: [{type: latent-space, samples: 7, samples_in_training: 2}, bleu]
  search: {type: greedy, max_length: 8}
"""


def texts(rows, seed):
    rng = np.random.default_rng(seed)
    return "".join(" ".join(rng.choice(WORDS, rng.integers(1, 6))) + "\n" for _ in range(rows))


def recipe(folder, beta="{type: constant, weight: 0}", steps=4, **changes):
    """A small text VAE, on texts of few words."""
    for i, name in enumerate(("good", "bad")):
        if not (folder / f"{name}.txt").exists():
            (folder / f"{name}.txt").write_text(texts(60, i))
    text = RECIPE.replace("BETA", beta).replace("STEPS", str(steps))
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "recipe.yaml").write_text(text)
    return read_run(folder / "recipe.yaml")


@pytest.mark.parametrize("period", [1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize(("rows", "number"), [(40, 20), (1000, 100), (999, 333), (7, 6)])
def test_subsample_covers_all_parts_for_sorted_and_alternating_data(rows, number, period):
    chosen = subsample(range(rows), number)
    assert len(chosen) == number and chosen == sorted(set(chosen)) and chosen[0] == 0
    assert all(part * rows // number <= row < (part + 1) * rows // number for part, row in enumerate(chosen)), (
        "one from each part"
    )
    fractions = [sum(row % period == kind for row in chosen) / number for kind in range(period)]
    assert number < 100 or max(fractions) < 1.2 / period


def test_subset_covers_all_classes(trained):
    """Files are sorted by class."""
    valid = trained.dataset("valid")[1]
    some = Subset(valid, 9)
    classes = [some.raw(row)["label"] for row in range(len(some))]
    fraction = sum(valid.raw(row)["label"] == "positive" for row in range(len(valid))) / len(valid)
    assert len(some) == 9 and abs(classes.count("positive") - 9 * fraction) <= 1
    assert [some[row]["label"] for row in range(9)] == [int(name == "positive") for name in classes]
    assert some.lengths["source"].tolist() == [len(some[row]["source"]) for row in range(9)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("latent")
    run = recipe(folder)
    return run.train(folder / "run", quiet=True)


def context_of(run, **changes):
    dataset = run.dataset("valid")[1]
    objective = next(iter(run.objectives.values())).eval()
    given = EvaluationContext(run.model.eval(), objective, dataset, run.codec, torch.device("cpu"), 400)
    return replace(given, **changes)


def measured(run, metric=None, **changes):
    with torch.inference_mode():
        return (metric or LatentSpaceMetric(samples=7)).measure(context_of(run, **changes))


def test_values_equal_those_of_torch_distributions(trained):
    """One example at a time."""
    model, dataset = trained.model.eval(), trained.dataset("valid")[1]
    rec, kls, elbos, log_ps, means = [], [], [], [], []
    tokens = words = 0
    with torch.inference_mode():
        for row in range(len(dataset)):
            batch = collate([autoencoding_instance(dataset[row], trained.codec.info, np.random.default_rng(0))], [row])
            posterior = model.posterior(batch["source"])
            q = Normal(posterior.mean_BP.double(), (0.5 * posterior.logvar_BP.double()).exp())
            prior = Normal(torch.zeros(1, 3).double(), 1.0)
            weights = []
            for eps_P in normal((7, 3), "latent", 0, row):
                z = q.mean + q.stddev * torch.from_numpy(eps_P)[None]
                nll = float(sequence_nll(model, batch, z.float()))
                rec.append(nll)
                weights.append(-nll + float(prior.log_prob(z).sum() - q.log_prob(z).sum()))
            elbos.append(np.mean(weights))
            log_ps.append(np.logaddexp.reduce(weights) - math.log(7))
            kls.append(float(kl_divergence(q, prior).sum()))
            means.append(posterior.mean_BP[0].numpy())
            tokens += len(dataset[row]["target"]) + 1
            words += len(dataset.raw(row)["target"].split()) + 1
    found = measured(trained)
    assert found["reconstruction"] == pytest.approx(np.mean(rec), rel=1e-5)
    assert found["kl"] == pytest.approx(np.mean(kls), rel=1e-4)
    assert found["negative_elbo"] == pytest.approx(-np.mean(elbos), rel=1e-5)
    assert found["iw_nll"] == pytest.approx(-np.mean(log_ps), rel=1e-5)
    assert found["iw_nll"] < found["negative_elbo"]
    assert found["iw_perplexity"] == pytest.approx(math.exp(-np.sum(log_ps) / tokens), rel=1e-4)
    assert found["iw_word_perplexity"] == pytest.approx(math.exp(-np.sum(log_ps) / words), rel=1e-4)
    assert found["mutual_information_bound"] == pytest.approx(math.log(len(dataset)))
    assert found["active_units"] == int((np.var(means, 0, ddof=1) > 0.01).sum())
    assert (found["latent_units"], found["iw_samples"]) == (3, 7)


def test_word_perplexity_counts_words_of_the_raw_text(trained):
    """The decoder has a word tokenizer, so both perplexities are equal."""
    found = measured(trained)
    assert found["iw_word_perplexity"] == pytest.approx(found["iw_perplexity"])
    counted = LatentSpaceMetric(samples=7, field="label")  # one word per example
    rows = trained.dataset("valid")[1]
    assert measured(trained, counted)["iw_word_perplexity"] == pytest.approx(math.exp(found["iw_nll"] / 2), rel=1e-6)
    assert len(rows) > 5


def test_values_do_not_depend_on_batches_or_global_random_state(trained):
    first = measured(trained)
    torch.manual_seed(99)
    assert measured(trained) == first
    for batch in (1, 30, 10_000):
        assert measured(trained, batch_tokens=batch) == pytest.approx(first, rel=1e-5)
    assert measured(trained, LatentSpaceMetric(samples=7, seed=1))["iw_nll"] != first["iw_nll"]


def test_padding_does_not_change_the_values(trained, monkeypatch):
    first = measured(trained)
    widened = lambda seq: Seq(  # noqa: E731
        torch.nn.functional.pad(seq.data, (0, 4), value=7), torch.nn.functional.pad(seq.real(), (0, 4), value=False), seq.marks
    )
    posterior = type(trained.model).posterior
    monkeypatch.setattr(type(trained.model), "posterior", lambda self, x: posterior(self, widened(x)))
    assert measured(trained) == pytest.approx(first, rel=1e-5)


@pytest.mark.parametrize("samples", [1, 3, 20])
def test_iw_nll_never_exceeds_the_negative_elbo_of_the_same_samples(trained, samples):
    found = measured(trained, LatentSpaceMetric(samples=samples))
    assert found["iw_nll"] <= found["negative_elbo"] + 1e-9
    if samples == 1:
        assert found["iw_nll"] == pytest.approx(found["negative_elbo"])


def test_fewer_samples_and_examples_during_training(trained):
    log = [json.loads(line) for line in (trained.folder / "log.jsonl").read_text().splitlines()]
    (valid,) = [row["valid"] for row in log if row.get("event") == "valid"]
    assert valid["iw_samples"] == 2 and valid["mutual_information_bound"] == pytest.approx(math.log(9))
    metrics = read_json(trained.folder / "metrics.json")
    assert metrics["iw_samples"] == 7 and metrics["mutual_information_bound"] > math.log(9)
    assert metrics["signatures"]["latent-space"] == "samples:7|seed:0|active:var>0.01"
    with torch.inference_mode():
        nine = LatentSpaceMetric(samples=2).measure(context_of(trained, dataset=Subset(trained.dataset("valid")[1], 9)))
    assert valid["iw_nll"] == pytest.approx(nine["iw_nll"], rel=1e-5)  # four steps: the weights are those of the last step


def test_weft_evaluate_reproduces_the_values(trained):
    metrics = read_json(trained.folder / "metrics.json")
    again = json.loads(weft("evaluate", trained.folder, "--split", "valid", "--json").out)
    for name in ("loss", "negative_elbo", "iw_nll", "mutual_information", "active_units", "bleu"):
        assert again[name] == pytest.approx(metrics[name], rel=1e-6), name


def test_posterior_collapse_is_reported_everywhere(tmp_path, monkeypatch, capsys):
    """Every posterior is the prior: reported in log.jsonl, metrics.json, the terminal and by weft evaluate."""
    prior = lambda self, x: Posterior(torch.zeros(x.rows, 3), torch.zeros(x.rows, 3))  # noqa: E731
    run = recipe(tmp_path)
    monkeypatch.setattr("weft.models.TextVAE.posterior", prior)
    monkeypatch.setattr("weft.learning.loop.train_only", lambda *_: None)
    run.train(tmp_path / "run")
    remark = "posterior collapse: 0 of 3 latent dimensions are active, and KL(q(z|x) || p(z)) is 0.00 nats"
    (point,) = LatentSpaceMetric().remarks({"active_units": 0, "latent_units": 4})
    assert point.startswith("the latent space has collapsed: 0 of 4 latent dimensions are active;") and "beta" not in point
    assert capsys.readouterr().err.count(remark) == 2  # the evaluation in training, and the last
    (row,) = [r for r in map(json.loads, (tmp_path / "run" / "log.jsonl").open()) if r.get("event") == "valid"]
    assert row["remarks"][0].startswith(remark) and len(row["remarks"]) == 1
    assert read_json(tmp_path / "run" / "metrics.json")["remarks"] == row["remarks"]
    assert remark in weft("evaluate", tmp_path / "run", "--split", "valid").out


def test_remarks_follow_the_values():
    remarks = LatentSpaceMetric().remarks
    fine = {"active_units": 2, "latent_units": 3, "kl": 0.5}
    assert remarks(fine) == []
    assert "0 of 3" in remarks({**fine, "active_units": 0})[0]
    assert "2 of 3" in remarks({**fine, "kl": 0.09})[0]
    assert remarks({"active_units": 1, "latent_units": 3}) == []


def test_no_remark_without_collapse(trained):
    assert "remarks" not in read_json(trained.folder / "metrics.json")
    assert "remarks" not in (trained.folder / "log.jsonl").read_text()


def test_deterministic_autoencoder_has_unit_counts_only(trained, monkeypatch):
    mean = type(trained.model).posterior
    monkeypatch.setattr(type(trained.model), "posterior", lambda self, x: Posterior(mean(self, x).mean_BP))
    assert measured(trained).keys() == {"active_units", "latent_units"}, "reconstruction is in the loss"


def test_predictions_decode_the_posterior_mean_without_noise(trained):
    """Whatever the global random state and the batch."""
    objective, dataset = next(iter(trained.objectives.values())), trained.dataset("valid")[1]

    def predicted(batch):
        evaluation = Evaluation(metrics=[BLEU], batch_tokens=batch, search=partial(GreedySearch, max_length=8))
        return evaluation.evaluate(trained.model, objective, dataset, trained.codec, torch.device("cpu"))

    one = predicted(400)
    torch.manual_seed(5)
    two = predicted(30)
    assert one.predictions == two.predictions and one.metric_values == pytest.approx(two.metric_values, rel=1e-5)
    batch = collate([objective.prepare(dataset[0], np.random.default_rng(0), None)], [0])
    memory = trained.model.memory(batch)
    assert torch.equal(memory.vector, trained.model.posterior(batch["source"]).mean_BP)


def test_autoencoder_learns_to_reconstruct_short_texts(tmp_path):
    """Measured by BLEU (``metrics: [bleu]``)."""
    text = "the food was good\nthe staff was bad\na very slow place\na fine place\n"
    for name in ("good", "bad"):
        (tmp_path / f"{name}.txt").write_text(text)
    run = recipe(
        tmp_path,
        steps=90,
        **{"validation_fraction: 0.3": f"valid: {{positive: {tmp_path / 'good.txt'}, negative: {tmp_path / 'bad.txt'}}}"},
    )
    result = run.train(tmp_path / "run", quiet=True).result
    assert result.metric_values["bleu"] > 90 and result.metric_values["reconstruction"] < 2


def test_unsuitable_structures_are_rejected_before_training(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"a {i}\n" for i in range(60)))
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "data: {type: parallel-text, train: [a.txt, a.txt]}\nstructure: {type: seq2seq, dim: 8}\nobjective: next-token\n"
        "learning: {type: gradient, steps: 2}\nevaluate: {metrics: [latent-space]}\n"
    )
    with pytest.raises(
        RecipeError,
        match=r"r\.yaml:5: evaluate: the metric latent-space needs a structure that provides Latent, but it provides:",
    ):
        check(read_run(recipe))
    with pytest.raises(ValueError, match="the metric latent-space needs a structure that provides Latent"):
        read_run(recipe).train(tmp_path / "run", quiet=True)
    recipe.write_text(recipe.read_text().replace("type: parallel-text, train: [a.txt, a.txt]", "type: plain-text, train: a.txt"))
    with pytest.raises(RecipeError, match="the metric latent-space needs 'target', but the data"):
        check(read_run(recipe))


def test_loaded_run_has_the_same_values(trained):
    assert measured(load(trained.folder)) == pytest.approx(measured(trained), rel=1e-6)
