"""What needs no network: copies, one sentence for all, real sentences. A network that writes must be compared with them.

Each gives a text for every wanted class. ``texts`` with their ``labels`` are those that a network may be trained with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_NUMBERS = 4_000_000


def copied(sources: Sequence[str], wanted_labels: Sequence[str]) -> list[str]:
    """Each source as it is: nothing beats its BLEU against the source.

    >>> copied(["so bad"], ["good"])
    ['so bad']
    """
    if len(sources) != len(wanted_labels):
        raise ValueError(f"{len(sources)} sources, but {len(wanted_labels)} wanted classes: give one for each")
    return list(sources)


def most_frequent(texts: Sequence[str]) -> str:
    """The text that is there most often; of several, the first.

    >>> most_frequent(["so good", "fine", "fine"])
    'fine'
    """
    if not texts:
        raise ValueError("there are no texts to choose from: give at least one")
    return Counter(texts).most_common(1)[0][0]


def medoid(texts: Sequence[str]) -> str:
    """The text that is most like all the others: of the largest mean cosine of tf-idf; of several, the first.

    >>> medoid(["the food was good", "the food was fine", "the staff"])
    'the food was good'
    """
    if not texts:
        raise ValueError("there are no texts to choose from: give at least one")
    x_NV = _vectors(texts).transform(texts)
    mean_V = np.asarray(x_NV.mean(axis=0)).ravel()
    return texts[int(np.argmax(np.round(x_NV @ mean_V, 12)))]  # rounded: equal texts are equal, whatever the order of a sum


def constant(
    wanted_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str], choose: Callable[[Sequence[str]], str] = medoid
) -> list[str]:
    """One and the same real sentence wherever a class is wanted: a collapsed network at its best.

    Args:
        wanted_labels: The classes.
        texts: Real texts.
        labels: Their classes.
        choose: Which of a class it is: ``medoid`` or ``most_frequent``.

    >>> constant(["+", "-", "+"], ["so good", "fine", "fine", "so bad"], ["+", "+", "+", "-"], most_frequent)
    ['fine', 'so bad', 'fine']
    """
    chosen = {label: choose(own) for label, own in _by_class(wanted_labels, texts, labels).items()}
    return [chosen[label] for label in wanted_labels]


def drawn(wanted_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str], seed: int = 0) -> list[str]:
    """Real sentences of the wanted classes, drawn by a seed: no two the same before all were there.

    >>> drawn(["-", "-", "-"], ["so good", "so bad"], ["+", "-"])
    ['so bad', 'so bad', 'so bad']
    """
    rng = np.random.default_rng(seed)
    orders = {
        label: [own[i] for i in rng.permutation(len(own))] for label, own in _by_class(wanted_labels, texts, labels).items()
    }
    taken: Counter[str] = Counter()
    found = []
    for label in wanted_labels:
        found.append(orders[label][taken[label] % len(orders[label])])
        taken[label] += 1
    return found


def retrieved(sources: Sequence[str], wanted_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str]) -> list[str]:
    """For each source the real text of the wanted class that is nearest by the cosine of tf-idf; of several, the first.

    Li et al. 2018 (Delete, retrieve, generate), https://arxiv.org/abs/1804.06437, call it retrieval.

    Args:
        sources: The texts to be rewritten.
        wanted_labels: The class of each that it is to have.
        texts: Real texts.
        labels: Their classes.

    >>> retrieved(["the food was bad"], ["+"], ["fine", "the food was good", "the food"], ["+", "+", "-"])
    ['the food was good']
    """
    found = copied(sources, wanted_labels)
    by_class = _by_class(wanted_labels, texts, labels)
    vectors = _vectors(texts)
    for label, own in by_class.items():
        rows = [row for row, one in enumerate(wanted_labels) if one == label]
        x_VN = vectors.transform(own).T.tocsr()
        size = max(1, _NUMBERS // len(own))
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            near_SN = (vectors.transform([sources[row] for row in some]) @ x_VN).toarray()
            for row, best in zip(some, np.round(near_SN, 12).argmax(axis=1).tolist(), strict=True):
                found[row] = own[best]
    return found


def _by_class(wanted_labels: Sequence[str], texts: Sequence[str], labels: Sequence[str]) -> dict[str, list[str]]:
    """The texts of every class that is wanted."""
    if len(texts) != len(labels):
        raise ValueError(f"{len(texts)} texts, but {len(labels)} labels: give one for each")
    there: dict[str, list[str]] = {label: [] for label in sorted(set(wanted_labels))}
    for text, label in zip(texts, labels, strict=True):
        if label in there:
            there[label].append(text)
    if empty := [label for label, own in there.items() if not own]:
        raise ValueError(f"no real text has the wanted class {empty[0]!r} (there is: {', '.join(sorted(set(labels))) or 'none'})")
    return there


def _vectors(texts: Sequence[str]) -> Any:
    """Tf-idf over words, learnt from the texts."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError:
        raise ValueError("tf-idf needs the package scikit-learn: pip install 'weft[metrics]'") from None
    try:
        return TfidfVectorizer(token_pattern=r"\S+", lowercase=False).fit(texts)
    except ValueError:
        raise ValueError(f"none of the {len(texts)} texts has a word: give texts with words in them") from None
