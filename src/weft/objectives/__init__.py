"""OBJECTIVE: what is to be predicted."""

from weft.objectives.classification import Classification
from weft.objectives.encoder_lm import EncoderLM
from weft.objectives.multi_label import MultiLabel
from weft.objectives.next_token import NextToken
from weft.objectives.ordinal import Ordinal
from weft.objectives.regression import Regression
from weft.objectives.tagging import Tagging
from weft.objectives.weighted import Weighted

__all__ = [
    "Classification",
    "EncoderLM",
    "MultiLabel",
    "NextToken",
    "Ordinal",
    "Regression",
    "Tagging",
    "Weighted",
]
