"""What an answer is about: a text, a pair of texts, or an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from weft.core.batch import Batch
from weft.core.example import Example, MarkedIds
from weft.core.fields import Field, Frame, Info

Orders = Literal["one", "both"]
"""How a pair is read: as it stands, or once in each order."""


class Given:
    """One text in its frame, or the two of a pair as one sequence: ``text <eos>``, ``first <sep> second <eos>``, or as the
    published tokenizer has it, such as ``[CLS] first [SEP] second [SEP]``. An image is given as it is."""

    def __init__(self, info: Info):
        self.fields = info.inputs()
        self.frame = delimited(self.fields[0]) if len(self.fields) > 1 else self.fields[0].frame

    def __call__(self, example: Example) -> np.ndarray | MarkedIds:
        if self.fields[0].kind == "image":
            return np.asarray(example[self.fields[0].name])
        return self.frame.around([example[field.name] for field in self.fields])


class Ordered:
    """What is given, as it stands (``text``) and, where both orders of a pair are read, also turned round (``turned``); where
    ``begin`` says so, after the begin mark, as a language model reads it.

    Radford et al. 2018 (GPT, section 3.3): two texts that are compared have no order, so both are read and their states added.
    """

    def __init__(self, info: Info, orders: Orders, begin: bool):
        self.given, self.both = Given(info), orders == "both"
        if begin:
            self.given.frame = begun(self.given.frame, self.given.fields[0])
        if self.both and len(self.given.fields) != 2:
            names = ", ".join(field.name for field in self.given.fields)
            raise ValueError(f"orders: both needs a pair of texts, but the data ({info.data}) gives: {names}; leave it out")

    def __call__(self, example: Example) -> dict[str, Any]:
        found: dict[str, Any] = {"text": self.given(example)}
        if self.both:
            found["turned"] = self.given.frame.around([example[field.name] for field in reversed(self.given.fields)])
        return found

    def cost(self, cost: np.ndarray) -> np.ndarray:
        """Of a row, where it is ``cost`` in one order."""
        return cost * 2 if self.both else cost

    def features(self, model: Any, batch: Batch) -> Tensor:
        """B x D: of the text, or the sum of both orders."""
        features_BD = model.features(batch["text"])
        return features_BD + model.features(batch["turned"]) if self.both else features_BD


class Whole:
    """A row as the one text that a decoder alone would write: the text, the two of a pair with what stands between them, or the
    question and its right choice. Neither its begin nor its end is marked."""

    def __init__(self, info: Info):
        several = [f for f in info.tokenized() if f.kind == "texts"]
        self.choices = several[0] if several else None
        self.fields = [*(info[name] for name in ("question",) if name in info), *several] if several else info.input_texts()
        self.field = self.fields[-1]
        if len({f.space for f in self.fields}) != 1:
            raise ValueError(f"needs texts of one id space, but the data ({info.data}) gives: {', '.join(info.fields)}")
        self.frame = replace(delimited(self.field), first=(), last=())

    def __call__(self, example: Example) -> np.ndarray | MarkedIds:
        texts = [example[field.name] for field in self.fields]
        if self.choices is not None:
            texts[-1] = texts[-1].parts[int(example["label"])]
        return self.frame.around(texts)

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """The tokens of a row; of its choices, which may be of any length, all."""
        marks = 1 + len(self.frame.between) * (len(self.fields) - 1)
        return np.sum([np.asarray(lengths[f.name], np.int64) for f in self.fields], axis=0) + marks


def delimited(field: Field) -> Frame:
    """The frame of two texts that are read as one: where a published tokenizer puts nothing between them, as GPT's does, its
    separator stands there."""
    frame, sep = field.frame, field.special.sep
    return frame if frame.between or sep < 0 else replace(frame, between=(sep,))


def begun(frame: Frame, field: Field) -> Frame:
    """The frame with the begin mark before it."""
    if field.kind == "image" or field.special.bos < 0:
        raise ValueError(f"begin: true needs a text with a begin mark, and {field.name!r} has none; leave it out")
    return replace(frame, first=(field.special.bos, *frame.first))


def refuse_choices(info: Info) -> None:
    """Raise where the answer is one of a row's own texts: no class that texts have in common."""
    if several := [f.name for f in info.tokenized() if f.kind == "texts"]:
        raise ValueError(
            f"predicts a class of a text, but in the data ({info.data}) the label is one of the row's own {several[0]}: "
            "take the objective choice, with a structure that chooses"
        )
