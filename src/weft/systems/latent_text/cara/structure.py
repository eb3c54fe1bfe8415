"""CARA and ARAE: class-conditional text autoencoders with adversarial training in the latent space.

P latent dimensions, N noise dimensions, K classes; other suffixes: see seq.py.
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
    Injection,
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
from weft.systems.latent_text.cara.protocols import AdversarialAutoencoder, ClassifiesTexts, build_text_classifier, label_field

EMBEDDED: list[Build[Injection]] = [LatentEmbedding]
SAMPLER = partial(MLP, hidden=[128, 128], batch_norm=BatchNorm)
CLASSIFIER = partial(MLP, hidden=[128, 128])
DISCRIMINATOR = partial(MLP, hidden=[128, 128], activation=LeakyReLU)
TEXT_CLASSIFIER = partial(Classifier, dim=64, encoder=partial(CNN, layers=1), pooler=MaxPooler)


class LatentAutoencoder(AdversarialAutoencoder, DecodesFromLatent):
    """Encoder, sampler, latent classifier and discriminator of CARA and ARAE, which differ in ``decoder``."""

    class_conditional = samples_by_label = True
    decoder: Any

    def _build_latent_networks(
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
        """Build all networks except the decoder."""
        label = label_field(info)
        self.latent, self.noise = latent, noise
        self.encoder = source_encoder(encoder, info)
        self.top_encoder = None if top_encoder is None else top_encoder(self.encoder.dim)
        self.pooler = pooler(self.encoder.dim)
        self.to_latent = Linear(self.encoder.dim, latent)
        self.norm = None if norm is None else norm(latent)
        self.sampler = sampler(noise, latent)
        self.classifier = classifier(latent, label.classes)
        self.discriminator = discriminator(latent, 1)

    # ---------------------------------------------------------------------------------------------------------------- encoding

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        hidden = self.encoder.encode(x, mask)
        return hidden if self.top_encoder is None else self.top_encoder(hidden, mask)

    def posterior(self, x: Seq) -> Posterior:
        return Posterior(self._normalize(self.to_latent(self.pooler(self.encode(x)))))

    def fake_latents(self, noise_BN: Tensor) -> Tensor:
        return self._normalize(self.sampler(noise_BN))

    def _normalize(self, z_BP: Tensor) -> Tensor:
        """Normalize real and generated latent codes alike, or the discriminator would separate them by their norm."""
        return z_BP if self.norm is None else self.norm(z_BP)

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        weight = self.to_latent.weight
        return self.fake_latents(torch.randn(rows, self.noise, device=weight.device, dtype=weight.dtype))

    def latent_logits(self, z_BP: Tensor) -> Tensor:
        return self.classifier(z_BP)

    def latent_scores(self, z_BP: Tensor) -> Tensor:
        return self.discriminator(z_BP).squeeze(-1)

    # ---------------------------------------------------------------------------------------------------------------- decoding

    def memory(self, batch: Batch) -> Memory:
        label_B = batch["label"] if "label" in batch else None  # noqa: SIM401  (a batch has no get)
        return self.memory_from(self.posterior(batch["source"]).mean_BP, label_B)

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        return self.decoder.memory_from(z_BP, label_B)


@block("cara")
class CARA(LatentAutoencoder, ClassifiesTexts):
    """Class-conditional autoencoder with class-invariant latent codes and complementary auxiliary classifiers (CARA).

    z = norm(W pooler(encoder(x)) + b),  p(x | z, y) = prod_t p(x_t | x_<t, [z; v_y]),  z' = norm(sampler(eps)), eps ~ N(0, 1)

    The classifier predicts the class from a latent code z, the discriminator separates latent codes of texts from fake ones,
    and the text classifier predicts the class of a text. Without a text classifier this is ARAE-. Encoder and decoder use one
    text in two fields, ``source`` and ``target``, which may have different tokenizers.

    Li et al. 2020, Complementary Auxiliary Classifiers for Label-Conditional Text Generation (AAAI);
    built on: Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        latent: P, number of latent dimensions.
        noise: N, number of noise dimensions of the sampler.
        label_dim: Dimension of the class embeddings v.
        encoder: A structure that Encodes: text-encoder, bert, pretrained.
        top_encoder: Encoder on top of the encoder outputs, such as a cnn of one layer; None = none.
        pooler: Pools the encoder outputs to one vector.
        norm: Normalization of all latent codes, real and generated; None = none.
        decoder: A language model: language-model, gpt2, pretrained.
        injections: How z and the class condition the decoder.
        sampler: Transform from noise to a latent code.
        classifier: Classifier of latent codes.
        discriminator: Discriminator of real and fake latent codes.
        text_classifier: Auxiliary classifier of texts that accepts soft tokens; None = none (ARAE-).
        weights: Run folder to initialize weights of the same name from; None = random initialization.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> label = LabelField("label", 2, labels=("bad", "good"))
        >>> info = Info({"source": TextField("source", 11), "target": TextField("target", 11), "label": label}, target="target")
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
        self._build_latent_networks(info, latent, noise, encoder, top_encoder, pooler, norm, sampler, classifier, discriminator)
        self.decoder = LatentDecoder(info.single_text("target"), latent, decoder, injections, label_dim)
        self.text_classifier = None if text_classifier is None else build_text_classifier(text_classifier, info)
        self.target, self.dim = info.text("target"), self.decoder.dim

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        text_classifier = {} if self.text_classifier is None else {"text_classifier": self.text_classifier}
        return {"encoder": self.encoder, "decoder": self.decoder.model, **text_classifier}

    def provides(self) -> tuple[type, ...]:
        return tuple(p for p in super().provides() if p is not ClassifiesTexts or self.text_classifier is not None)


@block("arae")
class ARAE(LatentAutoencoder):
    """Adversarially regularized autoencoder with class-invariant latent codes and one decoder per class (ARAE).

    z = norm(W pooler(encoder(x)) + b),  p_y(x | z) = prod_t p_y(x_t | x_<t, z),  z' = norm(sampler(eps)), eps ~ N(0, 1)

    The decoders share one head. Fields and the other networks are those of cara.

    Zhao et al. 2018, https://arxiv.org/abs/1706.04223

    Args:
        latent: P, number of latent dimensions.
        noise: N, number of noise dimensions of the sampler.
        encoder: A structure that Encodes: text-encoder, bert, pretrained.
        top_encoder: Encoder on top of the encoder outputs, such as a cnn of one layer; None = none.
        pooler: Pools the encoder outputs to one vector.
        norm: Normalization of all latent codes, real and generated; None = none.
        decoder: A language model: language-model, gpt2, pretrained; one is built per class.
        injections: How z conditions the decoder.
        sampler: Transform from noise to a latent code.
        classifier: Classifier of latent codes.
        discriminator: Discriminator of real and fake latent codes.
        weights: Run folder to initialize weights of the same name from; None = random initialization.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> label = LabelField("label", 2, labels=("bad", "good"))
        >>> info = Info({"source": TextField("source", 11), "target": TextField("target", 11), "label": label}, target="target")
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
        self._build_latent_networks(info, latent, noise, encoder, top_encoder, pooler, norm, sampler, classifier, discriminator)
        self.decoder = DecoderPerClass(info.single_text("target"), latent, decoder, injections)
        self.target, self.dim = info.text("target"), self.decoder.dim

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        return {"encoder": self.encoder, "decoder": self.decoder.models}
