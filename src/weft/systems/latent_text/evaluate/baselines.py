"""Baselines without a network: copies, one constant sentence per class, sampled and retrieved real sentences.

Each baseline returns one text per target label. ``texts`` and ``labels`` are the training set of the model that is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_MAX_SIMILARITIES = 4_000_000


def copy_baseline(sources: Sequence[str], target_labels: Sequence[str]) -> list[str]:
    """Return the sources unchanged: the upper bound of BLEU against the source.

    Args:
        sources: The input texts.
        target_labels: The target class of each.

    Example:
        >>> copy_baseline(["so bad"], ["good"])
        ['so bad']
    """
    if len(sources) != len(target_labels):
        raise ValueError(f"{len(sources)} sources, but {len(target_labels)} target labels; give one label per source")
    return list(sources)


def most_frequent(texts: Sequence[str]) -> str:
    """Return the most frequent text; of several, the first.

    Args:
        texts: At least one text.

    Example:
        >>> most_frequent(["so good", "fine", "fine"])
        'fine'
    """
    if not texts:
        raise ValueError("texts is empty; give at least one text")
    return Counter(texts).most_common(1)[0][0]


def medoid(texts: Sequence[str]) -> str:
    """Return the text with the largest mean tf-idf cosine similarity to all others; of several, the first.

    Args:
        texts: At least one text.

    Example:
        >>> medoid(["the food was good", "the food was fine", "the staff"])
        'the food was good'
    """
    if not texts:
        raise ValueError("texts is empty; give at least one text")
    x_NV = _fit_tfidf(texts).transform(texts)
    mean_V = np.asarray(x_NV.mean(axis=0)).ravel()
    return texts[int(np.argmax(np.round(x_NV @ mean_V, 12)))]  # rounded, so that ties do not depend on the order of summation


def constant_baseline(
    target_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str], choose: Callable[[Sequence[str]], str] = medoid
) -> list[str]:
    """Return the same real sentence for every request of a class, as a fully collapsed generator does.

    Args:
        target_labels: The requested classes.
        texts: Real texts.
        labels: Their classes.
        choose: Selects the sentence among the texts of a class: ``medoid`` or ``most_frequent``.

    Example:
        >>> constant_baseline(["+", "-", "+"], ["so good", "fine", "fine", "so bad"], ["+", "+", "+", "-"], most_frequent)
        ['fine', 'so bad', 'fine']
    """
    chosen = {label: choose(own) for label, own in _group_by_class(target_labels, texts, labels).items()}
    return [chosen[label] for label in target_labels]


def sample_baseline(target_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str], seed: int = 0) -> list[str]:
    """Return real sentences of the requested classes, sampled without replacement until a class is exhausted.

    Args:
        target_labels: The requested classes.
        texts: Real texts.
        labels: Their classes.
        seed: Random seed.

    Example:
        >>> sample_baseline(["-", "-", "-"], ["so good", "so bad"], ["+", "-"])
        ['so bad', 'so bad', 'so bad']
    """
    rng = np.random.default_rng(seed)
    orders = {
        label: [own[i] for i in rng.permutation(len(own))] for label, own in _group_by_class(target_labels, texts, labels).items()
    }
    used: Counter[str] = Counter()
    samples = []
    for label in target_labels:
        samples.append(orders[label][used[label] % len(orders[label])])
        used[label] += 1
    return samples


def retrieval_baseline(
    sources: Sequence[str], target_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str]
) -> list[str]:
    """Return, for each source, the nearest real text of the target class by tf-idf cosine similarity; of several, the first.

    Li et al. 2018 (Delete, Retrieve, Generate), https://arxiv.org/abs/1804.06437

    Args:
        sources: The input texts.
        target_labels: The target class of each.
        texts: Real texts.
        labels: Their classes.

    Example:
        >>> retrieval_baseline(["the food was bad"], ["+"], ["fine", "the food was good", "the food"], ["+", "+", "-"])
        ['the food was good']
    """
    retrieved = copy_baseline(sources, target_labels)
    by_class = _group_by_class(target_labels, texts, labels)
    vectorizer = _fit_tfidf(texts)
    for label, own in by_class.items():
        rows = [row for row, one in enumerate(target_labels) if one == label]
        x_VN = vectorizer.transform(own).T.tocsr()
        size = max(1, _MAX_SIMILARITIES // len(own))
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            similarity_SN = (vectorizer.transform([sources[row] for row in some]) @ x_VN).toarray()
            for row, best in zip(some, np.round(similarity_SN, 12).argmax(axis=1).tolist(), strict=True):
                retrieved[row] = own[best]
    return retrieved


def _group_by_class(target_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str]) -> dict[str, list[str]]:
    """The texts of every requested class."""
    if len(texts) != len(labels):
        raise ValueError(f"{len(texts)} texts, but {len(labels)} labels; give one label per text")
    groups: dict[str, list[str]] = {label: [] for label in sorted(set(target_labels))}
    for text, label in zip(texts, labels, strict=True):
        if label in groups:
            groups[label].append(text)
    if empty := [label for label, own in groups.items() if not own]:
        raise ValueError(f"no text has the target label {empty[0]!r}; available: {', '.join(sorted(set(labels))) or 'none'}")
    return groups


def _fit_tfidf(texts: Sequence[str]) -> Any:
    """A word-level tf-idf vectorizer, fitted to the texts."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError:
        raise ValueError("tf-idf needs the package scikit-learn; install it: pip install 'weft[metrics]'") from None
    try:
        return TfidfVectorizer(token_pattern=r"\S+", lowercase=False).fit(texts)
    except ValueError:
        raise ValueError(f"none of the {len(texts)} texts has a word; give texts with words separated by spaces") from None
