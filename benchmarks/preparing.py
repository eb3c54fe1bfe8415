"""Whether preparation keeps up with training: tokens per second that each pretraining objective prepares on one core, compared
with the training speed of a small Transformer (4 layers, dim 192, as in benchmarks/pretraining.yaml) on all cores.

``python -m benchmarks.preparing``; texts are synthetic: half of them are shorter than 20 tokens, some are very long.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import torch

from weft.blocks import ClassifierHead, FirstPooler, Transformer, TransformerDecoder
from weft.core.batch import Clock
from weft.core.contracts import MaskingStrategy, Noise, Pairing
from weft.core.example import Example
from weft.core.fields import Info, TextField
from weft.core.registry import CATALOG
from weft.data.feed import Feed
from weft.models import LanguageModel, Seq2Seq, TextEncoder
from weft.objectives import Denoising, MaskedLM, NextToken, PrefixLM, ReplacedToken

VOCAB, BUDGET, DIM, STOPS = 8000, 4000, 192, 60
INFO = Info({"text": TextField("text", VOCAB, max_length=256, sentinel_count=100, sentence_ends=tuple(range(7, 7 + STOPS)))})
ENCODER = partial(Transformer, layers=4)
TEXT_ENCODER = partial(
    TextEncoder, dim=DIM, encoder=ENCODER, pooler=FirstPooler, segment_head=ClassifierHead, discriminator=ClassifierHead
)
LANGUAGE_MODEL = partial(LanguageModel, dim=DIM, decoder=partial(TransformerDecoder, layers=4))
SEQ2SEQ = partial(Seq2Seq, dim=DIM, encoder=ENCODER, decoder=partial(TransformerDecoder, layers=2))
PREPARE, TRAIN = 2.0, 6.0
"""Seconds for each measurement."""


class SyntheticTexts:
    """Rows of ids; one in a hundred of them ends a sentence."""

    def __init__(self, rows: int = 20_000):
        rng = np.random.default_rng(0)
        length = np.clip(rng.lognormal(3.0, 0.7, rows), 3, 250).astype(np.int64)
        ends = np.cumsum(length)
        self.ids = rng.integers(7, VOCAB - 100, int(ends[-1]))
        self.begin, self.end = ends - length, ends
        self.lengths = {"text": length}

    def __len__(self) -> int:
        return len(self.begin)

    def __getitem__(self, row: int) -> Example:
        return {"text": self.ids[self.begin[row] : self.end[row]]}

    def raw(self, row: int) -> dict[str, str]:
        return {"text": ""}


def objectives() -> dict[str, tuple[Any, Any]]:
    """Structure and objective, by name."""
    found: dict[str, tuple[Any, Any]] = {"next-token": (LANGUAGE_MODEL, NextToken), "prefix-lm": (LANGUAGE_MODEL, PrefixLM)}
    for name, masking in CATALOG[MaskingStrategy].items():
        found[f"masked-lm, {name}"] = (TEXT_ENCODER, partial(MaskedLM, masking=masking))
    for name, pairing in CATALOG[Pairing].items():
        found[f"masked-lm, {name}"] = (TEXT_ENCODER, partial(MaskedLM, pairing=pairing))
    found["replaced-token"] = (TEXT_ENCODER, ReplacedToken)
    for name, noise in CATALOG[Noise].items():
        if name != "chain":
            found[f"denoising, {name}"] = (SEQ2SEQ, partial(Denoising, noise=noise))
    return found


def tokens(feed: Feed, draws: int) -> int:
    return sum(int(feed.costs()[feed.rows(draw)].sum()) for draw in range(draws))


def prepared(feed: Feed) -> float:
    """Prepared tokens per second, on one core."""
    draw, start = 0, time.process_time()
    while time.process_time() - start < PREPARE:
        feed.batch(draw)
        draw += 1
    return tokens(feed, draw) / (time.process_time() - start)


def trained(feed: Feed, model: Any, objective: Any) -> float:
    """Tokens per second of training steps, without preparation."""
    parameters = [*model.parameters(), *objective.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-4)
    draw, spent = 0, 0.0
    while spent < TRAIN:
        batch = feed.batch(draw)
        start = time.perf_counter()
        assert batch is not None
        objective(model, batch, Clock()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        spent += time.perf_counter() - start
        draw += 1
    return tokens(feed, draw) / spent


def main() -> None:
    data = SyntheticTexts()
    print(f"{'objective':36} {'prepares':>12} {'learns from':>12}  tokens/s")
    for name, (structure, make) in objectives().items():
        torch.manual_seed(0)
        model, objective = structure(INFO).train(), make(INFO, DIM)
        feed = Feed(data, objective, key=1, budget=BUDGET)
        ours, theirs = prepared(feed), trained(feed, model, objective)
        print(f"{name:36} {ours:12,.0f} {theirs:12,.0f}  {ours / theirs:5.1f} times", flush=True)


if __name__ == "__main__":
    main()
