"""The metric prior-samples: its texts are the samples of the latent space, and mode collapse is reported."""

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
    folder = tmp_path_factory.mktemp("samples")
    run = recipe(folder)
    trained = run.train(folder / "run", quiet=True)
    torch.manual_seed(0)
    for weight in trained.model.parameters():  # barely trained weights decode every latent code to the same text
        if weight.ndim > 1:
            torch.nn.init.normal_(weight)
    return trained


def test_metric_uses_the_samples_of_the_latent_space(trained):
    texts = LatentSpace(trained).sample(12, seed=3, search=partial(GreedySearch, max_length=6))
    found = measured(trained, PriorSamples(samples=12, seed=3, search=partial(GreedySearch, max_length=6)))
    assert found == {"prior_self_bleu": self_bleu(texts).score, "prior_distinct": distinct_texts(texts)}
    assert found["prior_distinct"] > 1 / 12


def test_classes_are_sampled_in_turn(tmp_path):
    run = recipe(tmp_path, **{"latent: 3": "latent: 3\n  label_dim: 4"})
    trained = run.train(tmp_path / "run", quiet=True)
    torch.manual_seed(0)
    torch.nn.init.normal_(trained.model.decoder.labels.weight, std=9.0)
    texts = LatentSpace(trained).sample(12, ["negative", "positive"] * 6, search=partial(GreedySearch, max_length=6))
    found = measured(trained, PriorSamples(samples=12, search=partial(GreedySearch, max_length=6)))
    assert found == {"prior_self_bleu": self_bleu(texts).score, "prior_distinct": distinct_texts(texts)}
    one = LatentSpace(trained).sample(12, "negative", search=partial(GreedySearch, max_length=6))
    assert found["prior_distinct"] != distinct_texts(one)


def test_batch_size_and_global_random_state_do_not_matter(trained):
    metric = PriorSamples(samples=12, search=partial(GreedySearch, max_length=6))
    one = measured(trained, metric)
    torch.manual_seed(8)
    state = torch.get_rng_state()
    assert measured(trained, metric, batch_tokens=1) == one
    assert torch.equal(torch.get_rng_state(), state), "the metric must not change the random state of training"


def test_mode_collapse_is_reported(trained):
    with torch.no_grad():
        trained.model.decoder.injections = torch.nn.ModuleList()  # the decoder ignores z
    metric = PriorSamples(samples=5, search=partial(GreedySearch, max_length=6))
    found = measured(trained, metric)
    assert found["prior_distinct"] == pytest.approx(1 / 5)
    texts, suffix = "texts decoded from the prior", "unless the real texts are as similar"
    collapsed = f"collapsed: {texts} are nearly identical (Self-BLEU 100.0), {suffix}"
    assert (
        metric.remarks({**found, "prior_self_bleu": 100.0}) == [collapsed]
        and metric.remarks({"prior_self_bleu": 89.9, "prior_distinct": 0.1}) == []
    )
    few = f"collapsed: only 6.7 % of {texts} are distinct, {suffix}"
    assert metric.remarks({"prior_self_bleu": 0.0, "prior_distinct": 2 / 30}) == [few], "of two words, Self-BLEU is 0"
    assert SelfBLEU().remarks({"self_bleu": 90.0}) and not SelfBLEU().remarks({"self_bleu": 60.0})


def test_self_bleu_subsamples_evenly():
    texts = ["so good", "very bad", "quite fine", "so good"]
    assert SelfBLEU(order=1, max_texts=2).compute(texts, [{}] * 4) == {"self_bleu": 100.0}


def test_one_sample_is_rejected():
    with pytest.raises(ValueError, match="samples must be at least 2 for Self-BLEU, not 1"):
        PriorSamples(samples=1)
