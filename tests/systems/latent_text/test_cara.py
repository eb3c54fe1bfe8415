"""CARA and ARAE: who is moved by which step and which way, that nothing else changes, resumption, what is refused."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import benchmarks.identifiability
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks import CNN, GRU, MLP, BatchNorm, GRUDecoder, LastPooler, LayerNorm
from weft.core.batch import Batch, Clock, collate
from weft.core.fields import Field, Info
from weft.core.seq import Seq
from weft.generate import GreedySearch
from weft.generate.soft_decoding import soft_decode
from weft.learning import Adam, Gradient, Loop, Network, Phase
from weft.models import Classifier, LanguageModel, TextEncoder, TextVAE, bert, gpt2
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

VOCAB, K = 14, 3
LABELS = ("bad", "fair", "good")


def info_of(labels: tuple[str, ...] = LABELS) -> Info:
    label = Field("label", max(2, len(labels)), kind="label", max_length=1, space="label", labels=labels)
    return Info({"source": Field("source", VOCAB), "target": Field("target", VOCAB), "label": label}, target="target")


INFO = info_of()
CHOICES: dict[str, Any] = {
    "latent": 6,
    "noise": 5,
    "encoder": partial(TextEncoder, dim=10, encoder=GRU, head=None),
    "pooler": LastPooler,
    "decoder": partial(LanguageModel, dim=8, decoder=GRUDecoder),
    "sampler": partial(MLP, hidden=[9], batch_norm=BatchNorm),
    "classifier": partial(MLP, hidden=[9]),
    "discriminator": partial(MLP, hidden=[9]),
}
SMALL: dict[str, Any] = {**CHOICES, "label_dim": 3, "text_classifier": partial(Classifier, dim=8, encoder=partial(CNN, layers=1))}


def cara(**choices: Any) -> CARA:
    torch.manual_seed(0)
    return CARA(INFO, **{**SMALL, **choices})


def arae(**choices: Any) -> ARAE:
    torch.manual_seed(0)
    return ARAE(INFO, **{**CHOICES, **choices})


def examples(number: int = 24) -> list[dict[str, Any]]:
    """Texts whose first word tells their class."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(number):
        ids = np.concatenate([[7 + i % K], rng.integers(10, VOCAB, int(rng.integers(1, 6)))])
        rows.append({"source": ids, "target": ids, "label": i % K})
    return rows


def batch_of(objective: Any, rows: list[dict[str, Any]] | None = None, first: int = 0) -> Batch:
    rows = examples() if rows is None else rows
    made = [objective.prepare(row, np.random.default_rng(first + i), rows) for i, row in enumerate(rows)]
    return collate(made, range(len(made)))


# ----------------------------------------------------------------------------------------------------- a loop in memory


class Kept:
    """A watcher that keeps the last checkpoint in memory."""

    saved: Any = None

    def logged(self, row: dict[str, Any]) -> None: ...

    def due(self, progress: Any, last: bool) -> bool:
        return False

    def evaluate(self, progress: Any, last: bool) -> float | None:
        return None

    def save(self, tensors: Any, documents: Any, progress: Any) -> None:
        copies = {f: {n: t.clone() for n, t in named.items()} for f, named in tensors.items()}
        self.saved = copies, json.loads(json.dumps(documents))

    def restore(self) -> Any:
        return self.saved

    def should_stop(self) -> bool:
        return False


class Rows:
    """Batches of a few rows each, prepared for an objective; target classes are sampled anew in every epoch."""

    def __init__(self, objective: Any, size: int = 8):
        self.objective, self.size, self.rows = objective, size, examples()

    def __len__(self) -> int:
        return len(self.rows) // self.size

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        first = draw % len(self) * self.size
        return batch_of(self.objective, self.rows[first : first + self.size], 100 + draw * self.size)


READS = ["encoder.*", "to_latent.*"]
STEPS: dict[str, tuple[Any, list[str]]] = {
    "reconstruction": (CARAReconstruction, [*READS, "decoder.*"]),
    "discriminator": (CARADiscriminator, ["classifier.*", "discriminator.*"]),
    "generator": (CARAGenerator, [*READS, "sampler.*"]),
    "text_classifier": (CARATextClassifier, ["text_classifier.*"]),
    "mutual_information": (partial(CARAMutualInformation, length=5), [*READS, "decoder.*"]),
}


def loop_of(
    model: Any,
    names: list[str],
    watcher: Any = None,
    steps: int = 1,
    lr: float = 0.01,
    starts: dict[str, int] = {},
    seed: int = 1,
    **kinds: Any,
) -> Loop:
    """A loop over these steps of the algorithm, in this order."""
    objectives = {name: kinds.get(name, STEPS[name][0])(INFO, model.dim) for name in names}
    phases = [partial(Phase, objective=name, train=STEPS[name][1], start=starts.get(name, 0)) for name in names]
    learning = Gradient(steps=steps, optimizer=partial(Adam, lr=lr), phases=phases, save_every=1)
    network = Network(model, objectives)
    return Loop(
        network,
        learning,
        lambda split, objective, name: Rows(objective),
        watcher or Kept(),
        seed=seed,
        stage=0,
        device=torch.device("cpu"),
        precision="fp32",
    )


def after(model: Any, name: str, steps: int = 30, **choices: Any) -> Any:
    """The model after some updates of one step of the algorithm."""
    loop_of(model, [name], steps=steps, **choices).run(resume=False)
    return model.eval()


# ---------------------------------------------------------------------------------------------------- who moves, and how


@pytest.mark.parametrize("name", STEPS)
def test_a_step_moves_all_of_its_networks_and_nothing_else(name):
    model = cara()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    after(model, name, 3)
    moved = {n for n, t in model.state_dict().items() if not torch.equal(t, before[n])}
    tops = {n.partition(".")[0] for n in moved}
    assert tops == {glob.partition(".")[0] for glob in STEPS[name][1]}
    buffers = {n for n, _ in model.named_buffers()}
    assert buffers and (moved & buffers == (buffers if name == "generator" else set()))


def accuracy(model: Any, objective: Any = None) -> float:
    batch = batch_of(CARADiscriminator(INFO, 8))
    return float((model.latent_logits(places(model)).argmax(-1) == batch["label"]).float().mean())


def places(model: Any) -> Tensor:
    with torch.no_grad():
        return model.eval().posterior(batch_of(CARADiscriminator(INFO, 8))["source"]).mean_BP


def uncertainty(model: Any) -> float:
    """Cross entropy of the classifier on places of texts."""
    with torch.no_grad():
        return float(F.cross_entropy(model.latent_logits(places(model)), batch_of(CARADiscriminator(INFO, 8))["label"]))


def scores(model: Any) -> tuple[float, float]:
    """The discriminator's mean score of real places and of made ones."""
    with torch.no_grad():
        made = model.eval().fake(torch.randn(200, model.noise, generator=torch.Generator().manual_seed(5)))
        return float(model.latent_scores(places(model)).mean()), float(model.latent_scores(made).mean())


def test_judging_lets_the_classifier_recognise_classes_and_the_critic_tell_made_places():
    model = after(cara(), "discriminator", 150, lr=0.03)
    assert uncertainty(model) < 0.8 * math.log(K) and accuracy(model) > 0.6
    real, made = scores(model)
    assert real > made


@pytest.mark.parametrize("confusion", ["uniform", "flip", "negative"])
def test_fooling_hides_the_class_from_the_classifier(confusion):
    model = after(cara(), "discriminator", 60)
    before = uncertainty(model)
    after(model, "generator", 60, generator=partial(CARAGenerator, confusion=confusion))
    if confusion == "uniform":
        assert abs(uncertainty(model) - math.log(K)) < 0.25 * abs(before - math.log(K))
    else:
        assert uncertainty(model) > max(before, math.log(K))


@pytest.mark.parametrize("loss", ["wasserstein", "logistic"])
def test_fooling_makes_made_places_look_real_and_real_ones_made(loss):
    model = after(cara(), "discriminator", 60, discriminator=partial(CARADiscriminator, loss=loss))
    real, made = scores(model)
    only_sampler = copy.deepcopy(model)
    after(only_sampler, "generator", 40, generator=partial(CARAGenerator, loss=loss, weight=0.0, real_weight=0.0))
    assert scores(only_sampler)[1] > made and scores(only_sampler)[0] == pytest.approx(real)
    after(model, "generator", 40, generator=partial(CARAGenerator, loss=loss, weight=0.0, real_weight=1.0))
    assert scores(model)[0] < real


def test_mutual_information_makes_texts_of_the_target_class_on_average_over_seeds():
    model, batch = after(after(cara(), "reconstruction", 100), "text_classifier", 60), batch_of(CARAMutualInformation(INFO, 8))

    def cross_entropy(model: Any) -> float:
        with torch.no_grad():
            text = soft_decode(model, model.memory_from(places(model), batch["wish"]), max_length=5)
            return float(F.cross_entropy(model.text_logits(text), batch["wish"]))

    trained = [after(copy.deepcopy(model), "mutual_information", 100, seed=seed) for seed in (1, 2, 3)]
    assert np.mean([cross_entropy(one) for one in trained]) < 0.5 * cross_entropy(model)


def test_texts_that_were_cut_before_their_end_are_counted():
    model = after(cara(), "reconstruction", 60).eval()
    batch = batch_of(CARAMutualInformation(INFO, 8))
    memory = model.memory_from(places(model), batch["wish"])
    found = GreedySearch(max_length=9)(model, memory, limits=[9] * len(batch))
    tokens = [len(row[0].ids) for row in found]
    assert len(set(tokens)) > 1
    for length in (1, 3, 5, 9):
        loss = CARAMutualInformation(INFO, 8, length=length, straight_through=True).eval()(model, batch, Clock())  # as greedy
        assert float(loss["unfinished"].total) == sum(own >= length for own in tokens), length
        assert loss["unfinished"].weight == 0


def test_reconstruction_writes_the_text_again():
    model = after(cara(), "reconstruction", 250, lr=0.02)
    objective = CARAReconstruction(INFO, 8).eval()
    batch = batch_of(objective)
    assert objective(model, batch, Clock()).mean().item() < 0.9
    found = objective.predict(model, batch, GreedySearch(max_length=8))
    right = [h[0].ids == row["target"].tolist() for h, row in zip(found, examples(), strict=True)]
    assert np.mean(right) > 0.3


# ------------------------------------------------------------------------------------------------------------- the losses


def test_the_terms_of_judging_are_those_of_the_paper():
    model = cara(norm=None, discriminator=partial(MLP, hidden=[])).eval()
    batch = batch_of(CARADiscriminator(INFO, 8))
    weight, bias = model.discriminator.out.weight[0], model.discriminator.out.bias
    loss = CARADiscriminator(INFO, 8, penalty=0.3)(model, batch, Clock())
    z = places(model)
    real = z @ weight + bias
    assert float(loss["penalty"].total) == pytest.approx(len(batch) * float((weight.norm() - 1) ** 2), rel=1e-4)
    assert loss["penalty"].weight == 0.3
    assert float(loss["classifier"].total) == pytest.approx(
        float(F.cross_entropy(model.latent_logits(z), batch["label"], reduction="sum")), rel=1e-4
    )
    fooled = CARAGenerator(INFO, 8)(model, batch, Clock())
    assert float(fooled["real"].total) == pytest.approx(float(real.sum()), rel=1e-4)
    made = -fooled["fake"].total
    assert float(loss["discriminator"].total) == pytest.approx(float(made - real.sum()), rel=1e-4)
    logistic = CARADiscriminator(INFO, 8, loss="logistic")(model, batch, Clock())
    assert float(logistic["discriminator"].total) > 0
    assert float(CARADiscriminator(INFO, 8).eval()(model, batch, Clock())["penalty"].total) == 0


def test_the_logistic_game_is_a_cross_entropy():
    model = cara().eval()
    batch = batch_of(CARADiscriminator(INFO, 8))
    loss = CARADiscriminator(INFO, 8, loss="logistic", penalty=0.0)(model, batch, Clock())
    fooled = CARAGenerator(INFO, 8, loss="logistic")(model, batch, Clock())
    real = model.latent_scores(places(model))
    bce = partial(F.binary_cross_entropy_with_logits, reduction="sum")
    assert float(fooled["real"].total) == pytest.approx(float(bce(real, torch.zeros_like(real))), rel=1e-4)
    made = CARADiscriminator(INFO, 8).fake(model, batch, real)
    score = model.latent_scores(made)
    want = bce(real, torch.ones_like(real)) + bce(score, torch.zeros_like(score))
    assert float(loss["discriminator"].total) == pytest.approx(float(want), rel=1e-4)
    assert float(fooled["fake"].total) == pytest.approx(float(bce(score, torch.ones_like(score))), rel=1e-4)


def test_confusion_is_least_where_it_should_be():
    logits = torch.tensor([[2.0, 0.5, -1.0]])
    label = torch.tensor([0])
    logp = logits.log_softmax(-1)[0]
    assert float(CARAGenerator(INFO, 8).confused(logits, label)) == pytest.approx(float(-logp.mean()))
    assert float(CARAGenerator(INFO, 8).confused(torch.zeros(1, K), label)) == pytest.approx(math.log(K))
    assert float(CARAGenerator(INFO, 8, confusion="flip").confused(logits, label)) == pytest.approx(
        float(-(logp[1] + logp[2]) / 2)
    )
    assert float(CARAGenerator(INFO, 8, confusion="negative").confused(logits, label)) == pytest.approx(float(logp[0]))


def test_the_weight_of_following_goes_by_the_clock():
    model, batch = cara().eval(), batch_of(CARAMutualInformation(INFO, 8))
    objective = CARAMutualInformation(
        INFO, 8, weight=partial(CyclicalAnnealing, zero_fraction=0.0, rise_fraction=0.7, weight=3.0), length=3
    )
    weights = [objective(model, batch, Clock(update, 10))["mutual_information"].weight for update in (0, 7, 10)]
    assert weights == pytest.approx([0.0, 3.0, 3.0])
    assert objective(model, batch, Clock(3, 10))["mutual_information"].weight == pytest.approx(3.0 * 0.3 / 0.7)
    assert objective.eval()(model, batch, Clock(0, 10))["mutual_information"].weight == 1.0


def test_wishes_are_uniform_and_do_not_depend_on_the_class():
    objective, row = CARAMutualInformation(INFO, 8), examples()[0]
    wishes = [objective.prepare(row, np.random.default_rng(i), None)["wish"] for i in range(3000)]
    assert np.bincount(wishes, minlength=K) / 3000 == pytest.approx([1 / K] * K, abs=0.03)


def test_noise_on_places_is_there_in_training_alone_and_dies_down():
    model, objective = (
        cara().eval(),
        CARAReconstruction(INFO, 8, noise=partial(ExponentialAnnealing, start=5.0, final_fraction=0.001)),
    )
    batch = batch_of(objective)
    clean = float(objective.eval()(model, batch, Clock()).mean())
    objective.train()
    first, last = (abs(float(objective(model, batch, Clock(at, 10)).mean()) - clean) for at in (0, 10))
    assert first > 50 * last > 0


def test_the_listener_never_hears_what_was_written():
    """Its step reads real texts: no gradient, and no call, of the decoder."""
    model = cara()
    CARATextClassifier(INFO, 8)(model, batch_of(CARATextClassifier(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"text_classifier"}


def test_the_step_of_the_judges_leaves_no_gradient_elsewhere():
    model = cara()
    CARADiscriminator(INFO, 8)(model, batch_of(CARADiscriminator(INFO, 8)), Clock()).mean().backward()
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None} == {"classifier", "discriminator"}


# ------------------------------------------------------------------------------------------------------------ structures


def test_every_class_has_a_vector_that_learns():
    model, objective = cara(), CARAReconstruction(INFO, 8)
    objective(model, batch_of(objective), Clock()).mean().backward()
    assert bool((model.decoder.labels.weight != 0).any(1).all())
    assert bool((model.decoder.labels.weight.grad != 0).any(1).all())


def test_places_of_texts_and_made_ones_are_normalised_alike():
    model = cara().eval()
    for z in (places(model), model.prior(7)):
        torch.testing.assert_close(z.norm(dim=-1), torch.ones(len(z)))
    without = cara(norm=None).eval()
    assert not torch.allclose(places(without).norm(dim=-1), torch.ones(24))
    assert not torch.allclose(without.prior(7).norm(dim=-1), torch.ones(7))


def test_one_made_place_in_training():
    assert bool(torch.isfinite(cara().train().prior(1)).all())


def test_a_convolution_over_what_was_read():
    model = cara(top_encoder=partial(CNN, layers=1, kernel_size=3), norm=LayerNorm)
    assert model.encode(Seq(torch.tensor([[7, 8, 2]]))).data.shape == (1, 3, 10)
    assert {"top_encoder.layers.0.value.weight", "norm.weight"} <= set(dict(model.named_parameters()))


def test_what_the_structures_provide_and_without_a_listener():
    assert {DiscriminatesLatents, ClassifiesTexts} <= set(cara().provides())
    for model in (cara(text_classifier=None), arae()):
        assert DiscriminatesLatents in model.provides() and ClassifiesTexts not in model.provides()
        assert model.class_conditional and model.samples_by_label
    assert set(cara().substructures()) == {"encoder", "decoder", "text_classifier"}
    assert len(arae().substructures()["decoder"]) == K


def test_arae_writes_a_row_by_the_writer_of_its_class():
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


def test_the_head_of_all_writers_is_one():
    model = arae()
    heads = [n for n, _ in model.named_parameters() if ".head." in n]
    assert heads and all(n.startswith("decoder.decoders.0.") for n in heads)
    assert all(decoder.model.head is model.head for decoder in model.decoder.decoders)


@pytest.mark.parametrize("build", [cara, arae])
def test_soft_texts_do_not_depend_on_the_other_rows(build):
    model, z, label = build().eval(), torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1])
    with torch.no_grad():
        model.head.bias[2] += 1.0
    text = soft_decode(model, model.memory_from(z, label), max_length=6)
    for row in range(5):
        alone = soft_decode(model, model.memory_from(z[row : row + 1], label[row : row + 1]), max_length=6)
        torch.testing.assert_close(text.data[row][text.real()[row]], alone.data[0])


# ---------------------------------------------------------------------------------------------------- what is looked at


def test_a_collapse_is_seen_in_the_figures():
    objective, model = CARAReconstruction(INFO, 8), cara(norm=None)
    batch = batch_of(objective)

    def metric_values() -> dict[str, float]:
        objective.eval()
        for rows in (examples()[:5], examples()[5:]):  # whatever the batches
            objective(model.eval(), batch_of(objective, rows), Clock())
        objective.train()
        return objective.metric_values({})

    first = metric_values()
    assert first["variance"] == pytest.approx(float(places(model).var(0, unbiased=False).sum()), rel=1e-4)
    objective.eval()(model, batch_of(objective, examples()[:2]), Clock())  # somebody looked at two rows, and asked for nothing
    assert first == pytest.approx(metric_values())
    with torch.no_grad():
        model.to_latent.weight.zero_()
        model.sampler.out.weight.zero_()
    last = metric_values()
    assert last["variance"] < 1e-9 and last["fake_variance"] < 1e-9 < 1e-4 < first["fake_variance"]
    assert math.isnan(objective.metric_values({})["variance"])
    latent_accuracy = objective.eval()(model, batch, Clock())["latent_accuracy"]
    assert latent_accuracy.count == 24 and latent_accuracy.weight == 0 and float(latent_accuracy.total) == 8  # one class of three


# --------------------------------------------------------------------------------------------------------------- resuming


class Killed(BaseException):
    """As good as SIGKILL: nothing catches it."""


@pytest.fixture(scope="module")
def whole() -> dict[str, Tensor]:
    loop = loop_of(cara(), list(STEPS), steps=4, starts={"mutual_information": 1})
    loop.run(resume=False)
    return {n: t.clone() for n, t in loop.network.tensors().items()}


@pytest.mark.parametrize("name", STEPS)
def test_a_run_that_is_killed_inside_a_step_ends_bit_identical(name, whole, monkeypatch):
    watcher = Kept()
    kind = STEPS[name][0].func if isinstance(STEPS[name][0], partial) else STEPS[name][0]
    calls: Iterator[int] = iter(range(100))
    real = kind.forward

    def dies(self: Any, *args: Any) -> Any:
        loss = real(self, *args)
        if next(calls) == 1:  # its second round
            raise Killed
        return loss

    with monkeypatch.context() as patch:
        patch.setattr(kind, "forward", dies)
        with pytest.raises(Killed):
            loop_of(cara(), list(STEPS), watcher, steps=4, starts={"mutual_information": 1}).run(resume=False)
    torch.manual_seed(99)
    resumed = loop_of(cara(), list(STEPS), watcher, steps=4, starts={"mutual_information": 1})
    resumed.run(resume=True)
    assert all(torch.equal(t, whole[n]) for n, t in resumed.network.tensors().items())


# ------------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "kind", [CARADiscriminator, CARAGenerator, CARATextClassifier, CARAMutualInformation, CARAReconstruction]
)
def test_one_class_alone_is_refused(kind):
    with pytest.raises(ValueError, match=r"needs texts of two classes or more, but the data .* has good alone"):
        kind(info_of(("good",)), 8)


def test_structures_refuse_data_without_classes():
    with pytest.raises(ValueError, match=r"two classes or more"):
        CARA(info_of(("good",)), **SMALL)
    texts = Info({"source": Field("source", 9), "target": Field("target", 9)}, target="target")
    for build in (partial(CARA, **SMALL), partial(ARAE, **CHOICES)):
        with pytest.raises(ValueError, match=r"needs a field 'label'"):
            build(texts)
    sets = Info({**INFO.fields, "label": Field("label", 3, kind="labels")}, target="target")
    with pytest.raises(ValueError, match=r"needs one class a text, but .* is a labels"):
        CARA(sets, **SMALL)


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"encoder is a LanguageModel, which does not only encode"):
        cara(encoder=partial(LanguageModel, dim=8))
    with pytest.raises(ValueError, match=r"decoder is a TextEncoder, which is not a language model"):
        arae(decoder=partial(TextEncoder, dim=8))
    with pytest.raises(ValueError, match=r"what listens must say a class, as a classifier does, but a TextEncoder does not"):
        cara(text_classifier=partial(TextEncoder, dim=8))


@pytest.mark.parametrize("build", [cara, arae])
def test_a_class_must_be_given(build):
    model = build()
    with pytest.raises(ValueError, match=r"class-conditional, but no label was given"):
        model.memory(Batch({"source": Seq(torch.tensor([[7, 2]]))}, 1))


def test_writers_need_a_vector_and_a_class():
    with pytest.raises(ValueError, match=r"needs a latent vector and a label, but the memory lacks one"):
        arae().decode(Seq(torch.tensor([[1, 7]])), None)


def test_a_phase_that_would_never_run_is_refused():
    with pytest.raises(ValueError, match=r"phase mutual_information never runs: it starts in round 4, and there are 4"):
        loop_of(cara(), list(STEPS), steps=4, starts={"mutual_information": 4})


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"zero_fraction 0.5 \+ rise_fraction 0.7 is 1.2; the sum must be at most 1"):
        CARAMutualInformation(INFO, 8, weight=partial(CyclicalAnnealing, zero_fraction=0.5, rise_fraction=0.7))
    with pytest.raises(ValueError, match=r"final_fraction is 0, which exponential decay never reaches"):
        CARAReconstruction(INFO, 8, noise=partial(ExponentialAnnealing, final_fraction=0.0))
    assert CARAMutualInformation(INFO, 8, weight=partial(ConstantAnnealing, weight=2.0)).weight.weight(0.5) == 2.0


def test_the_reader_needs_the_ids_that_it_was_published_with(tmp_path):
    structure = bert(dim=8, layers=1, heads=2, hidden=8, length=24)
    folder = save(structure(Info({"text": Field("text", 10, max_length=24)})), structure, tmp_path / "bert")
    build = partial(CARA, **{**SMALL, "encoder": pretrained(from_=str(folder), task="encode")})
    with pytest.raises(ValueError, match=r"has shape .10, 8., expected .14, 8."):
        initialize_weights(build(INFO), build)
    few = Info({**INFO.fields, "source": Field("source", 10)}, target="target")
    assert len(initialize_weights(build(few), build)[str(folder)].loaded) > 10


def test_every_writer_of_arae_begins_with_the_weights_that_are_named(tmp_path):
    structure = gpt2(dim=8, layers=1, heads=2, length=24)
    folder = save(structure(Info({"text": Field("text", VOCAB, max_length=24)})), structure, tmp_path / "gpt2")
    build = partial(ARAE, **{**CHOICES, "decoder": pretrained(from_=str(folder))})
    model = build(INFO)
    initialize_weights(model, build)
    first, *others = ({n: p for n, p in one.named_parameters() if ".head." not in n} for one in model.substructures()["decoder"])
    assert others and all(torch.equal(p, other[n]) for other in others for n, p in first.items())


def test_a_probabilistic_objective_does_not_fit_what_reads_to_one_point():
    assert not set(ELBO.needs) <= set(cara().provides())
    assert set(ELBO.needs) <= set(TextVAE(INFO, encoder=SMALL["encoder"], decoder=SMALL["decoder"], injections=[]).provides())


REFUSED = {
    "learning.phases.4.start=1500": r"phases\.4\.start: phase mutual_information never runs: it starts in round 1500, and there "
    "are 1500: start must be below 1500, or steps above 1500",
    "learning.steps=100": r"phases\.4\.start: phase mutual_information never runs: it starts in round \d+, and there are 100: "
    r"start must be below 100, or steps above \d+",
    "structure.text_classifier=null": "'cara-text-classifier' needs a structure that ClassifiesTexts, but .*DiscriminatesLatents",
    "structure={type: seq2seq, dim: 16}": "'cara-reconstruction' needs a structure that Latent and DiscriminatesLatents",
    "objective.mutual_information.weight={type: cyclical, zero_fraction: 0.5, rise_fraction: 0.7}": r"zero_fraction 0.5 \+ "
    "rise_fraction 0.7 is 1.2; the sum must be at most 1",
    "data.train={positive: yelp/positive.txt}": "train has one class .positive.; give the files of two or more",
    "data.train=yelp/positive.txt": "needs a field 'label', but the data .autoencoding-text. has: source, target; to add "
    r"it, name the column of labels in the tables \(data\.label=label\), "
    r"or give the files of each class \(data\.train=\{positive: good",
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_does_not_fit_is_refused_before_training(change):
    with pytest.raises(RecipeError, match=REFUSED[change]):
        check(read_run("cara", [change]))


def test_a_metric_without_its_field_says_how_to_have_it():
    wrong = ["data.train=yelp/positive.txt", "evaluate.metrics=[accuracy]"]
    with pytest.raises(
        RecipeError, match=r"the metric accuracy compares 'label', but .* has: source, target; to add it, name the col"
    ):
        check(read_run("cara", wrong))


def test_a_class_without_examples_is_refused_before_training(tmp_path):
    (tmp_path / "good.txt").write_text("".join(f"the {word} was fine .\n" for word in ["soup", "salad", "bread", "pasta"]))
    (tmp_path / "bad.txt").write_text("")
    run = read_run("cara", [f"data.train={{good: {tmp_path}/good.txt, bad: {tmp_path}/bad.txt}}", "data.validation_fraction=0.0"])
    with pytest.raises(ValueError, match=r"train has no example of the class 'bad'"):
        run.train(tmp_path / "run", quiet=True)


def test_the_benchmark_of_identifiability_runs(tmp_path, capsys):
    metric_values = benchmarks.identifiability.main(1, 3, tmp_path, tmp_path / "picture.png")
    assert set(metric_values) == {"ARAE-", "CARA"} and (tmp_path / "picture.png").is_file()
    assert all(0 <= p <= 1 for seeds in metric_values.values() for seed in seeds for p in seed.values())
    assert "other word" in capsys.readouterr().out
