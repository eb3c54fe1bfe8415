"""Oracle classifier for generated texts: trained on real texts only, and independent of the evaluated model.

Shape suffixes: N texts, G n-grams, C classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.contracts import Metric
from weft.core.io import MAX_VOCABULARY_BYTES, read_json, write_text
from weft.core.options import File
from weft.core.registry import block
from weft.evaluate.ngrams import ngrams
from weft.evaluate.reference import reference_column

FORMAT = 1
_TIE = 1e-9  # probabilities that differ by less are ties: sums of many weights are rounded


class Oracle:
    """Logistic regression on the set of n-grams of a text.

    p(class | text) = softmax_class(bias + sum over the distinct n-grams g of the text of weight_g)

    Evaluate only texts that are not in its training set: see ``count_shared_texts``. Its accuracy on real texts bounds the
    accuracies that it can measure; report it with them. Only ``train`` needs scikit-learn.

    Args:
        labels: The classes.
        grams: The known n-grams, words joined by a space.
        weight_GC: Weight of each n-gram for each class.
        bias_C: Bias of each class.
        order: Maximum n-gram order.

    Example:
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
                f"weight_GC must have the shape ({len(grams)}, {len(labels)}) and bias_C ({len(labels)},), "
                f"not {self.weight_GC.shape} and {self.bias_C.shape}"
            )
        self._index = {gram: at for at, gram in enumerate(grams)}

    @classmethod
    def train(
        cls, texts: Sequence[str], labels: Sequence[str], *, order: int = 2, min_count: int = 2, inverse_l2: float = 1.0
    ) -> Oracle:
        """Fit an oracle to real texts. The result does not depend on their order.

        Args:
            texts: Real texts, words separated by spaces.
            labels: The class of each text.
            order: Maximum n-gram order.
            min_count: Minimum number of texts that an n-gram occurs in.
            inverse_l2: Inverse of the L2 penalty, the ``C`` of scikit-learn.
        """
        _check_pairs(texts, labels)
        pairs = sorted(zip(texts, labels, strict=True))  # floating-point sums depend on the order of the rows
        texts, labels = [text for text, _ in pairs], [label for _, label in pairs]
        classes = sorted(set(labels))
        if len(classes) < 2:
            raise ValueError(f"an oracle needs at least 2 classes, but all {len(texts)} texts have the class {classes[0]!r}")
        if order < 1 or min_count < 1 or inverse_l2 <= 0:
            raise ValueError(f"order ({order}), min_count ({min_count}) and inverse_l2 ({inverse_l2}) must be above 0")
        try:
            from scipy.sparse import csr_matrix
            from sklearn.linear_model import LogisticRegression
        except ImportError:
            raise ValueError("Oracle.train needs the package scikit-learn; install it: pip install 'weft[metrics]'") from None
        gram_sets = [_grams(text, order) for text in texts]
        counts = Counter(chain.from_iterable(gram_sets))
        grams = sorted(gram for gram, count in counts.items() if count >= min_count)
        if not grams:
            raise ValueError(f"no n-gram occurs in {min_count} of the {len(texts)} texts; give more texts, or min_count=1")
        index = {gram: at for at, gram in enumerate(grams)}
        known = [[index[gram] for gram in sorted(own) if gram in index] for own in gram_sets]
        ends = np.cumsum([0, *map(len, known)])
        columns = np.fromiter(chain.from_iterable(known), np.int64, int(ends[-1]))
        x_NG = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(texts), len(grams)))
        model = LogisticRegression(C=inverse_l2, max_iter=1000).fit(x_NG, labels)
        weight_CG, bias_C = model.coef_, model.intercept_
        if len(classes) == 2:  # scikit-learn returns one row, for the second class; that of the first is 0
            weight_CG, bias_C = np.concatenate([0 * weight_CG, weight_CG]), np.concatenate([0 * bias_C, bias_C])
        return cls([str(c) for c in model.classes_], grams, weight_CG.T, bias_C, order)

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """N x C: probability of each class."""
        if isinstance(texts, str):
            raise ValueError("texts must be a list of strings, not a string")
        logit_NC = np.tile(self.bias_C, (len(texts), 1))
        for row, text in enumerate(texts):
            known = [self._index[gram] for gram in _grams(text, self.order) if gram in self._index]
            logit_NC[row] += self.weight_GC[sorted(known)].sum(axis=0)  # sorted: the sum must not depend on the order of a set
        p_NC = np.exp(logit_NC - logit_NC.max(axis=1, keepdims=True))
        return p_NC / p_NC.sum(axis=1, keepdims=True)

    def predict(self, texts: Sequence[str]) -> list[str]:
        """Return the most probable class of each text; of ties, up to rounding, the first."""
        if not len(texts):
            return []
        p_NC = self.probabilities(texts)
        return [self.labels[at] for at in (p_NC >= p_NC.max(axis=1, keepdims=True) - _TIE).argmax(axis=1)]

    def accuracy(self, texts: Sequence[str], labels: Sequence[str]) -> float:
        """Return the fraction of texts whose predicted class is the given label."""
        _check_pairs(texts, labels)
        if unknown := sorted(set(labels) - set(self.labels)):
            raise ValueError(f"the oracle has no class {unknown[0]!r}; available: {', '.join(self.labels)}")
        return float(np.mean([a == b for a, b in zip(self.predict(texts), labels, strict=True)]))

    def save(self, file: str | Path) -> None:
        """Write the oracle to a JSON file, without loss of precision."""
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
        """Load an oracle from the file that ``save`` wrote."""
        found = read_json(file, MAX_VOCABULARY_BYTES)
        if not isinstance(found, dict) or found.get("kind") != "oracle":
            raise ValueError(f"{file}: not an oracle; write one with Oracle.train(texts, labels).save(file)")
        if found.get("format") != FORMAT:
            raise ValueError(f"{file}: format {found.get('format')} is not supported, only {FORMAT}; train the oracle again")
        try:
            weight_GC = np.array(found["weight"], np.float64).reshape(len(found["grams"]), len(found["labels"]))
            return cls(found["labels"], found["grams"], weight_GC, np.array(found["bias"], np.float64), int(found["order"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: damaged oracle ({error}); train it again") from None


def count_shared_texts(training_texts: Iterable[str], texts: Iterable[str]) -> int:
    """Return how many texts are also in a training set, ignoring case and the number of spaces.

    Use it to check that an oracle is evaluated on unseen texts, or that a generator does not reproduce its training set.
    ``weft.data.near_duplicates.near_duplicates`` also counts texts that differ in a few words.

    Args:
        training_texts: The training set.
        texts: The texts to look up.

    Example:
        >>> count_shared_texts(["So good .", "so bad"], ["so good .", "so good .", "fine"])
        2
    """
    known = {" ".join(text.lower().split()) for text in training_texts}
    return sum(" ".join(text.lower().split()) in known for text in texts)


@block("oracle-accuracy")
class OracleAccuracy(Metric):
    """Fraction of predicted texts that an oracle, a classifier trained on real texts, assigns to the label of the example.

    oracle_accuracy = sum_i [oracle(prediction_i) = label_i] / n

    Args:
        oracle: File written by ``Oracle.save``.
        field: Column of the raw example with the target label.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "oracle.json")
        >>> Oracle(["-", "+"], ["good"], np.array([[0, 2]]), np.array([1, 0]), 1).save(file)
        >>> OracleAccuracy(oracle=str(file)).compute(["so good", "so so"], [{"label": "+"}, {"label": "+"}])
        {'oracle_accuracy': 0.5}
    """

    inputs = "text"
    interval = "proportion"
    higher_is_better = {"oracle_accuracy": True}

    def __init__(self, *, oracle: File, field: str = "label"):
        super().__init__()
        self.oracle, self.field = oracle, field
        self._loaded: Oracle | None = None

    def compute(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> dict[str, float]:
        return self.from_statistics(self.statistics(predictions, references).sum(axis=0))

    def statistics(self, predictions: Sequence[Any], references: Sequence[dict[str, str]]) -> np.ndarray:
        """N x 2: whether the predicted class is the label, and 1."""
        labels = reference_column(predictions, references, self.field)
        if self._loaded is None:
            self._loaded = Oracle.load(self.oracle)
        if unknown := sorted(set(labels) - set(self._loaded.labels)):
            raise ValueError(f"the oracle has no class {unknown[0]!r}; available: {', '.join(self._loaded.labels)}")
        found = self._loaded.predict(predictions)
        return np.array([(a == b, 1) for a, b in zip(found, labels, strict=True)], np.float64)

    def from_statistics(self, sums: np.ndarray) -> dict[str, float]:
        """Return the fraction of correct texts from the summed statistics."""
        return {"oracle_accuracy": float(sums[0] / sums[1])}


def _grams(text: str, order: int) -> set[str]:
    words = text.split()
    return {" ".join(gram) for n in range(1, order + 1) for gram in ngrams(words, n)}


def _check_pairs(texts: Sequence[str], labels: Sequence[str]) -> None:
    if isinstance(texts, str) or isinstance(labels, str):
        raise ValueError("texts and labels must be lists of strings, not a string")
    if len(texts) != len(labels):
        raise ValueError(f"{len(texts)} texts, but {len(labels)} labels; give one label per text")
    if not texts:
        raise ValueError("texts is empty; give at least one text")
