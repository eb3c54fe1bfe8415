"""What weft's loop costs beside a plain one: the same model and batches, interleaved. ``python -m benchmarks.overhead``

The plain loop is what one would write by hand: a fixed list of padded batches, forward, cross-entropy, backward, clip, step.
weft's does the same and prepares its batches from the corpus besides, seeds, checks for what is not finite, and counts.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
from torch import nn

from weft.blocks import LSTM, AttentionLSTM
from weft.core.batch import Clock
from weft.data import Dates, Feed
from weft.learning import Gradient, TrainingLoop
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training.build import build_network, plans
from weft.training.run import Run

ROUNDS, UPDATES = 7, 20


class Nobody:
    def on_log(self, row: Any) -> None: ...

    def should_evaluate(self, progress: Any, last: bool) -> bool:
        return False

    def evaluate(self, progress: Any, last: bool) -> float | None:
        return None

    def save(self, tensors: Any, documents: Any, progress: Any) -> None: ...

    def restore(self) -> Any: ...

    def should_stop(self) -> bool:
        return False


def main() -> None:
    learning = partial(Gradient, steps=UPDATES, batch_tokens=4000)
    structure = partial(Seq2Seq, dim=128, encoder=partial(LSTM, bidirectional=True), decoder=AttentionLSTM)
    run = Run(data=partial(Dates, train=5000), structure=structure, objective=NextToken, learning=learning)
    corpus = run.data().open()
    plan = plans(run)[0]
    ours, theirs = (build_network(plan, {"": corpus.codec.info}, 1) for _ in range(2))
    feed = Feed(corpus.splits["train"], ours.objectives[""], key=(1,), budget=4000)
    batches = [b for b in (feed.batch(i) for i in range(UPDATES)) if b is not None]
    loop = TrainingLoop(
        ours, learning(), lambda *_: feed, Nobody(), seed=1, stage=0, device=torch.device("cpu"), precision="fp32"
    )
    objective, parameters = theirs.objectives[""], list(theirs.parameters().values())
    optimizer = torch.optim.Adam(parameters, 1e-3, fused=True)

    def weft_loop() -> None:
        loop.progress.step = 0
        loop.progress.batches["main"] = 0
        loop.run(resume=False)

    def plain_loop() -> None:
        for batch in batches:
            optimizer.zero_grad()
            objective(theirs.model, batch, Clock()).mean().backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()

    ratios = []
    for i in range(ROUNDS + 1):
        seconds = {}
        for name, function in (("weft", weft_loop), ("plain", plain_loop)):
            started = time.perf_counter()
            function()
            seconds[name] = time.perf_counter() - started
        if i:  # the first round warms up
            ratios.append(seconds["weft"] / seconds["plain"])
            print(f"round {i}: weft {seconds['weft']:.2f} s, plain {seconds['plain']:.2f} s, ratio {ratios[-1]:.3f}")
    print(f"median ratio of {ROUNDS} interleaved rounds: {sorted(ratios)[len(ratios) // 2]:.3f}")


if __name__ == "__main__":
    main()
