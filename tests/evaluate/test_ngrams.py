"""BLEU against many references and Self-BLEU: by hand, by definition, by sacrebleu."""

from __future__ import annotations

import math
from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.evaluate import BleuScore, Pool, PoolBLEU, SelfBLEU, bootstrap, corpus_bleu, g_score, paired, self_bleu
from weft.evaluate.subsample import evenly

WORDS = st.lists(st.sampled_from("abc"), max_size=8).map(" ".join)
SOME = st.lists(WORDS, min_size=1, max_size=6)


def by_definition(texts, references, order):
    """The formula of the docstring word by word."""
    found, there, c, r = [0] * order, [0] * order, 0, 0
    for text, own in zip(texts, references, strict=True):
        words, others = text.split(), [o.split() for o in own]
        c += len(words)
        r += min((abs(len(o) - len(words)), len(o)) for o in others)[1]
        for n in range(1, order + 1):

            def counted(words, n=n):
                return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

            for gram, count in counted(words).items():
                found[n - 1] += min(count, max(counted(o)[gram] for o in others))
                there[n - 1] += count
    if not c or 0 in found:
        return 0.0
    penalty = 1 if c > r else math.exp(1 - r / c)
    return 100 * penalty * math.exp(sum(math.log(f / t) for f, t in zip(found, there, strict=True)) / order)


# ------------------------------------------------------------------------------------------------------------------- by hand


def test_three_sentences_by_hand():
    texts = ["the cat sat", "a dog dog dog", "it ran"]
    references = [["the cat slept", "cat sat down here"], ["a dog dog ran"], ["it ran off"]]
    # words found: the, cat, sat; a, dog, dog (two of three); it, ran: 8 of 9
    # pairs found: the cat, cat sat; a dog, dog dog (one of two); it ran: 5 of 6
    # lengths: 3 + 4 + 2 = 9 beside 3 + 4 + 3 = 10
    found = corpus_bleu(texts, references, order=2)
    assert found.precisions == (8 / 9, 5 / 6)
    assert found.brevity == pytest.approx(math.exp(1 - 10 / 9))
    assert found.score == pytest.approx(100 * math.exp(-1 / 9) * math.sqrt(8 / 9 * 5 / 6))
    assert (found.order, found.texts, found.references, found.fewest) == (2, 3, 2, 1)
    assert str(found) == f"BLEU-2 {found.score:.2f} (texts: 3, references of each: 1 to 2)"


def test_self_bleu_of_three_sentences_by_hand():
    # "a a b" finds a once (of two) and b in the others, and the pair a b: 2 of 3, 1 of 2
    # "a b" finds a and b, and a b: 2 of 2, 1 of 1; "c a b b" finds a, b once (the others have it once), a b: 2 of 4, 1 of 3
    found = self_bleu(["a a b", "a b", "c a b b"], order=2)
    assert found.precisions == (6 / 9, 3 / 6)
    # nearest lengths among the others: of 3, 2 rather than 4; of 2, 3; of 4, 3: 8, and 9 words are there
    assert found.brevity == 1
    assert found.score == pytest.approx(100 * math.sqrt(6 / 9 * 3 / 6))
    assert (found.texts, found.references, found.fewest) == (3, 2, 2)


@pytest.mark.parametrize(
    ("text", "lengths", "nearest"),
    [("a a a", (2, 4), 2), ("a a a", (4, 2), 2), ("a a a", (1, 4), 4), ("a a a", (1, 3, 4), 3), ("a", (5, 9), 5), ("", (3,), 3)],
)
def test_the_nearest_length_counts_and_of_two_the_shorter(text, lengths, nearest):
    words = len(text.split())
    found = Pool([" ".join(["a"] * n) for n in lengths]).statistics([text])[0]
    assert found[:2].tolist() == [words, nearest]


def test_a_text_longer_than_its_reference_costs_nothing_and_a_shorter_one_does():
    assert corpus_bleu(["a b c d e"], [["a b c d"]]).brevity == 1
    assert corpus_bleu(["a b c d"], [["a b c d"]]).brevity == 1
    assert corpus_bleu(["a b c d"], [["a b c d e f"]]).brevity == pytest.approx(math.exp(-0.5))


def test_no_smoothing():
    """One order without a match, or without any n-gram, makes it 0."""
    assert corpus_bleu(["a b c d"], [["d c b a"]]).score == 0
    assert corpus_bleu(["a b c"], [["a b c"]]).score == 0 and corpus_bleu(["a b c"], [["a b c"]], order=3).score == 100
    assert corpus_bleu([""], [["a"]]).score == 0 and corpus_bleu([""], [[""]]).score == 0


# --------------------------------------------------------------------------------------------------------- by definition


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(WORDS, SOME), min_size=1, max_size=6), st.integers(1, 4))
def test_equal_to_the_definition(rows, order):
    texts, references = [text for text, _ in rows], [own for _, own in rows]
    assert corpus_bleu(texts, references, order=order).score == pytest.approx(by_definition(texts, references, order))


@settings(max_examples=100, deadline=None)
@given(SOME, SOME, st.integers(1, 4))
def test_a_pool_is_the_same_list_for_each(texts, pool, order):
    copies = [list(pool) for _ in texts]
    assert Pool(pool, order=order).bleu(texts) == corpus_bleu(texts, copies, order=order)
    assert corpus_bleu(texts, [pool] * len(texts), order=order) == corpus_bleu(texts, copies, order=order)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, min_size=2, max_size=9), st.integers(1, 4))
def test_self_bleu_is_each_against_all_others(texts, order):
    others = [texts[:i] + texts[i + 1 :] for i in range(len(texts))]
    assert self_bleu(texts, order=order) == corpus_bleu(texts, others, order=order)


@pytest.mark.parametrize("seed", range(6))
def test_equal_to_sacrebleu(seed):
    bleu = import_module("sacrebleu.metrics.bleu").BLEU
    rng = np.random.default_rng(seed)

    def written(rows):
        return [" ".join(rng.choice(list("abcdefg"), rng.integers(1, 14))) for _ in range(rows)]

    texts, order = written(30), 2 + seed % 3
    streams = [written(30) for _ in range(1 + seed)]
    theirs = bleu(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)
    own = corpus_bleu(texts, [list(row) for row in zip(*streams, strict=True)], order=order)
    assert own.score == pytest.approx(theirs.corpus_score(texts, streams).score) and own.score > 1
    pool = written(40)
    everything = [[reference] * 30 for reference in pool]
    assert Pool(pool, order=order).bleu(texts).score == pytest.approx(theirs.corpus_score(texts, everything).score)


# ------------------------------------------------------------------------------------------------------------ properties


@settings(max_examples=100, deadline=None)
@given(SOME, SOME, SOME)
def test_more_references_find_no_less(texts, pool, more):
    few, many = Pool(pool).bleu(texts), Pool([*pool, *more]).bleu(texts)
    assert all(a <= b for a, b in zip(few.precisions, many.precisions, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_bleu_grows_with_the_references(seed):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(list("abcdefghij"), 10)) for _ in range(1100)]
    scores = [Pool(texts[100 : 100 + n]).bleu(texts[:100]).score for n in (10, 100, 1000)]
    assert scores[0] < scores[1] < scores[2] and scores[2] > scores[0] + 20


@settings(max_examples=50, deadline=None)
@given(st.lists(WORDS, min_size=2, max_size=6), st.permutations(range(6)))
def test_the_order_of_texts_does_not_matter(texts, order):
    again = [texts[i] for i in order if i < len(texts)]
    assert self_bleu(again) == self_bleu(texts)
    assert Pool(texts).bleu(again) == Pool(again).bleu(texts)


def test_alike_and_unlike():
    assert self_bleu(["so it is good"] * 7).score == 100
    assert self_bleu(["a b c d", "e f g h", "i j k l"]).score == 0


def test_g_score():
    assert g_score(0.949, 58.88) == pytest.approx(74.75, abs=0.005)
    assert g_score(0, 50) == g_score(1, 0) == 0 and g_score(1, 100) == 100


# --------------------------------------------------------------------------------------------------------------- metrics


ROWS = [{"target": text} for text in ("the food was good", "the staff was rude", "it was fine today", "the food was cold")]
WROTE = ["the food was rude", "it was good today", "the staff was fine today", "the food was good"]


def test_pool_bleu_is_that_of_the_pool_with_its_numbers():
    expected = Pool([row["target"] for row in ROWS], order=2).bleu(WROTE)
    found = PoolBLEU(order=2).compute(WROTE, ROWS)
    assert found == {"pool_bleu": expected.score, "pool_texts": 4, "pool_references": 4}
    few = PoolBLEU(order=2, references=2).compute(WROTE, ROWS)
    assert few["pool_references"] == 2
    assert few["pool_bleu"] == Pool([ROWS[0]["target"], ROWS[3]["target"]], order=2).bleu(WROTE).score
    assert PoolBLEU(order=2, references=0).compute(WROTE, ROWS) == found
    assert "BLEU-2" in PoolBLEU(order=2).signature() and "references:1000" in PoolBLEU(order=2).signature()


def test_pool_bleu_is_resampled_with_its_references_kept():
    metric = PoolBLEU(order=2, references=2)
    sums = metric.statistics(WROTE, ROWS).sum(axis=0)
    assert metric.from_statistics(sums)["pool_bleu"] == metric.compute(WROTE, ROWS)["pool_bleu"]
    low, high = bootstrap(metric, WROTE, ROWS)["pool_bleu"]
    assert low <= metric.compute(WROTE, ROWS)["pool_bleu"] <= high
    # rows given twice, as a paired test does, have the same references
    assert metric.statistics([*WROTE, *WROTE], [*ROWS, *ROWS])[:4].tolist() == metric.statistics(WROTE, ROWS).tolist()
    assert paired(metric, WROTE, WROTE, ROWS)["pool_bleu"] == 1


def test_self_bleu_as_a_metric_has_no_interval():
    texts = ["a b", "b a", "c d", "d c"]
    rows = [{"target": "-"}] * 4
    assert SelfBLEU(order=1).compute(texts, rows) == {"self_bleu": 100.0}
    assert SelfBLEU(order=1, most=3).compute(texts, rows)["self_bleu"] == pytest.approx(
        self_bleu(evenly(texts, 3), order=1).score
    )
    assert "texts:3" in SelfBLEU(most=3).signature() and "texts:all" in SelfBLEU(most=0).signature()
    assert bootstrap(SelfBLEU(), texts, rows) == {}
    with pytest.raises(ValueError, match=r"SelfBLEU is about a set of texts.*use randomisation"):
        paired(SelfBLEU(), texts, texts, rows, method="bootstrap")
    assert paired(SelfBLEU(), texts, texts, rows) == {"self_bleu": 1.0}


def test_errors():
    with pytest.raises(ValueError, match="2 texts, but 1 lists of references"):
        corpus_bleu(["a", "b"], [["a"]])
    with pytest.raises(ValueError, match="references of text 1 are one string"):
        corpus_bleu(["a", "b"], [["a"], "b"])
    with pytest.raises(ValueError, match="text 1 has no references"):
        corpus_bleu(["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="there are no texts"):
        corpus_bleu([], [])
    with pytest.raises(ValueError, match="there are no references"):
        Pool([])
    with pytest.raises(ValueError, match="the texts are one string"):
        Pool(["a"]).bleu("a")
    with pytest.raises(ValueError, match="one text is not enough"):
        self_bleu(["a"])
    for order in (
        lambda: Pool(["a"], order=0),
        lambda: self_bleu(["a", "b"], order=0),
        lambda: corpus_bleu(["a"], [["a"]], order=0),
    ):
        with pytest.raises(ValueError, match="order is 0"):
            order()
    with pytest.raises(ValueError, match=r"the accuracy is 94\.9 and BLEU 58\.88, but must be a share"):
        g_score(94.9, 58.88)
    with pytest.raises(ValueError, match="no rows to evaluate"):
        PoolBLEU().compute([], [])


def test_a_score_shows_its_numbers():
    assert str(BleuScore(12.345, 4, 500, 1000, 1000, (), 1.0)) == "BLEU-4 12.35 (texts: 500, references of each: 1,000)"
