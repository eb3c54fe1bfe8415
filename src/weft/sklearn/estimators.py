"""scikit-learn estimators: a text classifier and a regressor for ``GridSearchCV``, ``cross_val_score`` and ``Pipeline``.

Requires scikit-learn (extra ``metrics``).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from weft.core.files import make_folder, write_bytes
from weft.data import cache_rows
from weft.inference.load import load
from weft.inference.trained_run import TrainedRun
from weft.training.recipes import read_run_text
from weft.training.run import Run

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d
except ImportError:
    raise ImportError("weft.sklearn needs scikit-learn; install it with: pip install 'weft[metrics]'") from None

__all__ = ["TextClassifier", "TextRegressor"]


class _TextEstimator(BaseEstimator):
    """What both estimators share: options, training, and pickling as the files of a run folder."""

    run_: TrainedRun

    def __init__(
        self,
        model: str | None = None,
        *,
        epochs: float | None = None,
        lr: float | None = None,
        batch_size: int = 32,
        dim: int = 128,
        max_length: int = 256,
        random_state: int = 1,
        device: str = "auto",
        folder: str | Path | None = None,
        verbose: bool = False,
    ):
        self.model, self.epochs, self.lr, self.batch_size, self.dim = model, epochs, lr, batch_size, dim
        self.max_length, self.random_state, self.device = max_length, random_state, device
        self.folder, self.verbose = folder, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, True, False
        return tags

    def _fit(self, texts: list[str], labels: list[Any], data: Mapping[str, Any], objective: Mapping[str, Any]) -> None:
        rows = cache_rows(list(zip(texts, labels, strict=True)), ("text", "label"))
        usual, least = (8, 300) if self.model is None else (3, 100)
        epochs = max(usual, least * self.batch_size / len(texts)) if self.epochs is None else self.epochs
        run = self._recipe({"train": rows, **data}, objective, epochs)
        folder = self.folder
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="weft-")
            folder = Path(self._temporary.name) / "run"
        self.run_ = run.train(folder, quiet=not self.verbose)

    def _recipe(self, data: Mapping[str, Any], objective: Mapping[str, Any], epochs: float) -> Run:
        pretrained = {"type": "pretrained", "from": self.model}
        scratch = {"type": "classifier", "dim": self.dim}
        structure = scratch if self.model is None else {**pretrained, "task": "classification"}
        lr = (1e-3 if self.model is None else 5e-5) if self.lr is None else self.lr
        recipe = {
            "seed": self.random_state,
            "device": self.device,
            "data": {
                "type": "labeled-text",
                "text": "text",
                "label": "label",
                "validation_fraction": 0,
                "max_length": self.max_length,
                "tokenizer": "word" if self.model is None else pretrained,
                **data,
            },
            "structure": structure,
            "objective": objective,
            "learning": {
                "type": "gradient",
                "epochs": epochs,
                "batch_size": self.batch_size,
                "optimizer": {"type": "adamw", "lr": lr},
                "schedule": {"type": "linear", "warmup": 0.1},
            },
        }
        run = read_run_text(json.dumps(recipe), type(self).__name__, Path())
        run.name = type(self).__name__
        return run

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: options, and the files of the run folder as bytes, without checkpoints."""
        state = {**cast("dict[str, Any]", super().__getstate__())}
        state.pop("_temporary", None)
        run = state.pop("run_", None)
        if run is not None:
            files = [file for file in sorted(run.folder.rglob("*")) if file.is_file() and "checkpoints" not in file.parts]
            state["files"] = {str(file.relative_to(run.folder)): file.read_bytes() for file in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.get("files")
        super().__setstate__({name: value for name, value in state.items() if name != "files"})
        if files is None:
            return
        self._temporary = tempfile.TemporaryDirectory(prefix="weft-")
        folder = Path(self._temporary.name) / "run"
        for name, content in files.items():
            path = folder / name
            if not path.resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{name}: a pickled run may only have files of its own folder")
            make_folder(path.parent)
            write_bytes(path, content)
        self.run_ = load(folder, self.device)


class TextClassifier(ClassifierMixin, _TextEstimator):
    """Text classifier with the interface of scikit-learn: a BiLSTM from scratch, or a fine-tuned pretrained model.

    A fitted classifier can be pickled: the state has the files of its run folder. Unpickling runs code, so load files of others
    with ``weft.load(folder)`` from a run folder only.

    Args:
        model: Pretrained model to fine-tune: name of a packaged model (minilm), folder in the Hugging Face layout, or name on a
            hub; None = a bidirectional LSTM over words, trained from scratch.
        epochs: Passes over the training texts; None = as ``weft new``: 8 and at least 300 steps from scratch, 3 and at least 100
            steps for a pretrained model.
        lr: Peak learning rate; None = 1e-3 from scratch, 5e-5 for a pretrained model.
        batch_size: Examples per batch.
        dim: Hidden size of a model that is trained from scratch.
        max_length: Maximum number of tokens of a text; longer ones are truncated.
        random_state: Seed of all random number generators.
        device: Device to train on; ``auto`` selects cuda, mps or cpu, in this order.
        folder: Run folder to write; None = a temporary folder, removed with the estimator.
        verbose: Whether to show the progress.
        class_weight: Weights of the classes in training, by class; ``balanced`` = inversely proportional to their frequency.

    Attributes:
        classes_: The classes, sorted.
        run_: The trained run.

    Example:
        >>> texts, labels = ["a good film", "a bad film"] * 20, ["pos", "neg"] * 20
        >>> classifier = TextClassifier(dim=16, epochs=4).fit(texts, labels)
        >>> classifier.predict(["a good film"]).tolist()
        ['pos']
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        epochs: float | None = None,
        lr: float | None = None,
        batch_size: int = 32,
        dim: int = 128,
        max_length: int = 256,
        random_state: int = 1,
        device: str = "auto",
        folder: str | Path | None = None,
        verbose: bool = False,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
    ):
        super().__init__(
            model,
            epochs=epochs,
            lr=lr,
            batch_size=batch_size,
            dim=dim,
            max_length=max_length,
            random_state=random_state,
            device=device,
            folder=folder,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any) -> TextClassifier:
        """Train on texts with their classes. Empty texts are left out."""
        texts, target = _texts(X, y), _target(y, X)
        check_classification_targets(target)
        self.classes_, index = np.unique(target, return_inverse=True)
        if len(self.classes_) < 2:
            found = f"the data has 1 class: {self.classes_.tolist()[0]!r}" if len(self.classes_) else "there are no examples"
            raise ValueError(f"{type(self).__name__} needs at least 2 classes; {found}")
        names = [str(i) for i in range(len(self.classes_))]
        weights = self._weights()
        self._fit(texts, [names[i] for i in index], {"labels": names}, {"type": "classification", **weights})
        return self

    def _weights(self) -> dict[str, Any]:
        if self.class_weight is None:
            return {}
        if isinstance(self.class_weight, str):
            return {"weights": self.class_weight}
        positions = {name: str(i) for i, name in enumerate(self.classes_.tolist())}
        if unknown := [name for name in self.class_weight if name not in positions]:
            raise ValueError(f"class_weight has {unknown[0]!r}, which is no class; the classes are: {self.classes_.tolist()}")
        return {"weights": {positions[name]: float(weight) for name, weight in self.class_weight.items()}}

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of each text."""
        check_is_fitted(self)
        return self.classes_[[int(index) for index in self.run_.predict(_texts(X))]]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return N x C class probabilities, in the order of ``classes_``."""
        check_is_fitted(self)
        return self.run_.predict_proba(_texts(X))


class TextRegressor(RegressorMixin, _TextEstimator):
    """Regression on texts with the interface of scikit-learn. Options and pickling are those of ``TextClassifier``.

    Args:
        model: Pretrained model to fine-tune; None = a bidirectional LSTM over words, trained from scratch.
        epochs: Passes over the training texts; None = as ``weft new``: 8 and at least 300 steps from scratch, 3 and at least 100
            steps for a pretrained model.
        lr: Peak learning rate; None = 1e-3 from scratch, 5e-5 for a pretrained model.
        batch_size: Examples per batch.
        dim: Hidden size of a model that is trained from scratch.
        max_length: Maximum number of tokens of a text; longer ones are truncated.
        random_state: Seed of all random number generators.
        device: Device to train on; ``auto`` selects cuda, mps or cpu, in this order.
        folder: Run folder to write; None = a temporary folder, removed with the estimator.
        verbose: Whether to show the progress.

    Attributes:
        run_: The trained run.

    Example:
        >>> regressor = TextRegressor(dim=16, epochs=4).fit(["a good film", "a bad film"] * 20, [1.0, 0.0] * 20)
        >>> regressor.predict(["a good film", "a bad film"]).shape
        (2,)
    """

    def fit(self, X: Any, y: Any) -> TextRegressor:
        """Train on texts with their numbers. Empty texts are left out."""
        texts, target = _texts(X, y), _target(y, X).astype(float)
        if not np.isfinite(target).all():
            raise ValueError("y contains NaN or infinity; remove these examples")
        self._fit(texts, target.tolist(), {"label_type": "number"}, {"type": "regression"})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted number of each text."""
        check_is_fitted(self)
        return np.array([float(number) for number in self.run_.predict(_texts(X))])


def _texts(data: Any, y: Any = ()) -> list[str]:
    """Return a list of texts: of a list, a one-dimensional array, a Series, or a table with one column."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if isinstance(data, str):
        raise ValueError(f"X must be a list of texts, not one string: [{data[:40]!r}]")
    if hasattr(data, "columns") and len(data.columns) == 1:
        data = data[data.columns[0]]
    array = np.asarray(list(data) if not hasattr(data, "shape") else data, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"X must be one-dimensional, a text per example; it has shape {array.shape}; pass one column of texts")
    for row, text in enumerate(array):
        if not isinstance(text, str):
            raise ValueError(f"X must have texts only, but row {row} is {text!r} ({type(text).__name__}); convert or remove it")
    return [str(text) for text in array]


def _target(y: Any, data: Any) -> np.ndarray:
    target = column_or_1d(y, warn=True)
    check_consistent_length(data, target)
    return target
