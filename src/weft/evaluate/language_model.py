"""How likely texts are to a language model that did not write them: per token and per word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Clock, Instance, collate
from weft.core.contracts import ModelsLanguage
from weft.core.example import Targets, ids_of, surround
from weft.core.loss import to_floats
from weft.data import encode_example
from weft.evaluate.kneser_ney import UNKNOWN, KneserNey
from weft.generate.frontier import positions
from weft.objectives.next_token import NextToken

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

_TOKENS = 8000


@dataclass(frozen=True)
class Perplexity:
    """What texts cost a language model, and what it is divided by. The end of each text counts as one token and as one word.

    per_token = exp(nll / tokens), per_word = exp(nll / words); only the second compares models with different tokenizers

    >>> round(Perplexity(nll=3 * math.log(8), tokens=4, words=3).per_word, 6)
    8.0
    """

    nll: float
    """-log p of all texts, their ends included."""
    tokens: int
    words: int
    """What blanks separate in the texts as they were written."""
    unknown: int = 0
    """Tokens that the model does not know: it takes them all for one, and finds them too likely."""

    @property
    def per_token(self) -> float:
        return _exp(self.nll / self.tokens)

    @property
    def per_word(self) -> float:
        return _exp(self.nll / self.words)


def perplexity(model: TrainedRun | KneserNey, texts: Sequence[str]) -> Perplexity:
    """The perplexity of texts under a language model: a trained run (``weft.load(folder)``) or a ``KneserNey``.

    The model must not have seen the texts. An empty text costs its end.

    Args:
        model: A run whose structure goes on from a beginning, such as ``language-model``; or an n-gram model over words.
        texts: As a person would write them for the run's tokenizer; for n-grams, words with blanks between them.

    >>> found = perplexity(KneserNey([["so", "good"], ["so", "bad"]], order=2), ["so good", "so fine"])
    >>> found.tokens, found.words, found.unknown
    (6, 6, 1)
    """
    if isinstance(texts, str):
        raise ValueError("the texts are one string: give a list of texts")
    if not texts:
        raise ValueError("there are no texts: give at least one")
    words = sum(len(text.split()) + 1 for text in texts)
    if isinstance(model, KneserNey):
        split = [text.split() for text in texts]
        known = set(model.vocabulary) - {UNKNOWN}
        unknown = sum(word not in known for text in split for word in text)
        return Perplexity(words * math.log(model.perplexity(split)), words, words, unknown)
    instances = [_instance(model, text, row) for row, text in enumerate(texts)]
    codec = model.codec
    field = codec.info[codec.info.target]
    objective = NextToken(codec.info, model.model.dim).eval()
    device = next(model.model.parameters()).device
    totals, tokens = list[Tensor](), 0
    was_training = model.model.training
    model.model.eval()
    with torch.inference_mode():
        for group in _groups(instances):
            batch = collate(group, range(len(group))).to(device)
            term = objective(model.model, batch, Clock())["loss"]
            totals.append(term.total)
            tokens += term.count
    model.model.train(was_training)
    nll = 0.0
    for total in to_floats(totals):
        nll += total
    unknown = sum(int((instance["picks"].ids == field.special.unk).sum()) for instance in instances)
    return Perplexity(nll, tokens, words, unknown)


def _instance(run: TrainedRun, text: str, row: int) -> Instance:
    if ModelsLanguage not in run.model.provides():
        has = ", ".join(protocol.__name__ for protocol in run.model.provides()) or "nothing"
        raise ValueError(f"perplexity needs a language model, which goes on from a beginning, but {run.name} has: {has}")
    field = run.codec.info[run.codec.info.target]
    begin = run.start_ids or (field.special.bos,)
    if -1 in (*begin, field.special.eos):
        raise ValueError("this model's tokenizer has no id that begins a text or none that ends it, so no text has a probability")
    places, whole = positions(run.model), len(run.codec.encode(field.name, text))
    most = field.max_length if places is None else min(field.max_length, places - len(begin))
    if whole > most:  # cut, the rest would look likelier than it is
        raise ValueError(f"text {row} has {whole} tokens, but the model reads {most} at most: leave it out, or cut it")
    text_T = encode_example(run.codec, {field.name: text})[field.name]
    at = np.arange(whole + 1) + len(begin) - 1
    return Instance(
        {"input": surround(begin, text_T, []), "picks": Targets("input", at, np.append(ids_of(text_T), field.special.eos))}
    )


def _groups(instances: Sequence[Instance]) -> Iterator[list[Instance]]:
    """Texts of similar length together."""
    group: list[Instance] = []
    for instance in sorted(instances, key=lambda one: len(ids_of(one["input"]))):
        if group and (len(group) + 1) * len(ids_of(instance["input"])) > _TOKENS:
            yield group
            group = []
        group.append(instance)
    yield group


def _exp(nll: float) -> float:
    return math.exp(min(nll, 700.0))
