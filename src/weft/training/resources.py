"""What a training cost: time, memory, energy, money, CO2."""

from __future__ import annotations

import math
import os
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RAPL = Path("/sys/class/powercap")
WATTS = 12.0
"""Assumed of a busy core where the processor's own counters cannot be read."""
PRICE, GRID = "WEFT_PRICE", "WEFT_GRID"
"""Environment variables: the price of a kWh (in whatever money), and grams of CO2 per kWh of the grid."""


class ResourceMeter:
    """Measures a stretch of work from when it is made.

    Energy is read from the processor's RAPL counters where the system lets us (the whole package: other programs too); elsewhere
    it is estimated as CPU time times 12 W, and said to be an estimate.
    """

    def __init__(self) -> None:
        for variable in (PRICE, GRID):
            figure(variable)  # a mistake is said before the work, not after it
        self.began, self.cpu = time.perf_counter(), time.process_time()
        self.counters = _counters()
        self.joules = 0.0
        self.last = {zone: _read(zone) for zone in self.counters}

    def cpu_seconds(self) -> float:
        """CPU seconds of this process."""
        return time.process_time() - self.cpu

    def sample(self) -> None:
        """Add what the counters have gone up since the last look; they begin again from 0 every few minutes to hours."""
        for zone, most in self.counters.items():
            now, before = _read(zone), self.last[zone]
            if now is not None and before is not None:
                self.joules += ((now - before) % most) / 1e6
            self.last[zone] = now

    def read(self, cpu: float | None = None) -> dict[str, Any]:
        """Seconds, CPU seconds, largest memory in bytes, energy in joules and whether that is an estimate.

        ``cpu``: the CPU seconds of all processes, where there are several.
        """
        self.sample()
        cpu = self.cpu_seconds() if cpu is None else cpu
        measured = bool(self.counters)
        return {
            "seconds": round(time.perf_counter() - self.began, 3),
            "cpu_seconds": round(cpu, 3),
            "peak_memory": _peak(),
            "joules": round(self.joules if measured else cpu * WATTS, 1),
            "energy": "measured by RAPL" if measured else f"estimated: CPU time x {WATTS:g} W",
        }


def _peak() -> int:
    """The most bytes of memory that this process had. ru_maxrss begins with what the process that started this one had."""
    try:
        found = re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    except OSError:
        found = None
    if found:
        return 1024 * int(found[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _counters() -> dict[Path, int]:
    """Readable package counters, with the number they wrap around at."""
    found: dict[Path, int] = {}
    try:
        for zone in sorted(RAPL.glob("intel-rapl:[0-9]")):
            if _read(zone) is not None:
                found[zone] = int((zone / "max_energy_range_uj").read_text()) + 1
    except (OSError, ValueError):
        return {}
    return found


def _read(zone: Path) -> int | None:
    try:
        return int((zone / "energy_uj").read_text())
    except (OSError, ValueError):
        return None


def total(sessions: Sequence[Mapping[str, Any]], stages: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """All sessions of a run together; money and CO2 where a price and a grid figure are given.

    Args:
        sessions: What ``ResourceMeter.read`` said of each.
        stages: By name, the ``tokens`` of each stage and the seconds it ``spent`` in data, forward, backward, optimizer.
    """
    joules = sum(session["joules"] for session in sessions)
    found: dict[str, Any] = {
        "seconds": round(sum(session["seconds"] for session in sessions), 3),
        "cpu_seconds": round(sum(session["cpu_seconds"] for session in sessions), 3),
        "peak_memory": max(session["peak_memory"] for session in sessions),
        "joules": round(joules, 1),
        "energy": "; ".join(dict.fromkeys(session["energy"] for session in sessions)),
    }
    for variable, name in ((PRICE, "money"), (GRID, "co2_grams")):
        if (known := figure(variable)) is not None:
            found[name] = round(joules / 3.6e6 * known, 6)
    of_stages = list((stages or {}).values())
    found["tokens"] = sum(stage["tokens"] for stage in of_stages)
    spent: Counter[str] = Counter()
    for stage in of_stages:
        spent.update(stage["spent"])
    return {**found, "spent": {name: round(seconds, 3) for name, seconds in spent.items()}}


def figure(variable: str) -> float | None:
    """The number in an environment variable, if it is set."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f"{variable} must be a number, and not below 0, not {text!r}")
    return found


def describe(usage: Mapping[str, Any]) -> str:
    """Two lines for a person, of what ``total`` found."""
    parts = ", ".join(f"{name} {_seconds(seconds)}" for name, seconds in usage["spent"].items())
    money = f", {usage['money']:.4f} money" if "money" in usage else ""
    co2 = f", {usage['co2_grams']:.1f} g CO2" if "co2_grams" in usage else ""
    return (
        f"{_seconds(usage['seconds'])}" + (f" ({parts})" if parts else "") + f", {usage['tokens']:,} tokens, "
        f"at most {usage['peak_memory'] / 1e6:.0f} MB\n"
        f"{usage['joules'] / 3600:.2f} Wh ({usage['energy']}){money}{co2}"
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
