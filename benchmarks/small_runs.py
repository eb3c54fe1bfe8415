"""A small run on text for the campaigns that break things: trained in less than a second, with all that a run has on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

from weft.core.contracts import Dataset
from weft.data import cache
from weft.inference.load import load
from weft.learning import Interrupted, digest
from weft.training import artifacts
from weft.training.callbacks import StageCallbacks
from weft.training.recipes import read_run
from weft.training.run_folder import RunFolder
from weft.training.trainer import train

WORDS = ["cat", "dog", "cow", "hen", "pear", "plum", "fig", "kiwi", "sees", "eats"]
RECIPE = """\
seed: 3
device: cpu
data: {type: plain-text, train: train.txt, valid: valid.txt, tokenizer: word, max_length: 10}
structure: {type: gpt, dim: 8, layers: 1, heads: 2, length: 24, dropout: 0.1}
objective: next-token
learning: {type: gradient, steps: 4, batch_tokens: 100, save_every: 2, log_every: 1, keep: 9, final: best}
evaluate: {every: 2}
"""


class SmallRun:
    """The recipe, its data and its cache in a folder.

    Args:
        home: An empty folder.
    """

    def __init__(self, home: Path):
        self.home, self.recipe, self.cache = home, home / "recipe-of-run.yaml", home / "cache"
        draw = random.Random(1)
        for name, lines in (("train", 60), ("valid", 12)):
            text = "".join(" ".join(draw.choices(WORDS, k=draw.randint(2, 7))) + "\n" for _ in range(lines))
            (home / f"{name}.txt").write_text(text)
        self.recipe.write_text(RECIPE)
        self.use_cache(self.cache)

    @staticmethod
    def use_cache(folder: Path) -> None:
        os.environ[cache.VARIABLE] = str(folder)

    def train(self, folder: Path) -> None:
        """Train, or resume if there is something to resume. An empty folder is free: the first command is repeated."""
        home = RunFolder(folder)
        train(read_run(folder if home.is_run() else self.recipe), folder, resume=home.is_run() or home.is_incomplete(), keep=True)

    def train_to(self, folder: Path, step: int) -> None:
        """Train until a checkpoint is saved after a step, as on Ctrl-C."""
        real = StageCallbacks.should_stop
        StageCallbacks.should_stop = lambda self: self.loop.progress.step == step
        try:
            self.train(folder)
        except Interrupted:
            return
        finally:
            StageCallbacks.should_stop = real
        raise RuntimeError(f"training was not stopped after step {step}")

    def rows(self) -> str:
        """Return a hash of the prepared data: every example and every raw cell."""
        corpus = read_run(self.recipe).data().open()
        return _hash_of(corpus.splits["train"]) + _hash_of(corpus.splits["valid"])


def _hash_of(dataset: Dataset) -> str:
    found = hashlib.sha256()
    for row in range(len(dataset)):
        found.update(repr((dataset[row], dataset.raw(row))).encode())
    return found.hexdigest()


def result_of(run: Path) -> tuple[str, ...]:
    """Return what a finished run must agree in: final weights, last checkpoint, metrics, ledger."""
    last = sorted((run / "checkpoints").glob("step-*[0-9]"))[-1]
    texts = [(run / name).read_text() for name in ("metrics.json", "ledger.json")]
    return (digest(run / "model.safetensors"), digest(last), *texts)


def outputs_of(folder: Path, file: Path) -> list[str]:
    """Return what a model, of a run or published, computes: the metrics of a file, exactly, and a generated text."""
    model = load(folder, "cpu")
    scores = [f"{name} {float(value).hex()}" for name, value in model.evaluate(file).metric_values.items()]
    return [*scores, *model.generate([WORDS[0]])]


@contextlib.contextmanager
def without_pictures() -> Iterator[None]:
    """A context in which no learning curve is plotted, which takes longer than training."""
    real, artifacts.draw_curve = artifacts.draw_curve, lambda folder, display: None
    try:
        yield
    finally:
        artifacts.draw_curve = real
