"""What an answer is about: a text, a pair of texts, or an image."""

from __future__ import annotations

import numpy as np

from weft.batch import Example, Info, Marked


class Given:
    """One text in its frame, or the two of a pair as one sequence: ``text <eos>``, ``first <sep> second <eos>``, or as the
    published tokenizer has it, such as ``[CLS] first [SEP] second [SEP]``. An image is given as it is."""

    def __init__(self, info: Info):
        self.fields = info.about()
        self.frame = self.fields[0].frame

    def __call__(self, example: Example) -> np.ndarray | Marked:
        if self.fields[0].kind == "image":
            return np.asarray(example[self.fields[0].name])
        return self.frame.around([example[field.name] for field in self.fields])


def refuse_choices(info: Info) -> None:
    """Raise where the answer is one of a row's own texts: no class that texts have in common."""
    if several := [f.name for f in info.tokenized() if f.kind == "texts"]:
        raise ValueError(
            f"predicts a class of a text, but in the data ({info.data}) the label is one of the row's own {several[0]}: "
            "take the objective choice, with a structure that chooses"
        )
