"""CARA and ARAE: a text, a place in a latent space, the text again, and the networks that play over that space.

P width of the latent space, N of the noise, K classes; other suffixes: see seq.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.blocks import CNN, MLP, BatchNorm, LatentEmbedding, LeakyReLU, Linear, Max, Mean, UnitNorm
from weft.core.batch import Batch
from weft.core.contracts import (
    Classifies,
    Decodes,
    Encoder,
    Encodes,
    Injection,
    Latent,
    Norm,
    Pooler,
    Posterior,
    Reconstructs,
    Structure,
    Transform,
)
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq
from weft.models.classifier import Classifier
from weft.models.language_model import LanguageModel
from weft.models.latent_decoder import LatentDecoder, Writes
from weft.models.text_encoder import TextEncoder
from weft.systems.latent_text.cara.decoders import WriterByClass
from weft.systems.latent_text.cara.protocols import Contests, Listens, classes_in, listener_of

EMBEDDED: list[Build[Injection]] = [LatentEmbedding]
SAMPLER = partial(MLP, hidden=[128, 128], batch_norm=BatchNorm)
CLASSIFIER = partial(MLP, hidden=[128, 128])
CRITIC = partial(MLP, hidden=[128, 128], activation=LeakyReLU)
LISTENER = partial(Classifier, dim=64, encoder=partial(CNN, layers=1), pooler=Max)


class Transfers(Structure, Encodes, Writes, Latent, Contests):
    """What CARA and ARAE have in common; they differ in ``writer``."""

    labelled = samples_by_label = True
    writer: Any

    def _play(
        self,
        info: Info,
        latent: int,
        noise: int,
        reader: Build[Structure],
        encoder: Build[Encoder] | None,
        pooler: Build[Pooler],
        norm: Build[Norm] | None,
        sampler: Build[Transform],
        classifier: Build[Transform],
        critic: Build[Transform],
    ) -> None:
        """Build all but the writer."""
        label = classes_in(info)
        self.latent, self.noise = latent, noise
        self.reader: Any = reader(info.alone("source"))
        if Encodes not in self.reader.provides() or {Decodes, Reconstructs, Classifies} & set(self.reader.provides()):
            raise ValueError(
                f"what reads must encode and do nothing else, as a text-encoder does (pretrained: task: encode), "
                f"but this is a {type(self.reader).__name__}"
            )
        self.encoder = None if encoder is None else encoder(self.reader.dim)
        self.pooler = pooler(self.reader.dim)
        self.to_latent = Linear(self.reader.dim, latent)
        self.norm = None if norm is None else norm(latent)
        self.sampler = sampler(noise, latent)
        self.classifier = classifier(latent, label.vocab)
        self.critic = critic(latent, 1)

    # ------------------------------------------------------------------------------------------------- to the latent space

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        read = self.reader.encode(x, mask)
        return read if self.encoder is None else self.encoder(read, mask)

    def posterior(self, x: Seq) -> Posterior:
        return Posterior(self._placed(self.to_latent(self.pooler(self.encode(x)))))

    def made(self, noise_BN: Tensor) -> Tensor:
        return self._placed(self.sampler(noise_BN))

    def _placed(self, z_BP: Tensor) -> Tensor:
        """Normalised as all places are, of texts and made ones, or the critic would tell them apart by their length."""
        return z_BP if self.norm is None else self.norm(z_BP)

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        weight = self.to_latent.weight
        return self.made(torch.randn(rows, self.noise, device=weight.device, dtype=weight.dtype))

    def classes_of(self, z_BP: Tensor) -> Tensor:
        return self.classifier(z_BP)

    def realness_of(self, z_BP: Tensor) -> Tensor:
        return self.critic(z_BP).squeeze(-1)

    # -------------------------------------------------------------------------------------------------- and back to a text

    def memory(self, batch: Batch) -> Memory:
        label_B = batch["label"] if "label" in batch else None  # noqa: SIM401  (a batch has no get)
        return self.memory_from(self.posterior(batch["source"]).mean_BP, label_B)

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        return self.writer.memory_from(z_BP, label_B)


@block("cara")
class CARA(Transfers, Listens):
    """Writes a text again, or with another class, from a place that does not tell its class; a listener makes the class heard.

    z = norm(W pooler(reader(x)) + b),  p(x | z, y) = prod_t p(x_t | x_<t, [z; v_y]),  made places norm(sampler(s)), s ~ N(0, 1)

    The classifier says the class of a place z, the critic tells places of texts from made ones, and the listener says the class
    of a text. Without a listener this is ARAE-. What is read and what is written are one text in two fields, ``source`` and
    ``target``, which may have different tokenizers.

    Li et al. 2020, Complementary Auxiliary Classifiers for Label-Conditional Text Generation (AAAI);
    built on: Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        latent: P, width of the latent space.
        noise: N, width of what places are made of.
        label_dim: Width of the classes' vectors v.
        reader: A structure that encodes: text-encoder, bert, pretrained.
        encoder: A network over what was read, such as a cnn of one layer; None = none.
        pooler: Makes one vector of what was read.
        norm: Normalisation of all places, of texts and made ones; None = none.
        writer: A language model: language-model, gpt2, pretrained.
        injections: How z and the class enter what is written.
        sampler: Makes places of noise.
        classifier: Says the class of a place.
        critic: Says how real a place is.
        listener: A structure that says the class of a text, and reads soft ids; None = nobody listens.
        weights: A run's folder from which all weights of the same name are taken; None = random ones.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label", labels=("bad", "good"))
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 11), "label": label}, target="target")
        >>> model = CARA(info, latent=4).eval()
        >>> model.prior(3).shape, model.heard(Seq(torch.tensor([[7, 8, 2]]))).shape
        (torch.Size([3, 4]), torch.Size([1, 2]))
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Width = 128,
        noise: Width = 32,
        label_dim: Width = 32,
        reader: Build[Structure] = partial(TextEncoder, head=None),
        encoder: Build[Encoder] | None = None,
        pooler: Build[Pooler] = Mean,
        norm: Build[Norm] | None = UnitNorm,
        writer: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] = EMBEDDED,
        sampler: Build[Transform] = SAMPLER,
        classifier: Build[Transform] = CLASSIFIER,
        critic: Build[Transform] = CRITIC,
        listener: Build[Structure] | None = LISTENER,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        self._play(info, latent, noise, reader, encoder, pooler, norm, sampler, classifier, critic)
        self.writer = LatentDecoder(info.alone("target"), latent, writer, injections, label_dim)
        self.listener = None if listener is None else listener_of(listener, info)
        self.target, self.dim = info["target"], self.writer.dim

    def inner(self) -> Mapping[str, Structure | Sequence[Structure]]:
        listener = {} if self.listener is None else {"listener": self.listener}
        return {"reader": self.reader, "writer": self.writer.model, **listener}

    def provides(self) -> tuple[type, ...]:
        return tuple(p for p in super().provides() if p is not Listens or self.listener is not None)


@block("arae")
class ARAE(Transfers):
    """Writes a text again, or with another class, from a place that does not tell its class, with a writer for each class.

    z = norm(W pooler(reader(x)) + b),  p_y(x | z) = prod_t p_y(x_t | x_<t, z),  made places norm(sampler(s)), s ~ N(0, 1)

    The writers of all classes have one head. Fields and other networks are those of cara.

    Zhao et al. 2018, https://arxiv.org/abs/1706.04223

    Args:
        latent: P, width of the latent space.
        noise: N, width of what places are made of.
        reader: A structure that encodes: text-encoder, bert, pretrained.
        encoder: A network over what was read, such as a cnn of one layer; None = none.
        pooler: Makes one vector of what was read.
        norm: Normalisation of all places, of texts and made ones; None = none.
        writer: A language model: language-model, gpt2, pretrained; there is one for each class.
        injections: How z enters what is written.
        sampler: Makes places of noise.
        classifier: Says the class of a place.
        critic: Says how real a place is.
        weights: A run's folder from which all weights of the same name are taken; None = random ones.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label", labels=("bad", "good"))
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 11), "label": label}, target="target")
        >>> len(ARAE(info, latent=4).writer.models)
        2
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Width = 128,
        noise: Width = 32,
        reader: Build[Structure] = partial(TextEncoder, head=None),
        encoder: Build[Encoder] | None = None,
        pooler: Build[Pooler] = Mean,
        norm: Build[Norm] | None = UnitNorm,
        writer: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] = EMBEDDED,
        sampler: Build[Transform] = SAMPLER,
        classifier: Build[Transform] = CLASSIFIER,
        critic: Build[Transform] = CRITIC,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        self._play(info, latent, noise, reader, encoder, pooler, norm, sampler, classifier, critic)
        self.writer = WriterByClass(info.alone("target"), latent, writer, injections)
        self.target, self.dim = info["target"], self.writer.dim

    def inner(self) -> Mapping[str, Structure | Sequence[Structure]]:
        return {"reader": self.reader, "writer": self.writer.models}
