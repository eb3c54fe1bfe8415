"""``make experiments``: every number in the documentation, one after another (about half an hour on two idle cores, and ten hours
more for benchmarks on the data under WEFT_DATA; recorded arms are not run again)."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

COMMANDS = (
    ("start-up times", ["benchmarks.startup"]),
    ("500 mutated recipes", ["benchmarks.mutations"]),
    ("every encoder x decoder x objective", ["benchmarks.combinations"]),
    ("20 kills of one phase", ["benchmarks.kills", "--recipe", "dates"]),
    ("20 kills of two alternating phases", ["benchmarks.kills", "--recipe", "gan"]),
    ("20 kills of five phases and six networks", ["benchmarks.kills", "--recipe", "cara"]),
    ("the demo", ["weft", "demo", "--run", "runs/figures-dates-{now}"]),
    ("the demo with a Transformer", ["weft", "demo", "--recipe", "dates-transformer", "--run", "runs/figures-transformer-{now}"]),
    ("the recipes on real data", ["benchmarks.arms"]),
    ("paraphrases by cross-validation", ["benchmarks.paraphrases"]),
    ("sentence similarity before and after fine-tuning", ["benchmarks.similarity"]),
    ("pretraining objectives", ["benchmarks.pretraining"]),
    ("sentence-pair pretraining tasks", ["benchmarks.segments"]),
    ("identifiability of class and content", ["benchmarks.identifiability"]),
    ("posterior collapse of text VAEs", ["benchmarks.collapse"]),
    ("classification with few labels", ["benchmarks.low_resource"]),
    ("class-conditional generation: trials", ["benchmarks.conditional", "--trials"]),
    ("class-conditional generation", ["benchmarks.conditional"]),
    ("style transfer of captions", ["benchmarks.conditional", "--corpus", "flickrstyle"]),
)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    failed = []
    for title, (module, *arguments) in COMMANDS:
        print(f"== {title}", flush=True)
        started = time.perf_counter()
        filled = [a.format(now=int(time.time())) for a in arguments]
        code = subprocess.run([sys.executable, "-m", module, *filled]).returncode
        print(f"== {title}: {'ok' if code == 0 else f'exit code {code}'}, {time.perf_counter() - started:.0f} s\n", flush=True)
        failed += [title] if code else []
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
