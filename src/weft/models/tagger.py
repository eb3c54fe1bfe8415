"""Token classification: encoder, tag head and, optionally, a linear chain."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from weft.blocks import LSTM, ClassifierHead, SumEmbedder
from weft.core.contracts import Embedder, Embeds, Encoder, Head, LinearChain, Tags
from weft.core.fields import Info, TagsField
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Seq
from weft.models.encoder_model import EncoderModel


@block("tagger")
class Tagger(EncoderModel, Tags, Embeds):
    """Token classification: predicts a tag (field ``tags``) for each word of a text.

    p(tag_t | x) = softmax(head(encoder(embedder(x))_t)),  or with a linear chain over all tags  p(tags | x) = chain(scores),
    scores_t = head(encoder(embedder(x))_t)

    Huang et al. 2015, https://arxiv.org/abs/1508.01991

    Args:
        dim: Hidden size.
        embedder: Embeds the tokens.
        encoder: Maps the embeddings to hidden states.
        head: Logits over the tags.
        chain: Models the dependence of neighboring tags, such as crf; None = the tags are predicted independently.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.fields import TagsField, TextField
        >>> info = Info({"text": TextField("text", 11), "tags": TagsField("tags", 5)})
        >>> model = Tagger(info, dim=8)
        >>> model(torch.tensor([[7, 8, 9]])).shape
        torch.Size([1, 3, 5])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        head: Build[Head] = ClassifierHead,
        chain: Build[LinearChain] | None = None,
        weights: FileOrFolder | None = None,
    ):
        tags = info.expect("tags", TagsField, "use data such as tagged-text")
        super().__init__(info, info.text(tags.of), dim=dim, embedder=embedder, encoder=encoder, weights=weights)
        self.tag_head = head(dim, tags, None)
        self.chain = None if chain is None else chain(tags)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """B x T x C, the logits of the tags at each token; with a chain, its emission scores. See ``Structure``."""
        return self.tag_head(self.encode(Seq.of(x, mask)).data)
