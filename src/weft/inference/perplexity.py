"""Perplexity of texts under a language model, per token and per word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.core.batch import Instance
from weft.core.contracts import ModelsLanguage
from weft.core.example import Targets, ids_of, surround
from weft.data import encode_example
from weft.evaluate.kneser_ney import UNKNOWN, KneserNey
from weft.generate.frontier import positions
from weft.inference.scoring import log_likelihoods

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun


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
    field = model.codec.info.text(model.codec.info.target)
    unknown = 0

    def encode(window: list[str], first: int) -> list[Instance]:
        nonlocal unknown
        instances = [_instance(model, text, row) for row, text in enumerate(window, first)]
        unknown += sum(int((instance["picks"].ids == field.special.unk).sum()) for instance in instances)
        return instances

    was_training = model.model.training
    model.model.eval()
    found = list(log_likelihoods(model, texts, encode))
    model.model.train(was_training)
    return Perplexity(-sum(one.logprob for one in found), sum(one.tokens for one in found), words, unknown)


def _instance(run: TrainedRun, text: str, row: int) -> Instance:
    if ModelsLanguage not in run.model.provides():
        provided = ", ".join(protocol.__name__ for protocol in run.model.provides()) or "nothing"
        raise ValueError(f"perplexity needs a causal language model, but the model of {run.name} provides: {provided}")
    field = run.codec.info.text(run.codec.info.target)
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


def _exp(nll: float) -> float:
    return math.exp(min(nll, 700.0))
