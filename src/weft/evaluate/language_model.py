"""Perplexity of texts under a language model, per token and per word."""

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

_BATCH_TOKENS = 8000


@dataclass(frozen=True)
class Perplexity:
    """Perplexity of texts. The EOS of each text counts as one token and as one word.

    per_token = exp(nll / tokens); per_word = exp(nll / words), which is comparable between tokenizers

    Args:
        nll: Negative log-likelihood of all texts, EOS included.
        tokens: Number of tokens.
        words: Number of whitespace-separated words.
        unknown: Number of out-of-vocabulary tokens. The model assigns all of them the probability of one token, so the
            perplexity is too low.

    >>> round(Perplexity(nll=3 * math.log(8), tokens=4, words=3).per_word, 6)
    8.0
    """

    nll: float
    tokens: int
    words: int
    unknown: int = 0

    @property
    def per_token(self) -> float:
        return _exp(self.nll / self.tokens)

    @property
    def per_word(self) -> float:
        return _exp(self.nll / self.words)


def perplexity(model: TrainedRun | KneserNey, texts: Sequence[str]) -> Perplexity:
    """Return the perplexity of texts under a language model: a trained run (``weft.load(folder)``) or a ``KneserNey``.

    Use texts that the model was not trained on. Of an empty text, EOS is scored.

    Args:
        model: A run of a causal language model (structure ``language-model``), or an n-gram model.
        texts: Raw texts for a run; whitespace-tokenized texts for an n-gram model.

    >>> found = perplexity(KneserNey([["so", "good"], ["so", "bad"]], order=2), ["so good", "so fine"])
    >>> found.tokens, found.words, found.unknown
    (6, 6, 1)
    """
    if isinstance(texts, str):
        raise ValueError("expected a list of texts, got one string")
    if not texts:
        raise ValueError("got no texts; pass at least one")
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
        provided = ", ".join(protocol.__name__ for protocol in run.model.provides()) or "nothing"
        raise ValueError(f"perplexity needs a causal language model, but the model of {run.name} provides: {provided}")
    field = run.codec.info[run.codec.info.target]
    start = run.start_ids or (field.special.bos,)
    if -1 in (*start, field.special.eos):
        raise ValueError("the tokenizer of this model has no BOS or no EOS token, so the probability of a text is not defined")
    max_positions, length = positions(run.model), len(run.codec.encode(field.name, text))
    max_length = field.max_length if max_positions is None else min(field.max_length, max_positions - len(start))
    if length > max_length:  # truncation would lower the perplexity
        raise ValueError(f"text {row} has {length} tokens; the model accepts at most {max_length}, shorten or remove the text")
    text_T = encode_example(run.codec, {field.name: text})[field.name]
    at = np.arange(length + 1) + len(start) - 1
    return Instance(
        {"input": surround(start, text_T, []), "picks": Targets("input", at, np.append(ids_of(text_T), field.special.eos))}
    )


def _groups(instances: Sequence[Instance]) -> Iterator[list[Instance]]:
    """Yield batches of texts of similar length."""
    group: list[Instance] = []
    for instance in sorted(instances, key=lambda one: len(ids_of(one["input"]))):
        if group and (len(group) + 1) * len(ids_of(instance["input"])) > _BATCH_TOKENS:
            yield group
            group = []
        group.append(instance)
    yield group


def _exp(nll: float) -> float:
    return math.exp(min(nll, 700.0))
