"""Speed and memory of preparing a large text file, time to the first update, and padding saved by length bucketing.

``python -m benchmarks.prepare --gigabytes 2``; needs about four times as much space in the temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.core.seeding import key
from weft.data import Buckets

WORDS, VOCABULARY = 200_000, 8000
RECIPE = """
seed: 1
data: {{type: plain-text, train: {file}, tokenizer: {{type: bpe, vocab_size: {vocabulary}}}, validation_fraction: 0.001}}
structure: {{type: language-model, dim: 16, decoder: {{type: transformer, layers: 1, layer: {{mixer: {{heads: 2}}}}}}}}
objective: next-token
learning: {{type: gradient, steps: 3, batch_tokens: 1000, log_every: 1}}
"""
CHILD = """
import json, sys, time
from functools import partial
from weft.data import BPE, PlainText

steps, last = {}, None
def tell(text, done, total):
    global last
    now = time.perf_counter()
    if last is not None:
        steps[last[0]] = steps.get(last[0], 0.0) + now - last[1]
    last = (text, now)

tell("importing", 0, 0)
data = PlainText(train=sys.argv[1], tokenizer=partial(BPE, vocab_size=int(sys.argv[2])), validation_fraction=0.001)
corpus = data.open(progress=tell)
tell("end", 0, 0)
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"steps": steps, "peak": peak / 1024, "ledger": corpus.ledger}))
"""


def generate(file: Path, size: int, seed: int = 0) -> None:
    """Distinct lines of 5 to 30 words whose frequencies follow Zipf's law, up to ``size`` bytes."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    share = 1 / np.arange(1, 27)
    words = ["".join(rng.choice(letters, n, p=share / share.sum())) for n in rng.integers(2, 11, WORDS)]
    frequency = np.cumsum(1 / np.arange(1, WORDS + 1))
    written = number = 0
    with file.open("w", encoding="ascii") as stream:
        while written < size:
            lengths = rng.integers(5, 31, 10_000)
            sampled = np.searchsorted(frequency, rng.random(int(lengths.sum())) * frequency[-1]).tolist()
            start = 0
            for length in lengths.tolist():
                line = f"{' '.join([words[i] for i in sampled[start : start + length]])} {number // 1000} {number % 1000}\n"
                written += stream.write(line)
                number, start = number + 1, start + length


def prepare(file: Path, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, str(file), str(VOCABULARY)]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def seconds_to_first_update(file: Path, folder: Path, environment: dict[str, str]) -> float:
    """From the start of the command to the first update in its log."""
    recipe, log = folder / "recipe.yaml", folder / "run" / "log.jsonl"
    recipe.write_text(RECIPE.format(file=json.dumps(str(file)), vocabulary=VOCABULARY), encoding="utf-8")
    start = time.perf_counter()
    command = [sys.executable, "-m", "weft", "train", str(recipe), "--run", str(folder / "run")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        while not (log.is_file() and '"event": "train"' in log.read_text(encoding="utf-8")):
            if process.poll():
                raise SystemExit(f"weft train ended with {process.returncode}")
            time.sleep(0.05)
        return time.perf_counter() - start


def bucketing(budget: int = 2000, batches: int = 40) -> None:
    """Batches with and without length bucketing: padding ratio, and tokens per second of a small encoder layer."""
    rng = np.random.default_rng(0)
    cost = np.clip(rng.lognormal(3.0, 0.7, 200_000), 3, 256).astype(np.int64)  # sentences: half below 20 tokens, some very long
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
    for name, growth in (("length buckets", 1.08), ("no buckets", 1e9)):
        order = Buckets(cost, budget, growth=growth)
        sampled = [cost[order.rows(key(1), 0, i)] for i in range(len(order))]
        padded = sum(len(rows) * int(rows.max()) for rows in sampled)
        real, start = 0, time.perf_counter()
        for rows in sampled[:batches]:
            x_BTD = torch.randn(len(rows), int(rows.max()), 128)
            padding_BT = torch.arange(x_BTD.shape[1])[None] >= torch.from_numpy(rows)[:, None]
            layer(x_BTD, src_key_padding_mask=padding_BT).sum().backward()
            real += int(rows.sum())
        speed = real / (time.perf_counter() - start)
        print(f"{name:20} {len(order):6} batches, {1 - cost.sum() / padded:6.1%} padding, {speed:8,.0f} tokens/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.2)
    size = int(parser.parse_args().gigabytes * 1e9)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        file = folder / "text.txt"
        generate(file, size)
        environment = {**os.environ, "WEFT_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        megabytes = file.stat().st_size / 1e6
        found = prepare(file, environment)
        for step, seconds in found["steps"].items():
            print(f"{step:40} {seconds:7.1f} s  {megabytes / max(seconds, 1e-9):8.1f} MB/s")
        whole = sum(found["steps"].values())
        kept = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file()) / 1e6
        print(f"{'all':40} {whole:7.1f} s  {megabytes / whole:8.1f} MB/s of {megabytes:.0f} MB")
        print(f"peak memory {found['peak']:.0f} MB; {kept:.0f} MB on the disk; {found['ledger']['train']['tokens']:,} tokens")
        print(f"weft train to its first update, prepared: {seconds_to_first_update(file, folder, environment):.1f} s")
    bucketing()


if __name__ == "__main__":
    main()
