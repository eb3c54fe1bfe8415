"""Speed of pretrained models compared with other packages: transformers and sentence-transformers, in one interleaved run.

python -m benchmarks.published            everything
python -m benchmarks.published start      load MiniLM and embed one sentence: time and memory, each in a new process
python -m benchmarks.published embed      1,000 sentences of mixed length, against sentence-transformers
python -m benchmarks.published step       a training step of a masked language model, against transformers, with equal results
                                          at dropout 0
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

ROUNDS = 7
START = {
    "weft": "from weft.inference.embedding import open_embedder; v = open_embedder('minilm'); v(['A man is eating food.'])",
    "transformers": (
        "import torch; from transformers import AutoModel, AutoTokenizer; from weft.core.hub import find_model;"
        "p = str(find_model('minilm'));"
        "t = AutoTokenizer.from_pretrained(p); m = AutoModel.from_pretrained(p).eval();"
        "e = t(['A man is eating food.'], return_tensors='pt');"
        "h = m(**e).last_hidden_state.detach().mean(1); torch.nn.functional.normalize(h)"
    ),
}
PEAK = ";import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"


def compared(
    name: str,
    sides: dict[str, Callable[[], Any]],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Print and return the seconds of each side, taken in turn; print the median of the ratios of the others to the first."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, work in sides.items():
            before = clock()
            work()
            taken[side].append(clock() - before)
    ours, *others = taken
    ratios = [statistics.median(b / a for a, b in zip(taken[ours], taken[side], strict=True)) for side in others]
    times = ", ".join(f"{side} {statistics.median(seconds):.3f} s" for side, seconds in taken.items())
    faster = " and ".join(f"{ratio:.2f}" for ratio in ratios)
    print(f"{name}: {times}; {ours} is {faster} times as fast (median of {rounds})", flush=True)
    return taken


def start() -> None:
    """Each side in a process of its own, from nothing to one vector."""
    peaks: dict[str, list[float]] = {side: [] for side in START}

    def work(side: str) -> None:
        quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        done = subprocess.run([sys.executable, "-c", START[side] + PEAK], capture_output=True, text=True, env=quiet, check=True)
        peaks[side].append(float(done.stdout.split()[-1]))

    compared("load MiniLM, embed one sentence", {side: lambda side=side: work(side) for side in START}, 5)
    print("peak memory: " + ", ".join(f"{side} {statistics.median(mb):.0f} MB" for side, mb in peaks.items()), flush=True)


def sentences(number: int = 1000) -> list[str]:
    """Synthetic sentences of 3 to 120 words, most of them short."""
    rng = np.random.default_rng(0)
    words = ["the", "a", "man", "woman", "dog", "is", "was", "eating", "food", "in", "on", "street", "red", "old", "music", "and"]
    return [" ".join(rng.choice(words, min(120, 3 + int(rng.exponential(18))))) for _ in range(number)]


def embed() -> None:
    from sentence_transformers import SentenceTransformer

    from weft.core.hub import find_model
    from weft.inference.embedding import open_embedder

    ours, theirs = open_embedder("minilm", "cpu"), SentenceTransformer(str(find_model("minilm")), device="cpu")
    texts = sentences()
    found: dict[str, np.ndarray] = {}

    def by_weft() -> None:
        found["weft"] = ours(texts)

    def by_them() -> None:
        found["theirs"] = theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    by_weft(), by_them()
    print(f"largest difference of 1,000 vectors: {np.abs(found['weft'] - found['theirs']).max():.1e}")
    compared("embed 1,000 sentences", {"weft": by_weft, "sentence-transformers": by_them})


SIZES = {
    "MiniLM's size, 16 x 128": (
        {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
        16,
    ),
    "BERT-base's size, 8 x 128": ({}, 8),
}


def step() -> None:
    for name, (sizes, rows) in SIZES.items():
        for dropout in (0.0, 0.1):
            one_step(name, sizes, rows, dropout)


def one_step(name: str, sizes: dict[str, Any], rows: int, dropout: float) -> None:
    """Forward, backward, clip and AdamW on one batch of full rows, 15 % of the tokens masked."""
    import tempfile

    import torch
    import transformers as hf

    from weft.core.batch import Batch, Clock, FlatTargets
    from weft.core.fields import Info
    from weft.core.seq import Seq
    from weft.objectives import MaskedLM
    from weft.pretrained import load
    from weft.training.allocator import keep_freed_memory

    keep_freed_memory()
    torch.manual_seed(0)
    theirs = hf.BertForMaskedLM(hf.BertConfig(**sizes, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout))
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        loaded = load(folder)
    ours: Any = loaded.model
    ids = torch.randint(1000, 30000, (rows, 128))
    hidden = (torch.rand(rows, 128) < 0.15).flatten().nonzero().squeeze(1)
    shown = ids.flatten().index_fill(0, hidden, 103).view_as(ids)
    targets = torch.full((rows * 128,), -100).index_copy(0, hidden, ids.flatten()[hidden]).view_as(ids)
    objective = MaskedLM(Info({"text": loaded.info["text"]}), ours.dim)
    batch = Batch({"text": Seq(shown), "picks": FlatTargets(hidden, ids.flatten()[hidden])}, rows)
    losses: dict[str, list[float]] = {"weft": [], "transformers": []}

    def steps(side: str, model: torch.nn.Module, loss_of: Callable[[], torch.Tensor]) -> Iterator[None]:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
        model.train()
        while True:
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses[side].append(float(loss))
            yield

    sides = {
        "weft": steps("weft", ours, lambda: objective(ours, batch, Clock()).mean()),
        "transformers": steps("transformers", theirs, lambda: theirs(shown, labels=targets).loss),
    }
    for side in sides.values():
        next(side)  # the first one warms up
    if dropout:
        compared(f"MLM step, {name}, dropout {dropout}", {s: (lambda steps=steps: next(steps)) for s, steps in sides.items()}, 9)
        return
    for _ in range(2):
        for side in sides.values():
            next(side)
    pairs = [f"{a:.5f} and {b:.5f}" for a, b in zip(*losses.values(), strict=True)]
    off = max(abs(a - b) / b for a, b in zip(*losses.values(), strict=True))
    print(f"{name}, dropout 0: losses of three steps {'; '.join(pairs)} (relative difference at most {off:.1e})", flush=True)


WORK = {"start": start, "embed": embed, "step": step}


def main() -> None:
    for name in sys.argv[1:] or list(WORK):
        WORK[name]()


if __name__ == "__main__":
    main()
