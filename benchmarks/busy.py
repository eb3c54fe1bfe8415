"""Training and inference beside busy processes: weft's threads against torch's defaults. ``python -m benchmarks.busy``

Every workload runs twice at the same time, once as ``weft`` sets up its threads and once with the defaults of torch; all but one
process are stopped (SIGSTOP), so that both are measured on the same machine in the same minutes, idle and beside one and two busy
processes, interleaved. The fair share of a process is the number of processors divided by the number of runnable processes, at
most 1; the last columns are the speed as a fraction of weft's own speed on the idle machine times the fair share, and as a multiple
of the speed with torch's defaults. Results are kept in ``--out``, so an interrupted benchmark continues where it stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.stand_ins import write_stand_ins

TRAINED = {
    "dates": ["data.train=20000"],
    "translate-small": ["learning.average=0"],
    "classify-minilm": [],
}
"""Recipe of each workload, with the options that the benchmark changes."""
ARMS = ("weft", "torch")
LOADS = (0, 1, 2)
"""Busy processes beside the measured one."""
SPIN = "while True: pass"
_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_START_SECONDS = 300.0


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


def train(recipe: str, counter: Counter, folder: Path) -> None:
    """Train without end, as ``weft train`` does."""
    from weft.training.display import Display
    from weft.training.recipes import read_run
    from weft.training.trainer import train as train_run

    class Count(Display):
        def update(self, row: Mapping[str, Any], padding: float) -> None:
            counter.write(row["tokens"])

        def message(self, text: str) -> None:
            print(text, flush=True)

    endless = ["learning.steps=1000000", "learning.save_every=0", "learning.log_every=2", "evaluate.every=0"]
    train_run(read_run(recipe, [*TRAINED[recipe], *endless]), folder / "endless", display=Count())


def infer(recipe: str, counter: Counter, folder: Path) -> None:
    """Generate or embed without end, as ``weft generate`` and ``weft embed`` do."""
    from weft.inference.embedding import open_embedder
    from weft.inference.load import load
    from weft.training.recipes import read_run
    from weft.training.trainer import train as train_run

    tokens = 0.0
    if "minilm" in recipe:
        embedder = open_embedder("minilm")
        texts = [" ".join(["a fine story about a dog and a house"] * (1 + i % 4)) for i in range(64)]
        while True:
            embedder(texts)
            tokens += sum(len(text.split()) for text in texts)
            counter.write(tokens)
    train_run(read_run(recipe, [*TRAINED[recipe], "learning.steps=30"]), folder / "trained")
    trained = load(folder / "trained")
    source = "3 March 2015" if recipe == "dates" else "Ein Hund und ein Mann ."
    while True:
        for found in trained.hypotheses([source] * 16, batch_size=16):
            tokens += len(found[0].ids)
        counter.write(tokens)


def work(kind: str, recipe: str, arm: str, file: Path) -> None:
    """Run one side of a workload; ``arm`` weft sets up the threads like the command."""
    import weft.training.threads as threads

    if arm.startswith("weft"):
        threads.limit_spinning()
    elif arm.startswith("torch"):
        threads.share_processors.__code__ = (lambda report=None: None).__code__
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_DATA"] = str(write_stand_ins(Path(folder) / "data"))
        {"train": train, "infer": infer}[kind](recipe, Counter(file), Path(folder))


# ------------------------------------------------------------------------------------------------------------- measuring


@contextlib.contextmanager
def started(
    command: list[str], environment: Mapping[str, str], log: Any = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is stopped, and is killed at the end of the context."""
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """A context in which stopped processes run."""
    for process in processes:
        process.send_signal(signal.SIGCONT)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGSTOP)


def measure(
    kind: str, recipe: str, seconds: float, settle: float, repeats: int, spec: dict[str, dict[str, str]]
) -> dict[str, list[float]]:
    """Return tokens/s of every window by arm and number of busy processes, such as ``weft 1``."""
    plain = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        busy = [stack.enter_context(started([sys.executable, "-c", SPIN], plain)) for _ in range(max(LOADS))]
        for process in busy:
            process.send_signal(signal.SIGSTOP)
        arms: dict[str, tuple[subprocess.Popen[bytes], Counter]] = {}
        for arm, settings in spec.items():
            counter, log = Counter(folder / arm), (folder / f"{arm}.log").open("wb")
            command = [sys.executable, "-m", "benchmarks.busy", "--work", kind, recipe, arm, str(folder / arm)]
            process = stack.enter_context(started(command, plain | settings, log))
            deadline = time.monotonic() + _START_SECONDS
            while counter.read() == 0:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{' '.join(command)} did not start:\n{(folder / f'{arm}.log').read_text()[-2000:]}")
                time.sleep(0.05)
            process.send_signal(signal.SIGSTOP)
            arms[arm] = process, counter
        found: dict[str, list[float]] = {}
        for _ in range(repeats):
            for load in LOADS:
                for arm, (process, counter) in arms.items():
                    with running([*busy[:load], process]):
                        time.sleep(settle)
                        tokens, start = counter.read(), time.monotonic()
                        while time.monotonic() < start + seconds or (counter.read() == tokens and time.monotonic() < start + 30):
                            time.sleep(0.01)
                        speed = (counter.read() - tokens) / (time.monotonic() - start)
                    found.setdefault(f"{arm} {load}", []).append(speed)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs=4)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--settle", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--arms", type=json.loads, default={})
    choice = parser.parse_args()
    if choice.work:
        kind, recipe, arm, file = choice.work
        work(kind, recipe, arm, Path(file))
        return
    for kind in ("train", "infer"):
        for recipe in TRAINED:
            if choice.only and f"{kind}-{recipe}" not in choice.only:
                continue
            found = measure(kind, recipe, choice.seconds, choice.settle, choice.repeats, choice.arms)
            print(kind, recipe, {k: [round(x) for x in v] for k, v in sorted(found.items())}, flush=True)


if __name__ == "__main__":
    main()
