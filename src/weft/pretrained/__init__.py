"""Published weights: finding, reading, checking and writing them."""

from weft.pretrained.folder import Published
from weft.pretrained.model import Loaded, load
from weft.pretrained.save import save
from weft.pretrained.weights import pretrained

__all__ = ["Loaded", "Published", "load", "pretrained", "save"]
