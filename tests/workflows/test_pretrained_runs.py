"""From a published folder to a trained run and back: recipes, vectors, conversion."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import weft
from weft.core.fields import Info, TextField
from weft.inference.convert import to_published
from weft.inference.embedding import open_embedder
from weft.models import bert
from weft.pretrained import load, save
from weft.training.recipes import read_run_text

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fine", "poor", "film", "play", "very", "not"]
WORDS += ["it", "was", "a", "the", "and", "but", "##s", "##ly", "."]
SIZES = {"dim": 16, "layers": 2, "heads": 2, "hidden": 24, "length": 32, "dropout": 0.0}
TEXTS = [
    ("good film", "yes"),
    ("bad play", "no"),
    ("fine film", "yes"),
    ("poor play", "no"),
    ("very good", "yes"),
    ("not good", "no"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny published BERT with its vocabulary."""
    target = tmp_path / "published"
    structure = bert(**SIZES)
    torch.manual_seed(0)
    save(structure(Info({"text": TextField("text", len(WORDS))})), structure, target)
    (target / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return target


@pytest.fixture
def recipe(tmp_path: Path, folder: Path) -> str:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in TEXTS * 4))
    return f"""
data: {{type: labeled-text, train: train.tsv, valid: train.tsv, tokenizer: {{type: pretrained, from: {folder}}}, max_length: 20}}
structure: {{type: pretrained, from: {folder}, task: classification, pooler: mean}}
objective: classification
learning: {{type: gradient, steps: 30, batch_tokens: 200, optimizer: {{type: adamw, lr: 1.0e-2}}, save_every: 0}}
evaluate: {{every: 0, metrics: [accuracy]}}
"""


def test_a_recipe_begins_with_published_weights_and_its_run_needs_the_folder_no_more(
    tmp_path: Path, folder: Path, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = read_run_text(recipe, "r.yaml", tmp_path)
    judged = run.train(tmp_path / "run").result
    assert judged.metric_values["accuracy"] == 1.0
    assert "tensors loaded; newly initialized: classifier.out.weight, classifier.out.bias; not used: " in capsys.readouterr().err
    filled = (tmp_path / "run/recipe.yaml").read_text()
    assert "type: classifier" in filled and f"path: {folder}" in filled  # what it is composed of, and where it began
    shutil.rmtree(folder)
    again = weft.load(tmp_path / "run")
    assert again.predict(["very good film", "bad play"]) == ["yes", "no"]


def test_training_really_begins_there(tmp_path: Path, folder: Path, recipe: str) -> None:
    still = recipe.replace("steps: 30", "steps: 1").replace("lr: 1.0e-2", "lr: 1.0e-12")
    run = read_run_text(still, "r.yaml", tmp_path)
    trained = run.train(tmp_path / "run", quiet=True)
    published = load(folder).model
    assert torch.allclose(
        trained.model.encoder.stack.layers[1].mixer.out.weight, published.encoder.stack.layers[1].mixer.out.weight
    )


def test_texts_are_framed_as_the_published_tokenizer_does(tmp_path: Path, recipe: str) -> None:
    run = read_run_text(recipe, "r.yaml", tmp_path)
    corpus = run.data().open()
    frame = corpus.codec.info["text"].frame
    cls, sep = WORDS.index("[CLS]"), WORDS.index("[SEP]")
    assert (frame.first, frame.between, frame.last, frame.segments) == ((cls,), (sep,), (sep,), True)
    objective = run.objective(corpus.codec.info, 16)
    made = objective.prepare(corpus.splits["train"][0], None, None)["text"]
    assert made[0] == cls and made[-1] == sep


def test_a_structure_that_the_weights_do_not_fit_is_refused_with_file_and_line(tmp_path: Path, folder: Path, recipe: str) -> None:
    other = recipe.replace(
        f"{{type: pretrained, from: {folder}, task: classification, pooler: mean}}",
        f"{{type: bert, task: classification, dim: 16, layers: 2, heads: 2, hidden: 99, length: 32, weights: {folder}}}",
    )
    run = read_run_text(other, "r.yaml", tmp_path)
    with pytest.raises(
        ValueError,
        match=r"structure: .*the weights do not fit this structure: .*has shape \(24, 16\), expected \(99, 16\)",
    ):
        run.train(tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_another_tokenizers_ids_never_take_a_published_models_rows(tmp_path: Path, folder: Path, recipe: str) -> None:
    """Fewer ids than the published tokenizer has: the first rows would be other tokens' vectors."""
    other = re.sub(r"tokenizer: \{type: pretrained[^}]*\}", "tokenizer: word", recipe)
    assert other != recipe
    with pytest.raises(ValueError, match="the number of token ids differs; tokenize the data with the tokenizer"):
        read_run_text(other, "r.yaml", tmp_path).train(tmp_path / "run", quiet=True)


def test_a_run_can_begin_with_another_runs_weights(tmp_path: Path, recipe: str) -> None:
    read_run_text(recipe, "r.yaml", tmp_path).train(tmp_path / "first", quiet=True)
    second = recipe.replace("structure: {type: pretrained", "structure: {type: bert").split("structure:")[0]
    rest = recipe.split("objective:")[1]
    sizes = "dim: 16, layers: 2, heads: 2, hidden: 24, length: 32, dropout: 0.0"
    own = f"structure: {{type: bert, task: classification, pooler: mean, {sizes}, weights: first}}"
    text = f"{second}{own}\nobjective:{rest}".replace("steps: 30", "steps: 1").replace("lr: 1.0e-2", "lr: 1.0e-12")
    judged = read_run_text(text, "r.yaml", tmp_path).train(tmp_path / "second", quiet=True).result
    assert judged.metric_values["accuracy"] == 1.0


def test_a_run_is_converted_to_the_published_layout_and_reads_back_the_same(tmp_path: Path, recipe: str) -> None:
    import transformers as hf

    with_cls = recipe.replace(", pooler: mean", "")
    run = read_run_text(with_cls, "r.yaml", tmp_path)
    trained = run.train(tmp_path / "run", quiet=True)
    out = to_published(tmp_path / "run", tmp_path / "out")
    theirs = hf.AutoModelForSequenceClassification.from_pretrained(out).eval()
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(out / "tokenizer.json"))
    texts = ["very good film", "bad play ."]
    for text, answer in zip(texts, trained.predictions(texts), strict=True):
        with torch.no_grad():
            logits = theirs(**tokenizer(text, return_tensors="pt", return_token_type_ids=True)).logits[0]
        shares = {theirs.config.id2label[i]: float(p) for i, p in enumerate(logits.softmax(-1))}
        assert shares == pytest.approx(answer.probabilities, abs=1e-5)
    assert weft.load(out).predict(texts) == trained.predict(texts)
    with pytest.raises(ValueError, match="already exists and is not empty"):
        to_published(tmp_path / "run", out)


def test_vectors_of_texts_do_not_depend_on_their_company(folder: Path) -> None:
    vectors_of = open_embedder(folder)
    texts = ["good film", "it was a very good film and a fine play", "not", "bad play . " * 20]
    together = vectors_of(texts)
    alone = np.stack([vectors_of([text])[0] for text in texts])
    assert np.abs(together - alone).max() < 1e-5
    assert np.allclose(np.linalg.norm(together, axis=1), 1)
    assert vectors_of.truncated == 2 and vectors_of.max_length == 32  # the long one, both times
    assert vectors_of.nearest("good film", texts, together, 1)[0][1] == "good film"


def test_embed_on_the_command_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.cli.app import main

    (tmp_path / "lines.txt").write_text("good film\nbad play\n")
    with pytest.raises(SystemExit) as left:
        main(
            [
                "embed",
                str(folder),
                str(tmp_path / "lines.txt"),
                "--out",
                str(tmp_path / "v.npy"),
                "--query",
                "bad play",
                "--top-k",
                "1",
            ]
        )
    assert not left.value.code
    assert capsys.readouterr().out == "1.0000\tbad play\n"
    assert np.load(tmp_path / "v.npy").shape == (2, 16)
    with pytest.raises(SystemExit):
        main(["embed", str(folder), str(tmp_path / "lines.txt")])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == ["good film", "bad play"] and len(rows[0]["vector"]) == 16


def test_minilm_gives_the_vectors_of_its_recipe() -> None:
    """Mean of the last states, 1 long: as sentence-transformers computes it, here by the package transformers."""
    import transformers as hf

    from weft.core.hub import find_model

    vectors_of = open_embedder("minilm")
    path = str(find_model("minilm"))
    tokenizer, model = hf.AutoTokenizer.from_pretrained(path), hf.AutoModel.from_pretrained(path).eval()
    awkward = [
        "",
        " ",
        "Café Zürich naïve Ångström",
        "日本語のテキスト 中文",
        "a\u0301 e\u0308",
        "🙂👩‍👩‍👧 flags 🇩🇪",
        "tab\tnew\nline\x07\u200b\u00ad",
        "x" * 300,
    ]
    texts = ["A man is eating food.", *awkward, "the end " * 200]
    found = vectors_of(texts)
    for text, vector in zip(texts, found, strict=True):
        told = tokenizer(text, return_tensors="pt", truncation=True, max_length=vectors_of.max_length)
        field = vectors_of.codec.info["text"]
        ids = vectors_of.codec.tokenizers["text"].encode(text)[: vectors_of.max_length - 2]
        assert [*field.frame.first, *ids, *field.frame.last] == told["input_ids"][0].tolist()
        with torch.no_grad():
            mean = model(**told).last_hidden_state[0].mean(0)
        assert np.abs(vector - (mean / mean.norm()).numpy()).max() < 1e-5
