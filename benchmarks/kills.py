"""Nothing is lost: training is killed with SIGKILL from outside, resumed, and must end as if nothing had happened.

``python -m benchmarks.kills [--kills 20] [--recipe dates|gan]``

Every kill hits a real ``python -m weft train`` at a random moment of its training; more than half are aimed at a save. A run
writes "saving" into its log before it touches a checkpoint and "saved" afterwards: if the last of the two is "saving" when the
process is dead, the kill fell inside a save. First every kill has a run of its own, then one run takes all of them.
"""

from __future__ import annotations

import argparse
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

from weft.files import read_lines
from weft.learning import digest

ROOT = Path(__file__).parent.parent
SMALL = ["seed=1", "device=cpu", "learning.steps=40", "learning.save_every=2", "learning.log_every=1", "evaluate.every=0"]
RECIPES = {
    "dates": ["dates", "data.train=200", "data.valid=10", "data.test=10", "structure.dim=16", "learning.batch=500", *SMALL],
    "gan": [str(ROOT / "benchmarks/gan.yaml"), "--import=benchmarks.gan", "data.rows=512", "structure.dim=16", *SMALL],
}
STEPS = 40
AIMED, INSIDE = 0.65, 0.4
"""Share of the kills that is aimed at a save, and the share that must fall inside one."""
_GLANCE, _PATIENCE = 0.0005, 300.0


class Process(Protocol):
    """What is needed of a ``subprocess.Popen``."""

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...


Start = Callable[[list[str], Path], Process]


def weft(arguments: list[str], messages: Path) -> Process:
    """Start ``weft`` as a process of its own, on one thread; what it says goes into a file."""
    with messages.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "weft", *arguments],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=stream,
            stderr=stream,
        )


@dataclass(frozen=True)
class Moment:
    """When to strike: after this round, or in a save from this round on; and so many seconds later."""

    round: int
    aimed: bool
    delay: float


@dataclass(frozen=True)
class Death:
    """When it struck: after which round, and whether a save was under way."""

    round: int
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
        enough = self.inside() >= INSIDE * len(self.separate)
        return enough and all(outcome.equal for outcome in self.separate + self.in_a_row)


class Kills:
    """One recipe, trained in peace once and then killed again and again.

    Args:
        recipe: A name of ``RECIPES``.
        folder: Where the runs go.
        start: How a process is started.
        seed: What the moments are drawn with.
    """

    def __init__(self, recipe: str, folder: Path, start: Start = weft, seed: int = 1):
        self.recipe, self.folder, self.start, self.random = recipe, folder, start, random.Random(seed)
        self.saving = 0.0
        process = self.train("undisturbed")
        self.watch_saves(process, folder / "undisturbed")
        self.end(process, "undisturbed")
        self.expected = self.digests("undisturbed")

    def train(self, name: str, resume: bool = False) -> Process:
        more = ["--resume"] if resume else []
        return self.start(["train", *RECIPES[self.recipe], "--run", str(self.folder / name), *more], self.messages(name))

    def messages(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    def end(self, process: Process, name: str) -> None:
        if code := process.wait():
            raise RuntimeError(f"{self.recipe} ended with code {code}:\n{self.messages(name).read_text()}")

    def digests(self, name: str) -> tuple[str, str]:
        """Of weights and optimiser in the last checkpoint, and of the final weights."""
        last = sorted((self.folder / name / "checkpoints").glob("update-*"))[-1]
        return digest(last), digest(self.folder / name / "model.safetensors")

    # --------------------------------------------------------------------------------------------------------- killing

    def one_each(self, kills: int) -> Iterator[Outcome]:
        """So many runs, each killed once and resumed."""
        for number, moment in enumerate(self.moments(kills)):
            name = f"{self.recipe}-{number}"
            death = self.kill(self.train(name), name, moment)
            while death is None:  # it was faster than the hand: another run, another moment
                name += "-again"
                death = self.kill(self.train(name), name, self.moments(1)[0])
            self.end(self.train(name, resume=True), name)
            yield Outcome([death], self.digests(name) == self.expected)

    def all_on_one(self, kills: int) -> Outcome:
        """One run, killed so many times, resumed after each."""
        name, deaths = f"{self.recipe}-in-a-row", []
        for moment in sorted(self.moments(kills), key=lambda m: m.round):
            if death := self.kill(self.train(name, resume=(self.folder / name).exists()), name, moment):
                deaths.append(death)
        self.end(self.train(name, resume=True), name)
        return Outcome(deaths, self.digests(name) == self.expected)

    def moments(self, kills: int) -> list[Moment]:
        """Rounds without repetition as far as there are enough; the aimed ones are spread over all kills."""
        rounds = [r for _ in range(kills // (STEPS - 3) + 1) for r in self.random.sample(range(1, STEPS - 2), STEPS - 3)]
        aimed = [i < round(AIMED * kills) for i in range(kills)]
        self.random.shuffle(aimed)
        longest = {True: self.saving, False: 3 * self.saving}
        return [Moment(r, a, self.random.uniform(0, longest[a])) for r, a in zip(rounds[:kills], aimed, strict=True)]

    def kill(self, process: Process, name: str, moment: Moment) -> Death | None:
        """Wait for the moment and kill. None if the process ended before that."""
        log, lives, begun = self.folder / name / "log.jsonl", self.lives(name), time.monotonic()
        while process.poll() is None and not self.has_come(moment, life(log, lives)):
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
        rows = life(log, lives)
        saves = [row["event"] for row in rows if row["event"] in ("saving", "saved")]
        return Death(max((row["round"] for row in rows if "round" in row), default=0), bool(saves) and saves[-1] == "saving")

    def lives(self, name: str) -> int:
        return sum(row["event"] == "resumed" for row in read_lines(self.folder / name / "log.jsonl"))

    @staticmethod
    def has_come(moment: Moment, rows: list[dict[str, Any]]) -> bool:
        if not moment.aimed:
            return any(row["event"] == "update" and row["round"] >= moment.round for row in rows)
        saves = [row for row in rows if row["event"] in ("saving", "saved")]
        return bool(saves) and saves[-1]["event"] == "saving" and saves[-1]["round"] >= moment.round

    def watch_saves(self, process: Process, folder: Path) -> None:
        """Measure how long a save takes, to know how long after its beginning one can strike."""
        seen: dict[tuple[str, int], float] = {}
        while process.poll() is None:
            for row in life(folder / "log.jsonl", 0):
                seen.setdefault((row["event"], row.get("round", 0)), time.monotonic())
            time.sleep(_GLANCE)
        taken = [then - seen["saving", r] for (event, r), then in seen.items() if event == "saved"]
        self.saving = statistics.median(taken) if taken else 0.0


def life(log: Path, lives: int) -> list[dict[str, Any]]:
    """The rows that a process has written since it was resumed (or begun); none if it has not come so far yet."""
    rows = read_lines(log)
    resumed = [i for i, row in enumerate(rows) if row["event"] == "resumed"]
    if len(resumed) <= lives and lives:
        return []
    return rows[resumed[-1] if resumed else 0 :]


# -------------------------------------------------------------------------------------------------------------- the figure


def figure(recipe: str, kills: int, seed: int = 1) -> Report:
    """Kill, resume, compare; prints as it goes."""
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        killing = Kills(recipe, Path(folder), seed=seed)
        report = Report(recipe, killing.expected[0])
        print(f"{recipe}: undisturbed, {STEPS} rounds, a save takes {1000 * killing.saving:.0f} ms\n  sha256 {report.digest}\n")
        print("  kill  after round  inside a save  same sha256 at the end")
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


def _row(number: int, death: Death) -> str:
    return f"  {number:4}  {death.round:11}  {'yes' if death.inside else 'no':13}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="how many [20]")
    parser.add_argument("--recipe", choices=RECIPES, help="only this one: dates (one phase) or gan (two that alternate)")
    parser.add_argument("--seed", type=int, default=1, help="what the moments are drawn with")
    asked = parser.parse_args()
    reports = [figure(recipe, asked.kills, asked.seed) for recipe in ([asked.recipe] if asked.recipe else RECIPES)]
    sys.exit(0 if all(report.good() for report in reports) else 1)


if __name__ == "__main__":
    main()
