"""Recipes as runs: files, run folders and shipped recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.recipe import RecipeError
from weft.training.recipes import find_recipe, name_of_recipe, read_run, read_run_text, shipped_recipes
from weft.training.run_folder import RunFolder

TEXT = """
data: {type: dates, train: 40, valid: 8, test: 8}
structure: {type: seq2seq, dim: 8}
objective: next-token
learning: {type: gradient, steps: 7}
"""


def test_a_recipe_file_and_its_text_give_the_same_run(tmp_path):
    (tmp_path / "small.yaml").write_text(TEXT)
    run = read_run(tmp_path / "small.yaml")
    assert run.dump() == read_run_text(TEXT, "r.yaml", tmp_path).dump()
    assert run.name == "small" and run.dump()["learning"]["steps"] == 7


def test_overrides_replace_options_and_add_new_ones(tmp_path):
    (tmp_path / "small.yaml").write_text(TEXT)
    filled = read_run(tmp_path / "small.yaml", ["learning.steps=9", "learning.clip=0.5", "seed=4"]).dump()
    assert (filled["learning"]["steps"], filled["learning"]["clip"], filled["seed"]) == (9, 0.5, 4)


def test_a_full_recipe_reads_back_as_the_same_run(tmp_path):
    run = read_run("dates")
    (tmp_path / "full.yaml").write_text(run.to_yaml())
    assert read_run(tmp_path / "full.yaml").dump() == run.dump()


def test_a_run_folder_stands_for_its_recipe_and_gives_its_name(tmp_path):
    folder = RunFolder(tmp_path / "mine")
    folder.create(read_run("dates", ["learning.steps=3"]).dump(), [])
    folder.close()
    assert find_recipe(folder.path) == folder.recipe
    run = read_run(folder.path)
    assert run.name == "mine" and run.dump()["learning"]["steps"] == 3


def test_a_recipe_file_that_happens_to_be_called_recipe_keeps_its_name(tmp_path):
    (tmp_path / "recipe.yaml").write_text(TEXT)
    assert name_of_recipe(tmp_path / "recipe.yaml") == "recipe", "without a log.jsonl the folder is not a run folder"


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_shipped_recipe_is_found_by_name_and_has_that_name(name):
    assert find_recipe(name) == shipped_recipes()[name]
    assert read_run(name, files=False).name == name


def test_an_existing_file_has_precedence_over_a_shipped_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dates").write_text(TEXT)
    assert find_recipe("dates") == Path("dates")
    assert read_run("dates").dump()["structure"]["dim"] == 8


def test_an_unknown_name_lists_the_shipped_recipes_and_the_nearest():
    with pytest.raises(RecipeError) as error:
        find_recipe("datse")
    assert "'datse'" in str(error.value) and "'dates'" in str(error.value)
    assert all(name in str(error.value) for name in shipped_recipes())


def test_a_path_is_never_taken_for_the_name_of_a_shipped_recipe(tmp_path):
    with pytest.raises(RecipeError, match=r"missing\.yaml"):
        read_run(tmp_path / "missing.yaml")


def test_problems_are_reported_with_the_name_that_the_user_has_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("odd.yaml").write_text(TEXT.replace("steps: 7", "stepz: 7"))
    with pytest.raises(RecipeError, match=r"^odd\.yaml:5: learning\.?.*stepz"):
        read_run("odd.yaml")


def test_files_that_do_not_exist_are_reported_unless_they_are_not_needed(tmp_path):
    text = TEXT.replace("{type: dates, train: 40, valid: 8, test: 8}", "{type: plain-text, train: missing.txt, tokenizer: word}")
    with pytest.raises(RecipeError, match=r"missing\.txt"):
        read_run_text(text, "r.yaml", tmp_path)
    assert read_run_text(text, "r.yaml", tmp_path, files=False)
