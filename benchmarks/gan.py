"""A small GAN as a plug-in: two phases that alternate. ``weft train benchmarks/gan.yaml --import benchmarks.gan``

It shows all that a system of several networks needs: data of its own, a structure of two networks, an objective for each
phase. The generator has batch statistics on purpose: a phase must leave the buffers of what it does not train alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Codec, Corpus, Data, Objective, ProgressCallback, Structure, Tokenizer
from weft.core.example import Example
from weft.core.fields import Info, VectorField
from weft.core.loss import Loss
from weft.core.options import Count, Dim, Natural
from weft.core.registry import block


class CirclePoints:
    """Points near eight centers on a circle."""

    def __init__(self, rows: int, seed: int):
        rng = np.random.default_rng(seed)
        angle = rng.integers(8, size=rows) * (math.pi / 4)
        self.points = (np.stack([np.cos(angle), np.sin(angle)], 1) + 0.05 * rng.normal(size=(rows, 2))).astype(np.float32)
        self.lengths: Mapping[str, np.ndarray] = {"point": np.ones(rows, np.int64)}

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, row: int) -> Example:
        return {"point": self.points[row]}

    def raw(self, row: int) -> dict[str, str]:
        return {"point": str(self.points[row].tolist())}


@block("ring")
class Ring(Data):
    """Points near eight centers on a circle: the usual test of whether a generator covers every mode.

    Args:
        rows: How many points.
        seed: Seed of the sampled points.

    Example:
        >>> len(Ring(rows=10).open().splits["train"])
        10
    """

    def __init__(self, *, rows: Count = 4096, seed: Natural = 0):
        self.rows, self.seed = rows, seed

    def declare(self) -> Info:
        return Info({"point": VectorField("point", 2)}, target="point", data="ring")

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        splits = {"train": CirclePoints(self.rows, self.seed), "valid": CirclePoints(512, self.seed + 1)}
        return Corpus(codec or Codec(self.declare(), {}), splits, {"rows": self.rows})

    def tokenizers(self) -> dict[str, Any]:
        return {}


@block("gan")
class GAN(Structure):
    """A generator that turns noise into points, and a discriminator that classifies points as real or fake.

    x = G(z), z ~ N(0, I);  D(x) is the log-odds that x is real.

    Goodfellow et al. 2014, https://arxiv.org/abs/1406.2661

    Args:
        dim: Hidden size of both networks.
        noise: Size of z.

    Example:
        >>> GAN(Ring().declare(), dim=8).sample(3).shape
        torch.Size([3, 2])
    """

    def __init__(self, info: Info, *, dim: Dim = 64, noise: Dim = 4):
        super().__init__(info)
        self.dim, self.noise, width = dim, noise, info.expect("point", VectorField).size
        self.generator = nn.Sequential(nn.Linear(noise, dim), nn.BatchNorm1d(dim), nn.ReLU(), nn.Linear(dim, width))
        self.discriminator = nn.Sequential(nn.Linear(width, dim), nn.BatchNorm1d(dim), nn.LeakyReLU(0.2), nn.Linear(dim, 1))

    def sample(self, rows: int) -> Tensor:
        first = next(self.generator.parameters())
        return self.generator(torch.randn(rows, self.noise, device=first.device))


class _OnPoints(Objective):
    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(point=example["point"])


@block("gan-discriminator")
class DiscriminatorObjective(_OnPoints):
    """Train the discriminator: classify real points as real, generated ones as fake.

    loss = sum -log D(x) - log(1 - D(G(z)))

    Example:
        >>> DiscriminatorObjective(Ring().declare(), 8).needs
        ()
    """

    couples = True  # batch statistics

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        fake = model.sample(len(batch)).detach()
        return Loss.of(
            softplus(-model.discriminator(batch["point"])).sum() + softplus(model.discriminator(fake)).sum(), len(batch)
        )


@block("gan-generator")
class GeneratorObjective(_OnPoints):
    """Train the generator: the discriminator classifies generated points as real.

    loss = sum -log D(G(z))

    Example:
        >>> GeneratorObjective(Ring().declare(), 8).needs
        ()
    """

    couples = True

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        return Loss.of(softplus(-model.discriminator(model.sample(len(batch)))).sum(), len(batch))
