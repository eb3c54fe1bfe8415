"""Looking into a trained composition: attention maps, pages, pictures."""

from __future__ import annotations

from weft.inspect.architecture import Architecture, architecture, check_suffix
from weft.inspect.attention import attention
from weft.inspect.attention_page import Example, Map, Step, attention_page
from weft.inspect.confusion import confusion
from weft.inspect.curve import curve
from weft.inspect.reliability import calibration_error, reliability

__all__ = [
    "Architecture",
    "Example",
    "Map",
    "Step",
    "architecture",
    "attention",
    "attention_page",
    "calibration_error",
    "check_suffix",
    "confusion",
    "curve",
    "reliability",
]
