from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest

from weft.evaluate import BLEU, ChrF, Correlation, MeanAbsoluteError, MultiLabelF1


def labeled(labels):
    return [{"label": label} for label in labels]


@pytest.mark.parametrize("seed", range(10))
def test_multi_label_f1_equals_scikit_learn(seed):
    f1_score = import_module("sklearn.metrics").f1_score
    rng = np.random.default_rng(seed)
    n, names = int(rng.integers(1, 30)), ["a", "b c", "d", "e"]
    gold, guess = (rng.random((n, 4)) < p for p in (0.3, 0.1 * seed))
    texts = [["; ".join(np.array(names)[row]) for row in matrix] for matrix in (guess, gold)]
    found = MultiLabelF1(separator=";").compute(texts[0], labeled(texts[1]))
    occurs = (gold | guess).any(axis=0)
    if not occurs.any():
        assert set(found.values()) == {0.0}
        return
    gold, guess = (matrix[:, occurs].astype(int) for matrix in (gold, guess))
    if occurs.sum() == 1:  # scikit-learn treats a single column as binary labels
        gold, guess = (np.concatenate([matrix, matrix], axis=1) for matrix in (gold, guess))
    expected = {f"multi_label_{kind}_f1": f1_score(gold, guess, average=kind, zero_division=0) for kind in ("micro", "macro")}
    assert found == pytest.approx(expected)


def test_multi_label_ignores_order_duplicates_and_empty_labels():
    found = MultiLabelF1(separator="|").compute(["b|a|a", "", "|"], labeled(["a|b", "", ""]))
    assert found == {"multi_label_micro_f1": 1.0, "multi_label_macro_f1": 1.0}
    assert set(MultiLabelF1().compute([""], labeled([""])).values()) == {0.0}
    with pytest.raises(ValueError, match="separator is empty"):
        MultiLabelF1(separator="")


def test_mean_absolute_error_equals_scikit_learn():
    mean_absolute_error = import_module("sklearn.metrics").mean_absolute_error
    rng = np.random.default_rng(0)
    order = ["terrible", "bad", "fair", "good", "great"]
    gold, guess = rng.integers(0, 5, (2, 60))
    expected = {
        "mean_absolute_error": pytest.approx(mean_absolute_error(gold, guess)),
        "adjacent_accuracy": pytest.approx(np.mean(np.abs(gold - guess) <= 1)),
    }
    by_name = MeanAbsoluteError(order=order).compute([order[g] for g in guess], labeled([order[r] for r in gold]))
    assert by_name == expected
    assert MeanAbsoluteError().compute([str(g) for g in guess], labeled([str(r) for r in gold])) == expected
    characters = "abcde"
    assert set(gold) | set(guess) == set(range(5))
    assert MeanAbsoluteError().compute([characters[g] for g in guess], labeled([characters[r] for r in gold])) == expected


def test_numeric_labels_are_compared_by_value():
    """10 follows 9, and values that do not occur count too."""
    found = MeanAbsoluteError().compute(["10", "1.5"], labeled(["9", "4"]))
    assert found == {"mean_absolute_error": 1.75, "adjacent_accuracy": 0.5}


def test_invalid_orders_are_rejected():
    with pytest.raises(ValueError, match="the label 'x' is not in the option order: a, b"):
        MeanAbsoluteError(order=["a", "b"]).compute(["x"], labeled(["a"]))
    for order in (["a", "a"], ["a"], []):
        with pytest.raises(ValueError, match="must be at least two different labels"):
            MeanAbsoluteError(order=order)


@pytest.mark.parametrize("seed", range(6))
def test_correlation_equals_scipy(seed):
    stats = import_module("scipy.stats")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 60))
    x = rng.normal(size=n) if seed % 2 else rng.integers(0, 4, n).astype(float)
    y = (0.5 * x + rng.normal(size=n)).round(seed) * 10.0 ** (100 * seed - 200)
    x[:2], y[:2] = (0, 1), (y[2], y[2] + abs(y).max())
    found = Correlation().compute([repr(float(v)) for v in x], labeled([repr(float(v)) for v in y]))
    scale = abs(y).max()  # scipy underflows and overflows for such numbers
    assert found["pearson"] == pytest.approx(stats.pearsonr(x, y / scale).statistic)
    assert found["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_correlation_of_constant_and_reversed_numbers():
    rows = labeled(["1", "2", "3"])
    for undefined in (Correlation().compute(["5", "5", "5"], rows), Correlation().compute(["1", "2", "3"], labeled(["4"] * 3))):
        assert set(undefined) == {"pearson", "spearman"} and all(map(math.isnan, undefined.values()))
    assert Correlation().compute(["3", "2", "1"], rows) == {"pearson": pytest.approx(-1), "spearman": pytest.approx(-1)}
    for wrong in ("x", "nan", "inf", ""):
        with pytest.raises(ValueError, match=r"the prediction of example 1 is .* must be a finite number"):
            Correlation().compute(["1", wrong, "2"], rows)
    with pytest.raises(ValueError, match="the reference of example 0 is 'good'"):
        Correlation().compute(["1"], labeled(["good"]))


def test_signatures_are_those_of_sacrebleu():
    sacrebleu = import_module("sacrebleu")
    version = sacrebleu.__version__
    assert BLEU().signature() == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert BLEU(tokenize="none", lowercase=True).signature() == f"nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:{version}"
    assert ChrF(word_order=2).signature() == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:{version}"


def test_tokenize_none_does_not_split_tokenized_texts():
    """Only whitespace separates words."""
    rows = [{"target": "it 's a don't-know case , is n't it ."}]
    assert BLEU(tokenize="none").compute(["it 's a don't-know case , is n't it ."], rows) == {"bleu": 100.0}
    joined = ["it's a don't-know case, isn't it."]
    assert BLEU(tokenize="none").compute(joined, rows)["bleu"] < 20 < BLEU().compute(joined, rows)["bleu"]
