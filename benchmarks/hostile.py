"""Hostile files: recipes, run folders, published models, tokenizers, data and images that someone made to do harm.

    python -m benchmarks.hostile [--cases 0] [--seed 1] [--json FILE]

Every case makes one file or folder and runs one command on it, in a forked process whose memory and time are limited. It fails if

- the command shows a traceback, or its output contains a control character other than tab and newline,
- it takes longer than ``SECONDS`` or more than ``MEMORY`` bytes over those that the process started with,
- a file outside the folder of the case changes (there are tempting ones: a profile, another run, a data file), or
- one of the programs that are planted on the search path runs (``gs``, ``sh``, ``convert``, ...).

Whether the command succeeds or refuses the file does not matter here. Exit code 1 if a case fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.hostile_files import TINY, Case, all_cases

SECONDS, MEMORY = 30.0, 1_500_000_000
PROGRAMS = ("gs", "sh", "bash", "convert", "python", "curl", "git")


@dataclass(frozen=True)
class Outcome:
    """What a case did: exit code, seconds, bytes over the start, output, and what is wrong."""

    code: int
    seconds: float
    memory: int
    output: str
    problems: list[str]


# ---------------------------------------------------------------------------------------------------------------- running


def execute(case: Case, work: Path) -> Outcome:
    """Run a case in a forked process."""
    folder, home, output = work / "case", work / "home", work / "output"
    for one in (folder, home):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir()
    (home / "profile").write_text("precious\n")
    (home / "victim-run" / "step-00000001").mkdir(parents=True)
    (home / "victim-run" / "step-00000001" / "weights").write_text("precious\n")
    case.make(folder)
    before, start = _state(home), time.monotonic()
    child = os.fork()
    if child == 0:
        _child(case, folder, output, work)
    peak, base, code = 0, psutil.Process().memory_info().rss, None
    problems: list[str] = []
    while code is None:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        with contextlib.suppress(psutil.Error):
            peak = max(peak, psutil.Process(child).memory_info().rss - base)
        if time.monotonic() - start > SECONDS or peak > MEMORY:
            os.kill(child, 9)
            os.waitpid(child, 0)
            code = -9
            problems.append(f"more than {SECONDS:.0f} s" if peak <= MEMORY else f"more than {MEMORY / 1e9:.1f} GB")
        time.sleep(0.01)
    text = output.read_bytes().decode("utf-8", "replace")
    problems += ["traceback"] if "Traceback (most recent call last)" in text or "panicked" in text else []
    control = sorted({hex(ord(c)) for c in text if is_control(c)})
    problems += [f"control characters in the output: {control}"] if control else []
    problems += ["a file outside has changed"] if _state(home) != before else []
    problems += ["a program was started"] if (work / "owned").exists() or list(folder.rglob("owned")) else []
    (work / "owned").unlink(missing_ok=True)
    return Outcome(code, time.monotonic() - start, peak, text, problems)


def is_control(character: str) -> bool:
    """Return whether a terminal could act on a character, other than tab and the ends of lines."""
    number = ord(character)
    return (number < 32 and character not in "\n\t\r") or 127 <= number < 160 or character in "\u202e\u2066"


def _child(case: Case, folder: Path, output: Path, work: Path) -> None:
    """The forked process: limits, a search path of traps, then the command."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ |= {
            "PATH": str(work / "bin"),
            "HOME": str(work / "home"),
            "WEFT_CACHE": str(folder / "cache"),
            "HF_HUB_OFFLINE": "1",
        }
        from weft.cli.app import main

        main([word.replace("@", str(folder), 1) for word in case.command])
    except SystemExit as error:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(error.code if isinstance(error.code, int) else 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)


def _state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(p): (p.lstat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in sorted(folder.rglob("*"))}


def prepared(work: Path) -> Path:
    """Train the run that is copied and damaged, and plant the traps."""
    (work / "bin").mkdir()
    for name in PROGRAMS:
        (work / "bin" / name).write_text(f"#!/bin/sh\n: > '{work}/owned'\n")
        (work / "bin" / name).chmod(0o755)
    (work / "d.csv").write_text("text,label\n" + "".join(f"good film {i},pos\nbad film {i},neg\n" for i in range(30)))
    (work / "r.yaml").write_text(TINY.format(data="d.csv"))
    os.environ["WEFT_CACHE"] = str(work / "cache")
    from weft.training.recipes import read_run

    read_run(work / "r.yaml").train(work / "trained")
    return work / "trained"


def campaign(cases: int = 0, seed: int = 1, report: Callable[[str], None] = print) -> dict[str, Any]:
    """Run all cases, or a random sample of them; return the counts."""
    import torch

    import weft.inference.convert  # before the fork, so that no case imports it again
    import weft.training.dry_run  # noqa: F401

    torch.set_num_threads(1)
    counts: dict[str, Counter[str]] = {}
    slowest, largest, failed = 0.0, 0, list[str]()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder).resolve()
        known = all_cases(prepared(work))
        chosen = random.Random(seed).sample(known, min(cases, len(known))) if cases else known
        for case in chosen:
            outcome = execute(case, work)
            verdict = "failed" if outcome.problems else "accepted" if outcome.code == 0 else "refused"
            counts.setdefault(case.kind, Counter())[verdict] += 1
            slowest, largest = max(slowest, outcome.seconds), max(largest, outcome.memory)
            if outcome.problems:
                failed.append(f"{case.kind}: {case.name}: {'; '.join(outcome.problems)}")
                report(f"FAILED {failed[-1]}\n{outcome.output[-800:]!r}")
    return {
        "cases": len(chosen),
        "counts": counts,
        "failed": failed,
        "slowest": round(slowest, 1),
        "largest_mb": largest // 10**6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=0, help="number of cases, chosen at random; 0 = all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    options = parser.parse_args()
    found = campaign(options.cases, options.seed)
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(1 if found["failed"] else 0)


if __name__ == "__main__":
    main()
