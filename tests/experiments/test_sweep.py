"""``weft sweep``: trials equal single runs, interrupted and failed sweeps resume, and the table aggregates over seeds."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.commands import TINY, state

import weft.training.dry_run
import weft.training.trainer
from weft.core.io import read_json, write_json
from weft.experiments.sweep import default_folder, sweep
from weft.experiments.sweep_workers import INTERRUPTED, Job, Worker, wait
from weft.learning import Interrupted, NonFiniteError
from weft.training import artifacts
from weft.training.callbacks import StageCallbacks
from weft.training.display import Display
from weft.training.recipes import read_run
from weft.training.run_folder import FolderError, RunFolder
from weft.training.trainer import train

ASSIGNMENTS = ["learning.optimizer.lr=0.001,0.01", "seed=1,2", "learning.steps=2"]
NAMES = ["lr=0.001,seed=1", "lr=0.001,seed=2", "lr=0.01,seed=1", "lr=0.01,seed=2"]


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "draw_curve", lambda *args: None)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    file.write_text(TINY)
    return file


@pytest.fixture(scope="module")
def done(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished sweep; tests change copies of it only."""
    folder = tmp_path_factory.mktemp("done") / "sweep"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "draw_curve", lambda *args: None)
        assert not sweep(recipe, ASSIGNMENTS, folder).failed
    return folder


@pytest.fixture
def copy(done: Path, tmp_path: Path) -> Path:
    shutil.copytree(done, tmp_path / "sweep")
    return tmp_path / "sweep"


class RecordedDisplay(Display):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Replace training by a fake that writes a finished run; the list has the trials and whether they were resumed."""
    calls: list[tuple[str, bool]] = []

    def fake_train(run: Any, path: Path, *, resume: bool = False, **_: Any) -> None:
        calls.append((path.name, resume))
        folder = RunFolder(path)
        if not resume:
            folder.create(run.dump(hashes=True), [])
        for file in (folder.model, folder.ledger):
            write_json(file, {})
        directions = {"higher_is_better": {"loss": False, "accuracy": True}}
        metrics = {"format": 1, "split": "test", "loss": float(run.seed), "accuracy": 0.5, "valid": {"loss": 1.0}}
        write_json(folder.metrics, metrics | directions)
        folder.close()

    monkeypatch.setattr(weft.training.trainer, "train", fake_train)
    monkeypatch.setattr(weft.training.dry_run, "check", lambda run: [])
    return calls


# -------------------------------------------------------------------------------------------------------------- training


def test_a_trial_equals_a_single_run(done: Path, recipe: Path, tmp_path: Path) -> None:
    assert sorted(p.name for p in done.iterdir() if p.is_dir()) == NAMES
    alone = read_run(recipe, ["learning.optimizer.lr=0.01", "seed=2", "learning.steps=2"])
    train(alone, tmp_path / "alone")
    assert state(done / NAMES[3]) == state(tmp_path / "alone") != state(done / NAMES[2])
    assert read_run(done / NAMES[3]).dump(hashes=True) == alone.dump(hashes=True)


def test_the_table_has_mean_and_standard_deviation_over_seeds(done: Path) -> None:
    table = read_json(done / "table.json")
    assert sorted((row["name"], row["n"], row["options"]["learning.optimizer.lr"]) for row in table["rows"]) == [
        ("lr=0.001", 2, 0.001),
        ("lr=0.01", 2, 0.01),
    ]
    first, second = table["rows"]
    assert (table["metric"], table["chosen"]) == ("valid exact_match", first["name"])
    for row in table["rows"]:
        valid = [("valid loss", lambda m: m["valid"]["loss"]), ("valid exact_match", lambda m: m["valid"]["exact_match"])]
        for name, of in [*valid, *([("test loss", lambda m: m["loss"])] if row is first else [])]:
            values = [of(read_json(done / trial / "metrics.json")) for trial in row["trials"]]
            assert row["mean"][name] == pytest.approx(statistics.mean(values))
            assert row["std"][name] == pytest.approx(statistics.stdev(values))
    assert not any(name.startswith("test ") for name in [*second["mean"], *second["std"]])
    text = (done / "table.md").read_text()
    assert text.startswith("| options | n | valid exact_match | valid loss | valid perplexity | test loss |")
    assert f"{first['mean']['valid loss']:.4f} ± {first['std']['valid loss']:.4f} |" in text
    assert text.count(f"{first['mean']['test loss']:.4f} ±") == 1


def test_a_finished_sweep_is_not_trained_again(recipe: Path, copy: Path, trained: list[Any]) -> None:
    before = (copy / "table.json").read_bytes()
    result = sweep(recipe, ASSIGNMENTS, copy)
    assert trained == [] and (copy / "table.json").read_bytes() == before and not result.failed


def test_an_interrupted_sweep_resumes(recipe: Path, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real, calls = tmp_path / "sweep", StageCallbacks.should_stop, [0]

    def stop_in_second_trial(self: StageCallbacks) -> bool:
        calls[0] += 1
        return calls[0] == 3 or real(self)

    monkeypatch.setattr(StageCallbacks, "should_stop", stop_in_second_trial)
    with pytest.raises(Interrupted):
        sweep(recipe, ASSIGNMENTS, folder)
    table = read_json(folder / "table.json")
    assert [row["n"] for row in table["rows"]] == [1, 0] and table["rows"][0]["std"]["valid loss"] is None
    assert f"Not yet trained: {'; '.join(NAMES[1:])}" in (folder / "table.md").read_text()
    first = (folder / NAMES[0] / "model.safetensors").stat().st_mtime_ns
    assert not sweep(recipe, ASSIGNMENTS, folder).failed
    assert (folder / NAMES[0] / "model.safetensors").stat().st_mtime_ns == first
    assert '"event": "resumed"' in (folder / NAMES[1] / "log.jsonl").read_text()
    assert [state(folder / name) for name in NAMES] == [state(done / name) for name in NAMES]
    assert read_json(folder / "table.json") == read_json(done / "table.json")


@pytest.mark.parametrize(
    "error", [ValueError("bad [rows]"), NonFiniteError(3, "", [1], "loss is nan", "head"), RuntimeError("odd")]
)
def test_a_failed_trial_does_not_stop_the_others_and_is_repeated(
    recipe: Path, tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch, error: Exception, capsys: Any
) -> None:
    fake_train, fails = weft.training.trainer.train, [True]

    def fail(run: Any, path: Path, **more: Any) -> None:
        if path.name == NAMES[1] and fails[0]:
            raise error
        fake_train(run, path, **more)

    monkeypatch.setattr(weft.training.trainer, "train", fail)
    display = RecordedDisplay()
    result = sweep(recipe, ASSIGNMENTS, tmp_path / "s", display=display)
    assert [trial.name for trial in result.failed] == [NAMES[1]] and str(error) in result.failed[0].error
    assert {row.name: row.n for row in result.rows} == {"lr=0.001": 1, "lr=0.01": 2}
    assert [name for name, _ in trained] == [NAMES[0], NAMES[2], NAMES[3]]
    result.print()
    assert f"Failed: {NAMES[1]}: " in capsys.readouterr().out and f"Failed: {NAMES[1]}" in (tmp_path / "s/table.md").read_text()
    assert any("failed: " in line for line in display.lines) and f"trial 2 of 4: {NAMES[1]}" in display.lines
    fails[0] = False
    assert not sweep(recipe, ASSIGNMENTS, tmp_path / "s").failed and len(trained) == 4


def test_the_table_is_written_after_a_keyboard_interrupt(
    recipe: Path, tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_train = weft.training.trainer.train

    def stop(run: Any, path: Path, **more: Any) -> None:
        if len(trained) == 1:
            raise KeyboardInterrupt
        fake_train(run, path, **more)

    monkeypatch.setattr(weft.training.trainer, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        sweep(recipe, ASSIGNMENTS, tmp_path / "s")
    assert [row["n"] for row in read_json(tmp_path / "s" / "table.json")["rows"]] == [1, 0]


def test_trials_that_differ_only_in_the_seed_are_one_row(recipe: Path, tmp_path: Path, trained: list[Any], capsys: Any) -> None:
    result = sweep(recipe, {"seed": [1, 2, 6]}, tmp_path / "s")
    [row] = result.rows
    assert (row.name, row.n, row.mean["test loss"], row.options) == ("as in the recipe", 3, 3.0, {})
    assert row.std["test loss"] == pytest.approx(7**0.5)
    result.print()
    assert capsys.readouterr().out.splitlines() == [
        "options           n  valid loss        test loss        test accuracy",
        "as in the recipe  3  1.0000 ± 0.0000*  3.0000 ± 2.6458  0.5000 ± 0.0000",
        "Mean ± standard deviation over n trials (seeds, folds). Ranked by valid loss (lower is better); * best mean; "
        "test metrics of that row only.",
    ]


@pytest.mark.parametrize(("values", "higher", "best"), [([0.2, 0.6, 0.4], True, 1), ([0.2, 0.6, 0.4], False, 0)])
def test_rows_are_ranked_by_validation_in_the_direction_of_the_metric(
    recipe: Path, tmp_path: Path, trained: list[Any], values: list[float], higher: bool, best: int
) -> None:
    """Whatever the test metrics are: they are those of the chosen row, not what chooses it."""
    result = sweep(recipe, ["data.seed=0,1,2", "seed=1,3"], tmp_path / "s")  # data.seed is an option like others
    for trial, value, test in zip(result.trials, [v for v in values for _ in "12"], [1, 1, 2, 2, 9, 9], strict=True):
        trial.metric_values = {"test score": test, "test loss": -test, "valid score": value, "valid loss": 1.0}
        trial.higher_is_better = {"test score": higher, "valid score": higher, "valid loss": False}
    result.preferred = ["score", "loss"]
    result.tabulate()
    order = sorted(range(3), key=lambda i: values[i], reverse=higher)
    assert [row.name for row in result.rows] == [f"data.seed={i}" for i in order] and order[0] == best
    header, lines = result.cells()
    assert header == ["options", "n", "valid score", "valid loss", "test score", "test loss"]
    assert [line[2].endswith("*") for line in lines] == [True, False, False]
    assert [line[4] for line in lines] == [f"{[1, 2, 9][best]:.4f} ± 0.0000", "", ""]
    found = result.as_json()
    assert found["chosen"] == f"data.seed={best}" and found["higher_is_better"] is higher
    assert sum("test score" in (trial["metrics"] or {}) for trial in found["trials"]) == 2


def test_without_validation_metric_nothing_is_chosen(recipe: Path, tmp_path: Path, trained: list[Any]) -> None:
    display = RecordedDisplay()
    result = sweep(recipe, ["seed=1,3"], tmp_path / "s", metric="bleu", display=display)
    assert result.chosen is None and result.cells()[0] == ["options", "n", "valid loss", "test loss", "test accuracy"]
    assert display.lines[-1] == "no trial has the validation metric 'bleu'; the rows are not ranked"


# ---------------------------------------------------------------------------------------------------------------- searches


RANGES = ["learning.optimizer.lr=1e-5..1e-1:log", "learning.steps=1..9", "seed=1,2"]


def test_a_random_search_is_the_same_again_and_extends(recipe: Path, tmp_path: Path, trained: list[Any]) -> None:
    result = sweep(recipe, RANGES, tmp_path / "s", search="random", max_trials=3)
    assert [name for name, _ in trained] == [f"trial-{n},seed={seed}" for n in (1, 2, 3) for seed in (1, 2)]
    assert all(row.n == 2 for row in result.rows) and len({row.name for row in result.rows}) == 3
    for trial in result.trials:
        run = read_run(trial.folder).dump()
        assert run["learning"]["optimizer"]["lr"] == trial.options["learning.optimizer.lr"]
        assert 1e-5 <= trial.options["learning.optimizer.lr"] <= 0.1 and trial.options["learning.steps"] in range(1, 10)
    sweep(recipe, RANGES, tmp_path / "s", search="random", max_trials=4)
    assert [name for name, _ in trained[6:]] == ["trial-4,seed=1", "trial-4,seed=2"]
    with pytest.raises(FolderError, match="--search: was random, now not given"):
        sweep(recipe, ["learning.steps=1,2"], tmp_path / "s")


def test_an_optuna_sweep_resumes(recipe: Path, tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that was interrupted trains the same configurations as one that was not, and none of them twice."""
    pytest.importorskip("optuna")
    ranges = ["learning.optimizer.lr=1e-5..1e-1:log", "learning.optimizer.type=adam,sgd"]
    whole = sweep(recipe, ranges, tmp_path / "whole", search="optuna", max_trials=6)
    assert len(trained) == 6 and len({str(trial.options) for trial in whole.trials}) == 6
    fake_train, count = weft.training.trainer.train, len(trained)

    def stop(run: Any, path: Path, **more: Any) -> None:
        if len(trained) == count + 3:
            raise KeyboardInterrupt
        fake_train(run, path, **more)

    monkeypatch.setattr(weft.training.trainer, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        sweep(recipe, ranges, tmp_path / "s", search="optuna", max_trials=6)
    monkeypatch.setattr(weft.training.trainer, "train", fake_train)
    again = sweep(recipe, ranges, tmp_path / "s", search="optuna", max_trials=6)
    assert [name for name, _ in trained[6:]] == [f"trial-{n}" for n in range(1, 7)]
    assert [trial.options for trial in again.trials] == [trial.options for trial in whole.trials]


def test_a_missing_optuna_is_named_with_its_command(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"needs the package optuna; install it with: pip install weft\[optuna\]"):
        sweep(recipe, RANGES, tmp_path / "s", search="optuna")
    assert not (tmp_path / "s").exists()


# ----------------------------------------------------------------------------------------------------------------- workers


def test_workers_train_the_same_trials(recipe: Path, done: Path, copy: Path) -> None:
    """In processes of their own; a trial that fails there does not stop the others."""
    for name in NAMES[1:]:
        shutil.rmtree(copy / name)
    (copy / NAMES[1]).mkdir()
    (copy / NAMES[1] / "mine").write_text("not a run")
    display = RecordedDisplay()
    result = sweep(recipe, ASSIGNMENTS, copy, workers=2, display=display)
    assert [trial.name for trial in result.failed] == [NAMES[1]]
    assert [state(copy / name) for name in NAMES[2:]] == [state(done / name) for name in NAMES[2:]]
    assert f"  finished {NAMES[3]}" in display.lines and "  already finished" in display.lines


def test_a_time_limit_stops_running_trials_and_the_same_call_resumes(recipe: Path, tmp_path: Path) -> None:
    display = RecordedDisplay()
    assignments = ["seed=1,2", "learning.steps=100000", "learning.save_every=20"]
    result = sweep(recipe, assignments, tmp_path / "s", max_minutes=0.25, display=display)
    assert display.lines[-1] == "0.25 minutes are over: stopping; the same command resumes" and not result.failed
    assert [trial.metric_values for trial in result.trials] == [None, None] and not (tmp_path / "s" / "seed=2").exists()
    if RunFolder(tmp_path / "s" / "seed=1").is_run():  # unless the machine is so busy that nothing was trained
        assert list((tmp_path / "s" / "seed=1" / "checkpoints").glob("step-*"))
    assert "Not yet trained: seed=1; seed=2" in (tmp_path / "s" / "table.md").read_text()


def test_a_worker_stops_when_its_sweep_is_gone(recipe: Path, tmp_path: Path) -> None:
    job = Job(str(recipe), False, ["learning.steps=100000"], str(tmp_path / "run"), [])
    worker = Worker(job, 1)
    worker.stop()
    assert [outcome for _, outcome in wait([worker], time.monotonic() + 120)] == [INTERRUPTED]


def test_a_run_from_python_can_be_swept(recipe: Path, tmp_path: Path, trained: list[Any]) -> None:
    run = read_run(recipe)
    result = sweep(run, {"learning.optimizer": ["sgd", {"type": "adam", "lr": 1e-5}]}, tmp_path / "s")
    optimizers = [read_run(trial.folder).dump()["learning"]["optimizer"] for trial in result.trials]
    assert [o["type"] for o in optimizers] == ["sgd", "adam"] and optimizers[1]["lr"] == 1e-5


# --------------------------------------------------------------------------------------------------------------- errors


def test_every_trial_is_checked_before_training(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"(?s)learning\.steps.*the trial steps=-1.*nothing was trained"):
        sweep(recipe, ["learning.steps=1,-1"], tmp_path / "s")
    with pytest.raises(ValueError, match=r"(?s)learning\.stebs.*in every trial"):
        sweep(recipe, ["learning.stebs=1,2"], tmp_path / "s")
    with pytest.raises(ValueError, match=r"(?s)seed: must.*2 trials: seed=-1,steps=1; seed=-1,steps=2\)\nnothing was trained"):
        sweep(recipe, ["seed=1,-1", "learning.steps=1,2"], tmp_path / "s")
    # a dry run finds that dim 8 is not divisible by 3 heads
    with pytest.raises(ValueError, match=r"(?s)heads.*the trial heads=3,seed=1\b"):
        sweep(recipe, ["structure.encoder.layer.mixer.heads=2,3", "seed=1,2"], tmp_path / "s")
    with pytest.raises(ValueError, match="there is no file or shipped recipe"):
        sweep("nothing", ["seed=1,2"], tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_folder_with_another_sweep_is_an_error(recipe: Path, copy: Path, tmp_path: Path, trained: list[Any]) -> None:
    def refused(assignments: list[str], file: Path = recipe) -> str:
        with pytest.raises(FolderError, match="holds another sweep") as error:
            sweep(file, assignments, copy)
        return str(error.value)

    assert "seed: was 1,2, now 1,2,3" in refused([ASSIGNMENTS[0], "seed=1,2,3", ASSIGNMENTS[2]])
    assert "learning.steps: was 2, now not given" in refused(ASSIGNMENTS[:2])
    assert "the order was" in refused([ASSIGNMENTS[1], ASSIGNMENTS[0], ASSIGNMENTS[2]])
    other = tmp_path / "other.yaml"
    other.write_text(TINY.replace("batch_tokens: 300", "batch_tokens: 200"))
    assert "learning.batch_tokens: was 300, now 200" in refused(ASSIGNMENTS, other)
    assert trained == []


def test_a_folder_that_is_not_a_sweep_folder_is_an_error(
    recipe: Path, done: Path, copy: Path, tmp_path: Path, trained: list[Any]
) -> None:
    def refused(folder: Path, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            sweep(recipe, ASSIGNMENTS, folder)

    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    refused(tmp_path / "file", "is a file")
    refused(tmp_path / "full", "is not empty and holds no sweep")
    refused(copy / NAMES[0], "holds a single run")
    lock = RunFolder(copy)
    lock.lock()
    refused(copy, "another process")
    lock.close()
    (copy / "sweep.json").write_text("[]")
    refused(copy, "is not a sweep file")
    assert trained == []


def test_a_finished_trial_with_other_options_is_an_error(recipe: Path, copy: Path, trained: list[Any]) -> None:
    shutil.rmtree(copy / NAMES[1])
    shutil.copytree(copy / NAMES[0], copy / NAMES[1])
    [trial] = sweep(recipe, ASSIGNMENTS, copy).failed
    assert trial.name == NAMES[1] and "seed was 1, now 2" in trial.error


def test_default_folder_is_the_same_for_the_same_command(recipe: Path, copy: Path) -> None:
    one = default_folder(str(recipe), ASSIGNMENTS)
    assert one == default_folder(str(recipe), ASSIGNMENTS) != default_folder(str(recipe), ASSIGNMENTS[:2])
    assert one.parent == Path("runs") and one.name.startswith("tiny-sweep-")
    assert default_folder(str(copy / NAMES[0]), ASSIGNMENTS).name.startswith(f"{NAMES[0]}-sweep-")
