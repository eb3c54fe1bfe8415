"""CARA and ARAE: losses, structures, metrics, and invalid recipes."""

from __future__ import annotations

import math
from functools import partial

import benchmarks.identifiability
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.systems.latent_text.cara_models import (
    CHOICES,
    INFO,
    SMALL,
    STEPS,
    VOCAB,
    K,
    arae,
    batch_of,
    cara,
    examples,
    info_of,
    latents,
    loop_of,
)

from weft.blocks import CNN, MLP, LayerNorm
from weft.core.batch import Batch, Clock
from weft.core.fields import Info, LabelsField, TextField
from weft.core.seq import Seq
from weft.generate.soft_decoding import soft_decode
from weft.models import LanguageModel, TextEncoder, TextVAE, bert, gpt2
from weft.objectives import ELBO, ConstantAnnealing, CyclicalAnnealing, ExponentialAnnealing
from weft.pretrained import pretrained, save
from weft.pretrained.weights import initialize_weights
from weft.recipe import RecipeError
from weft.systems.latent_text.cara import (
    ARAE,
    CARA,
    CARADiscriminator,
    CARAGenerator,
    CARAMutualInformation,
    CARAReconstruction,
    CARATextClassifier,
    ClassifiesTexts,
    DiscriminatesLatents,
)
from weft.training.dry_run import check
from weft.training.recipes import read_run

# ------------------------------------------------------------------------------------------------------------------------ losses


def test_discriminator_and_generator_terms_equal_the_wasserstein_loss():
    model = cara(norm=None, discriminator=partial(MLP, hidden=[])).eval()
    batch = batch_of(CARADiscriminator(INFO, 8))
    weight, bias = model.discriminator.out.weight[0], model.discriminator.out.bias
    loss = CARADiscriminator(INFO, 8, penalty=0.3)(model, batch, Clock())
    z = latents(model)
    real = z @ weight + bias
    assert float(loss["penalty"].total) == pytest.approx(len(batch) * float((weight.norm() - 1) ** 2), rel=1e-4)
    assert loss["penalty"].weight == 0.3
    assert float(loss["classifier"].total) == pytest.approx(
        float(F.cross_entropy(model.latent_logits(z), batch["label"], reduction="sum")), rel=1e-4
    )
    generator = CARAGenerator(INFO, 8)(model, batch, Clock())
    assert float(generator["real"].total) == pytest.approx(float(real.sum()), rel=1e-4)
    fake = -generator["fake"].total
    assert float(loss["discriminator"].total) == pytest.approx(float(fake - real.sum()), rel=1e-4)
    logistic = CARADiscriminator(INFO, 8, loss="logistic")(model, batch, Clock())
    assert float(logistic["discriminator"].total) > 0
    assert float(CARADiscriminator(INFO, 8).eval()(model, batch, Clock())["penalty"].total) == 0


def test_logistic_loss_is_the_binary_cross_entropy():
    model = cara().eval()
    batch = batch_of(CARADiscriminator(INFO, 8))
    loss = CARADiscriminator(INFO, 8, loss="logistic", penalty=0.0)(model, batch, Clock())
    generator = CARAGenerator(INFO, 8, loss="logistic")(model, batch, Clock())
    real = model.latent_scores(latents(model))
    bce = partial(F.binary_cross_entropy_with_logits, reduction="sum")
    assert float(generator["real"].total) == pytest.approx(float(bce(real, torch.zeros_like(real))), rel=1e-4)
    fake = CARADiscriminator(INFO, 8).fake_latents(model, batch, real)
    score = model.latent_scores(fake)
    expected = bce(real, torch.ones_like(real)) + bce(score, torch.zeros_like(score))
    assert float(loss["discriminator"].total) == pytest.approx(float(expected), rel=1e-4)
    assert float(generator["fake"].total) == pytest.approx(float(bce(score, torch.ones_like(score))), rel=1e-4)


def test_confusion_terms_equal_their_formulas():
    logits = torch.tensor([[2.0, 0.5, -1.0]])
    label = torch.tensor([0])
    logp = logits.log_softmax(-1)[0]
    assert float(CARAGenerator(INFO, 8).confused(logits, label)) == pytest.approx(float(-logp.mean()))
    assert float(CARAGenerator(INFO, 8).confused(torch.zeros(1, K), label)) == pytest.approx(math.log(K))
    assert float(CARAGenerator(INFO, 8, confusion="flip").confused(logits, label)) == pytest.approx(
        float(-(logp[1] + logp[2]) / 2)
    )
    assert float(CARAGenerator(INFO, 8, confusion="negative").confused(logits, label)) == pytest.approx(float(logp[0]))


def test_weight_of_mutual_information_follows_the_schedule():
    model, batch = cara().eval(), batch_of(CARAMutualInformation(INFO, 8))
    objective = CARAMutualInformation(
        INFO, 8, weight=partial(CyclicalAnnealing, zero_fraction=0.0, rise_fraction=0.7, weight=3.0), max_length=3
    )
    weights = [objective(model, batch, Clock(update, 10))["mutual_information"].weight for update in (0, 7, 10)]
    assert weights == pytest.approx([0.0, 3.0, 3.0])
    assert objective(model, batch, Clock(3, 10))["mutual_information"].weight == pytest.approx(3.0 * 0.3 / 0.7)
    assert objective.eval()(model, batch, Clock(0, 10))["mutual_information"].weight == 1.0


def test_target_labels_are_uniform_and_independent_of_the_class():
    objective, row = CARAMutualInformation(INFO, 8), examples()[0]
    targets = [objective.prepare(row, np.random.default_rng(i), None)["target_label"] for i in range(3000)]
    assert np.bincount(targets, minlength=K) / 3000 == pytest.approx([1 / K] * K, abs=0.03)


def test_noise_on_latent_codes_decays_and_is_absent_in_evaluation():
    model, objective = (
        cara().eval(),
        CARAReconstruction(INFO, 8, noise=partial(ExponentialAnnealing, start=5.0, final_fraction=0.001)),
    )
    batch = batch_of(objective)
    clean = float(objective.eval()(model, batch, Clock()).mean())
    objective.train()
    first, last = (abs(float(objective(model, batch, Clock(at, 10)).mean()) - clean) for at in (0, 10))
    assert first > 50 * last > 0


def test_text_classifier_is_trained_on_real_texts_only():
    """No gradient reaches the decoder."""
    model = cara()
    CARATextClassifier(INFO, 8)(model, batch_of(CARATextClassifier(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"text_classifier"}


def test_discriminator_step_has_no_gradient_elsewhere():
    model = cara()
    CARADiscriminator(INFO, 8)(model, batch_of(CARADiscriminator(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"classifier", "discriminator"}


# -------------------------------------------------------------------------------------------------------------------- structures


def test_every_class_embedding_is_trained():
    model, objective = cara(), CARAReconstruction(INFO, 8)
    objective(model, batch_of(objective), Clock()).mean().backward()
    assert bool((model.decoder.labels.weight != 0).any(1).all())
    assert bool((model.decoder.labels.weight.grad != 0).any(1).all())


def test_real_and_fake_latent_codes_are_normalized_alike():
    model = cara().eval()
    for z in (latents(model), model.prior(7)):
        torch.testing.assert_close(z.norm(dim=-1), torch.ones(len(z)))
    without = cara(norm=None).eval()
    assert not torch.allclose(latents(without).norm(dim=-1), torch.ones(24))
    assert not torch.allclose(without.prior(7).norm(dim=-1), torch.ones(7))


def test_one_sample_in_training_mode_is_finite():
    assert bool(torch.isfinite(cara().train().prior(1)).all())


def test_top_encoder_is_applied_to_the_encoder_outputs():
    model = cara(top_encoder=partial(CNN, layers=1, kernel_size=3), norm=LayerNorm)
    assert model.encode(Seq(torch.tensor([[7, 8, 2]]))).data.shape == (1, 3, 10)
    assert {"top_encoder.layers.0.value.weight", "norm.weight"} <= set(dict(model.named_parameters()))


def test_protocols_with_and_without_a_text_classifier():
    assert {DiscriminatesLatents, ClassifiesTexts} <= set(cara().provides())
    for model in (cara(text_classifier=None), arae()):
        assert DiscriminatesLatents in model.provides() and ClassifiesTexts not in model.provides()
        assert model.class_conditional and model.samples_by_label
    assert set(cara().substructures()) == {"encoder", "decoder", "text_classifier"}
    assert len(arae().substructures()["decoder"]) == K


def test_arae_decodes_each_row_with_the_decoder_of_its_class():
    model, x = arae().eval(), Seq(torch.tensor([[1, 7, 9], [1, 8, 10], [1, 9, 11]]))
    z, label = torch.randn(3, 6), torch.tensor([2, 0, 1])
    together = model.decode(x, model.memory_from(z, label)).hidden.data
    for row, number in enumerate(label.tolist()):
        decoder = model.decoder.decoders[number]
        alone = decoder.decode(x.select(torch.tensor([row])), decoder.memory_from(z[row : row + 1])).hidden.data
        torch.testing.assert_close(together[row : row + 1], alone)
    together[1].sum().backward()  # the row of class 0
    moved = {n for n, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
    assert moved and all(n.startswith("decoder.decoders.0.") for n in moved)


def test_arae_decoders_share_one_head():
    model = arae()
    heads = [n for n, _ in model.named_parameters() if ".head." in n]
    assert heads and all(n.startswith("decoder.decoders.0.") for n in heads)
    assert all(decoder.model.head is model.head for decoder in model.decoder.decoders)


@pytest.mark.parametrize("build", [cara, arae])
def test_soft_decoding_does_not_depend_on_the_batch(build):
    model, z, label = build().eval(), torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1])
    with torch.no_grad():
        model.head.bias[2] += 1.0
    text = soft_decode(model, model.memory_from(z, label), max_length=6)
    for row in range(5):
        alone = soft_decode(model, model.memory_from(z[row : row + 1], label[row : row + 1]), max_length=6)
        torch.testing.assert_close(text.data[row][text.real()[row]], alone.data[0])


# ----------------------------------------------------------------------------------------------------------------------- metrics


def test_variances_reveal_a_collapse():
    objective, model = CARAReconstruction(INFO, 8), cara(norm=None)
    batch = batch_of(objective)

    def metric_values() -> dict[str, float]:
        objective.eval()
        for rows in (examples()[:5], examples()[5:]):  # independent of the batches
            objective(model.eval(), batch_of(objective, rows), Clock())
        objective.train()
        return objective.metric_values({})

    first = metric_values()
    assert first["variance"] == pytest.approx(float(latents(model).var(0, unbiased=False).sum()), rel=1e-4)
    objective.eval()(model, batch_of(objective, examples()[:2]), Clock())  # an evaluation without metric values
    assert first == pytest.approx(metric_values())
    with torch.no_grad():
        model.to_latent.weight.zero_()
        model.sampler.out.weight.zero_()
    last = metric_values()
    assert last["variance"] < 1e-9 and last["fake_variance"] < 1e-9 < 1e-4 < first["fake_variance"]
    assert math.isnan(objective.metric_values({})["variance"])
    latent_accuracy = objective.eval()(model, batch, Clock())["latent_accuracy"]
    assert latent_accuracy.count == 24 and latent_accuracy.weight == 0 and float(latent_accuracy.total) == 8  # one class of three


# --------------------------------------------------------------------------------------------------------------- invalid recipes


@pytest.mark.parametrize(
    "kind", [CARADiscriminator, CARAGenerator, CARATextClassifier, CARAMutualInformation, CARAReconstruction]
)
def test_a_single_class_is_rejected(kind):
    with pytest.raises(ValueError, match=r"needs at least two classes, but the data .* has only good"):
        kind(info_of(("good",)), 8)


def test_structures_reject_data_without_classes():
    with pytest.raises(ValueError, match=r"at least two classes"):
        CARA(info_of(("good",)), **SMALL)
    texts = Info({"source": TextField("source", 9), "target": TextField("target", 9)}, target="target")
    for build in (partial(CARA, **SMALL), partial(ARAE, **CHOICES)):
        with pytest.raises(ValueError, match=r"needs a field 'label'"):
            build(texts)
    sets = Info({**INFO.fields, "label": LabelsField("label", 3)}, target="target")
    with pytest.raises(ValueError, match=r"needs one class per text, but .* is of kind labels"):
        CARA(sets, **SMALL)


def test_unsuitable_substructures_are_rejected():
    with pytest.raises(ValueError, match=r"encoder is a LanguageModel, which does not only encode"):
        cara(encoder=partial(LanguageModel, dim=8))
    with pytest.raises(ValueError, match=r"decoder is a TextEncoder, which is not a language model"):
        arae(decoder=partial(TextEncoder, dim=8))
    with pytest.raises(ValueError, match=r"text_classifier must be a structure that Classifies, .* not TextEncoder"):
        cara(text_classifier=partial(TextEncoder, dim=8))


@pytest.mark.parametrize("build", [cara, arae])
def test_decoding_without_a_label_is_rejected(build):
    model = build()
    with pytest.raises(ValueError, match=r"class-conditional, but no label was given"):
        model.memory(Batch({"source": Seq(torch.tensor([[7, 2]]))}, 1))


def test_arae_decoder_needs_latent_code_and_label():
    with pytest.raises(ValueError, match=r"needs a latent vector and a label, but the memory lacks one"):
        arae().decode(Seq(torch.tensor([[1, 7]])), None)


def test_a_phase_that_never_runs_is_rejected():
    with pytest.raises(ValueError, match=r"phase mutual_information never runs: its start is step 4, but steps is 4"):
        loop_of(cara(), list(STEPS), steps=4, starts={"mutual_information": 4})


def test_invalid_annealing_schedules_are_rejected():
    with pytest.raises(ValueError, match=r"zero_fraction 0.5 \+ rise_fraction 0.7 is 1.2; the sum must be at most 1"):
        CARAMutualInformation(INFO, 8, weight=partial(CyclicalAnnealing, zero_fraction=0.5, rise_fraction=0.7))
    with pytest.raises(ValueError, match=r"final_fraction is 0, which exponential decay never reaches"):
        CARAReconstruction(INFO, 8, noise=partial(ExponentialAnnealing, final_fraction=0.0))
    assert CARAMutualInformation(INFO, 8, weight=partial(ConstantAnnealing, weight=2.0)).weight.weight(0.5) == 2.0


def test_pretrained_encoder_needs_its_own_vocabulary(tmp_path):
    structure = bert(dim=8, layers=1, heads=2, hidden=8, length=24)
    folder = save(structure(Info({"text": TextField("text", 10, max_length=24)})), structure, tmp_path / "bert")
    build = partial(CARA, **{**SMALL, "encoder": pretrained(from_=str(folder), task="encode")})
    with pytest.raises(ValueError, match=r"has shape .10, 8., expected .14, 8."):
        initialize_weights(build(INFO), build)
    few = Info({**INFO.fields, "source": TextField("source", 10)}, target="target")
    assert len(initialize_weights(build(few), build)[str(folder)].loaded) > 10


def test_every_arae_decoder_is_initialized_from_the_pretrained_weights(tmp_path):
    structure = gpt2(dim=8, layers=1, heads=2, length=24)
    folder = save(structure(Info({"text": TextField("text", VOCAB, max_length=24)})), structure, tmp_path / "gpt2")
    build = partial(ARAE, **{**CHOICES, "decoder": pretrained(from_=str(folder))})
    model = build(INFO)
    initialize_weights(model, build)
    first, *others = ({n: p for n, p in one.named_parameters() if ".head." not in n} for one in model.substructures()["decoder"])
    assert others and all(torch.equal(p, other[n]) for other in others for n, p in first.items())


def test_elbo_needs_a_variational_structure():
    assert not set(ELBO.needs) <= set(cara().provides())
    assert set(ELBO.needs) <= set(TextVAE(INFO, encoder=SMALL["encoder"], decoder=SMALL["decoder"], injections=[]).provides())


INVALID = {
    "learning.phases.4.start=1500": r"phases\.4\.start: phase mutual_information never runs: its start is step 1500, but "
    "steps is 1500; set start below 1500, or steps above 1500",
    "learning.steps=100": r"phases\.4\.start: phase mutual_information never runs: its start is step \d+, but "
    r"steps is 100; set start below 100, or steps above \d+",
    "structure.text_classifier=null": "needs a structure that provides ClassifiesTexts, but .*DiscriminatesLatents",
    "structure={type: seq2seq, dim: 16}": "'cara-reconstruction' needs a structure that provides Latent and DiscriminatesLatents",
    "objective.mutual_information.weight={type: cyclical, zero_fraction: 0.5, rise_fraction: 0.7}": r"zero_fraction 0.5 \+ "
    "rise_fraction 0.7 is 1.2; the sum must be at most 1",
    "data.train={positive: yelp/positive.txt}": "train has one class .positive.; give the files of two or more",
    "data.train=yelp/positive.txt": "needs a field 'label', but the data .autoencoding-text. has: source, target; to add "
    r"it, name the column of labels in the tables \(data\.label=label\), "
    r"or give the files of each class \(data\.train=\{positive: good",
}


@pytest.mark.parametrize("change", INVALID)
def test_invalid_recipes_are_rejected_before_training(change):
    with pytest.raises(RecipeError, match=INVALID[change]):
        check(read_run("cara", [change]))


def test_a_metric_without_its_field_explains_how_to_add_it():
    wrong = ["data.train=yelp/positive.txt", "evaluate.metrics=[accuracy]"]
    with pytest.raises(
        RecipeError, match=r"the metric accuracy needs 'label', but .* has: source, target; to add it, name the col"
    ):
        check(read_run("cara", wrong))


def test_a_class_without_examples_is_rejected_before_training(tmp_path):
    (tmp_path / "good.txt").write_text("".join(f"the {word} was fine .\n" for word in ["soup", "salad", "bread", "pasta"]))
    (tmp_path / "bad.txt").write_text("")
    run = read_run("cara", [f"data.train={{good: {tmp_path}/good.txt, bad: {tmp_path}/bad.txt}}", "data.validation_fraction=0.0"])
    with pytest.raises(ValueError, match=r"train has no example of the class 'bad'"):
        run.train(tmp_path / "run", quiet=True)


def test_identifiability_benchmark_runs(tmp_path, capsys):
    metric_values = benchmarks.identifiability.main(1, 3, tmp_path, tmp_path / "picture.png")
    assert set(metric_values) == {"ARAE-", "CARA"} and (tmp_path / "picture.png").is_file()
    assert all(0 <= p <= 1 for seeds in metric_values.values() for seed in seeds for p in seed.values())
    assert "other word" in capsys.readouterr().out
