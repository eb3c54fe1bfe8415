"""Multiple choice from a file to predictions: trained, judged, asked, converted."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from tests.commands import weft as command

import weft
from weft.core.fields import Info, TextField
from weft.inference.convert import to_published
from weft.models import bert
from weft.pretrained import save
from weft.training.recipes import read_run_text

KINDS = {"animal": ["cat", "dog", "cow", "hen"], "fruit": ["pear", "plum", "fig", "kiwi"]}
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "which",
    "is",
    "an",
    "?",
    *KINDS,
    *(w for kind in KINDS.values() for w in kind),
]


def rows(number: int, seed: int) -> list[dict[str, object]]:
    """One choice is of the kind that is asked for; which word that is tells nothing without the question."""
    draw, made = random.Random(seed), []
    for _ in range(number):
        wanted, other = draw.sample(list(KINDS), 2)
        texts = [draw.choice(KINDS[wanted]), *draw.sample(KINDS[other], draw.choice([1, 2, 3]))]
        right = texts[0]
        draw.shuffle(texts)
        made.append({"question": f"which is an {wanted} ?", "choices": texts, "answer": right})
    return made


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, number in (("train", 400), ("valid", 60)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(number, len(name) * number)))
    return tmp_path


RECIPE = """
seed: 1
data: {type: multiple-choice, train: train.jsonl, valid: valid.jsonl, tokenizer: word}
structure: {type: multiple-choice, dim: 32}
objective: multiple-choice
learning: {type: gradient, steps: 120, batch_tokens: 1000, optimizer: {type: adam, lr: 1.0e-2}, save_every: 0}
evaluate: {every: 0, metrics: [accuracy]}
"""


def test_it_learns_and_is_asked(files: Path) -> None:
    run = read_run_text(RECIPE, "r.yaml", files)
    judged = run.train(files / "run", quiet=True).result
    assert judged.metric_values["accuracy"] > 0.9  # chance is about 0.36
    again = weft.load(files / "run")
    asked = [
        {"question": "which is an animal ?", "choices": ["pear", "dog"]},
        {"question": "which is an fruit ?", "choices": ["pear", "dog"]},
        {"question": "which is an fruit ?", "choices": "cat\then\tcow\tfig"},
    ]
    assert again.predict(asked) == ["B", "A", "D"]
    answers = list(again.predictions(asked))
    assert [list(a.probabilities) for a in answers] == [["A", "B"], ["A", "B"], ["A", "B", "C", "D"]]
    assert all(sum(a.probabilities.values()) == pytest.approx(1) for a in answers)
    with pytest.raises(ValueError, match=r"an input needs 2 \(question, two choices or more\)"):
        again.predict(["which is an animal ?"])
    worst = again.errors(max_examples=3)
    assert len(worst) == 3 and worst[0].loss >= worst[1].loss and set(worst[0].reference) == {"question", "choices", "label"}


def test_on_the_command_line(files: Path) -> None:
    recipe = files / "r.yaml"
    recipe.write_text(RECIPE.replace("steps: 120", "steps: 3"))
    assert command("train", recipe, "--run", files / "run", "-q").code == 0
    lines = "which is an animal ?\tpear\tdog\nwhich is an fruit ?\tcat\then\tfig\n"
    answer = command("predict", files / "run", given=lines.encode())
    assert answer.code == 0 and len(answer.out.split()) == 2 and set(answer.out.split()) <= {"A", "B", "C"}
    first, second = map(json.loads, command("predict", files / "run", "--json", given=lines.encode()).out.splitlines())
    assert first["choices"] == ["pear", "dog"] and set(first["probabilities"]) == {"A", "B"}
    assert second["question"] == "which is an fruit ?" and set(second["probabilities"]) == {"A", "B", "C"}
    refused = command("predict", files / "run", given=b"which is an animal ?\tpear\n")
    assert refused.code == 2 and "line 1: an input needs question, two choices or more" in refused.err
    judged = command("evaluate", files / "run", files / "valid.jsonl", "--json")
    assert 0 <= json.loads(judged.out)["accuracy"] <= 1
    assert json.loads(command("evaluate", files / "run", "--json").out)["accuracy"] == json.loads(judged.out)["accuracy"]
    shown = command("errors", files / "run", "--max-examples", "1").out
    assert "  choices: " in shown and " | " in shown and "\t" not in shown
    checked = command("check", recipe)
    assert checked.code == 0 and "choices (texts, up to" in checked.out


def test_without_the_question_nothing_but_the_choices_is_read(files: Path) -> None:
    alone = RECIPE.replace("tokenizer: word", "tokenizer: word, include_question: false").replace("steps: 120", "steps: 3")
    run = read_run_text(alone, "r.yaml", files)
    trained = run.train(files / "run", quiet=True)
    one, two = (next(trained.predictions([{"question": q, "choices": ["pear", "dog"]}])) for q in ("an animal ?", "a fruit ?"))
    assert one.probabilities == two.probabilities
    answer = command("predict", files / "run", given=b"pear\tdog\n")
    assert answer.code == 0 and answer.out.strip() in ("A", "B")


def test_a_recipe_that_classifies_such_data_is_refused(files: Path) -> None:
    text = RECIPE.replace("structure: {type: multiple-choice", "structure: {type: classifier").replace(
        "objective: multiple-choice", "objective: classification"
    )
    with pytest.raises(ValueError, match="use the objective multiple-choice"):
        read_run_text(text, "r.yaml", files).train(files / "run", quiet=True)
    with pytest.raises(
        ValueError,
        match="'multiple-choice' needs a structure that provides ScoresChoices, but the structure 'classifier' provides",
    ):
        read_run_text(RECIPE.replace("structure: {type: multiple-choice", "structure: {type: classifier"), "r.yaml", files).train(
            files / "run", quiet=True
        )


def test_a_language_model_chooses_gpts_way(files: Path) -> None:
    text = RECIPE.replace(
        "structure: {type: multiple-choice, dim: 32}",
        "structure: {type: language-model, dim: 32, pooler: last, decoder: {type: lstm}}",
    )
    judged = read_run_text(text, "r.yaml", files).train(files / "run", quiet=True).result
    assert judged.metric_values["accuracy"] > 0.8


def test_a_published_bert_chooses_and_goes_back(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import transformers as hf

    folder = files / "published"
    structure = bert(dim=16, layers=1, heads=2, hidden=24, length=32, dropout=0.0)
    torch.manual_seed(0)
    save(structure(Info({"text": TextField("text", len(WORDS))})), structure, folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    text = (
        RECIPE.replace("tokenizer: word", f"tokenizer: {{type: pretrained, from: {folder}}}")
        .replace(
            "structure: {type: multiple-choice, dim: 32}",
            f"structure: {{type: pretrained, from: {folder}, task: multiple-choice}}",
        )
        .replace("lr: 1.0e-2", "lr: 3.0e-3")
    )
    run = read_run_text(text, "r.yaml", files)
    trained = run.train(files / "run")
    judged = trained.result
    assert "newly initialized: choice_head.out.weight, choice_head.out.bias; not used: " in capsys.readouterr().err
    assert judged.metric_values["accuracy"] > 0.8
    out = to_published(files / "run", files / "out")
    theirs = hf.AutoModelForMultipleChoice.from_pretrained(out).eval()
    assert type(theirs).__name__ == "BertForMultipleChoice"
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(out / "tokenizer.json"), pad_token="[PAD]")
    row = {"question": "which is an animal ?", "choices": ["pear", "dog", "fig"]}
    told = tokenizer([row["question"]] * 3, row["choices"], return_tensors="pt", padding=True, return_token_type_ids=True)
    with torch.no_grad():
        shares = theirs(**{key: value[None] for key, value in told.items()}).logits[0].softmax(-1)
    assert list(next(trained.predictions([row])).probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-5)
    assert weft.load(out).predict([row]) == trained.predict([row])
