"""The two objectives of a GAN in a latent space. P width of the space, E width of the noise; other suffixes: see seq.py."""

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
from weft.systems.latent_text.optimus.latent_gan import GeneratesLatents

_ROWS = 128


class LatentAdversarialObjective(Objective):
    """What both objectives are given: a text, its class, and a number that its noise follows from."""

    needs = (Decodes, Latent, GeneratesLatents)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.info = info
        for name in ("source", "label"):
            info[name]  # raises where the data has it not

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        if not len(example["source"]):
            return None
        read = self.info["source"].frame.around([example["source"]])
        return Instance(source=read, label=int(example["label"]), seed=int(rng.integers(2**63)))


@block("latent-discriminator")
class LatentDiscriminator(LatentAdversarialObjective):
    """Tell places of real texts from places that were drawn, each as one of a class.

    loss = D(G(eps, y), y) - D(z, y) + penalty (|grad D(u, y)| - 1)^2
    z ~ q(z|x), y the class of the text x, u between z and G(eps, y)

    When training begins, mean and deviation of the places of the training texts are found, by which they are standardised. In
    evaluation there is no penalty. ``distance`` is what the discriminator makes of how far drawn places are from real ones.

    Gulrajani et al. 2017 (WGAN-GP), https://arxiv.org/abs/1704.00028; in a latent space: Li et al. 2020 (OPTIMUS),
    https://arxiv.org/abs/2004.04092

    Args:
        penalty: Weight of the penalty.
        noise: Variance of the sampled z: posterior, or none (z is the posterior mean, for autoencoders).
        rows: How many training texts, taken at equal distances, mean and deviation are found from; 0 = all.

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
        rows: Natural = 20_000,
    ):
        super().__init__(info, dim)
        self.penalty, self.noise, self.rows = penalty, noise, rows

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        made = super().prepare(example, rng, pool)
        return None if made is None else Instance(**made, share=float(rng.random()))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"discriminator": len(batch), "penalty": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        label_B, rows = batch["label"], len(batch)
        eps_BP, eps_BE = standard_normal(batch, model.latent + model.noise).split([model.latent, model.noise], -1)
        real_BP = model.real(batch["source"], eps_BP if self.noise == "posterior" else None)
        with torch.no_grad():
            fake_BP = model.draw(eps_BE.to(real_BP.dtype), label_B)
        gap_B = model.score(fake_BP, label_B) - model.score(real_BP, label_B)
        penalty_B = gradient_penalty(lambda x_BP: model.score(x_BP, label_B), real_BP, fake_BP, batch["share"])
        return Loss(discriminator=Term(gap_B.sum(), rows), penalty=Term(penalty_B.sum(), rows, self.penalty))

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"distance": -means["discriminator"]}

    @torch.no_grad()
    def setup(self, model: Any, dataset: Dataset) -> None:
        was_training = model.training
        model.eval()
        model.standard.find(self._posteriors(model, dataset))
        model.train(was_training)

    def _posteriors(self, model: Any, dataset: Dataset) -> Iterator[Posterior]:
        number = min(self.rows or len(dataset), len(dataset))
        some = np.arange(number) * len(dataset) // number
        device = next(model.parameters()).device
        for rows in np.array_split(some[np.argsort(dataset.lengths["source"][some], kind="stable")], -(-number // _ROWS)):
            prepared = [self.prepare(dataset[int(row)], np.random.default_rng(0), dataset) for row in rows]
            if there := [instance for instance in prepared if instance is not None]:
                found = model.posterior(collate(there).to(device)["source"])
                yield found if self.noise == "posterior" else replace(found, logvar_BP=None)


@block("latent-generator")
class LatentGenerator(LatentAdversarialObjective):
    """Draw places of a class that the discriminator takes for those of real texts of this class.

    loss = - D(G(eps, y), y),  y as frequent as in the data

    Its prediction for a row is a text of the row's class, written from a place that follows from the number of the row.

    Arjovsky et al. 2017, https://arxiv.org/abs/1701.07875; in a latent space: Li et al. 2020 (OPTIMUS),
    https://arxiv.org/abs/2004.04092

    Example:
        >>> LatentGenerator.needs[-1].__name__
        'GeneratesLatents'
    """

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"generator": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        score_B = model.score(self._drawn(model, batch), batch["label"])
        return Loss.of(-score_B.sum(), len(batch), "generator")

    def _drawn(self, model: Any, batch: Batch) -> Tensor:
        return model.draw(standard_normal(batch, model.noise).to(model.standard.mean.dtype), batch["label"])

    def prepare_request(self, example: Example) -> Instance | None:
        if "label" not in example:
            raise ValueError(
                "this run draws texts of a class and answers none: to have a text read and written again, put an objective elbo "
                "first in the recipe"
            )
        return super().prepare_request(example)

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        z_BP = model.standard.back(self._drawn(model, batch))
        limit = search.limit(model.target.max_length)
        return search(model, model.memory_from(z_BP, batch["label"]), limits=[limit] * len(batch), keys=batch.rows)
