"""Model inputs of an example: a text, a pair of texts, or an image. B examples, D features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from weft.core.batch import Batch
from weft.core.contracts import Classifies
from weft.core.example import Example, MarkedIds
from weft.core.fields import Field, Frame, Info, TextField, TextsField, TokenizedField

PairOrder = Literal["given", "both"]
"""How a pair of texts is encoded: in the given order, or once in each order."""


class EncoderInput:
    """One text with its special tokens, or the two of a pair as one sequence: ``text <eos>``, ``first <sep> second <eos>``, or in
    the format of a pretrained tokenizer, such as ``[CLS] first [SEP] second [SEP]``. An image is returned unchanged."""

    def __init__(self, info: Info):
        self.fields = info.inputs()
        self.texts = [field for field in self.fields if isinstance(field, TextField)]
        self.frame = Frame() if not self.texts else pair_frame(self.texts[0]) if len(self.texts) > 1 else self.texts[0].frame

    def __call__(self, example: Example) -> np.ndarray | MarkedIds:
        if not self.texts:
            return np.asarray(example[self.fields[0].name])
        return self.frame.around([example[field.name] for field in self.fields])


class PairInput:
    """The input of an encoder (``text``) and, for a pair encoded in both orders, the input in reverse order (``reversed``); with
    ``bos`` each starts with the BOS token, as in language-model pretraining.

    Radford et al. 2018 (GPT, section 3.3): for similarity tasks the texts have no inherent order, so both orders are encoded and
    their features added.
    """

    def __init__(self, info: Info, pair_order: PairOrder, bos: bool):
        self.input, self.both = EncoderInput(info), pair_order == "both"
        if bos:
            self.input.frame = with_bos(self.input.frame, self.input.fields[0])
        if self.both and len(self.input.fields) != 2:
            names = ", ".join(field.name for field in self.input.fields)
            raise ValueError(
                f"pair_order: both needs a pair of texts, but the inputs of the data ({info.data}) are: {names}; "
                "remove pair_order"
            )

    def __call__(self, example: Example) -> dict[str, Any]:
        found: dict[str, Any] = {"text": self.input(example)}
        if self.both:
            found["reversed"] = self.input.frame.around([example[field.name] for field in reversed(self.input.fields)])
        return found

    def cost(self, cost: np.ndarray) -> np.ndarray:
        """Tokens of each example, from its tokens in one order."""
        return cost * 2 if self.both else cost

    def features(self, model: Classifies, batch: Batch) -> Tensor:
        """B x D: features of the text, or the sum over both orders."""
        features_BD = model.features(batch["text"])
        return features_BD + model.features(batch["reversed"]) if self.both else features_BD


class DecoderInput:
    """An example as one sequence for a decoder-only model: the text, the two of a pair with the separator, or the question and
    its correct choice. Without BOS and EOS."""

    def __init__(self, info: Info):
        several = info.of_kind(TextsField)
        self.choices = several[0] if several else None
        question = [info.text("question")] if "question" in info else []
        self.fields: Sequence[TextField | TextsField] = [*question, *several] if several else info.input_texts()
        self.field = self.fields[-1]
        if len({f.space for f in self.fields}) != 1:
            raise ValueError(
                f"full_sequence needs texts with one vocabulary, but the fields of the data ({info.data}) differ: "
                f"{', '.join(info.fields)}"
            )
        self.frame = replace(pair_frame(self.field), first=(), last=(), single=(), pair=())

    def __call__(self, example: Example) -> np.ndarray | MarkedIds:
        texts = [example[field.name] for field in self.fields]
        if self.choices is not None:
            texts[-1] = texts[-1].parts[int(example["label"])]
        return self.frame.around(texts)

    def cost(self, lengths: Mapping[str, np.ndarray]) -> np.ndarray:
        """Tokens of each example; an upper bound that includes all choices, since their lengths are known only in sum."""
        extra = 1 + len(self.frame.between) * (len(self.fields) - 1)
        return np.sum([np.asarray(lengths[f.name], np.int64) for f in self.fields], axis=0) + extra


def pair_frame(field: TokenizedField) -> Frame:
    """The special tokens of a pair. A pretrained tokenizer that puts nothing between two texts (GPT's) gets its separator
    there."""
    frame, sep = field.frame, field.special.sep
    return frame if frame.between or frame.pair or sep < 0 else replace(frame, between=(sep,))


def with_bos(frame: Frame, field: Field) -> Frame:
    """The frame with the BOS token at its start."""
    if not isinstance(field, TokenizedField) or field.special.bos < 0:
        raise ValueError(f"bos: true needs a text with a BOS token, but {field.name!r} has none; remove bos")
    return frame.with_bos(field.special.bos)


def refuse_choices(info: Info) -> None:
    """Raise ValueError where the label is the index of one of the example's own texts, not a class."""
    if several := [f.name for f in info.of_kind(TextsField)]:
        raise ValueError(
            f"predicts a class, but in the data ({info.data}) the label is the index of one of the example's {several[0]}; "
            "use the objective multiple-choice, with task: multiple-choice of the structure"
        )
