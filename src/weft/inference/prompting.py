"""Ask a language model by example: a template, a few demonstrations, and which of some answers it finds likeliest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from weft.core.batch import Batch, collate
from weft.core.batch import Instance as Prepared
from weft.core.example import CHOICE_LABELS, Targets, surround
from weft.core.seeding import key
from weft.data.requests import encoder_field
from weft.inference.trained_run import TrainedRun

HOLE = re.compile(r"\{([^{}]+)\}")
NOTHING = "N/A"
"""What stands in the place of an input when the answers' own likeliness is measured."""


@dataclass(frozen=True)
class Prompt:
    """How a row becomes a prompt, and how its answers are compared.

    score(answer) = log p(answer | prompt), divided by its tokens (``length``), less that after an empty input (``calibrate``)

    Brown et al. 2020 (GPT-3), https://arxiv.org/abs/2005.14165; calibration: Zhao et al. 2021, https://arxiv.org/abs/2102.09690

    Args:
        template: A row's columns in braces, with ``{answer}`` at its end: ``"Review: {sentence}\\nIt was {answer}"``.
        answers: For each class the words that stand for it; None = each row has its own, in its cell ``choices`` with tabs
            between them, and the classes are A for the first, B for the second, and so on.
        shots: How many demonstrations stand before the question; 0 = none.
        between: What stands between demonstrations.
        normalise: Whether an answer's log-probability is divided by its number of tokens.
        calibrate: Whether what the model would answer to nothing is taken off.
        seed: Which demonstrations are drawn, and in which order.

    Example:
        >>> ask = Prompt("{text} =", {"1": "one", "2": "two"})
        >>> ask.filled({"text": "uno"}, [({"text": "due"}, "2")])
        'due = two\\n\\nuno ='
    """

    template: str
    answers: Mapping[str, str] | None
    shots: int = 0
    between: str = "\n\n"
    normalise: Literal["none", "length"] = "length"
    calibrate: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if self.answers is not None and len(self.answers) < 2:
            raise ValueError(f"{len(self.answers)} answers leave nothing to choose: give two or more")
        if self.shots < 0:
            raise ValueError(f"shots is {self.shots}, but must be 0 or more")
        if (lone := _lone_brace(self.template)) >= 0:
            near = self.template[max(0, lone - 10) : lone + 20]
            raise ValueError(f"the template has a brace without its other half at {near!r}: write a column as {{text}}")
        holes = HOLE.findall(self.question)
        if "answer" in holes:
            raise ValueError(
                "{answer} must stand at the template's end, and only there: the model goes on from what is before it"
            )
        if not holes:
            raise ValueError(f"the template {self.template!r} asks for no column: write one in braces, such as {{text}}")

    @property
    def question(self) -> str:
        """The template up to the answer."""
        return self.template.removesuffix("{answer}").rstrip() if self.template.endswith("{answer}") else self.template

    def filled(self, row: Mapping[str, str], shown: Sequence[tuple[Mapping[str, str], str]] = ()) -> str:
        """The prompt of a row, after demonstrations (rows with their classes)."""
        parts = [f"{self._fill(other)} {self.words(other)[label]}" for other, label in shown]
        return self.between.join([*parts, self._fill(row)])

    def words(self, row: Mapping[str, str]) -> Mapping[str, str]:
        """The answers of a row, by class."""
        if self.answers is not None:
            return self.answers
        own = row.get("choices", "").split("\t")
        if not 2 <= len(own) <= len(CHOICE_LABELS):
            raise ValueError(f"{len(own)} choices in the row {str(dict(row))[:60]}, but there must be 2 to {len(CHOICE_LABELS)}")
        return dict(zip(CHOICE_LABELS, own, strict=False))

    def _fill(self, row: Mapping[str, str]) -> str:
        if missing := [name for name in HOLE.findall(self.question) if name not in row]:
            raise ValueError(f"the template asks for {missing[0]!r}, but the rows have: {', '.join(row)}")
        shown = row if self.answers is not None else {**row, "choices": row.get("choices", "").replace("\t", ", ")}
        return HOLE.sub(lambda hole: shown[hole[1]], self.question)

    def demonstrations(self, pool: Sequence[tuple[Mapping[str, str], str]], number: int) -> list[tuple[Mapping[str, str], str]]:
        """Those of question ``number``, drawn without replacement; the same each time."""
        if self.shots > len(pool):
            raise ValueError(f"{self.shots} demonstrations are wanted, but there are {len(pool)} rows to draw them from")
        if unknown := [(label, answers) for row, label in pool if label not in (answers := self.words(row))]:
            label, answers = min(unknown, key=lambda one: one[0])
            raise ValueError(f"the class {label!r} has no answer (answers: {', '.join(answers)})")
        rng = np.random.default_rng(key(self.seed, "shots", number))
        return [pool[int(i)] for i in rng.permutation(len(pool))[: self.shots]]

    def scores(
        self, run: TrainedRun, rows: Sequence[Mapping[str, str]], pool: Sequence[tuple[Mapping[str, str], str]] = ()
    ) -> np.ndarray:
        """Rows x classes: how likely each answer is. A row with fewer answers of its own than others ends with -inf."""
        prompts, empty, words = [], [], [list(self.words(row).values()) for row in rows]
        for number, row in enumerate(rows):
            shown = self.demonstrations(pool, number) if self.shots else []
            prompts.append(self.filled(row, shown))
            empty.append(self.filled(dict.fromkeys(row, NOTHING), shown))
        found = self._asked(run, prompts, words)
        if self.calibrate:
            found = found - self._asked(run, empty, words)
        size_N = np.array([len(own) for own in words], np.int64)
        score_NC = np.full((len(rows), size_N.max(initial=0)), -np.inf)
        score_NC[np.arange(score_NC.shape[1]) < size_N[:, None]] = found
        return score_NC

    def _asked(self, run: TrainedRun, prompts: Sequence[str], words: Sequence[Sequence[str]]) -> np.ndarray:
        """The scores of all answers, those of the first prompt first."""
        pairs = [(prompt, f" {word}") for prompt, own in zip(prompts, words, strict=True) for word in own]
        logprob, tokens = log_probabilities(run, pairs)
        return logprob / np.maximum(tokens, 1) if self.normalise == "length" else logprob

    def choose(
        self, run: TrainedRun, rows: Sequence[Mapping[str, str]], pool: Sequence[tuple[Mapping[str, str], str]] = ()
    ) -> list[str]:
        """The class of each row whose answer is likeliest."""
        best_N = self.scores(run, rows, pool).argmax(1)
        return [list(self.words(row))[int(best)] for row, best in zip(rows, best_N, strict=True)]


def _lone_brace(template: str) -> int:
    """Where a brace is that has no other half; -1 = nowhere."""
    opened: list[int] = []
    for place, letter in enumerate(template):
        if letter == "{":
            opened.append(place)
        elif letter == "}" and not opened:
            return place
        elif letter == "}":
            opened.pop()
    return opened[0] if opened else -1


def log_probabilities(run: TrainedRun, pairs: Sequence[tuple[str, str]], batch: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """log p(answer | prompt) of each pair, and the number of the answer's tokens.

    A language model goes on from the prompt; a model with an encoder reads the prompt and writes the answer.
    """
    codec = run.codec
    target = codec.info[codec.info.target]
    given = encoder_field(run.model, codec.info)
    rows = [_instance(codec, prompt, answer, target, given, run.start_ids) for prompt, answer in pairs]
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["input"]))
    device = next(run.model.parameters()).device
    found, tokens = np.zeros(len(rows)), np.array([len(row["picks"].ids) for row in rows])
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            some = order[start : start + batch]
            made: Batch = collate([rows[i] for i in some], range(len(some))).to(device)
            try:
                memory = run.model.memory(made) if given is not None else None
                hidden = run.model.decode(made["input"], memory).hidden
            except ValueError as error:
                hint = "take fewer demonstrations or a shorter template"
                raise ValueError(f"the longest prompt does not fit into the model ({error}): {hint}") from None
            picks: Any = made["picks"]
            nll_N = run.model.head.nll(picks.gather(hidden), picks.target_N).double()
            owner_N = picks.index_N // made["input"].width
            found[some] = -torch.zeros(len(some), dtype=torch.double, device=device).index_add(0, owner_N, nll_N).cpu().numpy()
    return found, tokens


def _instance(codec: Any, prompt: str, answer: str, target: Any, given: Any, begin: tuple[int, ...] | None) -> Prepared:
    mark = ((target.special.bos,) if given is None else target.decoder_prefix()) if begin is None else begin
    if given is not None:
        source = given.frame.around([codec.encode(given.name, prompt)])
        ids = codec.encode(target.name, answer.strip())
        picks = Targets("input", np.arange(len(ids)) + len(_known(mark)) - 1, ids)
        return Prepared({given.name: source, "input": surround(mark, ids[:-1], []), "picks": picks})
    before = codec.encode(target.name, prompt)
    whole = codec.encode(target.name, prompt + answer)
    # where prompt and answer are cut differently together, what is common at the beginning is the prompt
    same = int(np.argmin(np.append(whole[: len(before)] == before[: len(whole)], False)))
    if not mark and not same:  # nothing stands before the answer, so the begin mark does
        mark = (target.special.bos,)
    picks = Targets("input", np.arange(same, len(whole)) + len(_known(mark)) - 1, whole[same:])
    return Prepared({"input": surround(mark, whole[:-1], []), "picks": picks})


def _known(mark: tuple[int, ...]) -> tuple[int, ...]:
    if -1 in mark:
        raise ValueError("this model's tokenizer has no id that begins a text, so no prompt can be put to it")
    return mark
