"""Discriminator and generator loss of a GAN in a latent space. P latent dimensions, E noise dimensions; see seq.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance, collate
from weft.core.contracts import Dataset, Decodes, Latent, Objective, Posterior, Search
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.options import Natural, NonNegative
from weft.core.registry import block
from weft.objectives.elbo import standard_normal
from weft.objectives.gradient_penalty import gradient_penalty
from weft.systems.latent_text.optimus.latent_gan import GeneratesLatents, GenerativeAutoencoder

_BATCH_SIZE = 128


class LatentAdversarialObjective(Objective[GenerativeAutoencoder]):
    """Prepares a text, its class and the seed of its noise, for both objectives."""

    needs = (Decodes, Latent, GeneratesLatents)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.info = info
        for name in ("source", "label"):
            info[name]  # raises an error if the data lacks the field

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        if not len(example["source"]):
            return None
        source = self.info.text("source").frame.around([example["source"]])
        return Instance(source=source, label=int(example["label"]), seed=int(rng.integers(2**63)))


@block("latent-discriminator")
class LatentDiscriminator(LatentAdversarialObjective):
    """Discriminator loss of a class-conditional WGAN-GP in a latent space.

    loss = D(G(eps, y), y) - D(z, y) + penalty (|grad D(u, y)| - 1)^2,
    z ~ q(z|x), y the class of the text x, u a random interpolation of z and G(eps, y)

    ``setup`` computes the mean and standard deviation of the latent codes of the training texts, for their standardization. In
    evaluation there is no gradient penalty. ``distance`` is the estimated Wasserstein distance of real and generated codes.

    Gulrajani et al. 2017 (WGAN-GP), https://arxiv.org/abs/1704.00028; in a latent space: Li et al. 2020 (OPTIMUS),
    https://arxiv.org/abs/2004.04092

    Args:
        penalty: Weight of the gradient penalty.
        noise: Variance of the sampled z: posterior, or none (z is the posterior mean, for autoencoders).
        max_examples: Number of training texts, evenly spaced, for the mean and standard deviation; 0 = all.

    Example:
        >>> LatentDiscriminator.needs[-1].__name__
        'GeneratesLatents'
    """

    higher_is_better = {"distance": False}

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        penalty: NonNegative = 10.0,
        noise: Literal["posterior", "none"] = "posterior",
        max_examples: Natural = 20_000,
    ):
        super().__init__(info, dim)
        self.penalty, self.noise, self.max_examples = penalty, noise, max_examples

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        instance = super().prepare(example, rng, pool)
        return None if instance is None else Instance(**instance, mix=float(rng.random()))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"discriminator": len(batch), "penalty": len(batch)}

    def forward(self, model: GenerativeAutoencoder, batch: Batch, clock: Clock) -> Loss:
        label_B, count = batch["label"], len(batch)
        eps_BP, eps_BE = standard_normal(batch, model.latent + model.noise).split([model.latent, model.noise], -1)
        real_BP = model.real_latents(batch["source"], eps_BP if self.noise == "posterior" else None)
        with torch.no_grad():
            fake_BP = model.fake_latents(eps_BE.to(real_BP.dtype), label_B)
        gap_B = model.score(fake_BP, label_B) - model.score(real_BP, label_B)
        penalty_B = gradient_penalty(lambda x_BP: model.score(x_BP, label_B), real_BP, fake_BP, batch["mix"])
        return Loss(discriminator=Term(gap_B.sum(), count), penalty=Term(penalty_B.sum(), count, self.penalty))

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"distance": -means["discriminator"]}

    @torch.no_grad()
    def setup(self, model: GenerativeAutoencoder, dataset: Dataset) -> None:
        was_training = model.training
        model.eval()
        model.standard.fit(self._posteriors(model, dataset))
        model.train(was_training)

    def _posteriors(self, model: GenerativeAutoencoder, dataset: Dataset) -> Iterator[Posterior]:
        number = min(self.max_examples or len(dataset), len(dataset))
        some = np.arange(number) * len(dataset) // number
        device = next(model.parameters()).device
        for rows in np.array_split(some[np.argsort(dataset.lengths["source"][some], kind="stable")], -(-number // _BATCH_SIZE)):
            prepared = [self.prepare(dataset[int(row)], np.random.default_rng(0), dataset) for row in rows]
            if instances := [instance for instance in prepared if instance is not None]:
                posterior = model.posterior(collate(instances).to(device)["source"])
                yield posterior if self.noise == "posterior" else replace(posterior, logvar_BP=None)


@block("latent-generator")
class LatentGenerator(LatentAdversarialObjective):
    """Generator loss of a class-conditional WGAN in a latent space.

    loss = - D(G(eps, y), y),  y the label of the example

    The prediction for an example is a text of its class, decoded from a generated latent code whose noise depends on the row.

    Arjovsky et al. 2017, https://arxiv.org/abs/1701.07875; in a latent space: Li et al. 2020 (OPTIMUS),
    https://arxiv.org/abs/2004.04092

    Example:
        >>> LatentGenerator.needs[-1].__name__
        'GeneratesLatents'
    """

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"generator": len(batch)}

    def forward(self, model: GenerativeAutoencoder, batch: Batch, clock: Clock) -> Loss:
        score_B = model.score(self._fake_latents(model, batch), batch["label"])
        return Loss.of(-score_B.sum(), len(batch), "generator")

    def _fake_latents(self, model: GeneratesLatents, batch: Batch) -> Tensor:
        return model.fake_latents(standard_normal(batch, model.noise).to(model.standard.mean.dtype), batch["label"])

    def prepare_request(self, example: Example) -> Instance | None:
        if "label" not in example:
            raise ValueError(
                "latent-generator predicts from a label, but the example has none; to reconstruct texts, put the objective elbo "
                "first in the recipe"
            )
        return super().prepare_request(example)

    def predict(self, model: GenerativeAutoencoder, batch: Batch, search: Search) -> list[Any]:
        z_BP = model.standard.inverse(self._fake_latents(model, batch))
        limit = search.limit(model.target.max_length)
        return search(model, model.memory_from(z_BP, batch["label"]), limits=[limit] * len(batch), keys=batch.rows)
