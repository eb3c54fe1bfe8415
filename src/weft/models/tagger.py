"""n -> n: an encoder, and a head that says the class of each word. Suffixes: see seq.py."""

from __future__ import annotations

from functools import partial

from weft.blocks import LSTM, ClassifierHead, Sum
from weft.core.contracts import Embedder, Embeds, Encoder, Encodes, Head, LinearChain, Structure, Tags
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("tagger")
class Tagger(Structure, Tags, Encodes, Embeds):
    """Says a class (field ``tags``) for each word of a text (field ``text``).

    p(tag_t | x) = softmax(head(encoder(x)_t)),  or with a chain  p(tags | x) = chain(head(encoder(x)_1), head(encoder(x)_2), ...)

    Huang et al. 2015, https://arxiv.org/abs/1508.01991

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the tokens.
        encoder: n -> n, over the text.
        head: Logits over the tags.
        chain: How the tags of neighbours depend on each other; None = each word has its tag by itself.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> info = Info({"text": Field("text", 11), "tags": Field("tags", 5, kind="tags", space="text")})
        >>> model = Tagger(info, dim=8)
        >>> model.tag_head(model.encode(Seq(torch.tensor([[7, 8, 9]]))).data[0]).shape
        torch.Size([3, 5])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        head: Build[Head] = ClassifierHead,
        chain: Build[LinearChain] | None = None,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        tags = info["tags"]
        if tags.kind != "tags":
            raise ValueError(f"needs a class for each word, but in the data ({info.data}) the field 'tags' is a {tags.kind}")
        self.dim = dim
        self.embedder = embedder(dim, info[tags.space])
        self.encoder = encoder(dim)
        self.tag_head = head(dim, tags, None)
        self.chain = None if chain is None else chain(tags)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)
