"""Run folders made by someone else: links in them and names that lead out of them are refused, and nothing outside is touched."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tests.commands import TINY, weft

from weft.core.fields import Info, TextField
from weft.models import bert
from weft.pretrained import save

COMMANDS = {
    "train": ["train", "RUN", "--resume"],
    "train as a recipe": ["train", "RUN", "--run", "OUT"],
    "train into it": ["train", "RECIPE", "--run", "RUN"],
    "check": ["check", "RUN"],
    "evaluate": ["evaluate", "RUN"],
    "errors": ["errors", "RUN"],
    "generate": ["generate", "RUN", "LINES"],
    "predict": ["predict", "RUN", "LINES"],
    "embed": ["embed", "RUN", "LINES"],
    "inspect": ["inspect", "RUN", "--input", "3 March 1999"],
    "compare": ["compare", "RUN", "OTHER"],
    "convert": ["convert", "RUN", "OUT"],
    "prompt": ["prompt", "RUN", "LINES", "--template", "{text} {label}"],
    "transfer": ["transfer", "RUN", "LINES", "--to", "x"],
    "latent": ["latent", "RUN", "sample"],
    "demo": ["demo", "--recipe", "RECIPE", "--run", "RUN"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.yaml").write_text(TINY)
    assert weft("train", folder / "tiny.yaml", "--run", folder / "run", "--keep").code == 0
    return folder


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            path.lstat().st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


def call(name: str, run: Path, trained: Path, work: Path) -> tuple[int, str]:
    (work / "lines.txt").write_text("3 March 1999\n")
    known = {
        "RUN": run,
        "OUT": work / "out",
        "RECIPE": trained / "tiny.yaml",
        "LINES": work / "lines.txt",
        "OTHER": trained / "run",
    }
    answer = weft(*(known.get(word, word) for word in COMMANDS[name]))
    return answer.code, answer.err


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_through_links(name: str, trained: Path, tmp_path: Path) -> None:
    """Every file of the run is a link to a file of somebody else, and every folder is a link too."""
    victim, run = tmp_path / "victim", tmp_path / "run"
    shutil.copytree(trained / "run", victim)
    run.mkdir()
    for path in victim.iterdir():
        (run / path.name).symlink_to(path)
    before = snapshot(victim)
    code, error = call(name, run, trained, tmp_path)
    assert code != 0 and ("is a link" in error or "already contains a run" in error), error
    assert snapshot(victim) == before and all(path.is_symlink() for path in run.iterdir())


@pytest.mark.parametrize("name", ["train", "convert", "evaluate"])
def test_one_link_anywhere_is_enough_to_refuse_a_run(name: str, trained: Path, tmp_path: Path) -> None:
    entries = [path.relative_to(trained / "run") for path in (trained / "run").rglob("*")]
    assert Path("log.jsonl") in entries and Path("checkpoints") in entries and len(entries) > 12
    (tmp_path / "victim").mkdir()
    for entry in entries:
        run, target = tmp_path / "run", tmp_path / "victim" / entry.name
        shutil.copytree(trained / "run", run)
        (run / entry).rename(target)
        (run / entry).symlink_to(target)
        before = snapshot(tmp_path / "victim")
        code, error = call(name, run, trained, tmp_path)
        assert code != 0 and f"{entry} is a link" in error, (entry, error)
        assert snapshot(tmp_path / "victim") == before
        shutil.rmtree(run)


@pytest.mark.parametrize("plant", ["metrics.json", "predictions.jsonl", "usage.json", "curve.png", "tensorboard", ".lock"])
def test_a_file_that_training_would_create_cannot_be_a_link(plant: str, trained: Path, tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "profile"
    shutil.copytree(trained / "run", run)
    (run / plant).unlink(missing_ok=True)
    (run / plant).symlink_to(outside)  # a broken link: opening it for writing would create the file
    code, error = call("train", run, trained, tmp_path)
    assert code != 0 and f"{plant} is a link" in error and not outside.exists()


def test_a_hard_linked_log_is_not_changed_outside(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained / "run", run)
    os.link(run / "log.jsonl", tmp_path / "backup.jsonl")
    before = (tmp_path / "backup.jsonl").read_bytes()
    answer = weft("train", run, "learning.steps=5", "--resume")
    assert answer.code == 0, answer.err
    assert (tmp_path / "backup.jsonl").read_bytes() == before != (run / "log.jsonl").read_bytes()


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    structure = bert(dim=8, layers=1, heads=2, hidden=8, length=24)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "march"]
    save(structure(Info({"text": TextField("text", len(words), max_length=24)})), structure, folder / "bert")
    (folder / "bert" / "vocab.txt").write_text("\n".join(words) + "\n")
    assert weft("convert", folder / "bert", folder / "run").code == 0
    return folder / "run"


@pytest.mark.parametrize(
    "bad", ["ABSOLUTE", "../outside.json", "inner/../../outside.json", "model.safetensors", "config.json", ""]
)
def test_convert_writes_no_names_of_its_own(bad: str, converted: Path, tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside.json"
    shutil.copytree(converted, run)
    name = str(outside) if bad == "ABSOLUTE" else bad
    document = json.loads((run / "published.json").read_text())
    (run / "published.json").write_text(json.dumps({**document, "files": {**document["files"], name: {"a": 1}}}))
    answer = weft("convert", run, tmp_path / "out")
    assert answer.code != 0 and "published.json: files: unknown name" in answer.err
    assert not outside.exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content", ["[]", "null", "3", '{"config": 3}', '{"format": 1, "config": 3}', '{"format": 1, "config": {}, "files": []}']
)
@pytest.mark.parametrize("command", ["embed", "convert"])
def test_an_odd_origin_is_an_error_with_its_file(content: str, command: str, converted: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(converted, run)
    (run / "published.json").write_text(content)
    code, error = call(command, run, run, tmp_path)
    assert code != 0 and "published.json: " in error


@pytest.mark.parametrize("hostile", ["[" * 50_000, "3"], ids=["deep", "number"])
def test_no_json_of_a_run_leads_to_a_traceback(
    hostile: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``weft`` of the tests fails for a traceback, and for an exception that is not an exit code."""
    monkeypatch.chdir(tmp_path)  # compare writes a plot there
    names = {path.relative_to(trained / "run") for path in (trained / "run").rglob("*.json*")}
    used = {"fields.json": "generate", "log.jsonl": "compare", "metrics.json": "compare", "manifest.json": "train"}
    assert set(used) <= {name.name for name in names}
    for name in names:
        if name.name in used:
            run = tmp_path / "run"
            shutil.copytree(trained / "run", run)
            (run / name).write_text(hostile + "\n")
            call(used[name.name], run, trained, tmp_path)
            shutil.rmtree(run)


def test_a_recipe_that_asks_for_a_huge_network_is_refused_before_it_is_built(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained / "run", run)
    recipe = (run / "recipe.yaml").read_text()
    assert recipe.count("dim: 8\n") == 1
    unsigned = "".join(line for line in recipe.splitlines(keepends=True) if not line.startswith("# SHA-256"))
    (run / "recipe.yaml").write_text(unsigned.replace("dim: 8\n", "dim: 300000\n"))  # 4 TB
    code, error = call("generate", run, trained, tmp_path)
    assert (
        code == 2 and "recipe.yaml: the network has " in error and "the recipe or fields.json was changed after training" in error
    )
