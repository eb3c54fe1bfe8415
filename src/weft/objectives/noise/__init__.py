"""Noising functions for denoising pretraining.

Each one turns a text into a corrupted source and a target. BART's, and some of T5's, have the original text as the target, so
that they can be chained; T5's others have only the corrupted tokens as the target. Reserved ids that occur in a text (unknown
tokens, masks) are never corrupted: ratios refer to the F other tokens. Functions that only split or reorder a text (prefix,
deshuffling, sentence-permutation, document-rotation) corrupt no token and reorder reserved ids too.
"""

from weft.objectives.noise.bart import (
    DocumentRotation,
    NoiseChain,
    SentencePermutation,
    TextInfilling,
    TokenDeletion,
)
from weft.objectives.noise.selection import ordinary_positions
from weft.objectives.noise.t5 import (
    Deshuffling,
    DropTokens,
    PrefixNoise,
    RandomSpans,
    ReplaceSpans,
    TokenMaskingNoise,
)

__all__ = [
    "Deshuffling",
    "DocumentRotation",
    "DropTokens",
    "NoiseChain",
    "PrefixNoise",
    "RandomSpans",
    "ReplaceSpans",
    "SentencePermutation",
    "TextInfilling",
    "TokenDeletion",
    "TokenMaskingNoise",
    "ordinary_positions",
]
