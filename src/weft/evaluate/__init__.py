"""Figures from predictions and references."""

from __future__ import annotations

from weft.evaluate.accuracy import Accuracy
from weft.evaluate.answers import AnswerExactMatch, AnswerF1
from weft.evaluate.bleu import BLEU
from weft.evaluate.bootstrap import bootstrap, paired
from weft.evaluate.chrf import ChrF
from weft.evaluate.correlation import Correlation
from weft.evaluate.entity_f1 import EntityF1
from weft.evaluate.evaluation import Evaluation, Judged
from weft.evaluate.exact_match import ExactMatch
from weft.evaluate.kneser_ney import KneserNey
from weft.evaluate.macro_f1 import MacroF1
from weft.evaluate.multilabel import MultiLabelF1
from weft.evaluate.ordinal import MeanAbsoluteError
from weft.evaluate.overlap import overlapping_sentence, overlapping_span
from weft.evaluate.tag_accuracy import TagAccuracy
from weft.evaluate.word_perplexity import WordPerplexity

__all__ = [
    "BLEU",
    "Accuracy",
    "AnswerExactMatch",
    "AnswerF1",
    "ChrF",
    "Correlation",
    "EntityF1",
    "Evaluation",
    "ExactMatch",
    "Judged",
    "KneserNey",
    "MacroF1",
    "MeanAbsoluteError",
    "MultiLabelF1",
    "TagAccuracy",
    "WordPerplexity",
    "bootstrap",
    "overlapping_sentence",
    "overlapping_span",
    "paired",
]
