"""Sequence classification with an encoder-decoder model. Suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from weft.blocks import ClassifierHead, LastPooler, MeanPooler, SumEmbedder, Transformer, TransformerDecoder
from weft.core.contracts import Classifies, Decoder, Embedder, Encoder, Encodes, Head, Pooler, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq


@block("seq2seq-classifier")
class Seq2SeqClassifier(Structure, Encodes, Classifies):
    """Sequence classification with an encoder-decoder: both receive the text, and the last decoder state is classified.

    p(label | x) = softmax(head(pooler(decoder(shift_right(x), encoder(x))))),  shift_right(x) = x_T x_1 .. x_T-1

    The decoder's input is the text shifted right, with its last token (EOS) first, as in generation. So the last decoder
    state, from which EOS would be predicted, has attended to the full text.

    Lewis et al. 2020 (BART, section 3.1), https://arxiv.org/abs/1910.13461

    Args:
        dim: Hidden size.
        embedder: Embeds the tokens for the encoder.
        target_embedder: Embeds the tokens for the decoder; None = the encoder's embedder is shared.
        encoder: Maps the embeddings to hidden states.
        decoder: Causal decoder over the same text, with attention to the encoder's hidden states.
        summary: Pools the encoder's hidden states into the initial state of recurrent decoders; not built for other decoders.
        pooler: Pools the decoder's hidden states into one vector.
        head: Classification head: logits over the classes.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> from weft.core.fields import LabelField, TextField
        >>> model = Seq2SeqClassifier(Info({"text": TextField("text", 11), "label": LabelField("label", 2)}), dim=8)
        >>> model(torch.tensor([[7, 8, 9, 2]])).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        target_embedder: Build[Embedder] | None = None,
        encoder: Build[Encoder] = Transformer,
        decoder: Build[Decoder] = TransformerDecoder,
        summary: Build[Pooler] = MeanPooler,
        pooler: Build[Pooler] = LastPooler,
        head: Build[Head] = ClassifierHead,
        weights: FileOrFolder | None = None,
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
        return self.pooler(self.decoder(embed(shift_right(x)), memory).hidden)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """B x C, the logits of the classes. See ``Structure``."""
        return self.classifier(self.features(Seq.of(x, mask)))


def shift_right(x: Seq) -> Seq:
    """Shift each row right by one position, its last token first: x_T x_1 .. x_T-1. Padding stays in place, on either side."""
    real_BT = x.real()
    index_T = torch.arange(x.width, device=x.data.device)
    last_B1 = (real_BT * index_T).argmax(1, keepdim=True)
    first_BT = real_BT & (real_BT.cumsum(1) == 1)
    from_BT = torch.where(first_BT, last_B1, (index_T - 1).clamp(min=0))
    row_B1 = torch.arange(x.rows, device=x.data.device)[:, None]
    marks = {name: mark if name == "position" else mark[row_B1, from_BT] for name, mark in x.marks.items()}
    return replace(x, data=x.data[row_B1, from_BT], marks=marks)
