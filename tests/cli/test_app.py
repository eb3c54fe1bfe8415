"""The command line: what works, exit codes, and a sentence instead of a traceback for everything a user can get wrong."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from tests.commands import TINY, Answer, Forked, forked, state, weft

from weft import __version__
from weft.cli.app import main
from weft.cli.listing import MAX_SUMMARY, first_sentence
from weft.core.io import read_lines
from weft.inference import load as loading
from weft.learning import Checkpoints, digest
from weft.training import artifacts
from weft.training.display import Display, Terminal
from weft.training.interrupt import StopRequest
from weft.training.recipes import read_run, shipped_recipes
from weft.training.trainer import Trainer

_draw_curve = artifacts.draw_curve


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "draw_curve", lambda *args: None)  # half of the time of a tiny run


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recipe, a finished run, one without final weights, a folder of something else, and a file."""
    home = tmp_path_factory.mktemp("home")
    (home / "tiny.yaml").write_text(TINY)
    answer = weft_train(home / "tiny.yaml", home / "run")
    assert answer.code == 0, answer.err
    shutil.copytree(home / "run", home / "unfinished")
    (home / "unfinished" / "model.safetensors").unlink()
    (home / "other").mkdir()
    (home / "other" / "notes.txt").write_text("mine")
    (home / "file").write_text("mine")
    return home


def weft_train(recipe: Path, run: Path, *more: str) -> Answer:
    return weft("train", recipe, "--run", run, "--keep", *more)


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): digest(p) for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def copy(home: Path, tmp_path: Path) -> Path:
    """A finished run to spoil."""
    return Path(shutil.copytree(home / "run", tmp_path / "copy"))


# ----------------------------------------------------------------------------------------------------------- what works


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom weft.cli.app import app, main\n"
        "for words in [['--help'], *([c.name or c.callback.__name__, '--help'] for c in app.registered_commands)]:\n"
        "    try: main(words)\n"
        "    except SystemExit as end: assert not end.code, words\n"
        "print(sorted({'torch', 'numpy', 'tokenizers', 'safetensors', 'ruamel', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Train a recipe" in done.stdout


def test_nothing_shows_the_help():
    assert "train" in weft().out


def test_train_writes_a_run_and_prints_its_path(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    for number in (1, 2):
        answer = weft("train", "tiny.yaml", "learning.steps=1")
        assert answer.code == 0 and f"the run is in runs/tiny-{number}" in answer.err
        assert "step 1/1 | loss" in answer.err
    assert digest(tmp_path / "runs/tiny-1/model.safetensors") == digest(tmp_path / "runs/tiny-2/model.safetensors")


def test_train_draws_the_curve(home, tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "draw_curve", _draw_curve)
    assert weft_train(home / "tiny.yaml", tmp_path / "run", "learning.steps=1", "--quiet") == Answer(0, "", "")
    assert (tmp_path / "run" / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_check(home):
    answer = weft("check", home / "tiny.yaml")
    assert answer.code == 0 and "parameters" in answer.out and answer.out.endswith("valid\n")
    stages = json.loads(weft("check", home / "tiny.yaml", "structure.dim=16", "--json").out)["stages"]
    assert [stage["stage"] for stage in stages] == ["main"] and stages[0]["parameters"] > 0
    assert weft("check", home / "run").code == 0


def test_evaluate(home):
    answer = weft("evaluate", home / "run")
    assert answer.code == 0 and "loss" in answer.out
    metric_values = json.loads(weft("evaluate", home / "run", "--split", "valid", "--json").out)
    metrics = json.loads((home / "run" / "metrics.json").read_text())
    assert {name: metric_values[name] for name in metrics["valid"]} == metrics["valid"]
    low, high = metric_values["intervals"]["exact_match"]
    assert low <= metric_values["exact_match"] <= high
    written = json.loads((home / "run" / "metrics-valid.json").read_text())
    assert written == {"format": 1, "split": "valid", **metric_values}
    assert json.loads((home / "run" / "metrics-test.json").read_text())["loss"] == metrics["loss"]


def test_catalog_schema_recipes_version():
    assert "lstm" in weft("catalog").out
    assert "lstm" in weft("catalog", "encoder").out
    assert "bidirectional" in weft("catalog", "encoder", "lstm").out
    mixers = {line.split()[0]: line for line in weft("catalog", "mixer").out.splitlines()[2:]}
    attentions = [line.split()[0] for line in weft("catalog", "attention").out.splitlines()[2:]]
    assert {"linear-attention", "gated-convolution", "state-space"} == {*mixers} - {*attentions}
    assert {*attentions} < {*mixers}, "every attention is also a mixer"
    assert mixers["state-space"].endswith("a linear recurrence with complex modes for every feature, computed as a convolution.")
    assert weft("catalog", "multihead").out == weft("catalog", "attention", "multihead").out, "a part is shown once"
    contexts = weft("catalog", "context").out
    assert contexts.startswith("context is an option that takes an Attention: weft catalog attention\n")
    assert contexts.endswith(weft("catalog", "attention").out)
    assert weft("catalog", "word").out.endswith("\nword is also a part; show it with: weft catalog tokenizer word\n")
    assert json.loads(weft("schema").out)["properties"]["learning"]
    assert weft("--version") == Answer(0, f"{__version__}\n", "")


def test_recipes_are_told_in_a_whole_sentence(monkeypatch):
    told = {line.split()[0]: line[25:] for line in weft("recipes").out.splitlines()}
    assert list(told) == list(shipped_recipes()) and all(text.endswith((".", " ...")) for text in told.values())
    assert told["optimus"].endswith("(Yelp, files under the folder in WEFT_DATA): a text VAE, then class-conditional generation "
                                    "with a conditional GAN in the latent space of the frozen VAE.")  # fmt: skip
    assert all(len(text) <= MAX_SUMMARY for text in told.values())
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(io, "StringIO", type("Screen", (io.StringIO,), {"isatty": lambda self: True}))
    lines = weft("recipes").out.splitlines()
    assert max(map(len, lines)) <= 80 and [line.split()[0] for line in lines if line[0] != " "] == list(told)
    assert " ".join(" ".join(lines).split()) == " ".join(f"{name} {text}" for name, text in told.items())


def test_the_first_sentence_of_a_recipe():
    assert first_sentence("# One of\n# two, v1.5. Another.\nseed: 1\n# Later.") == "One of two, v1.5."
    assert first_sentence("# Without an end\n#\n# Another.") == "Without an end"
    assert first_sentence("seed: 1") == ""
    long = first_sentence("# " + "word " * 100)
    assert long.endswith("word ...") and MAX_SUMMARY - 5 < len(long) <= MAX_SUMMARY


def test_demo(tmp_path):
    small = ["data.train=60", "data.valid=8", "data.test=8", "structure.dim=8", "learning.steps=1", "evaluate.every=0"]
    answer = weft("demo", *small, "evaluate.search.max_length=12", "--run", tmp_path / "demo")
    assert answer.code == 0, answer.err
    assert "->" in answer.out and (tmp_path / "demo" / "attention.html").stat().st_size > 1000
    again = weft("demo", *small, "--run", tmp_path / "demo")
    assert again.code == 2 and "already contains a run" in again.err


# ------------------------------------------------------------------------------------------------------------- mistakes

MISTAKES = {
    "unknown recipe": (["train", "datse"], "did you mean 'dates'"),
    "missing recipe": (["train", "missing.yaml"], "missing.yaml: there is no such file"),
    "a folder as recipe": (["train", "{home}/other"], "is a folder, not a recipe file"),
    "unknown option": (["train", "{home}/tiny.yaml", "learning.stepz=3"], "did you mean 'steps'"),
    "not an override": (["train", "{home}/tiny.yaml", "steps"], "an override is path=value"),
    "a file as folder": (["train", "{home}/tiny.yaml", "--run", "{home}/file"], "is a file; use another folder"),
    "below a file": (["train", "{home}/tiny.yaml", "--run", "{home}/file/run"], "cannot create the run folder"),
    "other files": (["train", "{home}/tiny.yaml", "--run", "{home}/other"], "not empty and not a run folder"),
    "second run": (["train", "{home}/tiny.yaml", "--run", "{home}/run"], "already contains a run; resume it with --resume"),
    "resume nothing": (["train", "{home}/tiny.yaml", "--run", "nowhere", "--resume"], "there is no folder nowhere to resume"),
    "resume no run": (["train", "{home}/tiny.yaml", "--run", "{home}/other", "--resume"], "is not a run folder"),
    "resume another folder": (["train", "{home}/other", "--resume"], "other is not a run folder (it has no recipe.yaml)"),
    "resume nameless": (["train", "{home}/tiny.yaml", "--resume"], "there is no run runs/tiny-<n> to resume"),
    "other seed": (["train", "{home}/tiny.yaml", "seed=4", "--run", "{home}/run", "--resume"], "seed: was 3, now 4"),
    "other width": (
        ["train", "{home}/run", "structure.dim=16", "learning.keep=9", "--resume"],
        "  structure.dim: was 8, now 16\n  learning.keep: was 3, now 9\nWith --resume, only steps or epochs (to a larger number)",
    ),
    "fewer steps": (["train", "{home}/run", "learning.steps=2", "--resume"], "was 4, now 2; it can only be raised"),
    "missing plug-in": (
        ["train", "{home}/tiny.yaml", "--import", "no_such_plugin"],
        "cannot import the plug-in no_such_plugin: ModuleNotFoundError",
    ),
    "odd plug-in": (["check", "{home}/tiny.yaml", "--import", ".x"], "cannot import the plug-in .x: "),
    "check: missing file": (["check", "missing.yaml"], "there is no such file"),
    "generate: no folder": (["generate", "nowhere"], "there is no folder nowhere"),
    "generate: no GGUF file": (["generate", "nowhere.gguf"], "there is no file nowhere.gguf"),
    "generate: no run": (["generate", "{home}/other"], "is not a run folder"),
    "generate: a file": (["generate", "{home}/file"], "there is no folder"),
    "generate: unfinished": (["generate", "{home}/unfinished"], "has no final weights yet; finish training with: weft train"),
    "generate: n-best": (["generate", "{home}/run", "--n-best", "3"], "but --beams is 0: add --beams 3"),
    "generate: beam and draw": (
        ["generate", "{home}/run", "--beams", "2", "--temperature", "0.5"],
        "--beams cannot be combined with sampling",
    ),
    "generate: no input": (
        ["generate", "{home}/run", "missing.txt"],
        "cannot read missing.txt: No such file or directory; a text itself is passed by standard input",
    ),
    "generate: folder input": (["generate", "{home}/run", "{home}/other"], "other: Is a directory"),
    "predict: no classes": (
        ["predict", "{home}/run"],
        "has no classifier, tagger or other predictor; it supports weft generate, weft embed",
    ),
    "evaluate: no split": (["evaluate", "{home}/run", "--split", "nonsense"], "no split 'nonsense' in the data (splits: train"),
    "evaluate: no run": (["evaluate", "{home}/other"], "is not a run folder"),
    "catalog: no slot": (["catalog", "encodr"], "unknown slot or part 'encodr'; did you mean 'encoder'"),
    "catalog: a misspelled option": (["catalog", "mixr"], "unknown slot or part 'mixr'; did you mean 'mixer'?"),
    "catalog: a misspelled part": (["catalog", "transfomer"], "unknown slot or part 'transfomer'; did you mean"),
    "catalog: an entry of a part": (
        ["catalog", "lstm", "dim"],
        "'lstm' is not a slot but a part; show it with: weft catalog encoder lstm or weft catalog decoder lstm",
    ),
    "catalog: no entry of an option": (["catalog", "context", "multihed"], "unknown attention 'multihed'; did you mean"),
    "catalog: no entry": (["catalog", "encoder", "lst"], "did you mean 'lstm'"),
    "no command": (["trian"], "No such command 'trian'"),
    "no option": (["train", "dates", "--runn", "x"], "No such option"),
    "out of range": (["generate", "{home}/run", "--temperature", "0"], "Invalid value for '--temperature'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gives_a_sentence_and_code_2_and_changes_nothing(name, home, tmp_path):
    words, expected = MISTAKES[name]
    before = contents(home)
    answer = weft(*(word.format(home=home) for word in words))
    assert answer.code == 2
    assert expected in answer.err, answer.err
    assert answer.out == ""
    assert contents(home) == before
    assert [p.name for p in tmp_path.iterdir()] == []


@pytest.mark.parametrize("words", [["train", "{empty}"], ["train", "{home}/tiny.yaml", "--run", "{empty}"]])
def test_an_empty_folder_cannot_be_resumed(words, home, tmp_path):
    empty = tmp_path / "my run"
    empty.mkdir()
    answer = weft(*(word.format(home=home, empty=empty) for word in words), "--resume")
    assert answer.code == 2 and list(empty.iterdir()) == []
    begin = f"start one with: weft train RECIPE --run {shlex.quote(str(empty))}\n"
    assert answer.err.startswith(f"error: {empty} holds no run to resume") and answer.err.endswith(begin)
    assert weft(*shlex.split(begin.removeprefix("start one with: weft ").replace("RECIPE", str(home / "tiny.yaml")))).code == 0


def test_a_warm_up_longer_than_the_run_is_reported(home, tmp_path):
    words = ["learning.steps=1", "learning.schedule={type: linear, warmup: 2}"]
    answer = weft_train(home / "tiny.yaml", tmp_path / "run", *words)
    assert answer.code == 0
    assert answer.err.startswith(
        "warning: command line: learning.schedule: the warmup takes 2 optimizer steps but the phase has 1: "
    )
    assert weft_train(home / "tiny.yaml", tmp_path / "quiet", *words, "--quiet") == Answer(0, "", "")


def test_a_device_that_is_not_there(home, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    message = "error: device cuda is not available on this machine (available: cpu"
    answer = weft_train(home / "tiny.yaml", tmp_path / "run", "device=cuda")
    assert answer.code == 2 and message in answer.err
    answer = weft("check", home / "tiny.yaml", "device=cuda")
    assert answer.code == 2 and answer.err.startswith(message) and answer.out == ""
    assert answer.err.endswith("; to check a recipe for another machine, add device=auto\n")
    assert weft("check", home / "tiny.yaml", "device=auto").code == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["raise RuntimeError('my plug-in is broken')", "1 +", "import no_such_module", "exit(3)"])
def test_a_plugin_that_raises(content, home, tmp_path):
    name = f"broken_{abs(hash(content))}"
    (tmp_path / f"{name}.py").write_text(content)
    answer = weft("check", home / "tiny.yaml", "--import", name)
    assert answer.code == 2 and f"cannot import the plug-in {name}: " in answer.err


def test_a_mistake_in_the_data_leaves_no_folder_behind(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"good\nb\xffd\n")
    recipe = LANGUAGE_MODEL.format(file="text.txt")
    (tmp_path / "lm.yaml").write_text(recipe)
    answer = weft("train", "lm.yaml", "--run", "run")
    assert answer.code == 2 and "lm.yaml:3: data.encoding: " in answer.err and "text.txt: the file is not in utf-8" in answer.err
    assert not (tmp_path / "run").exists()
    (tmp_path / "text.txt").write_text("good\nbad\n" * 8)
    assert weft("train", "lm.yaml", "--run", "run").code == 0


def test_a_bug_is_not_dressed_up_as_a_mistake(home, monkeypatch):
    def broken(*args: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(loading, "load", broken)
    with pytest.raises(ZeroDivisionError):
        main(["generate", str(home / "run")])


# ------------------------------------------------------------------------------------------------------- damaged folders

DAMAGED = {
    "weights cut": ("model.safetensors", lambda data: data[: len(data) // 2], "model.safetensors"),
    "weights empty": ("model.safetensors", lambda data: b"", "model.safetensors"),
    "weights garbage": ("model.safetensors", lambda data: os.urandom(len(data)), "model.safetensors"),
    "recipe cut": ("recipe.yaml", lambda data: data[: len(data) // 2], "recipe.yaml"),
    "recipe empty": ("recipe.yaml", lambda data: b"", "recipe.yaml"),
    "recipe not text": ("recipe.yaml", lambda data: b"\xff" + data, "recipe.yaml"),
    "recipe edited": ("recipe.yaml", lambda data: data.replace(b"dim: 8", b"dim: 16"), "recipe.yaml was edited"),
    "recipe of another": (
        "recipe.yaml",
        lambda data: data.replace(b"# SHA-256", b"#").replace(b"dim: 8", b"dim: 16"),
        "weights do not match the network",
    ),
    "fields cut": ("fields.json", lambda data: data[: len(data) // 2], "fields.json"),
    "fields of the future": ("fields.json", lambda data: data.replace(b'"format": 3', b'"format": 99'), "format 99"),
    "fields empty": ("fields.json", lambda data: b"{}", "fields.json"),
    "tokenizer cut": ("tokenizer-characters.json", lambda data: data[: len(data) // 2], "tokenizer-characters.json"),
    "tokenizer garbage": ("tokenizer-characters.json", lambda data: b"\xff\x00", "tokenizer-characters.json"),
}


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("command", ["generate", "evaluate"])
def test_a_damaged_file_of_a_run_is_named(name, command, copy):
    file, spoil, expected = DAMAGED[name]
    data = (copy / file).read_bytes()
    (copy / file).write_bytes(spoil(data))
    answer = weft(command, copy, given=b"1 May 1999\n")
    assert answer.code == 2 and expected in answer.err, answer.err


@pytest.mark.parametrize("file", ["model.safetensors", "fields.json", "tokenizer-characters.json"])
def test_a_missing_file_of_a_run_is_named(file, copy):
    (copy / file).unlink()
    answer = weft("generate", copy, given=b"1 May 1999\n")
    assert answer.code == 2 and (file in answer.err or "no final weights" in answer.err)


def test_a_broken_log_is_named_on_resume(copy):
    lines = (copy / "log.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "log.jsonl").write_bytes(lines[0] + b"garbage\n" + b"".join(lines[1:]))
    answer = weft("train", copy, "--resume")
    assert answer.code == 2 and "log.jsonl:2: not valid JSON" in answer.err


# ----------------------------------------------------------------------------------------------------- stopping, resuming

LONG = ["learning.steps=60", "learning.save_every=25"]


@pytest.fixture(scope="module")
def long_run(home: Path) -> str:
    """The state at the end of a longer run that nobody stopped."""
    answer = weft_train(home / "tiny.yaml", home / "long", *LONG, "--quiet")
    assert answer.code == 0, answer.err
    return state(home / "long")


def wait_for_step(process: Forked, run: Path, step: int) -> None:
    begun = time.monotonic()
    while not any(r["event"] == "train" and r["step"] >= step for r in read_lines(run / "log.jsonl")):
        assert process.poll() is None and time.monotonic() - begun < 120
        time.sleep(0.002)


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_the_bar_leaves_room_for_the_echo_of_ctrl_c(width):
    file = io.StringIO()
    terminal = Terminal(Console(file=file, force_terminal=True, width=width))
    terminal.start_stage("main", 200_000, False)
    terminal.update({"step": 7, "loss": 3.25, "tokens_per_second": 12_345.0}, 0.123)
    terminal.end_stage()
    lines = [Text.from_ansi(line).plain for line in re.split(r"[\r\n]+|\x1b\[2K", file.getvalue())]
    assert any("3.25" in line for line in lines)
    assert max(map(len, lines)) + len("^C") < width


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_saves_prints_how_to_resume_and_the_end_is_the_same(sign, home, long_run, tmp_path):
    run = tmp_path / "my run"
    process = Forked(["train", str(home / "tiny.yaml"), *LONG, "--run", str(run)], tmp_path / "output.txt")
    wait_for_step(process, run, 5)
    process.send_signal(signal.SIGSTOP)  # it shall not come to its end meanwhile
    refused = weft_train(home / "tiny.yaml", run, *LONG, "--resume")
    assert refused.code == 2 and "another process is training into" in refused.err
    assert "already contains a run" in weft_train(home / "tiny.yaml", run, *LONG).err
    process.send_signal(sign)
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 130
    output = (tmp_path / "output.txt").read_text()
    assert "Traceback" not in output and "stopping after this step" in output
    last = [row for row in read_lines(run / "log.jsonl") if row["event"] in ("train", "saved")][-2:]
    assert [row["event"] for row in last] == ["train", "saved"] and last[0]["step"] == last[1]["step"] < 60
    command = shlex.split(output.rpartition("Resume with: ")[2])
    answer = weft(*command[1:])
    assert answer.code == 0 and f"resuming from {run}/checkpoints/step-{last[1]['step']:08d}" in answer.err
    assert state(run) == long_run


def test_the_second_ctrl_c_stops_at_once():
    before, stop = signal.getsignal(signal.SIGINT), StopRequest(Display())
    with pytest.raises(KeyboardInterrupt), stop.on_signals():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        assert stop.requested
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_at_any_other_time(home, tmp_path, monkeypatch):
    def interrupted(*args: Any, **keywords: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "open_data", interrupted)
    answer = weft_train(home / "tiny.yaml", tmp_path / "run", "--import", "json")
    assert answer.code == 130
    assert f"Resume from the last checkpoint with: weft train {tmp_path / 'run'} --resume --import=json\n" in answer.err
    monkeypatch.setattr(loading, "load", interrupted)
    assert weft("generate", home / "run") == Answer(130, "", "interrupted\n")


def test_more_steps_logging_and_evaluation_may_change_and_are_written_down(home, copy, tmp_path):
    changes = ["learning.steps=6", "learning.log_every=2", "evaluate.every=3", "evaluate.metrics=null"]
    answer = weft("train", copy, *changes, "--resume")
    assert answer.code == 0, answer.err
    assert weft_train(home / "tiny.yaml", tmp_path / "whole", "learning.steps=6").code == 0
    assert state(copy) == state(tmp_path / "whole")
    filled = read_run(copy).dump()
    assert (filled["learning"]["steps"], filled["learning"]["log_every"], filled["evaluate"]["every"]) == (6, 2, 3)
    changed = next(row for row in read_lines(copy / "log.jsonl") if row["event"] == "changed")
    assert changed["choices"]["learning.steps"] == 6
    assert "was 6, now 4; it can only be raised" in weft_train(home / "tiny.yaml", copy, "--resume").err


def test_the_newest_run_of_a_recipe_is_resumed_by_default(home, tmp_path):
    shutil.copytree(home / "unfinished", tmp_path / "runs" / "tiny-7")
    answer = weft("train", home / "tiny.yaml", "--resume")
    assert answer.code == 0 and "the run is in runs/tiny-7" in answer.err
    assert digest(tmp_path / "runs/tiny-7/model.safetensors") == digest(home / "run" / "model.safetensors")


# ------------------------------------------------------------------------------------------------------------------ disks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if not shutil.which("mount"):
        pytest.skip("there is no mount command here")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def fill(disk: Path, free: int) -> Path:
    with (disk / "filler").open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"0" * 4096)
        except OSError:
            pass
        stream.truncate(max(0, stream.tell() - free))
    return disk / "filler"


@pytest.mark.parametrize(
    ("free", "message"), [(0, "No space left on device"), (24 * 1024, "no space left on the disk or in the quota")]
)
def test_a_full_disk(free, message, home, disk, tmp_path):
    run = disk / "run"
    assert weft_train(home / "tiny.yaml", run).code == 0
    kept = state(run)
    filler = fill(disk, free)
    answer = weft_train(home / "tiny.yaml", run, "learning.steps=8", "learning.log_every=1", "--resume")
    assert answer.code == 2 and message in answer.err, answer.err
    assert "checkpoint is intact" in answer.err and "then resume" in answer.err
    assert state(run) == kept and not Checkpoints(run / "checkpoints").latest().damaged
    filler.unlink()
    assert weft_train(home / "tiny.yaml", run, "learning.steps=8", "--resume").code == 0
    assert weft_train(home / "tiny.yaml", tmp_path / "whole", "learning.steps=8").code == 0
    assert state(run) == state(tmp_path / "whole")


def test_no_room_for_a_new_run(home, disk):
    filler = fill(disk, 0)
    answer = weft_train(home / "tiny.yaml", disk / "run")
    assert answer.code in (1, 2) and "No space left" in answer.err
    filler.unlink()
    assert weft_train(home / "tiny.yaml", disk / "run", "--resume" if (disk / "run").exists() else "--quiet").code == 0


def test_a_folder_that_cannot_be_written_to(home, disk):
    shutil.copytree(home / "run", disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    answer = weft_train(home / "tiny.yaml", disk / "new")
    assert answer.code == 2 and "cannot create the run folder" in answer.err and "Read-only file system" in answer.err
    answer = weft("train", disk / "run", "--resume")
    assert answer.code == 2 and "cannot write to" in answer.err
    answer = weft("evaluate", disk / "run")
    assert answer.code == 1 and "Read-only file system" in answer.err
    assert weft("generate", disk / "run", given=b"1 May 1999\n").code == 0


# --------------------------------------------------------------------------------------------------- text files, all kinds

LANGUAGE_MODEL = """\
seed: 1
device: cpu
data: {{type: plain-text, train: "{file}", tokenizer: character, validation_fraction: 0.2, max_length: 40}}
structure:
  type: language-model
  dim: 8
  decoder: {{type: transformer, layers: 1, layer: {{mixer: {{type: multihead, heads: 2}}}}}}
objective: next-token
learning: {{type: gradient, steps: 3, batch_tokens: 100, save_every: 1, log_every: 1}}
evaluate: {{search: {{type: greedy, max_length: 5}}}}
"""
CLASSIFIER = """\
seed: 1
device: cpu
data: {type: labeled-text, train: good.tsv, test: good.tsv, tokenizer: {type: word}}
structure: {type: classifier, dim: 8, encoder: bag-of-words}
objective: classification
learning: {type: gradient, steps: 60, batch_tokens: 100, save_every: 20, log_every: 1, optimizer: {type: adam, lr: 0.05}}
evaluate: {metrics: [accuracy]}
"""
TRANSLATION = """\
seed: 1
device: cpu
data: {type: parallel-text, train: [a.txt, b.txt], tokenizer: {type: bpe, vocab_size: 60}, validation_fraction: 0.2}
structure: {type: seq2seq, dim: 8, encoder: {type: transformer, layers: 1, layer: {mixer: {type: multihead, heads: 2}}},
            decoder: {type: transformer, layers: 1}}
objective: next-token
learning: {type: gradient, steps: 3, batch_tokens: 100, save_every: 1, log_every: 1}
evaluate: {search: {type: greedy, max_length: 5}}
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs trained from files: a language model, a classifier, a translation."""
    home = tmp_path_factory.mktemp("texts")
    lines = [f"the {a} {b} sees a {c}" for a in ("old", "red") for b in ("cat", "dog", "cow") for c in ("bird", "tree", "boat")]
    (home / "plain.txt").write_text("\n".join(lines) + "\n")
    (home / "a.txt").write_text("\n".join(lines) + "\n")
    (home / "b.txt").write_text("\n".join(line.upper() for line in lines) + "\n")
    rows = [f"{line} and is {'happy' if i % 2 else 'sad'}\t{'good' if i % 2 else 'bad'}" for i, line in enumerate(lines)]
    (home / "good.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    for name, recipe in (("lm", LANGUAGE_MODEL.format(file="plain.txt")), ("cls", CLASSIFIER), ("mt", TRANSLATION)):
        (home / f"{name}.yaml").write_text(recipe)
        answer = weft_train(home / f"{name}.yaml", home / name)
        assert answer.code == 0, answer.err
    return home


FILES = {"lm": "plain.txt", "cls": "good.tsv", "mt": "b.txt"}


@pytest.mark.parametrize("name", FILES)
def test_a_run_is_repeated_bit_for_bit_from_its_own_recipe(name, texts, tmp_path):
    answer = weft_train(texts / name / "recipe.yaml", tmp_path / "second")
    assert answer.code == 0, answer.err
    assert state(texts / name) == state(tmp_path / "second")
    for file in ("model.safetensors", "metrics.json", "fields.json"):
        assert digest(texts / name / file) == digest(tmp_path / "second" / file), file


@pytest.fixture
def restored(texts: Path) -> Iterator[None]:
    """Whatever a test does to the files of texts, they are as before afterwards."""
    before = {file: file.read_bytes() for file in texts.iterdir() if file.is_file()}
    yield
    for file, data in before.items():
        file.write_bytes(data)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("own", [False, True])
def test_a_data_file_that_was_cut_is_refused_on_resume(name, own, texts):
    run, file = texts / name, texts / FILES[name]
    again = ["train", run, "--resume"] if own else ["train", texts / f"{name}.yaml", "--run", run, "--resume"]
    file.write_bytes(file.read_bytes()[:-5])
    before = contents(run)
    answer = weft(*again)
    assert answer.code == 2
    assert f"{FILES[name]} is not the file of this recipe: its SHA-256 is" in answer.err, answer.err
    file.unlink()
    answer = weft(*again)
    assert answer.code == 2 and f"there is no file {file}" in answer.err
    assert contents(run) == before


@pytest.mark.parametrize(("name", "figure"), [("lm", "perplexity"), ("cls", "accuracy"), ("mt", "loss")])
def test_evaluate_all_kinds(name, figure, texts):
    metric_values = json.loads(weft("evaluate", texts / name, "--split", "valid", "--json").out)
    assert figure in metric_values


def test_the_classifier_learns_and_predicts_names(texts):
    assert json.loads((texts / "cls" / "metrics.json").read_text())["accuracy"] == 1.0


# --------------------------------------------------------------------------------------------------------------- plug-ins

LOUD = '''\
from weft.core.loss import Term
from weft.core.registry import block
from weft.objectives import NextToken

@block("loud-next-token")
class Loud(NextToken):
    """Predict the next token, twice as loud."""

    def forward(self, model, batch, clock):
        loss = super().forward(model, batch, clock)
        for name, term in loss.items():
            loss[name] = Term(2 * term.total, term.count, term.weight)
        return loss

@block("bursting-next-token")
class Bursts(NextToken):
    """Predict the next token, until the loss bursts."""

    def forward(self, model, batch, clock):
        loss = super().forward(model, batch, clock)
        for name, term in loss.items():
            loss[name] = Term(term.total * (float("nan") if clock.update == 3 else 1), term.count, term.weight)
        return loss
'''


def test_a_plugin_is_used_recorded_and_asked_for(home, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    train = ["train", home / "tiny.yaml", "objective=loud-next-token", "--run", "run"]
    here = {"output_folder": tmp_path, "folder": tmp_path}
    answer = forked(*train, **here)
    assert answer.code == 2 and "no Objective named 'loud-next-token'" in answer.err and "plug-in" not in answer.err
    answer = forked(*train, "--import", "loud", **here)
    assert answer.code == 0, answer.err
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["plugins"] == ["loud"]
    for words in (["generate", "run"], ["train", "run", "--resume"], ["check", "run"]):
        answer = forked(*words, **here)
        assert answer.code == 2 and "this run was trained with plug-ins: add --import loud" in answer.err, answer.err
    answer = forked("generate", "run", "--import", "loud", given=b"1 May 1999\n", **here)
    assert answer.code == 0 and answer.out.count("\n") == 1


def test_an_installed_plugin_is_found_by_its_entry_point(home, tmp_path):
    installed = tmp_path / "site"
    (installed / "loud-1.0.dist-info").mkdir(parents=True)
    (installed / "loud-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (installed / "loud-1.0.dist-info" / "entry_points.txt").write_text("[weft.plugins]\nloud = loud_parts\n")
    (installed / "loud_parts.py").write_text(LOUD)
    answer = forked("catalog", "objective", output_folder=tmp_path, path=installed)
    assert answer.code == 0 and "loud-next-token" in answer.out
    words = ["train", home / "tiny.yaml", "objective=loud-next-token", "learning.steps=1", "--run", tmp_path / "run"]
    assert forked(*words, output_folder=tmp_path, path=installed).code == 0
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["plugins"] == ["loud_parts"]


def test_a_loss_that_is_not_finite_stops_there_and_keeps_the_last_checkpoint(home, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    here = {"output_folder": tmp_path, "folder": tmp_path}
    choices = ["objective=bursting-next-token", "learning.steps=6", "learning.save_every=1"]
    answer = forked("train", home / "tiny.yaml", *choices, "--run", "run", "--import", "loud", **here)
    assert answer.code == 1
    assert "update 3" in answer.err and "the loss is nan" in answer.err and "; examples " in answer.err
    assert "the last finite checkpoint is kept" in answer.err
    assert Checkpoints(tmp_path / "run" / "checkpoints").latest().path == tmp_path / "run/checkpoints/step-00000003"
    kept = state(tmp_path / "run")
    again = forked("train", "run", "--resume", "--import", "loud", **here)
    assert again.code == 1 and again.err.splitlines()[-2] == answer.err.splitlines()[-2]
    assert state(tmp_path / "run") == kept


@pytest.mark.parametrize("policy", ["skip", "rollback"])
def test_skip_and_rollback_continue(policy, home, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD)
    choices = ["objective=bursting-next-token", "learning.steps=6", f"learning.on_nonfinite={policy}", "learning.max_skips=1"]
    answer = forked(
        "train", home / "tiny.yaml", *choices, "--run", "run", "--import", "loud", output_folder=tmp_path, folder=tmp_path
    )
    # The update with number 3 bursts whatever its rows are: a skipped one is tried again with others, and bursts again.
    assert answer.code == 1 and f"{policy}: update 3" in answer.err
    events = [row["event"] for row in read_lines(tmp_path / "run" / "log.jsonl")]
    assert events.count(policy) == 1


def test_too_little_memory_is_reported_and_the_folder_can_be_used_again(home):
    answer = weft("train", home / "tiny.yaml", "data.train=999999999999", "--run", "big")
    assert answer.code == 1 and "error: out of memory" in answer.err
    assert not Path("big").exists()
