"""n -> 2 x n: an encoder, and a head that says how well an answer begins and ends at each token. Suffixes: see seq.py."""

from __future__ import annotations

from functools import partial

from weft.blocks import LSTM, ClassifierHead, Sum
from weft.core.contracts import Embedder, Encoder, Encodes, ExtractsSpans, Head, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("span-extractor")
class SpanExtractor(Structure, ExtractsSpans, Encodes):
    """Says where in a context (field ``context``) the answer to a question (field ``question``) stands; both are read as one.

    s_t, e_t = head(encoder(x)_t): the logits of a begin and of an end at token t

    Devlin et al. 2019, section 4.2, https://arxiv.org/abs/1810.04805

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the tokens.
        encoder: n -> n, over question and context.
        head: The two logits of each token.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> texts = {"question": Field("question", 11), "context": Field("context", 11)}
        >>> model = SpanReader(Info({**texts, "answer": Field("answer", 2, kind="span", space="context")}), dim=8)
        >>> model.span_head(model.encode(Seq(torch.tensor([[7, 8, 9]]))).data).shape
        torch.Size([1, 3, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        head: Build[Head] = ClassifierHead,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        answer = info["answer"]
        if answer.kind != "span":
            raise ValueError(f"needs a place in a text, but in the data ({info.data}) the field 'answer' is a {answer.kind}")
        self.dim = dim
        self.embedder = embedder(dim, info.input_texts()[0])
        self.encoder = encoder(dim)
        self.span_head = head(dim, answer, None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)
