"""Encoder-decoder model. Suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from torch import Tensor

from weft.blocks import LSTM, AttentionLSTM, MeanPooler, SumEmbedder, TiedHead
from weft.core.batch import Batch
from weft.core.contracts import Decoder, Decodes, Embedder, Encoder, Encodes, Head, Pooler, Reconstructs, Structure
from weft.core.fields import Info
from weft.core.masks import Full, Mask
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Memory, Seq


@block("seq2seq")
class Seq2Seq(Structure, Encodes, Reconstructs):
    """Encoder-decoder model: generates a target sequence from a source sequence.

    p(y_t | y_<t, x) = softmax(head(decoder(y_<t, encoder(x))))

    On data with a single field ``text`` it is a denoising model: it reconstructs the text from a corrupted copy.

    Sutskever et al. 2014, https://arxiv.org/abs/1409.3215; with attention: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473

    Args:
        dim: Hidden size.
        embedder: Embeds the source tokens.
        target_embedder: Embeds the target tokens; None = the source embedder is shared if source and target have the same
            vocabulary, otherwise a second one is built like it.
        encoder: Maps the source embeddings to hidden states.
        decoder: Causal decoder with attention to the encoder's hidden states.
        pooler: Pools the encoder's hidden states into the initial state of recurrent decoders; not built for other decoders.
        head: Logits over the target vocabulary.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> info = Info({"source": TextField("source", 11), "target": TextField("target", 11)}, target="target")
        >>> model = Seq2Seq(info, dim=8)
        >>> model(torch.tensor([[7, 8, 9]]), torch.tensor([[1, 9, 8, 7]])).shape
        torch.Size([1, 4, 11])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        target_embedder: Build[Embedder] | None = None,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        decoder: Build[Decoder] = AttentionLSTM,
        pooler: Build[Pooler] = MeanPooler,
        head: Build[Head] = TiedHead,
        weights: FileOrFolder | None = None,
    ):
        super().__init__(info, weights=weights)
        denoising = "text" in info and "source" not in info
        source, target = [info.text("text")] * 2 if denoising else (info.text("source"), info.text("target"))
        same_vocabulary = (source.space, source.vocab) == (target.space, target.vocab)
        # A single text can only be reconstructed; reconstruction needs source and target ids of the same vocabulary.
        self.not_provided = Decodes if denoising else None if same_vocabulary else Reconstructs
        shared = target_embedder is None and same_vocabulary
        max_length = max(source.max_length, target.max_length) if shared else source.max_length
        self.dim, self.target = dim, target
        self.embedder = embedder(dim, replace(source, max_length=max_length))
        self.target_embedder = None if shared else (target_embedder or embedder)(dim, target)
        if self.target_embedder is not None and same_vocabulary:
            self.target_embedder.share(self.embedder)
        self.encoder = encoder(dim)
        self.decoder = decoder(dim, dim)
        self.pooler = pooler(dim) if self.decoder.uses_vector else None  # otherwise its parameters would get no gradient
        self.head = head(dim, target, self.embedder if self.target_embedder is None else self.target_embedder)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def memory(self, batch: Batch) -> Memory:
        encoded = self.encode(batch["source"] if "source" in batch else batch[self.target.name])
        return Memory((encoded,), None if self.pooler is None else self.pooler(encoded))

    def forward(
        self, x: Seq | Tensor, decoder_input: Seq | Tensor, mask: Tensor | None = None, decoder_mask: Tensor | None = None
    ) -> Tensor:
        """B x T x V, the logits of the token after each prefix of ``decoder_input`` (teacher forcing). See ``Structure``."""
        return self.teacher_forcing(Seq.of(x, mask), Seq.of(decoder_input, decoder_mask))

    def provides(self) -> tuple[type, ...]:
        return tuple(p for p in super().provides() if p is not self.not_provided)

    def embed(self, x: Seq) -> Seq:
        return self.embedder(x) if self.target_embedder is None else self.target_embedder(x)
