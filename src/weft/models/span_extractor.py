"""Extractive question answering: encoder and a span head."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from weft.blocks import LSTM, ClassifierHead, SumEmbedder
from weft.core.contracts import Embedder, Encoder, ExtractsSpans, Head
from weft.core.fields import Info, SpanField
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Seq
from weft.models.encoder_model import EncoderModel


@block("span-extractor")
class SpanExtractor(EncoderModel, ExtractsSpans):
    """Extractive question answering: predicts the span of a context that answers a question.

    s_t, e_t = head(encoder(embedder(x))_t), the start and end logits of token t;  x = question and context in one sequence

    Devlin et al. 2019, section 4.2, https://arxiv.org/abs/1810.04805

    Args:
        dim: Hidden size.
        embedder: Embeds the tokens.
        encoder: Maps the embeddings of question and context to hidden states.
        head: The start and end logits of each token.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.fields import SpanField, TextField
        >>> texts = {"question": TextField("question", 11), "context": TextField("context", 11)}
        >>> model = SpanExtractor(Info({**texts, "answer": SpanField("answer", of="context")}), dim=8)
        >>> model(torch.tensor([[7, 8, 9]])).shape
        torch.Size([1, 3, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        head: Build[Head] = ClassifierHead,
        weights: FileOrFolder | None = None,
    ):
        answer = info.expect("answer", SpanField, "use data such as question-answering")
        super().__init__(info, info.input_texts()[0], dim=dim, embedder=embedder, encoder=encoder, weights=weights)
        self.span_head = head(dim, answer, None)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """B x T x 2, the start and end logits of each token. See ``Structure``."""
        return self.span_head(self.encode(Seq.of(x, mask)).data)
