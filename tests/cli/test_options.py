"""Option groups of commands: which search the decoding options select, and how ``@command`` expands a group."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Annotated

import pytest
import typer
from tests.commands import weft
from typer.testing import CliRunner

from weft.cli import numbers
from weft.cli.options import SearchOptions, command
from weft.cli.plugins import Plugins, import_plugins
from weft.generate import BeamSearch, GreedySearch, Sampling

RECIPE = partial(BeamSearch, beams=4)


def test_without_options_the_search_of_the_recipe_is_used() -> None:
    search = SearchOptions().build(RECIPE)()
    assert isinstance(search, BeamSearch) and search.beams == 4


def test_one_beam_is_greedy_search_and_more_are_beam_search() -> None:
    assert isinstance(SearchOptions(beams=1).build(RECIPE)(), GreedySearch)
    search = SearchOptions(beams=7).build(RECIPE, n_best=3)()
    assert isinstance(search, BeamSearch) and (search.beams, search.n_best) == (7, 3)


@pytest.mark.parametrize("given", [{"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.9}])
def test_each_sampling_option_selects_sampling_with_its_value(given: dict[str, float]) -> None:
    search = SearchOptions(seed=5, **given).build(RECIPE)()  # pyright: ignore[reportArgumentType]
    assert isinstance(search, Sampling) and search.seed == 5
    assert {name: getattr(search, name) for name in given} == given


@pytest.mark.parametrize("options", [SearchOptions(), SearchOptions(beams=1), SearchOptions(beams=2), SearchOptions(top_k=2)])
def test_max_length_applies_to_every_search(options: SearchOptions) -> None:
    limited = SearchOptions(**{**vars(options), "max_length": 11})
    assert limited.build(RECIPE)().max_length == 11
    assert options.build(RECIPE)().max_length != 11


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="--beams cannot be combined with sampling"):
        SearchOptions(beams=2, temperature=1.0).build(RECIPE)
    with pytest.raises(ValueError, match="--n-best 3 needs at least as many beams, but --beams is 2: add --beams 3"):
        SearchOptions(beams=2).build(RECIPE, n_best=3)


def test_a_command_has_the_options_of_its_group_and_receives_the_group() -> None:
    received = []

    @command
    def show(name: Annotated[str, typer.Argument()], search: SearchOptions, plugins: Plugins, json: bool = False) -> None:
        received.append((name, search, plugins, json))

    parameters = inspect.signature(show).parameters
    assert {"beams", "top_p", "max_length", "imports"} <= set(parameters) and not {"search", "plugins"} & set(parameters)
    app = typer.Typer()
    app.command()(show)
    result = CliRunner().invoke(app, ["x", "--beams", "3", "--max-length", "9", "--json"])
    assert result.exit_code == 0, result.output
    name, search, plugins, json = received.pop()
    assert (name, search, json) == ("x", SearchOptions(beams=3, max_length=9), True)
    assert plugins.requested == []


def test_plugins_are_imported_before_the_command_and_a_broken_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good_plugin_of_a_test.py").write_text("LOADED = True\n")
    (tmp_path / "bad_plugin_of_a_test.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins = import_plugins(["good_plugin_of_a_test"])
    assert plugins.names[0] == "good_plugin_of_a_test" and plugins.arguments() == ["--import=good_plugin_of_a_test"]
    with pytest.raises(ValueError, match="cannot import the plug-in bad_plugin_of_a_test: SystemExit: 3"):
        import_plugins(["bad_plugin_of_a_test"])


@pytest.mark.parametrize("number", ["1_000", "１２", "٣", " 5", "1_0"])
@pytest.mark.parametrize("option", ["--seed", "--temperature", "--n-best"])
def test_only_plain_digits_are_numbers(number: str, option: str, tmp_path: Path) -> None:
    for arguments in ([option, number], [f"{option}={number}"]):
        answer = weft("generate", tmp_path, *arguments)
        assert answer.code == 2 and f"error: {option}: {number!r} is not a number in plain digits" in answer.err


def test_plain_digits_are_numbers(tmp_path: Path) -> None:
    answer = weft("transfer", tmp_path, "--seed", "12", "--temperature", "1e-1", "--to", "1_000")
    assert "not a number" not in answer.err and "recipe.yaml" in answer.err


def test_numbers_of_every_command_are_checked() -> None:
    assert {"--beams", "--top-p", "--samples", "--max-examples", "--top-k", "--steps", "--shots"} <= set(numbers._OPTIONS)
