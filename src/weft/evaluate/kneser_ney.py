"""N-gram language model with modified Kneser-Ney smoothing, a baseline for neural language models.

Shape suffixes: T token positions, G distinct n-grams of one order, C contexts, V words of the vocabulary.
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
    """The n-grams of one order, sorted by key, with their discounted probabilities and the backoff weights of their contexts."""

    keys_G: np.ndarray
    """(index of the context) * V + last word."""
    discounted_G: np.ndarray
    """(a - D(a)) / sum of a in the same context."""
    seen_C: np.ndarray
    """Whether the context occurs with any following word."""
    gamma_C: np.ndarray
    """Backoff weight: probability mass that is left to the shorter context."""


class KneserNey:
    """Interpolated n-gram language model with modified Kneser-Ney smoothing.

    p(w | h) = (a(h w) - D(a(h w))) / sum_v a(h v) + gamma(h) p(w | h without its first word)
    gamma(h) = (D1 n1(h) + D2 n2(h) + D3 n3(h)) / sum_v a(h v), with n_i(h) the number of words v with a(h v) = i (3: 3 or more)

    a is the count of an n-gram of the highest order, or of one that starts with ``<s>``; for lower orders it is the number of
    distinct words that precede the n-gram (continuation count). The lowest order backs off to the uniform distribution 1 / V.
    In an unseen context, p(w | h) is that of the shorter context. The discounts of each order follow from the numbers t_i of
    n-grams with a = i: Y = t1 / (t1 + 2 t2), D1 = 1 - 2 Y t2 / t1, D2 = 2 - 3 Y t3 / t2, D3 = 3 - 4 Y t4 / t3. Where the
    training set is too small for this estimate (a t_i is 0, or a D is out of range), they are 0.5, 1 and 1.5.

    Kneser & Ney 1995; Chen & Goodman 1998 (An empirical study of smoothing techniques for language modeling, 4.1.6).
    Each sentence starts with ``<s>``, which is never predicted, and ends with ``</s>``, which is. V is the size of the vocabulary
    including ``</s>`` and ``<unk>``. Out-of-vocabulary words are ``<unk>``.

    Args:
        sentences: Training sentences, as lists of words.
        order: Maximum order of the n-grams.
        min_count: Words that occur less often are ``<unk>``.
        vocabulary: The vocabulary; None = all words that occur at least ``min_count`` times.

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
            raise ValueError(f"order is {order} and min_count is {min_count}; order must be 1 to 20, and min_count at least 1")
        texts = _checked(sentences)
        if not texts:
            raise ValueError("got no training sentences; pass at least one")
        if vocabulary is None:
            counts = Counter(chain.from_iterable(texts))
            vocabulary = [word for word, count in counts.items() if count >= min_count]
        self.order = order
        self.vocabulary = [END, UNKNOWN, *sorted(set(vocabulary) - {START, END, UNKNOWN})]
        """The words that can be predicted."""
        self._ids = {word: at for at, word in enumerate([START, *self.vocabulary])}
        self._orders = self._learn(*self._stream(texts))

    def logprob(self, sentence: Sequence[str]) -> float:
        """Return the log-probability of a sentence, ``</s>`` included."""
        return float(np.log(self._words([sentence])).sum())

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> float:
        """Return the perplexity per word, with one ``</s>`` for each sentence; out-of-vocabulary words count as ``<unk>``."""
        p = self._words(sentences)
        if not len(p):
            raise ValueError("got no sentences; pass at least one")
        return math.exp(-np.log(p).mean())

    def distribution(self, context: Sequence[str]) -> dict[str, float]:
        """Return the probability of each word of the vocabulary after a context, which may start with ``<s>``."""
        last = [self._ids.get(word, _UNKNOWN) for word in context][max(0, len(context) - self.order + 1) :]
        ids_VT = np.empty((len(self.vocabulary), len(last) + 1), np.int64)
        ids_VT[:, :-1], ids_VT[:, -1] = last, np.arange(1, len(self.vocabulary) + 1)
        room_VT = np.broadcast_to(np.arange(len(last) + 1, 0, -1), ids_VT.shape)
        p_VT = self._probability(ids_VT.ravel(), room_VT.ravel()).reshape(ids_VT.shape)
        return dict(zip(self.vocabulary, p_VT[:, -1].tolist(), strict=True))

    def _words(self, sentences: Iterable[Sequence[str]]) -> np.ndarray:
        """The probability of each predicted word."""
        ids_T, room_T = self._stream(_checked(sentences))
        return self._probability(ids_T, room_T)[ids_T != _START]

    def _stream(self, texts: list[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """All sentences concatenated, and for each position the number of words up to the end of its sentence."""
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
        orders: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # keys, a, and whether the n-gram starts with <s>
        before_T = np.zeros(len(ids_T), np.int64)
        starts = [np.flatnonzero(room_T >= n) for n in range(1, self.order + 1)]
        number_T = np.full(len(ids_T), -1)
        for n, at in enumerate(starts, 1):
            keys_G, first, index, count_G = np.unique(
                before_T[at] * size + ids_T[at + n - 1], return_index=True, return_inverse=True, return_counts=True
            )
            if orders:
                # each distinct n-gram adds 1 to the continuation count of its suffix
                follows = np.bincount(number_T[at[first] + 1], minlength=len(orders[-1][0]))
                keys, counts, begins = orders[-1]
                orders[-1] = (keys, np.where(begins, counts, follows), begins)
            number_T = np.full(len(ids_T), -1)
            number_T[at] = index
            before_T = number_T
            orders.append((keys_G, count_G, ids_T[at[first]] == _START))
        orders[0] = (orders[0][0], np.where(orders[0][0] == _START, 0, orders[0][1]), orders[0][2])
        contexts = [1, *(len(keys) for keys, _, _ in orders)]
        return [_discounted(keys, a, keys // size, contexts[n]) for n, (keys, a, _) in enumerate(orders)]

    def _probability(self, ids_T: np.ndarray, room_T: np.ndarray) -> np.ndarray:
        """The probability of the word at each position, given the preceding words."""
        size = len(self._ids)
        p_T = np.full(len(ids_T), 1 / len(self.vocabulary))
        number_T = np.zeros(len(ids_T), np.int64)  # index of the n-gram that starts at each position; -1 = unseen
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
            p_T[last] = high + order.gamma_C[context][seen] * p_T[last]
        return p_T


def _checked(sentences: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    texts = list(sentences)
    for at, text in enumerate(texts):
        if isinstance(text, str):
            raise ValueError(f"sentence {at} is a string; pass a list of words, such as text.split()")
        if START in text or END in text:
            raise ValueError(f"sentence {at} contains {START} or {END}; remove them, the model adds them to every sentence")
    return texts


def _discounted(keys_G: np.ndarray, a_G: np.ndarray, context_G: np.ndarray, contexts: int) -> _Order:
    t1, t2, t3, t4 = (int((a_G == n).sum()) for n in (1, 2, 3, 4))
    discounts = _FALLBACK
    if min(t1, t2, t3, t4):
        y = t1 / (t1 + 2 * t2)
        estimated = (1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3)
        if all(0 <= d <= n for n, d in enumerate(estimated, 1)):
            discounts = estimated
    discount_G = np.array((0.0, *discounts))[np.minimum(a_G, 3)]
    total_C = np.bincount(context_G, a_G, minlength=contexts)
    gamma_C = np.bincount(context_G, discount_G, minlength=contexts)
    scale_C = 1 / np.maximum(total_C, 1)
    return _Order(keys_G, (a_G - discount_G) * scale_C[context_G], total_C > 0, gamma_C * scale_C)
