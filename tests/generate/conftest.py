"""A structure whose logits are a table over whole prefixes: small enough to search exhaustively."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from weft.core.fields import Special, TextField
from weft.core.seq import Decoded, Memory, Seq

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """Each row's number in the memory and the real tokens it has read."""

    prefixes: tuple[tuple[int, Prefix], ...]

    def select(self, rows: Tensor) -> Rows:
        return Rows(tuple(self.prefixes[r] for r in rows.tolist()))


class Toy(nn.Module):
    """Logits of the next token are a random function of the row's memory and everything read so far.

    ``read`` counts the tokens stepped over, to see that rows that are done cost nothing.
    """

    def __init__(self, vocab: int = 7, seed: int = 0, special: Special = Special(), spread: float = 1.5):
        super().__init__()
        self.target, self.seed, self.spread = TextField("target", vocab, special=special), seed, spread
        self.read = 0

    def logits(self, number: int, prefix: Prefix) -> np.ndarray:
        rng = np.random.default_rng((self.seed, number, *prefix))
        return rng.normal(0, self.spread, self.target.vocab).astype(np.float32)

    def logp(self, number: int, prefix: Prefix) -> np.ndarray:
        return torch.from_numpy(self.logits(number, prefix)).double().log_softmax(-1).numpy()

    def start(self, memory: Memory | None, rows: int) -> Rows:
        numbers = [0] * rows if memory is None else memory.sources[0].data[:, 0, 0].long().tolist()
        return Rows(tuple((n, ()) for n in numbers))

    def step(self, x: Seq, state: Rows) -> Decoded:
        assert len(state.prefixes) == x.rows
        self.read += x.data.numel()
        out, ends = np.full((x.rows, x.width, self.target.vocab), np.nan, np.float32), []
        for b, (number, prefix) in enumerate(state.prefixes):
            for t in range(x.width):
                if x.real()[b, t]:
                    prefix = (*prefix, int(x.data[b, t]))
                    out[b, t] = self.logits(number, prefix)
            ends.append((number, prefix))
        return Decoded(Seq(torch.from_numpy(out), x.mask), Rows(tuple(ends)))

    def head(self, x_ND: Tensor) -> Tensor:
        return x_ND


def memory(*numbers: int) -> Memory:
    return Memory((Seq(torch.tensor(numbers, dtype=torch.float32)[:, None, None]),))


@pytest.fixture
def toy() -> type[Toy]:
    return Toy


@pytest.fixture
def remember() -> Callable[..., Memory]:
    """A memory whose rows have these numbers."""
    return memory
