"""A conditional GAN in the latent space of a VAE: parameters per phase, conditioning, independence of the batch."""

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
from weft.core.fields import Field, Info
from weft.evaluate import Distinct, Evaluation
from weft.generate import GreedySearch
from weft.inference.load import load
from weft.learning import load_checkpoint, read_weights
from weft.models import LanguageModel, Seq2Seq, TextEncoder, TextVAE
from weft.objectives.gradient_penalty import gradient_penalty
from weft.recipe import RecipeError
from weft.systems.latent_text.optimus import LatentDiscriminator, LatentGAN, LatentGenerator
from weft.systems.latent_text.optimus.latent_gan import Standard
from weft.training.dry_run import check
from weft.training.recipes import read_run

LABEL = Field("label", 2, kind="label", space="label", labels=("bad", "good"))
INFO = Info({"source": Field("source", 13, space="s"), "target": Field("target", 17, space="t"), "label": LABEL}, target="target")
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
    """Texts of different lengths; the noise of a row is its own."""
    instances = []
    for row in rows:
        rng = np.random.default_rng(row)
        ids = rng.integers(7, 13, 1 + row % 4)
        example = {"source": ids, "target": ids, "label": row % 2 if labels is None else labels[row]}
        instances.append(objective.prepare(example, np.random.default_rng(row), None))
    return collate(instances, rows)


# ---------------------------------------------------------------------------------------------------------- the penalty


def test_the_penalty_of_a_critic_with_a_known_slope():
    """D(x) = w . x + a |x|^2 / 2 has the slope w + a x."""
    w, a = torch.randn(4, requires_grad=True), torch.tensor(0.3, requires_grad=True)
    real, made, share = torch.randn(5, 4), torch.randn(5, 4), torch.rand(5)
    found = gradient_penalty(lambda x: x @ w + a * (x**2).sum(-1) / 2, real, made, share)
    at = share[:, None] * real + (1 - share[:, None]) * made
    want = ((w + a * at).norm(dim=-1) - 1) ** 2
    torch.testing.assert_close(found, want)
    for got, right in zip(torch.autograd.grad(found.sum(), (w, a)), torch.autograd.grad(want.sum(), (w, a)), strict=True):
        torch.testing.assert_close(got, right)


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32)])
def test_the_penalty_of_places_of_two_precisions(dtypes):
    """In bfloat16, what is made comes out of a product, and what is real perhaps out of a norm."""
    real, made = torch.zeros(5, 4, dtype=dtypes[0]), torch.ones(5, 4, dtype=dtypes[1])
    found = gradient_penalty(lambda x: (x**2).sum(-1) / 2, real, made, torch.full((5,), 0.25))  # |x| = 2 (1 - 0.25)
    assert found.dtype == torch.float32 and found.tolist() == [0.25] * 5


def test_the_penalty_moves_the_critic_alone_and_is_none_without_gradients():
    discriminator = nn.Linear(4, 1)
    real, made = torch.randn(5, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    score = lambda x: discriminator(x).squeeze(-1)  # noqa: E731
    gradient_penalty(score, real, made, torch.rand(5)).sum().backward()
    assert real.grad is None and made.grad is None and discriminator.weight.grad is not None
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            assert gradient_penalty(score, real, made, torch.rand(5)).tolist() == [0.0] * 5


# ------------------------------------------------------------------------------------------------------- the objectives


def test_the_loss_of_the_critic_by_hand():
    model, objective = gan(), LatentDiscriminator(INFO, 8)
    batch = batch_of(objective)
    loss = objective(model, batch, Clock())
    drawn = torch.stack(
        [torch.from_numpy(np.random.default_rng(seed).standard_normal(3 + 5, np.float32)) for seed in batch["seed"].tolist()]
    )
    posterior, label = model.posterior(batch["source"]), batch["label"]
    real = (posterior.mean_BP + (0.5 * posterior.logvar_BP).exp() * drawn[:, :3]).detach()
    made = model.generator(drawn[:, 3:8], label)
    want = model.discriminator(made, label) - model.discriminator(real, label)
    torch.testing.assert_close(loss["discriminator"].total, want.sum())
    share = batch["share"]
    assert bool(((share >= 0) & (share < 1)).all()) and len(share.unique()) == 6
    at = (share[:, None] * real + (1 - share[:, None]) * made).detach().requires_grad_()
    (slope,) = torch.autograd.grad(model.discriminator(at, label).sum(), at)
    torch.testing.assert_close(loss["penalty"].total, ((slope.norm(dim=-1) - 1) ** 2).sum())
    assert loss["penalty"].weight == 10 and objective.metric_values({"discriminator": -2.0}) == {"distance": 2.0}
    means = LatentDiscriminator(INFO, 8, noise="none")(model, batch, Clock())
    want = model.discriminator(made, label) - model.discriminator(posterior.mean_BP, label)
    torch.testing.assert_close(means["discriminator"].total, want.sum())


@pytest.mark.parametrize("discriminator", DISCRIMINATORS)
def test_the_critic_sees_the_class(discriminator):
    model, objective = gan(discriminator), LatentDiscriminator(INFO, 8)
    labels = {row: row % 2 for row in range(6)}
    right = batch_of(objective, labels=labels)
    swapped = batch_of(objective, labels={row: 1 - label for row, label in labels.items()})
    z = torch.randn(6, 3)
    assert not torch.allclose(model.score(z, right["label"]), model.score(z, swapped["label"]))
    one, two = (objective(model, batch, Clock()) for batch in (right, swapped))
    for name in ("discriminator", "penalty"):
        assert abs(one[name].total.item() - two[name].total.item()) > 1e-3
    # also where what was drawn stays as it was: only the discriminator is told another class
    draw = model.draw
    model.draw = lambda eps, label: draw(eps, right["label"])  # type: ignore[method-assign]
    kept = objective(model, swapped, Clock())
    assert abs(one["discriminator"].total.item() - kept["discriminator"].total.item()) > 1e-3


@pytest.mark.parametrize("objective", [LatentDiscriminator, LatentGenerator])
def test_rows_are_their_own(objective):
    """Padding and the other rows of a batch change nothing, the penalty included."""
    model, objective = gan(), objective(INFO, 8)
    whole = objective(model, batch_of(objective), Clock())
    alone = [objective(model, batch_of(objective, [row]), Clock()) for row in range(6)]
    for name, term in whole.items():
        assert term.total.item() == pytest.approx(sum(a[name].total.item() for a in alone), rel=1e-4)


def test_each_objective_reaches_its_own_network():
    model = gan()
    LatentDiscriminator(INFO, 8)(model, batch_of(LatentDiscriminator(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"discriminator"}
    model.zero_grad(set_to_none=True)
    for parameter in model.discriminator.parameters():
        parameter.requires_grad_(False)
    LatentGenerator(INFO, 8)(model, batch_of(LatentGenerator(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"generator"}


def test_real_texts_are_read_as_in_evaluation():
    encoder = partial(TextEncoder, dim=8, head=None)
    dropping = partial(Transformer, layers=1, layer=partial(TransformerLayer, residual=partial(PreNorm, dropout=0.5)))
    model = gan(model=partial(VAE, encoder=partial(encoder, encoder=dropping))).train()
    x = batch_of(LatentDiscriminator(INFO, 8))["source"]
    assert torch.equal(model.real(x, None), model.real(x, None)) and model.model.training
    assert not torch.equal(model.posterior(x).mean_BP, model.posterior(x).mean_BP)


def test_classes_are_learnt():
    """Places of two classes lie apart: so do those that are drawn, and they spread as the real ones do."""
    wider = partial(MLP, hidden=[32, 32], activation=LeakyReLU)
    model = gan(generator=wider, discriminator=partial(ConcatDiscriminator, label_dim=4, transform=wider)).train()
    objectives = {"discriminator": LatentDiscriminator(INFO, 8), "generator": LatentGenerator(INFO, 8)}
    center = torch.tensor([[-1.0, 0.5, 0.0], [1.0, -0.5, 0.0]])
    places = torch.Generator().manual_seed(1)
    optimizers = {
        name: torch.optim.Adam(getattr(model, name).parameters(), lr=3e-3, betas=(0.5, 0.9))
        for name in ("discriminator", "generator")
    }
    label = torch.arange(32) % 2
    model.real = lambda x, eps: center[label] + 0.3 * torch.randn(32, 3, generator=places)  # type: ignore[method-assign]
    rng = np.random.default_rng(0)
    batch = batch_of(objectives["discriminator"], range(32))
    for _ in range(120):
        for name in ("discriminator", "discriminator", "discriminator", "generator"):
            fresh = replace(batch, fields={**batch.fields, "seed": torch.from_numpy(rng.integers(2**62, size=32))})
            model.zero_grad(set_to_none=True)
            objectives[name](model, fresh, Clock()).mean().backward()
            optimizers[name].step()
    drawn = torch.stack([model.draw(torch.randn(500, 5), torch.full((500,), y)) for y in (0, 1)]).detach()
    apart = torch.cdist(drawn.mean(1), center)  # one that ignores the class is as near to both
    assert apart[0, 0] < 0.6 * apart[0, 1] and apart[1, 1] < 0.6 * apart[1, 0]
    assert 0.1 < drawn.std(1).mean() < 0.6


def test_what_is_standardised_by_is_of_texts_from_the_first_to_the_last():
    class Rows:
        """Rows of a class follow each other, as those of files do."""

        lengths = {"source": np.ones(10, np.int64)}

        def __len__(self):
            return 10

        def __getitem__(self, row):
            return {"source": np.array([7 + row // 2]), "target": np.array([7]), "label": row // 5}

    model, objective = gan(), LatentDiscriminator(INFO, 8, rows=5, noise="none")
    objective.setup(model, Rows())
    read = collate([objective.prepare(Rows()[row], np.random.default_rng(0), None) for row in range(0, 10, 2)])
    with torch.no_grad():
        torch.testing.assert_close(model.standard.mean, model.eval().posterior(read["source"]).mean_BP.mean(0))


def test_standardised_by_mean_and_deviation_of_what_is_drawn():
    torch.manual_seed(0)
    mean, logvar = 3 + 2 * torch.randn(500, 4), torch.randn(500, 4)
    standard = Standard(4)
    standard.find([Posterior(mean[:200], logvar[:200]), Posterior(mean[200:], logvar[200:])])
    z = mean.repeat(200, 1) + (0.5 * logvar).exp().repeat(200, 1) * torch.randn(100_000, 4)
    torch.testing.assert_close(standard.mean, mean.mean(0))
    torch.testing.assert_close(standard.deviation, z.std(0), rtol=0.02, atol=0.0)
    torch.testing.assert_close(standard.back(standard(z)), z, rtol=1e-4, atol=1e-4)
    standard.find([Posterior(mean)])
    torch.testing.assert_close(standard.deviation, mean.std(0, unbiased=False))
    standard.find([Posterior(torch.ones(5, 4))])
    assert bool(torch.isfinite(standard(torch.ones(2, 4))).all())
    with pytest.raises(ValueError, match="no texts"):
        standard.find([])


def test_prior_draws_of_a_class():
    model = gan()
    assert (model.samples_by_label, model.class_conditional, model.latent) == (True, False, 3)
    model.standard.mean.fill_(100.0)
    one, two = torch.zeros(4, dtype=torch.long), torch.ones(4, dtype=torch.long)
    drawn = []
    for label in (one, one, two, None):
        torch.manual_seed(3)
        drawn.append(model.prior(4, label))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2]) and drawn[3].shape == (4, 3)
    assert bool((drawn[0] > 50).all())


def test_refused():
    with pytest.raises(ValueError, match=r"such as text-vae, but a Seq2Seq lacks: .*Latent"):
        gan(model=partial(Seq2Seq, dim=8))
    with pytest.raises(ValueError, match="a LatentGAN draws texts of a class already"):
        gan(model=partial(LatentGAN, model=VAE))
    with pytest.raises(ValueError, match=r"one class a text, but the data .* gives labels"):
        LatentGAN(Info({**INFO.fields, "label": replace(LABEL, kind="labels")}, target="target"), model=VAE)
    nameless = Info({name: INFO[name] for name in ("source", "target")}, target="target")
    for build in (partial(LatentGAN, model=VAE), partial(LatentDiscriminator, dim=8), partial(LatentGenerator, dim=8)):
        with pytest.raises(ValueError, match="needs a field 'label'"):
            build(nameless)
    with pytest.raises(ValueError, match=r"answers none: .* put an objective elbo first"):
        LatentGenerator(INFO, 8).prepare_request({"source": np.array([7])})


# ------------------------------------------------------------------------------------------------------- as a stage

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
def whole(recipe):
    run = read_run(recipe)
    return run.train(recipe.parent / "whole", quiet=True)


def checkpoint(folder, update):
    return load_checkpoint(folder / "checkpoints" / "classes" / f"update-{update:08d}").tensors["model.safetensors"]


def changed(before, after):
    assert before.keys() == after.keys()
    return {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}


def test_the_vae_stays_bit_identical(whole):
    vae, after = read_weights(whole.folder / "model-main.safetensors"), read_weights(whole.folder / "model.safetensors")
    assert {f"model.{n}" for n in vae if not n.startswith("objective")} == {n for n in after if n.startswith("model.")}
    for name, tensor in vae.items():
        assert torch.equal(after[f"model.{name}"], tensor), name
    # and what begins the stage is what the stage before has left; the space was measured before the first update
    first = checkpoint(whole.folder, 0)
    assert changed(first, after) == {"generator", "discriminator"}
    assert not torch.equal(first["standard.deviation"], torch.ones(3))


@pytest.mark.parametrize(("phase", "moved"), [("discriminator", {"discriminator"}), ("generator", {"generator"})])
def test_each_phase_moves_only_its_network(recipe, tmp_path, phase, moved):
    text = (
        recipe.read_text().replace("good.txt", str(recipe.parent / "good.txt")).replace("bad.txt", str(recipe.parent / "bad.txt"))
    )
    kept = [line for line in text.splitlines() if "train: [" not in line or f"train: [{phase}.*]" in line]
    (tmp_path / "recipe.yaml").write_text("\n".join(kept))
    read_run(tmp_path / "recipe.yaml").train(tmp_path / "run", quiet=True)
    assert changed(checkpoint(tmp_path / "run", 0), checkpoint(tmp_path / "run", 4)) == moved


def test_resumed_inside_the_stage_it_is_the_same(recipe, whole, tmp_path):
    stopped = tmp_path / "stopped"
    shutil.copytree(whole.folder, stopped)
    for name in ("model.safetensors", "metrics.json", "checkpoints/classes/update-00000004"):
        place = stopped / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    read_run(recipe).train(stopped, resume=True, quiet=True)
    assert (stopped / "model.safetensors").read_bytes() == (whole.folder / "model.safetensors").read_bytes()


def test_what_is_drawn_for_a_row_depends_on_the_row_alone(whole):
    """As texts, whatever the batches and the state of the generators; a loaded run writes the same."""
    dataset = whole.dataset("valid")[1]

    def judged(run, batch):
        evaluation = Evaluation(metrics=[Distinct], batch_tokens=batch, search=partial(GreedySearch, max_length=6))
        objective = next(iter(run.objectives.values()))
        return evaluation.evaluate(run.model, objective, dataset, run.codec, torch.device("cpu"))

    one = judged(whole, 1000)
    torch.manual_seed(77)
    two, three = judged(whole, 20), judged(load(whole.folder), 1000)
    assert one.predictions == two.predictions == three.predictions and len(one.predictions) == len(dataset)
    assert one.metric_values == pytest.approx(two.metric_values, rel=1e-4)
    discriminator = whole.objectives["discriminator"].eval()
    evaluation = Evaluation()
    first, again = (
        evaluation.evaluate(whole.model, discriminator, dataset, whole.codec, torch.device("cpu")).metric_values for _ in range(2)
    )
    assert first == again and first["penalty"] == 0 and first["distance"] == -first["discriminator"]


def test_it_is_checked_before_it_is_trained(recipe):
    reports = check(read_run(recipe))
    assert [r.stage for r in reports] == ["main", "classes"]
    assert {name.partition(".")[0] for name in reports[1].idle} == {"model"}
    text = recipe.read_text().replace('model: "${structure}"', "model: {type: text-encoder, dim: 8}")
    (recipe.parent / "wrong.yaml").write_text(text)
    with pytest.raises(RecipeError, match=r"wrong\.yaml:\d+: stages\.0\.structure: places are drawn in the latent space"):
        check(read_run(recipe.parent / "wrong.yaml"))
