"""Sentence similarity: the correlation of cosine similarities with gold scores, with detected or named columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from tests.commands import weft

from weft.experiments import similarity
from weft.experiments.similarity import evaluate_similarity
from weft.inference.embedding import TextEmbedder

PAIRS = [
    ("a dog runs in the park", "a dog is running outside", "4.5"),
    ("a man plays the guitar", "a person plays music", "3.2"),
    ("two kids eat an apple", "stocks fell on monday", "0.0"),
    ("the cat sleeps on a mat", "a cat is asleep", "4.0"),
    ("it rains in the city", "the city has a museum", "1.5"),
    ("she reads an old book", "a woman reads a novel", "3.75"),
]


class WordCounts(TextEmbedder):
    """Embeddings without a model: the counts of the letters."""

    def __init__(self) -> None:
        self.truncated, self.max_length = 0, 9

    def __call__(self, texts: Any) -> np.ndarray:
        texts = list(texts)
        self.truncated += sum(len(text.split()) > 5 for text in texts)
        return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], np.float32)


def expected() -> tuple[float, float]:
    first, second = (WordCounts()([pair[side] for pair in PAIRS]).astype(float) for side in (0, 1))
    cosine = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(first, second, strict=True)]
    gold = [float(pair[2]) for pair in PAIRS]
    return scipy.stats.pearsonr(cosine, gold).statistic, scipy.stats.spearmanr(cosine, gold).statistic


def table(file: Path, header: str = "", order: tuple[int, ...] = (0, 1, 2), index: bool = False) -> Path:
    rows = [",".join([*([str(i)] if index else []), *(pair[at] for at in order)]) for i, pair in enumerate(PAIRS)]
    file.write_text("\n".join([*([header] if header else []), *rows]) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("header", "order", "index", "columns"),
    [
        ("", (0, 1, 2), False, {}),
        ("sentence1,sentence2,score", (0, 1, 2), False, {}),
        ("gold,one,two", (2, 0, 1), False, {}),
        ("id,one,two,relatedness", (0, 1, 2), True, {}),
        ("id,one,two,relatedness", (0, 1, 2), True, {"first": "two", "second": "one", "label": "relatedness"}),
        ("id,one,two,relatedness", (0, 1, 2), True, {"label": "relatedness"}),
        ("", (2, 1, 0), False, {"column_names": ("z", "y", "x")}),
    ],
)
def test_columns_are_detected_or_named(tmp_path, header, order, index, columns):
    found = evaluate_similarity(WordCounts(), [table(tmp_path / "pairs.csv", header, order, index)], columns)
    assert (found.metric_values["pearson"], found.metric_values["spearman"]) == pytest.approx(expected(), abs=1e-5)
    assert found.metric_values["pairs"] == len(PAIRS) and found.higher_is_better == {"pearson": True, "spearman": True}
    bounds = found.intervals(found.metrics)
    assert all(low < found.metric_values[name] < high for name, (low, high) in bounds.items()) and len(bounds) == 2
    assert found.remarks == ["truncated 1 texts to 9 tokens"] or "truncated" in found.remarks[0]


def test_rows_without_text_or_score_are_counted(tmp_path):
    file = table(tmp_path / "pairs.csv", "first,second,score")
    file.write_text(file.read_text() + ",a text,1\na text,another,\n")
    assert evaluate_similarity(WordCounts(), [file]).remarks[0] == (
        "2 rows were left out: 1 with an empty text, 1 without a score"
    )


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("first,second,score\na b,c d,good\na b,c d,1\n", {}, r"pairs\.csv:2: the score is 'good', which is not a number"),
        (
            "first,second,x\na b,c d,yes\na b,c d,no\n",
            {},
            "cannot detect the column label of sentence pairs among first, second, x",
        ),
        ("first,second,score\na b,c d,1\n", {}, "1 pairs with a score; a correlation needs at least 2"),
        ("first,second,score\na b,c d,1\n", {"text": "first"}, "unknown option 'text'"),
    ],
)
def test_mistakes_are_reported(tmp_path, content, columns, message):
    (tmp_path / "pairs.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        evaluate_similarity(WordCounts(), [tmp_path / "pairs.csv"], columns)


def test_the_command_prints_correlations_with_intervals(tmp_path, monkeypatch):
    monkeypatch.setattr(similarity, "open_embedder", lambda model: WordCounts())
    file = table(tmp_path / "pairs.csv", "id,one,two,relatedness", index=True)
    answer = weft("evaluate", "any", file, "data.label=relatedness", "--similarity")
    assert answer.code == 0 and [line.split()[0] for line in answer.out.splitlines()[:3]] == ["pearson", "spearman", "pairs"]
    assert answer.out.count("[") == 2
    found = json.loads(weft("evaluate", "any", file, "--similarity", "--json").out)
    assert found["pearson"] == pytest.approx(expected()[0], abs=1e-5) and set(found["intervals"]) == {"pearson", "spearman"}
