"""HTML display of runs in notebooks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.commands import TINY
from tests.displays import HOSTILE, cells, parsed, words

from weft.inference.load import load
from weft.models import Seq2Seq
from weft.training.recipes import read_run, read_run_text

RECIPE = """
data: {type: plain-text, train: t.txt}
structure: {type: language-model, dim: 8, decoder: {type: lstm, layers: 2}}
objective: {one: next-token, two: {type: next-token, label_smoothing: 0.1}}
learning: {type: gradient, steps: 3, phases: [{type: phase, objective: one}, {type: phase, objective: two}]}
"""


def test_a_run_shows_its_four_parts_with_the_options_that_were_given() -> None:
    tree = parsed(read_run("dates-transformer"))
    rows = {row[0]: row[1:] for row in cells(tree)}
    assert list(rows) == ["part", "data", "structure", "objective", "learning"]
    assert rows["structure"][0] == "seq2seq" and "encoder: transformer" in rows["structure"][1]
    assert "dim" not in rows["structure"][1], "a default is not repeated"
    assert rows["objective"][0] == "next-token"
    assert "Run dates-transformer" in words(tree) and "seed 1" in words(tree)


def test_several_objectives_and_stages_are_named(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a\n", encoding="utf-8")
    rows = cells(parsed(read_run_text(RECIPE, "r.yaml", tmp_path)))
    assert [row[:2] for row in rows if row[0] == "objective"] == [
        ["objective", "one: next-token"],
        ["objective", "two: next-token"],
    ]
    staged = cells(parsed(read_run("pretrain-classify", files=False)))
    stage = next(row[0] for row in staged if ": structure" in row[0])
    assert stage.partition(":")[0] != "main"


def test_values_are_escaped_and_long_ones_are_truncated() -> None:
    run = read_run("dates")
    run.name = HOSTILE
    run.structure = partial(Seq2Seq, weights="w" * 300 + HOSTILE)
    tree = parsed(run)
    assert "alert(1)" in words(tree)
    assert max(len(cell) for row in cells(tree) for cell in row) < 400


def test_a_trained_run_also_shows_its_parameters_folder_and_metrics_with_intervals(tmp_path: Path) -> None:
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(TINY, encoding="utf-8")
    trained = read_run(recipe).train(tmp_path / "run", quiet=True)
    parameters = sum(p.numel() for p in trained.model.parameters())
    shown = words(parsed(trained))
    assert f"{parameters:,} parameters" in shown and f"folder: {tmp_path / 'run'}" in shown
    rows = {row[0]: row[1:] for row in cells(parsed(trained))}
    assert rows["structure"][0] == "seq2seq"
    assert " – " in rows["exact_match"][1] and rows["loss"][1] == ""
    loaded = {row[0]: row[1:] for row in cells(parsed(load(tmp_path / "run")))}
    assert loaded["exact_match"][0] == rows["exact_match"][0], "a loaded run shows its final evaluation"
