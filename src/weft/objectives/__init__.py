"""OBJECTIVE: what is to be predicted."""

from weft.objectives.annealing import Decay, Ramp, Steady
from weft.objectives.classification import Classification
from weft.objectives.denoising import Denoising
from weft.objectives.elbo import ELBO
from weft.objectives.encoder_lm import EncoderLM
from weft.objectives.free_bits import Floor, Gate
from weft.objectives.masked_lm import MaskedLM
from weft.objectives.masked_patches import MaskedPatches
from weft.objectives.masking import Spans, Tokens, Words
from weft.objectives.multi_label import MultiLabel
from weft.objectives.multiple_choice import MultipleChoiceObjective
from weft.objectives.next_token import NextToken
from weft.objectives.noise import (
    Chained,
    Deshuffling,
    DocumentRotation,
    DropTokens,
    PrefixNoise,
    RandomSpans,
    ReplaceSpans,
    SentencePermutation,
    TextInfilling,
    TokenDeletion,
    TokenMasking,
)
from weft.objectives.ordinal import Ordinal
from weft.objectives.prefix_lm import PrefixLM
from weft.objectives.regression import Regression
from weft.objectives.replaced_token import ReplacedToken
from weft.objectives.segment_pairs import NextSentence, SentenceOrder
from weft.objectives.span import SpanAnswer
from weft.objectives.tagging import Tagging
from weft.objectives.weighted import Weighted

__all__ = [
    "ELBO",
    "Chained",
    "Classification",
    "Decay",
    "Denoising",
    "Deshuffling",
    "DocumentRotation",
    "DropTokens",
    "EncoderLM",
    "Floor",
    "Gate",
    "MaskedLM",
    "MaskedPatches",
    "MultiLabel",
    "MultipleChoiceObjective",
    "NextSentence",
    "NextToken",
    "Ordinal",
    "PrefixLM",
    "PrefixNoise",
    "Ramp",
    "RandomSpans",
    "Regression",
    "ReplaceSpans",
    "ReplacedToken",
    "SentenceOrder",
    "SentencePermutation",
    "SpanAnswer",
    "Spans",
    "Steady",
    "Tagging",
    "TextInfilling",
    "TokenDeletion",
    "TokenMasking",
    "Tokens",
    "Weighted",
    "Words",
]
