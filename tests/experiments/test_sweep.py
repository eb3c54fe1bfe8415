"""Sweeps: every combination once, as if trained alone; stopped, failing and repeated sweeps; the table."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.commands import TINY, state

import weft.training.dry_run
import weft.training.trainer
from weft.core.io import read_json, write_json
from weft.experiments.sweep import default_folder, make_arms, read_assignments, split_values, sweep
from weft.learning import Interrupted, NonFiniteError
from weft.recipe.text import parse_value
from weft.training import artifacts
from weft.training.callbacks import StageCallbacks
from weft.training.display import Display
from weft.training.recipes import read_run
from weft.training.run_folder import FolderError, RunFolder
from weft.training.trainer import train

ASKED = ["learning.optimizer.lr=0.001,0.01", "seed=1,2", "learning.steps=2"]
NAMES = ["lr=0.001,seed=1", "lr=0.001,seed=2", "lr=0.01,seed=1", "lr=0.01,seed=2"]


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert not sweep(recipe, ASKED, folder).failed
    return folder


@pytest.fixture
def copy(done: Path, tmp_path: Path) -> Path:
    shutil.copytree(done, tmp_path / "sweep")
    return tmp_path / "sweep"


class Heard(Display):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Which arms are trained from now on, and whether they are resumed. Nothing is: each gets the files of a finished one."""
    calls: list[tuple[str, bool]] = []

    def pretend(run: Any, path: Path, *, resume: bool = False, **_: Any) -> None:
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

    monkeypatch.setattr(weft.training.trainer, "train", pretend)
    monkeypatch.setattr(weft.training.dry_run, "check", lambda run: [])
    return calls


# ---------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2,3", ["1", "2", "3"]),
        (" 1 , two words ", ["1", "two words"]),
        ("[1, 2],[3]", ["[1, 2]", "[3]"]),
        ("{type: adam, lr: 0.1},sgd", ["{type: adam, lr: 0.1}", "sgd"]),
        ("{a: [1, {b: 2, c: 3}], d: 4},x", ["{a: [1, {b: 2, c: 3}], d: 4}", "x"]),
        ("'a,b',\"c,d\"", ["'a,b'", '"c,d"']),
        ("'it''s, so',b", ["'it''s, so'", "b"]),
        ('"a\\",b",c', ['"a\\",b"', "c"]),
        ("it's,that's", ["it's", "that's"]),
        ("[']', 1],2", ["[']', 1]", "2"]),
        ("", [""]),
    ],
)
def test_commas_in_brackets_and_quotes_do_not_split(text: str, expected: list[str]) -> None:
    assert split_values(text) == expected


_leaf = st.integers() | st.booleans() | st.none() | st.text("ab'\",[]{}: \\#-", max_size=6)
_value = st.recursive(_leaf, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from("xyz"), v, max_size=3))


@given(st.lists(_value, min_size=1, max_size=4))
def test_what_json_can_say_is_split_as_written(values: list[Any]) -> None:
    texts = [json.dumps(v) for v in values]
    assert split_values(",".join(texts)) == texts
    assert [parse_value(t, "x").plain() for t in split_values(",".join(texts))] == values


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["seed"], "command line: seed: a sweep's choices are path=v1,v2"),
        (["=1,2"], "a sweep's choices are path=v1,v2"),
        (["seed=1,,2"], "a value is missing between the commas of '1,,2'"),
        (["seed=1,2,"], "a value is missing"),
        (["seed=[1,2"], "a ] is missing in [1,2"),
        (["seed='1,2"], "a ' is missing"),
        (["seed=1,2", "seed=3"], "seed: is given twice: give all values at once"),
        (["learning.clip=0.1,1e-1"], "learning.clip: the value 0.1 is there twice"),
        (["seed=1"], "a sweep needs a path with at least two values"),
        ([], "at least two values"),
        ([f"seed={','.join(map(str, range(40)))}", f"learning.steps={','.join(map(str, range(1, 41)))}"], "40 x 40 = 1,600 arms"),
        ({"seed": []}, "seed: has no values"),
    ],
)
def test_mistakes_in_what_is_asked(asked: Any, said: str) -> None:
    with pytest.raises(ValueError) as error:
        read_assignments(asked)
    assert said in str(error.value)


def test_every_combination_has_a_short_name_of_its_own() -> None:
    def names(*asked: str) -> list[str]:
        return [arm.name for arm in make_arms(read_assignments(asked), Path())]

    assert names("a.lr=1,2", "b.lr=3", "b.x=[1, 2],'a,b'") == ["lr=1,x=1-2", "lr=1,x=a-b", "lr=2,x=1-2", "lr=2,x=a-b"]
    assert names("a.lr=1,2", "b.lr=3,4")[0] == "a.lr=1,b.lr=3"
    assert names("lr=1,2", "b.lr=3,4")[0] == "lr=1,b.lr=3"
    assert names("x=-1,1,.5") == ["x=-1", "x=1", "x=.5"]
    alike = names("x=/a b,/a/b,/A/B,ä,ö")
    assert len(set(alike)) == 5 and all(name.isascii() and "/" not in name for name in alike)
    assert all(len(name) < 50 for name in names(f"x={'y' * 99}1,{'y' * 99}2"))
    assert names("seed=1,2", "learning.steps=5") == ["seed=1", "seed=2"]
    arms = make_arms(read_assignments(["x=[1, 2],{a: 3}", "y=7"]), Path("f"))
    assert [arm.choices for arm in arms] == [{"x": [1, 2]}, {"x": {"a": 3}}]
    assert arms[1].overrides == ["x={a: 3}", "y=7"] and arms[0].folder == Path("f/x=1-2")


# -------------------------------------------------------------------------------------------------------------- training


def test_arms_are_what_they_would_be_alone(done: Path, recipe: Path, tmp_path: Path) -> None:
    assert sorted(p.name for p in done.iterdir() if p.is_dir()) == NAMES
    alone = read_run(recipe, ["learning.optimizer.lr=0.01", "seed=2", "learning.steps=2"])
    train(alone, tmp_path / "alone")
    assert state(done / NAMES[3]) == state(tmp_path / "alone") != state(done / NAMES[2])
    assert read_run(done / NAMES[3]).dump(hashes=True) == alone.dump(hashes=True)


def test_table_has_mean_and_deviation_over_seeds(done: Path) -> None:
    table = read_json(done / "table.json")
    assert [(row["name"], row["n"], row["choices"]) for row in table["rows"]] == [
        ("lr=0.001", 2, {"learning.optimizer.lr": 0.001}),
        ("lr=0.01", 2, {"learning.optimizer.lr": 0.01}),
    ]
    for row in table["rows"]:
        for figure, of in (("test loss", lambda m: m["loss"]), ("valid loss", lambda m: m["valid"]["loss"])):
            values = [of(read_json(done / arm / "metrics.json")) for arm in row["arms"]]
            assert row["mean"][figure] == pytest.approx(statistics.mean(values))
            assert row["deviation"][figure] == pytest.approx(statistics.stdev(values))
    text = (done / "table.md").read_text()
    assert text.startswith("| choices | n | test loss |") and "valid" not in text
    first = table["rows"][0]
    assert f"| lr=0.001 | 2 | {first['mean']['test loss']:.4f} ± {first['deviation']['test loss']:.4f}" in text


def test_finished_sweep_is_not_trained_again(recipe: Path, copy: Path, trained: list[Any]) -> None:
    before = (copy / "table.json").read_bytes()
    result = sweep(recipe, ASKED, copy)
    assert trained == [] and (copy / "table.json").read_bytes() == before and not result.failed


def test_interrupted_sweep_goes_on_where_it_was(
    recipe: Path, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real, calls = tmp_path / "sweep", StageCallbacks.should_stop, [0]

    def stop_in_second_arm(self: StageCallbacks) -> bool:
        calls[0] += 1
        return calls[0] == 3 or real(self)

    monkeypatch.setattr(StageCallbacks, "should_stop", stop_in_second_arm)
    with pytest.raises(Interrupted):
        sweep(recipe, ASKED, folder)
    table = read_json(folder / "table.json")
    assert [row["n"] for row in table["rows"]] == [1, 0] and table["rows"][0]["deviation"]["test loss"] is None
    assert f"Not yet trained: {'; '.join(NAMES[1:])}" in (folder / "table.md").read_text()
    first = (folder / NAMES[0] / "model.safetensors").stat().st_mtime_ns
    assert not sweep(recipe, ASKED, folder).failed
    assert (folder / NAMES[0] / "model.safetensors").stat().st_mtime_ns == first
    assert '"event": "resumed"' in (folder / NAMES[1] / "log.jsonl").read_text()
    assert [state(folder / name) for name in NAMES] == [state(done / name) for name in NAMES]
    assert read_json(folder / "table.json") == read_json(done / "table.json")


@pytest.mark.parametrize(
    "error", [ValueError("bad [rows]"), NonFiniteError(3, "", [1], "loss is nan", "head"), RuntimeError("odd")]
)
def test_failing_arm_does_not_stop_the_others(
    recipe: Path, tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch, error: Exception, capsys: Any
) -> None:
    pretend, fails = weft.training.trainer.train, [True]

    def fail(run: Any, path: Path, **more: Any) -> None:
        if path.name == NAMES[1] and fails[0]:
            raise error
        pretend(run, path, **more)

    monkeypatch.setattr(weft.training.trainer, "train", fail)
    heard = Heard()
    result = sweep(recipe, ASKED, tmp_path / "s", display=heard)
    assert [arm.name for arm in result.failed] == [NAMES[1]] and str(error) in result.failed[0].problem
    assert [row.n for row in result.rows] == [1, 2]
    assert [name for name, _ in trained] == [NAMES[0], NAMES[2], NAMES[3]]
    result.print()
    assert f"Failed: {NAMES[1]}: " in capsys.readouterr().out and f"Failed: {NAMES[1]}" in (tmp_path / "s/table.md").read_text()
    assert any("failed: " in line for line in heard.lines) and f"arm 2 of 4: {NAMES[1]}" in heard.lines
    fails[0] = False
    assert not sweep(recipe, ASKED, tmp_path / "s").failed and len(trained) == 4


def test_ctrl_c_at_once_leaves_a_table(recipe: Path, tmp_path: Path, trained: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pretend = weft.training.trainer.train

    def stop(run: Any, path: Path, **more: Any) -> None:
        if len(trained) == 1:
            raise KeyboardInterrupt
        pretend(run, path, **more)

    monkeypatch.setattr(weft.training.trainer, "train", stop)
    with pytest.raises(KeyboardInterrupt):
        sweep(recipe, ASKED, tmp_path / "s")
    assert [row["n"] for row in read_json(tmp_path / "s" / "table.json")["rows"]] == [1, 0]


def test_seed_alone_is_one_row(recipe: Path, tmp_path: Path, trained: list[Any], capsys: Any) -> None:
    result = sweep(recipe, {"seed": [1, 2, 6]}, tmp_path / "s")
    [row] = result.rows
    assert (row.name, row.n, row.mean["test loss"], row.choices) == ("as in the recipe", 3, 3.0, {})
    assert row.deviation["test loss"] == pytest.approx(7**0.5)
    result.print()
    assert capsys.readouterr().out.splitlines() == [
        "choices           n  test loss        test accuracy",
        "as in the recipe  3  3.0000 ± 2.6458  0.5000 ± 0.0000",
        "Mean ± standard deviation over n seeds; * best mean.",
    ]


def test_best_mean_is_marked(recipe: Path, tmp_path: Path, trained: list[Any]) -> None:
    result = sweep(recipe, ["data.seed=0,1", "seed=1,3"], tmp_path / "s")  # not the run's seed: a choice like others
    assert [(row.name, row.n) for row in result.rows] == [("data.seed=0", 2), ("data.seed=1", 2)]
    result.rows[1].mean["test loss"] = 1.5
    header, lines = result.cells()
    assert header[2] == "test loss" and [line[2][-1] for line in lines] == ["2", "*"]


def test_run_from_python(recipe: Path, tmp_path: Path, trained: list[Any]) -> None:
    run = read_run(recipe)
    result = sweep(run, {"learning.optimizer": ["sgd", {"type": "adam", "lr": 1e-5}]}, tmp_path / "s")
    kinds = [read_run(arm.folder).dump()["learning"]["optimizer"] for arm in result.arms]
    assert [k["type"] for k in kinds] == ["sgd", "adam"] and kinds[1]["lr"] == 1e-5


# --------------------------------------------------------------------------------------------------------------- refusals


def test_everything_is_checked_first(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"(?s)learning\.steps.*the arm steps=-1.*nothing was trained"):
        sweep(recipe, ["learning.steps=1,-1"], tmp_path / "s")
    with pytest.raises(ValueError, match=r"(?s)learning\.stebs.*in every arm"):
        sweep(recipe, ["learning.stebs=1,2"], tmp_path / "s")
    with pytest.raises(ValueError, match=r"(?s)seed: must.*2 arms: seed=-1,steps=1; seed=-1,steps=2\)\nnothing was trained"):
        sweep(recipe, ["seed=1,-1", "learning.steps=1,2"], tmp_path / "s")
    # only weft check finds this one: 8 is no multiple of 3 heads
    with pytest.raises(ValueError, match=r"(?s)heads.*the arm heads=3,seed=1\b"):
        sweep(recipe, ["structure.encoder.layer.mixer.heads=2,3", "seed=1,2"], tmp_path / "s")
    with pytest.raises(ValueError, match="there is no file or shipped recipe"):
        sweep("nothing", ["seed=1,2"], tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_another_sweep_into_the_same_folder_is_refused(recipe: Path, copy: Path, tmp_path: Path, trained: list[Any]) -> None:
    def refused(asked: list[str], file: Path = recipe) -> str:
        with pytest.raises(FolderError, match="holds another sweep") as error:
            sweep(file, asked, copy)
        return str(error.value)

    assert "seed: was 1,2, now 1,2,3" in refused([ASKED[0], "seed=1,2,3", ASKED[2]])
    assert "learning.steps: was 2, now not given" in refused(ASKED[:2])
    assert "the order was" in refused([ASKED[1], ASKED[0], ASKED[2]])
    other = tmp_path / "other.yaml"
    other.write_text(TINY.replace("batch_tokens: 300", "batch_tokens: 200"))
    assert "learning.batch_tokens: was 300, now 200" in refused(ASKED, other)
    assert trained == []


def test_odd_folders(recipe: Path, done: Path, copy: Path, tmp_path: Path, trained: list[Any]) -> None:
    def refused(folder: Path, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            sweep(recipe, ASKED, folder)

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
    refused(copy, "not the file of a sweep")
    assert trained == []


def test_finished_arm_of_other_choices_is_not_taken(recipe: Path, copy: Path, trained: list[Any]) -> None:
    shutil.rmtree(copy / NAMES[1])
    shutil.copytree(copy / NAMES[0], copy / NAMES[1])
    [arm] = sweep(recipe, ASKED, copy).failed
    assert arm.name == NAMES[1] and "seed was 1, now 2" in arm.problem


def test_default_folder_is_the_same_for_the_same_command(recipe: Path, copy: Path) -> None:
    one = default_folder(str(recipe), ASKED)
    assert one == default_folder(str(recipe), ASKED) != default_folder(str(recipe), ASKED[:2])
    assert one.parent == Path("runs") and one.name.startswith("tiny-sweep-")
    assert default_folder(str(copy / NAMES[0]), ASKED).name.startswith(f"{NAMES[0]}-sweep-")
