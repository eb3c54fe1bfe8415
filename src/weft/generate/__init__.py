"""One search for every structure that decodes: greedy, sampling, beam."""

from __future__ import annotations

from weft.generate.beam import BeamSearch
from weft.generate.greedy import GreedySearch
from weft.generate.length_limit import LengthLimited
from weft.generate.sample import Sampling

__all__ = ["BeamSearch", "GreedySearch", "LengthLimited", "Sampling"]
