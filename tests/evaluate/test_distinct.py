from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.evaluate import Distinct, Repetition, confidence_intervals, distinct_ngrams, distinct_texts, repetition_rate

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=8).map(" ".join), min_size=1, max_size=6)


def test_worked_examples():
    texts = ["a b a", "a b", "c c c"]
    assert distinct_ngrams(texts, 1) == 3 / 8
    assert distinct_ngrams(texts, 2) == 3 / 5  # a b, b a, c c
    assert distinct_ngrams(texts, 3) == 1.0  # a b a and c c c
    assert distinct_ngrams(texts, 4) == 0.0  # no 4-gram
    assert repetition_rate(texts) == 2 / 5
    assert repetition_rate(["a", ""]) == repetition_rate([]) == 0
    assert distinct_texts([*texts, " a  b "]) == 3 / 4


def test_n_grams_do_not_cross_texts():
    assert distinct_ngrams(["a b", "a b"], 2) == 0.5
    assert repetition_rate(["a b", "b a"]) == 0


@settings(max_examples=50, deadline=None)
@given(TEXTS)
def test_doubling_the_texts_halves_distinct_and_keeps_repetition(texts):
    for n in (1, 2):
        assert 0 <= distinct_ngrams(texts, n) <= 1
        assert distinct_ngrams([*texts, *texts], n) == pytest.approx(distinct_ngrams(texts, n) / 2)
    assert distinct_texts([*texts, *texts]) == pytest.approx(distinct_texts(texts) / 2)
    assert repetition_rate([*texts, *texts]) == pytest.approx(repetition_rate(texts))


def test_metrics_report_the_functions_values():
    texts, rows = ["a b a", "a b", "c c c"], [{}] * 3
    assert Distinct().compute(texts, rows) == {"distinct_1": 3 / 8, "distinct_2": 3 / 5, "distinct_texts": 1.0}
    assert Distinct(max_texts=2).compute(texts, rows) == {"distinct_1": 3 / 6, "distinct_2": 3 / 4, "distinct_texts": 1.0}
    assert Distinct(max_texts=2).signature() == "2 texts" and Distinct(max_texts=0).signature() == "all texts"
    assert Repetition().compute(texts, rows) == {"repetition": 2 / 5}
    assert confidence_intervals(Distinct(), texts, rows) == {}  # resampled duplicates are no duplicates of the model
    low, high = confidence_intervals(Repetition(), texts, rows)["repetition"]
    assert low <= 2 / 5 <= high


def test_empty_input_is_rejected():
    with pytest.raises(ValueError, match="n is 0"):
        distinct_ngrams(["a"], 0)
    with pytest.raises(ValueError, match="got no texts"):
        distinct_texts([])
    for metric in (Distinct(), Repetition()):
        with pytest.raises(ValueError, match="got no examples to evaluate"):
            metric.compute([], [])
