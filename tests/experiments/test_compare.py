"""Comparing runs: what differs, curves, figures, significance, and a sentence for everything that cannot be compared."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from weft.core.io import append_line, write_json
from weft.evaluate import ExactMatch
from weft.evaluate.bootstrap import paired
from weft.experiments.compare import Comparison, best_of, compare, differences, figures_of
from weft.inspect.run_curves import log_curves, plot_run_curves
from weft.recipe import to_yaml
from weft.training.run_folder import FORMAT

RECIPE: dict[str, Any] = {
    "format": 1,
    "seed": 1,
    "data": {"type": "dates", "train": 60},
    "structure": {"type": "seq2seq", "dim": 8},
    "objective": {"type": "next-token"},
    "learning": {"type": "gradient", "steps": 4, "optimizer": {"type": "adam", "lr": 0.1}},
    "evaluate": {"type": "evaluation", "every": 2, "metrics": [{"type": "exact-match", "field": "target", "by": None}]},
}


def make(folder: Path, changes: dict[str, Any] | None = None, metric_values: dict[str, Any] | None = None) -> Path:
    """A run's folder as training leaves it, with some choices changed."""
    recipe = json.loads(json.dumps(RECIPE))
    for path, value in (changes or {}).items():
        *above, last = path.split(".")
        place = recipe
        for step in above:
            place = place[step]
        place[last] = value
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("# head\n" + to_yaml(recipe))
    if metric_values is not None:
        directions = {"higher_is_better": {"loss": False, "exact_match": True, "exact_match/x": True}}
        write_json(folder / "metrics.json", {"format": FORMAT, "split": "test", **directions, **metric_values})
    for row in log():
        append_line(folder / "log.jsonl", row)
    return folder


def log(speed: float = 100.0) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"event": "begun"}, {"event": "saving", "stage": 0, "round": 0}]
    for i in range(1, 5):
        rows.append({"event": "update", "stage": 0, "round": i, "loss": 4 / i, "tokens": 6000 * i, "tokens_per_second": speed})
        if i % 2 == 0:
            rows.append({"event": "valid", "stage": 0, "round": i, "valid": {"loss": 2 / i, "bleu": 10.0 * i, "bleu/x": 1.0}})
    return rows


def predict(folder: Path, predictions: list[str], targets: list[str]) -> None:
    lines = [
        {"row": i, "prediction": p, "reference": {"source": str(i), "target": t}}
        for i, (p, t) in enumerate(zip(predictions, targets, strict=True))
    ]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return [
        make(tmp_path / "a", metric_values={"loss": 2.0, "exact_match": 0.5, "exact_match/x": 0.1, "valid": {"loss": 1.0}}),
        make(
            tmp_path / "b",
            {"seed": 2, "learning.optimizer": {"type": "sgd", "lr": 0.1}},
            {"loss": 3.0, "exact_match": 0.75, "exact_match/x": 0.1, "valid": {"loss": 1.0}},
        ),
    ]


def shown(result: Comparison, capsys: Any) -> str:
    result.print()
    return capsys.readouterr().out


# --------------------------------------------------------------------------------------------------------------- choices


def test_only_what_differs_is_told(two: list[Path]) -> None:
    assert compare(two).choices == {"seed": [1, 2], "learning.optimizer.type": ["adam", "sgd"]}


def test_differences_of_every_shape() -> None:
    file = {"path": "/data/a.txt", "sha256": "0123456789abcdef" * 4}
    other = {"path": "/data/a.txt", "sha256": "f" * 64}
    a = {"x": file, "list": [1, 2], "parts": [{"type": "p"}, {"type": "q"}], "none": None, "one": 1, "same": file, "e": {}}
    b = {"x": other, "list": [1, 3], "parts": [{"type": "p"}], "none": 0, "one": 1.0, "same": file, "e": []}
    assert differences([a, b]) == {
        "x": ["/data/a.txt (01234567)", "/data/a.txt (ffffffff)"],
        "list": [[1, 2], [1, 3]],
        "parts.1.type": ["q", None],
        "none": [None, 0],
        "one": [1, 1.0],
        "e": [{}, []],
    }
    assert differences([a, a, a]) == {}
    assert differences([a, a, b])["list"] == [[1, 2], [1, 2], [1, 3]]


def test_plug_ins_are_not_needed(tmp_path: Path) -> None:
    a = make(tmp_path / "a", metric_values={"loss": 1.0})
    b = make(tmp_path / "b", {"structure.type": "of-a-plug-in"}, {"loss": 2.0})
    result = compare([a, b])
    assert result.choices == {"structure.type": ["seq2seq", "of-a-plug-in"]}
    assert any("different kinds, by their structures (a: seq2seq, b: of-a-plug-in)" in note for note in result.notes)


# --------------------------------------------------------------------------------------------------------------- figures


def test_figures_side_by_side_with_the_best_marked(two: list[Path], capsys: Any) -> None:
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
        "choice                   a     b",
        "seed                     1     2",
        "learning.optimizer.type  adam  sgd",
    ]
    assert out[4:8] == [
        "figure (* best)   a        b",
        "test loss         2.0000*  3.0000",
        "test exact_match  0.5000   0.7500*",
        "valid loss        1.0000   1.0000",
    ]
    assert "1 figures of single groups (test exact_match/x) are left out here: see --json" in out
    assert json.loads(json.dumps(result.as_json()))["best"]["test exact_match"] == ["b"]


def test_table_on_a_terminal(two: list[Path]) -> None:
    import io

    stream = io.StringIO()
    compare(two).print(Console(file=stream, force_terminal=True, color_system="standard", width=80, _environ={"TERM": "xterm"}))
    assert "\x1b[1m2.0000*\x1b[0m" in stream.getvalue() and "learning.optimizer.type" in stream.getvalue()


@pytest.mark.parametrize(
    ("higher_is_better", "values", "best"),
    [
        (False, [1.0, 2.0], [0]),
        (True, [1.0, 2.0], [1]),
        (None, [1.0, 2.0], []),
        (False, [3.0, None, 2.0], [2]),
        (True, [1.0, 2.0, 2.0], [1, 2]),
        (True, [2.0, 2.0], []),
        (True, [2.0, None], []),
        (False, [float("nan"), 2.0, 3.0], [1]),
    ],
)
def test_the_best_value_follows_the_direction(higher_is_better: bool | None, values: list[float | None], best: list[int]) -> None:
    assert best_of(values, higher_is_better) == best


def test_the_direction_is_what_the_runs_declare(tmp_path: Path) -> None:
    """Neither a table nor the name decides: ``kl`` is better when lower, ``understood`` when higher, as metrics.json says."""
    a = {"kl": 1.0, "understood": 0.5, "odd": 1.0, "skipped_examples": 3, "valid": {"kl": 2.0}}
    b = {"kl": 2.0, "understood": 0.7, "odd": 2.0, "skipped_examples": 4, "valid": {"kl": 1.0}}
    declared = {"kl": False, "understood": True}
    runs = [
        make(tmp_path / "a", metric_values=a | {"higher_is_better": declared | {"odd": True}}),
        make(tmp_path / "b", metric_values=b | {"higher_is_better": declared | {"odd": False}}),  # they disagree
        make(tmp_path / "c", metric_values={"kl": 9.0}),  # declares nothing
    ]
    assert compare(runs).best == {
        "test kl": [0],
        "test understood": [1],
        "test odd": [],
        "test skipped_examples": [],
        "valid kl": [1],
    }


def test_figures_of_other_files() -> None:
    path = Path("m.json")
    assert figures_of({"format": 1, "split": "valid", "loss": 1.0, "text": "x", "higher_is_better": {"loss": False}}, path) == {
        "valid loss": 1.0
    }
    with pytest.raises(ValueError, match=r"m\.json: has the format 9"):
        figures_of({"format": 9}, path)
    with pytest.raises(ValueError, match=r"m\.json: not a run's figures"):
        figures_of([], path)


# ---------------------------------------------------------------------------------------------------------- significance


def test_significance_is_that_of_the_paired_test(two: list[Path], capsys: Any) -> None:
    targets = [str(i) for i in range(40)]
    better = [t if i % 8 else "?" for i, t in enumerate(targets)]
    worse = [t if i % 3 == 0 else "?" for i, t in enumerate(targets)]
    predict(two[0], better, targets)
    predict(two[1], worse, targets)
    lines = (two[1] / "predictions.jsonl").read_text().splitlines()
    (two[1] / "predictions.jsonl").write_text("\n".join(reversed(lines)) + "\n")  # row numbers count, not places
    result = compare(two)
    expected = paired(ExactMatch(), better, worse, [{"source": t, "target": t} for t in targets])
    assert result.significance == [{"runs": ["a", "b"], "p": expected}] and expected["exact_match"] < 0.01
    assert result.notes == []
    assert f"a - b  exact_match  {expected['exact_match']:.4f}" in shown(result, capsys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no test of significance for b: without a predictions.jsonl"),
        ("", "is empty"),
        ("[1]\n", "predictions.jsonl:1: a line has row, prediction and reference"),
        ('{"row": 0, "reference": {}}\n', "row 0 has no prediction"),
        ('{"row": 0, "prediction": "x", "reference": {"target": "0"}}\n', "predictions for 2 and 1 rows"),
        (
            '{"row": 0, "prediction": "x", "reference": {"source": "0", "target": "0"}}\n'
            '{"row": 1, "prediction": "x", "reference": {"source": "1", "target": "CHANGED"}}\n',
            "the references of row 1 differ",
        ),
        (
            '{"row": 0, "prediction": "x", "reference": {"source": "0", "target": "0"}}\n'
            '{"row": 7, "prediction": "x", "reference": {"source": "1", "target": "1"}}\n',
            "predictions for different rows",
        ),
        ("{\n" + '{"row": 0}\n', "not valid JSON"),
    ],
)
def test_why_there_is_no_test(two: list[Path], text: str | None, said: str) -> None:
    predict(two[0], ["0", "1"], ["0", "1"])
    if text is not None:
        (two[1] / "predictions.jsonl").write_text(text)
    result = compare(two)
    assert result.significance == [] and [note for note in result.notes if said in note]


def test_one_note_if_no_run_has_predictions(two: list[Path]) -> None:
    assert compare(two).notes == ["no test of significance: no run has a predictions.jsonl"]


def test_no_test_without_a_common_or_known_metric(tmp_path: Path) -> None:
    metrics = [{"type": "exact-match", "field": "source", "by": None}], [{"type": "of-a-plug-in"}]
    a, b, c, d = make(tmp_path / "a"), make(tmp_path / "b"), make(tmp_path / "c"), make(tmp_path / "d")
    for run, metric in zip((b, c, d), (metrics[0], metrics[1], metrics[1]), strict=True):
        shutil.rmtree(run)
        make(run, {"evaluate.metrics": metric})
    for run in (a, b, c, d):
        predict(run, ["0"], ["0"])
    notes = compare([a, b]).notes
    assert any("they have no metric in common" in note for note in notes)
    assert any("judged differently (evaluate.metrics.0.field)" in note for note in notes)
    assert any("of-a-plug-in" in note and "no test of significance for c and d" in note for note in compare([c, d]).notes)


def test_of_many_runs_each_is_tested_against_the_first(tmp_path: Path) -> None:
    runs = [make(tmp_path / f"r{i}", {"seed": i}, {"loss": 1.0}) for i in range(6)]
    for run in runs:
        predict(run, ["0", "1"], ["0", "x"])
    assert len(compare(runs[:4]).significance) == 6
    result = compare(runs)
    assert [t["runs"] for t in result.significance] == [["r0", f"r{i}"] for i in range(1, 6)]
    assert any("against r0 only" in note for note in result.notes)


# --------------------------------------------------------------------------------------------------------------- curves


def test_points_of_a_log() -> None:
    found = log_curves(log())
    assert list(found) == ["training loss", "valid loss", "valid bleu"]
    assert list(found["training loss"].rounds) == [1, 2, 3, 4] and list(found["training loss"].minutes) == [1, 2, 3, 4]
    assert list(found["valid bleu"].minutes) == [2, 4] and list(found["valid bleu"].values) == [20.0, 40.0]


def test_points_of_stages_phases_and_rounds_between_rows() -> None:
    rows = [
        {"event": "update", "stage": 0, "round": 10, "a/loss": 1.0, "b/loss": 2.0, "tokens": 600, "tokens_per_second": 10.0},
        {"event": "valid", "stage": 1, "round": 5, "valid": {"loss": float("nan"), "f1": 0.5}},
        {"event": "update", "stage": 1, "round": 10, "loss": 4.0, "tokens": 1200, "tokens_per_second": 10.0},
        {"event": "skip", "stage": 1, "round": 11, "loss": 9.0},
        {"note": "x"},
    ]
    found = log_curves(rows)
    assert list(found["training loss"].values) == [3.0, 4.0] and list(found["training loss"].rounds) == [10, 20]
    assert list(found["training loss"].minutes) == [1, 3] and list(found["valid f1"].minutes) == [2]
    assert "valid loss" not in found and log_curves([]) == {}
    without = log_curves([{"event": "valid", "round": 5, "valid": {"f1": 0.5}}])["valid f1"]
    assert np.isnan(without.minutes).all()


def test_picture_has_every_run_against_rounds_and_minutes(
    two: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    metric_values: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (metric_values.append(self), save(self, *a, **k))[1])
    result = compare(two, tmp_path / "new" / "c.png")
    assert result.picture == tmp_path / "new" / "c.png" and result.picture.read_bytes().startswith(b"\x89PNG")
    [figure] = metric_values
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["a", "b"]
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == ["training loss", "valid loss", "valid bleu"]
    assert [axes.get_xlabel() for axes in figure.axes[-2:]] == ["round", "minutes"]
    assert all(len(axes.lines) == 2 for axes in figure.axes)
    assert list(figure.axes[4].lines[1].get_xdata()) == [2, 4] and list(figure.axes[4].lines[1].get_ydata()) == [20, 40]


def test_odd_logs_are_drawn(tmp_path: Path) -> None:
    zero = [{"event": "valid", "round": r, "valid": {"f1": 0.0}} for r in (1, 2)]
    wide = [{"event": "update", "round": r, "loss": 10.0**-r} for r in range(9)]
    many = [{"event": "valid", "round": 1, "valid": {f"f{i}": 1.0 for i in range(30)}}]
    assert plot_run_curves({"$x": zero, "_y": wide, "": many} | {str(i): wide for i in range(12)}, tmp_path / "c.png").is_file()
    with pytest.raises(ValueError, match="nothing to plot yet"):
        plot_run_curves({"a": []}, tmp_path / "d.png")


def test_picture_is_left_out_with_a_note(two: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = compare(two, tmp_path / "c.png")
    assert result.picture is None and any("pip install 'weft[plots]'" in note for note in result.notes)
    with pytest.raises(ValueError, match="is a folder: name a PNG file"):
        compare(two, tmp_path)


# ------------------------------------------------------------------------------------------------------------ wrong input


def test_what_is_no_run(two: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "other").mkdir()
    for wrong, said in (("nothing", "there is no folder"), ("file", "is not a run's folder"), ("other", "is not a run's folder")):
        with pytest.raises(ValueError, match=said):
            compare([two[0], tmp_path / wrong])
    with pytest.raises(ValueError, match="at least two runs, here is 1"):
        compare([two[0]])
    with pytest.raises(ValueError, match="at least two runs, here is 0"):
        compare([])
    with pytest.raises(ValueError, match=r"a is given twice \(also as"):
        compare([two[0], two[1], tmp_path / "b" / ".." / "a"])


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("recipe.yaml", "a: [", "not valid YAML"),
        ("recipe.yaml", "a: 1\na: 2\n", r"recipe\.yaml:2: a: duplicate key 'a' \(first: .*recipe\.yaml:1\)"),
        ("recipe.yaml", "", "empty"),
        ("metrics.json", "{", "not valid JSON"),
        ("metrics.json", "[]", "not a run's figures"),
    ],
)
def test_damaged_files(two: list[Path], file: str, text: str, said: str) -> None:
    (two[1] / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        compare(two)


def test_damaged_log_costs_the_curves_only(two: list[Path]) -> None:
    (two[1] / "log.jsonl").write_text("{\n{}\n")
    result = compare(two)
    assert result.metric_values["test loss"] == [2.0, 3.0] and any("b: no curves: " in note for note in result.notes)


def test_unfinished_run_is_compared_as_far_as_it_is(two: list[Path], tmp_path: Path, capsys: Any) -> None:
    (two[1] / "metrics.json").unlink()
    result = compare(two)
    assert result.metric_values["test loss"] == [2.0, None] and result.best["test loss"] == []
    assert f"b: not finished, it has no metrics.json; finish it with: weft train {two[1]} --resume" in result.notes
    assert "test loss         2.0000  -" in shown(result, capsys)
    (two[0] / "metrics.json").unlink()
    assert "figure" not in shown(compare(two), capsys)


def test_runs_of_different_kinds(tmp_path: Path) -> None:
    a = make(tmp_path / "a", {"data.valid": 3}, {"exact_match": 0.5})
    b = make(tmp_path / "b", {"data": {"type": "labeled-text"}, "objective.type": "classification"}, {"accuracy": 0.5})
    c = make(tmp_path / "c", {"data.valid": 4, "data.train": 5})
    result = compare([a, b])
    assert result.metric_values == {"test exact_match": [0.5, None], "test accuracy": [None, 0.5]}
    assert any("by their data (a: dates, b: labeled-text); figures" in note for note in result.notes)
    assert any("by their objectives" in note for note in result.notes)
    assert any(note == "the data differ in data.valid: compare figures with care" for note in compare([a, c]).notes)


def test_runs_of_the_same_name(tmp_path: Path) -> None:
    paths = [make(tmp_path / "x" / "run"), make(tmp_path / "y" / "run")]
    assert compare(paths).runs == ["x/run", "y/run"]
