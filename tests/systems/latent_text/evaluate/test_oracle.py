"""The oracle classifier: equal to scikit-learn, independent of the order of texts, saved without loss."""

from __future__ import annotations

import json
import sys
from importlib import import_module

import numpy as np
import pytest

from weft.evaluate import Accuracy, confidence_intervals
from weft.systems.latent_text.evaluate import Oracle, OracleAccuracy, count_shared_texts

WORDS = ["food", "staff", "place", "it", "was", "so"]
MARKS = {"+": ["good", "fine", "nice"], "-": ["bad", "cold", "rude"], "0": ["blue", "red", "green"]}


def real(rows, seed=0, classes="+-"):
    """Sentences whose class depends on one or two of their words."""
    rng = np.random.default_rng(seed)
    labels = [classes[i % len(classes)] for i in range(rows)]
    texts = [
        " ".join(rng.permutation([*rng.choice(WORDS, 4), *rng.choice(MARKS[label], rng.integers(1, 3))])) for label in labels
    ]
    return texts, labels


@pytest.mark.parametrize("classes", ["+-", "+-0"])
def test_separable_classes_are_learned(classes):
    oracle = Oracle.train(*real(200, classes=classes))
    texts, labels = real(60, seed=1, classes=classes)
    assert oracle.accuracy(texts, labels) > 0.97
    assert oracle.labels == tuple(sorted(classes))
    p_NC = oracle.probabilities(texts)
    assert p_NC.shape == (60, len(classes)) and np.allclose(p_NC.sum(1), 1)
    assert [oracle.labels[i] for i in p_NC.argmax(1)] == oracle.predict(texts)


@pytest.mark.parametrize("classes", ["+-", "+-0"])
def test_probabilities_equal_those_of_scikit_learn(classes):
    """With the n-gram features of CountVectorizer."""
    text_of, linear = import_module("sklearn.feature_extraction.text"), import_module("sklearn.linear_model")
    texts, labels = real(120, classes=classes)
    count = text_of.CountVectorizer(ngram_range=(1, 2), min_df=3, binary=True, token_pattern=r"\S+", lowercase=False)
    model = linear.LogisticRegression(C=0.5, max_iter=1000).fit(count.fit_transform(texts), labels)
    oracle = Oracle.train(texts, labels, min_count=3, inverse_l2=0.5)
    asked = [*real(30, seed=2, classes=classes)[0], "", "never seen"]
    assert sorted(oracle.grams) == sorted(count.get_feature_names_out())
    assert np.allclose(oracle.probabilities(asked), model.predict_proba(count.transform(asked)), atol=1e-3)


@pytest.mark.parametrize("classes", ["+-", "+-0"])
def test_order_of_the_training_texts_does_not_matter(classes):
    texts, labels = real(90, classes=classes)
    oracle, asked = Oracle.train(texts, labels), real(30, seed=2, classes=classes)[0]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(90)
        again = Oracle.train([texts[i] for i in order], [labels[i] for i in order])
        assert (again.labels, again.grams) == (oracle.labels, oracle.grams)
        assert again.probabilities(asked).tolist() == oracle.probabilities(asked).tolist()


def test_ties_are_assigned_to_the_first_class():
    """With the same texts in both classes, weights are 0 up to rounding, whatever the order."""
    texts = real(96)[0]
    rows = [(text, label) for label in "+-" for text in texts]
    for seed in (None, 0, 1):
        order = range(len(rows)) if seed is None else np.random.default_rng(seed).permutation(len(rows))
        oracle = Oracle.train([rows[i][0] for i in order], [rows[i][1] for i in order])
        assert np.allclose(oracle.probabilities(texts), 0.5)
        assert oracle.predict(texts) == ["+"] * 96
    close = Oracle(["a", "b", "c"], ["x"], np.array([[0, 1e-15, 0]]), np.zeros(3), 1)
    assert close.probabilities(["x"]).argmax() == 1 and close.predict(["x", "y"]) == ["a", "a"]
    assert Oracle(["a", "b"], ["x"], np.array([[0, 1e-6]]), np.zeros(2), 1).predict(["x"]) == ["b"]


def test_bigrams_are_features():
    """Which of two words is negated is visible in bigrams only."""
    texts = ["not good but bad", "good but not bad"] * 20
    labels = ["-", "+"] * 20
    assert Oracle.train(texts, labels).accuracy(texts, labels) == 1
    assert Oracle.train(texts, labels, order=1).accuracy(texts, labels) == 0.5


def test_save_and_load_preserve_the_oracle(tmp_path):
    oracle = Oracle.train(*real(80, classes="+-0"), order=3)
    oracle.save(tmp_path / "oracle.json")
    again = Oracle.load(tmp_path / "oracle.json")
    asked = [*real(20, seed=3)[0], "", "ünknown word"]
    assert (again.labels, again.grams, again.order) == (oracle.labels, oracle.grams, oracle.order)
    assert again.probabilities(asked).tolist() == oracle.probabilities(asked).tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["oracle.json"]


def test_inference_does_not_need_scikit_learn(tmp_path, monkeypatch):
    Oracle.train(*real(40)).save(tmp_path / "oracle.json")
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    assert Oracle.load(tmp_path / "oracle.json").predict(["so good"]) == ["+"]
    with pytest.raises(ValueError, match=r"scikit-learn; install it: pip install 'weft\[metrics\]'"):
        Oracle.train(*real(40))


def test_shared_texts_are_counted_ignoring_case_and_spaces():
    assert count_shared_texts(["So good .", "so bad"], ["so  good . ", "SO BAD", "so good", ""]) == 2
    assert count_shared_texts([], ["a"]) == count_shared_texts(["a"], []) == 0


def test_metric_equals_the_accuracy_of_the_oracle(tmp_path):
    oracle = Oracle.train(*real(100))
    oracle.save(tmp_path / "oracle.json")
    texts, labels = ["so good", "so bad", "it was nice", "it was rude"], ["+", "+", "+", "+"]
    metric, rows = OracleAccuracy(oracle=str(tmp_path / "oracle.json")), [{"label": label} for label in labels]
    assert metric.compute(texts, rows) == {"oracle_accuracy": 0.5}
    predicted = oracle.predict(texts)
    assert (
        confidence_intervals(metric, texts, rows)["oracle_accuracy"]
        == confidence_intervals(Accuracy(), predicted, rows)["accuracy"]
    )
    with pytest.raises(ValueError, match=r"the oracle has no class '\?'; available: \+, -"):
        metric.compute(["a"], [{"label": "?"}])
    with pytest.raises(ValueError, match="example 0 has no column 'label'"):
        metric.compute(["a"], [{}])


def test_invalid_inputs_are_reported(tmp_path):
    with pytest.raises(ValueError, match="2 texts, but 1 labels"):
        Oracle.train(["a", "b"], ["+"])
    with pytest.raises(ValueError, match="texts is empty"):
        Oracle.train([], [])
    with pytest.raises(ValueError, match=r"all 2 texts have the class '\+'"):
        Oracle.train(["a", "b"], ["+", "+"])
    with pytest.raises(ValueError, match="no n-gram occurs in 2 of the 2 texts"):
        Oracle.train(["a", "b"], ["+", "-"])
    with pytest.raises(ValueError, match=r"order \(0\), min_count \(2\) and inverse_l2 \(1.0\) must be above 0"):
        Oracle.train(["a", "b"], ["+", "-"], order=0)
    with pytest.raises(ValueError, match="must be lists of strings, not a string"):
        Oracle.train("ab", ["+", "-"])
    oracle = Oracle.train(["a", "b"], ["+", "-"], min_count=1)
    with pytest.raises(ValueError, match="texts must be a list of strings"):
        oracle.predict("a")
    with pytest.raises(ValueError, match=r"the oracle has no class '\?'"):
        oracle.accuracy(["a"], ["?"])
    with pytest.raises(ValueError, match=r"must have the shape \(2, 2\) and bias_C \(2,\), not \(1, 2\)"):
        Oracle(["+", "-"], ["a", "b"], np.zeros((1, 2)), np.zeros(2), 1)
    file = tmp_path / "oracle.json"
    oracle.save(file)
    document = json.loads(file.read_text())
    for change, complaint in (
        ({"kind": "other"}, "not an oracle; write one"),
        ({"format": 9}, "format 9 is not supported, only 1"),
        ({"bias": [0.0]}, "damaged oracle"),
        ({"grams": ["a"]}, "damaged oracle"),
    ):
        file.write_text(json.dumps(document | change))
        with pytest.raises(ValueError, match=complaint):
            Oracle.load(file)
    file.write_text("[]")
    with pytest.raises(ValueError, match="not an oracle; write one"):
        Oracle.load(file)
