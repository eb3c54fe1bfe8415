"""OBJECTIVE: what is to be predicted."""

from weft.objectives.classification import Classification
from weft.objectives.next_token import NextToken
from weft.objectives.weighted import Weighted

__all__ = ["Classification", "NextToken", "Weighted"]
