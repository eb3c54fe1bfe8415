"""Estimators for latent-variable models: KL divergence, active units, mutual information, ELBO, importance-weighted NLL. In nats.

Shape suffixes: N texts, K samples of z per text, P latent dimensions. Compute posteriors with padding masked, as in training, so
that they do not depend on the batch. Sums are computed on the CPU in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_MAX_PAIRS = 50_000  # pairs of texts per chunk: small enough for the processor's cache


@dataclass(frozen=True)
class MutualInformation:
    """An estimate of the mutual information of z and the text, in nats. It is bounded by log N for N texts."""

    nats: float
    bound: float
    """log N; an estimate close to it is a lower bound of the mutual information."""
    texts: int

    def __str__(self) -> str:
        return f"{self.nats:.2f} nats of at most {self.bound:.2f} (log {self.texts:,})"


def kl(mean_NP: Tensor, logvar_NP: Tensor) -> Tensor:
    """N x P: KL(q(z|x) || N(0, 1)) of each latent dimension.

    KL = (mean^2 + exp(logvar) - logvar - 1) / 2

    Args:
        mean_NP: Means of q(z|x).
        logvar_NP: Log-variances of q(z|x).

    Example:
        >>> kl(torch.tensor([[0.0, 1.0]]), torch.zeros(1, 2)).tolist()
        [[0.0, 0.5]]
    """
    _check_same({"mean_NP": mean_NP, "logvar_NP": logvar_NP})
    # expm1: exp(logvar) - 1 would cancel near the prior
    return 0.5 * (mean_NP.square() + torch.expm1(logvar_NP) - logvar_NP)


def active_units(mean_NP: Tensor, threshold: float = 0.01) -> int:
    """Return the number of active units: dimensions whose posterior mean has a variance over the texts above the threshold.

    Burda et al. 2016 (Importance Weighted Autoencoders), https://arxiv.org/abs/1509.00519

    Args:
        mean_NP: Means of q(z|x), of at least two texts.
        threshold: Threshold on the (unbiased) variance.

    Example:
        >>> active_units(torch.tensor([[0.0, 5.0], [1.0, 5.0]]))
        1
    """
    if mean_NP.ndim != 2 or len(mean_NP) < 2:
        raise ValueError(f"mean_NP must have the shape (N, P) with at least 2 texts, not {tuple(mean_NP.shape)}")
    return int((_exact(mean_NP).var(dim=0, unbiased=True) > threshold).sum())


def log_density(z_P: Tensor, mean_P: Tensor, logvar_P: Tensor) -> Tensor:
    """Return log N(z; mean, exp(logvar)), summed over the last dimension; the others are broadcast.

    Args:
        z_P: Latent codes.
        mean_P: Means.
        logvar_P: Log-variances.

    Example:
        >>> round(log_density(torch.zeros(2), torch.zeros(2), torch.zeros(2)).item(), 4)  # - log 2 pi
        -1.8379
    """
    return -0.5 * (math.log(2 * math.pi) + logvar_P + (z_P - mean_P).square() * (-logvar_P).exp()).sum(-1)


def mutual_information(mean_NP: Tensor, logvar_NP: Tensor, z_NP: Tensor) -> MutualInformation:
    """Estimate the mutual information of text and z under the encoder, with one sample of z per text.

    I = 1/N sum_x [log q(z_x|x) - log q(z_x)],  log q(z) = logsumexp_x' log q(z|x') - log N, over all N texts

    Both terms use the same z: since x is one of the N texts, q(z|x) <= N q(z), and the estimate cannot exceed log N. With the
    closed form of E_q log q(z|x) as the first term, the noise of z, about sqrt(P / 2N), would not cancel. An estimate below 0,
    which can occur when the mutual information is close to 0, is clipped to 0. Pairs of texts are processed in chunks to bound
    the memory.

    Hoffman & Johnson 2016 (ELBO surgery); Dieng et al. 2019, https://arxiv.org/abs/1807.04863

    Args:
        mean_NP: Means of q(z|x).
        logvar_NP: Log-variances of q(z|x).
        z_NP: One sample from q(z|x) per text.

    Example:
        >>> far = torch.arange(100.0)[:, None] * 1000
        >>> estimate = mutual_information(far, torch.zeros(100, 1), far)
        >>> round(estimate.bound, 4), round(estimate.nats, 4)
        (4.6052, 4.6052)
    """
    _check_same({"mean_NP": mean_NP, "logvar_NP": logvar_NP, "z_NP": z_NP})
    texts, dims = mean_NP.shape
    if texts < 2:
        raise ValueError("mutual information needs at least 2 texts, but there is 1")
    mean, logvar, z = (_exact(tensor).detach() for tensor in (mean_NP, logvar_NP, z_NP))
    mean_PN, precision_PN = mean.T.contiguous(), (-logvar).exp().T.contiguous()
    step = max(1, _MAX_PAIRS // texts)
    constant_N = dims * math.log(2 * math.pi) + logvar.sum(1)
    total = torch.zeros((), dtype=torch.double)  # sum of log q(z|x) - logsumexp_x' log q(z|x'), each term at most 0
    for first, some_SP in zip(range(0, texts, step), z.split(step), strict=True):
        square_SN = constant_N.repeat(len(some_SP), 1)
        for dim in range(dims):
            # squared differences instead of a matrix product, which would cancel where a variance is tiny
            difference_SN = some_SP[:, dim, None] - mean_PN[dim]
            square_SN.addcmul_(difference_SN.mul_(difference_SN), precision_PN[dim])
        log_q_SN = square_SN.mul_(-0.5)
        total += (log_q_SN.diagonal(first) - torch.logsumexp(log_q_SN, dim=1)).sum()
    bound = math.log(texts)
    return MutualInformation(max(0.0, bound + float(total / texts)), bound, texts)


def elbo(log_p_x_given_z_NK: Tensor, log_prior_NK: Tensor, log_q_NK: Tensor) -> Tensor:
    """N: evidence lower bound of log p(x), averaged over K samples of z.

    ELBO = 1/K sum_k [log p(x|z_k) + log p(z_k) - log q(z_k|x)]

    Kingma & Welling 2014, https://arxiv.org/abs/1312.6114

    Args:
        log_p_x_given_z_NK: log p(x|z) of each sample.
        log_prior_NK: log p(z).
        log_q_NK: log q(z|x).

    Example:
        >>> elbo(torch.tensor([[-1.0, -3.0]]), torch.zeros(1, 2), torch.zeros(1, 2)).tolist()
        [-2.0]
    """
    return _log_weights(log_p_x_given_z_NK, log_prior_NK, log_q_NK).mean(1)


def importance_weighted(log_p_x_given_z_NK: Tensor, log_prior_NK: Tensor, log_q_NK: Tensor) -> Tensor:
    """N: importance-weighted estimate of log p(x) from K samples of q(z|x); never below the ``elbo`` of the same samples.

    log p(x) ~ logsumexp_k [log p(x|z_k) + log p(z_k) - log q(z_k|x)] - log K

    The estimate is biased downwards, more so for small K: use 50 samples or more, and report K. The perplexity is
    exp(- sum log p(x) / tokens): ``Perplexity(nll=-float(log_p_N.sum()), tokens=..., words=...)``.

    Burda et al. 2016, https://arxiv.org/abs/1509.00519

    Args:
        log_p_x_given_z_NK: log p(x|z) of each sample.
        log_prior_NK: log p(z).
        log_q_NK: log q(z|x).

    Example:
        >>> importance_weighted(torch.tensor([[-1.0, -3.0]]), torch.zeros(1, 2), torch.zeros(1, 2)) > -2
        tensor([True])
    """
    weights_NK = _log_weights(log_p_x_given_z_NK, log_prior_NK, log_q_NK)
    return torch.logsumexp(weights_NK, dim=1) - math.log(weights_NK.shape[1])


def _log_weights(log_p_x_given_z_NK: Tensor, log_prior_NK: Tensor, log_q_NK: Tensor) -> Tensor:
    _check_same({"log_p_x_given_z_NK": log_p_x_given_z_NK, "log_prior_NK": log_prior_NK, "log_q_NK": log_q_NK})
    return _exact(log_p_x_given_z_NK) + _exact(log_prior_NK) - _exact(log_q_NK)


def _exact(tensor: Tensor) -> Tensor:
    return tensor.cpu().double()


def _check_same(tensors: Mapping[str, Tensor]) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 2 or 0 in shape for shape in shapes.values()):
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"expected non-empty tensors of one two-dimensional shape, not {found}")
