"""Steps 2 and 3 of CARA: the game over the latent space. P width of the latent space, K classes; other suffixes: see seq.py."""

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
from weft.objectives.elbo import noise_of
from weft.objectives.gradient_penalty import gradient_penalty
from weft.systems.latent_text.cara.protocols import Contests, classes_in

Game = Literal["wasserstein", "logistic"]
"""How scores are turned into losses: as they are (WGAN), or as log-odds (GAN)."""


def taken_as_real(score_B: Tensor, game: Game) -> Tensor:
    """The loss of what is to be scored as real."""
    return F.softplus(-score_B) if game == "logistic" else -score_B


def taken_as_made(score_B: Tensor, game: Game) -> Tensor:
    """The loss of what is to be scored as made."""
    return F.softplus(score_B) if game == "logistic" else score_B


class OnPlaces(Objective):
    """What judging and fooling have in common: a text, its class, and the noise that a place beside it is made of."""

    needs = (Latent, Contests)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.source, self.label = info["source"], classes_in(info)

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        read = self.source.frame.around([example["source"]])
        seed, share = int(rng.integers(2**63)), float(rng.random())
        return Instance(source=read, label=int(example["label"]), seed=seed, share=share)

    def made(self, model: Any, batch: Batch, like: Tensor) -> Tensor:
        """B x P: a made place for each text."""
        return model.made(noise_of(batch, model.noise).to(like.dtype))


@block("cara-judge")
class Judge(OnPlaces):
    """Say the class of a place, and whether it is that of a text or was made: for classifier and critic, all else stands still.

    loss = CE(classifier(z), y) + critic,  z = encoder(x),  z' = sampler(s)
    wasserstein: critic = D(z') - D(z) + penalty (|grad D(u z + (1 - u) z')| - 1)^2,  u uniform
    logistic:    critic = - log sigmoid(D(z)) - log(1 - sigmoid(D(z'))), and the same penalty

    D is high for what is real. In evaluation there is no penalty.

    Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223; the penalty: Gulrajani et al. 2017, https://arxiv.org/abs/1704.00028

    Args:
        game: How scores are turned into losses.
        penalty: The weight of the penalty.

    Example:
        >>> from weft.core.fields import Field
        >>> info = Info({"source": Field("source", 10), "label": Field("label", 2, kind="label")}, target="source")
        >>> row = Judge(info, 8).prepare({"source": np.array([7, 8]), "label": 1}, np.random.default_rng(0), None)
        >>> row["source"].tolist(), row["label"]
        ([7, 8, 2], 1)
    """

    def __init__(self, info: Info, dim: int, *, game: Game = "wasserstein", penalty: NonNegative = 0.1):
        super().__init__(info, dim)
        self.game: Game = game
        self.penalty = penalty

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"classifier": len(batch), "critic": len(batch), "penalty": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        rows = len(batch)
        with torch.no_grad():
            real_BP = model.posterior(batch["source"]).mean_BP
            made_BP = self.made(model, batch, real_BP)
        classifier = F.cross_entropy(model.classes_of(real_BP), batch["label"], reduction="sum")
        critic_B = taken_as_real(model.realness_of(real_BP), self.game) + taken_as_made(model.realness_of(made_BP), self.game)
        penalty_B = torch.zeros_like(critic_B)
        if self.training and self.penalty:
            penalty_B = gradient_penalty(model.realness_of, real_BP, made_BP, batch["share"])
        return Loss(
            classifier=Term(classifier, rows),
            critic=Term(critic_B.sum(), rows),
            penalty=Term(penalty_B.sum(), rows, self.penalty),
        )


Confusion = Literal["uniform", "flip", "negative"]
"""What the encoder wants the classifier to say: nothing (1/K for each class), another class, or anything but the right one."""


@block("cara-fool")
class Fool(OnPlaces):
    """Hide the class of a text from the classifier, and make places that the critic takes for real: for encoder and sampler.

    loss = weight confusion(classifier(z)) + real_weight made(D(z)) + real(D(z')),  z = encoder(x),  z' = sampler(s)
    wasserstein: made(D) = D, real(D) = -D;  logistic: made(D) = - log(1 - sigmoid(D)), real(D) = - log sigmoid(D)
    uniform:  confusion = - 1/K sum_k log p(k | z), least at p = 1/K
    flip:     confusion = - 1/(K - 1) sum_{k != y} log p(k | z)
    negative: confusion = log p(y | z), which has no bottom

    Classifier and critic stand still, the gradient goes through them.

    Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        game: How scores are turned into losses; as in cara-judge.
        confusion: What the classifier is to say.
        weight: The weight of the confusion.
        real_weight: The weight of places of texts that are to look made.

    Example:
        >>> from weft.core.fields import Field
        >>> info = Info({"source": Field("source", 10), "label": Field("label", 2, kind="label")}, target="source")
        >>> Fool(info, 8).confused(torch.zeros(1, 2), torch.tensor([1])).item()
        0.6931471824645996
    """

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        game: Game = "wasserstein",
        confusion: Confusion = "uniform",
        weight: NonNegative = 1.0,
        real_weight: NonNegative = 0.01,
    ):
        super().__init__(info, dim)
        self.game: Game = game
        self.confusion, self.weight, self.real_weight = confusion, weight, real_weight

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"confusion": len(batch), "real": len(batch), "made": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        rows, real_BP = len(batch), model.posterior(batch["source"]).mean_BP
        made_BP = self.made(model, batch, real_BP)
        confused_B = self.confused(model.classes_of(real_BP), batch["label"])
        return Loss(
            confusion=Term(confused_B.sum(), rows, self.weight),
            real=Term(taken_as_made(model.realness_of(real_BP), self.game).sum(), rows, self.real_weight),
            made=Term(taken_as_real(model.realness_of(made_BP), self.game).sum(), rows),
        )

    def confused(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        """B losses."""
        logp_BK = logits_BK.log_softmax(-1)
        if self.confusion == "uniform":
            return -logp_BK.mean(-1)
        right_B = logp_BK.gather(1, label_B[:, None]).squeeze(1)
        return right_B if self.confusion == "negative" else (right_B - logp_BK.sum(-1)) / (logp_BK.shape[-1] - 1)
