"""What a training cost: time, memory, energy, money, CO2."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RAPL = Path("/sys/class/powercap")
WATTS = 12.0
"""Assumed of a busy core where the processor's own counters cannot be read."""
PRICE, GRID = "WEFT_PRICE", "WEFT_GRID"
"""Environment variables: the price of a kWh (in whatever money), and grams of CO2 per kWh of the grid."""


class Meter:
    """Measures a stretch of work from when it is made.

    Energy is read from the processor's RAPL counters where the system lets us (the whole package: other programs too); elsewhere
    it is estimated as CPU time times 12 W, and said to be an estimate.
    """

    def __init__(self) -> None:
        self.began, self.cpu = time.perf_counter(), time.process_time()
        self.counters = _counters()
        self.joules = 0.0
        self.last = {zone: _read(zone) for zone in self.counters}

    def look(self) -> None:
        """Add what the counters have gone up since the last look; they begin again from 0 every few minutes to hours."""
        for zone, most in self.counters.items():
            now, before = _read(zone), self.last[zone]
            if now is not None and before is not None:
                self.joules += ((now - before) % most) / 1e6
            self.last[zone] = now

    def read(self) -> dict[str, Any]:
        """Seconds, CPU seconds, largest memory in bytes, energy in joules and whether that is an estimate."""
        self.look()
        cpu = time.process_time() - self.cpu
        measured = bool(self.counters)
        return {
            "seconds": round(time.perf_counter() - self.began, 3),
            "cpu_seconds": round(cpu, 3),
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "joules": round(self.joules if measured else cpu * WATTS, 1),
            "energy": "measured by RAPL" if measured else f"estimated: CPU time x {WATTS:g} W",
        }


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


def total(sessions: list[Mapping[str, Any]]) -> dict[str, Any]:
    """All sessions of a run together; money and CO2 where a price and a grid figure are given."""
    joules = sum(session["joules"] for session in sessions)
    found: dict[str, Any] = {
        "seconds": round(sum(session["seconds"] for session in sessions), 3),
        "cpu_seconds": round(sum(session["cpu_seconds"] for session in sessions), 3),
        "peak_memory": max(session["peak_memory"] for session in sessions),
        "joules": round(joules, 1),
        "energy": "; ".join(dict.fromkeys(session["energy"] for session in sessions)),
    }
    for variable, name in ((PRICE, "money"), (GRID, "co2_grams")):
        if (figure := _figure(variable)) is not None:
            found[name] = round(joules / 3.6e6 * figure, 6)
    return found


def _figure(variable: str) -> float | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{variable} must be a number, not {text!r}") from None


def describe(usage: Mapping[str, Any], spent: Mapping[str, float]) -> str:
    """Two lines for a person. ``spent``: seconds in data, forward, backward, optimiser."""
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in spent.items())
    money = f", {usage['money']:.4f} money" if "money" in usage else ""
    co2 = f", {usage['co2_grams']:.1f} g CO2" if "co2_grams" in usage else ""
    return (
        f"{usage['seconds']:.0f} s" + (f" ({parts})" if parts else "") + f", at most {usage['peak_memory'] / 1e6:.0f} MB\n"
        f"{usage['joules'] / 3600:.2f} Wh ({usage['energy']}){money}{co2}"
    )
