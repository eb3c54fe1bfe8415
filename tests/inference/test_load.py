"""A trained run is used without what it was trained on; what it is judged by must be there."""

from __future__ import annotations

import math
import shutil

import pytest

import weft
from weft.core.io import read_json, write_json
from weft.training.recipes import read_run_text

RECIPE = """
data: {type: labeled-text, train: train.tsv, validation_fraction: 0.3, tokenizer: word}
structure: {type: classifier, dim: 8}
objective: classification
learning: {type: gradient, steps: 2, batch_tokens: 50}
"""


@pytest.fixture
def trained(tmp_path):
    rows = "".join(f"{'good' if i % 2 else 'bad'} film {i}\t{i % 2}\n" for i in range(20))
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
    read_run_text(RECIPE, "recipe", tmp_path).train(tmp_path / "run", quiet=True)
    return tmp_path


def test_a_run_can_be_used_without_its_data(trained):
    before = weft.load(trained / "run").predict(["good film", "bad film"])
    (trained / "train.tsv").unlink()
    shutil.move(trained / "run", trained / "moved")
    run = weft.load(trained / "moved")
    assert run.predict(["good film", "bad film"]) == before
    with pytest.raises(ValueError, match=r"there is no file .*train\.tsv"):
        run.evaluate()


def test_a_loaded_run_has_the_metrics_of_its_training(tmp_path):
    rows = "".join(f"{'good' if i % 2 else 'bad'} film {i}\t{i % 2}\n" for i in range(20))
    for split in ("train", "test"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabel\n" + rows, encoding="utf-8")
    recipe = RECIPE.replace("train.tsv,", "train.tsv, test: test.tsv,") + "evaluate: {metrics: [accuracy, macro-f1]}"
    trained = read_run_text(recipe, "recipe", tmp_path).train(tmp_path / "run", quiet=True)
    loaded = weft.load(tmp_path / "run")
    stored = read_json(tmp_path / "run" / "metrics.json")
    assert loaded.metrics == trained.metrics != {}
    assert loaded.metrics == {name: stored[name] for name in trained.metrics}
    assert loaded.result.split == stored["split"] == "test"
    assert loaded.result.higher_is_better == trained.result.higher_is_better
    assert loaded.result.signatures == trained.result.signatures
    stored["accuracy"] = None  # written where a value is not finite
    write_json(tmp_path / "run" / "metrics.json", stored)
    assert math.isnan(weft.load(tmp_path / "run").metrics["accuracy"])
    (tmp_path / "run" / "metrics.json").unlink()
    assert weft.load(tmp_path / "run").metrics == {}


def test_evaluation_on_changed_data_is_rejected(trained):
    with (trained / "train.tsv").open("a") as file:
        file.write("new\t1\n")
    with pytest.raises(ValueError, match=r"train\.tsv is not the file of this recipe"):
        weft.load(trained / "run").evaluate()


def test_changed_weights_are_rejected(trained):
    weights = trained / "run" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or was changed: its SHA-256 is"):
        weft.load(trained / "run")
    (trained / "run" / "model.safetensors.sha256").unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors\.sha256 cannot be read"):
        weft.load(trained / "run")


def test_rows_that_are_left_out_are_reported(trained):
    (trained / "more.tsv").write_text("text\tlabel\ngood film\t1\n\t0\nbad film\t0\n\t1\n")
    run = weft.load(trained / "run")
    assert run.evaluate([trained / "more.tsv"]).remarks == ["2 of 4 rows were left out of files: 2 empty rows"]
    assert run.evaluate().remarks == []


def test_predict_of_a_language_model_names_generate(trained):
    recipe = RECIPE.replace("labeled-text", "plain-text").replace("classifier", "language-model")
    run = read_run_text(recipe.replace("classification", "next-token"), "recipe", trained).train(trained / "lm", quiet=True)
    for objective in ("next-token", "prefix-lm"):
        with pytest.raises(ValueError, match=r"generates text and predicts no label: use generate\(texts\)"):
            run.predict(["good film"])
        run = read_run_text(recipe.replace("classification", "prefix-lm"), "recipe", trained).train(
            trained / objective, quiet=True
        )
