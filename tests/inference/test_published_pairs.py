"""A published classifier predicts texts and pairs of texts with segment ids, as transformers does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from typer.testing import CliRunner

import weft
from weft.cli.app import app
from weft.inference.convert import to_published, to_run
from weft.inspect.inspection import inspect_texts
from weft.training.recipes import read_run_text

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fine", "poor", "film", "play", "very", "not"]
WORDS += ["it", "was", "a", "the", "and", "but", "##s", "##ly", "."]
PAIRS = [("good film", "it was a bad play ."), ("the film was fine", "good"), ("bad", "not very good plays .")]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
LARGE = {"max_position_embeddings": 24, "initializer_range": 0.5}


def write(folder: Path, **more: Any) -> Path:
    """A tiny BERT that classifies, with its tokenizer, as transformers writes them."""
    hf.BertForSequenceClassification(hf.BertConfig(vocab_size=len(WORDS), **SIZES, **LARGE, **more)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    hf.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    return write(tmp_path_factory.mktemp("pairs") / "bert", num_labels=3)


def theirs(folder: Path, *texts: str) -> torch.Tensor:
    """The logits that transformers gives of a text or a pair."""
    told = hf.AutoTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")
    assert "token_type_ids" in told
    with torch.no_grad():
        return hf.AutoModelForSequenceClassification.from_pretrained(folder).eval()(**told).logits[0]


def shares(run: weft.TrainedRun, rows: list[Any]) -> list[list[float]]:
    return [list(answer.probabilities.values()) for answer in run.predictions(rows)]


@pytest.mark.parametrize("converted", [False, True])
def test_predictions_of_texts_and_pairs_equal_transformers(folder: Path, tmp_path: Path, converted: bool) -> None:
    run = weft.load(to_run(folder, tmp_path / "run") if converted else folder, "cpu")
    tabbed = [f"{first}\t{second}" for first, second in PAIRS]
    named = [{"second": second, "first": first} for first, second in PAIRS]
    wanted = [theirs(folder, *pair).softmax(-1).tolist() for pair in PAIRS]
    for rows in (PAIRS, [list(pair) for pair in PAIRS], tabbed, named):
        for mine, own in zip(shares(run, list(rows)), wanted, strict=True):
            assert mine == pytest.approx(own, abs=1e-5)
    mixed = [PAIRS[0], "good film", "it was a very good film and a fine play .", tabbed[1]]  # with and without segments
    own = [theirs(folder, *(row if isinstance(row, tuple) else row.split("\t"))).softmax(-1).tolist() for row in mixed]
    for mine, others in zip(shares(run, mixed), own, strict=True):
        assert mine == pytest.approx(others, abs=1e-5)
    assert any(abs(a - b) > 0.01 for a, b in zip(own[1], theirs(folder, *PAIRS[0]).softmax(-1).tolist(), strict=True))


@pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
def test_regression_and_multi_label_classification_of_pairs(problem: str, tmp_path: Path) -> None:
    run_folder = write(tmp_path / "bert", problem_type=problem, num_labels=1 if problem == "regression" else 3)
    run, wanted = weft.load(run_folder, "cpu"), theirs(run_folder, *PAIRS[0])
    if problem == "regression":
        assert float(run.predict(PAIRS[:1])[0]) == pytest.approx(float(wanted), abs=1e-3)  # as it is written
    else:
        assert shares(run, PAIRS[:1])[0] == pytest.approx(wanted.sigmoid().tolist(), abs=1e-5)


def test_the_command_accepts_pairs_separated_by_tabs(folder: Path) -> None:
    lines = ["good film", "\t".join(PAIRS[0])]
    done = CliRunner().invoke(app, ["predict", str(folder), "--json"], input="\n".join(lines) + "\n")
    assert done.exit_code == 0, done.output
    text, pair = (json.loads(line) for line in done.stdout.splitlines())
    assert text["text"] == "good film" and (pair["first"], pair["second"]) == PAIRS[0]
    assert list(pair["probabilities"].values()) == pytest.approx(theirs(folder, *PAIRS[0]).softmax(-1).tolist(), abs=1e-5)


def test_more_than_two_texts_are_rejected(folder: Path) -> None:
    run = weft.load(folder, "cpu")
    for row in (("a", "good", "film"), "a\tgood\tfilm"):
        with pytest.raises(ValueError, match=r"3 texts given, but an input needs 2 \(first, second\)"):
            run.predict([row])
    with pytest.raises(ValueError, match="has no second"):
        run.predict([{"first": "a"}])


def test_a_pair_can_be_inspected(folder: Path) -> None:
    pair, text = inspect_texts(weft.load(folder, "cpu"), ["good film\tbad", "good film"])
    assert list(pair.source)[1:3] == list(text.source)[1:3] == ["good", "film"]
    assert (len(pair.source), len(text.source)) == (6, 4) and pair.source[4] == "bad"
    assert dict(pair.classes) != dict(text.classes)


def test_a_converted_tokenizer_returns_segment_ids(folder: Path, tmp_path: Path) -> None:
    rows = [f"{first}\t{second}\t{label}\n" for (first, second), label in zip(PAIRS, "ynm", strict=True)]
    (tmp_path / "rows.tsv").write_text("first\tsecond\tlabel\n" + "".join(rows * 2))
    recipe = f"""
data: {{type: sentence-pairs, train: rows.tsv, validation_fraction: 0, max_length: 10,
  tokenizer: {{type: pretrained, from: {folder}}}}}
structure: {{type: pretrained, from: {folder}, task: classification}}
objective: classification
learning: {{type: gradient, steps: 2}}
device: cpu
"""
    run = read_run_text(recipe, "r.yaml", tmp_path)
    run.train(tmp_path / "run", quiet=True)
    out = to_published(tmp_path / "run", tmp_path / "out")
    own: Any = hf.BertTokenizer(str(folder / "vocab.txt"))
    again = hf.AutoTokenizer.from_pretrained(out)
    for texts in (PAIRS[0], PAIRS[1], ("good film",)):
        assert dict(again(*texts)) == dict(own(*texts))
    for mine, pair in zip(shares(weft.load(tmp_path / "run", "cpu"), PAIRS), PAIRS, strict=True):
        assert mine == pytest.approx(theirs(out, *pair).softmax(-1).tolist(), abs=1e-5)
    for mine, pair in zip(shares(weft.load(out, "cpu"), PAIRS), PAIRS, strict=True):
        assert mine == pytest.approx(theirs(out, *pair).softmax(-1).tolist(), abs=1e-5)


def test_a_model_without_segment_embeddings_gets_no_segment_ids(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("good film\nbad play\n" * 8)
    recipe = f"""
data: {{type: plain-text, train: text.txt, valid: text.txt, tokenizer: {{type: pretrained, from: {folder}}}}}
structure: {{type: gpt2, dim: 16, layers: 1, heads: 2, length: 32}}
objective: next-token
learning: {{type: gradient, steps: 1}}
device: cpu
"""
    read_run_text(recipe, "r.yaml", tmp_path).train(tmp_path / "run", quiet=True)
    out = to_published(tmp_path / "run", tmp_path / "out")
    assert "token_type_ids" not in hf.AutoTokenizer.from_pretrained(out)(*PAIRS[0])
