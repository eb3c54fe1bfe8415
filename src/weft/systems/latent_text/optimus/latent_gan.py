"""Conditional GAN in the latent space of a pretrained model.

P latent dimensions, E noise dimensions; other suffixes: see seq.py.
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
    TextAutoencoder,
    Transform,
    Variational,
    protocol,
)
from weft.core.fields import Info, LabelField
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Decoded, Memory, Seq
from weft.models.text_vae import TextVAE

_MIN_DEVIATION = 1e-4
"""Lower bound of the standard deviation, for dimensions in which all latent codes are equal."""


@protocol
class GeneratesLatents(Latent):
    """Has a conditional generator and a discriminator of latent codes, both in standardized coordinates."""

    noise: int
    """E, the number of noise dimensions."""
    standard: LatentStandardization

    def real_latents(self, x: Seq, eps_BP: Tensor | None) -> Tensor:
        """B x P: latent codes of texts, sampled with this noise; None = posterior means. Without gradient, in evaluation mode."""
        raise TypeError(f"{type(self).__name__} has no real_latents")

    def fake_latents(self, eps_BE: Tensor, label_B: Tensor) -> Tensor:
        """B x P: generated latent codes of these classes."""
        raise TypeError(f"{type(self).__name__} has no fake_latents")

    def score(self, z_BP: Tensor, label_B: Tensor) -> Tensor:
        """B: discriminator scores of latent codes and their classes."""
        raise TypeError(f"{type(self).__name__} has no score")


class GenerativeAutoencoder(TextAutoencoder, GeneratesLatents):
    """A text autoencoder with a generator of latent codes."""


class LatentStandardization(nn.Module):
    """Standardizes latent codes by their mean and standard deviation over the training texts, saved with the model.

    forward: (z - mean) / deviation

    Args:
        dim: P, the number of latent dimensions.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("deviation", torch.ones(dim))

    @torch.no_grad()
    def fit(self, posteriors: Iterable[Posterior]) -> None:
        """Compute mean and standard deviation of z ~ q(z|x) over all texts: Var z = Var mean + E exp(logvar)."""
        texts, sum_P, squares_P = 0, self.mean.double() * 0, self.mean.double() * 0
        for posterior in posteriors:
            mean_BP = posterior.mean_BP.double()
            texts, sum_P = texts + len(mean_BP), sum_P + mean_BP.sum(0)
            squares_P = squares_P + (mean_BP**2).sum(0)
            if posterior.logvar_BP is not None:
                squares_P = squares_P + posterior.logvar_BP.double().exp().sum(0)
        if not texts:
            raise ValueError("no text to compute the mean and standard deviation of latent codes from; check the training data")
        mean_P = sum_P / texts
        self.mean.copy_(mean_P)
        self.deviation.copy_((squares_P / texts - mean_P**2).clamp(min=_MIN_DEVIATION**2).sqrt())

    def forward(self, z_BP: Tensor) -> Tensor:
        return (z_BP - self.mean) / self.deviation

    def inverse(self, x_BP: Tensor) -> Tensor:
        """Return latent codes from standardized ones."""
        return self.mean + self.deviation * x_BP


class ConditionalGenerator(nn.Module):
    """Generates latent codes from noise and a class embedding: G([eps; v_y])."""

    def __init__(self, noise: int, label_dim: int, classes: int, latent: int, transform: Build[Transform]):
        super().__init__()
        self.labels = nn.Embedding(classes, label_dim)
        self.transform = transform(noise + label_dim, latent)

    def forward(self, eps_BE: Tensor, label_B: Tensor) -> Tensor:
        return self.transform(torch.cat([eps_BE, self.labels(label_B).to(eps_BE.dtype)], -1))


@block("latent-gan")
class LatentGAN(GenerativeAutoencoder):
    """Conditional GAN in the latent space of an unconditional model, for class-conditional generation.

    x ~ p(x|z),  z = mean + deviation G(eps, y),  eps ~ N(0, 1);  discriminator D((z - mean) / deviation, y)

    ``model`` is pretrained and frozen: phases train ``generator.*`` and ``discriminator.*``. Mean and standard deviation are
    those of the latent codes of the training texts. The discriminator is conditioned on the class: otherwise the generator could
    ignore it.

    Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092; classes: Mirza & Osindero 2014, https://arxiv.org/abs/1411.1784

    Args:
        model: A structure with a latent space, such as text-vae.
        noise: E, number of noise dimensions.
        label_dim: Dimension of the class embeddings of the generator.
        generator: Transform from noise and class embedding to a latent code.
        discriminator: Discriminator of latent codes, conditioned on the class.
        weights: Run folder to initialize weights of the same name from; None = random initialization.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> label = LabelField("label", 2, labels=("bad", "good"))
        >>> info = Info({"source": TextField("source", 11), "target": TextField("target", 11), "label": label}, target="target")
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
        if not isinstance(label, LabelField):
            raise ValueError(
                f"latent-gan needs one class per text, but the field 'label' of the data ({info.data}) is of kind {label.kind}"
            )
        self.model: Any = model(info)
        if missing := [p.__name__ for p in (Encodes, Decodes, Latent) if p not in self.model.provides()]:
            raise ValueError(
                f"latent-gan needs a model that Encodes, Decodes and has a Latent space, such as text-vae, but "
                f"{type(self.model).__name__} lacks: {', '.join(missing)}"
            )
        if self.model.samples_by_label:
            raise ValueError(f"{type(self.model).__name__} is class-conditional already; give latent-gan an unconditional model")
        self.classes, self.noise, self.latent = label.classes, noise, self.model.latent
        self.standard = LatentStandardization(self.latent)
        self.generator = ConditionalGenerator(noise, label_dim, label.classes, self.latent, generator)
        self.discriminator = discriminator(self.latent, label.classes)
        self.target, self.dim, self.class_conditional = self.model.target, self.model.dim, self.model.class_conditional

    def substructures(self) -> dict[str, Structure]:
        return {"model": self.model}

    def provides(self) -> tuple[type, ...]:
        """The ELBO of the inner model is still with respect to its own prior."""
        more = (Variational,) if Variational in self.model.provides() else ()
        return (*super().provides(), *more)

    # --------------------------------------------------------------------------------------------------- adversarial training

    @torch.no_grad()
    def real_latents(self, x: Seq, eps_BP: Tensor | None) -> Tensor:
        was_training = self.model.training
        self.model.eval()  # frozen: no dropout
        posterior = self.model.posterior(x)
        self.model.train(was_training)
        z_BP = posterior.mean_BP
        if eps_BP is not None and posterior.logvar_BP is not None:
            z_BP = z_BP + (0.5 * posterior.logvar_BP).exp() * eps_BP.to(z_BP.dtype)
        return self.standard(z_BP)

    def fake_latents(self, eps_BE: Tensor, label_B: Tensor) -> Tensor:
        return self.generator(eps_BE, label_B)

    def score(self, z_BP: Tensor, label_B: Tensor) -> Tensor:
        return self.discriminator(z_BP, label_B)

    # ---------------------------------------------------------------------------------------------------------------- encoding

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.model.encode(x, mask)

    def posterior(self, x: Seq) -> Posterior:
        return self.model.posterior(x)

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        """rows x P generated latent codes of these classes; None = uniformly sampled classes."""
        device = self.standard.mean.device
        if label_B is None:
            label_B = torch.randint(self.classes, (rows,), device=device)
        return self.standard.inverse(self.fake_latents(torch.randn(rows, self.noise, device=device), label_B))

    # ---------------------------------------------------------------------------------------------------------------- decoding

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
