"""Zero-shot and few-shot classification with a language model: prompt templates, demonstrations, scores of answers.

Shape suffixes: N prompts or answers, C classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weft.core.batch import Instance
from weft.core.contracts import Codec
from weft.core.example import CHOICE_LABELS, Targets, surround
from weft.core.fields import TextField
from weft.core.seeding import key
from weft.data.requests import encoder_field
from weft.generate.frontier import positions
from weft.inference.scoring import log_likelihoods
from weft.inference.trained_run import TrainedRun

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
CONTENT_FREE = "N/A"
"""Value of all columns in the content-free prompt of contextual calibration."""
Row = Mapping[str, str]
LabeledRow = tuple[Row, str]
"""The columns of an example, and its class."""


@dataclass(frozen=True)
class PromptTemplate:
    """A template that turns an example into a prompt, with a verbalizer that turns classes into answers.

    score(answer) = log p(answer | prompt), divided by its number of tokens (``normalize="length"``), minus the score after a
    content-free prompt (``calibrate``)

    Brown et al. 2020 (GPT-3), https://arxiv.org/abs/2005.14165; contextual calibration: Zhao et al. 2021,
    https://arxiv.org/abs/2102.09690; verbalizers: Schick & Schuetze 2021, https://arxiv.org/abs/2001.07676

    Args:
        template: Column names in braces, with ``{answer}`` at the end: ``"Review: {sentence}\\nIt was {answer}"``.
        verbalizer: The answer of each class; None = each example has its own choices, in its column ``choices`` separated by
            tabs, and the classes are A, B, C, ...
        shots: Number of demonstrations before the query.
        separator: Separator of demonstrations.
        normalize: ``length`` = divide the log-probability of an answer by its number of tokens; ``none`` = do not.
        calibrate: Contextual calibration: subtract the scores of a content-free prompt.
        seed: Seed of the demonstrations and their order.

    Example:
        >>> prompt = PromptTemplate("{text} =", {"1": "one", "2": "two"})
        >>> prompt.format({"text": "uno"}, [({"text": "due"}, "2")])
        'due = two\\n\\nuno ='
    """

    template: str
    verbalizer: Mapping[str, str] | None
    shots: int = 0
    separator: str = "\n\n"
    normalize: Literal["none", "length"] = "length"
    calibrate: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if self.verbalizer is not None and len(self.verbalizer) < 2:
            raise ValueError(f"got {len(self.verbalizer)} answers; classification needs at least two")
        if self.shots < 0:
            raise ValueError(f"shots is {self.shots}; must be at least 0")
        if (at := _unmatched_brace(self.template)) >= 0:
            near = self.template[max(0, at - 10) : at + 20]
            raise ValueError(f"the template has an unmatched brace at {near!r}; write a column as {{text}}")
        columns = PLACEHOLDER.findall(self.query)
        if "answer" in columns:
            raise ValueError(
                "{answer} must be at the end of the template, and only there: the model continues the text before it"
            )
        if not columns:
            raise ValueError(f"the template {self.template!r} has no column; write at least one in braces, such as {{text}}")

    @property
    def query(self) -> str:
        """The template without the answer."""
        return self.template.removesuffix("{answer}").rstrip() if self.template.endswith("{answer}") else self.template

    def format(self, row: Row, demonstrations: Sequence[LabeledRow] = ()) -> str:
        """Return the prompt of an example, after demonstrations."""
        parts = [f"{self._fill(other)} {self.answers(other)[label]}" for other, label in demonstrations]
        return self.separator.join([*parts, self._fill(row)])

    def answers(self, row: Row) -> Mapping[str, str]:
        """Return the answer of each class: the verbalizer, or the choices of the example."""
        if self.verbalizer is not None:
            return self.verbalizer
        choices = row.get("choices", "").split("\t")
        if not 2 <= len(choices) <= len(CHOICE_LABELS):
            raise ValueError(f"the example {str(dict(row))[:60]} has {len(choices)} choices; must be 2 to {len(CHOICE_LABELS)}")
        return dict(zip(CHOICE_LABELS, choices, strict=False))

    def _fill(self, row: Row) -> str:
        if missing := [name for name in PLACEHOLDER.findall(self.query) if name not in row]:
            raise ValueError(f"the template has the column {missing[0]!r}, but the columns of the data are: {', '.join(row)}")
        shown = row if self.verbalizer is not None else {**row, "choices": row.get("choices", "").replace("\t", ", ")}
        return PLACEHOLDER.sub(lambda match: shown[match[1]], self.query)

    def demonstrations(self, pool: Sequence[LabeledRow], number: int) -> list[LabeledRow]:
        """Sample the demonstrations of query ``number`` without replacement; the same for each call."""
        if self.shots > len(pool):
            raise ValueError(f"shots is {self.shots}, but there are {len(pool)} examples to sample demonstrations from")
        if unknown := [(label, answers) for row, label in pool if label not in (answers := self.answers(row))]:
            label, answers = min(unknown, key=lambda one: one[0])
            raise ValueError(f"the class {label!r} has no answer; classes with an answer: {', '.join(answers)}")
        rng = np.random.default_rng(key(self.seed, "shots", number))
        return [pool[int(i)] for i in rng.permutation(len(pool))[: self.shots]]

    def scores(self, run: TrainedRun, rows: Sequence[Row], pool: Sequence[LabeledRow] = ()) -> np.ndarray:
        """Return N x C scores of the answers; -inf for an example with fewer choices than others.

        Args:
            run: A run that generates text.
            rows: The examples to classify.
            pool: Examples to sample demonstrations from.
        """
        prompts, content_free, answers = [], [], [list(self.answers(row).values()) for row in rows]
        for number, row in enumerate(rows):
            shown = self.demonstrations(pool, number) if self.shots else []
            prompts.append(self.format(row, shown))
            content_free.append(self.format(dict.fromkeys(row, CONTENT_FREE), shown))
        found = self._flat_scores(run, prompts, answers)
        if self.calibrate:
            found = found - self._flat_scores(run, content_free, answers)
        size_N = np.array([len(own) for own in answers], np.int64)
        score_NC = np.full((len(rows), size_N.max(initial=0)), -np.inf)
        score_NC[np.arange(score_NC.shape[1]) < size_N[:, None]] = found
        return score_NC

    def _flat_scores(self, run: TrainedRun, prompts: Sequence[str], answers: Sequence[Sequence[str]]) -> np.ndarray:
        """The scores of the answers of all prompts, concatenated."""
        pairs = [(prompt, f" {answer}") for prompt, own in zip(prompts, answers, strict=True) for answer in own]
        logprob, tokens = log_probabilities(run, pairs)
        return logprob / np.maximum(tokens, 1) if self.normalize == "length" else logprob

    def classify(self, run: TrainedRun, rows: Sequence[Row], pool: Sequence[LabeledRow] = ()) -> list[str]:
        """Return the class with the highest score for each example. See ``scores``."""
        best_N = self.scores(run, rows, pool).argmax(1)
        return [list(self.answers(row))[int(best)] for row, best in zip(rows, best_N, strict=True)]


def _unmatched_brace(template: str) -> int:
    """Return the index of an unmatched brace; -1 if there is none."""
    opened: list[int] = []
    for at, character in enumerate(template):
        if character == "{":
            opened.append(at)
        elif character == "}" and not opened:
            return at
        elif character == "}":
            opened.pop()
    return opened[0] if opened else -1


def log_probabilities(run: TrainedRun, pairs: Sequence[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return log p(answer | prompt) and the number of tokens of the answer for each pair.

    A language model continues the prompt; an encoder-decoder encodes the prompt and decodes the answer.

    Args:
        run: A run that generates text.
        pairs: Prompt and answer.
    """
    codec = run.codec
    target, source = codec.info.text(codec.info.target), encoder_field(run.model, codec.info)

    limit = positions(run.model)

    def encode(window: list[tuple[str, str]], first: int) -> list[Instance | ValueError]:
        instances = _instances(codec, window, target, source, run.start_ids)
        return [_too_long(one, limit) if limit and len(one["input"]) > limit else one for one in instances]

    found = list(log_likelihoods(run, pairs, encode))
    return np.array([one.logprob for one in found]), np.array([one.tokens for one in found], np.int64)


def _too_long(instance: Instance, limit: int) -> ValueError:
    return ValueError(
        f"the longest prompt is too long: with the answer it has {len(instance['input'])} tokens, but the model has {limit} "
        "positions; use fewer shots or a shorter template"
    )


def _instances(
    codec: Codec,
    pairs: Sequence[tuple[str, str]],
    target: TextField,
    source: TextField | None,
    start_ids: tuple[int, ...] | None,
) -> list[Instance]:
    """The input of the decoder for each pair, with the tokens of the answer as targets."""
    start = ((target.special.bos,) if source is None else target.decoder_prefix()) if start_ids is None else start_ids
    if source is not None:
        prompts = _encoded(codec, source, [prompt for prompt, _ in pairs])
        answers = _encoded(codec, target, [answer.strip() for _, answer in pairs])
        texts = [{source.name: source.frame.around([prompts[prompt]])} for prompt, _ in pairs]
        return [_scored(start, answers[answer.strip()], 0, text) for (_, answer), text in zip(pairs, texts, strict=True)]
    full = [prompt + answer for prompt, answer in pairs]
    ids = _encoded(codec, target, [*(prompt for prompt, _ in pairs), *full])
    instances = list[Instance]()
    for (prompt, _), whole in zip(pairs, full, strict=True):
        before, after = ids[prompt], ids[whole]
        # a tokenizer may merge characters of prompt and answer: the prompt is the common prefix
        same = int(np.argmin(np.append(after[: len(before)] == before[: len(after)], False)))
        own = start or (() if same else (target.special.bos,))  # the first token of the answer needs a context
        instances.append(_scored(own, after, same, {}))
    return instances


def _encoded(codec: Codec, field: TextField, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """The ids of each distinct text: the answers to a question share its prompt."""
    distinct = list(dict.fromkeys(texts))
    found = codec.tokenizers[field.space].encode_batch(distinct)
    return {text: np.array(ids, np.int64) for text, ids in zip(distinct, found, strict=True)}


def _scored(start: tuple[int, ...], ids: np.ndarray, given: int, texts: dict[str, Any]) -> Instance:
    """A decoder input of start ids and ids, whose targets are the ids after the ``given`` first ones."""
    picks = Targets("input", np.arange(given, len(ids)) + len(_checked_start(start)) - 1, ids[given:])
    return Instance({**texts, "input": surround(start, ids[:-1], []), "picks": picks})


def _checked_start(start: tuple[int, ...]) -> tuple[int, ...]:
    if -1 in start:
        raise ValueError("the tokenizer of this model has no BOS token, which a prompt starts with")
    return start
