"""The evidence lower bound of a text. P width of the latent space, N targets; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Annealing, Decodes, FreeBits, Latent, Objective, Posterior, Search, Variational
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.registry import Build, block
from weft.objectives.annealing import Ramp
from weft.objectives.free_bits import Floor
from weft.objectives.next_token import next_tokens

Noise = Literal["read", "unit", "none"]


def divergence(posterior: Posterior) -> Tensor:
    """B x P: KL(N(mean, exp(logvar)) || N(0, 1)) of each dimension."""
    assert posterior.logvar_BP is not None
    return 0.5 * (posterior.mean_BP**2 + posterior.logvar_BP.exp() - posterior.logvar_BP - 1)


def read_and_write(example: Example, info: Info, rng: np.random.Generator) -> Instance:
    """A text as it is read (``source``), what its writer is given (``input``) and is to predict (``picks``), its class where it
    has one (``label``), and a number that its noise follows from (``seed``)."""
    source, target = info["source"], info["target"]
    read = source.frame.around([example["source"]])
    has = "label" in example and info["label"].kind == "label"  # what is asked about may have none
    label = {"label": int(example["label"])} if has else {}
    return Instance(source=read, **next_tokens(example["target"], target), **label, seed=int(rng.integers(2**63)))


def row_nll(model: Any, batch: Batch, z_BP: Tensor, label_B: Tensor | None = None) -> Tensor:
    """B: -log p(x | z) of each row, a sum over its tokens and the end mark."""
    picks = batch["picks"]
    hidden = model.decode(batch["input"], model.memory_from(z_BP, label_B)).hidden
    nll_N = model.head.nll(picks.gather(hidden), picks.target_N)
    return nll_N.new_zeros(len(batch)).index_add(0, picks.index_N // hidden.width, nll_N)


def noise_of(batch: Batch, width: int) -> Tensor:
    """B x width standard normal numbers. They follow from the number that each row was prepared with, so that neither padding nor
    the other rows change them."""
    if batch["seed"].device.type == "meta":
        return torch.empty(len(batch), width, device="meta")
    drawn = [np.random.default_rng(seed).standard_normal(width, np.float32) for seed in batch["seed"].tolist()]
    return torch.from_numpy(np.stack(drawn)).to(batch["seed"].device)


@block("elbo")
class ELBO(Objective):
    """Write a text again from its place in a latent space, and keep these places near the prior.

    loss = - log p(x|z) + beta sum_i kept(KL_i),  z = mu + exp(logvar / 2) eps,
    KL_i = (mu_i^2 + exp(logvar_i) - logvar_i - 1) / 2

    Both are sums over a sentence and means over sentences. ``kl`` is what is paid for, ``raw_kl`` the divergence itself. While
    beta is 0, nothing is free. In evaluation the loss is the plain bound: beta is 1, nothing is free, and one z is drawn.

    Kingma & Welling 2014, https://arxiv.org/abs/1312.6114; for texts: Bowman et al. 2016, https://arxiv.org/abs/1511.06349;
    the schedule and free bits: Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Args:
        beta: The weight of the divergence over the updates.
        free_bits: What of the divergence is paid for.
        per_token: Whether the first part is divided by the sentence's tokens, as for long texts.
        noise: Whether z is drawn with the variance that was read, with variance 1, or not drawn at all (an autoencoder).

    Example:
        >>> from weft.core.fields import Field
        >>> info = Info({"source": Field("source", 10), "target": Field("target", 10)}, target="target")
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
        beta: Build[Annealing] = Ramp,
        free_bits: Build[FreeBits] = partial(Floor, nats=0.5),
        per_token: bool = False,
        noise: Noise = "read",
    ):
        super().__init__(info, dim)
        self.info, self.beta, self.free_bits = info, beta(), free_bits()
        self.per_token, self.noise = per_token, noise
        for name in ("source", "target"):
            info[name]  # raises where the data has it not

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return read_and_write(example, self.info, rng) if len(example["target"]) else None

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"reconstruction": len(batch), "kl": len(batch), "raw_kl": len(batch)}

    def place(self, posterior: Posterior, batch: Batch) -> Tensor:
        """The z that texts are written from."""
        mean_BP, logvar_BP = posterior.mean_BP, posterior.logvar_BP
        if self.noise == "none" or logvar_BP is None:
            return mean_BP
        eps_BP = noise_of(batch, mean_BP.shape[-1]).to(mean_BP.dtype)
        return mean_BP + eps_BP * ((0.5 * logvar_BP).exp() if self.noise == "read" else 1.0)

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        posterior = model.posterior(batch["source"])
        if posterior.logvar_BP is None:
            raise ValueError(f"{type(model).__name__} reads a text to one point: the bound needs a distribution (text-vae)")
        raw_BP, rows = divergence(posterior), len(batch)
        nll_B = row_nll(model, batch, self.place(posterior, batch), batch["label"] if model.labelled else None)
        if self.per_token and self.training:
            nll_B = nll_B / batch["input"].lengths()
        beta = self.beta.weight(clock.progress) if self.training else 1.0
        kept_B = self.free_bits.kept(raw_BP) if self.training and beta > 0 else raw_BP.sum(-1)
        return Loss(
            reconstruction=Term(nll_B.sum(), rows),
            kl=Term(kept_B.sum(), rows, beta),
            raw_kl=Term(raw_BP.detach().sum(), rows, 0.0),
        )

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        lengths = batch["source"].lengths().tolist()
        return search(model, model.memory(batch), limits=[search.limit(int(n)) for n in lengths], keys=batch.rows)

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"negative_elbo": means["reconstruction"] + means["raw_kl"]}
