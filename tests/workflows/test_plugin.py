"""A plug-in registers a source, blocks, an objective, a metric, a model family, a recipe and commands without an edit in weft."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PARTS, COMMANDS = "letters_plugin.parts", "letters_plugin.commands"
IMPORTS = ("--import", PARTS, "--import", COMMANDS)


def run(*arguments: str | Path, at: Path, path: Path = HERE) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: plug-ins are imported when it starts."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, "-m", "weft", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=at, env=environment, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of the plug-in's recipe."""
    folder = tmp_path_factory.mktemp("plugin")
    done = run("train", "vowels", "--run", "run", *IMPORTS, at=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the plug-in is installed."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(HERE / "letters_plugin", folder / "letters_plugin")
    about = folder / "letters-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: letters\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[weft.plugins]\nletters = {PARTS}\n\n[weft.commands]\nletters = {COMMANDS}\n")
    return folder


def test_its_recipe_trains_with_its_source_blocks_objective_and_metric(home: Path) -> None:
    metrics = json.loads((home / "run" / "metrics.json").read_text())
    assert metrics["off_by"] < 0.5, "a constant would be off by 0.8"
    assert json.loads((home / "run" / "environment.json").read_text())["plugins"] == [PARTS, COMMANDS]


def test_its_command_is_found_by_import(home: Path) -> None:
    done = run("vowels", "run", "aaae", "bcdf", "--json", *IMPORTS, at=home)
    assert done.returncode == 0, done.stderr
    many, none = json.loads(done.stdout)
    assert many > 2 > 1 > none
    unknown = run("vowels", "run", "aaae", at=home)
    assert unknown.returncode == 2 and "vowels" in unknown.stderr


def test_an_installed_plugin_adds_its_command_and_recipe(home: Path, site: Path) -> None:
    listed = run("--help", at=home, path=site).stdout
    assert "Plug-ins" in listed and "Print the number of vowels" in listed
    done = run("vowels", "run", "aaae", at=home, path=site)
    assert done.returncode == 0 and done.stdout.endswith("\taaae\n"), done.stderr
    assert "vowels" in run("recipes", at=home, path=site).stdout


def test_its_run_works_in_the_commands_of_weft(home: Path) -> None:
    (home / "texts.txt").write_text("aaae\n")
    done = run("predict", "run", "texts.txt", *IMPORTS, at=home)
    assert done.returncode == 0 and float(done.stdout) > 2, done.stderr
    wrong = run("generate", "run", "texts.txt", *IMPORTS, at=home)
    assert wrong.returncode == 2 and "does not generate text; it supports weft predict, weft embed, weft vowels" in wrong.stderr


def test_its_model_family_is_loaded(home: Path, tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 12}
    config = {"model_type": "letters-bert", "max_position_embeddings": 16, "type_vocab_size": 2, **sizes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    known = run("check", "masked", f"structure.from={tmp_path}", at=tmp_path)
    assert known.returncode == 2
    script = "import letters_plugin.parts; from weft.pretrained.folder import PublishedModel; import sys; "
    script += "print(PublishedModel(sys.argv[1]).family.model_type)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, env=environment)
    assert done.stdout == "letters-bert\n", done.stderr


def test_a_plugin_that_cannot_be_imported_does_not_stop_other_commands(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    (broken / "letters_plugin" / "commands.py").write_text("raise RuntimeError('half \\x1b[31minstalled')\n")
    done = run("--version", at=tmp_path, path=broken)
    assert done.returncode == 0
    assert "cannot import the commands of letters_plugin.commands: RuntimeError: half" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("name", ["train", "latent"])
def test_a_command_cannot_replace_another(name: str, site: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "site"
    shutil.copytree(site, wrong)
    file = wrong / "letters_plugin" / "commands.py"
    file.write_text(file.read_text().replace('(vowels, "vowels"', f'(vowels, "{name}"'))
    done = run(name, "--help", at=tmp_path, path=wrong)
    assert f"the command '{name}' exists; choose another name" in done.stderr and "vowels" not in done.stdout


def test_a_recipe_cannot_replace_another(tmp_path: Path) -> None:
    from weft.training.recipes import register_recipes, shipped_recipes

    before = shipped_recipes()
    (tmp_path / "dates.yaml").write_text("seed: 1\n")
    with pytest.raises(ValueError, match=r"the recipe 'dates' exists"):
        register_recipes(tmp_path)
    with pytest.raises(ValueError, match=r"has no recipe"):
        register_recipes(tmp_path / "nothing")
    assert shipped_recipes() == before
