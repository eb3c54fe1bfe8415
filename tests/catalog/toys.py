"""Small blocks of the bench's own, all correct: what the suite was written on, and the good twins of the planted faults.

Suffixes as in weft/seq.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Clock, Instance
from weft.core.contracts import (
    CHOICE,
    Activation,
    Attention,
    Classifies,
    Decoder,
    Decodes,
    Embedder,
    Encoder,
    Encodes,
    ExtractsSpans,
    FeedForward,
    Head,
    Layer,
    LayerOutput,
    Mixed,
    Mixer,
    Norm,
    Objective,
    Pooler,
    Position,
    Residual,
    Score,
    ScoresChoices,
    Structure,
    Tags,
)
from weft.core.example import Example, Targets
from weft.core.fields import Field, Info, TextField
from weft.core.loss import Loss
from weft.core.masks import Causal, Full, Mask
from weft.core.options import Dim, Dropout, Fraction, Layers
from weft.core.seq import KV, Decoded, Memory, Seq

from .bench import DIM, Table


class Cube(Activation):
    """Cubes every number."""

    def forward(self, x: Tensor) -> Tensor:
        return x**3


class Rescale(Norm):
    """Divides every vector by its length.

    Args:
        eps: Added to the length.

    Example:
        >>> Rescale(2)(torch.tensor([[3.0, 4.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """

    def __init__(self, dim: int, *, eps: Fraction = 0.0):
        super().__init__(dim)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.weight * x_BTD / (x_BTD.norm(dim=-1, keepdim=True) + self.eps)


class Wide(FeedForward):
    """Two dense maps with dropout between them."""

    def __init__(self, dim: int, *, hidden: Dim = 24, dropout: Dropout = 0.0):
        super().__init__(dim)
        self.up, self.down, self.dropout = nn.Linear(dim, hidden), nn.Linear(hidden, dim), dropout

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.drop(self.up(x_BTD).tanh()))

    def drop(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, self.training)


class Add(Residual):
    """x + f(x)."""

    def forward(self, x_BTD: Tensor, f: Any) -> Tensor:
        return x_BTD + f(x_BTD)


class Slope(Position):
    """A penalty that grows with the distance."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.slope = nn.Parameter(torch.ones(2))

    def bias(self, query_BT: Tensor, key_BS: Tensor) -> Tensor | None:
        distance_BTS = (query_BT[:, :, None] - key_BS[:, None, :]).abs()
        return -self.slope[:, None, None] * distance_BTS[:, None]


class Bilinear(Score):
    """q . W k."""

    def __init__(self, dim: int, memory: int):
        super().__init__(dim, memory)
        self.map = nn.Linear(memory, dim, bias=False)

    def prepare(self, key_BHSK: Tensor, position_BS: Tensor | None = None) -> Tensor:
        return self.map(key_BHSK)

    def forward(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        return query_BHTK @ key_BHSK.transpose(-1, -2)


@dataclass(frozen=True)
class Sums:
    """Sum and number of the real positions so far."""

    sum_BD: Tensor
    count_B: Tensor

    def select(self, rows: Tensor) -> Sums:
        return type(self)(self.sum_BD[rows], self.count_B[rows])


class RunningMean(Mixer):
    """The mean of a position and those before it, of mapped vectors."""

    supported_masks = (Causal,)
    state: type[Sums] = Sums

    def __init__(self, dim: int):
        super().__init__(dim)
        self.map = nn.Linear(dim, dim)

    def real(self, x: Seq) -> Tensor:
        return x.real()

    def forward(self, x: Seq, mask: Mask, position: Position | None = None, past: Sums | None = None) -> Mixed:
        self.check_mask(mask)
        real_BT = self.real(x)
        added_BTD = self.map(x.data).masked_fill(~real_BT[:, :, None], 0.0)
        sum_BTD, count_BT = added_BTD.cumsum(1), real_BT.long().cumsum(1)
        if past is not None:
            sum_BTD, count_BT = sum_BTD + past.sum_BD[:, None], count_BT + past.count_B[:, None]
        mean_BTD = sum_BTD / count_BT.clamp(min=1)[:, :, None]
        return Mixed(x.with_data(self.output(mean_BTD)), self.state(sum_BTD[:, -1], count_BT[:, -1]))

    def output(self, mean_BTD: Tensor) -> Tensor:
        return mean_BTD


class OneHead(Attention):
    """Attention with one head, written out."""

    def __init__(self, dim: int, memory: int | None = None):
        memory = dim if memory is None else memory
        super().__init__(dim, memory)
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(memory, dim), nn.Linear(memory, dim)

    def project(self, memory: Seq, position: Position | None = None) -> KV:
        return KV(self.key(memory.data)[:, None], self.value(memory.data)[:, None], memory.mask, memory.positions())

    def forward(self, query: Seq, kv: KV, mask: Mask, position: Position | None = None) -> Seq:
        score_BTS = self.query(query.data) @ kv.key[:, 0].transpose(1, 2) / query.data.shape[-1] ** 0.5
        weight_BTS = self.weights(score_BTS, self.allowed(query, kv, mask))
        value_BSD = kv.value[:, 0].masked_fill(~self.readable(kv)[:, :, None], 0.0)
        return query.with_data(weight_BTS @ value_BSD)

    def allowed(self, query: Seq, kv: KV, mask: Mask) -> Tensor:
        keep_BTS = self.readable(kv)[:, None, :].expand(-1, query.width, -1)
        allow_BTS = mask.allow(query.positions(), kv.position)
        return keep_BTS if allow_BTS is None else keep_BTS & allow_BTS

    def readable(self, kv: KV) -> Tensor:
        return kv.real()

    def weights(self, score_BTS: Tensor, keep_BTS: Tensor) -> Tensor:
        score_BTS = score_BTS.masked_fill(~keep_BTS, torch.finfo(score_BTS.dtype).min)
        return score_BTS.softmax(-1) * keep_BTS


class PlainLayer(Layer):
    """Attention to its own sequence and, with a memory, to that."""

    attention: type[OneHead] = OneHead

    def __init__(self, dim: int, memory: int | None):
        super().__init__(dim, memory)
        self.mixer = self.attention(dim, dim)
        self.context = None if memory is None else self.attention(dim, memory)

    def project(self, memory: Memory) -> KV:
        if self.context is None:
            raise ValueError("this layer attends to no memory")
        return self.context.project(memory.sources[0])

    def forward(self, x: Seq, mask: Mask, position: Position | None, past: KV | None, context: KV | None) -> LayerOutput:
        kv = self.mixer.project(x)
        kv = kv if past is None else past.join(kv)
        hidden = x.with_data(x.data + self.mixer(x, kv, mask).data)
        if self.context is not None and context is not None:
            hidden = hidden.with_data(hidden.data + self.context(hidden, context, Full()).data)
        return LayerOutput(hidden, kv)


class Tokens(Table):
    """A vector for each id, and a faint one for its position."""

    def forward(self, x: Seq) -> Seq:
        wave_BTD = (x.positions()[:, :, None] * 0.3 + torch.arange(DIM, device=x.data.device)).to(self.weight.dtype).sin()
        return x.with_data(super().forward(x).data + wave_BTD)


class Attends(Encoder):
    """A stack of layers under any mask."""

    supported_masks = (Mask,)
    layer: type[PlainLayer] = PlainLayer

    def __init__(self, dim: int, *, layers: Layers = 1):
        super().__init__(dim)
        self.layers = nn.ModuleList(self.layer(dim, None) for _ in range(layers))

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.check_mask(mask)
        found = [x]
        for layer in self.layers:
            found.append(layer(found[-1], mask, None, None, None).hidden)
        return found


class Backward(Encoder):
    """A recurrent network from right to left; padding leaves its state alone."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.cell = nn.GRUCell(dim, dim)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        self.check_mask(mask)
        state_BD, found = x.data.new_zeros(x.rows, x.data.shape[-1]), []
        for t in reversed(range(x.width)):
            state_BD = self.keep(self.cell(x.data[:, t], state_BD), state_BD, x.real()[:, t, None])
            found.append(state_BD)
        return [x, x.with_data(torch.stack(found[::-1], 1))]

    def keep(self, new_BD: Tensor, old_BD: Tensor, real_B1: Tensor) -> Tensor:
        return torch.where(real_B1, new_BD, old_BD)


@dataclass
class Cache:
    """Keys and values of what was seen, the context, and how many real tokens each row has seen."""

    past: KV | None
    context: KV | None
    seen_B: Tensor

    def select(self, rows: Tensor) -> Cache:
        past, context = (None if kv is None else kv.select(rows) for kv in (self.past, self.context))
        return Cache(past, context, self.seen_B[rows])


class Speaks(Decoder):
    """One layer that looks back, and at the memory."""

    layer: type[PlainLayer] = PlainLayer
    state: type[Cache] = Cache

    def __init__(self, dim: int, memory: int | None):
        super().__init__(dim, memory)
        self.inner = self.layer(dim, memory)
        self.projection = nn.Linear(1, dim)

    def forward(self, x: Seq, memory: Memory | None = None, mask: Mask = Causal()) -> Decoded:
        context = None if memory is None else self.inner.project(memory)
        return Decoded(self.inner(self.placed(x), mask, None, None, context).hidden)

    def placed(self, x: Seq) -> Seq:
        return x.with_data(x.data + self.projection(x.positions()[:, :, None].to(x.data.dtype)))

    def start(self, memory: Memory | None, rows: int) -> Cache:
        seen_B = torch.zeros(rows, dtype=torch.long, device=self.projection.weight.device)
        return self.state(None, None if memory is None else self.inner.project(memory), seen_B)

    def step(self, x: Seq, state: Cache) -> Decoded:
        here = Seq(x.data, x.mask)
        here = here.mark(position=state.seen_B[:, None] + here.positions())
        out = self.inner(self.placed(here), Causal(), None, state.past, state.context)
        return Decoded(x.with_data(out.hidden.data), self.state(out.state, state.context, self.advance(state.seen_B, x)))

    def advance(self, seen_B: Tensor, x: Seq) -> Tensor:
        return seen_B + x.lengths()


class Average(Pooler):
    """The mean of the real positions."""

    def forward(self, x: Seq) -> Tensor:
        real_BT1 = x.real()[:, :, None]
        return x.data.masked_fill(~real_BT1, 0.0).sum(1) / real_BT1.sum(1).clamp(min=1)


class Dense(Head):
    """One dense map."""

    def __init__(self, dim: int, field: Field, embedder: Embedder | None):
        super().__init__(dim, field, embedder)
        self.map = nn.Linear(dim, field.outputs)

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.map(x_ND)

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return nn.functional.cross_entropy(self(x_ND), target_N, reduction="none", label_smoothing=smoothing)


class ToyEncoder(Structure, Encodes, Classifies):
    """Embedder, encoder, pooler, head: classifies a text."""

    def __init__(self, info: Info, *, encoder: type[Encoder] = Backward):
        super().__init__(info)
        self.dim = DIM
        self.embedder, self.encoder, self.pooler = Tokens(DIM, info["text"]), encoder(DIM), Average(DIM)
        self.classifier = Dense(DIM, info["label"], None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        return self.pooler(self.encode(x))

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        return self.classifier(self.features(Seq.of(x, mask)))


class ToyLanguageModel(Structure, Decodes):
    """A language model."""

    def __init__(self, info: Info, *, decoder: type[Decoder] = Speaks):
        super().__init__(info)
        self.dim, self.target = DIM, info["text"]
        self.embedder, self.decoder, self.head = Tokens(DIM, self.target), decoder(DIM, None), Dense(DIM, self.target, None)

    def embed(self, x: Seq) -> Seq:
        return self.embedder(x)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        return self.next_token_logits(Seq.of(x, mask), None)


class Translator(Structure, Encodes, Decodes):
    """An encoder and a decoder that attends to it."""

    def __init__(self, info: Info, *, encoder: type[Encoder] = Backward, decoder: type[Decoder] = Speaks):
        super().__init__(info)
        self.dim, self.target = DIM, info["target"]
        self.source_embedder, self.target_embedder = Tokens(DIM, info["source"]), Tokens(DIM, self.target)
        self.encoder, self.decoder = encoder(DIM), decoder(DIM, DIM)
        self.head = Dense(DIM, self.target, None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.source_embedder(x), mask)

    def embed(self, x: Seq) -> Seq:
        return self.target_embedder(x)

    def memory(self, batch: Batch) -> Memory | None:
        return Memory((self.encode(batch["source"]),))

    def forward(
        self, x: Seq | Tensor, decoder_input: Seq | Tensor, mask: Tensor | None = None, decoder_mask: Tensor | None = None
    ) -> Tensor:
        return self.teacher_forcing(Seq.of(x, mask), Seq.of(decoder_input, decoder_mask))


class Versatile(ToyLanguageModel, Classifies):
    """A language model that also classifies a text."""

    def __init__(self, info: Info):
        super().__init__(info)
        self.pooler, self.classifier = Average(DIM), Dense(DIM, info["label"], None)

    def features(self, x: Seq) -> Tensor:
        return self.pooler(self.decode(x, None).hidden)


class Attentive(ToyEncoder):
    """An encoder whose encoder respects any mask."""

    def __init__(self, info: Info):
        super().__init__(info, encoder=Attends)


class Labels(Structure, Tags, Encodes):
    """Predicts a tag for each word."""

    def __init__(self, info: Info):
        super().__init__(info)
        self.dim = DIM
        self.embedder, self.encoder = Tokens(DIM, info["text"]), Backward(DIM)
        self.tag_head, self.chain = Dense(DIM, self.outputs(info), None), None

    def outputs(self, info: Info) -> Field:
        return info["tags"]

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        return self.tag_head(self.encode(Seq.of(x, mask)).data)


class Picker(Structure, Encodes, ScoresChoices):
    """Predicts which of several texts is correct."""

    def __init__(self, info: Info, *, pooler: type[Pooler] = Average):
        super().__init__(info)
        self.dim = DIM
        self.embedder, self.encoder, self.pooler = Tokens(DIM, info["choices"]), Backward(DIM), pooler(DIM)
        self.choice_head = Dense(DIM, CHOICE, None)

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def features(self, x: Seq) -> Tensor:
        return self.pooler(self.encode(x))

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        return self.choice_head(self.features(Seq.of(x, mask)))[:, 0]


class Finds(Structure, ExtractsSpans, Encodes):
    """Predicts the span of an answer."""

    def __init__(self, info: Info):
        super().__init__(info)
        self.dim = DIM
        self.embedder, self.encoder = Tokens(DIM, info["context"]), Backward(DIM)
        self.span_head = Dense(DIM, self.outputs(info), None)

    def outputs(self, info: Info) -> Field:
        return info["answer"]

    def encode(self, x: Seq, mask: Mask = Full()) -> Seq:
        return self.encoder(self.embedder(x), mask)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        return self.span_head(self.encode(Seq.of(x, mask)).data)


TOYS = (Translator, ToyLanguageModel, ToyEncoder, Versatile, Attentive, Labels, Picker, Finds)


class Follow(Objective):
    """The next token of a text."""

    needs = (Decodes,)

    def __init__(self, info: Info, dim: int, *, smoothing: Fraction = 0.0):
        super().__init__(info, dim)
        self.field, self.source, self.smoothing = info[info.target], "source" in info, smoothing
        if not isinstance(self.field, TextField):
            raise ValueError(f"the next token needs a text to predict, but {self.field.name!r} is a {self.field.kind}")

    def prepare(self, example: Example, rng: np.random.Generator, pool: Any) -> Instance | None:
        whole = np.concatenate([[self.field.special.bos], example[self.field.name], [self.field.special.eos]])
        made = Instance({"input": whole[:-1], "picks": Targets("input", np.arange(len(whole) - 1), whole[1:])})
        if self.source:
            made["source"] = example["source"]
        return made

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"loss": len(batch["picks"])}

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        hidden = model.decode(batch["input"], model.memory(batch)).hidden
        losses_N = model.head.nll(batch["picks"].gather(hidden), batch["picks"].target_N, self.smoothing)
        return Loss.of(self.reduce(losses_N), len(batch["picks"]))

    def reduce(self, losses_N: Tensor) -> Tensor:
        return losses_N.sum()
