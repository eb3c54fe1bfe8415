"""Random compositions of the catalog: does ``weft check`` accept each one or refuse it with a located message?

    python -m benchmarks.compositions [--cases 2000] [--seed 1] [--seconds 0]

Options are sampled from their annotated types: usual values, and the ends of the range; parts nest. A case is a recipe whose
data, structure, objective, learning and metrics are random (four of five with a structure that provides what the objective
needs), or a shipped recipe with one to four random changes at any depth, which is still valid more often. A case is

- *valid* if the check accepts it,
- *refused* if every message has a file, a line and a path,
- *unlocated* if a message has no location, and a *traceback* if anything but a user's mistake is raised,
- *slow* if it takes more than 10 seconds; after 30 seconds it is stopped.

Exit code 1 if there is an unlocated one or a traceback.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, get_args, get_origin

import torch
from annotated_types import Ge, Gt, Le, Lt

from weft.core.contracts import Data, Learning, Objective, Structure
from weft.core.options import IsFile, Model
from weft.core.registry import CATALOG, alternatives, is_composition, name_of, option_parameters, recipe_key, slot_of
from weft.evaluate import Evaluation
from weft.pretrained import pretrained
from weft.pretrained.empty_init import SkipInit
from weft.recipe import RecipeError
from weft.training.dry_run import check
from weft.training.recipes import read_run, read_run_text, shipped_recipes

SLOW, LIMIT = 10.0, 30
"""Seconds after which a case is slow, and after which it is stopped."""
OUTCOMES = ("valid", "refused", "unlocated", "traceback", "slow", "stopped")
_BATCH_TOKENS = 100
_NAMES = ("text", "label", "source", "target", "tags", "a", "b", "true", "0", "a.b", "keys")
_FILES = ("a.txt", "b.tsv")
"""Names of files, which the check does not read."""


@dataclass
class Sampler:
    """Random options of parts, as they are written in a recipe.

    Args:
        rng: Random generator.
        share: Probability that an option with a default is set.
    """

    rng: random.Random
    share: float = 0.3

    def part(self, factory: Callable[..., Any], depth: int) -> dict[str, Any]:
        """A part with random options; those that have no default are always set."""
        chosen: dict[str, Any] = {"type": name_of(factory)}
        for name, parameter in option_parameters(factory).items():
            required = parameter.default is parameter.empty
            if required or (depth > 0 and self.rng.random() < self.share):
                chosen[recipe_key(name)] = self.value(parameter.annotation, depth - 1)
        return chosen

    def value(self, annotation: Any, depth: int) -> Any:
        """A value that the annotation allows."""
        members = [member for member in alternatives(annotation) if member is not Model]
        annotation = self.rng.choice(members or [annotation])
        if (kind := slot_of(annotation)) is not None:
            return self.part(self.rng.choice(entries(kind)), depth)
        extra: tuple[Any, ...] = ()
        if get_origin(annotation) is Annotated:
            annotation, *rest = get_args(annotation)
            extra = tuple(rest)
        if IsFile in extra:
            return self.rng.choice(_FILES)
        inner, kind = get_args(annotation), get_origin(annotation) or annotation
        if kind is Literal:
            return self.rng.choice(inner)
        if kind is list or (kind is tuple and inner[1:] == (Ellipsis,)):
            return [self.value(inner[0], depth) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3)))]
        if kind is tuple:
            return [self.value(member, depth) for member in inner]
        if kind is dict:
            keys = get_args(inner[0]) if get_origin(inner[0]) is Literal else _NAMES
            return {key: self.value(inner[1], depth) for key in self.rng.sample(keys, min(len(keys), self.rng.choice((1, 1, 2))))}
        simple = {
            type(None): lambda: None,
            bool: lambda: self.rng.random() < 0.5,
            int: lambda: self._integer(extra),
            float: lambda: self._number(extra),
            str: lambda: self.rng.choice(_NAMES),
        }
        return simple[kind]()

    def _integer(self, extra: tuple[Any, ...]) -> int:
        low, high = (int(end) for end in _ends(extra, 10**6))
        usual = [n for n in (1, 2, 3, 4, 5, 8, 12, 16, 32, 64, 100) if low <= n <= high]
        return self.rng.choice(usual) if self.rng.random() < 0.9 else self.rng.choice((low, low + 1, high))

    def _number(self, extra: tuple[Any, ...]) -> float:
        low, high = _ends(extra, 1e6)
        if self.rng.random() < 0.9:
            return round(self.rng.uniform(low, min(high, low + 1)), 3) or 0.001
        open_low, open_high = any(isinstance(limit, Gt) for limit in extra), any(isinstance(limit, Lt) for limit in extra)
        return self.rng.choice((low + 1e-9 * open_low, high - 1e-9 * open_high))

    def change(self, recipe: dict[str, Any]) -> None:
        """Replace one option of one part of a recipe, at any depth."""
        slots = {"data": Data, "structure": Structure, "objective": Objective, "learning": Learning, "evaluate": Evaluation}
        key = self.rng.choice(("data", *["structure"] * 5, "objective", "objective", "learning", "evaluate"))
        found = list(_parts_in(recipe.get(key), slots[key])) or list(_parts_in(recipe["structure"], Structure))
        chosen, factory = self.rng.choice(found)
        if options := option_parameters(factory):
            name = self.rng.choice(list(options))
            chosen[recipe_key(name)] = self.value(options[name].annotation, 2)


def _ends(extra: tuple[Any, ...], highest: float) -> tuple[float, float]:
    """The ends of an annotated range; from 0 to ``highest`` where it is open."""
    low: Any = next((getattr(limit, "ge", None) or getattr(limit, "gt", 0) for limit in extra if isinstance(limit, Ge | Gt)), 0)
    high: Any = next(
        (getattr(limit, "le", None) or getattr(limit, "lt", 0) for limit in extra if isinstance(limit, Le | Lt)), highest
    )
    return float(low), float(high)


def entries(kind: type) -> list[Callable[..., Any]]:
    """The parts of a slot. ``pretrained`` needs the folder of a published model."""
    return [factory for factory in CATALOG[kind].values() if factory is not pretrained]


def _parts_in(value: Any, annotation: Any) -> Iterator[tuple[dict[str, Any], Callable[..., Any]]]:
    """The parts of a recipe below a value of this annotation, each with its factory."""
    for member in alternatives(annotation):
        kind = slot_of(member)
        if kind is not None and isinstance(value, dict) and value.get("type") in CATALOG[kind]:
            factory = CATALOG[kind][value["type"]]
            yield value, factory
            for name, parameter in option_parameters(factory).items():
                yield from _parts_in(value.get(recipe_key(name)), parameter.annotation)
        elif get_origin(member) is list and isinstance(value, list):
            for item in value:
                yield from _parts_in(item, get_args(member)[0])
        elif get_origin(member) is dict and isinstance(value, dict) and "type" not in value:
            for item in value.values():
                yield from _parts_in(item, get_args(member)[1])


# ---------------------------------------------------------------------------------------------------------------- cases


@functools.cache
def shipped() -> list[str]:
    """The filled shipped recipes that need no published model, as JSON, without stages."""
    found: list[str] = []
    for name in shipped_recipes():
        with suppress(RecipeError):
            found.append(json.dumps({**read_run(name, files=False).dump(), "stages": None}))
    return [text for text in found if '"pretrained"' not in text]


@functools.cache
def compatible() -> dict[str, list[tuple[str, str]]]:
    """For each objective, the data and structures whose defaults fit it, by name."""
    sampler, found = Sampler(random.Random(0)), dict[str, list[tuple[str, str]]]()
    next_token = CATALOG[Objective]["next-token"]  # in place of an objective that has others as parts
    built: dict[tuple[str, str], tuple[Any, Any]] = {}
    structures = [structure for structure in entries(Structure) if not is_composition(structure)]  # named models are large
    for data, structure in itertools.product(entries(Data), structures):
        case = {"data": sampler.part(data, 0), "structure": sampler.part(structure, 0)}
        try:
            run = _read(case | {"objective": "next-token", "learning": {"type": "gradient", "steps": 1}})
            info = run.data().declare()
            with SkipInit(), torch.device("meta"):
                built[name_of(data), name_of(structure)] = info, run.structure(info)
        except ValueError:
            continue
    for objective in entries(Objective):
        given = sampler.part(objective, 0)
        for pair, (info, model) in built.items():
            try:
                one = objective(info, model.dim) if len(given) == 1 else next_token(info, model.dim)
            except ValueError:
                continue
            if set(one.needs) <= set(model.provides()):
                found.setdefault(name_of(objective), []).append(pair)
    return found


def case(number: int, seed: int) -> dict[str, Any]:
    """Random recipe ``number``. Objectives take turns."""
    rng = random.Random(f"{seed} {number}")
    sampler, names = Sampler(rng, share=rng.choice((0.1, 0.2, 0.4))), list(CATALOG[Objective])
    if number % 2:
        recipe = json.loads(rng.choice(shipped()))
        for _ in range(rng.randint(1, 4)):
            sampler.change(recipe)
        recipe["learning"]["batch_tokens"] = _BATCH_TOKENS
        return recipe
    objective = names[number // 2 % len(names)]
    pairs = compatible().get(objective, [])
    if pairs and rng.random() < 0.8:
        data, structure = rng.choice(pairs)
    else:
        data, structure = (name_of(rng.choice(entries(kind))) for kind in (Data, Structure))
    recipe = {
        "data": sampler.part(CATALOG[Data][data], 2),
        "structure": sampler.part(CATALOG[Structure][structure], 4),
        "objective": sampler.part(CATALOG[Objective][objective], 3),
        "learning": {"type": "gradient", "steps": 5, "batch_tokens": _BATCH_TOKENS}
        | ({} if rng.random() < 0.6 else _learning(sampler)),
    }
    if rng.random() < 0.2:
        recipe["evaluate"] = sampler.part(Evaluation, 2)
    return recipe


def _learning(sampler: Sampler) -> dict[str, Any]:
    return sampler.part(sampler.rng.choice(entries(Learning)), 2)


def _read(recipe: dict[str, Any]) -> Any:
    return read_run_text(json.dumps(recipe, indent=1), "case.yaml", Path(), files=False)


# ------------------------------------------------------------------------------------------------------------- outcomes


@dataclass
class Tally:
    """Outcomes of cases, and those that must not be."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, number: int, seed: int) -> None:
        """Check case ``number`` and count its outcome."""
        recipe, start = case(number, seed), time.perf_counter()
        outcome, detail = judge(recipe)
        self.counts[outcome] += 1
        slow = time.perf_counter() - start > SLOW
        self.counts["slow"] += slow
        if outcome in ("unlocated", "traceback") or slow:
            self.faults.append(f"{'slow, ' * slow}{outcome}: case {number}\n{json.dumps(recipe)}\n{detail}")
            print(f"{self.faults[-1]}\n", flush=True)


def judge(recipe: dict[str, Any]) -> tuple[str, str]:
    """The outcome of a recipe, and its message."""
    try:
        with _limited(LIMIT):
            check(_read(recipe))
        return "valid", ""
    except RecipeError as error:
        located = all(re.search(r":\d+$", problem.where) and problem.path for problem in error.problems)
        return "refused" if located else "unlocated", str(error)
    except ValueError as error:
        return "unlocated", "".join(traceback.format_exception(error))
    except TimeoutError as error:
        return "stopped", str(error)
    except Exception:
        return "traceback", traceback.format_exc()


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after some seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"stopped after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random compositions of the catalog through weft check")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time; 0 = after all cases")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tally, start, number = Tally(), time.perf_counter(), arguments.first
    while number < arguments.first + arguments.cases:
        tally.add(number, arguments.seed)
        number += 1
        if arguments.seconds and time.perf_counter() - start > arguments.seconds:
            break
    seconds = time.perf_counter() - start
    print(f"{number - arguments.first:,} cases from {arguments.first:,}, seed {arguments.seed}, {seconds:.0f} s")
    for outcome in OUTCOMES:
        print(f"{outcome:10}{tally.counts[outcome]:8,}")
    return 1 if tally.counts["unlocated"] or tally.counts["traceback"] else 0


if __name__ == "__main__":
    sys.exit(main())
