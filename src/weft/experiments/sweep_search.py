"""How a sweep chooses its configurations: ranges of values, random search, and Bayesian optimization with Optuna."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weft.core.seeding import key
from weft.recipe.text import parse_value

SEARCHES = ("grid", "random", "optuna")
SearchKind = Literal["grid", "random", "optuna"]
Configuration = dict[str, str]
"""YAML values by path."""
_RANGE = re.compile(r"([-+\d.eE]+)\.\.([-+\d.eE]+)(:log)?")
_REPLICATE = re.compile(r"seed|(?:stages\.\d+\.)?data\.(?:\w+\.)?fold")
_DRAWS = 50


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included; integers if both bounds are.

    Args:
        low: Lower bound.
        high: Upper bound.
        log: Whether the logarithm is uniform.
        integer: Whether the numbers are integers.

    Example:
        >>> parse_range("1e-5..1e-2:log").at(0.5)
        '0.000316228'
    """

    low: float
    high: float
    log: bool
    integer: bool

    def at(self, quantile: float) -> str:
        """Return the number at a quantile in [0, 1), as YAML."""
        if self.integer and not self.log:
            return str(int(self.low + math.floor(quantile * (self.high - self.low + 1))))
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low + quantile * (high - low)
        value = min(max(math.exp(value) if self.log else value, self.low), self.high)
        return str(round(value)) if self.integer else f"{value:.6g}"

    def integers(self) -> list[str]:
        """Return all numbers of a range of integers."""
        return [str(number) for number in range(int(self.low), int(self.high) + 1)]


def parse_range(text: str) -> Range | None:
    """Parse ``low..high`` or ``low..high:log``; None if the text is not a range. Raises ValueError for an impossible one."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        return None
    try:
        low, high = (float(bound) for bound in match.groups()[:2])
    except ValueError:
        return None
    log, integer = match[3] is not None, all(re.fullmatch(r"[-+]?\d+", bound) for bound in match.groups()[:2])
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise ValueError(f"the range {text} must go from a smaller to a larger number")
    if log and low <= 0:
        raise ValueError(f"the range {text} starts at {match[1]}; with :log it must start above 0")
    return Range(low, high, log, integer)


def is_replicate(path: str) -> bool:
    """Return whether an option repeats a configuration: the seed, or the fold of cross-validation."""
    return _REPLICATE.fullmatch(path) is not None


def random_configurations(values: Mapping[str, Sequence[str]], trials: int) -> Iterator[Configuration]:
    """Yield distinct random configurations of the options that are searched: at most ``trials``, fewer if there are no more.

    Configuration i depends on i alone, so that more trials extend a search.

    Args:
        values: YAML values of each path, or one range.
        trials: Number of configurations.
    """
    seen = set[str]()
    for number in range(trials * _DRAWS):
        found = {path: _sampled(path, texts, number) for path, texts in values.items() if is_searched(path, texts)}
        if (name := json.dumps(found)) not in seen:
            seen.add(name)
            yield found
        if len(seen) == trials:
            return


def is_searched(path: str, texts: Sequence[str]) -> bool:
    """Return whether an option varies between configurations."""
    return not is_replicate(path) and (len(texts) > 1 or parse_range(texts[0]) is not None)


def _sampled(path: str, texts: Sequence[str], number: int) -> str:
    quantile = key("sweep", path, number) / 2**64
    if len(texts) == 1 and (found := parse_range(texts[0])) is not None:
        return found.at(quantile)
    return texts[int(quantile * len(texts))]


def propose(
    values: Mapping[str, Sequence[str]],
    history: Sequence[tuple[Configuration, float]],
    number: int,
) -> Configuration:
    """Return the configuration that Optuna's TPE sampler proposes after earlier ones.

    A pure function of its arguments: a sweep that was killed proposes the same again.

    Args:
        values: YAML values of each path, or one range.
        history: Earlier configurations with their scores, higher is better; one that is not finite = failed.
        number: Number of the configuration, which seeds the sampler.
    """
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {path: _distribution(optuna, texts) for path, texts in values.items() if is_searched(path, texts)}
    sampler = optuna.samplers.TPESampler(seed=number)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for configuration, score in history:
        parameters = {path: _parameter(space[path], text) for path, text in configuration.items()}
        outcome = {"value": score} if math.isfinite(score) else {"state": optuna.trial.TrialState.FAIL}
        study.add_trial(optuna.trial.create_trial(params=parameters, distributions=space, **outcome))
    found = study.ask(space).params
    return {path: _as_yaml(value) for path, value in found.items()}


def import_optuna() -> Any:
    """Import Optuna. Raises ValueError with the command that installs it."""
    try:
        import optuna
    except ImportError:
        raise ValueError("--search optuna needs the package optuna; install it with: pip install weft[optuna]") from None
    return optuna


def _distribution(optuna: Any, texts: Sequence[str]) -> Any:
    found = parse_range(texts[0]) if len(texts) == 1 else None
    if found is None:
        return optuna.distributions.CategoricalDistribution(list(texts))
    if found.integer:
        return optuna.distributions.IntDistribution(int(found.low), int(found.high), log=found.log)
    return optuna.distributions.FloatDistribution(found.low, found.high, log=found.log)


def _parameter(distribution: Any, text: str) -> Any:
    return text if hasattr(distribution, "choices") else parse_value(text, "").plain()


def _as_yaml(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.17g}" if isinstance(value, float) else str(value)
