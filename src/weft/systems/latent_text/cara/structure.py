"""CARA and ARAE: a text, a place in a latent space, the text again, and the networks that play over that space.

P width of the latent space, N of the noise, K classes; other suffixes: see seq.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.blocks import CNN, MLP, BatchNorm, LatentEmbedding, LeakyReLU, Linear, MaxPooler, MeanPooler, UnitNorm
from weft.core.batch import Batch
from weft.core.contracts import (
    Encoder,
    Encodes,
    Injection,
    Latent,
    Norm,
    Pooler,
    Posterior,
    Structure,
    Transform,
)
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq
from weft.models.classifier import Classifier
from weft.models.language_model import LanguageModel
from weft.models.latent_decoder import DecodesFromLatent, LatentDecoder
from weft.models.text_encoder import TextEncoder
from weft.models.text_vae import source_encoder
from weft.systems.latent_text.cara.decoders import DecoderPerClass
from weft.systems.latent_text.cara.protocols import ClassifiesTexts, DiscriminatesLatents, build_text_classifier, label_field

EMBEDDED: list[Build[Injection]] = [LatentEmbedding]
SAMPLER = partial(MLP, hidden=[128, 128], batch_norm=BatchNorm)
CLASSIFIER = partial(MLP, hidden=[128, 128])
DISCRIMINATOR = partial(MLP, hidden=[128, 128], activation=LeakyReLU)
TEXT_CLASSIFIER = partial(Classifier, dim=64, encoder=partial(CNN, layers=1), pooler=MaxPooler)


class LatentAutoencoder(Structure, Encodes, DecodesFromLatent, Latent, DiscriminatesLatents):
    """What CARA and ARAE have in common; they differ in ``decoder``."""

    class_conditional = samples_by_label = True
    decoder: Any

    def _play(
        self,
        info: Info,
        latent: int,
        noise: int,
        encoder: Build[Structure],
        top_encoder: Build[Encoder] | None,
        pooler: Build[Pooler],
        norm: Build[Norm] | None,
        sampler: Build[Transform],
        classifier: Build[Transform],
        discriminator: Build[Transform],
    ) -> None:
        """Build all but the decoder."""
        label = label_field(info)
        self.latent, self.noise = latent, noise
        self.encoder = source_encoder(encoder, info)
        self.top_encoder = None if top_encoder is None else top_encoder(self.encoder.dim)
        self.pooler = pooler(self.encoder.dim)
        self.to_latent = Linear(self.encoder.dim, latent)
        self.norm = None if norm is None else norm(latent)
        self.sampler = sampler(noise, latent)
        self.classifier = classifier(latent, label.vocab)
        self.discriminator = discriminator(latent, 1)

    # ------------------------------------------------------------------------------------------------- to the latent space

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        read = self.encoder.encode(x, mask)
        return read if self.top_encoder is None else self.top_encoder(read, mask)

    def posterior(self, x: Seq) -> Posterior:
        return Posterior(self._placed(self.to_latent(self.pooler(self.encode(x)))))

    def fake(self, noise_BN: Tensor) -> Tensor:
        return self._placed(self.sampler(noise_BN))

    def _placed(self, z_BP: Tensor) -> Tensor:
        """Normalised as all places are, of texts and made ones, or the discriminator would tell them apart by their length."""
        return z_BP if self.norm is None else self.norm(z_BP)

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        weight = self.to_latent.weight
        return self.fake(torch.randn(rows, self.noise, device=weight.device, dtype=weight.dtype))

    def latent_logits(self, z_BP: Tensor) -> Tensor:
        return self.classifier(z_BP)

    def latent_scores(self, z_BP: Tensor) -> Tensor:
        return self.discriminator(z_BP).squeeze(-1)

    # -------------------------------------------------------------------------------------------------- and back to a text

    def memory(self, batch: Batch) -> Memory:
        label_B = batch["label"] if "label" in batch else None  # noqa: SIM401  (a batch has no get)
        return self.memory_from(self.posterior(batch["source"]).mean_BP, label_B)

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        return self.decoder.memory_from(z_BP, label_B)


@block("cara")
class CARA(LatentAutoencoder, ClassifiesTexts):
    """Class-conditional autoencoder with class-invariant latent codes and complementary auxiliary classifiers (CARA).

    z = norm(W pooler(encoder(x)) + b),  p(x | z, y) = prod_t p(x_t | x_<t, [z; v_y]),  made places norm(sampler(s)), s ~ N(0, 1)

    The classifier predicts the class from a latent code z, the discriminator separates latent codes of texts from generated ones,
    and the text classifier predicts the class of a text. Without a text classifier this is ARAE-. Encoder and decoder use one
    text in two fields, ``source`` and ``target``, which may have different tokenizers.

    Li et al. 2020, Complementary Auxiliary Classifiers for Label-Conditional Text Generation (AAAI);
    built on: Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        latent: P, width of the latent space.
        noise: N, width of what places are made of.
        label_dim: Width of the classes' vectors v.
        encoder: A structure that encodes: text-encoder, bert, pretrained.
        top_encoder: A network over what was read, such as a cnn of one layer; None = none.
        pooler: Makes one vector of what was read.
        norm: Normalisation of all places, of texts and made ones; None = none.
        decoder: A language model: language-model, gpt2, pretrained.
        injections: How z and the class enter what is written.
        sampler: Makes places of noise.
        classifier: Says the class of a place.
        discriminator: Says how real a place is.
        text_classifier: A structure that says the class of a text, and reads soft ids; None = nobody listens.
        weights: A run's folder from which all weights of the same name are taken; None = random ones.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label", labels=("bad", "good"))
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 11), "label": label}, target="target")
        >>> model = CARA(info, latent=4).eval()
        >>> model.prior(3).shape, model.text_logits(Seq(torch.tensor([[7, 8, 2]]))).shape
        (torch.Size([3, 4]), torch.Size([1, 2]))
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Dim = 128,
        noise: Dim = 32,
        label_dim: Dim = 32,
        encoder: Build[Structure] = partial(TextEncoder, head=None),
        top_encoder: Build[Encoder] | None = None,
        pooler: Build[Pooler] = MeanPooler,
        norm: Build[Norm] | None = UnitNorm,
        decoder: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] = EMBEDDED,
        sampler: Build[Transform] = SAMPLER,
        classifier: Build[Transform] = CLASSIFIER,
        discriminator: Build[Transform] = DISCRIMINATOR,
        text_classifier: Build[Structure] | None = TEXT_CLASSIFIER,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, weights=weights)
        self._play(info, latent, noise, encoder, top_encoder, pooler, norm, sampler, classifier, discriminator)
        self.decoder = LatentDecoder(info.single_text("target"), latent, decoder, injections, label_dim)
        self.text_classifier = None if text_classifier is None else build_text_classifier(text_classifier, info)
        self.target, self.dim = info["target"], self.decoder.dim

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        text_classifier = {} if self.text_classifier is None else {"text_classifier": self.text_classifier}
        return {"encoder": self.encoder, "decoder": self.decoder.model, **text_classifier}

    def provides(self) -> tuple[type, ...]:
        return tuple(p for p in super().provides() if p is not ClassifiesTexts or self.text_classifier is not None)


@block("arae")
class ARAE(LatentAutoencoder):
    """Writes a text again, or with another class, from a place that does not tell its class, with a decoder for each class.

    z = norm(W pooler(encoder(x)) + b),  p_y(x | z) = prod_t p_y(x_t | x_<t, z),  made places norm(sampler(s)), s ~ N(0, 1)

    The decoders of all classes have one head. Fields and other networks are those of cara.

    Zhao et al. 2018, https://arxiv.org/abs/1706.04223

    Args:
        latent: P, width of the latent space.
        noise: N, width of what places are made of.
        encoder: A structure that encodes: text-encoder, bert, pretrained.
        top_encoder: A network over what was read, such as a cnn of one layer; None = none.
        pooler: Makes one vector of what was read.
        norm: Normalisation of all places, of texts and made ones; None = none.
        decoder: A language model: language-model, gpt2, pretrained; there is one for each class.
        injections: How z enters what is written.
        sampler: Makes places of noise.
        classifier: Says the class of a place.
        discriminator: Says how real a place is.
        weights: A run's folder from which all weights of the same name are taken; None = random ones.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label", labels=("bad", "good"))
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 11), "label": label}, target="target")
        >>> len(ARAE(info, latent=4).decoder.models)
        2
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Dim = 128,
        noise: Dim = 32,
        encoder: Build[Structure] = partial(TextEncoder, head=None),
        top_encoder: Build[Encoder] | None = None,
        pooler: Build[Pooler] = MeanPooler,
        norm: Build[Norm] | None = UnitNorm,
        decoder: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] = EMBEDDED,
        sampler: Build[Transform] = SAMPLER,
        classifier: Build[Transform] = CLASSIFIER,
        discriminator: Build[Transform] = DISCRIMINATOR,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, weights=weights)
        self._play(info, latent, noise, encoder, top_encoder, pooler, norm, sampler, classifier, discriminator)
        self.decoder = DecoderPerClass(info.single_text("target"), latent, decoder, injections)
        self.target, self.dim = info["target"], self.decoder.dim

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        return {"encoder": self.encoder, "decoder": self.decoder.models}
