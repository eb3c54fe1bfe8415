"""Step 1 of CARA: reconstruction. P latent dimensions; other suffixes: see seq.py."""

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
from weft.systems.latent_text.cara.protocols import AdversarialAutoencoder, DiscriminatesLatents, label_field
from weft.systems.latent_text.cara.variance import LatentVariances


@block("cara-reconstruction")
class CARAReconstruction(Objective[AdversarialAutoencoder]):
    """Reconstruction loss of a text from its latent code and class: trains encoder and decoder.

    loss = - sum_t log p(x_t | x_<t, z + e, y),  z = encoder(x),  e ~ N(0, sd^2) in training; averaged over tokens

    ``latent_accuracy`` has weight 0: the accuracy of the latent classifier (chance for class-invariant codes). Evaluation also
    reports ``variance`` and ``fake_variance``, the total variance of latent codes of texts and of generated ones: near 0 if the
    encoder or the sampler has collapsed.

    Noise on latent codes: Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        noise: Annealing schedule of sd, the standard deviation of the noise on z.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> label = LabelField("label", 2)
        >>> info = Info({"source": TextField("source", 10), "target": TextField("target", 10), "label": label}, target="target")
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
            info[name]  # raises an error if the data lacks the field
        self.variances = LatentVariances()

    def train(self, mode: bool = True) -> CARAReconstruction:
        self.variances.start()
        return super().train(mode)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return autoencoding_instance(example, self.info, rng) if len(example["target"]) else None

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"reconstruction": len(batch["picks"]), "latent_accuracy": len(batch)}

    def forward(self, model: AdversarialAutoencoder, batch: Batch, clock: Clock) -> Loss:
        z_BP = model.posterior(batch["source"]).mean_BP
        with torch.no_grad():
            correct = (model.latent_logits(z_BP).argmax(-1) == batch["label"]).sum()
            if not self.training:
                self.variances.add(z_BP, model.fake_latents(standard_normal(batch, model.noise).to(z_BP.dtype)))
        if self.training:
            z_BP = z_BP + self.noise.weight(clock.progress) * standard_normal(batch, model.latent).to(z_BP.dtype)
        counts = self.counts(batch)
        return Loss(
            reconstruction=Term(sequence_nll(model, batch, z_BP, batch["label"]).sum(), counts["reconstruction"]),
            latent_accuracy=Term(correct.float(), counts["latent_accuracy"], 0.0, higher_is_better=True),
        )

    def metric_values(self, means: Mapping[str, float]) -> dict[str, float]:
        return self.variances.metric_values()

    def predict(self, model: AdversarialAutoencoder, batch: Batch, search: Search) -> list[Any]:
        lengths = batch["source"].lengths().tolist()
        return search(model, model.memory(batch), limits=[search.limit(int(n)) for n in lengths], keys=batch.rows)
