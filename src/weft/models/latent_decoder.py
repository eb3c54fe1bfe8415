"""A language model that writes from a vector. P width of the vector; other suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.contracts import Decoder, Decodes, Decoding, Embedder, Head, Injection, ModelsLanguage, Structure
from weft.core.fields import Info
from weft.core.masks import Causal, Mask
from weft.core.registry import Build
from weft.core.seq import KV, Decoded, Memory, Seq


@dataclass(frozen=True)
class WritingFrom(Decoding):
    """State of a writer: the decoder's, how many tokens each row has seen, and what is added to tokens by their place."""

    added_BLD: Tensor | None

    def select(self, rows: Tensor) -> WritingFrom:
        added_BLD = None if self.added_BLD is None else self.added_BLD[rows]
        return WritingFrom(self.inner.select(rows), self.seen_B[rows], added_BLD)


class LatentDecoder(nn.Module, Decodes):
    """A language model that is given a vector, and perhaps the class that the text is to have.

    p(x_t | x_<t, z, y), where injections bring in c = z, or c = [z; v_y] with a learned vector v of each class

    Args:
        info: What the language model is built for: one text, and its class.
        latent: P.
        model: A structure that decodes and looks at nothing else.
        injections: How the vector enters; without any, the model does not heed it.
        label_dim: Width of the classes' vectors; 0 = the writer is told no class.
    """

    def __init__(self, info: Info, latent: int, model: Build[Structure], injections: list[Build[Injection]], label_dim: int = 0):
        super().__init__()
        self.model: Any = model(info)
        if ModelsLanguage not in self.model.provides():
            raise ValueError(
                f"what writes must be a language model, such as language-model or gpt2, but a {type(self.model).__name__} "
                "does not write a text from its beginning alone"
            )
        self.target, self.dim = self.model.target, self.model.dim
        self.labels = nn.Embedding(info["label"].vocab, label_dim) if label_dim else None
        width = latent + label_dim
        self.injections = nn.ModuleList([build(self.dim, width, self.model.decoder) for build in injections])

    @property
    def decoder(self) -> Decoder:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.decoder

    @property
    def head(self) -> Head:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.head

    @property
    def embedder(self) -> Embedder:
        return self.model.embedder

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        """What the decoder is given."""
        if self.labels is None:
            return self._memory(z_BP, label_B)
        if label_B is None:
            raise ValueError("this model writes texts of a class, and none was given")
        return self._memory(torch.cat([z_BP, self.labels(label_B).to(z_BP.dtype)], -1), label_B)

    def _memory(self, c_BP: Tensor, label_B: Tensor | None) -> Memory:
        found = [injection.remembered(c_BP) for injection in self.injections]  # pyright: ignore[reportCallIssue]
        layers = [self.decoder.remember(x_BLD) for x_BLD in found if x_BLD is not None]
        past = tuple(reduce(KV.join, slots) for slots in zip(*layers, strict=True))
        return Memory(vector=c_BP, past=past, label=label_B)

    def _added(self, memory: Memory | None) -> Tensor | None:
        if memory is None or memory.vector is None:
            raise ValueError("this model writes from a vector, and none was given")
        found = [injection.added(memory.vector) for injection in self.injections]  # pyright: ignore[reportCallIssue]
        there = [added_BLD for added_BLD in found if added_BLD is not None]
        return reduce(_add, there) if there else None

    def _embed(self, x: Seq, added_BLD: Tensor | None) -> Seq:
        embedded = self.model.embed(x)
        return embedded if added_BLD is None else embedded.with_data(embedded.data + _at(x.positions(), added_BLD))

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        return self.decoder(self._embed(x, self._added(memory)), memory, mask)

    def start(self, memory: Memory | None, rows: int) -> WritingFrom:
        begun = super().start(memory, rows)
        return WritingFrom(begun.inner, begun.seen_B, self._added(memory))

    def step(self, x: Seq, state: Any) -> Decoded:
        at = x.mark(position=state.seen_B[:, None] + Seq(x.data, x.mask).positions())
        done = self.decoder.step(self._embed(at, state.added_BLD), state.inner)
        return Decoded(done.hidden, WritingFrom(done.state, state.seen_B + x.lengths(), state.added_BLD))


def _add(one_BLD: Tensor, other_BLD: Tensor) -> Tensor:
    """The sum of what two injections add, the one of fewer places filled up with nothing; a single vector is for all places."""
    few_BLD, many_BLD = sorted((one_BLD, other_BLD), key=lambda x_BLD: x_BLD.shape[1])
    lacking = many_BLD.shape[1] - few_BLD.shape[1]
    return many_BLD + (few_BLD if few_BLD.shape[1] == 1 else F.pad(few_BLD, (0, 0, 0, lacking)))


def _at(position_BT: Tensor, added_BLD: Tensor) -> Tensor:
    """B x T x D (or B x 1 x D, for all): what is added at these places; nothing after the last."""
    places = added_BLD.shape[1]
    if places == 1:
        return added_BLD
    index_BTD = position_BT.clamp(0, places - 1)[..., None].expand(-1, -1, added_BLD.shape[-1])
    return added_BLD.gather(1, index_BTD).masked_fill((position_BT >= places)[..., None], 0.0)


class Writes(Decodes):
    """Decodes as its ``writer`` does: a latent writer, or several."""

    writer: Any

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        return self.writer.decode(x, memory, mask)

    def start(self, memory: Memory | None, rows: int) -> Any:
        return self.writer.start(memory, rows)

    def step(self, x: Seq, state: Any) -> Decoded:
        return self.writer.step(x, state)

    @property
    def decoder(self) -> Decoder:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.decoder

    @property
    def head(self) -> Head:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.head

    @property
    def target_embedder(self) -> Embedder:
        return self.writer.embedder
