"""n -> 1: an encoder, a pooler, and a head that says the class. Suffixes: see seq.py."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from weft.blocks import LSTM, ClassifierHead, Mean, Sum
from weft.core.contracts import Classifies, Embedder, Embeds, Encoder, Encodes, Head, Pooler, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("classifier")
class Classifier(Structure, Encodes, Embeds, Classifies):
    """Says the class (field ``label``) of a text, of a pair of texts that are read as one, or of an image.

    p(label | x) = softmax(head(pooler(encoder(x))))

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the tokens; those of an image are its patches.
        encoder: n -> n, over the text or the patches.
        pooler: n -> 1, over what was encoded.
        head: Logits over the classes.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> model = Classifier(Info({"text": Field("text", 11), "label": Field("label", 2, kind="label")}), dim=8)
        >>> model.classifier(model.features(Seq(torch.tensor([[7, 8, 9]])))).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        pooler: Build[Pooler] = Mean,
        head: Build[Head] = ClassifierHead,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        self.dim = dim
        self.embedder = embedder(dim, info.inputs()[0])
        self.encoder = encoder(dim)
        self.pooler = pooler(dim)
        self.classifier = head(dim, info["label"], None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        return self.pooler(self.encode(x))
