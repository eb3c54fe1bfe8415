"""Crash safety: training is killed with SIGKILL, resumed, and must end with the same bits as an uninterrupted run.

``python -m benchmarks.kills [--kills 20] [--recipe NAME] [--processes 1] [--json FILE]``

Every kill hits a real ``python -m weft train`` at a random moment of its training; most are aimed at a save. A run
writes "saving" into its log before it touches a checkpoint and "saved" afterwards: if the last of the two is "saving" when the
process is dead, the kill fell inside a save. First every kill has a run of its own, then one run takes all of them.
With several processes, started by torchrun, every other kill hits only one of them, the rest all at once. A sweep and the
preparation of data (``--recipe sweep``, ``--recipe prepare``) are killed at random times, and the same command is repeated until
it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from weft.core.io import read_lines, write_json
from weft.learning import digest

ROOT = Path(__file__).parent.parent
SMALL = ["seed=1", "device=cpu", "learning.save_every=2", "learning.log_every=1", "evaluate.every=0"]
DATES = [
    *("dates", "data.train=200", "data.valid=10", "data.test=10", "structure.dim=16", "learning.batch_tokens=500"),
    *("evaluate.search.max_length=12", *SMALL),
]
RECIPES = {
    "dates": DATES,
    "stages": [*DATES, "stages=[{name: polish, learning: {type: gradient, steps: 1, save_every: 2, log_every: 1}}]"],
    "ema": [*DATES, "learning.ema={type: ema, decay: 0.9}"],
    "average": [*DATES, "learning.average=3"],
    "best": [*DATES, "learning.final=best", "learning.keep=1", "evaluate.every=3"],
    "rollback": [*DATES, "--import=benchmarks.exploding", "objective=exploding", "learning.on_nonfinite=rollback"],
    "gan": [str(ROOT / "benchmarks/gan.yaml"), "--import=benchmarks.gan", "data.rows=512", "structure.dim=16", *SMALL],
    "cara": [
        *(
            "cara",
            "preset=test",
            f"data.train={{readme: {ROOT}/README.md, changes: {ROOT}/CHANGELOG.md}}",
            "data.validation_fraction=0.1",
        ),
        *("learning.phases.4.start=8", *SMALL),
    ],
}
TIMED = ("sweep", "prepare")
"""Commands that are killed at random times."""
AIMED, INSIDE = 0.85, 0.5
"""Fraction of the kills aimed at a save, and the fraction that must fall inside one."""
_GLANCE, _PATIENCE = 0.0005, 300.0


class Process(Protocol):
    """What is needed of a ``subprocess.Popen``."""

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...


Start = Callable[[list[str], Path], Process]


def weft(arguments: list[str], messages: Path) -> Process:
    """Start ``weft`` as a process of its own, on one thread; its output goes into a file."""
    with messages.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "weft", *arguments],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=stream,
            stderr=stream,
        )


class Sequences:
    """``weft`` in several processes, started by torchrun. A kill hits all of them, or only the one that saves.

    Args:
        processes: How many.
        arguments: Those of ``weft``.
        messages: A file for their output.
        one: For each kill, whether it hits only one of them.
    """

    def __init__(self, processes: int, arguments: list[str], messages: Path, one: Iterator[bool]):
        # without -- torchrun would take --run for one of its own
        launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m", "--", "weft", *arguments]
        with messages.open("ab") as stream:
            self.launcher = subprocess.Popen(
                [sys.executable, "-m", *launch],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=stream,
                stderr=stream,
            )
        self.one, self.killed = one, False

    def poll(self) -> int | None:
        return self.launcher.poll()

    def wait(self) -> int:
        code = self.launcher.wait()
        return -signal.SIGKILL if self.killed and code else code

    def send_signal(self, sig: int, /) -> None:
        try:
            launcher = psutil.Process(self.launcher.pid)
            workers = launcher.children()
        except psutil.NoSuchProcess:
            return
        for process in workers[:1] if next(self.one) else [launcher, *workers]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sig)
        self.killed = True


def weft_in(processes: int) -> Start:
    """Start ``weft`` in several processes."""
    one = itertools.cycle((True, False))
    return weft if processes == 1 else lambda arguments, messages: Sequences(processes, arguments, messages, one)


@dataclass(frozen=True)
class Moment:
    """When to strike: after this step, or in a save from this step on; and a delay in seconds."""

    step: int
    aimed: bool
    delay: float


@dataclass(frozen=True)
class Death:
    """When it struck: after which step, and whether a save was under way."""

    step: int
    inside: bool


@dataclass
class Outcome:
    """What became of a run: its deaths, and whether it ended with the same bits."""

    deaths: list[Death]
    equal: bool


@dataclass
class Report:
    """All outcomes of one recipe, against the digest of the run that was left alone."""

    recipe: str
    digest: str
    separate: list[Outcome] = field(default_factory=list)
    in_a_row: list[Outcome] = field(default_factory=list)

    def inside(self) -> int:
        return sum(death.inside for outcome in self.separate for death in outcome.deaths)

    def good(self) -> bool:
        enough = self.recipe in TIMED or self.inside() >= INSIDE * len(self.separate)
        return enough and all(outcome.equal for outcome in self.separate + self.in_a_row)

    def counts(self) -> dict[str, Any]:
        """Counts for a JSON file."""
        deaths = [death for outcome in self.separate + self.in_a_row for death in outcome.deaths]
        return {
            "recipe": self.recipe,
            "runs": len(self.separate + self.in_a_row),
            "kills": len(deaths),
            "inside_saves": sum(death.inside for death in deaths),
            "equal": sum(outcome.equal for outcome in self.separate + self.in_a_row),
            "good": self.good(),
        }


class Kills:
    """One recipe, trained in peace once and then killed again and again.

    Args:
        recipe: A name of ``RECIPES``.
        folder: Where the runs go.
        start: How a process is started.
        steps: Steps of a run.
        seed: Seed of the sampled moments.
    """

    def __init__(self, recipe: str, folder: Path, start: Start = weft, steps: int = 40, seed: int = 1):
        self.recipe, self.folder, self.start, self.steps, self.random = recipe, folder, start, steps, random.Random(seed)
        self.stages = 2 if recipe == "stages" else 1
        self.saving = 0.0
        self.watch_saves("undisturbed")
        self.expected = self.digests("undisturbed")

    def train(self, name: str) -> Process:
        """Start a run, or resume it."""
        run = self.folder / name
        steps = [f"learning.steps={self.steps}", *(["stages.0.learning.steps=" + str(self.steps)] if self.stages > 1 else [])]
        more = [*steps, "--run", str(run), *(["--resume"] if run.exists() else [])]
        return self.start(["train", "--keep", *RECIPES[self.recipe], *more], self.messages(name))

    def messages(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    def end(self, process: Process, name: str) -> None:
        if code := process.wait():
            raise RuntimeError(f"{self.recipe} ended with code {code}:\n{self.messages(name).read_text()}")

    def digests(self, name: str) -> tuple[str, ...]:
        """Digests of weights and optimizer in the last checkpoint of each stage, and of the final weights; metrics and ledger."""
        run = self.folder / name
        saved = sorted({path.parent for path in run.glob("checkpoints/**/step-*")})
        last = [digest(sorted(folder.glob("step-*"))[-1]) for folder in saved]
        return (*last, digest(run / "model.safetensors"), *((run / f"{name}.json").read_text() for name in ("metrics", "ledger")))

    def position(self, row: dict[str, Any]) -> int:
        """Steps so far, over all stages."""
        return row.get("stage", 0) * self.steps + row.get("step", 0)

    # --------------------------------------------------------------------------------------------------------- killing

    def one_each(self, kills: int) -> Iterator[Outcome]:
        """``kills`` runs, each killed once and resumed."""
        for number, moment in enumerate(self.moments(kills)):
            name = f"{self.recipe}-{number}"
            while (death := self.kill(name, moment)) is None:  # it finished before the kill: try another run and moment
                name, moment = f"{name}-again", self.moments(1)[0]
            self.end(self.train(name), name)
            yield Outcome([death], self.digests(name) == self.expected)

    def all_on_one(self, kills: int) -> Outcome:
        """One run, killed ``kills`` times, resumed after each."""
        name, deaths = f"{self.recipe}-in-a-row", []
        for moment in sorted(self.moments(kills), key=lambda m: m.step):
            if death := self.kill(name, moment):
                deaths.append(death)
        self.end(self.train(name), name)
        return Outcome(deaths, self.digests(name) == self.expected)

    def moments(self, kills: int) -> list[Moment]:
        """Steps without repetition as far as there are enough; the aimed ones are spread over all kills."""
        possible = range(self.stages * self.steps - 6)  # the last ones might end before they are struck
        steps = [r for _ in range(kills // len(possible) + 1) for r in self.random.sample(possible, len(possible))]
        aimed = [i < round(AIMED * kills) for i in range(kills)]
        self.random.shuffle(aimed)
        longest = {True: 0.6 * self.saving, False: 2 * self.saving}
        return [Moment(r, a, self.random.uniform(0, longest[a])) for r, a in zip(steps[:kills], aimed, strict=True)]

    def kill(self, name: str, moment: Moment) -> Death | None:
        """Train, wait for the moment and kill. None if the process ended before that."""
        log, process, begun = Log(self.folder / name / "log.jsonl"), self.train(name), time.monotonic()
        while process.poll() is None and not self.has_come(moment, log.rows()):
            if time.monotonic() - begun > _PATIENCE:
                process.send_signal(signal.SIGKILL)
                raise RuntimeError(f"the moment {moment} never came:\n{self.messages(name).read_text()}")
            time.sleep(_GLANCE)
        time.sleep(moment.delay)
        process.send_signal(signal.SIGKILL)
        if (code := process.wait()) == 0:
            return None
        if code != -signal.SIGKILL:
            raise RuntimeError(f"{self.recipe} ended with code {code}:\n{self.messages(name).read_text()}")
        saves = [row["event"] for row in log.rows() if row["event"] in ("saving", "saved")]
        return Death(max(map(self.position, log.rows()), default=0), saves[-1:] == ["saving"])

    def has_come(self, moment: Moment, rows: list[dict[str, Any]]) -> bool:
        if not moment.aimed:
            return any(row["event"] == "train" and self.position(row) >= moment.step for row in rows)
        saves = [row for row in rows if row["event"] in ("saving", "saved")]
        return bool(saves) and saves[-1]["event"] == "saving" and self.position(saves[-1]) >= moment.step

    def watch_saves(self, name: str) -> None:
        """Train in peace, and measure how long a save takes, to know how long after its beginning one can strike."""
        log, process = Log(self.folder / name / "log.jsonl"), self.train(name)
        seen: dict[tuple[str, int], float] = {}
        while process.poll() is None:
            for row in log.rows():
                seen.setdefault((row["event"], row.get("step", 0)), time.monotonic())
            time.sleep(_GLANCE)
        taken = [then - seen["saving", r] for (event, r), then in seen.items() if event == "saved"]
        self.saving = statistics.median(taken) if taken else 0.0
        self.end(process, name)


class Log:
    """The log of a run while it grows: the rows written since the process began, or was resumed."""

    def __init__(self, path: Path):
        self.path, self.known = path, (0, 0)
        self.found: list[dict[str, Any]] = []
        self.before = len(_beginnings(read_lines(path)))

    def rows(self) -> list[dict[str, Any]]:
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return []
        if self.known != (stat.st_ino, stat.st_size):
            self.known = (stat.st_ino, stat.st_size)
            rows = read_lines(self.path)
            lives = _beginnings(rows)
            self.found = rows[lives[-1] :] if len(lives) > self.before else []
        return self.found


def _beginnings(rows: list[dict[str, Any]]) -> list[int]:
    """Where a process took up its work: from a checkpoint, or by saving the untrained weights."""
    first = ("saving", 0)
    return [i for i, row in enumerate(rows) if row["event"] == "resumed" or (row["event"], row.get("step")) == first]


class TimedKills:
    """A command that is killed at random times after it has begun to write, and repeated until it ends.

    Args:
        command: A name of ``TIMED``.
        folder: Where its files go.
        seed: Seed of the sampled moments.
    """

    def __init__(self, command: str, folder: Path, seed: int = 1):
        self.command, self.folder, self.random = command, folder, random.Random(seed)
        lines = [" ".join(self.random.choices(["red", "green", "blue", "old", "new"], k=9)) for _ in range(15_000)]
        (folder / "text.txt").write_text("\n".join(lines))
        self.duration = self.run("undisturbed", None) or 0.0
        self.expected = self.result("undisturbed")

    def run(self, name: str, after: float | None) -> float | None:
        """Run the command to its end; or kill it so long after its first file. Returns the seconds; None if it was killed."""
        home = self.folder / name
        grid = ["sweep", *(option for option in DATES if option != "seed=1"), "learning.steps=6", "seed=1,2", "--run", str(home)]
        data = ["data.type=plain-text", f"data.train={self.folder / 'text.txt'}", "data.validation_fraction=0.1"]
        options = ["structure.dim=8", *SMALL, "learning.steps=1", "learning.final=last"]
        texts = ["train", "language-model", *data, *options, "--run", str(home / "run")]
        arguments = grid if self.command == "sweep" else [*texts, *(["--resume"] if (home / "run").is_dir() else [])]
        os.environ["WEFT_CACHE"] = str(home / "cache" if self.command == "prepare" else self.folder / "cache")
        watched, messages = home / "cache" if self.command == "prepare" else home, self.folder / f"{name}.txt"
        before = _written(watched)
        process = weft(arguments, messages)
        while process.poll() is None and _written(watched) == before:
            time.sleep(_GLANCE)
        begun = time.monotonic()
        while process.poll() is None and (after is None or time.monotonic() - begun < after):
            time.sleep(_GLANCE)
        process.send_signal(signal.SIGKILL)
        if (code := process.wait()) == 0:
            return time.monotonic() - begun
        if code != -signal.SIGKILL:
            raise RuntimeError(f"{self.command} ended with code {code}:\n{messages.read_text()}")
        return None

    def result(self, name: str) -> dict[str, str]:
        """Of everything that must be the same: final weights, metrics, ledgers, prepared data. Not checkpoints: a run that is
        killed after its end, before they are removed, keeps them."""
        files = [*(self.folder / name).rglob("model.safetensors"), *(self.folder / name).glob("cache/**/*")]
        files += [path for kind in ("metrics", "ledger") for path in (self.folder / name).rglob(f"{kind}.json")]
        kept = sorted(path for path in files if path.is_file() and path.suffix != ".lock" and "checkpoints" not in path.parts)
        return {str(path.relative_to(self.folder / name)): digest(path) for path in kept}

    def one_each(self, kills: int) -> Iterator[Outcome]:
        """Commands, each killed up to twice."""
        for number in range(kills):
            name, deaths = f"{self.command}-{number}", 0
            while deaths < 2 and self.run(name, self.random.uniform(0, self.duration)) is None:
                deaths += 1
            if deaths == 2:
                self.run(name, None)
            yield Outcome([Death(0, False)] * deaths, self.result(name) == self.expected)


def _written(folder: Path) -> int:
    """Number of files with content."""
    return sum(path.is_file() and path.stat().st_size > 0 for path in folder.rglob("*")) if folder.is_dir() else 0


# -------------------------------------------------------------------------------------------------------------- the figure


def figure(recipe: str, kills: int, seed: int = 1, processes: int = 1) -> Report:
    """Kill, resume, compare; prints as it goes."""
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        killing = Kills(recipe, Path(folder), weft_in(processes), seed=seed)
        report = Report(recipe, killing.expected[0])
        among = f" in {processes} processes" if processes > 1 else ""
        print(f"{recipe}: undisturbed{among}, {killing.steps} steps, a save takes {1000 * killing.saving:.0f} ms")
        print(f"  sha256 {report.digest}\n")
        print("  kill   after step  inside a save  same sha256 at the end")
        for number, outcome in enumerate(killing.one_each(kills), 1):
            report.separate.append(outcome)
            print(_row(number, outcome.deaths[0]) + f"  {'yes' if outcome.equal else 'NO'}", flush=True)
        equal = sum(outcome.equal for outcome in report.separate)
        print(f"\n  {equal} of {kills} runs, each killed once, end the same; {report.inside()} kills fell inside a save\n")
        outcome = killing.all_on_one(kills)
        report.in_a_row.append(outcome)
        print("\n".join(_row(number, death) for number, death in enumerate(outcome.deaths, 1)))
        inside = sum(death.inside for death in outcome.deaths)
        same = "ends the same" if outcome.equal else "does NOT end the same"
        print(f"\n  one run, killed {len(outcome.deaths)} times ({inside} inside a save), {same}\n")
    return report


def timed_figure(command: str, kills: int, seed: int = 1) -> Report:
    """Kill a sweep or a preparation, repeat, compare; prints the counts."""
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        killing = TimedKills(command, Path(folder), seed)
        report = Report(command, "", list(killing.one_each(kills)))
    print(f"{command}: {report.counts()}", flush=True)
    return report


def _row(number: int, death: Death) -> str:
    return f"  {number:4}  {death.step:11}  {'yes' if death.inside else 'no':13}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="how many [20]")
    parser.add_argument(
        "--recipe", choices=[*RECIPES, *TIMED], help="only this one: dates (one phase), gan (two), cara (five), ..."
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the sampled moments")
    parser.add_argument("--processes", type=int, default=1, help="how many train together, by torchrun [1]")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    asked = parser.parse_args()
    reports = [
        timed_figure(name, asked.kills, asked.seed) if name in TIMED else figure(name, asked.kills, asked.seed, asked.processes)
        for name in ([asked.recipe] if asked.recipe else [*RECIPES, *TIMED])
    ]
    counts = [report.counts() for report in reports]
    for found in counts:
        print(
            "{recipe:9} {runs:3} runs, {kills:3} kills, {inside_saves:3} inside a save; {equal:3} runs end the same".format(
                **found
            )
        )
    print(
        ", ".join(
            f"{sum(found[name] for found in counts)} {name.replace('_', ' ')}" for name in ("kills", "inside_saves", "equal")
        )
    )
    if asked.json:
        write_json(asked.json, {"processes": asked.processes, "recipes": counts})
    sys.exit(0 if all(report.good() for report in reports) else 1)


if __name__ == "__main__":
    main()
