"""Figures from predictions and references."""

from __future__ import annotations

from weft.evaluate.accuracy import Accuracy
from weft.evaluate.answers import AnswerExactMatch, AnswerF1
from weft.evaluate.bleu import BLEU
from weft.evaluate.bootstrap import bootstrap, paired
from weft.evaluate.chrf import ChrF
from weft.evaluate.conditional import Written, judge_generation, judge_transfer, table
from weft.evaluate.correlation import Correlation
from weft.evaluate.distinct import Distinct, Repetition, distinct_ngrams, distinct_texts, repetition_rate
from weft.evaluate.drawn import DrawnTexts
from weft.evaluate.entity_f1 import EntityF1
from weft.evaluate.evaluation import Evaluation, Judged
from weft.evaluate.exact_match import ExactMatch
from weft.evaluate.kneser_ney import KneserNey
from weft.evaluate.language_model import Perplexity, perplexity
from weft.evaluate.latent import (
    MutualInformation,
    active_units,
    elbo,
    importance_weighted,
    kl,
    log_density,
    mutual_information,
)
from weft.evaluate.latent_space import LatentSpace
from weft.evaluate.macro_f1 import MacroF1
from weft.evaluate.multilabel import MultiLabelF1
from weft.evaluate.ngrams import BleuScore, Pool, corpus_bleu, g_score, self_bleu
from weft.evaluate.oracle import Oracle, OracleAccuracy, shared_texts
from weft.evaluate.ordinal import MeanAbsoluteError
from weft.evaluate.overlap import overlapping_sentence, overlapping_span
from weft.evaluate.pool_bleu import PoolBLEU, SelfBLEU
from weft.evaluate.tag_accuracy import TagAccuracy
from weft.evaluate.trivial import constant, copied, drawn, medoid, most_frequent, retrieved
from weft.evaluate.word_perplexity import WordPerplexity

__all__ = [
    "BLEU",
    "Accuracy",
    "AnswerExactMatch",
    "AnswerF1",
    "BleuScore",
    "ChrF",
    "Correlation",
    "Distinct",
    "DrawnTexts",
    "EntityF1",
    "Evaluation",
    "ExactMatch",
    "Judged",
    "KneserNey",
    "LatentSpace",
    "MacroF1",
    "MeanAbsoluteError",
    "MultiLabelF1",
    "MutualInformation",
    "Oracle",
    "OracleAccuracy",
    "Perplexity",
    "Pool",
    "PoolBLEU",
    "Repetition",
    "SelfBLEU",
    "TagAccuracy",
    "WordPerplexity",
    "Written",
    "active_units",
    "bootstrap",
    "constant",
    "copied",
    "corpus_bleu",
    "distinct_ngrams",
    "distinct_texts",
    "drawn",
    "elbo",
    "g_score",
    "importance_weighted",
    "judge_generation",
    "judge_transfer",
    "kl",
    "log_density",
    "medoid",
    "most_frequent",
    "mutual_information",
    "overlapping_sentence",
    "overlapping_span",
    "paired",
    "perplexity",
    "repetition_rate",
    "retrieved",
    "self_bleu",
    "shared_texts",
    "table",
]
