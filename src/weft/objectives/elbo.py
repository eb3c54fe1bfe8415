"""Evidence lower bound (ELBO) of text VAEs. P latent dimensions, N targets; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Annealing, Decodes, FreeBits, Latent, Objective, Posterior, Search, TextAutoencoder, Variational
from weft.core.example import Example
from weft.core.fields import Info, LabelField
from weft.core.loss import Loss, Term
from weft.core.registry import Build, block
from weft.objectives.annealing import CyclicalAnnealing
from weft.objectives.free_bits import ClampFreeBits
from weft.objectives.next_token import next_tokens

LatentNoise = Literal["posterior", "unit", "none"]


def kl_divergence(posterior: Posterior) -> Tensor:
    """B x P: KL(N(mean, exp(logvar)) || N(0, 1)) of each latent dimension."""
    assert posterior.logvar_BP is not None
    return 0.5 * (posterior.mean_BP**2 + posterior.logvar_BP.exp() - posterior.logvar_BP - 1)


def autoencoding_instance(example: Example, info: Info, rng: np.random.Generator) -> Instance:
    """Encoder input (``source``), decoder input (``input``) and targets (``picks``) of a text, its class if it has one
    (``label``), and the seed of its latent noise (``seed``)."""
    source, target = info.text("source"), info.text("target")
    encoder_input = source.frame.around([example["source"]])
    labeled = "label" in example and isinstance(info["label"], LabelField)  # a request may have no label
    label = {"label": int(example["label"])} if labeled else {}
    return Instance(source=encoder_input, **next_tokens(example["target"], target), **label, seed=int(rng.integers(2**63)))


def sequence_nll(model: TextAutoencoder, batch: Batch, z_BP: Tensor, label_B: Tensor | None = None) -> Tensor:
    """B: -log p(x | z) of each text, summed over its tokens and EOS."""
    picks = batch["picks"]
    hidden = model.decode(batch["input"], model.memory_from(z_BP, label_B)).hidden
    nll_N = model.head.nll(picks.gather(hidden), picks.target_N)
    return nll_N.new_zeros(len(batch)).index_add(0, picks.index_N // hidden.width, nll_N)


def standard_normal(batch: Batch, dim: int) -> Tensor:
    """B x dim standard normal samples. They depend only on the seed of each example, so not on padding or the rest of the
    batch."""
    if batch["seed"].device.type == "meta":
        return torch.empty(len(batch), dim, device="meta")
    samples = [np.random.default_rng(seed).standard_normal(dim, np.float32) for seed in batch["seed"].tolist()]
    return torch.from_numpy(np.stack(samples)).to(batch["seed"].device)


@block("elbo")
class ELBO(Objective[TextAutoencoder]):
    """Negative evidence lower bound (ELBO) of a variational autoencoder, with KL annealing and free bits.

    loss = - log p(x|z) + beta sum_i free_bits(KL_i),  z = mu + exp(logvar / 2) eps,  eps ~ N(0, I),
    KL_i = (mu_i^2 + exp(logvar_i) - logvar_i - 1) / 2

    Terms are sums over a text and means over texts. ``kl`` is the KL term with free bits, ``raw_kl`` the KL divergence itself.
    While beta is 0, free bits do not apply. In evaluation the loss is the plain ELBO: beta is 1, no free bits, and one sample of
    z.

    Kingma & Welling 2014, https://arxiv.org/abs/1312.6114; for texts: Bowman et al. 2016, https://arxiv.org/abs/1511.06349;
    annealing schedule and free bits: Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        beta: Annealing schedule of the weight of the KL term.
        free_bits: Free-bits threshold on the KL term.
        per_token: Whether the reconstruction term of a text is divided by its number of tokens, e.g. for long texts.
        noise: Variance of the sampled z: posterior, unit (variance 1), or none (z is the posterior mean: a plain autoencoder).

    Example:
        >>> from weft.core.fields import TextField
        >>> info = Info({"source": TextField("source", 10), "target": TextField("target", 10)}, target="target")
        >>> ids = np.array([7, 8])
        >>> ELBO(info, 8).prepare({"source": ids, "target": ids}, np.random.default_rng(0), None)["input"].tolist()
        [1, 7, 8]
    """

    needs = (Decodes, Latent, Variational)
    higher_is_better = {"negative_elbo": False}

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        beta: Build[Annealing] = CyclicalAnnealing,
        free_bits: Build[FreeBits] = partial(ClampFreeBits, nats=0.5),
        per_token: bool = False,
        noise: LatentNoise = "posterior",
    ):
        super().__init__(info, dim)
        self.info, self.beta, self.free_bits = info, beta(), free_bits()
        self.per_token, self.noise = per_token, noise
        for name in ("source", "target"):
            info[name]  # raises if the data has no such field

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return autoencoding_instance(example, self.info, rng) if len(example["target"]) else None

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"reconstruction": len(batch), "kl": len(batch), "raw_kl": len(batch)}

    def sample_z(self, posterior: Posterior, batch: Batch) -> Tensor:
        """B x P: a sample of the latent code z (reparameterization trick)."""
        mean_BP, logvar_BP = posterior.mean_BP, posterior.logvar_BP
        if self.noise == "none" or logvar_BP is None:
            return mean_BP
        eps_BP = standard_normal(batch, mean_BP.shape[-1]).to(mean_BP.dtype)
        return mean_BP + eps_BP * ((0.5 * logvar_BP).exp() if self.noise == "posterior" else 1.0)

    def forward(self, model: TextAutoencoder, batch: Batch, clock: Clock) -> Loss:
        posterior = model.posterior(batch["source"])
        if posterior.logvar_BP is None:
            raise ValueError(
                f"{type(model).__name__} encodes a text as a point, but the ELBO needs a posterior distribution; use text-vae"
            )
        raw_BP, rows = kl_divergence(posterior), len(batch)
        nll_B = sequence_nll(model, batch, self.sample_z(posterior, batch), batch["label"] if model.class_conditional else None)
        if self.per_token and self.training:
            nll_B = nll_B / batch["input"].lengths()
        beta = self.beta.weight(clock.progress) if self.training else 1.0
        kl_B = self.free_bits.kl_term(raw_BP) if self.training and beta > 0 else raw_BP.sum(-1)
        return Loss(
            reconstruction=Term(nll_B.sum(), rows),
            kl=Term(kl_B.sum(), rows, beta),
            raw_kl=Term(raw_BP.detach().sum(), rows, 0.0),
        )

    def predict(self, model: TextAutoencoder, batch: Batch, search: Search) -> list[Any]:
        lengths = batch["source"].lengths().tolist()
        return search(model, model.memory(batch), limits=[search.limit(int(n)) for n in lengths], keys=batch.rows)

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"negative_elbo": means["reconstruction"] + means["raw_kl"]}
