from __future__ import annotations

import math
import random
from functools import cache

import pytest

from weft.evaluate import KneserNey


def texts(n, seed=0, words=12):
    """Sentences of a random Markov chain: some n-grams are frequent, many are rare."""
    rng = random.Random(seed)
    likely = {w: rng.sample(range(words), 3) for w in range(words)}
    found = []
    for _ in range(n):
        word, sentence = rng.randrange(words), []
        for _ in range(rng.randrange(0, 12)):
            sentence.append(f"w{word}")
            word = rng.choice(likely[word]) if rng.random() < 0.8 else rng.randrange(words)
        found.append(sentence)
    return found


class ByDefinition:
    """The formulas of the docstring, over sets of tuples."""

    def __init__(self, sentences, order, known):
        self.order, self.words = order, sorted(known | {"</s>", "<unk>"})
        self.sentences = [("<s>", *self.mapped(s), "</s>") for s in sentences]
        self.a = {n: {} for n in range(1, order + 1)}
        for n in range(1, order + 1):
            grams = [s[i : i + n] for s in self.sentences for i in range(len(s) - n + 1)]
            longer = {s[i : i + n + 1] for s in self.sentences for i in range(len(s) - n)}
            for gram in set(grams) - {("<s>",)}:
                raw = n == order or gram[0] == "<s>"
                self.a[n][gram] = grams.count(gram) if raw else sum(other[1:] == gram for other in longer)
        self.d = {n: self.discounts(list(self.a[n].values())) for n in self.a}
        self.p = cache(self.p)

    def mapped(self, sentence):
        return tuple(word if word in self.words else "<unk>" for word in sentence)

    def discounts(self, values):
        t1, t2, t3, t4 = (values.count(n) for n in (1, 2, 3, 4))
        if 0 in (t1, t2, t3, t4):
            return {1: 0.5, 2: 1.0, 3: 1.5}
        y = t1 / (t1 + 2 * t2)
        d = {1: 1 - 2 * y * t2 / t1, 2: 2 - 3 * y * t3 / t2, 3: 3 - 4 * y * t4 / t3}
        return d if all(0 <= d[n] <= n for n in d) else {1: 0.5, 2: 1.0, 3: 1.5}

    def p(self, word, context):
        shorter = self.p(word, context[1:]) if context else 1 / len(self.words)
        n = len(context) + 1
        counts = {w: self.a[n].get((*context, w), 0) for w in self.words}
        total = sum(counts.values())
        if not total:
            return shorter
        d = {0: 0.0, **self.d[n]}
        gamma = sum(d[min(count, 3)] for count in counts.values()) / total
        return (counts[word] - d[min(counts[word], 3)]) / total + gamma * shorter

    def logprob(self, sentence):
        s = ("<s>", *self.mapped(sentence), "</s>")
        return sum(math.log(self.p(s[i], s[max(0, i - self.order + 1) : i])) for i in range(1, len(s)))


@pytest.mark.parametrize(("order", "min_count", "words"), [(1, 1, 12), (2, 3, 40), (3, 1, 12), (5, 2, 60)])
def test_probabilities_equal_the_definition(order, min_count, words):
    train, other = texts(200, words=words), texts(40, seed=1, words=words + 3)
    occurs = [word for sentence in train for word in sentence]
    model = KneserNey(train, order=order, min_count=min_count)
    slow = ByDefinition(train, order, {word for word in occurs if occurs.count(word) >= min_count})
    assert model.vocabulary == ["</s>", "<unk>", *(w for w in slow.words if w.startswith("w"))]
    for sentence in [*train[:10], *other]:
        assert model.logprob(sentence) == pytest.approx(slow.logprob(sentence), rel=1e-10)
    tokens = sum(len(sentence) + 1 for sentence in other)
    expected = math.exp(-sum(map(slow.logprob, other)) / tokens)
    assert model.perplexity(other) == pytest.approx(expected, rel=1e-10)


def test_discounts_are_estimated_on_enough_data():
    """Otherwise the test above would compare the fallback alone."""
    slow = ByDefinition(texts(200, words=60), 5, {f"w{n}" for n in range(60)})
    assert sum(d != {1: 0.5, 2: 1.0, 3: 1.5} for d in slow.d.values()) >= 2


@pytest.mark.parametrize("order", [1, 2, 5])
def test_probabilities_sum_to_one_after_any_context(order):
    train = texts(150)
    model = KneserNey(train, order=order, min_count=2, vocabulary=[*{w for s in train for w in s}, "never"])
    long = max(train, key=len)
    contexts = [
        [],
        ["<s>"],
        ["<s>", *long[:3]],
        long[:4],
        long[-4:],
        long,
        ["nowhere"],
        ["never", long[0]],
        ["<s>", "nowhere", "w1"],
    ]
    contexts += [[f"w{a}", f"w{b}"] for a in range(12) for b in range(12)]
    for context in contexts:
        found = model.distribution(context)
        assert math.fsum(found.values()) == pytest.approx(1, abs=1e-12) and min(found.values()) > 0
        assert list(found) == model.vocabulary and "<s>" not in found


def test_distribution_and_logprob_agree():
    train = texts(100)
    model, sentence = KneserNey(train, order=4), ["w1", "nowhere", *train[3]]
    before = [["<s>", *sentence[:i]] for i in range(len(sentence) + 1)]
    known = [w if w in model.vocabulary else "<unk>" for w in sentence]
    log = sum(math.log(model.distribution(h)[w]) for h, w in zip(before, [*known, "</s>"], strict=True))
    assert model.logprob(sentence) == pytest.approx(log, rel=1e-10)
    assert model.perplexity([sentence, sentence]) == pytest.approx(math.exp(-log / (len(sentence) + 1)), rel=1e-10)


def test_longer_contexts_lower_the_perplexity():
    train = texts(3000)
    held, train = train[-300:], train[:-300]
    one, two = (KneserNey(train, order=n).perplexity(held) for n in (1, 2))
    assert two < 0.7 * one
    assert KneserNey(train, order=2).perplexity(texts(300, seed=5)) > 1.3 * two  # another Markov chain


def test_rare_words_are_unknown():
    rare = KneserNey([["a", "b"], ["a", "c"], ["a", "d"]], order=2, min_count=2)
    assert rare.vocabulary == ["</s>", "<unk>", "a"]
    assert rare.logprob(["a", "b"]) == rare.logprob(["a", "never"]) == rare.logprob(["a", "<unk>"])
    fixed = KneserNey([["a", "b"]], order=2, vocabulary=["a", "z"])
    assert fixed.vocabulary == ["</s>", "<unk>", "a", "z"]


def test_invalid_arguments_are_rejected():
    for wrong in ({"order": 0}, {"order": 21}, {"min_count": 0}):
        with pytest.raises(ValueError, match="order must be 1 to 20, and min_count at least 1"):
            KneserNey([["a"]], **wrong)
    with pytest.raises(ValueError, match="got no training sentences"):
        KneserNey([])
    with pytest.raises(ValueError, match="sentence 1 is a string"):
        KneserNey([["a"], "b"])
    with pytest.raises(ValueError, match=r"sentence 0 contains <s>"):
        KneserNey([["a"]]).logprob(["<s>", "a"])
    with pytest.raises(ValueError, match="got no sentences"):
        KneserNey([["a"]]).perplexity([])
