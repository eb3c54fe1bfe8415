"""A built wheel, installed elsewhere, trains a shipped recipe."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_built_wheel_in_another_folder_trains_a_shipped_recipe(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("weft-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    template = "weft/experiments/scaffold/templates/classifier.yaml"
    assert {"weft/recipes/dates.yaml", template, "weft/inspect/attention_page.html", "weft/py.typed"} <= set(names)
    assert not [n for n in names if n.startswith(("tests/", "benchmarks/"))]
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    sizes = ["data.train=60", "data.valid=8", "data.test=8", "structure.dim=8", "learning.steps=2", "learning.batch_tokens=200"]
    command = [sys.executable, "-m", "weft", "train", "dates", *sizes, "-q"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    work = tmp_path / "elsewhere"
    work.mkdir()
    subprocess.run(command, check=True, cwd=work, env=environment)
    assert (work / "runs" / "dates-1" / "model.safetensors").is_file()
    where = [sys.executable, "-c", "import weft; print(weft.__file__)"]
    found = subprocess.run(where, check=True, cwd=work, env=environment, capture_output=True, text=True).stdout
    assert Path(found.strip()).is_relative_to(tmp_path / "installed")
