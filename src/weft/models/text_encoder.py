"""n -> n: an encoder with what was learnt on top of it. Suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor

from weft.blocks import Sum, Tied, Transformer
from weft.core.contracts import (
    REPLACED,
    ClassifiesPairs,
    DetectsReplaced,
    Embedder,
    Embeds,
    Encoder,
    Encodes,
    Head,
    Pooler,
    PredictsMasked,
    Structure,
)
from weft.core.fields import Field, Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("text-encoder")
class TextEncoder(Structure, Encodes, Embeds, PredictsMasked, ClassifiesPairs, DetectsReplaced):
    """Makes a vector of each token; says which tokens were hidden or replaced, and whether two segments belong together.

    p(x_t | the rest of x) = softmax(head(encoder(x)_t)),  p(relation | x) = softmax(segment_head(pooler(encoder(x))))

    Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the tokens.
        encoder: n -> n, over the text.
        head: Logits over the ids, at places that were hidden; None = it fills nothing in.
        pooler: Makes one vector of a text; None = it has none.
        segment_head: Logits for two classes of pairs of segments; None = it relates nothing. It needs a pooler.
        discriminator: A logit of each token, for whether it was replaced; None = it judges nothing.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> model = TextEncoder(Info({"text": Field("text", 11)}), dim=8)
        >>> model.head(model.encode(Seq(torch.tensor([[7, 4, 9]]))).data[:, 1]).shape
        torch.Size([1, 11])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        encoder: Build[Encoder] = Transformer,
        head: Build[Head] | None = Tied,
        pooler: Build[Pooler] | None = None,
        segment_head: Build[Head] | None = None,
        discriminator: Build[Head] | None = None,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        field = info.input_texts()[0]
        self.dim = dim
        self.embedder = embedder(dim, field)
        self.encoder = encoder(dim)
        self.head = None if head is None else head(dim, field, self.embedder)
        self.pooler = None if pooler is None else pooler(dim)
        if segment_head is not None and pooler is None:
            raise ValueError("a relation is said of one vector, and there is no pooler to make it; give one, such as first")
        self.segment_head = None if segment_head is None else segment_head(dim, RELATION, None)
        self.discriminator = None if discriminator is None else discriminator(dim, REPLACED, None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        if self.pooler is None:
            raise ValueError("this encoder makes no vector of a whole text; give it a pooler, such as mean or first")
        return self.pooler(self.encode(x))

    def provides(self) -> tuple[type, ...]:
        without = {PredictsMasked: self.head, ClassifiesPairs: self.segment_head, DetectsReplaced: self.discriminator}
        return tuple(p for p in super().provides() if p not in without or without[p] is not None)


RELATION = Field("relation", 2, kind="label", space="relation", labels=("yes", "no"))
"""Whether two segments belong together: the first class is that they do, as in all published models."""
