"""The grid of a sweep: values by option, and one trial for each combination."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.experiments.sweep_search import Configuration, SearchKind, is_replicate, is_searched, parse_range
from weft.recipe import COMMAND_LINE, Problem, RecipeError
from weft.recipe.text import parse_value

MAX_TRIALS = 1000
_CLOSING = {"[": "]", "{": "}"}
_MAX_WORD = 30
_MAX_NAME_BYTES = 200


@dataclass
class Trial:
    """One combination of values, and its result.

    Args:
        name: Short name, which is also the name of the run folder.
        options: The values of the paths that vary, as plain values.
        overrides: All assignments, as ``path=value``.
        folder: The run folder.
        metric_values: By split and name; None until the trial is finished.
        higher_is_better: The direction of the metrics that have one, by split and name.
        error: The message of the error that stopped it.
    """

    name: str
    options: dict[str, Any]
    overrides: list[str]
    folder: Path
    metric_values: dict[str, float] | None = None
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    error: str = ""

    def chosen(self, paths: Sequence[str]) -> Configuration:
        """Return the YAML values of some paths."""
        values = dict(text.split("=", 1) for text in self.overrides)
        return {path: values[path] for path in paths}


def read_assignments(
    assignments: Sequence[str] | Mapping[str, Sequence[Any]], search: SearchKind = "grid"
) -> dict[str, list[str]]:
    """Return the values of each path as YAML; a range of integers as all of them, unless it is searched.

    Args:
        assignments: ``path=v1,v2`` as on the command line, or the values by path.
        search: How configurations are chosen; ``grid`` has no ranges of other numbers.

    Raises RecipeError with every mistake, ValueError for fewer than 2 or more than 1,000 combinations.
    """
    problems: list[Problem] = []
    found: dict[str, list[str]] = {}
    for path, texts in _pairs(assignments, problems):
        if path in found:
            problems.append(Problem(COMMAND_LINE, path, f"is given twice; list all values in one assignment: {path}=v1,v2"))
            continue
        try:
            found[path] = _expanded(path, texts, search)
        except ValueError as error:
            problems.append(Problem(COMMAND_LINE, path, str(error)))
            continue
        problems += _value_problems(path, found[path])
    if problems:
        raise RecipeError(problems)
    if search != "grid":
        if not any(is_searched(path, texts) for path, texts in found.items()):
            raise ValueError("a search needs several values or a range of an option, as in learning.optimizer.lr=1e-5..1e-2:log")
        return found
    trials = math.prod(map(len, found.values()))
    if trials < 2:
        raise ValueError("a sweep needs an option with at least two values, as in learning.steps=100,200 or seed=1,2,3")
    if trials > MAX_TRIALS:
        counts = " x ".join(str(len(texts)) for texts in found.values() if len(texts) > 1)
        raise ValueError(f"{counts} = {trials:,} trials; a sweep has at most {MAX_TRIALS:,}")
    return found


def _expanded(path: str, texts: list[str], search: SearchKind) -> list[str]:
    """The values with a range of integers written out; a range that is searched as it is."""
    values: list[str] = []
    for text in texts:
        found = parse_range(text)
        if found is None:
            values.append(text)
        elif search != "grid" and not is_replicate(path):
            if len(texts) > 1:
                raise ValueError(f"the range {text} cannot be combined with other values")
            values.append(text)
        elif not found.integer or found.log:
            raise ValueError(f"{text} is a range of numbers, which a grid does not have; list values, or add --random N")
        elif found.high - found.low >= MAX_TRIALS:
            raise ValueError(f"the range {text} has more than {MAX_TRIALS:,} values")
        else:
            values += found.integers()
    return values


def _pairs(assignments: Sequence[str] | Mapping[str, Sequence[Any]], problems: list[Problem]) -> list[tuple[str, list[str]]]:
    """The path and the YAML values of each assignment; mistakes are appended to ``problems``."""
    if isinstance(assignments, str):
        raise ValueError(f"assignments must be a list of strings or a mapping, not a string; use [{assignments!r}]")
    if isinstance(assignments, Mapping):
        return [(path, [json.dumps(v, ensure_ascii=False) for v in values]) for path, values in assignments.items()]
    found = []
    for text in assignments:
        path, equals, values = text.partition("=")
        if not equals or not path.strip():
            problems.append(Problem(COMMAND_LINE, text, "an assignment of a sweep is path=v1,v2, as in seed=1,2,3"))
            continue
        try:
            found.append((path.strip(), split_values(values)))
        except ValueError as error:
            problems.append(Problem(COMMAND_LINE, path.strip(), str(error)))
    return found


def _value_problems(path: str, texts: list[str]) -> list[Problem]:
    """Values that are missing, duplicate or not YAML."""
    if not texts:
        return [Problem(COMMAND_LINE, path, "has no values")]
    try:
        plain = [json.dumps(parse_value(text, path).plain()) for text in texts]
    except RecipeError as error:
        return error.problems
    duplicate = next((text for text, value in zip(texts, plain, strict=True) if plain.count(value) > 1), None)
    return [] if duplicate is None else [Problem(COMMAND_LINE, path, f"duplicate value {duplicate}")]


def split_values(text: str) -> list[str]:
    """Split at the commas outside brackets and quotes.

    >>> split_values("1, [2, 3], 'a,b'")
    ['1', '[2, 3]', "'a,b'"]
    """
    parts, closing, quote, start, previous = [], [], "", 0, ","
    at = 0
    while at < len(text):
        char = text[at]
        if quote:
            if (char == "\\" and quote == '"') or (char == quote == "'" and text[at + 1 : at + 2] == "'"):
                at += 1  # an escaped character does not end the string
            elif char == quote:
                quote = ""
        elif char in "'\"" and previous in ",[{:":  # within a word it is an apostrophe
            quote = char
        elif char in _CLOSING:
            closing.append(_CLOSING[char])
        elif closing and char == closing[-1]:
            closing.pop()
        elif char == "," and not closing:
            parts.append(text[start:at].strip())
            start = at + 1
        if not char.isspace():
            previous = char
        at += 1
    if quote or closing:
        raise ValueError(f"a {quote or closing[-1]} is missing in {text}")
    parts.append(text[start:].strip())
    if len(parts) > 1 and not all(parts):
        raise ValueError(f"a value is missing between the commas of {text!r}; write null for no value")
    return parts


def build_trials(values: Mapping[str, Sequence[str]], folder: Path) -> list[Trial]:
    """Return a trial for every combination of values, the last path varying fastest.

    Args:
        values: YAML values by path, from ``read_assignments``.
        folder: The folder of the sweep.
    """
    varied = [path for path, texts in values.items() if len(texts) > 1]
    words = {path: dict(zip(values[path], _folder_words(values[path]), strict=True)) for path in varied}
    titles = short_paths(varied)
    trials = []
    for number, texts in enumerate(itertools.product(*values.values()), 1):
        chosen = dict(zip(values, texts, strict=True))
        name = ",".join(f"{titles[path]}={words[path][chosen[path]]}" for path in varied)
        if len(name.encode()) > _MAX_NAME_BYTES:
            name = f"trial-{number}"
        options = {path: parse_value(chosen[path], path).plain() for path in varied}
        trials.append(Trial(name, options, [f"{path}={text}" for path, text in chosen.items()], folder / name))
    return trials


def search_trials(number: int, configuration: Configuration, values: Mapping[str, Sequence[str]], folder: Path) -> list[Trial]:
    """Return the trials of a configuration of a random search: one for each seed and fold.

    Args:
        number: Number of the configuration, from 1.
        configuration: Its YAML values by path.
        values: YAML values of all paths.
        folder: The folder of the sweep.
    """
    rest = {path: texts for path, texts in values.items() if path not in configuration}
    titles = short_paths([path for path, texts in rest.items() if len(texts) > 1])
    trials = []
    for texts in itertools.product(*rest.values()):
        chosen = {**configuration, **dict(zip(rest, texts, strict=True))}
        name = ",".join([f"trial-{number}", *(f"{titles[path]}={chosen[path]}" for path in titles)])
        options = {path: parse_value(chosen[path], path).plain() for path in [*configuration, *titles]}
        trials.append(Trial(name, options, [f"{path}={text}" for path, text in chosen.items()], folder / name))
    return trials


def trial_groups(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Return the trials grouped by their options other than seed and fold."""
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        titles = short_paths(list(trial.options))
        options = [f"{titles[path]}={_short_value(value)}" for path, value in trial.options.items() if not is_replicate(path)]
        found.setdefault(" ".join(options) or "as in the recipe", []).append(trial)
    return found


def short_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return the last key of each path, or as many as distinguish it from the others.

    >>> short_paths(["learning.optimizer.lr", "data.seed", "seed"])
    {'learning.optimizer.lr': 'lr', 'data.seed': 'data.seed', 'seed': 'seed'}
    """
    found = {}
    for path in paths:
        keys = path.split(".")
        suffixes = (".".join(keys[-n:]) for n in range(1, len(keys) + 1))
        found[path] = next((s for s in suffixes if not any(f".{p}".endswith(f".{s}") for p in paths if p != path)), path)
    return {path: re.sub(r"[^\w.-]+", "-", title) for path, title in found.items()}


def _short_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _folder_words(texts: Sequence[str]) -> list[str]:
    """Values as distinct parts of a folder name."""
    words = [re.sub(r"[^A-Za-z0-9.+-]+", "-", text) for text in texts]
    words = [word if text.startswith("-") else word.strip("-") for word, text in zip(words, texts, strict=True)]
    words = [word if len(word) <= _MAX_WORD else word[-_MAX_WORD:].lstrip("-") for word in words]
    lowered = [word.lower() for word in words]  # some file systems ignore case
    hashes = [hashlib.sha256(text.encode()).hexdigest()[:6] for text in texts]
    return [
        f"{word}-{digest}" if word and lowered.count(word.lower()) > 1 else word or digest
        for word, digest in zip(words, hashes, strict=True)
    ]
