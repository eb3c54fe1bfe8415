"""Training steps of CARA: which networks they update, in which direction, and bit-identical resuming."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.systems.latent_text.cara_models import (
    INFO,
    STEPS,
    K,
    Kept,
    accuracy,
    after,
    batch_of,
    cara,
    classifier_loss,
    examples,
    latents,
    loop_of,
    scores,
)
from torch import Tensor

from weft.core.batch import Clock
from weft.generate import GreedySearch
from weft.generate.soft_decoding import soft_decode
from weft.systems.latent_text.cara import (
    CARADiscriminator,
    CARAGenerator,
    CARAMutualInformation,
    CARAReconstruction,
)


@pytest.mark.parametrize("name", STEPS)
def test_each_step_updates_exactly_its_networks(name):
    model = cara()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    after(model, name, 3)
    moved = {n for n, t in model.state_dict().items() if not torch.equal(t, before[n])}
    tops = {n.partition(".")[0] for n in moved}
    assert tops == {glob.partition(".")[0] for glob in STEPS[name][1]}
    buffers = {n for n, _ in model.named_buffers()}
    assert buffers and (moved & buffers == (buffers if name == "generator" else set()))


def test_discriminator_step_trains_classifier_and_discriminator():
    model = after(cara(), "discriminator", 150, lr=0.03)
    assert classifier_loss(model) < 0.8 * math.log(K) and accuracy(model) > 0.6
    real, fake = scores(model)
    assert real > fake


@pytest.mark.parametrize("confusion", ["uniform", "flip", "negative"])
def test_generator_step_confuses_the_latent_classifier(confusion):
    model = after(cara(), "discriminator", 60)
    before = classifier_loss(model)
    after(model, "generator", 60, generator=partial(CARAGenerator, confusion=confusion))
    if confusion == "uniform":
        assert abs(classifier_loss(model) - math.log(K)) < 0.25 * abs(before - math.log(K))
    else:
        assert classifier_loss(model) > max(before, math.log(K))


@pytest.mark.parametrize("loss", ["wasserstein", "logistic"])
def test_generator_step_moves_fake_and_real_scores_towards_each_other(loss):
    model = after(cara(), "discriminator", 60, discriminator=partial(CARADiscriminator, loss=loss))
    real, fake = scores(model)
    only_sampler = copy.deepcopy(model)
    after(only_sampler, "generator", 40, generator=partial(CARAGenerator, loss=loss, weight=0.0, real_weight=0.0))
    assert scores(only_sampler)[1] > fake and scores(only_sampler)[0] == pytest.approx(real)
    after(model, "generator", 40, generator=partial(CARAGenerator, loss=loss, weight=0.0, real_weight=1.0))
    assert scores(model)[0] < real


def test_mutual_information_makes_texts_of_the_target_class_on_average_over_seeds():
    model, batch = after(after(cara(), "reconstruction", 100), "text_classifier", 60), batch_of(CARAMutualInformation(INFO, 8))

    def cross_entropy(model: Any) -> float:
        with torch.no_grad():
            text = soft_decode(model, model.memory_from(latents(model), batch["target_label"]), max_length=5)
            return float(F.cross_entropy(model.text_logits(text), batch["target_label"]))

    trained = [after(copy.deepcopy(model), "mutual_information", 100, seed=seed) for seed in (1, 2, 3)]
    assert np.mean([cross_entropy(one) for one in trained]) < 0.5 * cross_entropy(model)


def test_texts_truncated_before_eos_are_counted():
    model = after(cara(), "reconstruction", 60).eval()
    batch = batch_of(CARAMutualInformation(INFO, 8))
    memory = model.memory_from(latents(model), batch["target_label"])
    found = GreedySearch(max_length=9)(model, memory, limits=[9] * len(batch))
    tokens = [len(row[0].ids) for row in found]
    assert len(set(tokens)) > 1
    for length in (1, 3, 5, 9):
        loss = CARAMutualInformation(INFO, 8, max_length=length, straight_through=True).eval()(model, batch, Clock())
        assert float(loss["unfinished"].total) == sum(own >= length for own in tokens), length
        assert loss["unfinished"].weight == 0


def test_reconstruction_step_learns_to_reconstruct():
    model = after(cara(), "reconstruction", 250, lr=0.02)
    objective = CARAReconstruction(INFO, 8).eval()
    batch = batch_of(objective)
    assert objective(model, batch, Clock()).mean().item() < 0.9
    found = objective.predict(model, batch, GreedySearch(max_length=8))
    correct = [h[0].ids == row["target"].tolist() for h, row in zip(found, examples(), strict=True)]
    assert np.mean(correct) > 0.3


# ---------------------------------------------------------------------------------------------------------------------- resuming


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@pytest.fixture(scope="module")
def full_run() -> dict[str, Tensor]:
    loop = loop_of(cara(), list(STEPS), steps=4, starts={"mutual_information": 1})
    loop.run(resume=False)
    return {n: t.clone() for n, t in loop.network.tensors().items()}


@pytest.mark.parametrize("name", STEPS)
def test_resuming_after_a_kill_in_any_step_is_bit_identical(name, full_run, monkeypatch):
    watcher = Kept()
    kind = STEPS[name][0].func if isinstance(STEPS[name][0], partial) else STEPS[name][0]
    calls: Iterator[int] = iter(range(100))
    real = kind.forward

    def killed(self: Any, *args: Any) -> Any:
        loss = real(self, *args)
        if next(calls) == 1:  # in the second step
            raise Killed
        return loss

    with monkeypatch.context() as patch:
        patch.setattr(kind, "forward", killed)
        with pytest.raises(Killed):
            loop_of(cara(), list(STEPS), watcher, steps=4, starts={"mutual_information": 1}).run(resume=False)
    torch.manual_seed(99)
    resumed = loop_of(cara(), list(STEPS), watcher, steps=4, starts={"mutual_information": 1})
    resumed.run(resume=True)
    assert all(torch.equal(t, full_run[n]) for n, t in resumed.network.tensors().items())
