"""n -> 1: a text is read by an encoder, and once more by a decoder, whose last state is classified. Suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from weft.blocks import ClassifierHead, Last, Mean, Sum, Transformer, TransformerDecoder
from weft.core.contracts import Classifies, Decoder, Embedder, Encoder, Encodes, Head, Pooler, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq


@block("seq2seq-classifier")
class Seq2SeqClassifier(Structure, Encodes, Classifies):
    """Says the class (field ``label``) of a text, or of a pair of texts read as one, which encoder and decoder both read.

    p(label | x) = softmax(head(pooler(decoder(x_T x_1 .. x_T-1, encoder(x)))))

    The decoder is given the text as it would write it: moved on by one, the last token (the end mark) first. So the last state,
    at which it would write the end mark, has seen all of the text.

    Lewis et al. 2020 (BART, section 3.1), https://arxiv.org/abs/1910.13461

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the tokens, for the encoder.
        target_embedder: Vectors of the tokens, for the decoder; None = the encoder's.
        encoder: n -> n, over the text.
        decoder: Over the text once more, looking at what was encoded.
        summary: Makes the vector that decoders start from; not built where the decoder wants none.
        pooler: n -> 1, over the decoder's states.
        head: Logits over the classes.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> from weft.core.fields import Field
        >>> model = Seq2SeqClassifier(Info({"text": Field("text", 11), "label": Field("label", 2, kind="label")}), dim=8)
        >>> model.classifier(model.features(Seq(torch.tensor([[7, 8, 9, 2]])))).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        target_embedder: Build[Embedder] | None = None,
        encoder: Build[Encoder] = Transformer,
        decoder: Build[Decoder] = TransformerDecoder,
        summary: Build[Pooler] = Mean,
        pooler: Build[Pooler] = Last,
        head: Build[Head] = ClassifierHead,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        field = info.input_texts()[0]
        self.dim = dim
        self.embedder = embedder(dim, field)
        self.target_embedder = None if target_embedder is None else target_embedder(dim, field)
        if self.target_embedder is not None:
            self.target_embedder.share(self.embedder)
        self.encoder = encoder(dim)
        self.decoder = decoder(dim, dim)
        self.summary = summary(dim) if self.decoder.uses_vector else None
        self.pooler = pooler(dim)
        self.classifier = head(dim, info["label"], None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        encoded = self.encode(x)
        embed = self.embedder if self.target_embedder is None else self.target_embedder
        memory = Memory((encoded,), None if self.summary is None else self.summary(encoded))
        return self.pooler(self.decoder(embed(moved_on(x)), memory).hidden)


def moved_on(x: Seq) -> Seq:
    """Each row one place to the right, its last token first: x_T x_1 .. x_T-1. Padding stays where it is, on either side."""
    real_BT = x.real()
    place_T = torch.arange(x.width, device=x.data.device)
    last_B1 = (real_BT * place_T).argmax(1, keepdim=True)
    first_BT = real_BT & (real_BT.cumsum(1) == 1)
    from_BT = torch.where(first_BT, last_B1, (place_T - 1).clamp(min=0))
    row_B1 = torch.arange(x.rows, device=x.data.device)[:, None]
    marks = {name: mark if name == "position" else mark[row_B1, from_BT] for name, mark in x.marks.items()}
    return replace(x, data=x.data[row_B1, from_BT], marks=marks)
