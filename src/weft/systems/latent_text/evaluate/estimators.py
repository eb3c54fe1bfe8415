"""Figures of a model with a latent space: does it use the space, and how likely are texts under it. In nats.

Shape suffixes: N texts, K samples of each, P width of the space. The posteriors must be those of the texts as they were trained,
padding masked: else the figures depend on the batches. Sums are made on the CPU, in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_NUMBERS = 50_000  # pairs of texts at once: they stay in a processor's cache


@dataclass(frozen=True)
class MutualInformation:
    """What z tells about the text, in nats; of N texts it cannot tell more than log N."""

    nats: float
    most: float
    """log N: an estimate near to it says "at least"."""
    texts: int

    def __str__(self) -> str:
        return f"{self.nats:.2f} nats of at most {self.most:.2f} (log {self.texts:,})"


def kl(mean_NP: Tensor, logvar_NP: Tensor) -> Tensor:
    """N x P: how far q(z|x) is from the prior N(0, 1), in each dimension.

    KL = (mean^2 + exp(logvar) - logvar - 1) / 2

    >>> kl(torch.tensor([[0.0, 1.0]]), torch.zeros(1, 2)).tolist()
    [[0.0, 0.5]]
    """
    _check_same({"mean_NP": mean_NP, "logvar_NP": logvar_NP})
    # expm1: near to the prior, exp(logvar) - 1 would lose what is asked for
    return 0.5 * (mean_NP.square() + torch.expm1(logvar_NP) - logvar_NP)


def active_units(mean_NP: Tensor, threshold: float = 0.01) -> int:
    """How many dimensions differ between texts: those whose mean has an (unbiased) variance over the texts above the threshold.

    Burda et al. 2016 (Importance weighted autoencoders), https://arxiv.org/abs/1509.00519

    >>> active_units(torch.tensor([[0.0, 5.0], [1.0, 5.0]]))
    1
    """
    if mean_NP.ndim != 2 or len(mean_NP) < 2:
        raise ValueError(f"mean_NP has the shape {tuple(mean_NP.shape)}, but must be texts (two or more) by width")
    return int((_exact(mean_NP).var(dim=0, unbiased=True) > threshold).sum())


def log_density(z_P: Tensor, mean_P: Tensor, logvar_P: Tensor) -> Tensor:
    """log N(z; mean, exp(logvar)) over the last dimension; the others are broadcast.

    >>> round(log_density(torch.zeros(2), torch.zeros(2), torch.zeros(2)).item(), 4)  # - log 2 pi
    -1.8379
    """
    return -0.5 * (math.log(2 * math.pi) + logvar_P + (z_P - mean_P).square() * (-logvar_P).exp()).sum(-1)


def mutual_information(mean_NP: Tensor, logvar_NP: Tensor, z_NP: Tensor) -> MutualInformation:
    """The mutual information of text and z under the encoder, by one z for each text.

    I = 1/N sum_x [log q(z_x|x) - log q(z_x)],  log q(z) = logsumexp_x' log q(z|x') - log N, over all N texts

    Both are taken at the same z. As x is one of the N, q(z|x) is at most N q(z), so that no text tells more than log N, which is
    given with it. With E_q log q(z|x) in closed form in place of the first, the noise of z would not cancel, sqrt(P / 2N) of it,
    and the estimate could be above log N. One z for each text can make it fall below 0 where next to nothing is told: it is cut
    off there. Pairs of texts are gone through in pieces: the memory stays small.

    Hoffman & Johnson 2016 (ELBO surgery); Dieng et al. 2019, https://arxiv.org/abs/1807.04863

    Args:
        mean_NP: Of q(z|x) for each text.
        logvar_NP: Its log-variance.
        z_NP: One draw from it.

    >>> far = torch.arange(100.0)[:, None] * 1000
    >>> found = mutual_information(far, torch.zeros(100, 1), far)
    >>> round(found.most, 4), round(found.nats, 4)
    (4.6052, 4.6052)
    """
    _check_same({"mean_NP": mean_NP, "logvar_NP": logvar_NP, "z_NP": z_NP})
    texts, width = mean_NP.shape
    if texts < 2:
        raise ValueError("one text tells nothing apart: give two or more")
    mean, logvar, z = (_exact(tensor).detach() for tensor in (mean_NP, logvar_NP, z_NP))
    mean_PN, precision_PN = mean.T.contiguous(), (-logvar).exp().T.contiguous()
    step = max(1, _NUMBERS // texts)
    constant_N = width * math.log(2 * math.pi) + logvar.sum(1)
    told = torch.zeros((), dtype=torch.double)  # beside log N: none of it is above 0
    for first, some_SP in zip(range(0, texts, step), z.split(step), strict=True):
        square_SN = constant_N.repeat(len(some_SP), 1)
        for at in range(width):
            # the square of the difference, not a product of matrices: where a variance is tiny, that would cancel
            away_SN = some_SP[:, at, None] - mean_PN[at]
            square_SN.addcmul_(away_SN.mul_(away_SN), precision_PN[at])
        log_q_SN = square_SN.mul_(-0.5)
        told += (log_q_SN.diagonal(first) - torch.logsumexp(log_q_SN, dim=1)).sum()
    most = math.log(texts)
    return MutualInformation(max(0.0, most + float(told / texts)), most, texts)


def elbo(log_p_x_given_z_NK: Tensor, log_prior_NK: Tensor, log_q_NK: Tensor) -> Tensor:
    """N: a lower bound of log p(x), the mean over the K samples of log p(x|z) + log p(z) - log q(z|x).

    Kingma & Welling 2014, https://arxiv.org/abs/1312.6114

    >>> elbo(torch.tensor([[-1.0, -3.0]]), torch.zeros(1, 2), torch.zeros(1, 2)).tolist()
    [-2.0]
    """
    return _log_weights(log_p_x_given_z_NK, log_prior_NK, log_q_NK).mean(1)


def importance_weighted(log_p_x_given_z_NK: Tensor, log_prior_NK: Tensor, log_q_NK: Tensor) -> Tensor:
    """N: log p(x) estimated by K samples from q(z|x); never below the ``elbo`` of the same samples.

    log p(x) ~ logsumexp_k [log p(x|z_k) + log p(z_k) - log q(z_k|x)] - log K

    It is too low on average, the more so the smaller K is: take 50 or more, and say how many. The perplexity is
    exp(- sum log p(x) / tokens), or words: ``Perplexity(nll=-float(log_p_N.sum()), tokens=..., words=...)``.

    Burda et al. 2016, https://arxiv.org/abs/1509.00519

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


def _check_same(given: Mapping[str, Tensor]) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in given.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 2 or 0 in shape for shape in shapes.values()):
        said = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"all must have one shape of two dimensions, none of them 0, but they have: {said}")
