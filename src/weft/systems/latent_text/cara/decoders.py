"""One decoder per class. P latent dimensions, K classes; other suffixes: see seq.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.contracts import Decoder, Decodes, Embedder, Head, Injection, Structure
from weft.core.fields import Info, LabelField
from weft.core.masks import Causal, Mask
from weft.core.registry import Build
from weft.core.seq import Decoded, Memory, Seq
from weft.models.latent_decoder import LatentDecoder


@dataclass(frozen=True)
class DecoderPerClassState:
    """Decoding state: that of each decoder, and the class of each row."""

    states: tuple[Any, ...]
    label_B: Tensor

    def select(self, rows: Tensor) -> DecoderPerClassState:
        return DecoderPerClassState(tuple(state.select(rows) for state in self.states), self.label_B[rows])


class DecoderPerClass(nn.Module, Decodes):
    """One language model per class, conditioned on z; each row is decoded by the decoder of its class.

    p_y(x_t | x_<t, z)

    Every decoder processes all rows, so that the result does not depend on the other classes of a batch. The decoders share one
    head.

    Zhao et al. 2018 (ARAE), https://arxiv.org/abs/1706.04223

    Args:
        info: Fields of the language models: one text, and its class.
        latent: P, number of latent dimensions.
        model: A decoder-only structure.
        injections: How z conditions the decoder.

    Example:
        >>> from weft.blocks import LatentEmbedding
        >>> from weft.core.fields import LabelField, TextField
        >>> from weft.models import LanguageModel
        >>> info = Info({"target": TextField("target", 11), "label": LabelField("label", 2)}, target="target")
        >>> len(DecoderPerClass(info, 4, LanguageModel, [LatentEmbedding]).models)
        2
    """

    def __init__(self, info: Info, latent: int, model: Build[Structure], injections: list[Build[Injection]]):
        super().__init__()
        number = info.expect("label", LabelField).classes
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
        z_BP, label_B = _latent_and_label(memory)
        hidden = [decoder.decode(x, decoder.memory_from(z_BP), mask).hidden for decoder in self._decoders()]
        return Decoded(_select_by_class(hidden, label_B))

    def start(self, memory: Memory | None, rows: int) -> Any:
        z_BP, label_B = _latent_and_label(memory)
        return DecoderPerClassState(
            tuple(decoder.start(decoder.memory_from(z_BP), rows) for decoder in self._decoders()), label_B
        )

    def step(self, x: Seq, state: Any) -> Decoded:
        outputs = [decoder.step(x, inner) for decoder, inner in zip(self._decoders(), state.states, strict=True)]
        return Decoded(
            _select_by_class([output.hidden for output in outputs], state.label_B),
            DecoderPerClassState(tuple(output.state for output in outputs), state.label_B),
        )


def _latent_and_label(memory: Memory | None) -> tuple[Tensor, Tensor]:
    if memory is None or memory.vector is None or memory.label is None:
        raise ValueError("this decoder needs a latent vector and a label, but the memory lacks one; use memory_from(z, label)")
    return memory.vector, memory.label


def _select_by_class(hidden: list[Seq], label_B: Tensor) -> Seq:
    data_KBTD = torch.stack([h.data for h in hidden])
    return hidden[0].with_data(data_KBTD[label_B, torch.arange(len(label_B), device=label_B.device)])
