"""Steps 2 and 3 of CARA: the loss over the latent space. P width of the latent space, K classes; other suffixes: see seq.py."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Latent, Objective
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.options import NonNegative
from weft.core.registry import block
from weft.objectives.elbo import standard_normal
from weft.objectives.gradient_penalty import gradient_penalty
from weft.systems.latent_text.cara.protocols import DiscriminatesLatents, label_field

AdversarialLoss = Literal["wasserstein", "logistic"]
"""How scores are turned into losses: as they are (WGAN), or as log-odds (GAN)."""


def real_loss(score_B: Tensor, loss: AdversarialLoss) -> Tensor:
    """The loss of what is to be scored as real."""
    return F.softplus(-score_B) if loss == "logistic" else -score_B


def fake_loss(score_B: Tensor, loss: AdversarialLoss) -> Tensor:
    """The loss of what is to be scored as made."""
    return F.softplus(score_B) if loss == "logistic" else score_B


class AdversarialObjective(Objective):
    """What judging and fooling have in common: a text, its class, and the noise that a place beside it is made of."""

    needs = (Latent, DiscriminatesLatents)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.source, self.label = info["source"], label_field(info)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        read = self.source.frame.around([example["source"]])
        seed, share = int(rng.integers(2**63)), float(rng.random())
        return Instance(source=read, label=int(example["label"]), seed=seed, share=share)

    def fake(self, model: Any, batch: Batch, like: Tensor) -> Tensor:
        """B x P: a made place for each text."""
        return model.fake(standard_normal(batch, model.noise).to(like.dtype))


@block("cara-discriminator")
class CARADiscriminator(AdversarialObjective):
    """Train the latent classifier and the discriminator of real and fake latent codes; all other networks are frozen.

    loss = CE(classifier(z), y) + discriminator,  z = encoder(x),  z' = sampler(s)
    wasserstein: discriminator = D(z') - D(z) + penalty (|grad D(u z + (1 - u) z')| - 1)^2,  u uniform
    logistic:    discriminator = - log sigmoid(D(z)) - log(1 - sigmoid(D(z'))), and the same penalty

    D is high for what is real. In evaluation there is no penalty.

    Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223; the penalty: Gulrajani et al. 2017, https://arxiv.org/abs/1704.00028

    Args:
        loss: How scores are turned into losses.
        penalty: The weight of the penalty.

    Example:
        >>> from weft.core.fields import Field
        >>> info = Info({"source": Field("source", 10), "label": Field("label", 2, kind="label")}, target="source")
        >>> row = CARADiscriminator(info, 8).prepare({"source": np.array([7, 8]), "label": 1}, np.random.default_rng(0), None)
        >>> row["source"].tolist(), row["label"]
        ([7, 8, 2], 1)
    """

    def __init__(self, info: Info, dim: int, *, loss: AdversarialLoss = "wasserstein", penalty: NonNegative = 0.1):
        super().__init__(info, dim)
        self.loss: AdversarialLoss = loss
        self.penalty = penalty

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"classifier": len(batch), "discriminator": len(batch), "penalty": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        rows = len(batch)
        with torch.no_grad():
            real_BP = model.posterior(batch["source"]).mean_BP
            fake_BP = self.fake(model, batch, real_BP)
        classifier = F.cross_entropy(model.latent_logits(real_BP), batch["label"], reduction="sum")
        discriminator_B = real_loss(model.latent_scores(real_BP), self.loss) + fake_loss(model.latent_scores(fake_BP), self.loss)
        penalty_B = torch.zeros_like(discriminator_B)
        if self.training and self.penalty:
            penalty_B = gradient_penalty(model.latent_scores, real_BP, fake_BP, batch["share"])
        return Loss(
            classifier=Term(classifier, rows),
            discriminator=Term(discriminator_B.sum(), rows),
            penalty=Term(penalty_B.sum(), rows, self.penalty),
        )


Confusion = Literal["uniform", "flip", "negative"]
"""What the encoder wants the classifier to say: nothing (1/K for each class), another class, or anything but the right one."""


@block("cara-generator")
class CARAGenerator(AdversarialObjective):
    """Train encoder and sampler against the latent classifier and the discriminator (generator loss).

    loss = weight confusion(classifier(z)) + real_weight made(D(z)) + real(D(z')),  z = encoder(x),  z' = sampler(s)
    wasserstein: made(D) = D, real(D) = -D;  logistic: made(D) = - log(1 - sigmoid(D)), real(D) = - log sigmoid(D)
    uniform:  confusion = - 1/K sum_k log p(k | z), least at p = 1/K
    flip:     confusion = - 1/(K - 1) sum_{k != y} log p(k | z)
    negative: confusion = log p(y | z), which has no bottom

    Classifier and discriminator stand still, the gradient goes through them.

    Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        loss: How scores are turned into losses; as in cara-discriminator.
        confusion: What the classifier is to say.
        weight: The weight of the confusion.
        real_weight: The weight of places of texts that are to look made.

    Example:
        >>> from weft.core.fields import Field
        >>> info = Info({"source": Field("source", 10), "label": Field("label", 2, kind="label")}, target="source")
        >>> CARAGenerator(info, 8).confused(torch.zeros(1, 2), torch.tensor([1])).item()
        0.6931471824645996
    """

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        loss: AdversarialLoss = "wasserstein",
        confusion: Confusion = "uniform",
        weight: NonNegative = 1.0,
        real_weight: NonNegative = 0.01,
    ):
        super().__init__(info, dim)
        self.loss: AdversarialLoss = loss
        self.confusion, self.weight, self.real_weight = confusion, weight, real_weight

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"confusion": len(batch), "real": len(batch), "fake": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        rows, real_BP = len(batch), model.posterior(batch["source"]).mean_BP
        fake_BP = self.fake(model, batch, real_BP)
        confused_B = self.confused(model.latent_logits(real_BP), batch["label"])
        return Loss(
            confusion=Term(confused_B.sum(), rows, self.weight),
            real=Term(fake_loss(model.latent_scores(real_BP), self.loss).sum(), rows, self.real_weight),
            fake=Term(real_loss(model.latent_scores(fake_BP), self.loss).sum(), rows),
        )

    def confused(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        """B losses."""
        logp_BK = logits_BK.log_softmax(-1)
        if self.confusion == "uniform":
            return -logp_BK.mean(-1)
        right_B = logp_BK.gather(1, label_B[:, None]).squeeze(1)
        return right_B if self.confusion == "negative" else (right_B - logp_BK.sum(-1)) / (logp_BK.shape[-1] - 1)
