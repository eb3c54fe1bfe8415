"""A decoder for each class. P width of the latent space, K classes; other suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.contracts import Decoder, Decodes, Embedder, Head, Injection, Structure
from weft.core.fields import Info
from weft.core.masks import Causal, Mask
from weft.core.registry import Build
from weft.core.seq import Decoded, Memory, Seq
from weft.models.latent_decoder import LatentDecoder


@dataclass(frozen=True)
class DecoderPerClassState:
    """State of the decoders: that of each, and the class that each row is to have."""

    states: tuple[Any, ...]
    label_B: Tensor

    def select(self, rows: Tensor) -> DecoderPerClassState:
        return DecoderPerClassState(tuple(state.select(rows) for state in self.states), self.label_B[rows])


class DecoderPerClass(nn.Module, Decodes):
    """A language model for each class, each given the vector z; a row is written by the one of its class.

    p_y(x_t | x_<t, z)

    All decoders go through all rows, so that nothing depends on which classes are in a batch. The logits of all are made by one
    head, that of the first.

    Args:
        info: What the language models are built for: one text, and its class.
        latent: P.
        model: A structure that decodes and looks at nothing else.
        injections: How the vector enters.
    """

    def __init__(self, info: Info, latent: int, model: Build[Structure], injections: list[Build[Injection]]):
        super().__init__()
        number = info["label"].vocab
        self.decoders = nn.ModuleList([LatentDecoder(info, latent, model, injections) for _ in range(number)])
        for decoder in self._decoders():
            decoder.model.head = self.first.head
        self.target, self.dim = self.first.target, self.first.dim

    def _decoders(self) -> list[LatentDecoder]:
        return [decoder for decoder in self.decoders if isinstance(decoder, LatentDecoder)]

    @property
    def first(self) -> LatentDecoder:
        return self._decoders()[0]

    @property
    def models(self) -> list[Structure]:
        """The language models."""
        return [decoder.model for decoder in self._decoders()]

    @property
    def decoder(self) -> Decoder:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.first.decoder

    @property
    def head(self) -> Head:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.first.head

    @property
    def embedder(self) -> Embedder:
        return self.first.embedder

    def memory_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        if label_B is None:
            raise ValueError("this decoder is class-conditional, but no label was given; pass label_B, one class index per row")
        return Memory(vector=z_BP, label=label_B)

    def decode(self, x: Seq, memory: Memory | None, mask: Mask = Causal()) -> Decoded:
        z_BP, label_B = _given(memory)
        hidden = [decoder.decode(x, decoder.memory_from(z_BP), mask).hidden for decoder in self._decoders()]
        return Decoded(_of_class(hidden, label_B))

    def start(self, memory: Memory | None, rows: int) -> Any:
        z_BP, label_B = _given(memory)
        return DecoderPerClassState(tuple(w.start(w.memory_from(z_BP), rows) for w in self._decoders()), label_B)

    def step(self, x: Seq, state: Any) -> Decoded:
        done = [decoder.step(x, inner) for decoder, inner in zip(self._decoders(), state.states, strict=True)]
        return Decoded(
            _of_class([d.hidden for d in done], state.label_B), DecoderPerClassState(tuple(d.state for d in done), state.label_B)
        )


def _given(memory: Memory | None) -> tuple[Tensor, Tensor]:
    if memory is None or memory.vector is None or memory.label is None:
        raise ValueError("this decoder needs a latent vector and a label, but the memory lacks one; use memory_from(z, label)")
    return memory.vector, memory.label


def _of_class(hidden: list[Seq], label_B: Tensor) -> Seq:
    data_KBTD = torch.stack([h.data for h in hidden])
    return hidden[0].with_data(data_KBTD[label_B, torch.arange(len(label_B), device=label_B.device)])
