from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import pytest

from weft.evaluate import BLEU, Accuracy, ChrF, ExactMatch, MacroF1

ALL = [ExactMatch(), Accuracy(), MacroF1(), BLEU(), ChrF()]


def labeled(labels):
    return [{"text": "-", "label": label} for label in labels]


def translated(texts):
    return [{"source": "-", "target": text} for text in texts]


def test_exact_match_compares_case_and_whitespace():
    found = ExactMatch().compute(["a b", "A", "c ", ""], translated(["a b", "a", "c", ""]))
    assert found == {"exact_match": 0.5}


def test_exact_match_by_group():
    formats = ["iso", "long", "iso", "odd", "long", "iso"]
    rows = [{"target": str(i), "format": f} for i, f in enumerate(formats)]
    found = ExactMatch(group_by="format").compute(["0", "1", "-", "-", "4", "5"], rows)
    assert found == {
        "exact_match": pytest.approx(4 / 6),
        "exact_match/iso": pytest.approx(2 / 3),
        "exact_match/long": 1.0,
        "exact_match/odd": 0.0,
        "exact_match_worst_group": 0.0,
    }
    del rows[3]["format"]
    with pytest.raises(ValueError, match=r"example 3 has no column 'format'; its columns are: target"):
        ExactMatch(group_by="format").compute(["-"] * 6, rows)


@pytest.mark.parametrize("seed", range(8))
def test_label_metrics_equal_those_of_scikit_learn(seed):
    metrics = import_module("sklearn.metrics")
    rng = np.random.default_rng(seed)
    names, n = np.array(["bad", "fair", "good", "10", "9"]), int(rng.integers(1, 40))
    gold, predicted = names[rng.integers(0, 5, n)], names[rng.integers(0, 1 + seed % 5, n)]
    rows = labeled(gold.tolist())
    expected = metrics.f1_score(gold, predicted, average="macro", zero_division=0)
    assert MacroF1().compute(predicted.tolist(), rows) == {"macro_f1": pytest.approx(expected)}
    assert Accuracy().compute(predicted.tolist(), rows) == {"accuracy": pytest.approx(metrics.accuracy_score(gold, predicted))}


def test_text_metrics_equal_those_of_sacrebleu():
    sacrebleu = import_module("sacrebleu")
    guess = ["The cat sat on a mat .", "a dog runs through the snow", "Hello"]
    texts = ["The cat sat on the mat.", "a dog is running through the snow", "hello there"]
    rows = translated(texts)
    assert BLEU().compute(guess, rows)["bleu"] == pytest.approx(sacrebleu.corpus_bleu(guess, [texts]).score)
    low = sacrebleu.corpus_bleu(guess, [texts], lowercase=True, tokenize="char").score
    assert BLEU(lowercase=True, tokenize="char").compute(guess, rows)["bleu"] == pytest.approx(low)
    assert ChrF().compute(guess, rows)["chrf"] == pytest.approx(sacrebleu.corpus_chrf(guess, [texts]).score)
    plus = sacrebleu.corpus_chrf(guess, [texts], word_order=2).score
    assert ChrF(word_order=2).compute(guess, rows)["chrf"] == pytest.approx(plus)
    assert BLEU().compute([""] * 3, rows) == {"bleu": 0.0}


def test_the_reference_column_is_configurable():
    rows = [{"summary": "a"}, {"summary": "b"}]
    assert ExactMatch(field="summary").compute(["a", "b"], rows) == {"exact_match": 1.0}
    assert Accuracy(field="summary").compute(["a", "-"], rows) == {"accuracy": 0.5}
    assert MacroF1(field="summary").compute(["a", "b"], rows) == {"macro_f1": 1.0}


@pytest.mark.parametrize("metric", ALL, ids=lambda m: type(m).__name__)
def test_invalid_examples_are_rejected(metric):
    with pytest.raises(ValueError, match="got no examples to evaluate"):
        metric.compute([], [])
    with pytest.raises(ValueError, match="got 2 predictions for 1 examples"):
        metric.compute(["a", "b"], [{"target": "a", "label": "a"}])
    with pytest.raises(ValueError, match=rf"example 1 has no column '{metric.field}'; its columns are: id"):
        metric.compute(["a", "b"], [{"target": "a", "label": "a"}, {"id": "3"}])


@pytest.mark.parametrize(("metric", "module"), [(BLEU(), "sacrebleu.metrics.bleu"), (ChrF(), "sacrebleu.metrics.chrf")])
def test_a_missing_package_is_named_with_the_command(metric, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=r"sacrebleu: pip install 'weft\[metrics\]'"):
        metric.compute(["a"], translated(["a"]))


def test_metrics_declare_their_inputs():
    assert [m.inputs for m in ALL] == ["text", "label", "label", "text", "text"]
