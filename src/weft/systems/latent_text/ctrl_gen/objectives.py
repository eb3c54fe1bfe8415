"""The sleep phases of Ctrl-Gen: what is written from the prior shall tell its class and its place.

P width of the latent space, K classes; other suffixes: see seq.py.
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
from weft.core.fields import Field, Info
from weft.core.loss import Loss, Term
from weft.core.options import Count, NonNegative, Positive
from weft.core.registry import block
from weft.core.seq import Seq
from weft.generate.soft_decoding import count_unfinished, soft_decode
from weft.objectives.elbo import standard_normal
from weft.systems.latent_text.cara.protocols import ClassifiesTexts, label_field, with_eos


class FromPrior(Objective):
    """What both phases have in common: a class and a place are drawn, and a text is written from them in soft ids."""

    needs = (Decodes, Latent, Variational, ClassifiesTexts)

    def __init__(self, info: Info, dim: int, length: int, temperature: float):
        super().__init__(info, dim)
        self.target, self.label = info["target"], label_field(info)
        self.length, self.temperature = length, temperature

    def drawn(self, rng: np.random.Generator) -> dict[str, int]:
        """The class that is to be written, and the number that the place follows from."""
        return {"wish": int(rng.integers(self.label.vocab)), "seed": int(rng.integers(2**63))}

    def write(self, model: Any, z_BP: Tensor, batch: Batch) -> Seq:
        memory = model.memory_from(z_BP, batch["wish"])
        return soft_decode(model, memory, max_length=self.length, temperature=self.temperature)


@block("ctrl-gen-generator")
class CtrlGenGenerator(FromPrior):
    """Write from the prior so that the text classifier hears the class and the encoder finds the place again: for the decoder.

    loss = class_weight CE(text_classifier(x'), y') - latent_weight log q(z | x'),  x' = decoder(z, y') in soft ids,  z ~ N(0, 1),
    y' uniform over the classes

    Encoder and text classifier are frozen; gradients flow through them. Generated texts are encoded again, so source and target
    need one vocabulary. ``unfinished`` has weight 0: the fraction of texts that were truncated at ``length``.

    Hu et al. 2017, https://arxiv.org/abs/1703.00955

    Args:
        class_weight: The weight of the class, the paper's lambda_c.
        latent_weight: The weight of the place, the paper's lambda_z.
        length: Most tokens to write.
        temperature: That of the soft ids.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label")
        >>> info = Info({"source": Field("source", 9), "target": Field("target", 9), "label": label}, target="target")
        >>> sorted(CtrlGenGenerator(info, 8).prepare({}, np.random.default_rng(0), None))
        ['seed', 'wish']
    """

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        class_weight: NonNegative = 0.1,
        latent_weight: NonNegative = 0.1,
        length: Count = 16,
        temperature: Positive = 0.5,
    ):
        super().__init__(info, dim, length, temperature)
        self.class_weight, self.latent_weight = class_weight, latent_weight
        _same_vocabulary(info["source"], info["target"])

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return Instance(**self.drawn(rng))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"class": len(batch), "latent": len(batch), "target_accuracy": len(batch), "unfinished": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        rows, z_BP = len(batch), _places(model, batch)
        text = self.write(model, z_BP, batch)
        logits_BK, posterior = model.text_logits(text), model.posterior(text)
        logvar_BP = posterior.logvar_BP
        assert logvar_BP is not None  # it is Variational
        nll_BP = 0.5 * ((z_BP - posterior.mean_BP) ** 2 * (-logvar_BP).exp() + logvar_BP + math.log(2 * math.pi))
        right = (logits_BK.argmax(-1) == batch["wish"]).sum().float()
        return Loss(
            {
                "class": Term(F.cross_entropy(logits_BK, batch["wish"], reduction="sum"), rows, self.class_weight),
                "latent": Term(nll_BP.sum(), rows, self.latent_weight),
                "target_accuracy": Term(right, rows, 0.0, higher_is_better=True),
                "unfinished": Term(count_unfinished(text, self.target.special.eos), rows, 0.0),
            }
        )


@block("ctrl-gen-discriminator")
class CtrlGenDiscriminator(FromPrior):
    """Train the text classifier on real texts and on texts generated from the prior, with an entropy penalty on the latter.

    loss = CE(text_classifier(x), y) + generated_weight (CE(text_classifier(x'), y') + entropy_weight H(text_classifier(x'))),
    x' = decoder(z, y') in soft ids,  z ~ N(0, 1),  y' uniform over the classes

    Hu et al. 2017, https://arxiv.org/abs/1703.00955

    Args:
        generated_weight: The weight of written texts, the paper's lambda_u; 0 = they are not written.
        entropy_weight: The weight of the entropy H, the paper's beta.
        length: Most tokens to write.
        temperature: That of the soft ids.

    Example:
        >>> from weft.core.fields import Field
        >>> info = Info({"target": Field("target", 9), "label": Field("label", 2, kind="label")}, "target")
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
        length: Count = 16,
        temperature: Positive = 0.5,
    ):
        super().__init__(info, dim, length, temperature)
        self.generated_weight, self.entropy_weight = generated_weight, entropy_weight

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        text = with_eos(example["target"], self.target)
        return Instance(text=text, label=int(example["label"]), **self.drawn(rng))

    def counts(self, batch: Batch) -> dict[str, int]:
        return dict.fromkeys(["real", *(["generated", "entropy"] if self.generated_weight else [])], len(batch))

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        rows = len(batch)
        real = F.cross_entropy(model.text_logits(batch["text"]), batch["label"], reduction="sum")
        loss = Loss(real=Term(real, rows))
        if self.generated_weight:
            with torch.no_grad():
                text = self.write(model, _places(model, batch), batch)
            logp_BK = model.text_logits(text).log_softmax(-1)
            loss["generated"] = Term(F.nll_loss(logp_BK, batch["wish"], reduction="sum"), rows, self.generated_weight)
            entropy = -(logp_BK.exp() * logp_BK).sum()
            loss["entropy"] = Term(entropy, rows, self.generated_weight * self.entropy_weight)
        return loss


def _places(model: Any, batch: Batch) -> Tensor:
    """B x P: places drawn from N(0, 1), one for each row."""
    return standard_normal(batch, model.latent).to(next(model.parameters()).dtype)


def _same_vocabulary(source: Field, target: Field) -> None:
    """Raise where what is written cannot be read again as it is."""
    frame, eos = source.frame, target.special.eos
    if source.space != target.space or frame.first or frame.last != (eos,):
        raise ValueError(
            "reads what it has written, so that both need one vocabulary and a text has its end mark alone around it: "
            "give the data one tokenizer of its own, such as bpe or word, and no target_tokenizer"
        )
