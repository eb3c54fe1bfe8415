"""A text, a latent vector, the text again. P width of the latent vector; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.blocks import LatentEmbedding, LatentMemory, Linear, Mean
from weft.core.batch import Batch
from weft.core.contracts import (
    Classifies,
    Decodes,
    Encodes,
    Injection,
    Latent,
    Pooler,
    Posterior,
    Reconstructs,
    Structure,
    Variational,
)
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Natural, Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq
from weft.models.language_model import LanguageModel
from weft.models.latent_decoder import LatentDecoder, Writes
from weft.models.text_encoder import TextEncoder

BOTH: list[Build[Injection]] = [LatentMemory, LatentEmbedding]


@block("text-vae")
class TextVAE(Structure, Encodes, Writes, Latent, Variational):
    """Reads a text into a latent space, and writes it from there.

    q(z|x) = N(mu, exp(logvar)) with [mu; logvar] = W pooler(reader(x));  p(x|z) = prod_t p(x_t | x_<t, z);  p(z) = N(0, 1)

    What is read and what is written are one text in two fields, ``source`` and ``target``, which may have different tokenizers.
    With ``label_dim``, the writer is also told the class of the text, p(x|z, y).

    Bowman et al. 2016, https://arxiv.org/abs/1511.06349; from pre-trained networks: Li et al. 2020 (OPTIMUS),
    https://arxiv.org/abs/2004.04092

    Args:
        latent: P, width of the latent space.
        reader: A structure that encodes: text-encoder, bert, pretrained.
        pooler: Makes one vector of what was read.
        writer: A language model: language-model, gpt2, pretrained.
        injections: How z enters what is written; None = it does not: a language model with a VAE beside it.
        label_dim: Width of the vectors of the classes (field ``label``) that the writer is told; 0 = it is told none.
        weights: A run's folder from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 13, space="other")}, target="target")
        >>> model = TextVAE(info, latent=4)
        >>> model.posterior(Seq(torch.tensor([[7, 8, 9]]))).mean_BP.shape
        torch.Size([1, 4])
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Width = 32,
        reader: Build[Structure] = partial(TextEncoder, head=None),
        pooler: Build[Pooler] = Mean,
        writer: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] | None = BOTH,
        label_dim: Natural = 0,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        self.latent = latent
        self.reader: Any = reader(info.alone("source"))
        if Encodes not in self.reader.provides() or {Decodes, Reconstructs, Classifies} & set(self.reader.provides()):
            raise ValueError(
                f"what reads must encode and do nothing else, as a text-encoder does (pretrained: task: encode), "
                f"but this is a {type(self.reader).__name__}"
            )
        self.pooler = pooler(self.reader.dim)
        self.to_posterior = Linear(self.reader.dim, 2 * latent, bias=False)
        self.writer = LatentDecoder(info.alone("target"), latent, writer, injections or [], label_dim)
        self.labelled = self.samples_by_label = label_dim > 0
        self.target, self.dim = info["target"], self.writer.dim

    def inner(self) -> Mapping[str, Structure | Sequence[Structure]]:
        return {"reader": self.reader, "writer": self.writer.model}

    # ------------------------------------------------------------------------------------------------- to the latent space

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.reader.encode(x, mask)

    def posterior(self, x: Seq) -> Posterior:
        mean_BP, logvar_BP = self.to_posterior(self.pooler(self.encode(x))).chunk(2, -1)
        return Posterior(mean_BP, logvar_BP)

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        return torch.randn(rows, self.latent, device=self.to_posterior.weight.device)

    # -------------------------------------------------------------------------------------------------- and back to a text

    def memory(self, batch: Batch) -> Memory:
        label_B = batch["label"] if self.labelled and "label" in batch else None
        return self.memory_from(self.posterior(batch["source"]).mean_BP, label_B)

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        return self.writer.memory_from(z_BP, label_B if self.labelled else None)
