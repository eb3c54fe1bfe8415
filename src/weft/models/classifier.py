"""Sequence classification: encoder, pooler, classification head."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from weft.blocks import LSTM, ClassifierHead, MeanPooler, SumEmbedder
from weft.core.contracts import Classifies, Embedder, Embeds, Encoder, Head, Pooler
from weft.core.fields import Info
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Seq
from weft.models.encoder_model import EncoderModel


@block("classifier")
class Classifier(EncoderModel, Embeds, Classifies):
    """Sequence classification with a pooled encoder.

    p(label | x) = softmax(head(pooler(encoder(embedder(x)))))

    The input is a text, a pair of texts in one sequence, or an image; the target is the field ``label``. Depending on that
    field and the objective, the head outputs the logits of one class or of several labels, or a regression value.

    Args:
        dim: Hidden size.
        embedder: Embeds the tokens, or the patches of an image.
        encoder: Maps the embeddings to hidden states.
        pooler: Pools the hidden states into one vector.
        head: Classification head: logits over the classes.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.fields import LabelField, TextField
        >>> model = Classifier(Info({"text": TextField("text", 11), "label": LabelField("label", 2)}), dim=8)
        >>> model(torch.tensor([[7, 8, 9]])).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        pooler: Build[Pooler] = MeanPooler,
        head: Build[Head] = ClassifierHead,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, info.inputs()[0], dim=dim, embedder=embedder, encoder=encoder, pooler=pooler, weights=weights)
        self.classifier = head(dim, info["label"], None)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """B x C, the logits of the classes. See ``Structure``."""
        return self.classifier(self.features(Seq.of(x, mask)))
