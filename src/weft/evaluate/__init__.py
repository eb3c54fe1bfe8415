"""Figures from predictions and references."""

from __future__ import annotations

from weft.evaluate.accuracy import Accuracy
from weft.evaluate.bleu import BLEU
from weft.evaluate.chrf import ChrF
from weft.evaluate.evaluation import Evaluation, Judged
from weft.evaluate.exact_match import ExactMatch
from weft.evaluate.macro_f1 import MacroF1

__all__ = ["BLEU", "Accuracy", "ChrF", "Evaluation", "ExactMatch", "Judged", "MacroF1"]
