"""CPU seconds of ``weft --help`` and ``weft check dates``. ``python -m benchmarks.startup``"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

REPEATS = 5


def cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "weft", *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for arguments in (["--help"], ["check", "dates"]):
        times = [cpu_seconds(arguments) for _ in range(REPEATS)]
        middle, most = statistics.median(times), max(times)
        print(f"weft {' '.join(arguments):14} {middle:.2f} s of CPU time (median of {REPEATS}, at most {most:.2f})")


if __name__ == "__main__":
    main()
