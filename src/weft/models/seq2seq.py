"""n -> m: an encoder, and a decoder that looks at what it encoded. Suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from weft.blocks import LSTM, AttentionLSTM, Mean, Sum, Tied
from weft.core.batch import Batch
from weft.core.contracts import Decoder, Decodes, Embedder, Encoder, Encodes, Head, Pooler, Reconstructs, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Place, Width
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq


@block("seq2seq")
class Seq2Seq(Structure, Encodes, Decodes, Reconstructs):
    """Reads a source sequence and writes a target sequence; a text alone it restores from what was done to it.

    p(y_t | y_<t, x) = softmax(head(decoder(y_<t, encoder(x))))

    Sutskever et al. 2014, https://arxiv.org/abs/1409.3215; with attention: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473

    Args:
        dim: Width of all vectors between the parts.
        embedder: Vectors of the source's tokens.
        target_embedder: Vectors of the target's tokens; None = the source's embedder serves both if they have one id space,
            else a second one is built like it.
        encoder: n -> n, over the source.
        decoder: Over the target, looking at the encoded source.
        pooler: Makes the vector that decoders start from; not built where the decoder wants none.
        head: Logits over the target's ids.
        weights: A published model's folder, or a run's, from which all weights of the same name are taken; None = random ones.

    Example:
        >>> import torch
        >>> from weft.core.fields import Field
        >>> info = Info({"source": Field("source", 11), "target": Field("target", 11)}, target="target")
        >>> model = Seq2Seq(info, dim=8)
        >>> ids = Seq(torch.tensor([[7, 8, 9]]))
        >>> model.decode(ids, model.memory(Batch({"source": ids}, 1))).hidden.data.shape
        torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Width = 128,
        embedder: Build[Embedder] = Sum,
        target_embedder: Build[Embedder] | None = None,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        decoder: Build[Decoder] = AttentionLSTM,
        pooler: Build[Pooler] = Mean,
        head: Build[Head] = Tied,
        weights: Place | None = None,
    ):
        super().__init__(info, weights=weights)
        alone = "text" in info and "source" not in info
        source, target = [info["text"]] * 2 if alone else (info["source"], info["target"])
        one_space = (source.space, source.vocab) == (target.space, target.vocab)
        # a text alone can only be restored from what was done to it; what is read in other ids than it is written cannot
        self.lacks = Decodes if alone else None if one_space else Reconstructs
        shared = target_embedder is None and one_space
        longest = max(source.max_length, target.max_length) if shared else source.max_length
        self.dim, self.target = dim, target
        self.embedder = embedder(dim, replace(source, max_length=longest))
        self.target_embedder = None if shared else (target_embedder or embedder)(dim, target)
        if self.target_embedder is not None and one_space:
            self.target_embedder.share(self.embedder)
        self.encoder = encoder(dim)
        self.decoder = decoder(dim, dim)
        # A pooler whose vector nobody reads would have parameters that never learn.
        self.pooler = pooler(dim) if self.decoder.uses_vector else None
        self.head = head(dim, target, self.embedder if self.target_embedder is None else self.target_embedder)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def memory(self, batch: Batch) -> Memory:
        encoded = self.encode(batch["source"] if "source" in batch else batch[self.target.name])
        return Memory((encoded,), None if self.pooler is None else self.pooler(encoded))

    def provides(self) -> tuple[type, ...]:
        return tuple(p for p in super().provides() if p is not self.lacks)

    def embed(self, x: Seq) -> Seq:
        return self.embedder(x) if self.target_embedder is None else self.target_embedder(x)
