from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest
from benchmarks.coverage import coverage, populations

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
    confidence_intervals,
    paired_test,
)
from weft.evaluate.intervals import bca_interval, proportion_interval
from weft.evaluate.resampling import AdditiveMetric

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


class WithoutStatistics(Metric):
    """The same metric without statistics."""

    def __init__(self, metric):
        super().__init__()
        self.metric = metric

    def compute(self, predictions, references):
        return self.metric.compute(predictions, references)


def data(metric, n, seed=0, errors=0.3):
    """Predictions and examples for a metric; a fraction ``errors`` of the words is replaced at random."""
    rng = np.random.default_rng(seed)
    words = WORDS[metric.field]
    gold = [[str(rng.choice(words)) for _ in range(rng.integers(5, 12))] for _ in range(n)]
    if metric.field == "label":
        gold = [row[:1] for row in gold]
    guess = [[str(rng.choice(words)) if rng.random() < errors else word for word in row] for row in gold]
    separator = "|" if isinstance(metric, MultiLabelF1) else " "
    if isinstance(metric, MultiLabelF1):
        guess = [[*row, "0"] if rng.random() < 0.3 else row for row in guess]
    return [separator.join(row) for row in guess], [
        {metric.field: separator.join(row), "kind": str(i % 3)} for i, row in enumerate(gold)
    ]


def names(metric):
    return f"{type(metric).__name__}-{getattr(metric, 'tokenize', '')}"


@pytest.mark.parametrize("metric", ADDITIVE, ids=names)
def test_values_from_statistics_equal_the_computed_ones(metric):
    predictions, references = data(metric, 80)
    stats = metric.statistics(predictions, references)
    assert isinstance(metric, AdditiveMetric) and len(stats) == 80
    direct, found = metric.compute(predictions, references), metric.from_statistics(stats.sum(axis=0))
    assert found and found == {name: pytest.approx(direct[name], abs=1e-12) for name in found}
    rows = np.random.default_rng(1).integers(0, 80, 80)
    again = metric.compute([predictions[i] for i in rows], [references[i] for i in rows])
    assert metric.from_statistics(stats[rows].sum(axis=0)) == {name: pytest.approx(again[name], abs=1e-12) for name in found}


@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"tokenize": "none"}, {"tokenize": "char"}])
def test_bleu_from_statistics_equals_sacrebleu(options):
    sacrebleu = import_module("sacrebleu")
    for seed in range(20):
        metric = BLEU(**options)
        predictions, references = data(metric, 1 + seed, seed, errors=0.1 * (seed % 11))
        predictions[0] = ("", "The cat's", predictions[0])[seed % 3]
        corpus = sacrebleu.BLEU(**options, force=True).corpus_score(predictions, [[row["target"] for row in references]])
        assert metric.from_statistics(metric.statistics(predictions, references).sum(axis=0)) == {"bleu": round(corpus.score, 6)}


@pytest.mark.parametrize(("rows", "accuracy", "level"), [(60, 0.7, 0.95), (200, 0.5, 0.8)])
def test_the_interval_has_the_declared_coverage(rows, accuracy, level):
    rng = np.random.default_rng(3)
    references, inside, trials = [{"label": "a"}] * rows, 0, 400
    for trial in range(trials):
        predictions = np.where(rng.random(rows) < accuracy, "a", "b").tolist()
        low, high = confidence_intervals(Accuracy(), predictions, references, samples=300, level=level, seed=trial)["accuracy"]
        inside += low <= accuracy <= high
    # four standard errors, and some tolerance for the percentiles of a small sample
    assert inside / trials == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / trials) + 0.01)


def test_the_interval_approaches_the_normal_approximation():
    predictions, references = data(Accuracy(), 2000)
    accuracy = Accuracy().compute(predictions, references)["accuracy"]
    low, high = confidence_intervals(Accuracy(), predictions, references, samples=4000)["accuracy"]
    reach = 1.96 * np.sqrt(accuracy * (1 - accuracy) / 2000)
    assert (low, high) == pytest.approx((accuracy - reach, accuracy + reach), abs=0.1 * reach)


def test_a_proportion_has_the_wilson_interval():
    """Newcombe 1998 (Two-sided confidence intervals for the single proportion), table I, method 3."""
    for right, n, expected in (
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
    ):
        predictions, references = ["a"] * right + ["b"] * (n - right), [{"label": "a"}] * n
        found = confidence_intervals(Accuracy(), predictions, references)["accuracy"]
        assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("n", "least"), [(5, 0.915), (10, 0.915), (20, 0.915), (50, 0.915), (51, 0.925), (200, 0.93)])
def test_the_interval_of_a_proportion_covers_every_value(n, least):
    """Exactly, from the binomial distribution. Wilson's interval alone covers 83 to 84 % near 0 and 1 for up to 50 examples."""
    bounds = [proportion_interval(x / n, np.ones(1), n, 0.95, is_binary=True) for x in range(n + 1)]
    assert [low for low, _ in bounds] == pytest.approx([1 - high for _, high in reversed(bounds)])
    for p in np.linspace(0.0005, 0.9995, 1999):
        inside = [x for x, (low, high) in enumerate(bounds) if low <= p <= high]
        assert sum(math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in inside) >= least, p
    # Brown, Cai & DasGupta 2001, table of the Poisson limits
    assert bounds[1][0] == pytest.approx(0.0513 / n, abs=1e-4)


@pytest.mark.parametrize("metric", [Accuracy(), ExactMatch(), MacroF1(), EntityF1(), MultiLabelF1()], ids=names)
def test_a_sample_without_errors_is_no_proof_of_a_perfect_score(metric):
    predictions, references = data(metric, 20, errors=0)
    predictions = [row[metric.field] for row in references]
    for name, (low, high) in confidence_intervals(metric, predictions, references).items():
        assert 0.75 < low < 0.87 and high == 1, name
    # several decisions per example, or one: errors make the interval of either kind wider than a few thousandths
    predictions, references = data(metric, 200)
    assert all(0.02 < high - low < 0.2 for low, high in confidence_intervals(metric, predictions, references).values())


def test_bca_equals_scipy():
    stats = import_module("scipy.stats")
    rng = np.random.default_rng(2)
    x = rng.exponential(size=30)
    theirs = stats.bootstrap((x,), np.mean, n_resamples=4000, method="BCa", rng=np.random.default_rng(0))
    values = x[rng.integers(0, 30, (4000, 30))].mean(1)
    jackknife = (x.sum() - x) / 29
    ours = bca_interval(float(x.mean()), values, jackknife, 0.95)
    assert ours == pytest.approx(tuple(theirs.confidence_interval), rel=0.03)
    plain = tuple(np.quantile(values, (0.025, 0.975)))
    assert ours[0] > plain[0] and ours[1] > plain[1]  # the mean of a skewed distribution


COVERED = [
    ("accuracy, p = 0.95", 20),
    ("macro-F1, p = 0.95, classes 0.8 : 0.2", 10),
    ("macro-F1, p = 0.5, classes 0.5 : 0.5", 10),
    ("correlation, r = 0.9", 10),
]


@pytest.mark.parametrize(("title", "n"), COVERED)
def test_small_samples_have_the_declared_coverage(title, n):
    """``python -m benchmarks.coverage`` measures all; of 120 trials, 105 is two standard errors below 92 %."""
    population = next(one for one in populations() if one.title == title)
    found = coverage(population, n, trials=120, seed=1, samples=100)
    assert all(share >= 105 / 120 for share in found.values()), found


def test_metrics_without_statistics_have_intervals():
    metric = EntityF1()
    predictions, references = data(metric, 60)
    fast, slow = (
        confidence_intervals(metric, predictions, references),
        confidence_intervals(WithoutStatistics(metric), predictions, references),
    )
    assert set(fast) < set(slow) and "entity_f1/X" in slow
    for name, (low, high) in fast.items():
        assert slow[name] == pytest.approx((low, high), abs=0.25 * (high - low))
    found = confidence_intervals(Correlation(), *data(Correlation(), 50), samples=50)
    assert set(found) == {"pearson", "spearman"} and all(-1 <= low < high <= 1 for low, high in found.values())


@pytest.mark.filterwarnings("error")
def test_undefined_values_have_neither_interval_nor_p_value():
    rows = [{"label": "4"}] * 6
    assert confidence_intervals(Correlation(), list("123456"), rows) == {}
    assert all(map(math.isnan, paired_test(Correlation(), list("123456"), list("654321"), rows).values()))


def test_groups_may_be_missing_from_samples():
    references = [{"target": "a", "kind": "often"}] * 20 + [{"target": "a", "kind": "once"}]
    found = confidence_intervals(WithoutStatistics(ExactMatch(group_by="kind")), ["a"] * 21, references)
    assert found["exact_match/once"] == (1.0, 1.0)


@pytest.mark.parametrize("method", ["randomization", "bootstrap"])
@pytest.mark.parametrize("metric", [Accuracy(), MacroF1(), EntityF1(), BLEU(), WithoutStatistics(Accuracy())], ids=names)
def test_different_systems_have_small_p_values_and_equal_ones_large(metric, method):
    inner = getattr(metric, "metric", metric)
    good, references = data(inner, 150, errors=0.2)
    bad, same = data(inner, 150, errors=0.8)
    assert same == references
    assert set(paired_test(metric, good, good, references, method=method).values()) == {1.0}
    forward, backward = (paired_test(metric, *pair, references, method=method) for pair in ((good, bad), (bad, good)))
    assert all(p < 0.02 for p in forward.values()) and forward == pytest.approx(backward, abs=0.02)
    almost = [*bad[:1], *good[1:]]
    assert all(p > 0.1 for p in paired_test(metric, good, almost, references, method=method).values())


@pytest.mark.parametrize("method", ["randomization", "bootstrap"])
@pytest.mark.parametrize("metric", [MacroF1(), MultiLabelF1(), EntityF1(), ChrF()], ids=names)
def test_p_values_do_not_depend_on_statistics(metric, method):
    good, references = data(metric, 30, errors=0.3)
    # a class that only one of the systems predicts
    other = [p.replace("0", "-1").replace("B-Y", "B-Z") for p in data(metric, 30, errors=0.4)[0]]
    fast, slow = (paired_test(m, good, other, references, samples=60, method=method) for m in (metric, WithoutStatistics(metric)))
    assert fast == {name: pytest.approx(slow[name]) for name in fast} and 1 / 61 <= min(fast.values()) <= 1


@pytest.mark.parametrize("method", ["randomization", "bootstrap"])
def test_false_positives_are_as_rare_as_the_significance_level(method):
    """Under the null hypothesis p <= 0.1 in a tenth of all cases."""
    rng, rows, rejected = np.random.default_rng(0), [{"label": "a"}] * 100, 0
    for trial in range(300):
        a, b = (np.where(rng.random(100) < 0.7, "a", "b").tolist() for _ in range(2))
        rejected += paired_test(Accuracy(), a, b, rows, samples=200, method=method, seed=trial)["accuracy"] <= 0.1
    assert 0.03 < rejected / 300 < 0.17


def test_randomization_equals_the_exact_permutation_test():
    """Ten examples have 1024 permutations."""
    a, b = list("aaaaaaabba"), list("abababbbab")
    rows = [{"label": "a"}] * 10
    difference = np.array([(x == "a") - (y == "a") for x, y in zip(a, b, strict=True)])
    signs = 1 - 2 * ((np.arange(1024)[:, None] >> np.arange(10)) & 1)
    exact = (np.abs(signs @ difference) >= abs(difference.sum())).mean()
    assert paired_test(Accuracy(), a, b, rows, samples=20_000)["accuracy"] == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(("method", "name"), [("randomization", "ar"), ("bootstrap", "bs")])
def test_p_values_equal_those_of_sacrebleu(method, name):
    significance, sacrebleu = import_module("sacrebleu.significance"), import_module("sacrebleu")
    good, references = data(BLEU(), 100, errors=0.3)
    rng = np.random.default_rng(2)
    bad = [" ".join(w if rng.random() < 0.97 else "cat" for w in p.split()) for p in good]
    texts = [[row["target"] for row in references]]
    test = significance.PairedTest([("a", good), ("b", bad)], {"BLEU": sacrebleu.BLEU()}, texts, test_type=name, n_samples=2000)
    theirs = next(column for key, column in test()[1].items() if "BLEU" in key)[1].p_value
    assert 0.005 < theirs < 0.5
    assert paired_test(BLEU(), good, bad, references, samples=2000, method=method)["bleu"] == pytest.approx(theirs, abs=0.03)


def test_the_seed_determines_the_interval():
    predictions, references = data(BLEU(), 40)
    first, second, other = (confidence_intervals(BLEU(), predictions, references, samples=37, seed=s) for s in (1, 1, 2))
    assert first == second != other


def test_invalid_arguments_are_rejected():
    rows = [{"label": "a"}] * 2
    with pytest.raises(ValueError, match="level is 95"):
        confidence_intervals(Accuracy(), ["a", "a"], rows, level=95)
    with pytest.raises(ValueError, match="samples is 1; must be at least 10"):
        confidence_intervals(Accuracy(), ["a", "a"], rows, samples=1)
    with pytest.raises(ValueError, match="got 1 predictions for 2 examples"):
        confidence_intervals(Accuracy(), ["a"], rows)
    with pytest.raises(ValueError, match="got 2 and 1 predictions for 2 examples"):
        paired_test(Accuracy(), ["a", "a"], ["a"], rows)
    with pytest.raises(ValueError, match="method is 'sign'"):
        paired_test(Accuracy(), ["a", "a"], ["a", "b"], rows, method="sign")
