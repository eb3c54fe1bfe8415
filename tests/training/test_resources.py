"""Resources used by training: energy counters, memory, totals."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from weft.training import resources as usage
from weft.training.resources import ResourceMeter, describe, sum_usage


def make_zone(root, name: str, energy: int, most: int = 1_000_000):
    zone = root / name
    zone.mkdir()
    (zone / "energy_uj").write_text(str(energy))
    (zone / "max_energy_range_uj").write_text(str(most - 1))
    return zone


def test_energy_counters_are_summed_and_may_wrap_around(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "RAPL", tmp_path)
    one, two = make_zone(tmp_path, "intel-rapl:0", 900_000), make_zone(tmp_path, "intel-rapl:1", 100)
    make_zone(tmp_path, "intel-rapl:0:0", 5)  # a part of the first package: counted there already
    meter = ResourceMeter()
    (one / "energy_uj").write_text("100000")  # wrapped around: 0.2 J
    (two / "energy_uj").write_text("300100")  # 0.3 J
    meter.sample()
    (two / "energy_uj").write_text("400100")  # 0.1 J
    found = meter.read()
    assert found["joules"] == pytest.approx(0.6)
    assert found["energy"] == "measured by RAPL"


def test_peak_memory_does_not_include_the_parent_process():
    asked = "from weft.training.resources import ResourceMeter; print(ResourceMeter().read()['peak_memory'])"
    held = np.ones(50_000_000)  # 400 MB
    found = int(subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout)
    assert 1e6 < found < 3e8 < held.nbytes <= ResourceMeter().read()["peak_memory"]


def test_without_counters_energy_is_marked_as_an_estimate(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "RAPL", tmp_path)
    meter = ResourceMeter()
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    found = meter.read()
    assert found["joules"] == pytest.approx(found["cpu_seconds"] * usage.WATTS, abs=0.06)
    assert "estimate" in found["energy"]
    assert found["seconds"] >= 0.05
    assert found["peak_memory"] > 10**7


def test_sessions_are_summed_and_priced(monkeypatch):
    session = {"seconds": 1.0, "cpu_seconds": 2.0, "peak_memory": 5, "joules": 1.8e6, "energy": "measured by RAPL"}
    monkeypatch.setenv("WEFT_PRICE", "0.4")
    monkeypatch.setenv("WEFT_GRID", "300")
    found = sum_usage([session, {**session, "peak_memory": 9}])
    assert (found["seconds"], found["peak_memory"], found["joules"]) == (2.0, 9, 3.6e6)
    assert (found["money"], found["co2_grams"]) == (0.4, 300.0)  # one kWh
    assert "1000.00 Wh" in describe(found)
    monkeypatch.delenv("WEFT_PRICE")
    monkeypatch.delenv("WEFT_GRID")
    assert "money" not in sum_usage([session])
    monkeypatch.setenv("WEFT_PRICE", "much")
    with pytest.raises(ValueError, match="WEFT_PRICE must be a number of at least 0, not 'much'"):
        sum_usage([session])
