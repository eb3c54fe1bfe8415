"""One search for every structure that decodes: greedy, sampling, beam."""

from __future__ import annotations

from weft.generate.beam import Beam
from weft.generate.greedy import Greedy
from weft.generate.length_limit import Limited
from weft.generate.sample import Sample

__all__ = ["Beam", "Greedy", "Limited", "Sample"]
