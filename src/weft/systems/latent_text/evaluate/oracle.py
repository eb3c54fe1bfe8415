"""A classifier that judges what others wrote: trained on real texts alone, never the one that a network was trained with.

Shape suffixes: N texts, G n-grams, C classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.io import read_json, write_text
from weft.core.options import File
from weft.core.registry import block
from weft.evaluate.ngrams import ngrams
from weft.evaluate.reference import reference_column

FORMAT = 1
_EQUAL = 1e-9  # probabilities that differ by less are equal: sums of many weights are rounded


class Oracle:
    """Says the class of a text by which words and n-grams are in it: logistic regression.

    p(class | text) = softmax_class(bias + sum over the different n-grams g of the text of weight_g)

    What it judges must be unknown to it: see ``shared_texts``. Its own accuracy on real texts is the most that can be
    reached, and belongs beside every accuracy that it gives. Only ``train`` needs scikit-learn.

    Args:
        labels: The classes.
        grams: The n-grams that it knows, words joined by a blank.
        weight_GC: The weight of each n-gram for each class.
        bias_C: Of each class.
        order: The longest n-grams.

    >>> real = ["so good", "very good", "so bad", "very bad"]
    >>> oracle = Oracle.train(real, ["+", "+", "-", "-"], min_count=1)
    >>> oracle.predict(["good food", "bad food"]), oracle.accuracy(["good food", "bad food"], ["+", "+"])
    (['+', '-'], 0.5)
    """

    def __init__(self, labels: Sequence[str], grams: Sequence[str], weight_GC: np.ndarray, bias_C: np.ndarray, order: int):
        self.labels, self.grams, self.order = tuple(labels), tuple(grams), order
        self.weight_GC, self.bias_C = np.asarray(weight_GC, np.float64), np.asarray(bias_C, np.float64)
        if self.weight_GC.shape != (len(grams), len(labels)) or self.bias_C.shape != (len(labels),):
            raise ValueError(
                f"{len(grams)} n-grams, {len(labels)} classes, but weights {self.weight_GC.shape} and biases {self.bias_C.shape}"
            )
        self._place = {gram: at for at, gram in enumerate(grams)}

    @classmethod
    def train(
        cls, texts: Sequence[str], labels: Sequence[str], *, order: int = 2, min_count: int = 2, strength: float = 1.0
    ) -> Oracle:
        """Learn from real texts, whatever order they are in.

        Args:
            texts: Words have blanks between them, as in the texts that will be judged.
            labels: The class of each text.
            order: The longest n-grams.
            min_count: N-grams that stand in fewer texts are not known.
            strength: How far weights may grow: the inverse of the L2 penalty.
        """
        _paired(texts, labels)
        pairs = sorted(zip(texts, labels, strict=True))  # sums depend on the order of the rows, and so would what is undecided
        texts, labels = [text for text, _ in pairs], [label for _, label in pairs]
        classes = sorted(set(labels))
        if len(classes) < 2:
            raise ValueError(f"an oracle tells classes apart, but all {len(texts)} texts have the class {classes[0]!r}")
        if order < 1 or min_count < 1 or strength <= 0:
            raise ValueError(f"order is {order}, min_count {min_count}, strength {strength}: all must be above 0")
        try:
            from scipy.sparse import csr_matrix
            from sklearn.linear_model import LogisticRegression
        except ImportError:
            raise ValueError("training an oracle needs the package scikit-learn: pip install 'weft[metrics]'") from None
        there = [_grams(text, order) for text in texts]
        counts = Counter(chain.from_iterable(there))
        grams = sorted(gram for gram, count in counts.items() if count >= min_count)
        if not grams:
            raise ValueError(f"no n-gram stands in {min_count} of the {len(texts)} texts: give more texts, or min_count=1")
        place = {gram: at for at, gram in enumerate(grams)}
        known = [[place[gram] for gram in sorted(own) if gram in place] for own in there]
        ends = np.cumsum([0, *map(len, known)])
        columns = np.fromiter(chain.from_iterable(known), np.int64, int(ends[-1]))
        x_NG = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(texts), len(grams)))
        model = LogisticRegression(C=strength, max_iter=1000).fit(x_NG, labels)
        weight_CG, bias_C = model.coef_, model.intercept_
        if len(classes) == 2:  # scikit-learn has one row, that of the second class; the first is 0
            weight_CG, bias_C = np.concatenate([0 * weight_CG, weight_CG]), np.concatenate([0 * bias_C, bias_C])
        return cls([str(c) for c in model.classes_], grams, weight_CG.T, bias_C, order)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """N x C: how probable each class is."""
        if isinstance(texts, str):
            raise ValueError("the texts are one string: give a list of texts")
        logit_NC = np.tile(self.bias_C, (len(texts), 1))
        for row, text in enumerate(texts):
            known = [self._place[gram] for gram in _grams(text, self.order) if gram in self._place]
            logit_NC[row] += self.weight_GC[sorted(known)].sum(axis=0)  # sorted: sums do not depend on the order of a set
        p_NC = np.exp(logit_NC - logit_NC.max(axis=1, keepdims=True))
        return p_NC / p_NC.sum(axis=1, keepdims=True)

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The class of each text; where several are equally probable, but for rounding, the first of them."""
        if not len(texts):
            return []
        p_NC = self.probabilities(texts)
        return [self.labels[at] for at in (p_NC >= p_NC.max(axis=1, keepdims=True) - _EQUAL).argmax(axis=1)]

    def accuracy(self, texts: Sequence[str], labels: Sequence[str]) -> float:
        """The share of texts that have the class they should have: 0 to 1."""
        _paired(texts, labels)
        if unknown := sorted(set(labels) - set(self.labels)):
            raise ValueError(f"the oracle does not know the class {unknown[0]!r} (it knows: {', '.join(self.labels)})")
        return float(np.mean([a == b for a, b in zip(self.predict(texts), labels, strict=True)]))

    def save(self, file: str | Path) -> None:
        """Write one JSON file; ``load`` gives back exactly the same."""
        document = {
            "format": FORMAT,
            "kind": "oracle",
            "order": self.order,
            "labels": self.labels,
            "bias": self.bias_C.tolist(),
            "grams": self.grams,
            "weight": self.weight_GC.tolist(),
        }
        write_text(file, json.dumps(document, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, file: str | Path) -> Oracle:
        """Read what ``save`` wrote."""
        found = read_json(file)
        if not isinstance(found, dict) or found.get("kind") != "oracle":
            raise ValueError(f"{file} is not an oracle's file: make one by Oracle.train(texts, labels).save(file)")
        if found.get("format") != FORMAT:
            raise ValueError(f"{file} has the format {found.get('format')}, but this weft reads {FORMAT}: train the oracle again")
        try:
            weight_GC = np.array(found["weight"], np.float64).reshape(len(found["grams"]), len(found["labels"]))
            return cls(found["labels"], found["grams"], weight_GC, np.array(found["bias"], np.float64), int(found["order"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is damaged ({error}): train the oracle again") from None


def shared_texts(known: Sequence[str], judged: Sequence[str]) -> int:
    """How many of the texts that are judged stand among those that are known, case and number of blanks apart.

    For an oracle, those it was trained with and real texts that measure it; for a network, those it was trained with and what it
    wrote. ``weft.data.near_duplicates.near_duplicates`` counts those that are equal but for a few words.

    >>> shared_texts(["So good .", "so bad"], ["so good .", "so good .", "fine"])
    2
    """
    there = {" ".join(text.lower().split()) for text in known}
    return sum(" ".join(text.lower().split()) in there for text in judged)


@block("oracle-accuracy")
class OracleAccuracy(Metric):
    """The share of predicted texts that have, for a classifier trained on real texts, the class that the row asks for.

    oracle_accuracy = sum_i [oracle(prediction_i) = label_i] / n

    Args:
        oracle: The file that ``Oracle.save`` wrote.
        field: Column of the raw row with the class that the text should have.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "oracle.json")
        >>> Oracle(["-", "+"], ["good"], np.array([[0, 2]]), np.array([1, 0]), 1).save(file)
        >>> OracleAccuracy(oracle=str(file)).compute(["so good", "so so"], [{"label": "+"}, {"label": "+"}])
        {'oracle_accuracy': 0.5}
    """

    inputs = "text"
    higher_is_better = {"oracle_accuracy": True}

    def __init__(self, *, oracle: File, field: str = "label"):
        super().__init__()
        self.oracle, self.field = oracle, field
        self._loaded: Oracle | None = None

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: whether the class is the one asked for, and 1."""
        labels = reference_column(predictions, references, self.field)
        if self._loaded is None:
            self._loaded = Oracle.load(self.oracle)
        if unknown := sorted(set(labels) - set(self._loaded.labels)):
            raise ValueError(f"the oracle does not know the class {unknown[0]!r} (it knows: {', '.join(self._loaded.labels)})")
        found = self._loaded.predict(predictions)
        return np.array([(a == b, 1) for a, b in zip(found, labels, strict=True)], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """The share."""
        return {"oracle_accuracy": float(sums[0] / sums[1])}


def _grams(text: str, order: int) -> set[str]:
    words = text.split()
    return {" ".join(gram) for n in range(1, order + 1) for gram in ngrams(words, n)}


def _paired(texts: Sequence[str], labels: Sequence[str]) -> None:
    if isinstance(texts, str) or isinstance(labels, str):
        raise ValueError("texts and labels are lists, one label for each text: one of them is a string")
    if len(texts) != len(labels):
        raise ValueError(f"{len(texts)} texts, but {len(labels)} labels: give one for each")
    if not texts:
        raise ValueError("there are no texts: give at least one")
