"""A training step of a Transformer by weft and by hand: the same shapes and batches, interleaved. ``python -m benchmarks.step``

The hand-written side is what one would write in plain torch, with nothing of weft: nn.Linear, nn.LayerNorm, nn.Dropout,
scaled_dot_product_attention, one product for query, key and value, cross-entropy on all positions, fused Adam. Weft's side is the
whole loop as ``weft train`` runs it, with the batches prepared and put together from the corpus. Both work in one process, so
both have what ``weft.training.allocator`` does; ``--plain-memory`` runs them without.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.overhead import Nobody
from weft.blocks import (
    MultiHeadAttention,
    PositionwiseFeedForward,
    PreNorm,
    SinusoidalPositionEmbedder,
    SumEmbedder,
    TokenEmbedder,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
)
from weft.core.batch import Batch
from weft.core.example import Example
from weft.core.fields import Info, TextField
from weft.data import Feed
from weft.learning import Gradient, Network, TrainingLoop
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training.allocator import keep_freed_memory

DIM, HEADS, HIDDEN, LAYERS, VOCAB, DROPOUT, SMOOTHING, BUDGET, LONGEST = 256, 4, 1024, 3, 8000, 0.1, 0.1, 2000, 64


class Pairs:
    """Synthetic sentence pairs of about 13 tokens each."""

    def __init__(self, rows: int):
        rng = np.random.default_rng(0)
        source = np.clip(rng.normal(13, 4, rows), 3, 40).astype(int)
        target = np.clip(source + rng.integers(-2, 3, rows), 3, 40)
        self.lengths: Mapping[str, np.ndarray] = {"source": source, "target": target}
        self.rows = [{name: rng.integers(7, VOCAB, n[i]) for name, n in self.lengths.items()} for i in range(rows)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Example:
        return self.rows[row]

    def raw(self, row: int) -> dict[str, str]:
        return {name: " ".join(map(str, ids)) for name, ids in self.rows[row].items()}


# ------------------------------------------------------------------------------------------------------------ by hand


class Block(nn.Module):
    """A pre-norm layer, with cross-attention where ``context``."""

    def __init__(self, context: bool):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(DIM) for _ in range(3 if context else 2)])
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        if context:
            self.query, self.kv, self.out2 = nn.Linear(DIM, DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(DIM, DIM)
        self.feedforward = nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, DIM))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, allow: Tensor, memory: Tensor | None = None, allow_memory: Tensor | None = None) -> Tensor:
        q, k, v = map(heads, self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.drop(self.out(merge(F.scaled_dot_product_attention(q, k, v, allow))))
        if memory is not None:
            k, v = map(heads, self.kv(memory).chunk(2, -1))
            q = heads(self.query(self.norms[1](x)))
            x = x + self.drop(self.out2(merge(F.scaled_dot_product_attention(q, k, v, allow_memory))))
        return x + self.drop(self.feedforward(self.norms[-1](x)))


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class ByHand(nn.Module):
    """Encoder, decoder, one table for both vocabularies and the output."""

    waves: Tensor

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.table.weight, std=DIM**-0.5)
        angle = torch.arange(LONGEST)[:, None] * 10_000 ** -(torch.arange(DIM // 2) / (DIM // 2))
        self.register_buffer("waves", torch.cat([angle.sin(), angle.cos()], -1))
        self.encoder = nn.ModuleList([Block(False) for _ in range(LAYERS)])
        self.decoder = nn.ModuleList([Block(True) for _ in range(LAYERS)])
        self.norms = nn.ModuleList([nn.LayerNorm(DIM), nn.LayerNorm(DIM)])
        self.bias, self.drop = nn.Parameter(torch.zeros(VOCAB)), nn.Dropout(DROPOUT)

    def embed(self, ids: Tensor) -> Tensor:
        return self.drop(self.table(ids) * DIM**0.5 + self.waves[: ids.shape[1]])

    def forward(self, source: Tensor, real: Tensor, given: Tensor, target: Tensor) -> Tensor:
        allow = real[:, None, None]
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, allow)
        memory = self.norms[0](memory)
        x, triangle = self.embed(given), torch.ones(given.shape[1], given.shape[1], dtype=torch.bool).tril()
        for layer in self.decoder:
            x = layer(x, triangle, memory, allow)
        logits = F.linear(self.norms[1](x) * DIM**-0.25, self.table.weight, self.bias)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100, label_smoothing=SMOOTHING)


def unpadded(batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weft's batch as plain tensors: source, which of it is real, the decoder's input, its targets."""
    target = torch.full(batch["input"].data.shape, -100)
    target.view(-1)[batch["picks"].index_N] = batch["picks"].target_N
    return batch["source"].data, batch["source"].real(), batch["input"].data, target


def by_hand(batches: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> Iterator[None]:
    """A step at each ``next``."""
    torch.manual_seed(0)
    model = ByHand()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    while True:
        for batch in batches:
            optimizer.zero_grad()
            loss = model(*batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()
            yield


# --------------------------------------------------------------------------------------------------------------- weft


def network(info: Info) -> Network:
    torch.manual_seed(0)
    layer = partial(
        TransformerLayer,
        mixer=partial(MultiHeadAttention, heads=HEADS),
        feedforward=partial(PositionwiseFeedForward, hidden=HIDDEN),
        residual=partial(PreNorm, dropout=DROPOUT),
    )
    stack: dict[str, Any] = {"layers": LAYERS, "layer": layer, "position": None}
    model = Seq2Seq(
        info,
        dim=DIM,
        embedder=partial(SumEmbedder, parts=[TokenEmbedder, SinusoidalPositionEmbedder], dropout=DROPOUT),
        encoder=partial(Transformer, **stack),
        decoder=partial(TransformerDecoder, **stack),
    )
    return Network(model, {"": NextToken(info, DIM, label_smoothing=SMOOTHING)})


def by_weft(loop: TrainingLoop) -> Iterator[None]:
    while True:
        loop.run_phase(loop.phases[0])
        loop.progress.step += 1
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--plain-memory", action="store_true", help="leave malloc as it is")
    choice = parser.parse_args()
    torch.set_num_threads(choice.threads)
    kept = not choice.plain_memory and keep_freed_memory()
    info = Info({n: TextField(n, VOCAB, max_length=LONGEST) for n in ("source", "target")}, target="target")
    ours = network(info)
    feed = Feed(Pairs(4000), ours.objectives[""], key=(1,), budget=BUDGET)
    learning = Gradient(steps=choice.steps + 3, batch_tokens=BUDGET)
    loop = TrainingLoop(ours, learning, lambda *_: feed, Nobody(), seed=1, stage=0, device=torch.device("cpu"), precision="fp32")
    batches = [unpadded(b) for b in (feed.batch(i) for i in range(choice.steps + 3)) if b is not None]
    own, theirs = sum(p.numel() for p in ours.parameters().values()), sum(p.numel() for p in ByHand().parameters())
    tokens = statistics.mean(int(real.sum()) + int((target >= 0).sum()) for _, real, _, target in batches)
    print(f"{own:,} and {theirs:,} parameters, {tokens:.0f} tokens a step, {choice.threads} threads, freed memory kept: {kept}")
    sides: dict[str, Iterator[None]] = {"weft": by_weft(loop), "by hand": by_hand(batches)}
    clocks: dict[str, Callable[[], float]] = {"CPU time": time.process_time, "wall time": time.perf_counter}
    taken: dict[tuple[str, str], list[float]] = {(side, clock): [] for side in sides for clock in clocks}
    for step in range(choice.steps + 3):
        for side, steps in sides.items():
            before = {name: clock() for name, clock in clocks.items()}
            next(steps)
            if step >= 3:  # the first ones warm up
                for name, clock in clocks.items():
                    taken[side, name].append(1000 * (clock() - before[name]))
    for name in clocks:
        middle = {side: statistics.median(taken[side, name]) for side in sides}
        ratio = statistics.median(a / b for a, b in zip(taken["weft", name], taken["by hand", name], strict=True))
        times = ", ".join(f"{side} {ms:.1f} ms" for side, ms in middle.items())
        print(f"{name} per step, medians of {choice.steps}: {times}; weft : by hand, median of ratios {ratio:.3f}")


if __name__ == "__main__":
    main()
