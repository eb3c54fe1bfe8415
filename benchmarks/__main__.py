"""``make bench``: speed, as ratios within one run, and start-up times. Run it on a machine that does nothing else."""

from __future__ import annotations

from benchmarks import overhead, published, startup, step

if __name__ == "__main__":
    startup.main()
    overhead.main()
    step.main()
    for work in published.WORK.values():
        work()
