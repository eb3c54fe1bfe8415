"""Stages with their own data: shared tokenizers, loaded weights, own metrics."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from weft.core.io import read_json
from weft.data import PretrainedTokenizer
from weft.inference.convert import to_published
from weft.inference.load import load
from weft.recipe import RecipeError
from weft.training.dry_run import check
from weft.training.recipes import read_run

WORDS = ["a fine film", "a dull film", "fine acting", "dull acting"]
RECIPE = """
data: {type: plain-text, train: texts.txt, tokenizer: {type: word, vocab_size: 50}}
structure: {type: bert, dim: 8, layers: 1, heads: 2, length: 40, task: masked-lm}
objective: masked-lm
learning: {type: gradient, steps: 3, batch_tokens: 100}
stages:
  - name: classify
    data: {type: labeled-text, train: reviews.tsv, tokenizer: TOKENIZER}
    structure: {type: bert, dim: 8, layers: 1, heads: 2, length: 40, task: classification}
    objective: classification
    learning: {type: gradient, steps: 3, batch_tokens: 100}
    evaluate: {metrics: [accuracy]}
    start: START
"""


@pytest.fixture
def recipe(tmp_path: Path):
    """Writes the recipe and its files: the reviews have words that the texts have not."""
    (tmp_path / "texts.txt").write_text("".join(f"{text} {i % 7}\n" for i, text in enumerate(WORDS * 10)))
    rows = [f"surprisingly {text}\t{'good' if 'fine' in text else 'bad'}\n" for text in WORDS * 10]
    (tmp_path / "reviews.tsv").write_text("text\tlabel\n" + "".join(rows))

    def write(tokenizer: str = "'${data.tokenizer}'", start: str = '{"*": "*"}') -> Path:
        file = tmp_path / "recipe.yaml"
        file.write_text(RECIPE.replace("TOKENIZER", tokenizer).replace("START", start))
        return file

    return write


def test_a_tokenizer_with_the_same_options_keeps_its_ids(recipe, tmp_path):
    folder = tmp_path / "run"
    read_run(recipe(start='{"embedder.*": "embedder.*"}')).train(folder, quiet=True, keep=True)
    first, second = (folder / "tokenizer-text.json").read_text(), (folder / "classify" / "tokenizer-text.json").read_text()
    assert first == second
    assert "surprisingly" not in first  # the second text was not learned from
    assert load(folder).predict(["a fine film"])[0] in ("good", "bad")
    assert "accuracy" in read_json(folder / "metrics.json")


def test_the_tokenizer_is_kept_after_resuming_between_stages(recipe, tmp_path):
    run, whole, stopped = read_run(recipe(start='{"encoder.*": "encoder.*"}')), tmp_path / "whole", tmp_path / "stopped"
    run.train(whole, quiet=True, keep=True)
    shutil.copytree(whole, stopped)
    shutil.rmtree(stopped / "classify")
    shutil.rmtree(stopped / "checkpoints" / "classify")
    for name in ("model.safetensors", "metrics.json"):
        (stopped / name).unlink()
    run.train(stopped, resume=True, quiet=True, keep=True)
    assert (stopped / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_another_tokenizer_is_refused_if_all_weights_are_loaded(recipe, tmp_path):
    run = read_run(recipe(tokenizer="{type: word, vocab_size: 49}"))
    with pytest.raises(ValueError, match=r"stage classify: the tokenizer of 'text' differs from the previous stage.*start"):
        run.train(tmp_path / "run", quiet=True, keep=True)
    assert not (tmp_path / "run").exists()  # reported before the first stage was trained
    with pytest.raises(RecipeError, match="differs from the previous stage"):
        check(run)


def test_a_start_without_a_match_is_reported_before_the_first_stage_is_trained(recipe, tmp_path):
    run = read_run(recipe(start='{"encoder.*": "decoder.*"}'))
    message = r"recipe\.yaml:\d+: stages\.0\.start: start: 'encoder\.\*' from 'decoder\.\*' matches no weight of the previous"
    with pytest.raises(RecipeError, match=message + r" .*previous stage: embedder\.\*, enc"):
        check(run)
    with pytest.raises(ValueError, match=r"must have the same number of \*"):
        check(read_run(recipe(start='{"encoder.*": "encoder"}')))


def test_an_invalid_row_of_the_second_stage_is_reported_before_the_first_is_trained(recipe, tmp_path):
    file = recipe()
    with (tmp_path / "reviews.tsv").open("a") as table:
        table.write("a row without its label\n")
    with pytest.raises(ValueError, match=r"reviews\.tsv:42: 1 columns, but the header has 2"):
        read_run(file).train(tmp_path / "run", quiet=True, keep=True)
    assert not (tmp_path / "run").exists()


def test_a_converted_run_has_the_tokenizer_of_the_last_stage(recipe, tmp_path):
    run = read_run(recipe(tokenizer="{type: word, vocab_size: 49}", start='{"encoder.*": "encoder.*"}'))
    run.train(tmp_path / "run", quiet=True, keep=True)
    to_published(tmp_path / "run", tmp_path / "published")
    own = tmp_path / "run" / "classify" / "tokenizer-text.json"
    assert read_json(tmp_path / "published" / "tokenizer.json")["model"] == read_json(own)["model"]
    with pytest.raises(
        ValueError, match=r"several tokenizers found; set from to one of classify/tokenizer-text\.json, tokenizer-text\.json"
    ):
        PretrainedTokenizer(from_=str(tmp_path / "run")).encode("fine")


def test_the_usage_of_a_finished_stage_is_known_after_resuming(recipe, tmp_path):
    run, folder = read_run(recipe(start='{"encoder.*": "encoder.*"}')), tmp_path / "run"
    run.train(folder, quiet=True, keep=True)
    whole = read_json(folder / "usage.json")
    shutil.rmtree(folder / "checkpoints" / "classify")
    for name in ("model.safetensors", "metrics.json", "usage.json"):
        (folder / name).unlink()
    run.train(folder, resume=True, quiet=True, keep=True)
    again = read_json(folder / "usage.json")
    assert again["tokens"] == whole["tokens"] and again["stages"].keys() == whole["stages"].keys()


def test_another_tokenizer_is_allowed_if_start_selects_the_weights(recipe, tmp_path):
    folder = tmp_path / "run"
    read_run(recipe(tokenizer="{type: word, vocab_size: 49}", start='{"encoder.*": "encoder.*"}')).train(
        folder, quiet=True, keep=True
    )
    assert "surprisingly" in (folder / "classify" / "tokenizer-text.json").read_text()


def test_a_stage_is_evaluated_by_its_own_metrics(recipe):
    """accuracy has no meaning for the texts of the first stage: only the second may name it."""
    file = recipe()
    file.write_text(file.read_text().replace("    evaluate: {metrics: [accuracy]}\n", "") + "evaluate: {metrics: [accuracy]}\n")
    with pytest.raises(RecipeError, match="accuracy"):
        check(read_run(file))
    assert len(check(read_run(recipe()))) == 2
