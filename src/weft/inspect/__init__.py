"""Inspect trained models: attention, input attribution, architectures, learning curves, confusion matrices, calibration."""

from __future__ import annotations

from weft.inspect.architecture import Architecture, architecture, check_suffix
from weft.inspect.attention import attention
from weft.inspect.attention_page import AttentionExample, AttentionMap, DecodingStep, attention_page
from weft.inspect.attribution import Attribution, OutputAttribution, attribution
from weft.inspect.attribution_page import attribution_page
from weft.inspect.confusion_matrix import plot_confusion_matrix
from weft.inspect.learning_curve import plot_learning_curve
from weft.inspect.reliability_diagram import expected_calibration_error, plot_reliability_diagram

__all__ = [
    "Architecture",
    "AttentionExample",
    "AttentionMap",
    "Attribution",
    "DecodingStep",
    "OutputAttribution",
    "architecture",
    "attention",
    "attention_page",
    "attribution",
    "attribution_page",
    "check_suffix",
    "expected_calibration_error",
    "plot_confusion_matrix",
    "plot_learning_curve",
    "plot_reliability_diagram",
]
