"""``make campaigns``: try to break weft, and record what happened in docs/about/reliability.md.

    python -m benchmarks.campaigns [NAME ...] [--full] [--table]

Each campaign is a command of its own, and ends with exit code 1 where something broke. The output of the last run of each is kept
in benchmarks/results; ``--full`` runs as many cases as the page is meant to show, without it a few minutes of each;
``--table`` only writes the page again. A small part of every campaign is in ``make test``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.document import show
from benchmarks.results import record, recorded

PAGE = Path(__file__).parents[1] / "docs" / "about" / "reliability.md"
MAX_LINES = 14
"""Lines of the output that the page shows."""


@dataclass(frozen=True)
class Campaign:
    """A command that tries to break something.

    Args:
        title: Heading on the page.
        claim: What must hold.
        short: Arguments of a run of a few minutes.
        full: Arguments of a run with all cases.
    """

    title: str
    claim: str
    short: str
    full: str


CAMPAIGNS = {
    "kills": Campaign(
        "Killed processes",
        "Training is killed with SIGKILL at random moments, most of them inside a save, and resumed. Weights, optimizer state, "
        "metrics and ledger must be bit-identical to those of an undisturbed run.",
        "benchmarks.kills --kills 3",
        "benchmarks.kills --kills 13",
    ),
    "kills-processes": Campaign(
        "Killed runs of several processes",
        "The same with two processes started by torchrun; every other kill hits only one of them.",
        "benchmarks.kills --kills 2 --recipe dates --processes 2",
        "benchmarks.kills --kills 10 --recipe dates --processes 2",
    ),
    "faults": Campaign(
        "Failing disks",
        "One file operation after another fails (no space, quota, I/O error, read-only) in a save, a log entry, prepared data, "
        "the final files and a conversion. The error must be reported, nothing may be half-written, and the run must resume.",
        "benchmarks.faults --every 10",
        "benchmarks.faults",
    ),
    "damage": Campaign(
        "Damaged files",
        "Bits are flipped, files truncated, removed, zeroed or swapped, and JSON values changed, in checkpoints, run folders, "
        "prepared data, tokenizers and published models. The damage must be detected, or harmless.",
        "benchmarks.damage --cases 200",
        "benchmarks.damage --cases 5000",
    ),
    "hostile": Campaign(
        "Hostile files",
        "Recipes, run folders, published models, tokenizers, tables and images made to do harm. Nothing may be executed or "
        "written outside, no control character printed, no traceback shown, and time and memory are bounded.",
        "benchmarks.hostile --cases 60",
        "benchmarks.hostile",
    ),
    "compositions": Campaign(
        "Random compositions",
        "Random compositions of the catalog go through `weft check`: each is valid, or refused with its location in the recipe.",
        "benchmarks.compositions --cases 100",
        "benchmarks.compositions --cases 2000",
    ),
    "recipes": Campaign(
        "Mutated recipes",
        "Recipes are changed at one key at a time. Every message must name the line and path of the change, or of a part that it "
        "reaches.",
        "benchmarks.mutations --count 500",
        "benchmarks.mutations --count 20000",
    ),
    "equality": Campaign(
        "Equality with transformers",
        "Random models and tokenizers of all families, compared with the package transformers: hidden states, generated tokens, "
        "token ids, files saved again.",
        "benchmarks.equality --cases 30",
        "benchmarks.equality --cases 400",
    ),
}


def run(name: str, full: bool) -> bool:
    """Run a campaign, print its output and keep the end of it; return whether nothing broke."""
    command = CAMPAIGNS[name].full if full else CAMPAIGNS[name].short
    print(f"\n{name}: python -m {command}", flush=True)
    start, lines = time.monotonic(), list[str]()
    with subprocess.Popen(
        [sys.executable, "-m", *command.split()], stdout=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines = [*lines, line.rstrip()][-MAX_LINES:]
    seconds = round(time.monotonic() - start)
    record(f"campaign-{name}", {"command": command, "seconds": seconds, "exit_code": process.returncode, "output": lines})
    return process.returncode == 0


def section(campaign: Campaign, result: dict[str, Any] | None) -> list[str]:
    """Return the part of the page about a campaign."""
    head = [f"### {campaign.title}", "", campaign.claim, ""]
    if result is None:
        return [*head, f"Not run yet: `python -m {campaign.full}`.", ""]
    held = "nothing broke" if result["exit_code"] == 0 else "something broke; see the output"
    partial = "" if result["command"] == campaign.full else f" (a part of `python -m {campaign.full}`)"
    facts = f"`python -m {result['command']}`{partial}: {result['seconds'] / 60:.0f} minutes, {held}. The end of its output:"
    return [*head, facts, "", "```text", *result["output"], "```", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)} [all]")
    parser.add_argument("--full", action="store_true", help="all cases; several hours")
    parser.add_argument("--table", action="store_true", help="run nothing, write the page")
    options = parser.parse_args()
    if unknown := set(options.names) - set(CAMPAIGNS):
        parser.error(f"unknown campaign {', '.join(sorted(unknown))}; choose from {', '.join(CAMPAIGNS)}")
    held = [run(name, options.full) for name in options.names or CAMPAIGNS] if not options.table else []
    lines = [line for name, campaign in CAMPAIGNS.items() for line in section(campaign, recorded(f"campaign-{name}"))]
    show("campaigns", lines, PAGE)
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
