"""``weft check``: what fits, what it costs, and what does not fit."""

from __future__ import annotations

import pytest
import torch

from weft.check import check
from weft.recipe import RecipeError
from weft.report import print_catalog

LIGHT = ["structure.encoder=bag-of-words", "structure.decoder={type: transformer, layers: 1}"]


def refused(run) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        check(run)
    return str(caught.value).splitlines()


def test_what_is_said(read, small: str) -> None:
    (report,) = check(read(small))
    run = read(small)
    built = run.structure(report.info)
    assert report.parameters == sum(p.numel() for p in built.parameters())
    rows = {row.name: row for row in report.rows}
    assert rows["encoder"].kind == "Transformer"
    assert rows["encoder"].parameters == sum(p.numel() for p in built.encoder.parameters())
    batch, length, width = map(int, rows["encoder"].shape.split(" x "))
    assert width == 16
    assert (batch, length) == (report.batch[0], length)
    assert report.memory > 16 * report.parameters
    assert report.operations > 0
    assert report.terms == ["loss"]


def test_nothing_is_opened_or_allocated(read, small: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.txt").write_text("a\n", encoding="utf-8")
    text = small[: small.index("structure:")].replace("{type: dates, train: 100}", "{type: plain-text, train: t.txt}")
    text += (
        "structure: {type: language-model, dim: 640000, decoder: {type: transformer, layers: 1}}\n"
        + small[small.index("objective:") :]
    )
    run = read(text, folder=tmp_path)
    (tmp_path / "t.txt").unlink()
    (report,) = check(run)
    assert report.parameters > 10**12  # it would not fit into any machine
    assert torch.get_default_device().type == "cpu"


def test_structure_and_objective_that_do_not_fit(read, small: str, tmp_path) -> None:
    (tmp_path / "t.tsv").write_text("text\tlabel\na\tx\nb\ty\n", encoding="utf-8")
    text = small[: small.index("structure:")].replace(
        "{type: dates, train: 100}", "{type: labelled-text, train: t.tsv, labels: [x, y]}"
    )
    text += "structure: {type: classifier, encoder: bag-of-words}\n" + small[small.index("objective:") :]
    (line,) = refused(read(text, folder=tmp_path))
    assert line == (
        "r.yaml:4: objective: the objective 'next-token' needs a structure that Decodes, "
        "but the structure 'classifier' has: Encodes, Classifies"
    )


def test_data_that_does_not_fit(read, small: str) -> None:
    assert refused(read(small, ["objective=classification"])) == [
        "command line: objective: needs a field 'text', but the data (dates) gives: source, target"
    ]


def test_all_parts_that_can_be_built_alone(read, small: str) -> None:
    text = small.replace("dim: 16", "dim: 6").replace("steps: 3", "steps: 3\n  average: 9")
    lines = refused(read(text))
    assert [line.split(": ")[:2] for line in lines] == [
        ["r.yaml:6", "structure.encoder.layer.mixer"],
        ["r.yaml:9", "learning"],
    ]
    lines = refused(read(text, ["data.first_year=3000"]))
    assert [line.split(": ")[:2] for line in lines] == [["r.yaml:2", "data"], ["r.yaml:9", "learning"]]


def test_phases(read, small: str) -> None:
    text = small + "  phases:\n    - {}\n    - {objective: x}\n    - {train: [nothing.*]}\n"
    lines = refused(read(text, LIGHT))
    assert [line.split(": ")[:2] for line in lines] == [
        ["r.yaml:15", "learning.phases.1"],
        ["r.yaml:16", "learning.phases.2"],
    ]


def test_stages(read, small: str) -> None:
    text = small + "stages:\n  - {name: a, learning: {steps: 1}}\n  - {name: a, learning: {steps: 1}}\n"
    assert refused(read(text, LIGHT)) == ["r.yaml:15: stages.1: the stage name 'a' is there twice"]
    reports = check(read(text, [*LIGHT, "stages.1.name=b"]))
    assert [report.stage for report in reports] == ["main", "a", "b"]
    text = small + "stages:\n  - {name: a, learning: {steps: 1}, structure: {type: seq2seq, dim: 7}}\n"
    (line,) = refused(read(text, LIGHT))
    assert line.startswith("r.yaml:14: stages.0.structure.encoder: dim 7 is odd")


def test_the_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    print_catalog(None, None)
    listed = capsys.readouterr().out
    assert "\n  lstm " in listed
    assert listed.startswith("activation  ")
    print_catalog("encoder", None)
    assert len(capsys.readouterr().out.splitlines()) >= 5
    print_catalog("attention", "multihead")
    shown = capsys.readouterr().out
    assert "heads  (" in shown
    assert "default 4" in shown
    assert "arxiv.org" in shown
    with pytest.raises(ValueError, match=r"no slot named 'encodr'; did you mean 'encoder'\?"):
        print_catalog("encodr", None)
    with pytest.raises(ValueError, match=r"no encoder named 'lsmt'; did you mean 'lstm'\?"):
        print_catalog("encoder", "lsmt")
