from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest

from weft.core.contracts import Metric
from weft.evaluate import (
    BLEU,
    Accuracy,
    ChrF,
    Correlation,
    EntityF1,
    ExactMatch,
    MacroF1,
    MeanAbsoluteError,
    MultiLabelF1,
    bootstrap,
    paired,
)
from weft.evaluate.bootstrap import Additive

ADDITIVE = [
    Accuracy(),
    ExactMatch(),
    MacroF1(),
    EntityF1(),
    MultiLabelF1(),
    MeanAbsoluteError(),
    BLEU(),
    BLEU(tokenize="none"),
    ChrF(),
]
WORDS = {
    "tags": ["O", "B-X", "I-X", "B-Y"],
    "target": ["the", "cat", "sat", "on", "a", "mat", "."],
    "label": ["0", "1", "2", "3"],
}


class Slow(Metric):
    """The same figures, but without statistics."""

    def __init__(self, metric):
        super().__init__()
        self.metric = metric

    def compute(self, predictions, references):
        return self.metric.compute(predictions, references)


def data(metric, n, seed=0, errors=0.3):
    """Predictions and rows fit for a metric; ``errors`` of the words are drawn anew."""
    rng = np.random.default_rng(seed)
    words = WORDS[metric.field]
    right = [[str(rng.choice(words)) for _ in range(rng.integers(5, 12))] for _ in range(n)]
    if metric.field == "label":
        right = [row[:1] for row in right]
    guess = [[str(rng.choice(words)) if rng.random() < errors else word for word in row] for row in right]
    joint = "|" if isinstance(metric, MultiLabelF1) else " "
    if isinstance(metric, MultiLabelF1):
        guess = [[*row, "0"] if rng.random() < 0.3 else row for row in guess]
    return [joint.join(row) for row in guess], [
        {metric.field: joint.join(row), "kind": str(i % 3)} for i, row in enumerate(right)
    ]


def names(metric):
    return f"{type(metric).__name__}-{getattr(metric, 'tokenize', '')}"


@pytest.mark.parametrize("metric", ADDITIVE, ids=names)
def test_figures_from_statistics_are_those_computed(metric):
    predictions, references = data(metric, 80)
    stats = metric.statistics(predictions, references)
    assert isinstance(metric, Additive) and len(stats) == 80
    whole, found = metric.compute(predictions, references), metric.from_statistics(stats.sum(axis=0))
    assert found and found == {name: pytest.approx(whole[name], abs=1e-12) for name in found}
    rows = np.random.default_rng(1).integers(0, 80, 80)
    again = metric.compute([predictions[i] for i in rows], [references[i] for i in rows])
    assert metric.from_statistics(stats[rows].sum(axis=0)) == {name: pytest.approx(again[name], abs=1e-12) for name in found}


@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"tokenize": "none"}, {"tokenize": "char"}])
def test_bleu_of_sums_is_exactly_that_of_sacrebleu(options):
    sacrebleu = import_module("sacrebleu")
    for seed in range(20):
        metric = BLEU(**options)
        predictions, references = data(metric, 1 + seed, seed, errors=0.1 * (seed % 11))
        predictions[0] = ("", "The cat's", predictions[0])[seed % 3]
        corpus = sacrebleu.BLEU(**options, force=True).corpus_score(predictions, [[row["target"] for row in references]])
        assert metric.from_statistics(metric.statistics(predictions, references).sum(axis=0)) == {"bleu": round(corpus.score, 6)}


@pytest.mark.parametrize(("rows", "share", "level"), [(60, 0.7, 0.95), (200, 0.5, 0.8)])
def test_the_interval_contains_the_truth_as_often_as_it_says(rows, share, level):
    rng = np.random.default_rng(3)
    references, inside, trials = [{"label": "a"}] * rows, 0, 400
    for trial in range(trials):
        predictions = np.where(rng.random(rows) < share, "a", "b").tolist()
        low, high = bootstrap(Accuracy(), predictions, references, samples=300, level=level, seed=trial)["accuracy"]
        inside += low <= share <= high
    # Four standard errors, and a little for what the percentiles of a small sample leave out.
    assert inside / trials == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / trials) + 0.01)


def test_the_interval_is_that_of_the_normal_distribution_for_many_rows():
    predictions, references = data(Accuracy(), 2000)
    share = Accuracy().compute(predictions, references)["accuracy"]
    low, high = bootstrap(Accuracy(), predictions, references, samples=4000)["accuracy"]
    reach = 1.96 * np.sqrt(share * (1 - share) / 2000)
    assert (low, high) == pytest.approx((share - reach, share + reach), abs=0.1 * reach)


def test_intervals_without_statistics():
    metric = EntityF1()
    predictions, references = data(metric, 60)
    fast, slow = bootstrap(metric, predictions, references), bootstrap(Slow(metric), predictions, references)
    assert set(fast) < set(slow) and "entity_f1/X" in slow
    for name, (low, high) in fast.items():
        assert slow[name] == pytest.approx((low, high), abs=0.25 * (high - low))
    found = bootstrap(Correlation(), *data(Correlation(), 50), samples=50)
    assert set(found) == {"pearson", "spearman"} and all(-1 <= low < high <= 1 for low, high in found.values())


@pytest.mark.filterwarnings("error")
def test_a_figure_that_is_not_defined_has_no_interval_and_is_not_compared():
    rows = [{"label": "4"}] * 6
    assert bootstrap(Correlation(), list("123456"), rows) == {}
    assert all(map(math.isnan, paired(Correlation(), list("123456"), list("654321"), rows).values()))


def test_groups_that_are_missing_from_some_samples():
    references = [{"target": "a", "kind": "often"}] * 20 + [{"target": "a", "kind": "once"}]
    found = bootstrap(Slow(ExactMatch(by="kind")), ["a"] * 21, references)
    assert found["exact_match/once"] == (1.0, 1.0)


@pytest.mark.parametrize("method", ["randomisation", "bootstrap"])
@pytest.mark.parametrize("metric", [Accuracy(), MacroF1(), EntityF1(), BLEU(), Slow(Accuracy())], ids=names)
def test_p_values(metric, method):
    inner = getattr(metric, "metric", metric)
    good, references = data(inner, 150, errors=0.2)
    bad, same = data(inner, 150, errors=0.8)
    assert same == references
    assert set(paired(metric, good, good, references, method=method).values()) == {1.0}
    there, back = (paired(metric, *pair, references, method=method) for pair in ((good, bad), (bad, good)))
    assert all(p < 0.02 for p in there.values()) and there == pytest.approx(back, abs=0.02)
    almost = [*bad[:1], *good[1:]]
    assert all(p > 0.1 for p in paired(metric, good, almost, references, method=method).values())


@pytest.mark.parametrize("method", ["randomisation", "bootstrap"])
@pytest.mark.parametrize("metric", [MacroF1(), MultiLabelF1(), EntityF1(), ChrF()], ids=names)
def test_sums_and_figures_computed_again_say_the_same(metric, method):
    good, references = data(metric, 30, errors=0.3)
    # A class that only one of the two systems predicts.
    other = [p.replace("0", "-1").replace("B-Y", "B-Z") for p in data(metric, 30, errors=0.4)[0]]
    fast, slow = (paired(m, good, other, references, samples=60, method=method) for m in (metric, Slow(metric)))
    assert fast == {name: pytest.approx(slow[name]) for name in fast} and 1 / 61 <= min(fast.values()) <= 1


@pytest.mark.parametrize("method", ["randomisation", "bootstrap"])
def test_equally_good_systems_are_rarely_told_apart(method):
    """Under the null hypothesis p <= 0.1 in a tenth of all cases."""
    rng, rows, rejected = np.random.default_rng(0), [{"label": "a"}] * 100, 0
    for trial in range(300):
        a, b = (np.where(rng.random(100) < 0.7, "a", "b").tolist() for _ in range(2))
        rejected += paired(Accuracy(), a, b, rows, samples=200, method=method, seed=trial)["accuracy"] <= 0.1
    assert 0.03 < rejected / 300 < 0.17


def test_randomisation_equals_all_swaps_counted():
    """With ten rows, all 1024 ways to swap can be tried."""
    a, b = list("aaaaaaabba"), list("abababbbab")
    rows = [{"label": "a"}] * 10
    difference = np.array([(x == "a") - (y == "a") for x, y in zip(a, b, strict=True)])
    signs = 1 - 2 * ((np.arange(1024)[:, None] >> np.arange(10)) & 1)
    exact = (np.abs(signs @ difference) >= abs(difference.sum())).mean()
    assert paired(Accuracy(), a, b, rows, samples=20_000)["accuracy"] == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(("method", "name"), [("randomisation", "ar"), ("bootstrap", "bs")])
def test_p_values_are_those_of_sacrebleu(method, name):
    significance, sacrebleu = import_module("sacrebleu.significance"), import_module("sacrebleu")
    good, references = data(BLEU(), 100, errors=0.3)
    rng = np.random.default_rng(2)
    bad = [" ".join(w if rng.random() < 0.97 else "cat" for w in p.split()) for p in good]
    texts = [[row["target"] for row in references]]
    test = significance.PairedTest([("a", good), ("b", bad)], {"BLEU": sacrebleu.BLEU()}, texts, test_type=name, n_samples=2000)
    theirs = next(column for key, column in test()[1].items() if "BLEU" in key)[1].p_value
    assert 0.005 < theirs < 0.5
    assert paired(BLEU(), good, bad, references, samples=2000, method=method)["bleu"] == pytest.approx(theirs, abs=0.03)


def test_the_seed_decides():
    predictions, references = data(Accuracy(), 40)
    first, second, other = (bootstrap(Accuracy(), predictions, references, samples=37, seed=s) for s in (1, 1, 2))
    assert first == second != other


def test_errors():
    rows = [{"label": "a"}] * 2
    with pytest.raises(ValueError, match="level is 95"):
        bootstrap(Accuracy(), ["a", "a"], rows, level=95)
    with pytest.raises(ValueError, match="samples is 1,"):
        bootstrap(Accuracy(), ["a", "a"], rows, samples=1)
    with pytest.raises(ValueError, match="1 predictions for 2 rows"):
        bootstrap(Accuracy(), ["a"], rows)
    with pytest.raises(ValueError, match="2 and 1 predictions for 2 rows"):
        paired(Accuracy(), ["a", "a"], ["a"], rows)
    with pytest.raises(ValueError, match="method is 'sign'"):
        paired(Accuracy(), ["a", "a"], ["a", "b"], rows, method="sign")
