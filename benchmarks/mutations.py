"""Mutated recipes: is every mistake reported where it was made?

    python -m benchmarks.mutations [--count 500] [--seed 1] [--workers 1]

The text of every shipped recipe, of its filled form (every default written) and of one broad recipe below is changed in one
value at a time, over all keys, in every way of ``KINDS``; then it is read and checked as ``weft check`` does. A mutant is

- *located* if every message has the line and the path of the mutation (or of something inside the mutated value; for a deleted
  key, of the part that lost it or of its other options; where the text is no YAML any more, the line alone),
- *felt* if a message is about another part that the mutated value reached and that refuses it: the part that holds the mutated
  option or one above it; or a part that is built from the mutated one, which is below the same part (``structure.dim`` reaches
  ``structure.encoder``), or ``structure``, ``objective`` and ``learning`` for a mutation before them in this order (data tells
  both its fields, objectives get the structure's width and abilities, phases name objectives and weights). The message must
  have that part's path, and the line where that part, or the last part above it that is written at all, is written,
- *valid* if nothing is wrong with it (a name misspelled in free text, another number of steps),
- *wrong* if a message is anywhere else, and a *traceback* if anything but a user's mistake is raised.

Exit code 1 if there is a wrong one or a traceback, or if a recipe takes more than ``MAX_SECONDS`` or ``MAX_MEMORY``. A few
mutants also go through the command line in a process of their own.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode

from benchmarks.stand_ins import write_stand_ins
from weft.recipe import Problem, RecipeError
from weft.training.dry_run import check
from weft.training.recipes import read_run, read_run_text, shipped_recipes

BROAD = """\
# One of everything: a named model with grafts, objectives by name, phases, a reference, stages.
format: 1
seed: 3
precision: fp32
data:
  type: dates
  train: 100
  languages: [de, en]
structure:
  type: transformer-base
  dim: 32
  layers: 1
  heads: 4
  hidden: "${structure.dim}"
  with:
    encoder.layer.mixer: {heads: 2}
    "*.feedforward": {type: gated, hidden: 16}
    decoder.layer.residual.dropout: 0.1
objective:
  plain: next-token
  smooth: {type: next-token, label_smoothing: 0.1}
learning:
  type: gradient
  steps: 10
  ema: {decay: 0.9}
  phases:
    - objective: plain
      train: [encoder.*, decoder.*]
      optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
    - objective: smooth
      every: {epochs: 1}
      constrain: [{type: clip-weights, limit: 0.5}]
evaluate: {metrics: [bleu, {type: exact-match, group_by: format}], search: {type: beam, beams: 2}}
stages:
  - name: polish
    learning: {type: gradient, steps: 5, optimizer: adamw}
    objective: next-token
    structure:
      type: seq2seq
      dim: 32
      encoder: {type: transformer, layers: 2, layer: [{mixer: {heads: 2}}, transformer-layer]}
      decoder: {type: attention-gru, score: general}
    start: {"embedder.*": "embedder.*"}
"""
ORDER = ("data", "structure", "objective", "learning")


# ------------------------------------------------------------------------------------------------- values in a recipe


@dataclass(frozen=True)
class Spot:
    """A value in a recipe's text: its path, where its key and itself stand, and what it is."""

    path: str
    line: int
    key: tuple[int, int] | None
    """Where the key is in the text; None for an entry of a list."""
    column: int
    value: tuple[int, int]
    kind: str
    """int, float, bool, str, null, map or seq."""
    flow: bool
    """Whether it stands within brackets."""

    @property
    def parent(self) -> str:
        return self.path.rpartition(".")[0] if self.key is None else self.path[: -len(self.name) - 1]

    name: str = ""


def spots(text: str) -> list[Spot]:
    """Every value of a recipe but the recipe itself."""
    return list(_below(YAML(typ="safe", pure=True).compose(text), "", False))


def _below(node: Any, path: str, flow: bool) -> Iterator[Spot]:
    flow = flow or bool(getattr(node, "flow_style", False))
    entries = node.value if isinstance(node, MappingNode) else [(None, item) for item in node.value]
    for i, (key, value) in enumerate(entries):
        name = str(i) if key is None else str(key.value)
        inner = f"{path}.{name}" if path else name
        start = key or value
        kind = str(value.tag).rpartition(":")[2]
        span = (key.start_mark.index, key.end_mark.index) if key is not None else None
        ends = (value.start_mark.index, value.end_mark.index)
        yield Spot(inner, start.start_mark.line + 1, span, start.start_mark.column, ends, kind, flow, name)
        if not isinstance(value, ScalarNode):
            yield from _below(value, inner, flow)


# ---------------------------------------------------------------------------------------------------------- mutations


@dataclass(frozen=True)
class Mutant:
    """A recipe with one mistake: its text, and where the mistake is (path None: only the line can be known)."""

    kind: str
    recipe: str
    text: str
    path: str | None
    lines: tuple[int, ...]
    lost: bool = False
    """Whether something was taken away, so that ``path`` is the part that lost it."""


Mutation = Callable[[str, Spot, random.Random], Any]
KINDS: dict[str, Mutation] = {}


def kind(name: str) -> Callable[[Mutation], Mutation]:
    """Register a way to spoil a recipe: gives (text, path, lines), or None where it does not apply."""

    def add(function: Mutation) -> Mutation:
        KINDS[name] = function
        return function

    return add


def _written(text: str, spot: Spot, new: str) -> tuple[str, str, tuple[int, ...]]:
    """The recipe with a value replaced."""
    start, end = spot.value
    if spot.kind in ("map", "seq") and text[start] not in "{[":  # a block: it ends where the next thing begins
        end = start + len(text[start:end].rstrip())
        start = spot.key[1] + 1 if spot.key else start
        new = f" {new}" if spot.key else new
    return text[:start] + new + text[end:], spot.path, (spot.line,)


def _value(name: str, new: str, *kinds: str) -> None:
    """Register the replacement of values of some kinds (none: of all) by another."""

    def mutate(text: str, spot: Spot, rng: random.Random) -> Any:
        return _written(text, spot, new) if not kinds or spot.kind in kinds else None

    kind(name)(mutate)


_value("text for a number", "many", "int", "float")
_value("number for a text", "17", "str")
_value("number for a part or list", "3", "map", "seq")
_value("text for true or false", "perhaps", "bool")
_value("negative number", "-3", "int", "float")
_value("zero", "0", "int", "float")
_value("7, which divides little", "7", "int")
_value("10^12", str(10**12), "int", "float")
_value("10^30", str(10**30), "int", "float")
_value("true for a number", "true", "int", "float")
_value("not a number", ".nan", "int", "float", "str")
_value("infinity", ".inf", "int", "float")
_value("null", "null")
_value("a list", "[1, [2]]", "int", "float", "bool", "str", "map")
_value("a mapping", "{strange: 1}", "int", "float", "bool", "str", "seq")
_value("empty text", '""', "int", "float", "bool", "str", "map")
_value("reference to nothing", '"${nothing.of.this}"')
_value("part of a text is a reference", '"a${seed}"')
_value("python tag", '!!python/object/apply:os.system ["true"]')
_value("alias of nothing", "*nothing")
_value("name from another slot", "layer-norm", "str")


@kind("self reference")
def _self(text: str, spot: Spot, rng: random.Random) -> Any:
    return _written(text, spot, json.dumps("${" + spot.path + "}"))


@kind("misspelled key")
def _misspelled_key(text: str, spot: Spot, rng: random.Random) -> Any:
    if spot.key is None:
        return None
    new = _misspell(spot.name, rng)
    start, end = spot.key
    path = f"{spot.parent}.{new}" if spot.parent else new
    return text[:start] + (json.dumps(new) if text[start] == '"' else new) + text[end:], path, (spot.line,)


@kind("misspelled name")
def _misspelled_name(text: str, spot: Spot, rng: random.Random) -> Any:
    start, end = spot.value
    return _written(text, spot, _misspell(text[start:end].strip("\"'"), rng)) if spot.kind == "str" else None


@kind("key there twice")
def _twice(text: str, spot: Spot, rng: random.Random) -> Any:
    if spot.key is None:
        return None
    start = spot.key[0]
    key = text[start : spot.key[1]]
    return text[:start] + f"{key}: 1" + _next(spot) + text[start:], spot.path, (spot.line, spot.line + (not spot.flow))


@kind("unknown key")
def _unknown(text: str, spot: Spot, rng: random.Random) -> Any:
    if spot.key is None:
        return None
    path = f"{spot.parent}.strange" if spot.parent else "strange"
    start = spot.key[0]
    return text[:start] + "strange: 1" + _next(spot) + text[start:], path, (spot.line,)


def _next(spot: Spot) -> str:
    """What stands between two entries of the mapping that the spot is in."""
    return ", " if spot.flow else "\n" + " " * spot.column


@kind("key deleted")
def _deleted(text: str, spot: Spot, rng: random.Random) -> Any:
    if spot.key is None:
        return None
    start, end = spot.key[0], spot.value[1]
    if spot.flow:
        tail = re.match(r"\s*,\s*", text[end:])
        head = re.search(r",\s*$", text[:start])
        end += tail.end() if tail else 0
        start -= len(head[0]) if head and not tail else 0
        return text[:start] + text[end:], spot.parent, ()
    begin = text.rfind("\n", 0, start) + 1
    if text[begin:start].strip():  # the first key of a list's entry
        return None
    end = end if spot.kind in ("map", "seq") and text[spot.value[0]] not in "{[" else text.find("\n", end) + 1
    return text[:begin] + text[text.rfind("\n", 0, end) + 1 :], spot.parent, ()


def _in_line(text: str, spot: Spot) -> int | None:
    """Where the line of a key begins, if the key is the first in it."""
    begin = text.rfind("\n", 0, spot.key[0]) + 1 if spot.key and not spot.flow else 0
    return begin if spot.key and not spot.flow and not text[begin : spot.key[0]].strip() else None


@kind("tab in the indentation")
def _tab(text: str, spot: Spot, rng: random.Random) -> Any:
    begin = _in_line(text, spot)
    return None if begin is None or spot.key is None else (text[:begin] + "\t" + text[spot.key[0] :], None, (spot.line,))


@kind("one space too many")
def _indented(text: str, spot: Spot, rng: random.Random) -> Any:
    begin = _in_line(text, spot)
    if begin is None or not text[:begin].strip() or re.search(r"(#[^\n]*|: *)\n$", text[:begin]):
        return None  # the first of its mapping may stand anywhere
    return text[:begin] + " " + text[begin:], None, (spot.line,)


@kind("no colon")
def _no_colon(text: str, spot: Spot, rng: random.Random) -> Any:
    if spot.key is None or spot.flow or spot.kind in ("map", "seq"):
        return None
    return text[: spot.key[1]] + text[spot.key[1] + 1 :], None, (spot.line,)


@kind("quote not closed")
def _quote(text: str, spot: Spot, rng: random.Random) -> Any:
    if spot.kind in ("map", "seq") or text[spot.value[0]] in "\"'" or '"' in text[spot.value[0] :]:
        return None
    return text[: spot.value[0]] + '"' + text[spot.value[0] :], None, (spot.line,)


@kind("bracket not closed")
def _bracket(text: str, spot: Spot, rng: random.Random) -> Any:
    start, end = spot.value
    if spot.flow or text[start] not in "{[":
        return None
    return text[: end - 1] + text[end:], None, (spot.line,)


def _misspell(word: str, rng: random.Random) -> str:
    """Two letters swapped, one is missing, or one is there twice."""
    ways = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1) if word[i] != word[i + 1]]
    ways += [word[:i] + word[i + 1 :] for i in range(1, len(word)) if len(word) > 3]
    ways += [word + (word[-1] if word[-1:].isalnum() else "x")]
    return rng.choice([way for way in ways if re.fullmatch(r"[a-z][\w.*-]*", way)] or ["x" + word])


# --------------------------------------------------------------------------------------------------------- evaluation


@dataclass
class Tally:
    """What became of the mutants of each kind. Faults are printed when they are found."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, mutant: Mutant, outcome: str, detail: str) -> None:
        self.counts.setdefault(mutant.kind, Counter())[outcome] += 1
        if outcome in ("wrong", "traceback"):
            lines = ", ".join(map(str, mutant.lines)) or "any line"
            self.fault(f"{outcome}: {mutant.kind} at {mutant.path or 'no path'} ({mutant.recipe}:{lines})\n{detail}")

    def fault(self, text: str) -> None:
        """Print a fault, and count it."""
        self.faults.append(text)
        print(f"{text}\n", flush=True)

    def show(self) -> str:
        columns = ("made", "located", "felt", "valid", "wrong", "traceback")
        rows = [(name, self.counts[name]) for name in KINDS if name in self.counts]
        rows.append(("all", sum((c for _, c in rows), Counter())))
        lines = [f"{'mutation':30}" + "".join(f"{c:>11}" for c in columns)]
        for name, found in rows:
            cells = [found.total() if c == "made" else found[c] for c in columns]
            lines.append(f"{name:30}" + "".join(f"{n:>11}" for n in cells))
        return "\n".join(lines)


CHUNK = 500
"""Mutants that one process checks."""
MAX_SECONDS, MAX_MEMORY = 20.0, 2 * 2**30
"""Processor time of the check of one recipe, and resident memory in bytes of a process that has checked a chunk."""

_valid: set[tuple[str, str]] = set()
"""Recipes that were found valid, by name and filled form: many mutants, as those in a preset, are the same run."""


def classify(mutant: Mutant) -> tuple[str, str]:
    """Classify a mutant (located, felt, valid, wrong, traceback) and return the message about it."""
    try:
        run = read_run_text(mutant.text, mutant.recipe, Path())
        filled = mutant.recipe.replace("-filled", ""), run.to_yaml()
        if filled not in _valid:
            check(run)
            _valid.add(filled)
        return "valid", ""
    except RecipeError as error:
        return _where(mutant, error.problems), str(error)
    except ValueError as error:
        return "wrong", f"not located: {error}"
    except Exception:
        return "traceback", traceback.format_exc()


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Args:
        name: located, felt, valid, wrong or traceback.
        detail: The message.
        seconds: Processor time.
        memory: Most bytes that the process has had resident so far.
    """

    name: str
    detail: str
    seconds: float
    memory: int


def measured(mutant: Mutant) -> Outcome:
    """Classify a mutant and measure it; slow or large ones are wrong."""
    start = time.process_time()
    name, detail = classify(mutant)
    seconds, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if seconds > MAX_SECONDS or memory > MAX_MEMORY:
        name, detail = "wrong", f"takes {seconds:.0f} s and {memory / 2**20:,.0f} MB; {name}: {detail}"
    return Outcome(name, detail, seconds, memory)


def _measure_all(chunk: list[Mutant]) -> list[Outcome]:
    torch.set_num_threads(1)
    return [measured(mutant) for mutant in chunk]


def classified(made: list[Mutant], workers: int) -> Iterator[tuple[Mutant, Outcome]]:
    """Classify mutants in worker processes, each in turn for a chunk of them."""
    made = sorted(made, key=lambda mutant: mutant.recipe)  # of one recipe together: most of them are the same run
    chunks = [made[start : start + CHUNK] for start in range(0, len(made), CHUNK)]
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        for chunk, outcomes in zip(chunks, pool.imap(_measure_all, chunks), strict=True):
            yield from zip(chunk, outcomes, strict=True)


def _where(mutant: Mutant, problems: list[Problem]) -> str:
    if all(_line(problem) in mutant.lines and _inside(mutant, problem) for problem in problems):
        return "located"  # without the lines of the other values, which take as long as the check
    lines = _lines(mutant.text)
    found = {_one(mutant, problem, lines) for problem in problems}
    return "wrong" if "wrong" in found else "felt" if "felt" in found else "located"


def _line(problem: Problem) -> int:
    return int(problem.where.rpartition(":")[2]) if re.search(r":\d+$", problem.where) else 0


def _inside(mutant: Mutant, problem: Problem) -> bool:
    """Whether a problem is at the mutated value, or inside it."""
    return problem.path == mutant.path or (mutant.path is not None and problem.path.startswith(f"{mutant.path}."))


def _one(mutant: Mutant, problem: Problem, lines: dict[str, int]) -> str:
    line = _line(problem)
    if mutant.path is None or not lines:
        return "located" if line in mutant.lines else "wrong"
    here = _inside(mutant, problem) or (mutant.lost and not mutant.path)
    written = problem.path
    while written and written not in lines:
        written = written.rpartition(".")[0]
    if here and (line in mutant.lines if mutant.lines else line == lines.get(written, 1)):
        return "located"
    return "felt" if _reaches(mutant.path, problem.path) and line == lines.get(written, 1) else "wrong"


def _lines(text: str) -> dict[str, int]:
    try:
        return {spot.path: spot.line for spot in reversed(spots(text))}
    except YAMLError:
        return {}


def _reaches(mutated: str, refused: str) -> bool:
    """Whether the part that refuses is one that the mutated value can reach: see above."""
    mutated, refused = (re.sub(r"^stages\.\d+\.", "", path) for path in (mutated, refused))
    if mutated.startswith(f"{refused}.") or not refused:
        return True
    holder = mutated.rpartition(".")[0]
    if holder and refused.startswith(f"{holder}."):
        return True
    first, second = mutated.partition(".")[0], refused.partition(".")[0]
    return first in ORDER and second in ORDER and ORDER.index(first) < ORDER.index(second)


# ----------------------------------------------------------------------------------------------------------- the run


@functools.cache
def recipes() -> dict[str, str]:
    """The texts that are mutated, by name."""
    found = {"broad.yaml": BROAD}
    for name, path in shipped_recipes().items():
        found[f"{name}.yaml"] = path.read_text(encoding="utf-8")
        found[f"{name}-filled.yaml"] = read_run(name).to_yaml()
    return found


@functools.cache
def _all_spots() -> list[tuple[str, str, Spot]]:
    """Every value of every recipe that is mutated: name, text and value."""
    return [(name, text, spot) for name, text in recipes().items() for spot in spots(text)]


def mutants(count: int, seed: int) -> list[Mutant]:
    """Every key at least once (if there are enough mutants), and every kind about equally often."""
    rng = random.Random(seed)
    spots_left = list(_all_spots())
    rng.shuffle(spots_left)
    spots_left.sort(key=lambda spot: "-filled" in spot[0])  # every key of the shipped recipes first, then of their filled forms
    used: Counter[str] = Counter()
    made: dict[tuple[str, str], Mutant] = {}
    while len(made) < count:
        before = len(made)
        for name, text, spot in spots_left:
            for chosen in sorted(KINDS, key=lambda k: (used[k], rng.random())):
                found = KINDS[chosen](text, spot, rng)
                if found is None or found[0] == text or (name, found[0]) in made:
                    continue
                made[name, found[0]] = Mutant(chosen, name, *found, lost=chosen == "key deleted")
                used[chosen] += 1
                break
            if len(made) == count:
                break
        if len(made) == before:
            break
    return list(made.values())


def by_command_line(chosen: list[Mutant]) -> list[str]:
    """The same mistakes through ``weft check``: exit code 2 and the same words, no traceback. Returns what differs."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for mutant in chosen:
            _, message = classify(mutant)
            (Path(folder) / mutant.recipe).write_text(mutant.text, encoding="utf-8")
            command = [sys.executable, "-m", "weft", "check", mutant.recipe]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
            if done.returncode != 2 or done.stderr.strip() != message or done.stdout:
                faults.append(
                    f"weft check: {mutant.kind}: exit code {done.returncode}\n{done.stderr or done.stdout}\nnot\n{message}"
                )
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description="Is every mistake in a recipe reported where it was made?")
    parser.add_argument("--count", type=int, default=500, help="mutants to make")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=5, help="how many also go through the command line")
    parser.add_argument("--workers", type=int, default=1, help="processes that check recipes")
    parser.add_argument("--show", action="store_true", help="print the message about each")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as data:
        os.environ["WEFT_DATA"] = str(write_stand_ins(Path(data)))
        return figure(arguments)


def figure(arguments: argparse.Namespace) -> int:
    for name, text in recipes().items():
        check(read_run_text(text, name, Path()))  # they are right before they are mutated
    made = mutants(arguments.count, arguments.seed)
    tally, refused = Tally(), list[Mutant]()
    slowest, memory = 0.0, 0
    for mutant, outcome in classified(made, arguments.workers):
        tally.add(mutant, outcome.name, outcome.detail)
        slowest, memory = max(slowest, outcome.seconds), max(memory, outcome.memory)
        if outcome.name == "located":
            refused.append(mutant)
        if arguments.show:
            print(f"{outcome.name}: {mutant.kind} at {mutant.path}\n{outcome.detail}")
    for text in by_command_line(random.Random(arguments.seed).sample(refused, min(arguments.processes, len(refused)))):
        tally.fault(text)
    keys = {(m.recipe, m.path) for m in made if m.path}
    print(tally.show())
    print(f"{len(made)} mutants of {len(recipes())} recipes, at {len(keys)} paths; seed {arguments.seed}")
    print(f"slowest {slowest:.1f} s, at most {memory / 2**20:,.0f} MB in a process")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
