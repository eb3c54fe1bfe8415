"""BLEU with many references and Self-BLEU: worked examples, the definition, sacrebleu."""

from __future__ import annotations

import math
from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.evaluate import (
    BleuScore,
    ForwardBLEU,
    ReferencePool,
    SelfBLEU,
    confidence_intervals,
    corpus_bleu,
    g_score,
    paired_test,
    self_bleu,
)
from weft.evaluate.subsample import subsample

WORDS = st.lists(st.sampled_from("abc"), max_size=8).map(" ".join)
SOME = st.lists(WORDS, min_size=1, max_size=6)


def by_definition(texts, references, order):
    """The formula of the docstring."""
    found, totals, c, r = [0] * order, [0] * order, 0, 0
    for text, own in zip(texts, references, strict=True):
        words, others = text.split(), [o.split() for o in own]
        c += len(words)
        r += min((abs(len(o) - len(words)), len(o)) for o in others)[1]
        for n in range(1, order + 1):

            def counted(words, n=n):
                return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

            for gram, count in counted(words).items():
                found[n - 1] += min(count, max(counted(o)[gram] for o in others))
                totals[n - 1] += count
    if not c or 0 in found:
        return 0.0
    penalty = 1 if c > r else math.exp(1 - r / c)
    return 100 * penalty * math.exp(sum(math.log(f / t) for f, t in zip(found, totals, strict=True)) / order)


# --------------------------------------------------------------------------------------------------------------- worked examples


def test_corpus_bleu_of_a_worked_example():
    texts = ["the cat sat", "a dog dog dog", "it ran"]
    references = [["the cat slept", "cat sat down here"], ["a dog dog ran"], ["it ran off"]]
    # matching words: the, cat, sat; a, dog, dog (two of three); it, ran: 8 of 9
    # matching bigrams: the cat, cat sat; a dog, dog dog (one of two); it ran: 5 of 6
    # lengths: 3 + 4 + 2 = 9 and references 3 + 4 + 3 = 10
    found = corpus_bleu(texts, references, order=2)
    assert found.precisions == (8 / 9, 5 / 6)
    assert found.brevity_penalty == pytest.approx(math.exp(1 - 10 / 9))
    assert found.score == pytest.approx(100 * math.exp(-1 / 9) * math.sqrt(8 / 9 * 5 / 6))
    assert (found.order, found.texts, found.references, found.min_references) == (2, 3, 2, 1)
    assert str(found) == f"BLEU-2 {found.score:.2f} (texts: 3, references per text: 1 to 2)"


def test_self_bleu_of_a_worked_example():
    # "a a b" matches a once (of two), b, and the bigram a b: 2 of 3, 1 of 2
    # "a b" matches a, b, and a b: 2 of 2, 1 of 1; "c a b b" matches a, b once (of two), and a b: 2 of 4, 1 of 3
    found = self_bleu(["a a b", "a b", "c a b b"], order=2)
    assert found.precisions == (6 / 9, 3 / 6)
    # closest lengths of the others: 2 for 3 (rather than 4), 3 for 2, 3 for 4; in sum 8, and 9 words
    assert found.brevity_penalty == 1
    assert found.score == pytest.approx(100 * math.sqrt(6 / 9 * 3 / 6))
    assert (found.texts, found.references, found.min_references) == (3, 2, 2)


@pytest.mark.parametrize(
    ("text", "lengths", "nearest"),
    [("a a a", (2, 4), 2), ("a a a", (4, 2), 2), ("a a a", (1, 4), 4), ("a a a", (1, 3, 4), 3), ("a", (5, 9), 5), ("", (3,), 3)],
)
def test_the_closest_reference_length_counts_and_of_two_the_shorter(text, lengths, nearest):
    words = len(text.split())
    found = ReferencePool([" ".join(["a"] * n) for n in lengths]).statistics([text])[0]
    assert found[:2].tolist() == [words, nearest]


def test_the_brevity_penalty_applies_to_short_texts_only():
    assert corpus_bleu(["a b c d e"], [["a b c d"]]).brevity_penalty == 1
    assert corpus_bleu(["a b c d"], [["a b c d"]]).brevity_penalty == 1
    assert corpus_bleu(["a b c d"], [["a b c d e f"]]).brevity_penalty == pytest.approx(math.exp(-0.5))


def test_bleu_is_zero_without_matches_of_any_order():
    """There is no smoothing."""
    assert corpus_bleu(["a b c d"], [["d c b a"]]).score == 0
    assert corpus_bleu(["a b c"], [["a b c"]]).score == 0 and corpus_bleu(["a b c"], [["a b c"]], order=3).score == 100
    assert corpus_bleu([""], [["a"]]).score == 0 and corpus_bleu([""], [[""]]).score == 0


# --------------------------------------------------------------------------------------------------------- by definition


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(WORDS, SOME), min_size=1, max_size=6), st.integers(1, 4))
def test_corpus_bleu_equals_the_definition(rows, order):
    texts, references = [text for text, _ in rows], [own for _, own in rows]
    assert corpus_bleu(texts, references, order=order).score == pytest.approx(by_definition(texts, references, order))


@settings(max_examples=100, deadline=None)
@given(SOME, SOME, st.integers(1, 4))
def test_a_reference_pool_equals_a_list_for_each_text(texts, pool, order):
    copies = [list(pool) for _ in texts]
    assert ReferencePool(pool, order=order).bleu(texts) == corpus_bleu(texts, copies, order=order)
    assert corpus_bleu(texts, [pool] * len(texts), order=order) == corpus_bleu(texts, copies, order=order)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, min_size=2, max_size=9), st.integers(1, 4))
def test_self_bleu_equals_bleu_against_all_other_texts(texts, order):
    others = [texts[:i] + texts[i + 1 :] for i in range(len(texts))]
    assert self_bleu(texts, order=order) == corpus_bleu(texts, others, order=order)


@pytest.mark.parametrize("seed", range(6))
def test_corpus_bleu_equals_sacrebleu(seed):
    bleu = import_module("sacrebleu.metrics.bleu").BLEU
    rng = np.random.default_rng(seed)

    def random_texts(rows):
        return [" ".join(rng.choice(list("abcdefg"), rng.integers(1, 14))) for _ in range(rows)]

    texts, order = random_texts(30), 2 + seed % 3
    streams = [random_texts(30) for _ in range(1 + seed)]
    theirs = bleu(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)
    own = corpus_bleu(texts, [list(row) for row in zip(*streams, strict=True)], order=order)
    assert own.score == pytest.approx(theirs.corpus_score(texts, streams).score) and own.score > 1
    pool = random_texts(40)
    everything = [[reference] * 30 for reference in pool]
    assert ReferencePool(pool, order=order).bleu(texts).score == pytest.approx(theirs.corpus_score(texts, everything).score)


# ------------------------------------------------------------------------------------------------------------ properties


@settings(max_examples=100, deadline=None)
@given(SOME, SOME, SOME)
def test_precision_does_not_decrease_with_more_references(texts, pool, more):
    few, many = ReferencePool(pool).bleu(texts), ReferencePool([*pool, *more]).bleu(texts)
    assert all(a <= b for a, b in zip(few.precisions, many.precisions, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_bleu_increases_with_the_number_of_references(seed):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(list("abcdefghij"), 10)) for _ in range(1100)]
    scores = [ReferencePool(texts[100 : 100 + n]).bleu(texts[:100]).score for n in (10, 100, 1000)]
    assert scores[0] < scores[1] < scores[2] and scores[2] > scores[0] + 20


@settings(max_examples=50, deadline=None)
@given(st.lists(WORDS, min_size=2, max_size=6), st.permutations(range(6)))
def test_the_order_of_texts_does_not_matter(texts, order):
    again = [texts[i] for i in order if i < len(texts)]
    assert self_bleu(again) == self_bleu(texts)
    assert ReferencePool(texts).bleu(again) == ReferencePool(again).bleu(texts)


def test_self_bleu_of_equal_and_of_different_texts():
    assert self_bleu(["so it is good"] * 7).score == 100
    assert self_bleu(["a b c d", "e f g h", "i j k l"]).score == 0


def test_g_score_is_the_geometric_mean():
    assert g_score(0.949, 58.88) == pytest.approx(74.75, abs=0.005)
    assert g_score(0, 50) == g_score(1, 0) == 0 and g_score(1, 100) == 100


# --------------------------------------------------------------------------------------------------------------- metrics


EXAMPLES = [{"target": text} for text in ("the food was good", "the staff was rude", "it was fine today", "the food was cold")]
GENERATED = ["the food was rude", "it was good today", "the staff was fine today", "the food was good"]


def test_forward_bleu_equals_the_bleu_of_the_reference_pool():
    expected = ReferencePool([row["target"] for row in EXAMPLES], order=2).bleu(GENERATED)
    found = ForwardBLEU(order=2).compute(GENERATED, EXAMPLES)
    assert found == {"forward_bleu": expected.score, "forward_bleu_texts": 4, "forward_bleu_references": 4}
    few = ForwardBLEU(order=2, max_references=2).compute(GENERATED, EXAMPLES)
    assert few["forward_bleu_references"] == 2
    assert few["forward_bleu"] == ReferencePool([EXAMPLES[0]["target"], EXAMPLES[3]["target"]], order=2).bleu(GENERATED).score
    assert ForwardBLEU(order=2, max_references=0).compute(GENERATED, EXAMPLES) == found
    assert "BLEU-2" in ForwardBLEU(order=2).signature() and "references:1000" in ForwardBLEU(order=2).signature()


def test_resampling_keeps_the_references_of_forward_bleu():
    metric = ForwardBLEU(order=2, max_references=2)
    sums = metric.statistics(GENERATED, EXAMPLES).sum(axis=0)
    assert metric.from_statistics(sums)["forward_bleu"] == metric.compute(GENERATED, EXAMPLES)["forward_bleu"]
    low, high = confidence_intervals(metric, GENERATED, EXAMPLES)["forward_bleu"]
    assert low <= metric.compute(GENERATED, EXAMPLES)["forward_bleu"] <= high
    # a paired test passes each example twice: the references are the same
    assert (
        metric.statistics([*GENERATED, *GENERATED], [*EXAMPLES, *EXAMPLES])[:4].tolist()
        == metric.statistics(GENERATED, EXAMPLES).tolist()
    )
    assert paired_test(metric, GENERATED, GENERATED, EXAMPLES)["forward_bleu"] == 1


def test_the_metric_self_bleu_has_no_interval():
    texts = ["a b", "b a", "c d", "d c"]
    rows = [{"target": "-"}] * 4
    assert SelfBLEU(order=1).compute(texts, rows) == {"self_bleu": 100.0}
    assert SelfBLEU(order=1, max_texts=3).compute(texts, rows)["self_bleu"] == pytest.approx(
        self_bleu(subsample(texts, 3), order=1).score
    )
    assert "texts:3" in SelfBLEU(max_texts=3).signature() and "texts:all" in SelfBLEU(max_texts=0).signature()
    assert confidence_intervals(SelfBLEU(), texts, rows) == {}
    with pytest.raises(ValueError, match=r"SelfBLEU is a metric of the set of texts.*use method='randomization'"):
        paired_test(SelfBLEU(), texts, texts, rows, method="bootstrap")
    assert paired_test(SelfBLEU(), texts, texts, rows) == {"self_bleu": 1.0}


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="got 2 texts and 1 lists of references"):
        corpus_bleu(["a", "b"], [["a"]])
    with pytest.raises(ValueError, match="references of text 1 are one string"):
        corpus_bleu(["a", "b"], [["a"], "b"])
    with pytest.raises(ValueError, match="text 1 has no references"):
        corpus_bleu(["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="got no texts"):
        corpus_bleu([], [])
    with pytest.raises(ValueError, match="got no references"):
        ReferencePool([])
    with pytest.raises(ValueError, match="texts is one string"):
        ReferencePool(["a"]).bleu("a")
    with pytest.raises(ValueError, match="at least two texts, got one"):
        self_bleu(["a"])
    for order in (
        lambda: ReferencePool(["a"], order=0),
        lambda: self_bleu(["a", "b"], order=0),
        lambda: corpus_bleu(["a"], [["a"]], order=0),
    ):
        with pytest.raises(ValueError, match="order is 0"):
            order()
    with pytest.raises(ValueError, match=r"accuracy is 94\.9 and bleu is 58\.88; accuracy must be 0 to 1"):
        g_score(94.9, 58.88)
    with pytest.raises(ValueError, match="got no examples to evaluate"):
        ForwardBLEU().compute([], [])


def test_a_bleu_score_shows_the_numbers_of_texts_and_references():
    assert str(BleuScore(12.345, 4, 500, 1000, 1000, (), 1.0)) == "BLEU-4 12.35 (texts: 500, references per text: 1,000)"
