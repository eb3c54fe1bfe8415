"""Steps 4 and 5 of CARA: a text classifier learns which class a text has, and the decoder to be text_accuracy by it.

K classes; other suffixes: see seq.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch.nn.functional as F

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import Annealing, Decodes, Latent, Objective
from weft.core.example import Example
from weft.core.fields import Info
from weft.core.loss import Loss, Term
from weft.core.options import Count, Positive
from weft.core.registry import Build, block
from weft.generate.soft_decoding import count_unfinished, soft_decode
from weft.objectives.annealing import ConstantAnnealing
from weft.systems.latent_text.cara.protocols import ClassifiesTexts, label_field, with_eos


@block("cara-text-classifier")
class CARATextClassifier(Objective):
    """Say the class of a real text: for the text classifier.

    loss = CE(text_classifier(x), y)

    The text classifier never learns from texts that were written here: it and the decoder could agree on a code of their own.

    Li et al. 2020, Complementary Auxiliary Classifiers for Label-Conditional Text Generation (AAAI)

    Example:
        >>> from weft.core.fields import Field
        >>> info = Info({"target": Field("target", 10), "label": Field("label", 2, kind="label")}, target="target")
        >>> CARATextClassifier(info, 8).prepare({"target": np.array([7, 8]), "label": 1}, None, None)["text"].tolist()
        [7, 8, 2]
    """

    needs = (ClassifiesTexts,)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.target, self.label = info["target"], label_field(info)

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(text=with_eos(example["target"], self.target), label=int(example["label"]))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"text_classifier": len(batch), "text_accuracy": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        logits_BK = model.text_logits(batch["text"])
        right = (logits_BK.argmax(-1) == batch["label"]).sum().float()
        return Loss(
            text_classifier=Term(F.cross_entropy(logits_BK, batch["label"], reduction="sum"), len(batch)),
            text_accuracy=Term(right, len(batch), 0.0, higher_is_better=True),
        )


@block("cara-mutual-information")
class CARAMutualInformation(Objective):
    """Write with another class, drawn at random, so that the text classifier hears it: for encoder and decoder.

    loss = weight CE(text_classifier(x'), y'),  x' = decoder(encoder(x), y') in soft ids,  y' uniform over the classes

    The text classifier is frozen; gradients flow through it and through the soft ids. In evaluation the weight is 1 and x' is not
    sampled. ``unfinished`` has weight 0: the fraction of texts that were truncated at ``length``.

    Li et al. 2020, Complementary Auxiliary Classifiers for Label-Conditional Text Generation (AAAI); soft ids: Jang et al. 2017,
    https://arxiv.org/abs/1611.01144

    Args:
        weight: The weight over the updates of this phase; growing weights are what CARA_A is.
        length: Most tokens to write.
        temperature: That of the soft ids.
        straight_through: Whether single symbols are written, with the gradient of the soft ids.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label")
        >>> info = Info({"source": Field("source", 9), "target": Field("target", 9), "label": label}, target="target")
        >>> row = CARAMutualInformation(info, 8).prepare({"source": np.array([7, 8]), "label": 1}, np.random.default_rng(0), None)
        >>> row["wish"] in (0, 1)
        True
    """

    needs = (Decodes, Latent, ClassifiesTexts)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        weight: Build[Annealing] = ConstantAnnealing,
        length: Count = 16,
        temperature: Positive = 0.5,
        straight_through: bool = False,
    ):
        super().__init__(info, dim)
        self.source, self.label, self.weight = info["source"], label_field(info), weight()
        self.length, self.temperature, self.straight_through = length, temperature, straight_through

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        return Instance(source=self.source.frame.around([example["source"]]), wish=int(rng.integers(self.label.vocab)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mutual_information": len(batch), "target_accuracy": len(batch), "unfinished": len(batch)}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        memory = model.memory_from(model.posterior(batch["source"]).mean_BP, batch["wish"])
        text = soft_decode(
            model, memory, max_length=self.length, temperature=self.temperature, straight_through=self.straight_through
        )
        logits_BK = model.text_logits(text)
        weight = self.weight.weight(clock.progress) if self.training else 1.0
        right = (logits_BK.argmax(-1) == batch["wish"]).sum().float()
        return Loss(
            mutual_information=Term(F.cross_entropy(logits_BK, batch["wish"], reduction="sum"), len(batch), weight),
            target_accuracy=Term(right, len(batch), 0.0, higher_is_better=True),
            unfinished=Term(count_unfinished(text, model.target.special.eos), len(batch), 0.0),
        )
