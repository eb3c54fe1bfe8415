"""The estimators of scikit-learn: its own checks, and the tools that they are used with."""

from __future__ import annotations

import io
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from weft.sklearn import TextClassifier, TextRegressor

TEXTS = [f"{'good' if i % 3 else 'bad'} {('film', 'book', 'play')[i % 5 % 3]}" for i in range(30)]
LABELS = np.array(["pos" if i % 3 else "neg" for i in range(30)])
SMALL: dict[str, Any] = {"dim": 8, "epochs": 10, "batch_size": 4, "lr": 2e-2, "device": "cpu"}


def to_words(matrix: np.ndarray) -> list[str]:
    """A text for each row of numbers: a word for each column and rounded value."""
    return [" ".join(f"f{i}v{round(float(value))}" for i, value in enumerate(row)) for row in matrix]


class OfNumbers:
    """Turns rows of numbers into texts: scikit-learn checks estimators with matrices only."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, False, True
        return tags

    def fit(self, X: Any, y: Any) -> Any:
        if y is not None:
            X, y = validate_data(self, X, y)
            X = to_words(X)
        return super().fit(X, y)  # pyright: ignore

    def predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().predict(to_words(validate_data(self, X, reset=False)))  # pyright: ignore


class NumbersClassifier(OfNumbers, TextClassifier):
    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().predict_proba(to_words(validate_data(self, X, reset=False)))


class NumbersRegressor(OfNumbers, TextRegressor):
    pass


CANNOT_APPLY = {
    "check_classifiers_train": "expects an accuracy of 0.83 from real numbers, which become words that occur once",
    "check_class_weight_classifiers": "expects to separate noisy real numbers, which become words that occur once",
    "check_regressors_train": "expects a fit of real numbers, which become words that occur once",
}
"""The checks of scikit-learn that cannot apply to texts, with the reason."""
SLOW = {"check_estimator_sparse_array", "check_estimator_sparse_matrix", "check_f_contiguous_array_estimator"}
"""Checks of matrices, of which the adapter here makes texts: they would test scikit-learn, not this estimator."""


@parametrize_with_checks(
    [NumbersClassifier(dim=4, epochs=0.2, device="cpu"), NumbersRegressor(dim=4, epochs=0.2, device="cpu")],
    expected_failed_checks=lambda estimator: CANNOT_APPLY,
)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    if check.func.__name__ in SLOW | CANNOT_APPLY.keys():
        pytest.skip(CANNOT_APPLY.get(check.func.__name__, "of matrices"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return TextClassifier(**SMALL).fit(TEXTS, LABELS)


def test_the_texts_are_learned(fitted: TextClassifier) -> None:
    assert fitted.classes_.tolist() == ["neg", "pos"]
    assert fitted.score(TEXTS, LABELS) == 1.0  # 0.67 for the most frequent class
    probability_NC = fitted.predict_proba(TEXTS)
    assert (fitted.classes_[probability_NC.argmax(1)] == fitted.predict(TEXTS)).all()
    assert fitted.predict(np.array(TEXTS)[:, None]).tolist() == fitted.predict(TEXTS).tolist()
    assert fitted.predict(["", "unknown words"]).shape == (2,)


def test_labels_of_any_kind_come_back_as_they_were() -> None:
    for labels in (np.where(LABELS == "pos", 7, -1), LABELS == "pos", np.where(LABELS == "pos", 1.5, 0.5) * 2):
        predicted = TextClassifier(**SMALL).fit(TEXTS, labels).predict(TEXTS)
        assert predicted.dtype == labels.dtype and (predicted == labels).all()


def test_model_selection(fitted: TextClassifier) -> None:
    estimator = TextClassifier(**SMALL)
    assert clone(fitted).get_params() == estimator.get_params() and not hasattr(clone(fitted), "run_")
    assert cross_val_score(estimator, TEXTS, LABELS, cv=2).min() > 0.8
    search = GridSearchCV(estimator, {"epochs": [0.2, 10]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_ == {"epochs": 10}
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.replace("awful", "bad") for text in texts]), estimator)
    assert pipeline.fit(TEXTS, LABELS).predict(["awful film", "good film"]).tolist() == ["neg", "pos"]
    nested = GridSearchCV(pipeline, {"textclassifier__dim": [4, 8]}, cv=2, refit=False)
    assert set(nested.fit(TEXTS, LABELS).cv_results_["param_textclassifier__dim"]) == {4, 8}


def test_a_pickle_has_the_files_of_the_run_and_no_objects_of_torch(fitted: TextClassifier) -> None:
    content = pickle.dumps(fitted)
    found: set[str] = set()

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found.add(module.partition(".")[0])
            return super().find_class(module, name)

    Unpickler(io.BytesIO(content)).load()
    assert found <= {"weft", "numpy"}
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    assert not hasattr(pickle.loads(pickle.dumps(TextClassifier())), "run_")
    state = fitted.__getstate__()
    state["files"] = {"../outside": b""}
    with pytest.raises(ValueError, match="may only have files of its own folder"):
        TextClassifier().__setstate__(state)


def test_class_weights_move_the_decision() -> None:
    texts, labels = ["same text"] * 20, ["a"] * 12 + ["b"] * 8
    options = {**SMALL, "epochs": 20}
    assert TextClassifier(**options).fit(texts, labels).predict(["same text"]) == ["a"]
    for weight in ({"b": 5.0}, {"a": 0.1, "b": 1.0}):
        assert TextClassifier(**options, class_weight=weight).fit(texts, labels).predict(["same text"]) == ["b"]
    balanced = TextClassifier(**options, class_weight="balanced").fit(texts, labels).predict_proba(["same text"])
    assert balanced[0, 0] == pytest.approx(0.5, abs=0.1)
    with pytest.raises(ValueError, match=r"class_weight has 'c', which is no class; the classes are: \['a', 'b'\]"):
        TextClassifier(**options, class_weight={"c": 1.0}).fit(texts, labels)


def test_numbers_are_predicted() -> None:
    numbers = np.where(LABELS == "pos", 3.0, -1.0)
    regressor = TextRegressor(**{**SMALL, "epochs": 20}).fit(TEXTS, numbers)
    assert regressor.score(TEXTS, numbers) > 0.8  # R^2


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("one text", ["a"], "X must be a list of texts, not one string"),
        ([1, 2], ["a", "b"], r"row 0 is 1 \(int\)"),
        (["a", None], ["a", "b"], r"row 1 is None \(NoneType\)"),
        ([["a", "b"], ["c", "d"]], ["a", "b"], r"it has shape \(2, 2\); pass one column"),
        (["a", "b"], ["x", "x"], r"needs at least 2 classes; the data has 1 class: 'x'"),
        (["a", "b"], ["x"], "inconsistent numbers of samples"),
    ],
)
def test_data_that_is_not_a_text_with_a_label_per_row(texts: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextClassifier(**SMALL).fit(texts, labels)


def test_no_examples_are_refused() -> None:
    with pytest.raises(ValueError, match="needs at least 2 classes; there are no examples"):
        TextClassifier().fit([], [])
