"""Baselines without a network: their texts are real, of the target class, and nearest where they must be."""

from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest

from weft.systems.latent_text.evaluate import (
    constant_baseline,
    copy_baseline,
    medoid,
    most_frequent,
    retrieval_baseline,
    sample_baseline,
)

TEXTS = ["the food was good", "the food was fine", "so fine", "so fine", "the food was bad", "the staff was rude", "so cold"]
LABELS = ["+", "+", "+", "+", "-", "-", "-"]


def test_constant_baseline_repeats_one_text_per_class():
    assert constant_baseline(["-", "+", "-"], TEXTS, LABELS, most_frequent) == ["the food was bad", "so fine", "the food was bad"]
    assert constant_baseline(["+"], TEXTS, LABELS) == [medoid(TEXTS[:4])]


def cosines(a, b, texts):
    vectors = import_module("sklearn.feature_extraction.text").TfidfVectorizer(token_pattern=r"\S+", lowercase=False).fit(texts)
    return (vectors.transform(a) @ vectors.transform(b).T).toarray()


def random_texts(rows, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([f"w{i}" for i in range(30)], rng.integers(1, 9))) for _ in range(rows)]


@pytest.mark.parametrize("seed", range(4))
def test_medoid_has_the_largest_mean_similarity(seed):
    texts = random_texts(40, seed)
    near = cosines(texts, texts, texts).mean(axis=1)
    assert near[texts.index(medoid(texts))] == pytest.approx(near.max())


@pytest.mark.parametrize("seed", range(3))
def test_retrieval_returns_the_nearest_text_of_the_target_class(seed, monkeypatch):
    monkeypatch.setattr(sys.modules["weft.systems.latent_text.evaluate.baselines"], "_MAX_SIMILARITIES", 100)  # several chunks
    texts, sources = random_texts(60, seed), random_texts(25, seed + 50)
    labels, wanted = ["+-"[i % 2] for i in range(60)], ["+-"[i % 3 % 2] for i in range(25)]
    near = cosines(sources, texts, texts)
    for row, found in enumerate(retrieval_baseline(sources, wanted, texts, labels)):
        allowed = [i for i in range(60) if labels[i] == wanted[row]]
        assert near[row, [i for i in allowed if texts[i] == found]].max() == pytest.approx(near[row, allowed].max())


def test_samples_are_real_texts_of_the_class_without_replacement():
    wanted = ["+", "-"] * 3
    found = sample_baseline(wanted, TEXTS, LABELS)
    assert all((text, label) in zip(TEXTS, LABELS, strict=True) for text, label in zip(found, wanted, strict=True))
    assert sorted(found[1::2]) == sorted(TEXTS[4:])  # no repetition before all were sampled
    assert sample_baseline(wanted, TEXTS, LABELS) == found
    assert any(sample_baseline(wanted, TEXTS, LABELS, seed) != found for seed in range(1, 5))
    assert len(sample_baseline(["-"] * 7, TEXTS, LABELS)) == 7


def test_invalid_inputs_are_reported(monkeypatch):
    with pytest.raises(ValueError, match="1 sources, but 2 target labels"):
        copy_baseline(["a"], ["+", "-"])
    with pytest.raises(ValueError, match="1 sources, but 2 target labels"):
        retrieval_baseline(["a"], ["+", "-"], TEXTS, LABELS)
    with pytest.raises(ValueError, match="7 texts, but 1 labels"):
        sample_baseline(["+"], TEXTS, ["+"])
    with pytest.raises(ValueError, match=r"no text has the target label '0'; available: \+, -"):
        constant_baseline(["+", "0"], TEXTS, LABELS)
    for choose in (most_frequent, medoid):
        with pytest.raises(ValueError, match="texts is empty"):
            choose([])
    with pytest.raises(ValueError, match="none of the 2 texts has a word"):
        medoid(["", " "])
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(ValueError, match=r"scikit-learn; install it: pip install 'weft\[metrics\]'"):
        medoid(["a"])
