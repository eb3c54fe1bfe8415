"""Decoder conditioned on a latent vector. P latent dimension, L positions of an injection; others: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.contracts import Decoder, Decodes, Decoding, Embedder, Head, Injection, ModelsLanguage, Structure
from weft.core.fields import Info, LabelField
from weft.core.masks import Causal, Mask
from weft.core.registry import Build
from weft.core.seq import KV, Decoded, Memory, Seq


@dataclass(frozen=True)
class LatentDecodingState(Decoding):
    """Decoding state of a ``LatentDecoder``: also the vectors that injections add to the token embeddings, by position."""

    added_BLD: Tensor | None

    def select(self, rows: Tensor) -> LatentDecodingState:
        added_BLD = None if self.added_BLD is None else self.added_BLD[rows]
        return LatentDecodingState(self.inner.select(rows), self.seen_B[rows], added_BLD)


class LatentDecoder(nn.Module, Decodes):
    """Language model conditioned on a latent vector and, optionally, on a class label.

    p(x_t | x_<t, c),  c = z,  or c = [z; v_y] with a learned embedding v_y of each class

    Args:
        info: The fields of the language model: one text, and its label.
        latent: P, dimension of z.
        model: A language model (a structure that provides ``ModelsLanguage``).
        injections: How c conditions the language model; an empty list leaves it unconditional.
        label_dim: Dimension of the class embeddings; 0 = not conditioned on the class.
    """

    def __init__(self, info: Info, latent: int, model: Build[Structure], injections: list[Build[Injection]], label_dim: int = 0):
        super().__init__()
        self.model: Any = model(info)
        if ModelsLanguage not in self.model.provides():
            raise ValueError(
                f"decoder is a {type(self.model).__name__}, which is not a language model; "
                "use a structure that generates a text from left to right, such as language-model or gpt2"
            )
        self.target, self.dim = self.model.target, self.model.dim
        self.labels = nn.Embedding(info.expect("label", LabelField).classes, label_dim) if label_dim else None
        condition_dim = latent + label_dim
        self.injections = nn.ModuleList([build(self.dim, condition_dim, self.model.decoder) for build in injections])

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
        """The decoder's memory for latent codes and, where the model is class-conditional, labels."""
        if self.labels is None:
            return self._memory(z_BP, label_B)
        if label_B is None:
            raise ValueError("this decoder is class-conditional, but no label was given; pass label_B, one class index per row")
        return self._memory(torch.cat([z_BP, self.labels(label_B).to(z_BP.dtype)], -1), label_B)

    def _memory(self, c_BP: Tensor, label_B: Tensor | None) -> Memory:
        slots = [injection.past_vectors(c_BP) for injection in self.injections]  # pyright: ignore[reportCallIssue]
        layers = [self.decoder.as_kv(x_BLD) for x_BLD in slots if x_BLD is not None]
        past = tuple(reduce(KV.join, of_layer) for of_layer in zip(*layers, strict=True))
        return Memory(vector=c_BP, past=past, label=label_B)

    def added(self, memory: Memory | None) -> Tensor | None:
        """B x L x D, the sum of what the injections add to the token embeddings; None where they add nothing."""
        if memory is None or memory.vector is None:
            raise ValueError("this decoder is conditioned on a latent vector, but the memory has none; use memory_from(z)")
        parts = [injection.embedding_offsets(memory.vector) for injection in self.injections]  # pyright: ignore[reportCallIssue]
        parts = [added_BLD for added_BLD in parts if added_BLD is not None]
        return reduce(_add, parts) if parts else None

    def embed_with(self, x: Seq, added_BLD: Tensor | None) -> Seq:
        """Token embeddings plus the vectors that injections add at their positions."""
        embedded = self.model.embed(x)
        return embedded if added_BLD is None else embedded.with_data(embedded.data + _at(x.positions(), added_BLD))

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        return self.decoder(self.embed_with(x, self.added(memory)), memory, mask)

    def start(self, memory: Memory | None, rows: int) -> LatentDecodingState:
        state = super().start(memory, rows)
        return LatentDecodingState(state.inner, state.seen_B, self.added(memory))

    def step(self, x: Seq, state: Any) -> Decoded:
        positioned = x.mark(position=state.seen_B[:, None] + Seq(x.data, x.mask).positions())
        done = self.decoder.step(self.embed_with(positioned, state.added_BLD), state.inner)
        return Decoded(done.hidden, LatentDecodingState(done.state, state.seen_B + x.lengths(), state.added_BLD))


def _add(one_BLD: Tensor, other_BLD: Tensor) -> Tensor:
    """Sum of what two injections add; the shorter one is zero-padded, and one of length 1 applies to all positions."""
    short_BLD, long_BLD = sorted((one_BLD, other_BLD), key=lambda x_BLD: x_BLD.shape[1])
    padding = long_BLD.shape[1] - short_BLD.shape[1]
    return long_BLD + (short_BLD if short_BLD.shape[1] == 1 else F.pad(short_BLD, (0, 0, 0, padding)))


def _at(position_BT: Tensor, added_BLD: Tensor) -> Tensor:
    """B x T x D, the vectors to add at these positions and zero after the L-th; B x 1 x D where L is 1."""
    length = added_BLD.shape[1]
    if length == 1:
        return added_BLD
    index_BTD = position_BT.clamp(0, length - 1)[..., None].expand(-1, -1, added_BLD.shape[-1])
    return added_BLD.gather(1, index_BTD).masked_fill((position_BT >= length)[..., None], 0.0)


class DecodesFromLatent(Decodes):
    """Decodes with its ``decoder``: a ``LatentDecoder``, or several behind one interface."""

    decoder: Any

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        return self.decoder.decode(x, memory, mask)

    def start(self, memory: Memory | None, rows: int) -> Any:
        return self.decoder.start(memory, rows)

    def step(self, x: Seq, state: Any) -> Decoded:
        return self.decoder.step(x, state)

    @property
    def head(self) -> Head:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.decoder.head

    @property
    def target_embedder(self) -> Embedder:
        return self.decoder.embedder
