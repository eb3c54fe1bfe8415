"""The text that an answer is about."""

from __future__ import annotations

import numpy as np

from weft.batch import Example, Info, Marked


class Given:
    """One text in its frame, or the two of a pair as one sequence: ``text <eos>``, ``first <sep> second <eos>``, or as the
    published tokenizer has it, such as ``[CLS] first [SEP] second [SEP]``."""

    def __init__(self, info: Info):
        self.fields = info.given()
        self.frame = self.fields[0].frame

    def __call__(self, example: Example) -> np.ndarray | Marked:
        return self.frame.around([example[field.name] for field in self.fields])
