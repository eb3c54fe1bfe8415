"""A classifier with mean pooling is published as modules of sentence-transformers, and predicts the same when loaded again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import weft
from weft.inference.convert import to_published, to_run
from weft.inference.embedding import open_embedder
from weft.pretrained import load
from weft.training.recipes import read_run_text

RECIPE = """
seed: 1
data: {type: labeled-text, train: train.tsv, validation_fraction: 0.2, tokenizer: wordpiece}
structure: {type: bert, dim: 16, layers: 2, heads: 2, hidden: 32, length: 40, task: classification, pooler: POOLER}
objective: classification
learning: {type: gradient, epochs: 2, batch_size: 8, optimizer: {type: adam, lr: 0.01}}
evaluate: {metrics: [accuracy]}
"""
TEXTS = ["a fine film", "dull", "the play was a very dull one, and long", ""]
FILES = ("model.safetensors", "2_Dense/model.safetensors", "config.json", "modules.json", "1_Pooling/config.json")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pooled")
    rows = "a fine film\tgood\na dull film\tbad\nfine acting\tgood\nthe play was dull\tbad\nso so it was\tmixed\n" * 8
    (folder / "train.tsv").write_text("text\tlabel\n" + rows)
    for pooler in ("mean", "max"):
        read_run_text(RECIPE.replace("POOLER", pooler), "r.yaml", folder).train(folder / pooler, quiet=True)
        to_published(folder / pooler, folder / f"{pooler}-published")
    return folder


@pytest.mark.parametrize("pooler", ["mean", "max"])
def test_loaded_again_it_predicts_the_same(home: Path, pooler: str) -> None:
    before, after = weft.load(home / pooler, "cpu"), weft.load(home / f"{pooler}-published", "cpu")
    for one, other in zip(before.predictions(TEXTS[:3]), after.predictions(TEXTS[:3]), strict=True):
        assert one.text == other.text
        assert other.probabilities == pytest.approx(one.probabilities, abs=1e-6)
    old, new = (open_embedder(home / name, "cpu")(TEXTS) for name in (pooler, f"{pooler}-published"))
    np.testing.assert_allclose(new, old, atol=1e-6)


@pytest.mark.parametrize("pooler", ["mean", "max"])
def test_sentence_transformers_computes_the_same(home: Path, pooler: str) -> None:
    package = pytest.importorskip("sentence_transformers")
    model = package.SentenceTransformer(str(home / f"{pooler}-published"), device="cpu")
    np.testing.assert_allclose(
        model.encode(TEXTS[:3], normalize_embeddings=True), open_embedder(home / pooler, "cpu")(TEXTS[:3]), atol=1e-5
    )
    logits = torch.stack([row["logits"] for row in model.encode(TEXTS[:3], output_value=None)])
    names = json.loads((home / f"{pooler}-published" / "config.json").read_text())["id2label"]
    run = weft.load(home / pooler, "cpu")
    for row, prediction in zip(logits.softmax(-1).tolist(), run.predictions(TEXTS[:3]), strict=True):
        assert {names[str(i)]: p for i, p in enumerate(row)} == pytest.approx(prediction.probabilities, abs=1e-5)


def test_it_converts_back_and_forth_without_loss(home: Path, tmp_path: Path) -> None:
    to_run(home / "mean-published", tmp_path / "run")
    to_published(tmp_path / "run", tmp_path / "again")
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (home / "mean-published" / name).read_bytes(), name


def test_saving_writes_the_current_head(home: Path, tmp_path: Path) -> None:
    model = load(home / "mean-published")
    head = model.model.get_submodule("classifier.out")
    with torch.no_grad():
        head.weight.mul_(2)  # pyright: ignore[reportCallIssue, reportArgumentType]
    model.save(tmp_path / "saved")
    torch.testing.assert_close(load(tmp_path / "saved").model.get_submodule("classifier.out").weight, head.weight)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("2_Dense/config.json", {"activation_function": "os.system"}, "activation_function of the classifier must be"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "max"]}, "pooling mean, max of a classifier"),
        ("1_Pooling/config.json", {"pooling_mode": "guess"}, "unknown pooling_mode 'guess'"),
    ],
)
def test_a_head_that_weft_does_not_compute_is_refused(
    home: Path, tmp_path: Path, file: str, change: dict[str, object], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(home / "mean-published", folder)
    (folder / "SHA256SUMS").unlink()
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        weft.load(folder, "cpu")


def test_a_module_outside_of_the_folder_is_not_read(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(home / "mean-published", folder)
    (folder / "SHA256SUMS").unlink()
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["path"] = "../mean-published/2_Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert "label" not in load(folder).info
