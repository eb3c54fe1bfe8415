"""Training and inference beside busy processes: weft's threads against torch's defaults.

    python -m benchmarks.busy                       all workloads (about 8 minutes), and the table in the docs
    python -m benchmarks.busy --only train-dates    one workload (about a minute), printed only

Every workload runs twice, as weft sets up its threads and with the default of libgomp (300,000 spins), which counts as a setting
of the user. One of the two is always stopped by SIGSTOP, so that both are measured in the same minutes: idle, and beside one and
two busy processes, interleaved.

A row shows tokens/s (median of the windows); the speed as a fraction of the fair share, which is the speed on the idle machine
divided by the number of runnable processes; the multiple of torch's default; and the processors that other processes have used
meanwhile: above 0.1, the machine was not idle. Every finished workload is kept in ``--out``: an interrupted benchmark continues.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks import document
from benchmarks.stand_ins import write_stand_ins
from weft.core.io import read_json, write_json
from weft.training.threads import limit_spinning

TRAINED = {
    "dates": ["data.train=20000", "data.valid=50", "data.test=50"],
    "translate-small": ["learning.average=0"],
    "classify-minilm": [],
}
"""Recipe of each workload, with the options that the benchmark changes."""
ARMS = {"weft": dict[str, str](), "torch": {"GOMP_SPINCOUNT": "300000"}}
"""Environment of each side."""
LOADS = (0, 1, 2)
"""Busy processes beside the measured one."""
WORKLOADS = {f"{kind}-{recipe}": (kind, recipe) for kind in ("train", "infer") for recipe in TRAINED}
"""What is measured, by name."""
REPEATS, SETTLE_SECONDS, SECONDS = 2, 1.5, 2.5
"""Windows of each combination; seconds before and in a window."""
BUSY = "while True: pass"
TRAINED_RUN = "trained"
_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_START_SECONDS, _STALLED_SECONDS = 300.0, 30.0


# ------------------------------------------------------------------------------------------------------------- in a worker


class Counter:
    """A number of tokens in a file that another process reads while this one is stopped."""

    def __init__(self, path: Path):
        if not path.exists():
            path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8)

    def read(self) -> float:
        return struct.unpack("d", self.memory[:])[0]

    def write(self, tokens: float) -> None:
        self.memory[:] = struct.pack("d", tokens)


def train(recipe: str, file: Path, folder: Path) -> None:
    """Train without end, as ``weft train`` does."""
    from weft.training.display import Display
    from weft.training.recipes import read_run
    from weft.training.trainer import train as train_run

    counter = Counter(file)

    class Count(Display):
        def update(self, row: Mapping[str, Any], padding: float) -> None:
            counter.write(row["tokens"])

        def message(self, text: str) -> None:
            print(text, flush=True)

    endless = ["learning.steps=1000000", "learning.save_every=0", "learning.log_every=2", "evaluate.every=0"]
    train_run(read_run(recipe, [*TRAINED[recipe], *endless]), folder / "endless", display=Count())


def prepare(recipe: str, run: Path, folder: Path) -> None:
    """Train the model that both sides generate with."""
    from weft.training.recipes import read_run
    from weft.training.trainer import train as train_run

    train_run(read_run(recipe, [*TRAINED[recipe], "learning.steps=30"]), run)


def infer(recipe: str, file: Path, folder: Path) -> None:
    """Generate or embed without end, as ``weft generate`` and ``weft embed`` do."""
    from weft.inference.embedding import open_embedder
    from weft.inference.load import load

    counter, tokens = Counter(file), 0.0
    if "minilm" in recipe:
        embedder = open_embedder("minilm")
        texts = [" ".join(["a fine story about a dog and a house"] * (1 + i % 4)) for i in range(64)]
        while True:
            embedder(texts)
            tokens += sum(len(text.split()) for text in texts)
            counter.write(tokens)
    trained = load(file.parent / TRAINED_RUN)
    source = "3 March 2015" if recipe == "dates" else "Ein Hund und ein Mann ."
    while True:
        for found in trained.hypotheses([source] * 16, batch_size=16):
            tokens += len(found[0].ids)
        counter.write(tokens)


def work(kind: str, recipe: str, file: Path) -> None:
    """Run a workload without end, in a process of its own."""
    limit_spinning()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_DATA"] = str(write_stand_ins(Path(folder) / "data"))
        {"train": train, "infer": infer, "prepare": prepare}[kind](recipe, file, Path(folder))


# -------------------------------------------------------------------------------------------------------------- measuring


@dataclass
class Side:
    """A process that is stopped, except in a window, and its tokens."""

    process: psutil.Popen
    counter: Counter


@contextlib.contextmanager
def started(command: list[str], environment: Mapping[str, str], log: Path) -> Iterator[psutil.Popen]:
    """A process with its output in ``log``, which is killed at the end of the context, even if it is stopped."""
    with log.open("wb") as stream:
        process = psutil.Popen(command, env=dict(environment), stdout=stream, stderr=stream)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def environment(arm: str) -> dict[str, str]:
    """The environment of one side, without settings of the user."""
    return {name: value for name, value in os.environ.items() if name not in _SETTINGS} | ARMS[arm]


def start(kind: str, recipe: str, arm: str, folder: Path, stack: contextlib.ExitStack) -> Side:
    """Start one side of a workload, wait for its first tokens, and stop it."""
    counter, log = Counter(folder / arm), folder / f"{arm}.log"
    command = [sys.executable, "-m", "benchmarks.busy", "--work", kind, recipe, str(folder / arm)]
    process = stack.enter_context(started(command, environment(arm), log))
    deadline = time.monotonic() + _START_SECONDS
    while counter.read() == 0:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{' '.join(command)} did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)
    process.suspend()
    return Side(process, counter)


def window(side: Side, busy: list[psutil.Popen]) -> tuple[float, float]:
    """Return tokens/s of one side beside busy processes, and the number of processors that all others have used."""
    own = [side.process, *busy]

    def used() -> tuple[float, float, float]:
        times = psutil.cpu_times()
        ours = sum(process.cpu_times().user + process.cpu_times().system for process in own)
        return side.counter.read(), time.monotonic(), sum(times[:3]) - ours  # user, nice, system

    for process in own:
        process.resume()
    try:
        time.sleep(SETTLE_SECONDS)
        tokens, begun, others = used()
        while (now := time.monotonic()) < begun + SECONDS or (side.counter.read() == tokens and now < begun + _STALLED_SECONDS):
            time.sleep(0.01)
        more, ended, others_then = used()
    finally:
        for process in own:
            process.suspend()
    return (more - tokens) / (ended - begun), max(0.0, others_then - others) / (ended - begun)


def measure(kind: str, recipe: str) -> dict[str, list[tuple[float, float]]]:
    """Return all windows of a workload by side and number of busy processes, such as ``weft 1``."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if kind == "infer" and "minilm" not in recipe:
            command = [sys.executable, "-m", "benchmarks.busy", "--work", "prepare", recipe, str(folder / TRAINED_RUN)]
            subprocess.run(command, env=environment("weft"), check=True)
        sides = {arm: start(kind, recipe, arm, folder, stack) for arm in ARMS}
        command = [sys.executable, "-c", BUSY]
        busy = [stack.enter_context(started(command, os.environ, folder / "busy.log")) for _ in range(max(LOADS))]
        for process in busy:
            process.suspend()
        found: dict[str, list[tuple[float, float]]] = {}
        for _ in range(REPEATS):
            for load in LOADS:
                for arm, side in sides.items():
                    found.setdefault(f"{arm} {load}", []).append(window(side, busy[:load]))
        return found


COLUMNS = "workload | busy processes | weft, tokens/s | torch, tokens/s | weft, of its fair share | weft / torch | used by others"
HEAD = (f"| {COLUMNS} |", "|" + "---|" * (COLUMNS.count("|") + 1))


def rows_of(workload: str, found: Mapping[str, list[tuple[float, float]]]) -> list[str]:
    """The rows of a workload."""
    speed = {name: statistics.median(row[0] for row in rows) for name, rows in found.items()}
    rows = list[str]()
    for load in LOADS:
        own, default = speed[f"weft {load}"], speed[f"torch {load}"]
        share = own * (1 + load) / speed["weft 0"] if speed["weft 0"] else float("nan")
        others = max(row[1] for arm in ARMS for row in found[f"{arm} {load}"])
        ratio = f"{own / default:.1f}" if default else "inf"
        rows.append(f"| {workload} | {load} | {own:,.0f} | {default:,.0f} | {share:.0%} | {ratio} | {others:.1f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "weft-busy.json", help="results so far")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", choices=WORKLOADS, help=", ".join(WORKLOADS))
    parser.add_argument("--again", action="store_true", help="measure what is in --out again")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    choice = parser.parse_args()
    if choice.work:
        kind, recipe, file = choice.work
        work(kind, recipe, Path(file))
        return
    results = read_json(choice.out) if choice.out.exists() and not choice.again else {}
    lines = list(HEAD)
    for workload in choice.only or WORKLOADS:
        if workload not in results:
            print(f"measuring {workload} ...", flush=True)
            results[workload] = measure(*WORKLOADS[workload])
            write_json(choice.out, results)
        lines += rows_of(workload, results[workload])
    document.show("busy", lines, None if choice.only else document.PAGE)


if __name__ == "__main__":
    main()
