"""Metrics of a latent space. N texts, K samples of z per text, P latent dimensions; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Decodes, EvaluationContext, Latent, Metric, Objective, TextAutoencoder
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.options import Count, Natural, NonNegative
from weft.core.registry import block
from weft.core.seeding import normal
from weft.data import evaluation_batches
from weft.evaluate.reference import column
from weft.inference.perplexity import Perplexity
from weft.objectives.elbo import autoencoding_instance, sequence_nll
from weft.systems.latent_text.evaluate.estimators import (
    active_units,
    elbo,
    importance_weighted,
    kl,
    log_density,
    mutual_information,
)

COLLAPSE_KL = 0.1
"""Nats: a KL divergence below it is reported as posterior collapse."""


class AutoencodingObjective(Objective[TextAutoencoder]):
    """Reconstruction from the posterior mean: prepares examples for the metric, whatever the trained objective."""

    def __init__(self, info: Info):
        super().__init__(info, 0)
        self.info = info

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return autoencoding_instance(example, self.info, rng) if len(example["target"]) else None

    def forward(self, model: TextAutoencoder, batch: Batch, clock: Clock) -> Loss:
        """Return -log p(x | z) per token, where z is the mean of q(z | x)."""
        label_B = batch["label"] if model.class_conditional else None
        nll_B = sequence_nll(model, batch, model.posterior(batch["source"]).mean_BP, label_B)
        return Loss(reconstruction=Term(nll_B.sum(), len(batch["picks"])))


@block("latent-space")
class LatentSpaceMetric(Metric):
    """Use of the latent space, and likelihood of the texts: in nats, averaged over the texts.

    reconstruction = - log p(x|z);  kl = KL(q(z|x) || p(z));  negative_elbo = mean_k [- log p(x|z_k) - log p(z_k) + log q(z_k|x)]
    iw_nll = - log mean_k [p(x|z_k) p(z_k) / q(z_k|x)], never above negative_elbo: both use the same samples
    iw_perplexity = exp(sum iw_nll / tokens), iw_word_perplexity = exp(sum iw_nll / words); EOS counts as a token and a word

    ``mutual_information`` of z and text is bounded by log N (``mutual_information_bound``). ``active_units`` are the dimensions
    whose posterior mean varies over the texts. Few samples overestimate ``iw_nll``. The samples of an example depend only on the
    seed and its row. A deterministic autoencoder has the unit counts only.

    Burda et al. 2016, https://arxiv.org/abs/1509.00519; mutual information: Hoffman & Johnson 2016 (ELBO surgery)

    Args:
        samples: K in the final evaluation.
        samples_in_training: K in evaluations during training.
        threshold: Variance of the posterior mean over the texts above which a dimension is active.
        field: Column of the raw example whose words are counted.
        seed: Random seed of the samples.

    Example:
        >>> LatentSpaceMetric(samples=100).samples
        100
    """

    inputs = "model"
    needs = (Decodes, Latent)
    min_examples = 2
    higher_is_better = {
        "negative_elbo": False,
        "reconstruction": False,
        "kl": False,
        "mutual_information": True,
        "mutual_information_bound": None,
        "active_units": True,
        "latent_units": None,
        "iw_nll": False,
        "iw_perplexity": False,
        "iw_word_perplexity": False,
        "iw_samples": None,
    }

    def __init__(
        self,
        *,
        samples: Count = 50,
        samples_in_training: Count = 5,
        threshold: NonNegative = 0.01,
        field: str = "target",
        seed: Natural = 0,
    ):
        super().__init__()
        self.samples, self.samples_in_training, self.threshold = samples, samples_in_training, threshold
        self.field, self.seed = field, seed

    def check(self, info: Info) -> None:
        for name in ("source", "target"):
            info[name]  # raises an error if the data lacks the field

    def measure(self, context: EvaluationContext) -> dict[str, float]:
        samples = self.samples if context.last else self.samples_in_training
        found: list[tuple[Tensor, ...]] = []
        rows: list[int] = []
        tokens = 0
        for batch in evaluation_batches(context.dataset, AutoencodingObjective(context.codec.info), context.batch_tokens, (0,)):
            rows += batch.rows
            tokens += len(batch["picks"])
            found.append(self._sample(cast(TextAutoencoder, context.model), batch.to(context.device), samples))
        mean_NP, *rest = (torch.cat(some).cpu() for some in zip(*found, strict=True))
        units: dict[str, float] = {"active_units": active_units(mean_NP, self.threshold), "latent_units": mean_NP.shape[1]}
        if not rest:
            return units
        logvar_NP, first_NP, *log_densities = rest
        information = mutual_information(mean_NP, logvar_NP, first_NP)
        log_p_N = importance_weighted(*log_densities)
        words = sum(len(text.split()) + 1 for text in column([context.dataset.raw(row) for row in rows], self.field))
        perplexity = Perplexity(-float(log_p_N.sum()), tokens, words)
        return {
            "negative_elbo": -float(elbo(*log_densities).mean()),
            "reconstruction": -float(log_densities[0].mean()),
            "kl": float(kl(mean_NP, logvar_NP).sum(1).double().mean()),
            "mutual_information": information.nats,
            "mutual_information_bound": information.bound,
            **units,
            "iw_nll": -float(log_p_N.mean()),
            "iw_perplexity": perplexity.per_token,
            "iw_word_perplexity": perplexity.per_word,
            "iw_samples": samples,
        }

    def _sample(self, model: TextAutoencoder, batch: Any, samples: int) -> tuple[Tensor, ...]:
        """Mean, log-variance and first sample of z (B x P), and log p(x|z), log p(z), log q(z|x) of all samples (B x K). For a
        deterministic autoencoder: the mean alone."""
        label_B = batch["label"] if model.class_conditional else None
        posterior = model.posterior(batch["source"])
        mean_BP, logvar_BP = posterior.mean_BP.float(), posterior.logvar_BP
        if logvar_BP is None:
            return (mean_BP,)
        logvar_BP = logvar_BP.float()
        shape = (samples, mean_BP.shape[1])
        eps_BKP = torch.from_numpy(np.stack([normal(shape, "latent", self.seed, row) for row in batch.rows])).to(mean_BP)
        z_BKP = mean_BP[:, None] + (0.5 * logvar_BP).exp()[:, None] * eps_BKP
        log_p_BK = torch.stack(
            [-sequence_nll(model, batch, z_BP.to(posterior.mean_BP.dtype), label_B) for z_BP in z_BKP.unbind(1)], 1
        )
        zeros_B1P = torch.zeros_like(mean_BP)[:, None]
        log_prior_BK = log_density(z_BKP, zeros_B1P, zeros_B1P)
        log_q_BK = log_density(z_BKP, mean_BP[:, None], logvar_BP[:, None])
        return mean_BP, logvar_BP, z_BKP[:, 0], log_p_BK.double(), log_prior_BK, log_q_BK

    def remarks(self, metric_values: Mapping[str, float]) -> list[str]:
        active, nats = metric_values["active_units"], metric_values.get("kl")
        if active and (nats is None or nats >= COLLAPSE_KL):
            return []
        units = f"{active} of {metric_values['latent_units']} latent dimensions are active"
        effect = "decoded texts hardly depend on the input"
        if nats is None:
            return [f"the latent space has collapsed: {units}; {effect}. Lower the learning rate of the discriminator"]
        return [
            f"posterior collapse: {units}, and KL(q(z|x) || p(z)) is {nats:.2f} nats; {effect}. "
            "Anneal beta later or more slowly, or raise the free-bits threshold"
        ]

    def signature(self) -> str:
        return f"samples:{self.samples}|seed:{self.seed}|active:var>{self.threshold:g}"
