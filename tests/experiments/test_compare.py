"""``weft compare``: different options, metrics side by side, learning curves, and notes on what cannot be compared."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.experiments.run_folders import write_pair, write_run

from weft.experiments.compare import Comparison, compare


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return write_pair(tmp_path)


def shown(result: Comparison, capsys: Any) -> str:
    result.print()
    return capsys.readouterr().out


# --------------------------------------------------------------------------------------------------------------- options


def test_only_different_options_are_listed(two: list[Path]) -> None:
    assert compare(two).options == {"seed": [1, 2], "learning.optimizer.type": ["adam", "sgd"]}


def test_plug_ins_are_not_imported(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", metric_values={"loss": 1.0})
    b = write_run(tmp_path / "b", {"structure.type": "of-a-plug-in"}, {"loss": 2.0})
    result = compare([a, b])
    assert result.options == {"structure.type": ["seq2seq", "of-a-plug-in"]}
    assert any("the runs have different structures (a: seq2seq, b: of-a-plug-in)" in note for note in result.notes)


# --------------------------------------------------------------------------------------------------------------- metrics


def test_metrics_are_listed_side_by_side_with_the_best_marked(two: list[Path], capsys: Any) -> None:
    result = compare(two)
    assert result.metric_values == {
        "test loss": [2.0, 3.0],
        "test exact_match": [0.5, 0.75],
        "test exact_match/x": [0.1, 0.1],
        "valid loss": [1.0, 1.0],
    }
    assert result.best == {"test loss": [0], "test exact_match": [1], "test exact_match/x": [], "valid loss": []}
    out = shown(result, capsys).splitlines()
    assert out[:3] == [
        "option                   a     b",
        "seed                     1     2",
        "learning.optimizer.type  adam  sgd",
    ]
    assert out[4:8] == [
        "metric (* best)   a        b",
        "test loss         2.0000*  3.0000",
        "test exact_match  0.5000   0.7500*",
        "valid loss        1.0000   1.0000",
    ]
    assert "metrics of groups are not shown (1: test exact_match/x); use --json to see them" in out
    assert json.loads(json.dumps(result.as_json()))["best"]["test exact_match"] == ["b"]


def test_the_best_value_is_bold_on_a_terminal(two: list[Path]) -> None:
    stream = io.StringIO()
    compare(two).print(Console(file=stream, force_terminal=True, color_system="standard", width=80, _environ={"TERM": "xterm"}))
    assert "\x1b[1m2.0000*\x1b[0m" in stream.getvalue() and "learning.optimizer.type" in stream.getvalue()


def test_the_direction_of_a_metric_is_read_from_the_runs(tmp_path: Path) -> None:
    """The name does not decide: metrics.json declares that ``kl`` is better when lower, ``understood`` when higher."""
    a = {"kl": 1.0, "understood": 0.5, "odd": 1.0, "skipped_examples": 3, "valid": {"kl": 2.0}}
    b = {"kl": 2.0, "understood": 0.7, "odd": 2.0, "skipped_examples": 4, "valid": {"kl": 1.0}}
    declared = {"kl": False, "understood": True}
    runs = [
        write_run(tmp_path / "a", metric_values=a | {"higher_is_better": declared | {"odd": True}}),
        write_run(tmp_path / "b", metric_values=b | {"higher_is_better": declared | {"odd": False}}),  # they disagree
        write_run(tmp_path / "c", metric_values={"kl": 9.0}),  # declares nothing
    ]
    assert compare(runs).best == {
        "test kl": [0],
        "test understood": [1],
        "test odd": [],
        "test skipped_examples": [],
        "valid kl": [1],
    }


# ---------------------------------------------------------------------------------------------------------------- curves


def test_the_plot_has_every_run(two: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    figures: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1])
    result = compare(two, tmp_path / "new" / "c.png")
    assert result.plot == tmp_path / "new" / "c.png" and result.plot.read_bytes().startswith(b"\x89PNG")
    [figure] = figures
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["a", "b"]
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == ["training loss", "valid loss", "valid bleu"]
    assert [axes.get_xlabel() for axes in figure.axes[-2:]] == ["step", "minutes"]
    assert all(len(axes.lines) == 2 for axes in figure.axes)
    assert list(figure.axes[4].lines[1].get_xdata()) == [2, 4] and list(figure.axes[4].lines[1].get_ydata()) == [20, 40]


def test_a_plot_that_fails_is_a_note(two: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = compare(two, tmp_path / "c.png")
    assert result.plot is None and any("pip install 'weft[plots]'" in note for note in result.notes)
    with pytest.raises(ValueError, match="is a folder; the plot of the learning curves"):
        compare(two, tmp_path)


# ---------------------------------------------------------------------------------------------------------------- errors


def test_a_folder_that_is_not_a_run_folder_is_an_error(two: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    for wrong, message in (("nothing", "there is no folder"), ("file", "is not a run folder"), ("other", "is not a run folder")):
        with pytest.raises(ValueError, match=message):
            compare([two[0], tmp_path / wrong])
    with pytest.raises(ValueError, match="at least two runs, got 1"):
        compare([two[0]])
    with pytest.raises(ValueError, match="at least two runs, got 0"):
        compare([])
    with pytest.raises(ValueError, match=r"a is given twice \(also as"):
        compare([two[0], two[1], tmp_path / "b" / ".." / "a"])


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("recipe.yaml", "a: [", "not valid YAML"),
        ("recipe.yaml", "a: 1\na: 2\n", r"recipe\.yaml:2: a: duplicate key 'a' \(first: .*recipe\.yaml:1\)"),
        ("recipe.yaml", "", "empty"),
        ("metrics.json", "{", "not valid JSON"),
        ("metrics.json", "[]", "must be a JSON object with the metrics of a run"),
    ],
)
def test_a_damaged_file_is_an_error(two: list[Path], file: str, text: str, message: str) -> None:
    (two[1] / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        compare(two)


def test_a_damaged_log_leaves_out_only_the_curves(two: list[Path]) -> None:
    (two[1] / "log.jsonl").write_text("{\n{}\n")
    result = compare(two)
    assert result.metric_values["test loss"] == [2.0, 3.0] and any("b: no learning curves: " in note for note in result.notes)


def test_an_unfinished_run_has_no_metrics(two: list[Path], tmp_path: Path, capsys: Any) -> None:
    (two[1] / "metrics.json").unlink()
    result = compare(two)
    assert result.metric_values["test loss"] == [2.0, None] and result.best["test loss"] == []
    assert f"b: not finished, metrics.json is missing; finish it with: weft train {two[1]} --resume" in result.notes
    assert "test loss         2.0000  -" in shown(result, capsys)
    (two[0] / "metrics.json").unlink()
    assert "metric (" not in shown(compare(two), capsys)


def test_notes_name_differences_that_make_metrics_incomparable(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"data.valid": 3}, {"exact_match": 0.5})
    b = write_run(tmp_path / "b", {"data": {"type": "labeled-text"}, "objective.type": "classification"}, {"accuracy": 0.5})
    c = write_run(tmp_path / "c", {"data.valid": 4, "data.train": 5})
    result = compare([a, b])
    assert result.metric_values == {"test exact_match": [0.5, None], "test accuracy": [None, 0.5]}
    assert any("the runs have different data (a: dates, b: labeled-text); metrics" in note for note in result.notes)
    assert any("the runs have different objectives" in note for note in result.notes)
    assert any(note == "the data differ in data.valid; metrics may not be comparable" for note in compare([a, c]).notes)


def test_runs_of_the_same_name_are_distinguished_by_their_parent_folders(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / "x" / "run"), write_run(tmp_path / "y" / "run")]
    assert compare(paths).runs == ["x/run", "y/run"]
