"""Damage on disk: random changes of the files of runs, caches and published models are detected, or change no result.

``python -m benchmarks.damage [--cases 200] [--seed 1] [--subject checkpoints] [--json FILE]``

Each case copies a folder, changes one file in it (bits flipped, cut, zeroed, removed, replaced by another file, a value changed)
and uses the folder. The command must end with an error message (detected), or with the result of the intact folder (harmless).
Another result, a traceback, or no end within a minute are failures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.small_runs import SmallRun, outputs_of, result_of, without_pictures
from weft.core.io import write_json
from weft.data import prepared
from weft.inference.convert import to_published

_SECONDS = 60


class Hang(BaseException):
    """A command did not end."""


# -------------------------------------------------------------------------------------------------------------- mutations


def flip(path: Path, draw: random.Random, others: list[Path]) -> None:
    """Flip one to eight bits."""
    data = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 8)):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random, others: list[Path]) -> None:
    """Remove the end."""
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data))])


def zero(path: Path, draw: random.Random, others: list[Path]) -> None:
    """Replace a range by zeros, as after a power failure."""
    data = bytearray(path.read_bytes())
    start = draw.randrange(len(data))
    stop = draw.randint(start + 1, len(data))
    path.write_bytes(data[:start] + bytes(stop - start) + data[stop:])


def remove(path: Path, draw: random.Random, others: list[Path]) -> None:
    """Remove the file."""
    path.unlink()


def swap(path: Path, draw: random.Random, others: list[Path]) -> None:
    """Replace the file by another one, of the same kind where there is one."""
    alike = [other for other in others if other.suffix == path.suffix and other != path] or others
    path.write_bytes(draw.choice(alike).read_bytes())


def change(path: Path, draw: random.Random, others: list[Path]) -> None:
    """Change a number or a word, so that JSON and YAML stay valid."""
    text = path.read_text(encoding="utf-8")
    matches = list(re.finditer(r"(?<![\w.])\d+(?![\w.])|(?<=\": \")\w+|\btrue\b|\bfalse\b", text))
    if not matches:
        return flip(path, draw, others)
    found = draw.choice(matches)
    new = {"true": "false", "false": "true"}.get(found[0]) or (
        str(int(found[0]) + draw.choice([1, 2, 10])) if found[0].isdigit() else "x"
    )
    path.write_text(text[: found.start()] + new + text[found.end() :], encoding="utf-8")
    return None


MUTATIONS = (flip, cut, zero, remove, swap, change)
_TEXT = (".json", ".jsonl", ".yaml", ".txt", ".md", ".sha256")


# --------------------------------------------------------------------------------------------------------------- subjects


class Subject:
    """A folder that is damaged.

    Args:
        original: The intact folder, which is copied.
        files: Globs of the files that are changed.
        use: Uses the copy and returns the result.
        others: A similar folder whose files replace those of the copy.
    """

    def __init__(self, original: Path, files: str, use: Callable[[Path], Any], others: Path):
        self.original, self.files, self.use, self.others = original, files.split(), use, others
        self.expected = self.on_copy(lambda copy: None)

    def on_copy(self, damage: Callable[[Path], None]) -> Any:
        copy = self.original.with_name("copy")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.original, copy)
        damage(copy)
        return self.use(copy)

    def names(self) -> list[Path]:
        found = {path.relative_to(self.original) for glob in self.files for path in self.original.glob(glob)}
        return sorted(name for name in found if (self.original / name).is_file() and (self.original / name).stat().st_size)

    def case(self, draw: random.Random) -> tuple[str, str]:
        """Damage a copy and use it. Returns what was done, and ``detected``, ``harmless`` or a problem."""
        name, mutate = draw.choice(self.names()), draw.choice(MUTATIONS)
        mutate = flip if mutate is change and name.suffix not in _TEXT else mutate
        others = [path for path in sorted(self.others.rglob("*")) if path.is_file() and path.stat().st_size]

        def damage(copy: Path) -> None:
            mutate(copy / name, draw, others)

        done = f"{mutate.__name__} {name}"
        try:
            with _deadline():
                found = self.on_copy(damage)
        except ValueError as error:
            return done, "detected" if str(error).strip() else "an empty message"
        except Hang:
            return done, "hang"
        except Exception as error:
            return done, f"traceback: {type(error).__name__}: {error}"
        return done, "harmless" if found == self.expected else "another result"


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def subjects(small: SmallRun) -> dict[str, Callable[[], Subject]]:
    """Return the subjects by name. Each has a twin, trained with another seed, for swapped files."""
    home = small.home
    for name, seed in (("whole", 3), ("twin", 4)):
        small.recipe.write_text(small.recipe.read_text().replace("seed: 3", f"seed: {seed}"))
        small.train(home / name)
        small.train_to(home / f"{name}-half", 2)
        to_published(home / name, home / f"{name}-published")
        small.recipe.write_text(small.recipe.read_text().replace(f"seed: {seed}", "seed: 3"))
    file = home / "valid.txt"

    def resume(copy: Path) -> Any:
        small.train(copy)
        return result_of(copy)

    def read_rows(limit: int) -> Callable[[Path], Any]:
        def rows(copy: Path) -> Any:
            before, prepared.IN_MEMORY = prepared.IN_MEMORY, limit
            small.use_cache(copy)
            try:
                return small.rows()
            finally:
                prepared.IN_MEMORY = before
                small.use_cache(small.cache)

        return rows

    half, whole, published = home / "whole-half", home / "whole", home / "whole-published"
    return {
        "checkpoints": lambda: Subject(half, "checkpoints/*/* checkpoints/*", resume, home / "twin-half"),
        "run": lambda: Subject(half, "*.yaml *.json *.jsonl", resume, home / "twin-half"),
        "trained": lambda: Subject(
            whole, "*.yaml *.json *.jsonl *.safetensors *.sha256", lambda c: outputs_of(c, file), home / "twin"
        ),
        "cache": lambda: Subject(small.cache, "*/*", read_rows(2**26), small.cache),
        "cache on disk": lambda: Subject(small.cache, "*/*", read_rows(-1), small.cache),
        "published": lambda: Subject(published, "*", lambda c: outputs_of(c, file), home / "twin-published"),
    }


# ------------------------------------------------------------------------------------------------------------------ report


def campaign(cases: int, seed: int, names: list[str] | None = None) -> dict[str, Any]:
    """Damage every subject in turn; prints as it goes. Returns counts by subject, and the cases that failed."""
    report: dict[str, Any] = {"seed": seed, "subjects": {}, "failed": []}
    with tempfile.TemporaryDirectory(prefix="damage-") as home, warnings.catch_warnings(), without_pictures():
        warnings.simplefilter("ignore")
        small = SmallRun(Path(home))
        chosen = {name: build for name, build in subjects(small).items() if not names or name in names}
        for position, (name, build) in enumerate(chosen.items()):
            subject, counts = build(), Counter[str]()
            for number in range(cases // len(chosen) + (position < cases % len(chosen))):
                done, kind = subject.case(random.Random(f"{seed} {name} {number}"))
                good = kind in ("detected", "harmless")
                counts[kind if good else kind.partition(":")[0]] += 1
                if not good:
                    report["failed"].append({"subject": name, "case": number, "damage": done, "problem": kind})
                    print(f"  FAILED {name} {number}: {done}: {kind}", flush=True)
            report["subjects"][name] = dict(counts)
            print(f"{name}: {dict(counts)}", flush=True)
    kinds = ("detected", "harmless", "another result", "traceback", "hang")
    return report | {kind: sum(one.get(kind, 0) for one in report["subjects"].values()) for kind in kinds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.damage", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200, help="number of changes, over all subjects [200]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the changes [1]")
    parser.add_argument("--subject", action="append", help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    asked = parser.parse_args()
    report = campaign(asked.cases, asked.seed, asked.subject)
    if asked.json:
        write_json(asked.json, report)
    print(json.dumps({kind: found for kind, found in report.items() if isinstance(found, int)}))
    sys.exit(1 if report["failed"] else 0)


if __name__ == "__main__":
    main()
