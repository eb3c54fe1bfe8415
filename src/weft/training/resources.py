"""Resources used by training: time, memory, energy, money, CO2."""

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

from weft.core.plain_number import plain_number

RAPL = Path("/sys/class/powercap")
WATTS = 12.0
"""Assumed power of a busy core in watts, where the energy counters of the processor cannot be read."""
PRICE, GRID = "WEFT_PRICE", "WEFT_GRID"
"""Environment variables: price of a kWh in any currency, and grams of CO2 per kWh of the grid."""


class ResourceMeter:
    """Measures the resources used since it was created.

    Energy is read from the RAPL counters of the processor where they are readable (for the full package, other programs
    included); elsewhere it is estimated as CPU time times 12 W, and marked as an estimate.
    """

    def __init__(self) -> None:
        for variable in (PRICE, GRID):
            environment_number(variable)  # report an invalid value before training, not after it
        self.start, self.cpu = time.perf_counter(), time.process_time()
        self.counters = _counters()
        self.joules = 0.0
        self.last = {zone: _read(zone) for zone in self.counters}

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of this process."""
        return time.process_time() - self.cpu

    def sample(self) -> None:
        """Add the increase of the energy counters since the last call. They wrap around every few minutes to hours."""
        for zone, modulus in self.counters.items():
            now, before = _read(zone), self.last[zone]
            if now is not None and before is not None:
                self.joules += ((now - before) % modulus) / 1e6
            self.last[zone] = now

    def read(self, cpu: float | None = None) -> dict[str, Any]:
        """Return seconds, CPU seconds, peak memory in bytes, and energy in joules with its source.

        Args:
            cpu: CPU seconds of all processes; None = of this one.
        """
        self.sample()
        cpu = self.cpu_seconds() if cpu is None else cpu
        measured = bool(self.counters)
        return {
            "seconds": round(time.perf_counter() - self.start, 3),
            "cpu_seconds": round(cpu, 3),
            "peak_memory": _peak(),
            "joules": round(self.joules if measured else cpu * WATTS, 1),
            "energy": "measured by RAPL" if measured else f"estimated: CPU time x {WATTS:g} W",
        }


def _peak() -> int:
    """Return the peak memory of this process in bytes. ``ru_maxrss`` would include that of the parent process."""
    try:
        found = re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    except OSError:
        found = None
    if found:
        return 1024 * int(found[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _counters() -> dict[Path, int]:
    """Return the readable package counters, with the value at which they wrap around."""
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


def sum_usage(sessions: Sequence[Mapping[str, Any]], stages: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return the usage of all sessions of a run; money and CO2 where the environment variables are set.

    Args:
        sessions: Results of ``ResourceMeter.read``.
        stages: By name, the ``tokens`` of each stage and the seconds ``spent`` in data, forward, backward, optimizer.
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
        if (factor := environment_number(variable)) is not None:
            found[name] = round(joules / 3.6e6 * factor, 6)
    of_stages = list((stages or {}).values())
    found["tokens"] = sum(stage["tokens"] for stage in of_stages)
    spent: Counter[str] = Counter()
    for stage in of_stages:
        spent.update(stage["spent"])
    return {**found, "spent": {name: round(seconds, 3) for name, seconds in spent.items()}}


def environment_number(variable: str) -> float | None:
    """Return the number in an environment variable; None if it is not set."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        found = plain_number(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f"{variable} must be a number of at least 0, not {text!r}")
    return found


def describe(usage: Mapping[str, Any]) -> str:
    """Return the result of ``sum_usage`` as two lines of text."""
    parts = ", ".join(f"{name} {_seconds(seconds)}" for name, seconds in usage["spent"].items())
    money = f", {usage['money']:.4f} money" if "money" in usage else ""
    co2 = f", {usage['co2_grams']:.1f} g CO2" if "co2_grams" in usage else ""
    return (
        f"{_seconds(usage['seconds'])}" + (f" ({parts})" if parts else "") + f", {usage['tokens']:,} tokens, "
        f"peak memory {usage['peak_memory'] / 1e6:.0f} MB\n"
        f"{usage['joules'] / 3600:.2f} Wh ({usage['energy']}){money}{co2}"
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
