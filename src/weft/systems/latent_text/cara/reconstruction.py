"""Step 1 of CARA: write a text again. P width of the latent space; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Annealing, Decodes, Latent, Objective, Search
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.registry import Build, block
from weft.objectives.annealing import ExponentialAnnealing
from weft.objectives.elbo import autoencoding_instance, sequence_nll, standard_normal
from weft.systems.latent_text.cara.protocols import DiscriminatesLatents, label_field
from weft.systems.latent_text.cara.variance import LatentVariances


@block("cara-reconstruction")
class CARAReconstruction(Objective):
    """Write a text again from its place in the latent space and its class: for encoder and decoder.

    loss = - sum_t log p(x_t | x_<t, z + e, y),  z = encoder(x),  e ~ N(0, sd^2) in training; the count is the number of tokens

    ``latent_accuracy`` has no weight: the share of texts whose class the classifier says from z (chance is what is wanted).
    An evaluation also gives ``variance`` and ``fake_variance``, the total variance of places of texts and of made ones: near 0
    where the space, or the sampler, has collapsed.

    Noise on codes: Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        noise: sd, the deviation of the noise on z, over the updates.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label")
        >>> info = Info({"source": Field("source", 10), "target": Field("target", 10), "label": label}, target="target")
        >>> ids = np.array([7, 8])
        >>> row = CARAReconstruction(info, 8).prepare({"source": ids, "target": ids, "label": 1}, np.random.default_rng(0), None)
        >>> row["source"].tolist(), row["input"].tolist(), row["label"]
        ([7, 8, 2], [1, 7, 8], 1)
    """

    needs = (Decodes, Latent, DiscriminatesLatents)
    higher_is_better = {"variance": None, "fake_variance": None}

    def __init__(
        self, info: Info, dim: int, *, noise: Build[Annealing] = partial(ExponentialAnnealing, start=0.1, final_fraction=0.6)
    ):
        super().__init__(info, dim)
        self.info, self.noise, self.label = info, noise(), label_field(info)
        for name in ("source", "target"):
            info[name]  # raises where the data has it not
        self.variances = LatentVariances()

    def train(self, mode: bool = True) -> CARAReconstruction:
        self.variances.turn()
        return super().train(mode)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return autoencoding_instance(example, self.info, rng) if len(example["target"]) else None

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"reconstruction": len(batch["picks"]), "latent_accuracy": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        z_BP = model.posterior(batch["source"]).mean_BP
        with torch.no_grad():
            right = (model.latent_logits(z_BP).argmax(-1) == batch["label"]).sum()
            if not self.training:
                self.variances.add(z_BP, model.fake(standard_normal(batch, model.noise).to(z_BP.dtype)))
        if self.training:
            z_BP = z_BP + self.noise.weight(clock.progress) * standard_normal(batch, model.latent).to(z_BP.dtype)
        counts = self.counts(batch)
        return Loss(
            reconstruction=Term(sequence_nll(model, batch, z_BP, batch["label"]).sum(), counts["reconstruction"]),
            latent_accuracy=Term(right.float(), counts["latent_accuracy"], 0.0, higher_is_better=True),
        )

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return self.variances.metric_values()

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        lengths = batch["source"].lengths().tolist()
        return search(model, model.memory(batch), limits=[search.limit(int(n)) for n in lengths], keys=batch.rows)
