"""``weft check TINY --figure FILE``: every shipped recipe has a figure."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.commands import TINY, weft

from weft.inference.load import load
from weft.inspect import architecture
from weft.training.recipes import read_run, shipped_recipes

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY, encoding="utf-8")
    return file


def total(svg: str) -> int:
    """The parameters of all blocks without parts, over all stages."""
    blocks = [g for g in ET.fromstring(svg).iter(f"{SVG}g") if g.get("class") == "block"]
    return sum(int(g.attrib["data-parameters"]) * int(g.attrib["data-copies"]) for g in blocks)


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_every_shipped_recipe_has_a_figure_whose_parameters_add_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = "\n  test:" in shipped_recipes()[name].read_text(encoding="utf-8")
    run = read_run(name, ["preset=test"] if small else [], files=False)
    stages = run.networks()
    monkeypatch.setattr(run, "networks", lambda: stages)
    figure = architecture(run)
    modules = [(stage.model, *stage.objectives.values()) for stage in stages]
    expected = [sum(p.numel() for p in {p for module in those for p in module.parameters()}) for those in modules]
    assert figure.parameters == expected
    assert total(figure.svg()) == sum(expected)


def test_check_writes_the_figure_beside_its_report(recipe: Path, tmp_path: Path) -> None:
    file = tmp_path / "figure.svg"
    answer = weft("check", recipe, "--figure", file)
    assert answer.code == 0 and f"wrote {file}" in answer.err
    assert "encoder" in answer.out and "wrote" not in answer.out
    report = json.loads(weft("check", recipe, "--json").out)
    assert total(file.read_text(encoding="utf-8")) == sum(stage["parameters"] for stage in report["stages"])


def test_the_figure_goes_with_json(recipe: Path, tmp_path: Path) -> None:
    answer = weft("check", recipe, "--json", "--figure", tmp_path / "figure.svg")
    assert json.loads(answer.out) and (tmp_path / "figure.svg").is_file()


@pytest.mark.parametrize("name", ["figure.png", "figure"])
def test_another_suffix_is_refused_before_anything_is_built(name: str, tmp_path: Path) -> None:
    answer = weft("check", tmp_path / "no-such-recipe.yaml", "--figure", tmp_path / name)
    assert answer.code == 2
    assert "the figure is written as SVG only; give a file name that ends in .svg" in answer.err


def test_an_invalid_recipe_gets_no_figure(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(TINY.replace("heads: 2", "heads: 3"), encoding="utf-8")
    answer = weft("check", wrong, "--figure", tmp_path / "figure.svg")
    assert answer.code == 2 and "heads" in answer.err
    assert not (tmp_path / "figure.svg").exists()


def test_a_trained_run_is_plotted_as_it_was_composed(recipe: Path, tmp_path: Path) -> None:
    trained = read_run(recipe).train(tmp_path / "run", quiet=True)
    before = architecture(read_run(recipe))
    after = architecture(load(tmp_path / "run"))
    assert [b.path for b in after.panels[0].top.walk()] == [b.path for b in before.panels[0].top.walk()]
    assert after.parameters[0] == sum(p.numel() for p in trained.model.parameters())
