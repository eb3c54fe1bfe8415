"""Protocols of CARA and its baselines. N noise dimensions, P latent dimensions, K classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from weft.core.contracts import Classifies, Latent, Structure, TextAutoencoder, protocol
from weft.core.example import MarkedIds, surround
from weft.core.fields import Info, LabelField, TextField
from weft.core.registry import Build
from weft.core.seq import Seq


@protocol
class DiscriminatesLatents(Latent):
    """Has a sampler of latent codes, a latent classifier and a discriminator, for adversarial training in its latent space."""

    noise: int
    """N, the number of noise dimensions."""

    def fake_latents(self, noise_BN: Tensor) -> Tensor:
        """B x P: latent codes generated from noise."""
        raise TypeError(f"{type(self).__name__} has no fake_latents")

    def latent_logits(self, z_BP: Tensor) -> Tensor:
        """B x K class logits of latent codes."""
        raise TypeError(f"{type(self).__name__} has no latent_logits")

    def latent_scores(self, z_BP: Tensor) -> Tensor:
        """B discriminator scores of latent codes, high for codes of real texts."""
        raise TypeError(f"{type(self).__name__} has no latent_scores")


@protocol
class ClassifiesTexts:
    """Has an auxiliary classifier of texts of the field ``target``, which also accepts soft tokens."""

    text_classifier: Any

    def text_logits(self, x: Seq) -> Tensor:
        """B x K class logits of texts that end with EOS."""
        return self.text_classifier.classifier(self.text_classifier.features(x))


class AdversarialAutoencoder(TextAutoencoder, DiscriminatesLatents):
    """A text autoencoder with adversarial training in its latent space."""


class ClassifyingAutoencoder(TextAutoencoder, ClassifiesTexts):
    """A text autoencoder with an auxiliary classifier of texts."""


def build_text_classifier(build: Build[Structure], info: Info) -> Any:
    """Build the auxiliary text classifier. Raises ValueError if the structure does not classify."""
    text_classifier = build(info.single_text("target"))
    if Classifies not in text_classifier.provides():
        raise ValueError(
            f"text_classifier must be a structure that Classifies, such as classifier, not {type(text_classifier).__name__}"
        )
    return text_classifier


def with_eos(text: np.ndarray | MarkedIds, field: TextField) -> np.ndarray | MarkedIds:
    """A real text with EOS, which generated texts have too."""
    return surround((), text, (field.special.eos,))


def label_field(info: Info) -> LabelField:
    """The label field. Raises ValueError unless there is one class per text, and at least two classes."""
    label = info["label"]
    if not isinstance(label, LabelField):
        raise ValueError(f"needs one class per text, but the field 'label' of the data ({info.data}) is of kind {label.kind}")
    if label.labels and len(label.labels) < 2:
        raise ValueError(f"needs at least two classes, but the data ({info.data}) has only {', '.join(label.labels)}")
    return label
