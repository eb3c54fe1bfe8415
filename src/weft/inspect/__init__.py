"""Looking into a trained composition: attention maps, pages, pictures."""

from __future__ import annotations

from weft.inspect.attention import attention
from weft.inspect.curve import curve
from weft.inspect.page import Example, attention_page

__all__ = ["Example", "attention", "attention_page", "curve"]
