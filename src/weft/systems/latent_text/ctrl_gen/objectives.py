"""Generator and discriminator loss of Ctrl-Gen, on texts generated from the prior (sleep phases).

P latent dimensions, K classes; other suffixes: see seq.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Decodes, Latent, Objective, Variational
from weft.core.example import Example
from weft.core.fields import Info, TextField
from weft.core.loss import Loss, Term
from weft.core.options import Count, NonNegative, Positive
from weft.core.registry import block
from weft.core.seq import Seq
from weft.generate.soft_decoding import count_unfinished, soft_decode
from weft.objectives.elbo import standard_normal
from weft.systems.latent_text.cara.protocols import ClassifiesTexts, ClassifyingAutoencoder, label_field, with_eos


class PriorTextObjective(Objective[ClassifyingAutoencoder]):
    """Samples a class and a latent code, and decodes a text from them with Gumbel-softmax."""

    needs = (Decodes, Latent, Variational, ClassifiesTexts)

    def __init__(self, info: Info, dim: int, max_length: int, temperature: float):
        super().__init__(info, dim)
        self.target, self.label = info.text("target"), label_field(info)
        self.max_length, self.temperature = max_length, temperature

    def sample_condition(self, rng: np.random.Generator) -> dict[str, int]:
        """Target label, and the seed of the latent code."""
        return {"target_label": int(rng.integers(self.label.classes)), "seed": int(rng.integers(2**63))}

    def generate(self, model: ClassifyingAutoencoder, z_BP: Tensor, batch: Batch) -> Seq:
        """Decode soft tokens from latent codes and target labels."""
        memory = model.memory_from(z_BP, batch["target_label"])
        return soft_decode(model, memory, max_length=self.max_length, temperature=self.temperature)


@block("ctrl-gen-generator")
class CtrlGenGenerator(PriorTextObjective):
    """Generator loss of Ctrl-Gen: trains the decoder so that texts from the prior reveal their class and latent code.

    loss = class_weight CE(text_classifier(x'), y') - latent_weight log q(z | x'),
    x' = decoder(z, y') decoded with Gumbel-softmax,  z ~ N(0, 1),  y' a random class

    Encoder and text classifier are frozen; gradients flow through them. Generated texts are encoded again, so source and target
    need one vocabulary. Terms of weight 0: ``target_accuracy``, the fraction of texts classified as y', and ``unfinished``, the
    fraction of texts truncated at ``max_length``.

    Hu et al. 2017, https://arxiv.org/abs/1703.00955

    Args:
        class_weight: Weight of the class term, lambda_c in the paper.
        latent_weight: Weight of the latent term, lambda_z in the paper.
        max_length: Maximum number of generated tokens.
        temperature: Temperature of the Gumbel-softmax.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> label = LabelField("label", 2)
        >>> info = Info({"source": TextField("source", 9), "target": TextField("target", 9), "label": label}, target="target")
        >>> sorted(CtrlGenGenerator(info, 8).prepare({}, np.random.default_rng(0), None))
        ['seed', 'target_label']
    """

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        class_weight: NonNegative = 0.1,
        latent_weight: NonNegative = 0.1,
        max_length: Count = 16,
        temperature: Positive = 0.5,
    ):
        super().__init__(info, dim, max_length, temperature)
        self.class_weight, self.latent_weight = class_weight, latent_weight
        _check_vocabulary(info.text("source"), info.text("target"))

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return Instance(**self.sample_condition(rng))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"class": len(batch), "latent": len(batch), "target_accuracy": len(batch), "unfinished": len(batch)}

    def forward(self, model: ClassifyingAutoencoder, batch: Batch, clock: Clock) -> Loss:
        count, z_BP = len(batch), _sample_prior(model, batch)
        text = self.generate(model, z_BP, batch)
        logits_BK, posterior = model.text_logits(text), model.posterior(text)
        logvar_BP = posterior.logvar_BP
        assert logvar_BP is not None  # needs Variational
        nll_BP = 0.5 * ((z_BP - posterior.mean_BP) ** 2 * (-logvar_BP).exp() + logvar_BP + math.log(2 * math.pi))
        correct = (logits_BK.argmax(-1) == batch["target_label"]).sum().float()
        return Loss(
            {
                "class": Term(F.cross_entropy(logits_BK, batch["target_label"], reduction="sum"), count, self.class_weight),
                "latent": Term(nll_BP.sum(), count, self.latent_weight),
                "target_accuracy": Term(correct, count, 0.0, higher_is_better=True),
                "unfinished": Term(count_unfinished(text, self.target.special.eos), count, 0.0),
            }
        )


@block("ctrl-gen-discriminator")
class CtrlGenDiscriminator(PriorTextObjective):
    """Discriminator loss of Ctrl-Gen: trains the text classifier on real texts and, with an entropy term, on generated ones.

    loss = CE(text_classifier(x), y) + generated_weight (CE(text_classifier(x'), y') + entropy_weight H(text_classifier(x'))),
    x' = decoder(z, y') decoded with Gumbel-softmax,  z ~ N(0, 1),  y' a random class

    Hu et al. 2017, https://arxiv.org/abs/1703.00955

    Args:
        generated_weight: Weight of generated texts, lambda_u in the paper; 0 = real texts only.
        entropy_weight: Weight of the entropy H, beta in the paper.
        max_length: Maximum number of generated tokens.
        temperature: Temperature of the Gumbel-softmax.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> info = Info({"target": TextField("target", 9), "label": LabelField("label", 2)}, "target")
        >>> row = CtrlGenDiscriminator(info, 8).prepare({"target": np.array([7, 8]), "label": 1}, np.random.default_rng(0), None)
        >>> row["text"].tolist()
        [7, 8, 2]
    """

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        generated_weight: NonNegative = 0.1,
        entropy_weight: NonNegative = 0.1,
        max_length: Count = 16,
        temperature: Positive = 0.5,
    ):
        super().__init__(info, dim, max_length, temperature)
        self.generated_weight, self.entropy_weight = generated_weight, entropy_weight

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        text = with_eos(example["target"], self.target)
        return Instance(text=text, label=int(example["label"]), **self.sample_condition(rng))

    def counts(self, batch: Batch) -> dict[str, int]:
        return dict.fromkeys(["real", *(["generated", "entropy"] if self.generated_weight else [])], len(batch))

    def forward(self, model: ClassifyingAutoencoder, batch: Batch, clock: Clock) -> Loss:
        count = len(batch)
        real = F.cross_entropy(model.text_logits(batch["text"]), batch["label"], reduction="sum")
        loss = Loss(real=Term(real, count))
        if self.generated_weight:
            with torch.no_grad():
                text = self.generate(model, _sample_prior(model, batch), batch)
            logp_BK = model.text_logits(text).log_softmax(-1)
            loss["generated"] = Term(F.nll_loss(logp_BK, batch["target_label"], reduction="sum"), count, self.generated_weight)
            entropy = -(logp_BK.exp() * logp_BK).sum()
            loss["entropy"] = Term(entropy, count, self.generated_weight * self.entropy_weight)
        return loss


def _sample_prior(model: ClassifyingAutoencoder, batch: Batch) -> Tensor:
    """B x P: latent codes sampled from N(0, 1), one per row."""
    return standard_normal(batch, model.latent).to(next(model.parameters()).dtype)


def _check_vocabulary(source: TextField, target: TextField) -> None:
    """Raise ValueError if generated tokens cannot be encoded as they are."""
    frame, eos = source.frame, target.special.eos
    if source.space != target.space or frame.first or frame.last != (eos,):
        raise ValueError(
            "generated texts are encoded again, so source and target need the same vocabulary and no special tokens but EOS; "
            "use one tokenizer, such as bpe or word, and no target_tokenizer"
        )
