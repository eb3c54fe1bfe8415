"""Estimators of latent spaces against their definitions, torch.distributions and known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.distributions import Normal, kl_divergence

from weft.systems.latent_text.evaluate import active_units, elbo, importance_weighted, kl, log_density, mutual_information
from weft.systems.latent_text.evaluate import estimators as latent


def posteriors(texts, width, spread=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = spread * torch.randn(texts, width, generator=generator)
    logvar = -1 + 0.5 * torch.randn(texts, width, generator=generator)
    z = mean + (0.5 * logvar).exp() * torch.randn(texts, width, generator=generator)
    return mean, logvar, z


def test_kl_and_log_density_equal_torch_distributions():
    mean, logvar, z = (t.double() for t in posteriors(20, 5))
    q = Normal(mean, (0.5 * logvar).exp())
    assert torch.allclose(kl(mean, logvar), kl_divergence(q, Normal(torch.zeros(20, 5).double(), 1.0)))
    assert torch.allclose(log_density(z, mean, logvar), q.log_prob(z).sum(-1))
    z_NKP = torch.randn(20, 3, 5).double()
    assert torch.allclose(log_density(z_NKP, mean[:, None], logvar[:, None]), q.log_prob(z_NKP.transpose(0, 1)).sum(-1).T)


def test_kl_near_the_prior_does_not_cancel():
    assert kl(torch.zeros(1, 1), torch.full((1, 1), 1e-4)).item() == pytest.approx(0.25e-8, rel=0.02)


def test_active_units_use_the_unbiased_variance():
    mean = torch.tensor([[0.0, 0.0, 3.0, 7.0], [0.2, 0.14, 3.0, 8.0]])
    # variances: 0.02, 0.0098, 0, 0.5; with N instead of N - 1 the first would be 0.01 and not above it
    assert active_units(mean) == 2
    assert active_units(mean, threshold=0.1) == 1 and active_units(mean, threshold=0.009) == 3
    assert active_units(mean + 1000) == 2  # in single precision, 1000.2 is not exact


# ----------------------------------------------------------------------------------------------------- mutual information


def by_definition(mean, logvar, z):
    mean, logvar, z = mean.double(), logvar.double(), z.double()
    log_q_N = Normal(mean, (0.5 * logvar).exp()).log_prob(z).sum(-1)
    log_q_NN = Normal(mean[None], (0.5 * logvar).exp()[None]).log_prob(z[:, None]).sum(-1)
    return float((log_q_N - torch.logsumexp(log_q_NN, 1) + math.log(len(mean))).mean())


@pytest.mark.parametrize("numbers", [1, 100, 50_000])
def test_mutual_information_equals_its_definition_for_any_chunk_size(numbers, monkeypatch):
    monkeypatch.setattr(latent, "_MAX_PAIRS", numbers)
    for seed, spread in ((0, 2.0), (1, 0.5)):
        given_ = posteriors(37, 3, spread, seed)
        found = mutual_information(*given_)
        assert found.nats == pytest.approx(by_definition(*given_), rel=1e-6) and found.nats > 0.1
        assert (found.bound, found.texts) == (math.log(37), 37)


def test_bounds_of_mutual_information():
    torch.manual_seed(0)
    # equal posteriors: 0, whatever the samples
    for width in (2, 100):
        found = mutual_information(torch.zeros(50, width), torch.zeros(50, width), torch.randn(50, width))
        assert found.nats == pytest.approx(0, abs=1e-9)
    # almost equal posteriors: never negative
    found = [mutual_information(*posteriors(50, 2, 0.01, seed)).nats for seed in range(8)]
    assert all(nats >= 0 for nats in found) and max(found) < 0.3
    # separated posteriors: log N, whatever the dimension
    for width in (1, 4, 100):
        mean, logvar, _ = posteriors(200, width)
        mean = 1000 * torch.arange(200)[:, None] + torch.zeros(1, width)
        z = mean + (0.5 * logvar).exp() * torch.randn(200, width)
        assert mutual_information(mean, logvar, z).nats == pytest.approx(math.log(200), rel=1e-12)
    assert str(mutual_information(mean, logvar, z)) == "5.30 nats of at most 5.30 (log 200)"


@pytest.mark.parametrize("spread", [0.3, 2.0, 20.0])
def test_mutual_information_never_exceeds_log_n(spread):
    """Not even where all samples of z are closer to their means than expected."""
    for seed in range(20):
        mean, logvar, z = posteriors(30, 64, spread, seed)
        for sample in (z, mean, 2 * z - mean):
            found = mutual_information(mean, logvar, sample)
            assert 0 <= found.nats <= found.bound


def test_tiny_variances_do_not_cancel():
    torch.manual_seed(0)
    mean = torch.randn(30, 2).double()
    logvar = torch.full((30, 2), -60.0).double()
    z = mean + (0.5 * logvar).exp() * torch.randn(30, 2)
    assert mutual_information(mean, logvar, z).nats == pytest.approx(math.log(30), rel=1e-12)
    # pairs of texts that are one standard deviation apart, where means are 1e13 of them from 0
    near = mean.repeat(2, 1) + torch.tensor([0.0, 1.0]).repeat_interleave(30)[:, None] * math.exp(-30)
    z = near + (0.5 * logvar.repeat(2, 1)).exp() * torch.randn(60, 2)
    assert math.log(30) < mutual_information(near, logvar.repeat(2, 1), z).nats < math.log(60) - 0.1


@pytest.mark.parametrize(("width", "variance"), [(1, 0.25), (1, 4.0), (64, 32.0)])
def test_mutual_information_of_a_known_gaussian(width, variance):
    """x ~ N(0, 1), z = x + noise of variance v: I = log(1 + 1 / v) / 2 in each dimension, which N texts estimate."""
    torch.manual_seed(0)
    mean = torch.randn(4000, width)
    logvar = torch.full_like(mean, math.log(variance))
    found = mutual_information(mean, logvar, mean + variance**0.5 * torch.randn_like(mean))
    assert found.nats == pytest.approx(width / 2 * math.log(1 + 1 / variance), abs=0.05)


def test_mutual_information_of_two_components_equals_numerical_integration():
    """Half of the texts at -1 and half at 1, variance 1: log 2 - E log(1 + exp(-2 z)) for z ~ N(1, 1)."""
    torch.manual_seed(0)
    z = torch.linspace(-9, 11, 20_001).double()
    p = Normal(torch.ones(()).double(), 1.0).log_prob(z).exp()
    right = math.log(2) - float(torch.trapezoid(p * torch.log1p((-2 * z).exp()), z))
    mean = torch.tensor([[-1.0], [1.0]]).repeat(2000, 1)
    found = mutual_information(mean, torch.zeros_like(mean), mean + torch.randn_like(mean))
    assert found.nats == pytest.approx(right, abs=0.03) and 0.3 < right < 0.4


def test_memory_does_not_grow_with_all_pairs(monkeypatch):
    """No chunk exceeds the limit, whatever the number of texts."""
    monkeypatch.setattr(latent, "_MAX_PAIRS", 20_000)
    sizes = []
    summed = torch.logsumexp
    monkeypatch.setattr(torch, "logsumexp", lambda x, dim: sizes.append(x.numel()) or summed(x, dim))
    mutual_information(*posteriors(300, 8))
    assert max(sizes) <= 20_000 and sum(sizes) == 300 * 300


# ------------------------------------------------------------------------------------------------------------- bounds


LOGS = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(-500, 50))


@settings(max_examples=100, deadline=None)
@given(LOGS, st.integers(0, 1000))
def test_elbo_never_exceeds_the_importance_weighted_bound(log_p, seed):
    log_p_NK = torch.from_numpy(log_p)
    generator = torch.Generator().manual_seed(seed)
    prior_NK, q_NK = (10 * torch.randn(log_p_NK.shape, generator=generator) for _ in range(2))
    low, high = elbo(log_p_NK, prior_NK, q_NK), importance_weighted(log_p_NK, prior_NK, q_NK)
    assert low.shape == high.shape == (len(log_p_NK),)
    assert (low <= high + 1e-9 * (1 + high.abs())).all()
    best = (log_p_NK + prior_NK - q_NK).max(1).values
    assert (high <= best + 1e-9).all()
    if log_p_NK.shape[1] == 1:
        assert torch.allclose(low, high)


def test_both_bounds_are_exact_for_the_true_posterior():
    """x | z ~ N(z, 1), z ~ N(0, 1): p(x) = N(0, 2), p(z | x) = N(x / 2, 1 / 2)."""
    x_N = torch.tensor([-1.0, 0.3, 2.0]).double()
    z_NK = x_N[:, None] / 2 + 0.5**0.5 * torch.randn(3, 7).double()
    one = torch.ones(()).double()
    given_ = (
        Normal(z_NK, one).log_prob(x_N[:, None]),
        Normal(0 * one, one).log_prob(z_NK),
        Normal(x_N[:, None] / 2, 0.5**0.5 * one).log_prob(z_NK),
    )
    right = Normal(0 * one, 2**0.5 * one).log_prob(x_N)
    assert torch.allclose(importance_weighted(*given_), right) and torch.allclose(elbo(*given_), right)


def test_more_samples_tighten_the_importance_weighted_bound():
    """The same model with q = N(0, 1), the prior."""
    torch.manual_seed(0)
    x, one = torch.tensor(1.5).double(), torch.ones(()).double()
    right = Normal(0 * one, 2**0.5 * one).log_prob(x)
    found = []
    for samples in (1, 10, 100):
        z_NK = torch.randn(2000, samples).double()
        prior = Normal(0 * one, one).log_prob(z_NK)
        found.append(importance_weighted(Normal(z_NK, one).log_prob(x), prior, prior).mean())
    assert found[0] < found[1] - 0.1 and found[1] < found[2] < right + 0.01 and found[2] > right - 0.02


def test_invalid_shapes_are_reported():
    with pytest.raises(ValueError, match=r"at least 2 texts, not \(1, 3\)"):
        active_units(torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"mean_NP \(2, 3\), logvar_NP \(2, 1\)"):
        kl(torch.zeros(2, 3), torch.zeros(2, 1))
    with pytest.raises(ValueError, match=r"z_NP \(3,\)"):
        mutual_information(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(3))
    with pytest.raises(ValueError, match="needs at least 2 texts, but there is 1"):
        mutual_information(*posteriors(1, 3))
    for bound in (elbo, importance_weighted):
        with pytest.raises(ValueError, match=r"log_q_NK \(2, 4\)"):
            bound(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 4))
        with pytest.raises(ValueError, match=r"expected non-empty tensors"):
            bound(torch.zeros(2, 0), torch.zeros(2, 0), torch.zeros(2, 0))
