from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest

from weft.evaluate import BLEU, ChrF, Correlation, MeanAbsoluteError, MultiLabelF1


def labelled(labels):
    return [{"label": label} for label in labels]


@pytest.mark.parametrize("seed", range(10))
def test_multi_label_f1_equals_scikit_learn(seed):
    f1_score = import_module("sklearn.metrics").f1_score
    rng = np.random.default_rng(seed)
    n, names = int(rng.integers(1, 30)), ["a", "b c", "d", "e"]
    right, guess = (rng.random((n, 4)) < p for p in (0.3, 0.1 * seed))
    texts = [["; ".join(np.array(names)[row]) for row in matrix] for matrix in (guess, right)]
    found = MultiLabelF1(separator=";").compute(texts[0], labelled(texts[1]))
    there = (right | guess).any(axis=0)
    if not there.any():
        assert set(found.values()) == {0.0}
        return
    right, guess = (matrix[:, there].astype(int) for matrix in (right, guess))
    if there.sum() == 1:  # A single column is no longer several labels for scikit-learn.
        right, guess = (np.concatenate([matrix, matrix], axis=1) for matrix in (right, guess))
    expected = {f"multi_label_{kind}_f1": f1_score(right, guess, average=kind, zero_division=0) for kind in ("micro", "macro")}
    assert found == pytest.approx(expected)


def test_multi_label_sets():
    found = MultiLabelF1(separator="|").compute(["b|a|a", "", "|"], labelled(["a|b", "", ""]))
    assert found == {"multi_label_micro_f1": 1.0, "multi_label_macro_f1": 1.0}
    assert set(MultiLabelF1().compute([""], labelled([""])).values()) == {0.0}
    with pytest.raises(ValueError, match="separator is empty"):
        MultiLabelF1(separator="")


def test_mean_absolute_error_equals_scikit_learn():
    mean_absolute_error = import_module("sklearn.metrics").mean_absolute_error
    rng = np.random.default_rng(0)
    order = ["terrible", "bad", "fair", "good", "great"]
    right, guess = rng.integers(0, 5, (2, 60))
    expected = {
        "mean_absolute_error": pytest.approx(mean_absolute_error(right, guess)),
        "within_one": pytest.approx(np.mean(np.abs(right - guess) <= 1)),
    }
    by_name = MeanAbsoluteError(order=order).compute([order[g] for g in guess], labelled([order[r] for r in right]))
    assert by_name == expected
    assert MeanAbsoluteError().compute([str(g) for g in guess], labelled([str(r) for r in right])) == expected
    letters = "abcde"
    assert set(right) | set(guess) == set(range(5))
    assert MeanAbsoluteError().compute([letters[g] for g in guess], labelled([letters[r] for r in right])) == expected


def test_numbers_are_taken_as_numbers():
    """10 lies after 9, and the labels that no row has still lie between."""
    found = MeanAbsoluteError().compute(["10", "1.5"], labelled(["9", "4"]))
    assert found == {"mean_absolute_error": 1.75, "within_one": 0.5}


def test_ordinal_errors():
    with pytest.raises(ValueError, match=r"the label 'x' is not in order \(a, b\)"):
        MeanAbsoluteError(order=["a", "b"]).compute(["x"], labelled(["a"]))
    for order in (["a", "a"], ["a"], []):
        with pytest.raises(ValueError, match="two labels or more"):
            MeanAbsoluteError(order=order)


@pytest.mark.parametrize("seed", range(6))
def test_correlation_equals_scipy(seed):
    stats = import_module("scipy.stats")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 60))
    x = rng.normal(size=n) if seed % 2 else rng.integers(0, 4, n).astype(float)
    y = (0.5 * x + rng.normal(size=n)).round(seed) * 10.0 ** (100 * seed - 200)
    x[:2], y[:2] = (0, 1), (y[2], y[2] + abs(y).max())
    found = Correlation().compute([repr(float(v)) for v in x], labelled([repr(float(v)) for v in y]))
    scale = abs(y).max()  # scipy itself loses such small and large numbers.
    assert found["pearson"] == pytest.approx(stats.pearsonr(x, y / scale).statistic)
    assert found["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_correlation_edges():
    rows = labelled(["1", "2", "3"])
    for undefined in (Correlation().compute(["5", "5", "5"], rows), Correlation().compute(["1", "2", "3"], labelled(["4"] * 3))):
        assert set(undefined) == {"pearson", "spearman"} and all(map(math.isnan, undefined.values()))
    assert Correlation().compute(["3", "2", "1"], rows) == {"pearson": pytest.approx(-1), "spearman": pytest.approx(-1)}
    for wrong in ("x", "nan", "inf", ""):
        with pytest.raises(ValueError, match=r"the prediction of row 1 is .* must be a finite number"):
            Correlation().compute(["1", wrong, "2"], rows)
    with pytest.raises(ValueError, match="the reference of row 0 is 'good'"):
        Correlation().compute(["1"], labelled(["good"]))


def test_signatures_say_how_figures_were_made():
    sacrebleu = import_module("sacrebleu")
    version = sacrebleu.__version__
    assert BLEU().signature() == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    assert BLEU(tokenize="none", lowercase=True).signature() == f"nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:{version}"
    assert ChrF(words=2).signature() == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:{version}"


def test_texts_that_are_tokenised_already():
    """Nothing is split further: a word with a full stop is one word, and one with a space before it two."""
    rows = [{"target": "it 's a don't-know case , is n't it ."}]
    assert BLEU(tokenize="none").compute(["it 's a don't-know case , is n't it ."], rows) == {"bleu": 100.0}
    joined = ["it's a don't-know case, isn't it."]
    assert BLEU(tokenize="none").compute(joined, rows)["bleu"] < 20 < BLEU().compute(joined, rows)["bleu"]
