"""Variational autoencoder of text. P latent dimension; other suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.blocks import LatentEmbedding, LatentMemory, Linear, MeanPooler
from weft.core.batch import Batch
from weft.core.contracts import (
    Classifies,
    Decodes,
    Encodes,
    Injection,
    Pooler,
    Posterior,
    Reconstructs,
    Structure,
    TextAutoencoder,
    Variational,
)
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Dim, FileOrFolder, Natural
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq
from weft.models.language_model import LanguageModel
from weft.models.latent_decoder import DecodesFromLatent, LatentDecoder
from weft.models.text_encoder import TextEncoder

MEMORY_AND_EMBEDDING: list[Build[Injection]] = [LatentMemory, LatentEmbedding]


def source_encoder(encoder: Build[Structure], info: Info) -> Any:
    """Build the encoder of a latent-variable model, over the field ``source``; raises ValueError for other structures."""
    model = encoder(info.single_text("source"))
    provided = set(model.provides())
    if Encodes not in provided or {Decodes, Reconstructs, Classifies} & provided:
        raise ValueError(
            f"encoder is a {type(model).__name__}, which does not only encode; "
            "use a structure that outputs hidden states, such as text-encoder, or pretrained with task: encode"
        )
    return model


@block("text-vae")
class TextVAE(TextAutoencoder, DecodesFromLatent, Variational):
    """Variational autoencoder of text.

    q(z|x) = N(mu, diag(exp(logvar))) with [mu; logvar] = W pooler(encoder(x));  p(x|z) = prod_t p(x_t | x_<t, z);  p(z) = N(0, I)

    The fields ``source`` (encoded) and ``target`` (reconstructed) hold the same text, possibly with different tokenizers. With
    ``label_dim`` the decoder is class-conditional: p(x | z, y).

    Bowman et al. 2016, https://arxiv.org/abs/1511.06349; from pre-trained networks: Li et al. 2020 (OPTIMUS),
    https://arxiv.org/abs/2004.04092

    Args:
        latent: P, dimension of the latent space.
        encoder: A structure that encodes: text-encoder, bert, pretrained.
        pooler: Pools the encoder's hidden states into one vector.
        decoder: A language model: language-model, gpt2, pretrained.
        injections: How z conditions the decoder; None = it does not, which leaves an unconditional language model.
        label_dim: Dimension of the embeddings of the classes (field ``label``) that condition the decoder; 0 = unconditional.
        weights: Folder of a run whose weights of the same name initialize this model; None = random initialization.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> info = Info({"source": TextField("source", 11), "target": TextField("target", 13, space="other")}, target="target")
        >>> model = TextVAE(info, latent=4)
        >>> model.posterior(Seq(torch.tensor([[7, 8, 9]]))).mean_BP.shape
        torch.Size([1, 4])
    """

    def __init__(
        self,
        info: Info,
        *,
        latent: Dim = 32,
        encoder: Build[Structure] = partial(TextEncoder, head=None),
        pooler: Build[Pooler] = MeanPooler,
        decoder: Build[Structure] = LanguageModel,
        injections: list[Build[Injection]] | None = MEMORY_AND_EMBEDDING,
        label_dim: Natural = 0,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, weights=weights)
        self.latent = latent
        self.encoder = source_encoder(encoder, info)
        self.pooler = pooler(self.encoder.dim)
        self.to_posterior = Linear(self.encoder.dim, 2 * latent, bias=False)
        self.decoder = LatentDecoder(info.single_text("target"), latent, decoder, injections or [], label_dim)
        self.class_conditional = self.samples_by_label = label_dim > 0
        self.target, self.dim = info.text("target"), self.decoder.dim

    def substructures(self) -> Mapping[str, Structure | Sequence[Structure]]:
        return {"encoder": self.encoder, "decoder": self.decoder.model}

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder.encode(x, mask)

    def posterior(self, x: Seq) -> Posterior:
        mean_BP, logvar_BP = self.to_posterior(self.pooler(self.encode(x))).chunk(2, -1)
        return Posterior(mean_BP, logvar_BP)

    def prior(self, rows: int, label_B: Tensor | None = None) -> Tensor:
        return torch.randn(rows, self.latent, device=self.to_posterior.weight.device)

    def memory(self, batch: Batch) -> Memory:
        label_B = batch["label"] if self.class_conditional and "label" in batch else None
        return self.memory_from(self.posterior(batch["source"]).mean_BP, label_B)

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        return self.decoder.memory_from(z_BP, label_B if self.class_conditional else None)
