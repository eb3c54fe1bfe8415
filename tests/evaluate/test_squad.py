"""Metrics of SQuAD, and word-overlap baselines."""

from __future__ import annotations

import collections
import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.evaluate import AnswerExactMatch, AnswerF1, confidence_intervals, overlapping_sentence, overlapping_span


def normal(text: str) -> list[str]:
    """Normalization by definition: lowercase, without punctuation, articles and whitespace."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def expected_scores(answer: str, answers: list[str]) -> tuple[float, float]:
    """Exact match and F1 of one answer as SQuAD 2.0 defines them."""
    answers = [text for text in answers if normal(text)] or [""]
    best_exact = best_f1 = 0.0
    for gold in answers:
        a, b = normal(answer), normal(gold)
        best_exact = max(best_exact, float(a == b))
        if not a or not b:
            best_f1 = max(best_f1, float(a == b))
            continue
        same = sum((collections.Counter(a) & collections.Counter(b)).values())
        precision, recall = same / len(a), same / len(b)
        best_f1 = max(best_f1, 2 * precision * recall / (precision + recall) if same else 0.0)
    return best_exact, best_f1


AWKWARD = [
    "",
    "the",
    "A",
    "a an the",
    "!?",
    "The  Denver Broncos.",
    "denver broncos",
    "Broncos, Denver",
    "theatre",
    "don't",
    "dont",
    "1,000",
    "1000",
    "U.S.",
    "us",
    "an apple an apple",
    "apple",
    "Café",
    "cafe",
    "well-known",
    "well known",
    "the-end",
    "  ",
    "«Paris»",
]
TEXT = st.sampled_from(AWKWARD) | st.text(st.sampled_from([*"ab the an.,'- "]), max_size=12)


@given(st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3)), min_size=1, max_size=8))
def test_metrics_equal_the_definition(rows: list[tuple[str, list[str]]]) -> None:
    answers = [answer for answer, _ in rows]
    references = [{"answer": "\t".join(gold)} for _, gold in rows]
    want = np.mean([expected_scores(answer, gold) for answer, gold in rows], axis=0)
    assert AnswerExactMatch().compute(answers, references)["answer_exact_match"] == pytest.approx(want[0])
    assert AnswerF1().compute(answers, references)["answer_f1"] == pytest.approx(want[1])


CASES = [
    ("the Broncos", ["Denver Broncos", "Broncos"], 1, 1),
    ("Denver", ["Denver Broncos"], 0, 2 / 3),
    ("", [], 1, 1),
    ("Denver", [], 0, 0),
    ("", ["Denver"], 0, 0),
    ("the", [], 1, 1),  # empty after normalization
    ("Denver Denver", ["Denver"], 0, 2 / 3),  # matches are clipped
]


@pytest.mark.parametrize(("answer", "gold", "exact", "f1"), CASES)
def test_worked_examples(answer: str, gold: list[str], exact: float, f1: float) -> None:
    row = [{"answer": "\t".join(gold)}]
    assert AnswerExactMatch().compute([answer], row) == {"answer_exact_match": exact}
    assert AnswerF1().compute([answer], row)["answer_f1"] == pytest.approx(f1)


def test_metrics_have_intervals_and_a_configurable_column() -> None:
    rows = [{"gold": "a b"}, {"gold": "b c"}, {"gold": ""}] * 10
    for metric in (AnswerExactMatch(field="gold"), AnswerF1(field="gold")):
        (name, value), *_ = metric.compute(["b"] * 30, rows).items()
        low, high = confidence_intervals(metric, ["b"] * 30, rows)[name]
        assert low <= value <= high
    with pytest.raises(ValueError, match="example 0 has no column 'answer'"):
        AnswerF1().compute(["b"], [{"gold": "b"}])


CONTEXT = "It rained all day. In May, Ann Lee won the cup of the town. She smiled! The crowd left the ground early."


def test_rare_question_words_determine_the_sentence() -> None:
    assert overlapping_sentence("Who won the cup?", CONTEXT) == "In May, Ann Lee won the cup of the town."
    assert overlapping_sentence("When did the crowd leave?", CONTEXT) == "The crowd left the ground early."
    assert overlapping_sentence("Was ist das?", CONTEXT) == "It rained all day."  # no overlap: the first
    assert overlapping_sentence("Who?", "") == "" == overlapping_span("Who?", "")


def test_the_span_contains_no_question_word() -> None:
    assert overlapping_span("Who won the cup of the town?", CONTEXT) == "Ann Lee"
    assert overlapping_span("Ann won", "Ann won.") == ""


@given(st.text(st.sampled_from([*"abc !;"]), max_size=30), st.text(st.sampled_from([*"abc !;"]), max_size=30))
def test_sentence_and_span_are_substrings_of_the_context(question: str, context: str) -> None:
    sentence, span = overlapping_sentence(question, context), overlapping_span(question, context)
    assert sentence in context and span in sentence
    assert not set(re.findall(r"\w+", span)) & set(re.findall(r"\w+", question))
