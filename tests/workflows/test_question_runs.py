"""Questions from a file to answers: a run that learns, a published BERT that is trained on, and the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import weft
from weft.cli.app import main
from weft.core.fields import Info, TextField
from weft.inference.convert import to_published
from weft.models import bert
from weft.pretrained import load, save
from weft.training.recipes import read_run_text
from weft.training.run import Run

NAMES = ["Ann", "Bob", "Eve", "Tom", "Kim", "Liz"]
CHOICE_LABELS = ["Rome", "Oslo", "Bonn", "Kiel", "Graz", "Lyon"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "where", "is", "in", "was", "today", "?", ".", "##s"]
VOCABULARY += [word.lower() for word in (*NAMES, *CHOICE_LABELS)]


def squad(rows: int, seed: int) -> dict[str, object]:
    """Who is where: the answer is a name for one question, a city for another, and none for the third."""
    rng, paragraphs = np.random.default_rng(seed), []
    for number in range(rows):
        name, city = NAMES[rng.integers(6)], CHOICE_LABELS[rng.integers(6)]
        context = [f"{name} is in {city}.", f"Today  {name} was in {city}.", f"In {city} is {name} today."][number % 3]
        asked = [("Who is in?", name), ("Where is it?", city)]
        qas = [
            {"id": f"{number}-{k}", "question": question, "answers": [{"text": text, "answer_start": context.index(text)}]}
            for k, (question, text) in enumerate(asked)
        ]
        qas.append({"id": f"{number}-2", "question": "Was today?", "answers": [], "is_impossible": True})
        paragraphs.append({"context": context, "qas": qas})
    return {"version": "2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "train.json").write_text(json.dumps(squad(60, 1)))
    (tmp_path / "valid.json").write_text(json.dumps(squad(20, 2)))
    return tmp_path


RECIPE = """
data: {type: question-answering, train: train.json, valid: valid.json, tokenizer: TOKENIZER}
structure: STRUCTURE
objective: {type: span, max_answer_length: 4}
learning: {type: gradient, steps: STEPS, batch_tokens: 600, optimizer: {type: adamw, lr: RATE}, save_every: 0}
evaluate: {every: 0, metrics: [answer-exact-match, answer-f1], monitor: answer_f1}
"""


def run_of(folder: Path, tokenizer: str, structure: str, steps: int = 120, rate: float = 1e-2) -> Run:
    text = RECIPE
    for name, value in {"TOKENIZER": tokenizer, "STRUCTURE": structure, "STEPS": steps, "RATE": f"{rate:.4f}"}.items():
        text = text.replace(name, str(value))
    return read_run_text(text, "r.yaml", folder)


@pytest.fixture
def trained(files: Path) -> tuple[Path, weft.TrainedRun]:
    run = run_of(files, "{type: bpe, vocab_size: 80}", "{type: span-extractor, dim: 32}")
    opened = run.train(files / "run", quiet=True)
    assert opened.metrics["answer_exact_match"] > 0.9 and opened.metrics["answer_f1"] > 0.9
    return files / "run", opened


ROWS = [("Who is in?", "Today  Kim was in Oslo."), ("Where is it?", "In Graz is Bob today."), ("Was today?", "Eve is in Bonn.")]


def recipe_key(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert not left.value.code
    return capsys.readouterr().out


def test_a_run_learns_and_its_answers_are_parts_of_the_context(
    trained: tuple[Path, weft.TrainedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, run = trained
    rows = [{"question": question, "context": context} for question, context in ROWS]
    assert run.predict(rows) == ["Kim", "Graz", ""]
    again = weft.load(folder)
    assert again.predict(rows) == ["Kim", "Graz", ""]
    (folder / "lines.txt").write_text("".join(f"{question}\t{context}\n" for question, context in ROWS))
    assert recipe_key(["predict", str(folder), str(folder / "lines.txt")], capsys) == "Kim\nGraz\n\n"
    lines = recipe_key(["predict", str(folder), str(folder / "lines.txt"), "--json"], capsys).splitlines()
    assert json.loads(lines[1]) == {"question": ROWS[1][0], "context": ROWS[1][1], "answer": "Graz"}
    metric_values = json.loads(recipe_key(["evaluate", str(folder), "--json"], capsys))
    assert metric_values["answer_f1"] > 0.9 and set(metric_values["intervals"]) == {"answer_exact_match", "answer_f1"}
    worst = recipe_key(["errors", str(folder), "--max-examples", "2"], capsys)
    assert worst.count("  question: ") == worst.count("  context: ") == worst.count("  answer: ") == 2
    kept = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    assert len(kept) == 60 and all(line["prediction"] in line["reference"]["context"] for line in kept)
    assert {line["reference"]["id"] for line in kept} == {f"{n}-{k}" for n in range(20) for k in range(3)}


def test_a_line_without_its_context_is_refused(trained: tuple[Path, weft.TrainedRun], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = trained
    (folder / "lines.txt").write_text("Who is in?\n")
    with pytest.raises(SystemExit) as left:
        main(["predict", str(folder), str(folder / "lines.txt")])
    assert left.value.code == 2
    assert "line 1: one text given, but an input needs 2 (question, context), separated by tabs" in capsys.readouterr().err


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A tiny published BERT with its vocabulary."""
    target = tmp_path / "published"
    structure = bert(dim=32, layers=2, heads=2, hidden=48, length=32, dropout=0.0)
    torch.manual_seed(0)
    save(structure(Info({"text": TextField("text", len(VOCABULARY))})), structure, target)
    (target / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return target


def test_a_published_bert_learns_to_answer_and_is_written_back(files: Path, published: Path) -> None:
    import transformers as hf

    tokenizer, structure = (
        f"{{type: pretrained, from: {published}}}",
        f"{{type: pretrained, from: {published}, task: question-answering}}",
    )
    run = run_of(files, tokenizer, structure, steps=200, rate=3e-3)
    trained = run.train(files / "run", quiet=True)
    judged = trained.result
    assert judged.metric_values["answer_exact_match"] > 0.9
    rows = [{"question": question, "context": context} for question, context in ROWS]
    assert trained.predict(rows) == ["Kim", "Graz", ""]
    out = to_published(files / "run", files / "out")
    assert json.loads((out / "config.json").read_text())["architectures"] == ["BertForQuestionAnswering"]
    theirs = hf.AutoModelForQuestionAnswering.from_pretrained(out).eval()
    pieces = hf.PreTrainedTokenizerFast(tokenizer_file=str(out / "tokenizer.json"))
    for (question, context), answer in zip(ROWS[:2], ["kim", "graz"], strict=True):
        told = pieces(question, context, return_tensors="pt", return_token_type_ids=True)
        with torch.no_grad():
            result = theirs(**told)
        inside = told["token_type_ids"][0].bool()  # an answer is sought in the context alone
        begin, end = (int(x[0].where(inside, -torch.inf).argmax()) for x in (result.start_logits, result.end_logits))
        assert pieces.decode(told["input_ids"][0, begin : end + 1]) == answer
    shutil.rmtree(published)
    assert weft.load(out).predict(rows) == ["Kim", "Graz", ""]  # as a published model, with its own tokenizer


def test_the_head_begins_at_random_and_the_body_does_not(published: Path) -> None:
    loaded = load(published, task="question-answering")
    assert loaded.report.new == ["span_head.out.weight", "span_head.out.bias"]
    assert loaded.model.span_head.out.weight.shape == (2, 32)


def test_answers_far_behind_are_learned_from_windows(tmp_path: Path, files: Path) -> None:
    """Contexts of 60 tokens and more, of which the network has 24 positions: what was asked for stands behind them."""
    rng = np.random.default_rng(0)
    for name in ("train", "valid"):
        content = json.loads((files / f"{name}.json").read_text())
        for paragraph in content["data"][0]["paragraphs"]:
            before = "today . " * int(rng.integers(20, 40))
            paragraph["context"] = before + paragraph["context"]
            for answer in (answer for question in paragraph["qas"] for answer in question["answers"]):
                answer["answer_start"] += len(before)
        (files / f"{name}.json").write_text(json.dumps(content))
    (files / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    structure = "{type: bert, dim: 32, layers: 1, heads: 2, hidden: 48, length: 24, dropout: 0.0, task: question-answering}"
    run = run_of(files, "{type: pretrained, from: vocab.txt}", structure, steps=160, rate=1e-2)
    with pytest.raises(ValueError, match="positions"):
        run.train(tmp_path / "whole", quiet=True)
    text = (
        run.to_yaml()
        .replace("window: null", "window: 24")
        .replace("stride: 128", "stride: 14")
        .replace("batch_tokens: 600", "batch_tokens: 3000")
    )
    judged = read_run_text(text, "r.yaml", files).train(tmp_path / "windows", quiet=True).result
    assert judged.metric_values["answer_f1"] > 0.9
