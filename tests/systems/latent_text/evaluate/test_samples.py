"""Texts drawn from a latent space as a metric: they are those that the space draws, and collapse is named."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.systems.latent_text.evaluate.test_latent_space import measured, recipe

from weft.evaluate import SelfBLEU, distinct_texts, self_bleu
from weft.generate import GreedySearch
from weft.systems.latent_text.evaluate import PriorSamples
from weft.systems.latent_text.space import LatentSpace


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    run = recipe(folder)
    trained = run.train(folder / "run", quiet=True)
    torch.manual_seed(0)
    for weight in trained.model.parameters():  # hardly trained weights write the same everywhere
        if weight.ndim > 1:
            torch.nn.init.normal_(weight)
    return trained


def test_they_are_the_texts_that_the_space_draws(trained):
    texts = LatentSpace(trained).sample(12, seed=3, search=partial(GreedySearch, max_length=6))
    found = measured(trained, PriorSamples(number=12, seed=3, search=partial(GreedySearch, max_length=6)))
    assert found == {"prior_self_bleu": self_bleu(texts).score, "prior_distinct": distinct_texts(texts)}
    assert found["prior_distinct"] > 1 / 12


def test_classes_are_drawn_in_turn(tmp_path):
    run = recipe(tmp_path, **{"latent: 3": "latent: 3\n  label_dim: 4"})
    trained = run.train(tmp_path / "run", quiet=True)
    torch.manual_seed(0)
    torch.nn.init.normal_(trained.model.decoder.labels.weight, std=9.0)
    texts = LatentSpace(trained).sample(12, ["negative", "positive"] * 6, search=partial(GreedySearch, max_length=6))
    found = measured(trained, PriorSamples(number=12, search=partial(GreedySearch, max_length=6)))
    assert found == {"prior_self_bleu": self_bleu(texts).score, "prior_distinct": distinct_texts(texts)}
    one = LatentSpace(trained).sample(12, "negative", search=partial(GreedySearch, max_length=6))
    assert found["prior_distinct"] != distinct_texts(one)


def test_batches_and_the_state_of_the_generator_change_nothing(trained):
    metric = PriorSamples(number=12, search=partial(GreedySearch, max_length=6))
    one = measured(trained, metric)
    torch.manual_seed(8)
    state = torch.get_rng_state()
    assert measured(trained, metric, batch_tokens=1) == one
    assert torch.equal(torch.get_rng_state(), state), "training goes on as if nothing had been drawn"


def test_collapse_is_named(trained):
    with torch.no_grad():
        trained.model.decoder.injections = torch.nn.ModuleList()  # z is not heard
    metric = PriorSamples(number=5, search=partial(GreedySearch, max_length=6))
    found = measured(trained, metric)
    assert found["prior_distinct"] == pytest.approx(1 / 5)
    said = "collapsed: the texts that are drawn are nearly identical (Self-BLEU 100.0), unless the real texts are as similar"
    assert (
        metric.remarks({**found, "prior_self_bleu": 100.0}) == [said]
        and metric.remarks({"prior_self_bleu": 89.9, "prior_distinct": 0.1}) == []
    )
    few = "collapsed: only 6.7 % of the texts that are drawn are distinct, unless the real texts are as similar"
    assert metric.remarks({"prior_self_bleu": 0.0, "prior_distinct": 2 / 30}) == [few], "of two words, Self-BLEU is 0"
    assert SelfBLEU().remarks({"self_bleu": 90.0}) and not SelfBLEU().remarks({"self_bleu": 60.0})


def test_some_of_the_texts_are_taken_from_all_of_them():
    texts = ["so good", "very bad", "quite fine", "so good"]
    assert SelfBLEU(order=1, max_texts=2).compute(texts, [{}] * 4) == {"self_bleu": 100.0}


def test_one_text_cannot_be_compared():
    with pytest.raises(ValueError, match="number is 1, but texts are compared with each other"):
        PriorSamples(number=1)
