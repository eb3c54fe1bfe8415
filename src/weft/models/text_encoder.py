"""Text encoder with the heads of encoder pre-training."""

from __future__ import annotations

from weft.blocks import SumEmbedder, TiedHead, Transformer
from weft.core.contracts import (
    REPLACED,
    ClassifiesPairs,
    DetectsReplaced,
    Embedder,
    Embeds,
    Encoder,
    Head,
    Pooler,
    PredictsMasked,
)
from weft.core.fields import Info, LabelField
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.models.encoder_model import EncoderModel

SEGMENT_RELATION = LabelField("relation", 2, labels=("yes", "no"))
"""Classes of the segment head. Class 0 is the positive one (the segments belong together), as in published BERT models."""


@block("text-encoder")
class TextEncoder(EncoderModel, Embeds, PredictsMasked, ClassifiesPairs, DetectsReplaced):
    """Text encoder with optional pre-training heads.

    masked language modeling: p(x_t | masked x) = softmax(head(h_t)),  h = encoder(embedder(x));
    next sentence or sentence order: p(relation | x) = softmax(segment_head(pooler(h)));
    replaced token detection: p(x_t was replaced) = sigmoid(discriminator(h_t))

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805; Clark et al. 2020 (ELECTRA), https://arxiv.org/abs/2003.10555

    Args:
        dim: Hidden size.
        embedder: Embeds the tokens.
        encoder: Maps the embeddings to hidden states.
        head: Masked-LM head: logits over the vocabulary at masked positions; None = no such head.
        pooler: Pools the hidden states into one vector; None = no pooler.
        segment_head: Two logits for the relation of two segments (next sentence or sentence order), over the pooled vector;
            None = no such head.
        discriminator: One logit per token, whether it was replaced; None = no such head.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> from weft.core.seq import Seq
        >>> model = TextEncoder(Info({"text": TextField("text", 11)}), dim=8)
        >>> model.head(model.encode(Seq(torch.tensor([[7, 4, 9]]))).data[:, 1]).shape
        torch.Size([1, 11])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        encoder: Build[Encoder] = Transformer,
        head: Build[Head] | None = TiedHead,
        pooler: Build[Pooler] | None = None,
        segment_head: Build[Head] | None = None,
        discriminator: Build[Head] | None = None,
        weights: FileOrFolder | None = None,
    ):
        field = info.input_texts()[0]
        super().__init__(info, field, dim=dim, embedder=embedder, encoder=encoder, weights=weights)
        self.head = None if head is None else head(dim, field, self.embedder)
        self.pooler = None if pooler is None else pooler(dim)  # after the head: the order in which parameters are initialized
        if segment_head is not None and pooler is None:
            raise ValueError("segment_head classifies a pooled vector, but there is no pooler; set pooler, for example to first")
        self.segment_head = None if segment_head is None else segment_head(dim, SEGMENT_RELATION, None)
        self.discriminator = None if discriminator is None else discriminator(dim, REPLACED, None)

    def provides(self) -> tuple[type, ...]:
        heads = {PredictsMasked: self.head, ClassifiesPairs: self.segment_head, DetectsReplaced: self.discriminator}
        return tuple(p for p in super().provides() if p not in heads or heads[p] is not None)
