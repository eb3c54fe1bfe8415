"""An autoencoder from files by class to what it writes: trained, asked, judged, found wrong, loaded, and its classifier."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.cli.app import main
from weft.inference.load import load
from weft.recipe import RecipeError, parse, to_yaml
from weft.training.recipes import read_run, read_run_text
from weft.training.run import Run

RECIPE = """
data:
  type: autoencoding-text
  train: TRAIN
  valid: VALID
  tokenizer: {type: word, lowercase: true}
  target_tokenizer: TARGET
  min_words: 1
  max_words: 8
structure: {type: seq2seq, dim: 16}
objective: next-token
learning: {type: gradient, steps: 5, batch_tokens: 200}
evaluate: {metrics: [bleu, {type: exact-match}], search: {type: greedy, max_length: 6}}
"""
NOUNS = ["food", "staff", "place", "beer", "room", "price"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, word in (("good", "great"), ("bad", "awful")):
        (tmp_path / f"{name}.txt").write_text("".join(f"The {noun} was {word}.\n" for noun in NOUNS))
        (tmp_path / f"{name}-valid.txt").write_text(f"the {NOUNS[0]} was {word} too\nall was {word}\n")
    return tmp_path


def recipe(classes: bool, target: str = "{type: character, vocab_size: 60}") -> str:
    train, valid = "[good.txt, bad.txt]", "[good-valid.txt, bad-valid.txt]"
    if classes:
        train, valid = "{good: good.txt, bad: [bad.txt]}", "{bad: bad-valid.txt, good: good-valid.txt}"
    return RECIPE.replace("TRAIN", train).replace("VALID", valid).replace("TARGET", target)


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("target", ["{type: character, vocab_size: 60}", "null"])
def test_a_run_reads_one_text_and_writes_it(home: Path, classes: bool, target: str) -> None:
    run = read_run_text(recipe(classes, target), "r.yaml", home)
    trained = run.train(home / "run", quiet=True)
    judged = trained.result
    assert {"loss", "bleu", "exact_match"} <= set(judged.metric_values) and len(judged.predictions) == 4
    assert ("label" in judged.references[0]) == classes
    again = load(home / "run")
    asked = ["The food was great.", "all was awful"]
    written = again.generate(asked)
    assert written == trained.generate(asked) == again.predict(asked) == again.predict([{"source": text} for text in asked])
    assert written == again.predict([(text,) for text in asked])  # a tuple of one text
    assert len(list(again.hypotheses(asked))) == 2
    assert [answer.kind for answer in again.predictions(asked)] == ["text", "text"]
    assert again.evaluate().metric_values == pytest.approx(judged.metric_values)
    wrong = again.errors(max_examples=3)
    assert len(wrong) == 3 and all(error.reference["source"] == error.reference["target"] for error in wrong)
    assert [error.loss for error in wrong] == sorted((error.loss for error in wrong), reverse=True)
    assert not (home / "run" / "confusion.png").exists()  # what is written are no classes
    with pytest.raises(ValueError, match=r"one source, but .* has 2 texts"):
        again.predict([("one", "two")])


def test_the_runs_own_recipe_has_each_file_with_its_hash(home: Path) -> None:
    run = read_run_text(recipe(True), "r.yaml", home)
    run.train(home / "run", quiet=True)
    written = parse((home / "run" / "recipe.yaml").read_text(), "recipe.yaml").plain()["data"]["train"]
    assert list(written) == ["good", "bad"] and written["good"]["path"] == str((home / "good.txt").resolve())
    assert isinstance(written["bad"], list) and len(written["bad"][0]["sha256"]) == 64
    again = read_run(home / "run" / "recipe.yaml")
    assert again.dump() == run.checked().dump() == read_run_text(to_yaml(run.dump()), "r.yaml", Path("/")).dump()
    again.train(home / "twice", quiet=True)
    assert (home / "twice" / "model.safetensors").read_bytes() == (home / "run" / "model.safetensors").read_bytes()
    (home / "bad.txt").write_text("changed\n")
    with pytest.raises(RecipeError, match=r"recipe\.yaml:\d+: data\.train\.bad\.0: .*bad\.txt is not the file of this recipe"):
        read_run(home / "run" / "recipe.yaml")
    for file in home.glob("*.txt"):
        file.unlink()
    assert len(load(home / "run").generate(["all was great"])) == 1  # used without what it was trained on


def test_classes_on_the_command_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe(True)
    dumped = [
        read_run_text(text, "r.yaml", home, [change]).dump()["data"]["train"]
        for change in ("data.train.good=bad.txt", "data.train={bad: bad.txt, good: [bad.txt]}", "data.train.bad.0=good.txt")
    ]
    good, bad = (str((home / name).resolve()) for name in ("good.txt", "bad.txt"))
    assert dumped == [{"good": bad, "bad": [bad]}, {"bad": bad, "good": [bad]}, {"good": good, "bad": [good]}]
    with pytest.raises(RecipeError, match=r"data: train has a class 'type'; override all classes at once"):
        read_run_text(recipe(False), "r.yaml", home, ["data.train=good.txt", "data.train.bad=bad.txt"]).data()
    (home / "r.yaml").write_text(text)
    with pytest.raises(SystemExit) as left:
        main(["check", str(home / "r.yaml")])
    assert not left.value.code
    assert (
        "autoencoding-text: source (text, up to 30,000 ids), target (text, up to 60 ids), label (label, up to 2 classes)"
        in capsys.readouterr().out
    )
    Path(home / "other.tsv").write_text("text\tlabel\nall was great\tgood\n")
    read_run_text(text, "r.yaml", home).train(home / "run", quiet=True)
    with pytest.raises(SystemExit) as left:
        main(["evaluate", str(home / "run"), str(home / "other.tsv"), "--json"])
    assert not left.value.code and "bleu" in json.loads(capsys.readouterr().out)


def test_too_few_examples_for_a_metric_are_reported_before_training(home: Path) -> None:
    (home / "one.txt").write_text("the food was great\n")
    told, changes = "the metric self-bleu needs at least 2 examples, but {} 1", ["evaluate.metrics=[self-bleu]"]
    for more, few in (
        (["data.valid=one.txt"], "valid has"),
        (["evaluate.max_examples=1", "evaluate.every=1"], "evaluate.max_examples is"),
    ):
        run = read_run_text(recipe(False), "r.yaml", home, [*changes, *more])
        with pytest.raises(ValueError, match=told.format(few)):
            run.train(home / "run", quiet=True)
        assert not list(home.glob("run/checkpoints/*"))


def test_check_opens_no_file(home: Path) -> None:
    run = read_run_text(recipe(True), "r.yaml", home)
    for file in home.glob("*.txt"):
        file.write_bytes(b"\xff\xfe")
    assert run.data().declare()["label"].labels == ("bad", "good")


def test_the_source_text_is_classified(home: Path) -> None:
    """A classifier reads the source alone: its target is the same text again, and not there when it is asked."""
    text = recipe(True, "null").split("structure:")[0] + (
        "structure: {type: classifier, dim: 16}\nobjective: classification\n"
        "learning: {type: gradient, steps: 60, batch_tokens: 200, optimizer: {type: adamw, lr: 1.0e-2}}\n"
        "evaluate: {metrics: [accuracy]}\n"
    )
    for target in ("null", "character"):
        run: Run = read_run_text(text, "r.yaml", home, [f"data.target_tokenizer={target}"])
        trained = run.train(home / f"classes-{target}", quiet=True)
        judged = trained.result
        assert judged.metric_values["accuracy"] == 1
        assert trained.predict(["the room was awful", "The price was great"]) == ["bad", "good"]
        (answer,) = trained.predictions(["the room was awful"])
        assert answer.kind == "label" and answer.probabilities["bad"] > 0.5
        example = trained.dataset("valid")[1][0]
        seen = next(iter(trained.objectives.values())).prepare(example, np.random.default_rng(0), None)
        assert seen is not None and len(seen["text"]) == len(example["source"]) + 1


def test_a_language_model_continues_a_prompt(home: Path) -> None:
    text = (
        recipe(True)
        .replace("{type: seq2seq, dim: 16}", "{type: language-model, dim: 16}")
        .replace("[bleu, {type: exact-match}]", "null")
    )
    run = read_run_text(text, "r.yaml", home)
    run.train(home / "run", quiet=True)
    assert len(weft.load(home / "run").generate(["The foo"])) == 1
