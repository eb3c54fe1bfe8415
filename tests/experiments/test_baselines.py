"""Baselines of a recipe: the splits and metrics are those of the recipe, the models those of scikit-learn."""

from __future__ import annotations

import builtins
import json
import random
from pathlib import Path
from typing import Any

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from tests.commands import weft

from weft.experiments import baselines
from weft.experiments.baselines import LOGISTIC, MAJORITY, MEAN, RIDGE, TAGS, run_baselines
from weft.experiments.scaffold import detect_data, scratch_recipe
from weft.training.recipes import read_run_text
from weft.training.run import Run

GOOD, BAD, OTHER = ["fine", "great", "lovely"], ["dull", "poor", "sad"], ["a", "film", "the", "play", "it", "was", "one"]


def rows(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts with a class that most of them show."""
    rng = random.Random(seed)
    found: list[tuple[str, str]] = []
    for i in range(count):
        label = "good" if i % 3 else "bad"
        words = rng.choices(OTHER, k=6) + rng.choices(GOOD if (label == "good") ^ (rng.random() < 0.2) else BAD, k=1)
        rng.shuffle(words)
        found.append((" ".join(words), label))
    return found


def write(folder: Path, suffix: str = ".tsv", texts: dict[str, str] | None = None) -> Run:
    """The run of ``weft new`` on files of three splits."""
    texts = texts or {
        split: "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows(n, n))
        for split, n in (("train", 120), ("valid", 60), ("test", 61))
    }
    files = [folder / f"{split}{suffix}" for split in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    return read_run_text(scratch_recipe(detect_data(list(map(str, files))), folder), "r.yaml", folder)


def values(run: Run, split: str, metric: str) -> dict[str, float]:
    return {result.name: result.metric_values[metric] for result in run_baselines(run).results if result.split == split}


def test_classification_equals_scikit_learn(tmp_path: Path) -> None:
    run = write(tmp_path)
    (x, y), (valid, valid_y), (test, test_y) = (zip(*rows(n, n), strict=True) for n in (120, 60, 61))
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]")
    features: Any = vectorizer.fit_transform(x)
    models = [LogisticRegression(C=c, max_iter=1000).fit(features, y) for c in baselines.STRENGTHS["C"]]
    best = max(models, key=lambda model: model.score(vectorizer.transform(valid), valid_y))
    found = values(run, "test", "accuracy")
    assert found == {
        MAJORITY: test_y.count("good") / 61,
        LOGISTIC: pytest.approx(best.score(vectorizer.transform(test), test_y)),
    }
    assert found[LOGISTIC] > found[MAJORITY]


def test_regression_and_the_mean(tmp_path: Path) -> None:
    texts = {
        split: "text\tscore\n" + "".join(f"{t}\t{4.5 if y == 'good' else 1.25}\n" for t, y in rows(n, n))
        for split, n in (("train", 120), ("valid", 60))
    }
    found = values(write(tmp_path, texts=texts), "valid", "pearson")
    assert found[RIDGE] > 0.3 and found[MEAN] != found[MEAN]  # a constant has no correlation


def test_the_most_frequent_tag_of_each_word(tmp_path: Path) -> None:
    sentence = "Ulm\tB-LOC\nis\tO\nold\tO\n\n"
    texts = {"train": (sentence * 3 + "Ulm\tB-PER\nis\tO\n\n") * 4, "valid": sentence * 2 + "Rome\tB-LOC\nis\tO\nUlm\tB-LOC\n\n"}
    run = write(tmp_path, ".conll", {split: text.replace("\t", " ") for split, text in texts.items()})
    assert values(run, "valid", "entity_recall") == {TAGS: 0.75}  # Rome is unknown


def test_large_data_is_subsampled_and_the_report_has_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MAX_EXAMPLES", 50)
    report = run_baselines(write(tmp_path))
    assert (report.fitted_on, report.train_examples) == (50, 120)
    assert "the baselines are fitted on 50 of 120 training examples" in report.lines()
    assert {result.examples for result in report.results} == {50}


def test_without_scikit_learn_the_majority_class_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, real = write(tmp_path), builtins.__import__

    def no_sklearn(name: str, *args: Any) -> Any:
        if name.startswith("sklearn"):
            raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", no_sklearn)
    report = run_baselines(run)
    assert {result.name for result in report.results} == {MAJORITY}
    assert any("pip install 'weft[metrics]'" in note for note in report.notes)


def test_the_command_takes_files_or_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    new = weft("new", "train.tsv", "valid.tsv", "--out", "r.yaml")
    assert new.code == 0 and "baselines on valid (60 examples):" in new.out and LOGISTIC in new.out
    by_recipe, by_files = weft("baseline", "r.yaml", "--json"), weft("baseline", "train.tsv", "valid.tsv", "--json")
    documents = [json.loads(answer.out) for answer in (by_recipe, by_files)]
    assert documents[0]["results"] == documents[1]["results"]
    (tmp_path / "book.txt").write_text("".join(f"Line number {i} of a book.\n" for i in range(60)))
    refused = weft("baseline", "book.txt")
    assert refused.code == 2 and "Traceback" not in refused.err
    assert "no baseline" in weft("new", "book.txt", "--out", "b.yaml").err
    assert (tmp_path / "b.yaml").is_file()
    assert "no baseline" not in weft("new", "book.txt", "--out", "c.yaml", "--no-baseline").err
