"""A language model that writes from a vector. P width of the vector; other suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from weft.batch import Info
from weft.catalog import Build
from weft.masks import Causal, Mask
from weft.seq import KV, Decoded, Memory, Seq
from weft.slots import Continues, Decoder, Decodes, Decoding, Embedder, Head, Injection, Structure


@dataclass(frozen=True)
class WritingFrom(Decoding):
    """State of a writer: the decoder's, how many tokens each row has seen, and what is added to every token."""

    added_BD: Tensor | None

    def select(self, rows: Tensor) -> WritingFrom:
        added_BD = None if self.added_BD is None else self.added_BD[rows]
        return WritingFrom(self.inner.select(rows), self.seen_B[rows], added_BD)


class LatentWriter(nn.Module, Decodes):
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
        if Continues not in self.model.provides():
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

    def write_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
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
        there = [added_BD for added_BD in found if added_BD is not None]
        return torch.stack(there).sum(0) if there else None

    def _embed(self, x: Seq, added_BD: Tensor | None) -> Seq:
        embedded = self.model.embed(x)
        return embedded if added_BD is None else embedded.with_data(embedded.data + added_BD[:, None])

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        return self.decoder(self._embed(x, self._added(memory)), memory, mask)

    def start(self, memory: Memory | None, rows: int) -> WritingFrom:
        begun = super().start(memory, rows)
        return WritingFrom(begun.inner, begun.seen_B, self._added(memory))

    def step(self, x: Seq, state: Any) -> Decoded:
        at = x.mark(position=state.seen_B[:, None] + Seq(x.data, x.mask).positions())
        done = self.decoder.step(self._embed(at, state.added_BD), state.inner)
        return Decoded(done.hidden, WritingFrom(done.state, state.seen_B + x.lengths(), state.added_BD))


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
