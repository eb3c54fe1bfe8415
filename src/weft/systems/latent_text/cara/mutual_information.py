"""Steps 4 and 5 of CARA: train the text classifier, and the decoder against it (mutual information of class and text).

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
from weft.systems.latent_text.cara.protocols import ClassifiesTexts, ClassifyingAutoencoder, label_field, with_eos


@block("cara-text-classifier")
class CARATextClassifier(Objective[ClassifiesTexts]):
    """Trains the text classifier on real texts.

    loss = CE(text_classifier(x), y)

    Generated texts are not used: text classifier and decoder could agree on an artificial encoding of the class.

    Li et al. 2020, Complementary Auxiliary Classifiers for Label-Conditional Text Generation (AAAI)

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> info = Info({"target": TextField("target", 10), "label": LabelField("label", 2)}, target="target")
        >>> CARATextClassifier(info, 8).prepare({"target": np.array([7, 8]), "label": 1}, None, None)["text"].tolist()
        [7, 8, 2]
    """

    needs = (ClassifiesTexts,)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.target, self.label = info.text("target"), label_field(info)

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance | None:
        return Instance(text=with_eos(example["target"], self.target), label=int(example["label"]))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"text_classifier": len(batch), "text_accuracy": len(batch)}

    def forward(self, model: ClassifiesTexts, batch: Batch, clock: Clock) -> Loss:
        logits_BK = model.text_logits(batch["text"])
        correct = (logits_BK.argmax(-1) == batch["label"]).sum().float()
        return Loss(
            text_classifier=Term(F.cross_entropy(logits_BK, batch["label"], reduction="sum"), len(batch)),
            text_accuracy=Term(correct, len(batch), 0.0, higher_is_better=True),
        )


@block("cara-mutual-information")
class CARAMutualInformation(Objective[ClassifyingAutoencoder]):
    """Maximizes a lower bound of the mutual information of class and generated text: trains encoder and decoder.

    loss = weight CE(text_classifier(x'), y'),  x' = decoder(encoder(x), y') decoded with Gumbel-softmax,  y' a random class

    The text classifier is frozen; gradients flow through it and through the soft tokens. In evaluation the weight is 1 and x' is
    not sampled. Terms of weight 0: ``target_accuracy``, the fraction of texts classified as y', and ``unfinished``, the fraction
    of texts truncated at ``max_length``.

    Li et al. 2020, Complementary Auxiliary Classifiers for Label-Conditional Text Generation (AAAI); Gumbel-softmax: Jang et al.
    2017, https://arxiv.org/abs/1611.01144

    Args:
        weight: Annealing schedule of the weight over the updates of this phase; an increasing weight is CARA_A.
        max_length: Maximum number of generated tokens.
        temperature: Temperature of the Gumbel-softmax.
        straight_through: Whether to decode hard tokens with the gradient of the soft ones.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> label = LabelField("label", 2)
        >>> info = Info({"source": TextField("source", 9), "target": TextField("target", 9), "label": label}, target="target")
        >>> row = CARAMutualInformation(info, 8).prepare({"source": np.array([7, 8]), "label": 1}, np.random.default_rng(0), None)
        >>> row["target_label"] in (0, 1)
        True
    """

    needs = (Decodes, Latent, ClassifiesTexts)

    def __init__(
        self,
        info: Info,
        dim: int,
        *,
        weight: Build[Annealing] = ConstantAnnealing,
        max_length: Count = 16,
        temperature: Positive = 0.5,
        straight_through: bool = False,
    ):
        super().__init__(info, dim)
        self.source, self.label, self.weight = info.text("source"), label_field(info), weight()
        self.max_length, self.temperature, self.straight_through = max_length, temperature, straight_through

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        source = self.source.frame.around([example["source"]])
        return Instance(source=source, target_label=int(rng.integers(self.label.classes)))

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mutual_information": len(batch), "target_accuracy": len(batch), "unfinished": len(batch)}

    def forward(self, model: ClassifyingAutoencoder, batch: Batch, clock: Clock) -> Loss:
        memory = model.memory_from(model.posterior(batch["source"]).mean_BP, batch["target_label"])
        text = soft_decode(
            model, memory, max_length=self.max_length, temperature=self.temperature, straight_through=self.straight_through
        )
        logits_BK = model.text_logits(text)
        weight = self.weight.weight(clock.progress) if self.training else 1.0
        correct = (logits_BK.argmax(-1) == batch["target_label"]).sum().float()
        return Loss(
            mutual_information=Term(F.cross_entropy(logits_BK, batch["target_label"], reduction="sum"), len(batch), weight),
            target_accuracy=Term(correct, len(batch), 0.0, higher_is_better=True),
            unfinished=Term(count_unfinished(text, model.target.special.eos), len(batch), 0.0),
        )
