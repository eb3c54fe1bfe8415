"""What the networks of CARA and of its baselines can do. N width of the noise, P of the latent space, K classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from weft.core.contracts import Classifies, Structure, protocol
from weft.core.example import MarkedIds, surround
from weft.core.fields import Field, Info
from weft.core.registry import Build
from weft.core.seq import Seq


@protocol
class DiscriminatesLatents:
    """Has networks that play against each other over its latent space: places of texts, and places made of noise."""

    noise: int
    """N."""

    def fake(self, noise_BN: Tensor) -> Tensor:
        """B x P: places made of noise."""
        raise TypeError(f"{type(self).__name__} has no made")

    def latent_logits(self, z_BP: Tensor) -> Tensor:
        """B x K logits: the class of the text that stands at a place."""
        raise TypeError(f"{type(self).__name__} has no latent_logits")

    def latent_scores(self, z_BP: Tensor) -> Tensor:
        """B scores: larger where a place is rather that of a text than made."""
        raise TypeError(f"{type(self).__name__} has no latent_scores")


@protocol
class ClassifiesTexts:
    """Has a classifier of texts, ``text_classifier``, that hears which class a text of the field ``target`` has, soft ids too."""

    text_classifier: Any

    def text_logits(self, x: Seq) -> Tensor:
        """B x K logits: the class of a text, which ends with its end mark."""
        return self.text_classifier.classifier(self.text_classifier.features(x))


def build_text_classifier(build: Build[Structure], info: Info) -> Any:
    """A classifier of the texts that are written."""
    text_classifier = build(info.single_text("target"))
    if Classifies not in text_classifier.provides():
        raise ValueError(f"what listens must say a class, as a classifier does, but a {type(text_classifier).__name__} does not")
    return text_classifier


def with_eos(text: np.ndarray | MarkedIds, field: Field) -> np.ndarray | MarkedIds:
    """A real text as the text classifier reads it: with its end mark, as a written one has it."""
    return surround((), text, (field.special.eos,))


def label_field(info: Info) -> Field:
    """The field of classes. Raises ValueError where there are fewer than two."""
    label = info["label"]
    if label.kind != "label":
        raise ValueError(f"needs one class a text, but in the data ({info.data}) the field 'label' is a {label.kind}")
    if label.labels and len(label.labels) < 2:
        raise ValueError(f"needs texts of two classes or more, but the data ({info.data}) has {', '.join(label.labels)} alone")
    return label
