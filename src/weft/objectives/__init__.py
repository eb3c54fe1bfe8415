"""Training objectives: losses, masking strategies, noising functions, annealing and free bits."""

from weft.objectives.annealing import ConstantAnnealing, CyclicalAnnealing, ExponentialAnnealing
from weft.objectives.classification import Classification
from weft.objectives.denoising import Denoising
from weft.objectives.elbo import ELBO
from weft.objectives.encoder_lm import EncoderLM
from weft.objectives.free_bits import ClampFreeBits, ThresholdFreeBits
from weft.objectives.masked_lm import MaskedLM
from weft.objectives.masked_patches import MaskedPatches
from weft.objectives.masking import SpanMasking, TokenMasking, WholeWordMasking
from weft.objectives.multi_label import MultiLabel
from weft.objectives.multiple_choice import MultipleChoiceObjective
from weft.objectives.next_token import NextToken
from weft.objectives.noise import (
    Deshuffling,
    DocumentRotation,
    DropTokens,
    NoiseChain,
    PrefixNoise,
    RandomSpans,
    ReplaceSpans,
    SentencePermutation,
    TextInfilling,
    TokenDeletion,
    TokenMaskingNoise,
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
    "ClampFreeBits",
    "Classification",
    "ConstantAnnealing",
    "CyclicalAnnealing",
    "Denoising",
    "Deshuffling",
    "DocumentRotation",
    "DropTokens",
    "EncoderLM",
    "ExponentialAnnealing",
    "MaskedLM",
    "MaskedPatches",
    "MultiLabel",
    "MultipleChoiceObjective",
    "NextSentence",
    "NextToken",
    "NoiseChain",
    "Ordinal",
    "PrefixLM",
    "PrefixNoise",
    "RandomSpans",
    "Regression",
    "ReplaceSpans",
    "ReplacedToken",
    "SentenceOrder",
    "SentencePermutation",
    "SpanAnswer",
    "SpanMasking",
    "Tagging",
    "TextInfilling",
    "ThresholdFreeBits",
    "TokenDeletion",
    "TokenMasking",
    "TokenMaskingNoise",
    "Weighted",
    "WholeWordMasking",
]
