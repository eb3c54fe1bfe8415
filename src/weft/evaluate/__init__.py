"""Evaluation: metrics, confidence intervals, significance tests, n-gram language models."""

from __future__ import annotations

from weft.evaluate.accuracy import Accuracy
from weft.evaluate.bleu import BLEU
from weft.evaluate.chrf import ChrF
from weft.evaluate.class_report import ClassReport, ClassScores, class_report
from weft.evaluate.correlation import Correlation
from weft.evaluate.distinct import Distinct, Repetition, distinct_ngrams, distinct_texts, repetition_rate
from weft.evaluate.entity_f1 import EntityF1
from weft.evaluate.evaluation import Evaluation, EvaluationResult
from weft.evaluate.exact_match import ExactMatch
from weft.evaluate.forward_bleu import ForwardBLEU, SelfBLEU
from weft.evaluate.kneser_ney import KneserNey
from weft.evaluate.macro_f1 import MacroF1
from weft.evaluate.mean_absolute_error import MeanAbsoluteError
from weft.evaluate.multi_label_f1 import MultiLabelF1
from weft.evaluate.ngrams import BleuScore, ReferencePool, corpus_bleu, g_score, self_bleu
from weft.evaluate.resampling import confidence_intervals, paired_test
from weft.evaluate.squad import AnswerExactMatch, AnswerF1
from weft.evaluate.tag_accuracy import TagAccuracy
from weft.evaluate.word_overlap import overlapping_sentence, overlapping_span
from weft.evaluate.word_perplexity import WordPerplexity

__all__ = [
    "BLEU",
    "Accuracy",
    "AnswerExactMatch",
    "AnswerF1",
    "BleuScore",
    "ChrF",
    "ClassReport",
    "ClassScores",
    "Correlation",
    "Distinct",
    "EntityF1",
    "Evaluation",
    "EvaluationResult",
    "ExactMatch",
    "ForwardBLEU",
    "KneserNey",
    "MacroF1",
    "MeanAbsoluteError",
    "MultiLabelF1",
    "ReferencePool",
    "Repetition",
    "SelfBLEU",
    "TagAccuracy",
    "WordPerplexity",
    "class_report",
    "confidence_intervals",
    "corpus_bleu",
    "distinct_ngrams",
    "distinct_texts",
    "g_score",
    "overlapping_sentence",
    "overlapping_span",
    "paired_test",
    "repetition_rate",
    "self_bleu",
]
