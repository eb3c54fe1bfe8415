"""An n-gram language model: what a neural one must beat.

Shape suffixes: T positions of the text, G different n-grams of one length, V words of the vocabulary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
_START, _END, _UNKNOWN = 0, 1, 2
_FALLBACK = (0.5, 1.0, 1.5)


@dataclass(frozen=True)
class _Order:
    """The n-grams of one length, sorted by key; and of the n-grams one shorter, what they say as a context."""

    keys_G: np.ndarray
    """(number of the n-gram without its last word) * V + last word."""
    discounted_G: np.ndarray
    """(a - D(a)) / sum of a in the same context."""
    seen_C: np.ndarray
    """Whether the shorter n-gram is the context of any word."""
    left_C: np.ndarray
    """Its share that goes to the shorter context: gamma."""


class KneserNey:
    """An interpolated n-gram model with modified Kneser-Ney smoothing.

    p(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v) + gamma(h) p(w | h without its first word)
    gamma(h) = (D1 n1(h) + D2 n2(h) + D3 n3(h)) / sum_v a(h v), n_i(h) the words v with a(h v) = i (3: 3 or more)

    a is how often an n-gram of the full order, or one that begins the sentence, occurs; for shorter ones, how many different
    words stand before it. Below single words is 1 / V. In a context that was never seen, p(w | h) is that of the shorter
    context. Discounts for each order, of the numbers t_i of n-grams with a = i: Y = t1 / (t1 + 2 t2), D1 = 1 - 2 Y t2 / t1,
    D2 = 2 - 3 Y t3 / t2, D3 = 3 - 4 Y t4 / t3. Where a text is too small for them (a t_i is 0, or a D is not in its range),
    they are 0.5, 1 and 1.5.

    Kneser & Ney 1995; Chen & Goodman 1998 (An empirical study of smoothing techniques for language modeling, 4.1.6).
    Each sentence begins with one ``<s>``, which is never predicted, and ends with ``</s>``, which is. V counts the vocabulary
    with ``</s>`` and ``<unk>``. Words outside it are ``<unk>``, in training and after.

    Args:
        sentences: Lists of words to learn from.
        order: The longest n-grams.
        min_count: Words that occur less often are ``<unk>``.
        vocabulary: The words known, instead of those that occur ``min_count`` times.

    >>> model = KneserNey([["a", "b"], ["a", "c"]], order=2)
    >>> model.logprob(["a", "b"]) > model.logprob(["b", "a"])
    True
    """

    def __init__(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        order: int = 5,
        min_count: int = 1,
        vocabulary: Collection[str] | None = None,
    ):
        if not 1 <= order <= 20 or min_count < 1:
            raise ValueError(f"order is {order} and min_count {min_count}: order must be 1 to 20, min_count at least 1")
        texts = _checked(sentences)
        if not texts:
            raise ValueError("there is no sentence to learn from")
        if vocabulary is None:
            counts = Counter(chain.from_iterable(texts))
            vocabulary = [word for word, count in counts.items() if count >= min_count]
        self.order = order
        self.vocabulary = [END, UNKNOWN, *sorted(set(vocabulary) - {START, END, UNKNOWN})]
        """All that can be predicted."""
        self._ids = {word: at for at, word in enumerate([START, *self.vocabulary])}
        self._orders = self._learn(*self._stream(texts))

    def logprob(self, sentence: Sequence[str]) -> float:
        """The natural logarithm of the probability of a sentence, its end included."""
        return float(np.log(self._words([sentence])).sum())

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> float:
        """exp(-log p / n), n the words with one ``</s>`` for each sentence. Unknown words count, as ``<unk>``."""
        p = self._words(sentences)
        if not len(p):
            raise ValueError("there is no sentence to judge")
        return math.exp(-np.log(p).mean())

    def distribution(self, context: Sequence[str]) -> dict[str, float]:
        """The probability of every word of the vocabulary after a context, which may begin with ``<s>``."""
        last = [self._ids.get(word, _UNKNOWN) for word in context][max(0, len(context) - self.order + 1) :]
        ids_VT = np.empty((len(self.vocabulary), len(last) + 1), np.int64)
        ids_VT[:, :-1], ids_VT[:, -1] = last, np.arange(1, len(self.vocabulary) + 1)
        room_VT = np.broadcast_to(np.arange(len(last) + 1, 0, -1), ids_VT.shape)
        p_VT = self._probability(ids_VT.ravel(), room_VT.ravel()).reshape(ids_VT.shape)
        return dict(zip(self.vocabulary, p_VT[:, -1].tolist(), strict=True))

    def _words(self, sentences: Iterable[Sequence[str]]) -> np.ndarray:
        """The probabilities of all that is predicted."""
        ids_T, room_T = self._stream(_checked(sentences))
        return self._probability(ids_T, room_T)[ids_T != _START]

    def _stream(self, texts: list[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """All sentences in one row, and for each position how many words there are up to the end of its sentence."""
        known = self._ids
        ids: list[int] = []
        for text in texts:
            ids.append(_START)
            ids.extend([known.get(word, _UNKNOWN) for word in text])
            ids.append(_END)
        lengths = np.array([len(text) + 2 for text in texts], np.int64)
        ends = np.repeat(np.cumsum(lengths), lengths)
        return np.array(ids, np.int64), ends - np.arange(len(ids))

    def _learn(self, ids_T: np.ndarray, room_T: np.ndarray) -> list[_Order]:
        size = len(self._ids)
        kinds: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # keys, a, and whether it begins with <s>: of each order
        before_T = np.zeros(len(ids_T), np.int64)
        starts = [np.flatnonzero(room_T >= n) for n in range(1, self.order + 1)]
        number_T = np.full(len(ids_T), -1)
        for n, at in enumerate(starts, 1):
            keys_G, first, place, count_G = np.unique(
                before_T[at] * size + ids_T[at + n - 1], return_index=True, return_inverse=True, return_counts=True
            )
            if kinds:
                # The n-gram without its first word has one more word that it follows.
                follows = np.bincount(number_T[at[first] + 1], minlength=len(kinds[-1][0]))
                keys, counts, begins = kinds[-1]
                kinds[-1] = (keys, np.where(begins, counts, follows), begins)
            number_T = np.full(len(ids_T), -1)
            number_T[at] = place
            before_T = number_T
            kinds.append((keys_G, count_G, ids_T[at[first]] == _START))
        kinds[0] = (kinds[0][0], np.where(kinds[0][0] == _START, 0, kinds[0][1]), kinds[0][2])
        contexts = [1, *(len(keys) for keys, _, _ in kinds)]
        return [_discounted(keys, a, keys // size, contexts[n]) for n, (keys, a, _) in enumerate(kinds)]

    def _probability(self, ids_T: np.ndarray, room_T: np.ndarray) -> np.ndarray:
        """Of the word at each position, after all the words before it that the order allows for."""
        size = len(self._ids)
        p_T = np.full(len(ids_T), 1 / len(self.vocabulary))
        number_T = np.zeros(len(ids_T), np.int64)  # of the n-gram that begins at each position; -1: never seen
        for n, order in enumerate(self._orders, 1):
            at = np.flatnonzero((room_T >= n) & (number_T >= 0))
            context = number_T[at]
            key = context * size + ids_T[at + n - 1]
            found = np.minimum(np.searchsorted(order.keys_G, key), len(order.keys_G) - 1)
            there = order.keys_G[found] == key
            number_T = np.full(len(ids_T), -1)
            number_T[at] = np.where(there, found, -1)
            seen = order.seen_C[context]
            last = (at + n - 1)[seen]
            high = np.where(there, order.discounted_G[found], 0.0)[seen]
            p_T[last] = high + order.left_C[context][seen] * p_T[last]
        return p_T


def _checked(sentences: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    texts = list(sentences)
    for at, text in enumerate(texts):
        if isinstance(text, str):
            raise ValueError(f"sentence {at} is a string: give lists of words, such as text.split()")
        if START in text or END in text:
            raise ValueError(f"sentence {at} has the word {START} or {END}: they are put around every sentence by the model")
    return texts


def _discounted(keys_G: np.ndarray, a_G: np.ndarray, context_G: np.ndarray, contexts: int) -> _Order:
    t1, t2, t3, t4 = (int((a_G == n).sum()) for n in (1, 2, 3, 4))
    discounts = _FALLBACK
    if min(t1, t2, t3, t4):
        y = t1 / (t1 + 2 * t2)
        measured = (1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3)
        if all(0 <= d <= n for n, d in enumerate(measured, 1)):
            discounts = measured
    discount_G = np.array((0.0, *discounts))[np.minimum(a_G, 3)]
    total_C = np.bincount(context_G, a_G, minlength=contexts)
    left_C = np.bincount(context_G, discount_G, minlength=contexts)
    share_C = 1 / np.maximum(total_C, 1)
    return _Order(keys_G, (a_G - discount_G) * share_C[context_G], total_C > 0, left_C * share_C)
