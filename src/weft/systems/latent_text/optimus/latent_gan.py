"""Places of a class in a latent space that others have learnt: a generator draws them, a discriminator tells them from real ones.

P width of the latent space, E width of the noise, C classes; other suffixes: see seq.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from weft.blocks import MLP, ConcatDiscriminator, LeakyReLU
from weft.core.batch import Batch
from weft.core.contracts import (
    Decoder,
    Decodes,
    Discriminator,
    Encodes,
    Head,
    Latent,
    Posterior,
    Structure,
    Transform,
    Variational,
    protocol,
)
from weft.core.fields import Info
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Decoded, Memory, Seq
from weft.models.text_vae import TextVAE

_LEAST = 1e-4
"""The least deviation that a dimension is divided by: one in which all places are equal says nothing."""


@protocol
class GeneratesLatents:
    """Has a conditional generator and a discriminator of latent codes, both in standardized coordinates."""

    noise: int
    """E, width of what is drawn from."""
    standard: Standard

    def real(self, x: Seq, eps_BP: Tensor | None) -> Tensor:
        """B x P: where the texts lie, drawn with this noise; None = their means. Without gradient, read as in evaluation."""
        raise TypeError(f"{type(self).__name__} has no real")

    def draw(self, eps_BE: Tensor, label_B: Tensor) -> Tensor:
        """B x P: places of these classes."""
        raise TypeError(f"{type(self).__name__} has no draw")

    def score(self, z_BP: Tensor, label_B: Tensor) -> Tensor:
        """B: how real these places look, as those of these classes."""
        raise TypeError(f"{type(self).__name__} has no score")


class Standard(nn.Module):
    """Standardises places by the mean and the deviation that they have over all texts: found once, and saved with the model."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("deviation", torch.ones(dim))

    @torch.no_grad()
    def find(self, posteriors: Iterable[Posterior]) -> None:
        """Mean and deviation of a z that is drawn for each text: Var z = Var mean + E exp(logvar)."""
        texts, sum_P, squares_P = 0, self.mean.double() * 0, self.mean.double() * 0
        for posterior in posteriors:
            mean_BP = posterior.mean_BP.double()
            texts, sum_P = texts + len(mean_BP), sum_P + mean_BP.sum(0)
            squares_P = squares_P + (mean_BP**2).sum(0)
            if posterior.logvar_BP is not None:
                squares_P = squares_P + posterior.logvar_BP.double().exp().sum(0)
        if not texts:
            raise ValueError("there are no texts whose places could be standardised")
        mean_P = sum_P / texts
        self.mean.copy_(mean_P)
        self.deviation.copy_((squares_P / texts - mean_P**2).clamp(min=_LEAST**2).sqrt())

    def forward(self, z_BP: Tensor) -> Tensor:
        return (z_BP - self.mean) / self.deviation

    def back(self, x_BP: Tensor) -> Tensor:
        """From standardised numbers to places."""
        return self.mean + self.deviation * x_BP


class Generator(nn.Module):
    """Noise and a class to a place: G([eps; v_y]), with a learned vector v of each class."""

    def __init__(self, noise: int, label_dim: int, classes: int, latent: int, transform: Build[Transform]):
        super().__init__()
        self.labels = nn.Embedding(classes, label_dim)
        self.transform = transform(noise + label_dim, latent)

    def forward(self, eps_BE: Tensor, label_B: Tensor) -> Tensor:
        return self.transform(torch.cat([eps_BE, self.labels(label_B).to(eps_BE.dtype)], -1))


@block("latent-gan")
class LatentGAN(Structure, Encodes, Decodes, Latent, GeneratesLatents):
    """Texts of a class from a model that knows no classes: a conditional GAN in its latent space.

    x ~ p(x|z),  z = mean + deviation G(eps, y),  eps ~ N(0, 1);  D((z - mean) / deviation, y) tells drawn places from real ones

    ``model`` is pretrained and frozen: phases train ``generator.*`` and ``discriminator.*``. Mean and deviation are those
    of the places of all training texts. The discriminator sees the class, else nothing would tie a place to it.

    Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092; classes: Mirza & Osindero 2014, https://arxiv.org/abs/1411.1784

    Args:
        model: A structure with a latent space, such as text-vae.
        noise: E, width of the noise.
        label_dim: Width of the classes' vectors that the generator is given.
        generator: The map G.
        discriminator: The map D.
        weights: A run's folder from which all weights of the same name are taken; None = random ones.

    Example:
        >>> from weft.core.fields import Field
        >>> label = Field("label", 2, kind="label", labels=("bad", "good"))
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 11), "label": label}, target="target")
        >>> LatentGAN(info, noise=8).prior(3, torch.tensor([0, 1, 1])).shape
        torch.Size([3, 32])
    """

    samples_by_label = True

    def __init__(
        self,
        info: Info,
        *,
        model: Build[Structure] = TextVAE,
        noise: Dim = 64,
        label_dim: Dim = 64,
        generator: Build[Transform] = partial(MLP, hidden=[512, 512], activation=LeakyReLU),
        discriminator: Build[Discriminator] = ConcatDiscriminator,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, weights=weights)
        label = info["label"]
        if label.kind != "label":
            raise ValueError(f"places are drawn for one class a text, but the data ({info.data}) gives {label.kind}")
        self.model: Any = model(info)
        if missing := [p.__name__ for p in (Encodes, Decodes, Latent) if p not in self.model.provides()]:
            raise ValueError(
                "places are drawn in the latent space of a structure that Encodes, Decodes and has a Latent space, such as "
                f"text-vae, but a {type(self.model).__name__} lacks: {', '.join(missing)}"
            )
        if self.model.samples_by_label:
            raise ValueError(f"a {type(self.model).__name__} draws texts of a class already: give a model that knows no classes")
        self.classes, self.noise, self.latent = label.vocab, noise, self.model.latent
        self.standard = Standard(self.latent)
        self.generator = Generator(noise, label_dim, label.vocab, self.latent, generator)
        self.discriminator = discriminator(self.latent, label.vocab)
        self.target, self.dim, self.class_conditional = self.model.target, self.model.dim, self.model.class_conditional

    def substructures(self) -> dict[str, Structure]:
        return {"model": self.model}

    def provides(self) -> tuple[type, ...]:
        """The bound of the model inside is still that of its own prior."""
        more = (Variational,) if Variational in self.model.provides() else ()
        return (*super().provides(), *more)

    # ---------------------------------------------------------------------------------------------------------- the contest

    @torch.no_grad()
    def real(self, x: Seq, eps_BP: Tensor | None) -> Tensor:
        was_training = self.model.training
        self.model.eval()  # it is not trained here: nothing of it may be dropped
        posterior = self.model.posterior(x)
        self.model.train(was_training)
        z_BP = posterior.mean_BP
        if eps_BP is not None and posterior.logvar_BP is not None:
            z_BP = z_BP + (0.5 * posterior.logvar_BP).exp() * eps_BP.to(z_BP.dtype)
        return self.standard(z_BP)

    def draw(self, eps_BE: Tensor, label_B: Tensor) -> Tensor:
        return self.generator(eps_BE, label_B)

    def score(self, z_BP: Tensor, label_B: Tensor) -> Tensor:
        return self.discriminator(z_BP, label_B)

    # ------------------------------------------------------------------------------------------------- to the latent space

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.model.encode(x, mask)

    def posterior(self, x: Seq) -> Posterior:
        return self.model.posterior(x)

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        """Of these classes; where none are given, each is as likely as the others."""
        device = self.standard.mean.device
        if label_B is None:
            label_B = torch.randint(self.classes, (rows,), device=device)
        return self.standard.back(self.draw(torch.randn(rows, self.noise, device=device), label_B))

    # -------------------------------------------------------------------------------------------------- and back to a text

    def memory(self, batch: Batch) -> Memory:
        return self.model.memory(batch)

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        return self.model.memory_from(z_BP, label_B)

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        return self.model.decode(x, memory, mask)

    def start(self, memory: Memory | None, rows: int) -> Any:
        return self.model.start(memory, rows)

    def step(self, x: Seq, state: Any) -> Decoded:
        return self.model.step(x, state)

    @property
    def decoder(self) -> Decoder:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.decoder

    @property
    def head(self) -> Head:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.head
