"""A language model fine-tuned in GPT's ways from a recipe: entailment, similarity in both orders, multiple choice, each with the
loss of the language model."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.commands import weft as command

import weft
from weft.training.recipes import read_run_text

KINDS = {"animal": ["cat", "dog", "cow", "hen"], "fruit": ["pear", "plum", "fig", "kiwi"]}
WORDS = [word for kind in KINDS.values() for word in kind]


def alike(one: str, two: str) -> str:
    """The same in both orders: two animals."""
    return "yes" if one in KINDS["animal"] and two in KINDS["animal"] else "no"


def follows(one: str, two: str) -> str:
    """Not the same in both orders: something is an animal, or a fruit."""
    return "yes" if two in KINDS and one in KINDS[two] else "no"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    draw = random.Random(1)
    similar = [(a, b, alike(a, b)) for a in WORDS for b in WORDS]
    entailed = [(a, b, follows(a, b)) for a in WORDS for b in KINDS] + [(b, a, "no") for a in WORDS for b in KINDS][:8]
    for name, rows in (("similar", similar), ("entailed", entailed)):
        draw.shuffle(rows)
        (tmp_path / f"{name}.tsv").write_text("first\tsecond\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    with (tmp_path / "choices.jsonl").open("w") as file:
        for _ in range(200):
            wanted, other = draw.sample(list(KINDS), 2)
            right, *texts = draw.choice(KINDS[wanted]), *draw.sample(KINDS[other], draw.choice([1, 2]))
            texts.insert(draw.randrange(len(texts) + 1), right)
            file.write(json.dumps({"question": f"which is {wanted}", "choices": texts, "answer": right}) + "\n")
    return tmp_path


def recipe(data: str, task: str, answer: str, steps: int) -> str:
    return f"""
seed: 1
data: {{{data}, tokenizer: word, max_length: 10}}
structure: {{type: gpt, dim: 32, layers: 1, heads: 2, length: 24, dropout: 0.0, task: {task}}}
objective:
  type: weighted
  parts:
    answer: {answer}
    lm: {{type: next-token, full_sequence: true}}
  weights: {{lm: 0.5}}
learning: {{type: gradient, steps: {steps}, batch_tokens: 800, optimizer: {{type: adam, lr: 5.0e-3}}, save_every: 0}}
evaluate: {{every: 0, metrics: [accuracy]}}
"""


def pair_recipe(name: str, order: str, steps: int = 150) -> str:
    data = f"type: sentence-pairs, train: {name}.tsv, valid: {name}.tsv"
    return recipe(data, "classification", f"{{type: classification, pair_order: {order}, bos: true}}", steps)


def test_entailment(files: Path) -> None:
    judged = read_run_text(pair_recipe("entailed", "given"), "r.yaml", files).train(files / "run", quiet=True).result
    assert judged.metric_values["accuracy"] > 0.95
    asked = [{"first": "cat", "second": "animal"}, {"first": "cat", "second": "fruit"}, {"first": "fruit", "second": "fig"}]
    assert weft.load(files / "run").predict(asked)[:2] == ["yes", "no"]
    answer = command("predict", files / "run", given=b"plum\tfruit\nplum\tanimal\n")
    assert answer.code == 0 and answer.out.split() == ["yes", "no"]


def test_similarity_is_the_same_in_both_orders(files: Path) -> None:
    judged = read_run_text(pair_recipe("similar", "both"), "r.yaml", files).train(files / "run", quiet=True).result
    assert judged.metric_values["accuracy"] > 0.95
    run = weft.load(files / "run")
    pairs = [("cat", "plum"), ("hen", "dog"), ("fig", "kiwi")]
    one, two = (list(run.predictions([{"first": p[i], "second": p[1 - i]} for p in pairs])) for i in (0, 1))
    for a, b in zip(one, two, strict=True):
        assert a.probabilities == pytest.approx(b.probabilities, abs=1e-5)
    assert run.predict([{"first": a, "second": b} for a, b in pairs]) == ["no", "yes", "no"]
    (files / "r.yaml").write_text(pair_recipe("similar", "both"))
    assert command("check", files / "r.yaml").code == 0


def test_multiple_choice(files: Path) -> None:
    data = "type: multiple-choice, train: choices.jsonl, valid: choices.jsonl"
    text = recipe(data, "multiple-choice", "{type: multiple-choice, bos: true}", 120)
    judged = read_run_text(text, "r.yaml", files).train(files / "run", quiet=True).result
    assert judged.metric_values["accuracy"] > 0.9
    asked = [
        {"question": "which is animal", "choices": ["pear", "dog"]},
        {"question": "which is fruit", "choices": ["pear", "dog"]},
    ]
    assert weft.load(files / "run").predict(asked) == ["B", "A"]


def test_invalid_recipes_are_refused_with_file_and_line(files: Path) -> None:
    other = pair_recipe("similar", "both").replace(
        "{type: gpt, dim: 32, layers: 1, heads: 2, length: 24, dropout: 0.0, task: classification}", "classifier"
    )
    with pytest.raises(ValueError, match="needs a structure that provides Decodes"):
        read_run_text(other, "r.yaml", files).train(files / "run", quiet=True)
