"""Steps 2 and 3 of CARA: discriminator and generator loss. P latent dimensions, K classes; other suffixes: see seq.py."""

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
"""Adversarial loss: Wasserstein (WGAN), or logistic, in which a score is a logit (GAN)."""


def real_loss(score_B: Tensor, loss: AdversarialLoss) -> Tensor:
    """B: loss of scores with the target real."""
    return F.softplus(-score_B) if loss == "logistic" else -score_B


def fake_loss(score_B: Tensor, loss: AdversarialLoss) -> Tensor:
    """B: loss of scores with the target fake."""
    return F.softplus(score_B) if loss == "logistic" else score_B


class AdversarialObjective(Objective[DiscriminatesLatents]):
    """Prepares a text, its class, and the seed of the noise of a fake latent code, for both adversarial objectives."""

    needs = (Latent, DiscriminatesLatents)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.source, self.label = info.text("source"), label_field(info)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        source = self.source.frame.around([example["source"]])
        seed, mix = int(rng.integers(2**63)), float(rng.random())
        return Instance(source=source, label=int(example["label"]), seed=seed, mix=mix)

    def fake_latents(self, model: DiscriminatesLatents, batch: Batch, like: Tensor) -> Tensor:
        """B x P: one generated latent code per text."""
        return model.fake_latents(standard_normal(batch, model.noise).to(like.dtype))


@block("cara-discriminator")
class CARADiscriminator(AdversarialObjective):
    """Trains the latent classifier and the discriminator of real and fake latent codes; all other networks are frozen.

    loss = CE(classifier(z), y) + discriminator,  z = encoder(x),  z' = sampler(eps)
    wasserstein: discriminator = D(z') - D(z) + penalty (|grad D(u z + (1 - u) z')| - 1)^2,  u uniform
    logistic:    discriminator = - log sigmoid(D(z)) - log(1 - sigmoid(D(z'))), and the same penalty

    D is high for latent codes of real texts. In evaluation there is no gradient penalty.

    Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223; the penalty: Gulrajani et al. 2017, https://arxiv.org/abs/1704.00028

    Args:
        loss: wasserstein or logistic.
        penalty: Weight of the gradient penalty.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> info = Info({"source": TextField("source", 10), "label": LabelField("label", 2)}, target="source")
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

    def forward(self, model: DiscriminatesLatents, batch: Batch, clock: Clock) -> Loss:
        count = len(batch)
        with torch.no_grad():
            real_BP = model.posterior(batch["source"]).mean_BP
            fake_BP = self.fake_latents(model, batch, real_BP)
        classifier = F.cross_entropy(model.latent_logits(real_BP), batch["label"], reduction="sum")
        discriminator_B = real_loss(model.latent_scores(real_BP), self.loss) + fake_loss(model.latent_scores(fake_BP), self.loss)
        penalty_B = torch.zeros_like(discriminator_B)
        if self.training and self.penalty:
            penalty_B = gradient_penalty(model.latent_scores, real_BP, fake_BP, batch["mix"])
        return Loss(
            classifier=Term(classifier, count),
            discriminator=Term(discriminator_B.sum(), count),
            penalty=Term(penalty_B.sum(), count, self.penalty),
        )


Confusion = Literal["uniform", "flip", "negative"]
"""Target of the classifier output: the uniform distribution, another class, or a low probability of the true class."""


@block("cara-generator")
class CARAGenerator(AdversarialObjective):
    """Generator loss: trains encoder and sampler against the latent classifier and the discriminator.

    loss = weight confusion(classifier(z)) + real_weight fake(D(z)) + real(D(z')),  z = encoder(x),  z' = sampler(eps)
    wasserstein: fake(D) = D, real(D) = -D;  logistic: fake(D) = - log(1 - sigmoid(D)), real(D) = - log sigmoid(D)
    uniform:  confusion = - 1/K sum_k log p(k | z), minimal at p = 1/K
    flip:     confusion = - 1/(K - 1) sum_{k != y} log p(k | z)
    negative: confusion = log p(y | z), unbounded below

    Classifier and discriminator are frozen; gradients flow through them.

    Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        loss: wasserstein or logistic, as in cara-discriminator.
        confusion: uniform, flip or negative.
        weight: Weight of the confusion term.
        real_weight: Weight of the term that moves latent codes of texts toward generated ones.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> info = Info({"source": TextField("source", 10), "label": LabelField("label", 2)}, target="source")
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

    def forward(self, model: DiscriminatesLatents, batch: Batch, clock: Clock) -> Loss:
        count, real_BP = len(batch), model.posterior(batch["source"]).mean_BP
        fake_BP = self.fake_latents(model, batch, real_BP)
        confused_B = self.confused(model.latent_logits(real_BP), batch["label"])
        return Loss(
            confusion=Term(confused_B.sum(), count, self.weight),
            real=Term(fake_loss(model.latent_scores(real_BP), self.loss).sum(), count, self.real_weight),
            fake=Term(real_loss(model.latent_scores(fake_BP), self.loss).sum(), count),
        )

    def confused(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        """B: confusion term of the classifier logits."""
        logp_BK = logits_BK.log_softmax(-1)
        if self.confusion == "uniform":
            return -logp_BK.mean(-1)
        true_B = logp_BK.gather(1, label_B[:, None]).squeeze(1)
        return true_B if self.confusion == "negative" else (true_B - logp_BK.sum(-1)) / (logp_BK.shape[-1] - 1)
