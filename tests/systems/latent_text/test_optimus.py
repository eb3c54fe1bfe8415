"""OPTIMUS: a conditional GAN in the latent space of a VAE. Losses, trained parameters per phase, conditioning, batches."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from weft.blocks import MLP, ConcatDiscriminator, LeakyReLU, PreNorm, ProjectionDiscriminator, Transformer, TransformerLayer
from weft.core.batch import Clock, collate
from weft.core.contracts import Posterior
from weft.core.fields import Info, LabelField, LabelsField, TextField
from weft.evaluate import Distinct, Evaluation
from weft.generate import GreedySearch
from weft.inference.load import load
from weft.learning import load_checkpoint, read_weights
from weft.models import LanguageModel, Seq2Seq, TextEncoder, TextVAE
from weft.objectives.gradient_penalty import gradient_penalty
from weft.recipe import RecipeError
from weft.systems.latent_text.optimus import LatentDiscriminator, LatentGAN, LatentGenerator
from weft.systems.latent_text.optimus.latent_gan import LatentStandardization
from weft.training.dry_run import check
from weft.training.recipes import read_run

LABEL = LabelField("label", 2, labels=("bad", "good"))
INFO = Info(
    {"source": TextField("source", 13, space="s"), "target": TextField("target", 17, space="t"), "label": LABEL}, target="target"
)
SMALL = partial(MLP, hidden=[8, 8], activation=LeakyReLU)
VAE = partial(TextVAE, latent=3, encoder=partial(TextEncoder, dim=8, head=None), decoder=partial(LanguageModel, dim=8))
DISCRIMINATORS = {
    "concatenated": partial(ConcatDiscriminator, label_dim=4, transform=SMALL),
    "projection": partial(ProjectionDiscriminator, hidden=8, transform=SMALL),
}


def gan(discriminator="concatenated", **choices):
    torch.manual_seed(0)
    given = {
        "model": VAE,
        "noise": 5,
        "label_dim": 4,
        "generator": SMALL,
        "discriminator": DISCRIMINATORS.get(discriminator, discriminator),
    }
    return LatentGAN(INFO, **{**given, **choices})


def batch_of(objective, rows=range(6), labels=None):
    """Texts of different lengths, each with its own noise."""
    instances = []
    for row in rows:
        rng = np.random.default_rng(row)
        ids = rng.integers(7, 13, 1 + row % 4)
        example = {"source": ids, "target": ids, "label": row % 2 if labels is None else labels[row]}
        instances.append(objective.prepare(example, np.random.default_rng(row), None))
    return collate(instances, rows)


# ------------------------------------------------------------------------------------------------------- gradient penalty


def test_gradient_penalty_of_a_critic_with_a_known_gradient():
    """D(x) = w . x + a |x|^2 / 2 has the gradient w + a x."""
    w, a = torch.randn(4, requires_grad=True), torch.tensor(0.3, requires_grad=True)
    real, fake, mix = torch.randn(5, 4), torch.randn(5, 4), torch.rand(5)
    found = gradient_penalty(lambda x: x @ w + a * (x**2).sum(-1) / 2, real, fake, mix)
    at = mix[:, None] * real + (1 - mix[:, None]) * fake
    expected = ((w + a * at).norm(dim=-1) - 1) ** 2
    torch.testing.assert_close(found, expected)
    for got, reference in zip(torch.autograd.grad(found.sum(), (w, a)), torch.autograd.grad(expected.sum(), (w, a)), strict=True):
        torch.testing.assert_close(got, reference)


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)])
def test_gradient_penalty_accepts_two_precisions(dtypes):
    """Under autocast, fake codes are bfloat16 and real ones may be float32."""
    real, fake = torch.zeros(5, 4, dtype=dtypes[0]), torch.ones(5, 4, dtype=dtypes[1])
    found = gradient_penalty(lambda x: (x**2).sum(-1) / 2, real, fake, torch.full((5,), 0.25))  # |x| = 2 (1 - 0.25)
    assert found.dtype == torch.float32 and found.tolist() == [0.25] * 5


def test_gradient_penalty_reaches_the_critic_only_and_is_zero_without_gradients():
    discriminator = nn.Linear(4, 1)
    real, fake = torch.randn(5, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    score = lambda x: discriminator(x).squeeze(-1)  # noqa: E731
    gradient_penalty(score, real, fake, torch.rand(5)).sum().backward()
    assert real.grad is None and fake.grad is None and discriminator.weight.grad is not None
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            assert gradient_penalty(score, real, fake, torch.rand(5)).tolist() == [0.0] * 5


# ------------------------------------------------------------------------------------------------------------- objectives


def test_discriminator_loss_equals_its_formula():
    model, objective = gan(), LatentDiscriminator(INFO, 8)
    batch = batch_of(objective)
    loss = objective(model, batch, Clock())
    noise = torch.stack(
        [torch.from_numpy(np.random.default_rng(seed).standard_normal(3 + 5, np.float32)) for seed in batch["seed"].tolist()]
    )
    posterior, label = model.posterior(batch["source"]), batch["label"]
    real = (posterior.mean_BP + (0.5 * posterior.logvar_BP).exp() * noise[:, :3]).detach()
    fake = model.generator(noise[:, 3:8], label)
    expected = model.discriminator(fake, label) - model.discriminator(real, label)
    torch.testing.assert_close(loss["discriminator"].total, expected.sum())
    mix = batch["mix"]
    assert bool(((mix >= 0) & (mix < 1)).all()) and len(mix.unique()) == 6
    at = (mix[:, None] * real + (1 - mix[:, None]) * fake).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.discriminator(at, label).sum(), at)
    torch.testing.assert_close(loss["penalty"].total, ((gradient.norm(dim=-1) - 1) ** 2).sum())
    assert loss["penalty"].weight == 10 and objective.metric_values({"discriminator": -2.0}) == {"distance": 2.0}
    means = LatentDiscriminator(INFO, 8, noise="none")(model, batch, Clock())
    expected = model.discriminator(fake, label) - model.discriminator(posterior.mean_BP, label)
    torch.testing.assert_close(means["discriminator"].total, expected.sum())


@pytest.mark.parametrize("discriminator", DISCRIMINATORS)
def test_discriminator_conditions_on_the_class(discriminator):
    model, objective = gan(discriminator), LatentDiscriminator(INFO, 8)
    labels = {row: row % 2 for row in range(6)}
    correct = batch_of(objective, labels=labels)
    swapped = batch_of(objective, labels={row: 1 - label for row, label in labels.items()})
    z = torch.randn(6, 3)
    assert not torch.allclose(model.score(z, correct["label"]), model.score(z, swapped["label"]))
    one, two = (objective(model, batch, Clock()) for batch in (correct, swapped))
    for name in ("discriminator", "penalty"):
        assert abs(one[name].total.item() - two[name].total.item()) > 1e-3
    # also with the same fake codes, so that only the discriminator gets another class
    fake_latents = model.fake_latents
    model.fake_latents = lambda eps, label: fake_latents(eps, correct["label"])  # type: ignore[method-assign]
    kept = objective(model, swapped, Clock())
    assert abs(one["discriminator"].total.item() - kept["discriminator"].total.item()) > 1e-3


@pytest.mark.parametrize("objective", [LatentDiscriminator, LatentGenerator])
def test_loss_of_an_example_does_not_depend_on_the_batch(objective):
    """Neither on padding nor on other examples, including the gradient penalty."""
    model, objective = gan(), objective(INFO, 8)
    together = objective(model, batch_of(objective), Clock())
    alone = [objective(model, batch_of(objective, [row]), Clock()) for row in range(6)]
    for name, term in together.items():
        assert term.total.item() == pytest.approx(sum(a[name].total.item() for a in alone), rel=1e-4)


def test_gradients_of_each_objective_reach_its_own_network_only():
    model = gan()
    LatentDiscriminator(INFO, 8)(model, batch_of(LatentDiscriminator(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"discriminator"}
    model.zero_grad(set_to_none=True)
    for parameter in model.discriminator.parameters():
        parameter.requires_grad_(False)
    LatentGenerator(INFO, 8)(model, batch_of(LatentGenerator(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"generator"}


def test_real_latents_are_encoded_without_dropout():
    encoder = partial(TextEncoder, dim=8, head=None)
    dropping = partial(Transformer, layers=1, layer=partial(TransformerLayer, residual=partial(PreNorm, dropout=0.5)))
    model = gan(model=partial(VAE, encoder=partial(encoder, encoder=dropping))).train()
    x = batch_of(LatentDiscriminator(INFO, 8))["source"]
    assert torch.equal(model.real_latents(x, None), model.real_latents(x, None)) and model.model.training
    assert not torch.equal(model.posterior(x).mean_BP, model.posterior(x).mean_BP)


def test_generator_learns_the_classes():
    """Fake codes of two classes are separated like the real ones, and have their standard deviation."""
    wider = partial(MLP, hidden=[32, 32], activation=LeakyReLU)
    model = gan(generator=wider, discriminator=partial(ConcatDiscriminator, label_dim=4, transform=wider)).train()
    objectives = {"discriminator": LatentDiscriminator(INFO, 8), "generator": LatentGenerator(INFO, 8)}
    center = torch.tensor([[-1.0, 0.5, 0.0], [1.0, -0.5, 0.0]])
    generator = torch.Generator().manual_seed(1)
    optimizers = {
        name: torch.optim.Adam(getattr(model, name).parameters(), lr=3e-3, betas=(0.5, 0.9))
        for name in ("discriminator", "generator")
    }
    label = torch.arange(32) % 2
    model.real_latents = lambda x, eps: center[label] + 0.3 * torch.randn(32, 3, generator=generator)  # type: ignore[method-assign]
    rng = np.random.default_rng(0)
    batch = batch_of(objectives["discriminator"], range(32))
    for _ in range(120):
        for name in ("discriminator", "discriminator", "discriminator", "generator"):
            fresh = replace(batch, fields={**batch.fields, "seed": torch.from_numpy(rng.integers(2**62, size=32))})
            model.zero_grad(set_to_none=True)
            objectives[name](model, fresh, Clock()).mean().backward()
            optimizers[name].step()
    fake = torch.stack([model.fake_latents(torch.randn(500, 5), torch.full((500,), y)) for y in (0, 1)]).detach()
    distance = torch.cdist(fake.mean(1), center)  # equal for a generator that ignores the class
    assert distance[0, 0] < 0.6 * distance[0, 1] and distance[1, 1] < 0.6 * distance[1, 0]
    assert 0.1 < fake.std(1).mean() < 0.6


def test_standardization_uses_evenly_spaced_texts():
    class Rows:
        """Examples sorted by class, as in files."""

        lengths = {"source": np.ones(10, np.int64)}

        def __len__(self):
            return 10

        def __getitem__(self, row):
            return {"source": np.array([7 + row // 2]), "target": np.array([7]), "label": row // 5}

    model, objective = gan(), LatentDiscriminator(INFO, 8, max_examples=5, noise="none")
    objective.setup(model, Rows())
    batch = collate([objective.prepare(Rows()[row], np.random.default_rng(0), None) for row in range(0, 10, 2)])
    with torch.no_grad():
        torch.testing.assert_close(model.standard.mean, model.eval().posterior(batch["source"]).mean_BP.mean(0))


def test_standardization_uses_mean_and_deviation_of_the_sampled_z():
    torch.manual_seed(0)
    mean, logvar = 3 + 2 * torch.randn(500, 4), torch.randn(500, 4)
    standard = LatentStandardization(4)
    standard.fit([Posterior(mean[:200], logvar[:200]), Posterior(mean[200:], logvar[200:])])
    z = mean.repeat(200, 1) + (0.5 * logvar).exp().repeat(200, 1) * torch.randn(100_000, 4)
    torch.testing.assert_close(standard.mean, mean.mean(0))
    torch.testing.assert_close(standard.deviation, z.std(0), rtol=0.02, atol=0.0)
    torch.testing.assert_close(standard.inverse(standard(z)), z, rtol=1e-4, atol=1e-4)
    standard.fit([Posterior(mean)])
    torch.testing.assert_close(standard.deviation, mean.std(0, unbiased=False))
    standard.fit([Posterior(torch.ones(5, 4))])
    assert bool(torch.isfinite(standard(torch.ones(2, 4))).all())
    with pytest.raises(ValueError, match="no text to compute"):
        standard.fit([])


def test_prior_conditions_on_the_class():
    model = gan()
    assert (model.samples_by_label, model.class_conditional, model.latent) == (True, False, 3)
    model.standard.mean.fill_(100.0)
    one, two = torch.zeros(4, dtype=torch.long), torch.ones(4, dtype=torch.long)
    samples = []
    for label in (one, one, two, None):
        torch.manual_seed(3)
        samples.append(model.prior(4, label))
    assert torch.equal(samples[0], samples[1]) and not torch.equal(samples[0], samples[2]) and samples[3].shape == (4, 3)
    assert bool((samples[0] > 50).all())


def test_unsuitable_models_and_data_are_rejected():
    with pytest.raises(ValueError, match=r"such as text-vae, but Seq2Seq lacks: .*Latent"):
        gan(model=partial(Seq2Seq, dim=8))
    with pytest.raises(ValueError, match="LatentGAN is class-conditional already"):
        gan(model=partial(LatentGAN, model=VAE))
    with pytest.raises(ValueError, match=r"one class per text, but the field 'label' .* is of kind labels"):
        LatentGAN(Info({**INFO.fields, "label": LabelsField("label", 2)}, target="target"), model=VAE)
    nameless = Info({name: INFO[name] for name in ("source", "target")}, target="target")
    for build in (partial(LatentGAN, model=VAE), partial(LatentDiscriminator, dim=8), partial(LatentGenerator, dim=8)):
        with pytest.raises(ValueError, match="needs a field 'label'"):
            build(nameless)
    with pytest.raises(ValueError, match=r"predicts from a label, but the example has none; .* put the objective elbo first"):
        LatentGenerator(INFO, 8).prepare_request({"source": np.array([7])})


# -------------------------------------------------------------------------------------------------- stage of a recipe

RECIPE = """
data: {type: autoencoding-text, train: {positive: good.txt, negative: bad.txt}, validation_fraction: 0.3,
  tokenizer: {type: word, vocab_size: 40}}
structure:
  type: text-vae
  latent: 3
  encoder: {type: text-encoder, dim: 8, encoder: {layers: 1, layer: {mixer: {heads: 2}}}, head: null}
  decoder: {type: language-model, dim: 8, decoder: {layers: 1, layer: {mixer: {heads: 2}}}}
objective: elbo
learning: {type: gradient, steps: 2, batch_tokens: 200}
stages:
  - name: classes
    structure:
      type: latent-gan
      model: "${structure}"
      noise: 4
      label_dim: 3
      generator: {type: mlp, hidden: [8, 8], activation: leaky-relu}
      discriminator: {type: concat, label_dim: 3, transform: {type: mlp, hidden: [8, 8], activation: leaky-relu}}
    objective: {generator: latent-generator, discriminator: latent-discriminator}
    learning:
      type: gradient
      steps: 4
      batch_tokens: 200
      save_every: 2
      keep: 9
      optimizer: {type: adam, lr: 0.01, betas: [0.5, 0.999]}
      phases:
        - {objective: discriminator, train: [discriminator.*], repeat: 2}
        - {objective: generator, train: [generator.*]}
    evaluate: {metrics: [distinct], search: {type: greedy, max_length: 6}}
    start: {"model.*": "*"}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gan")
    for name, words in (("good", ["good", "fine", "nice"]), ("bad", ["bad", "slow", "rude"])):
        rows = [f"the {noun} was {word} {i}" for word in words for noun in ("food", "staff") for i in range(6)]
        (folder / f"{name}.txt").write_text("\n".join(rows) + "\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder / "recipe.yaml"


@pytest.fixture(scope="module")
def trained(recipe):
    run = read_run(recipe)
    return run.train(recipe.parent / "full", quiet=True, keep=True)


def checkpoint(folder, update):
    return load_checkpoint(folder / "checkpoints" / "classes" / f"step-{update:08d}").tensors["model.safetensors"]


def changed(before, after):
    assert before.keys() == after.keys()
    return {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}


def test_vae_weights_stay_bit_identical(trained):
    vae, after = read_weights(trained.folder / "model-main.safetensors"), read_weights(trained.folder / "model.safetensors")
    assert {f"model.{n}" for n in vae if not n.startswith("objective")} == {n for n in after if n.startswith("model.")}
    for name, tensor in vae.items():
        assert torch.equal(after[f"model.{name}"], tensor), name
    # the stage starts from the weights of the previous one, and the standardization was computed before the first update
    first = checkpoint(trained.folder, 0)
    assert changed(first, after) == {"generator", "discriminator"}
    assert not torch.equal(first["standard.deviation"], torch.ones(3))


@pytest.mark.parametrize(("phase", "moved"), [("discriminator", {"discriminator"}), ("generator", {"generator"})])
def test_each_phase_updates_only_its_network(recipe, tmp_path, phase, moved):
    text = (
        recipe.read_text().replace("good.txt", str(recipe.parent / "good.txt")).replace("bad.txt", str(recipe.parent / "bad.txt"))
    )
    kept = [line for line in text.splitlines() if "train: [" not in line or f"train: [{phase}.*]" in line]
    (tmp_path / "recipe.yaml").write_text("\n".join(kept))
    read_run(tmp_path / "recipe.yaml").train(tmp_path / "run", quiet=True, keep=True)
    assert changed(checkpoint(tmp_path / "run", 0), checkpoint(tmp_path / "run", 4)) == moved


def test_resuming_inside_the_stage_is_bit_identical(recipe, trained, tmp_path):
    stopped = tmp_path / "stopped"
    shutil.copytree(trained.folder, stopped)
    for name in ("model.safetensors", "metrics.json", "checkpoints/classes/step-00000004"):
        path = stopped / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    read_run(recipe).train(stopped, resume=True, quiet=True)
    assert (stopped / "model.safetensors").read_bytes() == (trained.folder / "model.safetensors").read_bytes()


def test_generated_text_of_an_example_depends_on_its_row_only(trained):
    """Not on the batch or the global random state; also for a loaded run."""
    dataset = trained.dataset("valid")[1]

    def evaluate(run, batch):
        evaluation = Evaluation(metrics=[Distinct], batch_tokens=batch, search=partial(GreedySearch, max_length=6))
        objective = next(iter(run.objectives.values()))
        return evaluation.evaluate(run.model, objective, dataset, run.codec, torch.device("cpu"))

    one = evaluate(trained, 1000)
    torch.manual_seed(77)
    two, three = evaluate(trained, 20), evaluate(load(trained.folder), 1000)
    assert one.predictions == two.predictions == three.predictions and len(one.predictions) == len(dataset)
    assert one.metric_values == pytest.approx(two.metric_values, rel=1e-4)
    discriminator = trained.objectives["discriminator"].eval()
    evaluation = Evaluation()
    first, again = (
        evaluation.evaluate(trained.model, discriminator, dataset, trained.codec, torch.device("cpu")).metric_values
        for _ in range(2)
    )
    assert first == again and first["penalty"] == 0 and first["distance"] == -first["discriminator"]


def test_recipe_is_checked_before_training(recipe):
    reports = check(read_run(recipe))
    assert [r.stage for r in reports] == ["main", "classes"]
    assert {name.partition(".")[0] for name in reports[1].idle} == {"model"}
    text = recipe.read_text().replace('model: "${structure}"', "model: {type: text-encoder, dim: 8}")
    (recipe.parent / "wrong.yaml").write_text(text)
    with pytest.raises(RecipeError, match=r"wrong\.yaml:\d+: stages\.0\.structure: latent-gan needs a model that Encodes"):
        check(read_run(recipe.parent / "wrong.yaml"))
