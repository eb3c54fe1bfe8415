"""What a trained run is asked: texts, tuples, dicts; and what is no row of its data is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.fields import Info, LabelField, TagsField, TextField, TextsField
from weft.data.requests import encoder_field, request_cells
from weft.inference.trained_run import TrainedRun
from weft.inspect.inspection import inspect_run, inspect_texts
from weft.models import LanguageModel, Seq2Seq
from weft.training.recipes import read_run_text

PAIR = Info({"first": TextField("first", 9), "second": TextField("second", 9), "label": LabelField("label", 2)}, "first")
CHOICE = Info({"question": TextField("question", 9), "choices": TextsField("choices", 9)})
TAGS = Info({"text": TextField("text", 9, words=True), "tags": TagsField("tags", 2)})


@pytest.mark.parametrize(
    ("info", "asked", "cells"),
    [
        (PAIR, "a b\tc", {"first": "a b", "second": "c"}),
        (PAIR, ("a b", "c"), {"first": "a b", "second": "c"}),
        (PAIR, {"second": "c", "first": "a b"}, {"first": "a b", "second": "c"}),
        (CHOICE, "q\ta\tb\tc", {"question": "q", "choices": "a\tb\tc"}),
        (CHOICE, ("q", ["a", "b"]), {"question": "q", "choices": "a\tb"}),
        (CHOICE, {"question": "q", "choices": ["a\tx", "b"]}, {"question": "q", "choices": "a x\tb"}),
        (TAGS, " fine  film was ", {"text": "fine film was"}),
        (TAGS, ["fine", "film"], {"text": "fine film"}),
        (TAGS, "", {"text": ""}),
    ],
)
def test_rows_may_be_written_in_several_ways(info, asked, cells):
    assert request_cells(info, asked) == cells


@pytest.mark.parametrize(
    ("info", "asked", "message"),
    [
        (PAIR, "a b", r"one text given, but an input needs 2 \(first, second\)"),
        (PAIR, ("a", "b", "c"), "3 texts given, but an input needs 2"),
        (PAIR, {"first": "a"}, "has no second"),
        (CHOICE, "q\ta", "has fewer than two choices"),
        (CHOICE, "q", r"one text given, but an input needs 2 \(question, two choices or more\)"),
        (Info({"text": TextField("text", 9)}), ("a", "b"), "one text, but .* has 2 texts"),
    ],
)
def test_what_is_no_row_is_refused(info, asked, message):
    with pytest.raises(ValueError, match=message):
        request_cells(info, asked)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("asked")
    words = ["John lives in Oslo .", "Mary saw Rome ."] * 5
    lines = [[f"{w} {'B-PER' if w in ('John', 'Mary') else 'O'}" for w in text.split()] for text in words]
    (home / "tags.conll").write_text("\n\n".join("\n".join(sentence) for sentence in lines) + "\n")
    pairs = [f"a {i} b\ta {i % 3} b\t{i % 2}\n" for i in range(20)]
    (home / "pairs.tsv").write_text("first\tsecond\tlabel\n" + "".join(pairs))
    numbers = [f"a {i} b\ta {i % 3} b\t{i / 2}\n" for i in range(20)]
    (home / "numbers.tsv").write_text("first\tsecond\tlabel\n" + "".join(numbers))
    return home


def trained(home: Path, data: str, structure: str, objective: str) -> TrainedRun:
    learning = "{type: gradient, steps: 2, batch_tokens: 50}"
    recipe = f"data: {data}\nstructure: {structure}\nobjective: {objective}\nlearning: {learning}\n"
    run = read_run_text(recipe, "recipe", home)
    return run.train(home / f"run-{objective}", quiet=True)


@pytest.fixture(scope="module")
def tagger(home: Path) -> TrainedRun:
    embedder = "{type: sum, parts: [{type: char-cnn, filters: 4}]}"
    tokenizer = "{type: word, split: whitespace, max_characters: 8}"
    return trained(
        home,
        f"{{type: tagged-text, train: tags.conll, validation_fraction: 0.5, tokenizer: {tokenizer}}}",
        f"{{type: tagger, dim: 8, embedder: {embedder}, encoder: {{type: transformer, layers: 1}}}}",
        "tagging",
    )


@pytest.fixture(scope="module")
def pairs(home: Path) -> TrainedRun:
    structure = "{type: classifier, dim: 8, encoder: {type: transformer, layers: 1}}"
    return trained(home, "{type: sentence-pairs, train: pairs.tsv, tokenizer: word}", structure, "classification")


def test_a_tagger_answers_a_tag_for_each_word_and_nothing_for_none(tagger):
    answers = list(tagger.predictions(["fine film  was ", "", ["fine", "film"]]))
    assert [len(answer.value()) for answer in answers] == [3, 0, 2]
    assert [len(answer.text.split()) for answer in answers] == [3, 0, 2]


def test_a_decoder_alone_continues_its_text_also_for_pairs():
    model = LanguageModel(PAIR, dim=8)
    assert encoder_field(model, PAIR) is None
    both = Info({"source": TextField("source", 9), "target": TextField("target", 9)}, "target")
    found = encoder_field(Seq2Seq(both, dim=8), both)
    assert found is not None and found.name == "source"


def test_one_text_alone_is_not_taken_letter_by_letter(pairs):
    with pytest.raises(ValueError, match="expected a list of texts, got one string"):
        pairs.predict("a fine film")


def test_taggers_and_pairs_can_be_looked_into(tagger, pairs, tmp_path):
    (example,) = inspect_texts(tagger, ["John lives in Oslo ."])
    assert len(example.output.split()) == 5
    (example,) = inspect_texts(pairs, ["a 1 b\ta 2 b"])
    assert list(example.source).count("a") == 2  # both texts are read, as in training
    assert example.output in ("0", "1")
    assert inspect_run(pairs, ["a 1 b\ta 2 b"], tmp_path / "page.html").is_file()


def test_a_number_is_answered_as_a_number(home):
    structure = "{type: classifier, dim: 8, encoder: {type: transformer, layers: 1}}"
    run = trained(
        home, "{type: sentence-pairs, label_type: number, train: numbers.tsv, tokenizer: word}", structure, "regression"
    )
    (answer,) = run.predictions([("a 1 b", "a 2 b")])
    assert isinstance(answer.value(), float)
    (example,) = inspect_texts(run, ["a 1 b\ta 2 b"])
    assert float(example.output) == pytest.approx(answer.value())


def test_a_row_that_is_too_long_for_the_positions_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + "a b\tx\nb a\ty\n" * 4 + "a " * 30 + "\tx\n")
    recipe = (
        "data: {type: labeled-text, train: t.tsv, validation_fraction: 0, tokenizer: word}\nobjective: classification\n"
        "structure: {type: bert, task: classification, dim: 8, layers: 1, heads: 1, hidden: 8, length: %d}\n"
        "learning: {type: gradient, steps: 1, batch_tokens: 2000}\n"
    )
    with pytest.raises(ValueError, match=r"12 learned positions.*row 8 of train, counted from 0: 31 tokens"):
        read_run_text(recipe % 12, "r.yaml", tmp_path).train(tmp_path / "one", quiet=True)
    run = read_run_text(recipe % 40, "r.yaml", tmp_path)
    trained = run.train(tmp_path / "two", quiet=True)
    with pytest.raises(ValueError, match=r"40 learned positions.*row 3 of the requests, counted from 1: 51 tokens"):
        trained.predict(["a", "b", "a " * 50, "a"])
    with pytest.raises(ValueError, match=r"row 3 of the requests"):
        trained.predict(["a", "b", "a " * 50, "a"], batch_size=2)
