"""Estimators for scikit-learn: ``TextClassifier`` and ``TextRegressor``."""

from weft.sklearn.estimators import TextClassifier, TextRegressor

__all__ = ["TextClassifier", "TextRegressor"]
