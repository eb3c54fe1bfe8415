from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest

from weft.systems.latent_text.evaluate import constant, copied, drawn, medoid, most_frequent, retrieved

TEXTS = ["the food was good", "the food was fine", "so fine", "so fine", "the food was bad", "the staff was rude", "so cold"]
LABELS = ["+", "+", "+", "+", "-", "-", "-"]


def test_constant():
    assert constant(["-", "+", "-"], TEXTS, LABELS, most_frequent) == ["the food was bad", "so fine", "the food was bad"]
    assert constant(["+"], TEXTS, LABELS) == [medoid(TEXTS[:4])]


def cosines(a, b, texts):
    vectors = import_module("sklearn.feature_extraction.text").TfidfVectorizer(token_pattern=r"\S+", lowercase=False).fit(texts)
    return (vectors.transform(a) @ vectors.transform(b).T).toarray()


def random_texts(rows, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([f"w{i}" for i in range(30)], rng.integers(1, 9))) for _ in range(rows)]


@pytest.mark.parametrize("seed", range(4))
def test_the_medoid_is_nearest_to_all(seed):
    texts = random_texts(40, seed)
    near = cosines(texts, texts, texts).mean(axis=1)
    assert near[texts.index(medoid(texts))] == pytest.approx(near.max())


@pytest.mark.parametrize("seed", range(3))
def test_retrieved_is_the_nearest_of_the_wanted_class(seed, monkeypatch):
    monkeypatch.setattr(sys.modules["weft.systems.latent_text.evaluate.baselines"], "_NUMBERS", 100)  # in pieces
    texts, sources = random_texts(60, seed), random_texts(25, seed + 50)
    labels, wanted = ["+-"[i % 2] for i in range(60)], ["+-"[i % 3 % 2] for i in range(25)]
    near = cosines(sources, texts, texts)
    for row, found in enumerate(retrieved(sources, wanted, texts, labels)):
        allowed = [i for i in range(60) if labels[i] == wanted[row]]
        assert near[row, [i for i in allowed if texts[i] == found]].max() == pytest.approx(near[row, allowed].max())


def test_drawn_are_real_and_of_the_class():
    wanted = ["+", "-"] * 3
    found = drawn(wanted, TEXTS, LABELS)
    assert all((text, label) in zip(TEXTS, LABELS, strict=True) for text, label in zip(found, wanted, strict=True))
    assert sorted(found[1::2]) == sorted(TEXTS[4:])  # each once before one comes again
    assert drawn(wanted, TEXTS, LABELS) == found and any(drawn(wanted, TEXTS, LABELS, seed) != found for seed in range(1, 5))
    assert len(drawn(["-"] * 7, TEXTS, LABELS)) == 7


def test_errors(monkeypatch):
    with pytest.raises(ValueError, match="1 sources, but 2 wanted classes"):
        copied(["a"], ["+", "-"])
    with pytest.raises(ValueError, match="1 sources, but 2 wanted classes"):
        retrieved(["a"], ["+", "-"], TEXTS, LABELS)
    with pytest.raises(ValueError, match="7 texts, but 1 labels"):
        drawn(["+"], TEXTS, ["+"])
    with pytest.raises(ValueError, match=r"no real text has the wanted class '0' \(there is: \+, -\)"):
        constant(["+", "0"], TEXTS, LABELS)
    for choose in (most_frequent, medoid):
        with pytest.raises(ValueError, match="no texts to choose from"):
            choose([])
    with pytest.raises(ValueError, match="none of the 2 texts has a word"):
        medoid(["", " "])
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(ValueError, match=r"scikit-learn: pip install 'weft\[metrics\]'"):
        medoid(["a"])
