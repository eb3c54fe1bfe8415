"""``weft sweep``: a recipe trained with every combination of some choices, and one table over them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from weft.core import html
from weft.core.io import read_json, write_json, write_text
from weft.experiments.compare import agreed_directions, best_of, directions_of, figures_of, print_table, show_figure
from weft.recipe import COMMAND_LINE, Problem, RecipeError
from weft.recipe.text import parse_value
from weft.training.display import Display
from weft.training.run_folder import FolderError, RunFolder, compare_recipes

if TYPE_CHECKING:
    from weft.training.run import Run

FORMAT = 1
MOST_ARMS = 1000
_CLOSING = {"[": "]", "{": "}"}
_FILE = "sweep.json"
_LONGEST = 30


@dataclass
class Arm:
    """One combination of choices, and what became of it."""

    name: str
    choices: dict[str, Any]
    """The values of the paths that vary, as plain values."""
    overrides: list[str]
    folder: Path
    metric_values: dict[str, float] | None = None
    """By split and name; None: not finished."""
    higher_is_better: dict[str, bool] = field(default_factory=dict)
    """The direction of the values that have one, by split and name."""
    problem: str = ""
    """Why it failed."""


@dataclass
class SweepRow:
    """Arms that differ in nothing but the seed."""

    name: str
    choices: dict[str, Any]
    arms: list[str]
    n: int
    """Arms that are finished."""
    mean: dict[str, float]
    deviation: dict[str, float | None]
    """Standard deviation over the seeds (n - 1 below the fraction line); None with one arm."""


@dataclass
class SweepResult:
    """The arms of a sweep, and its table."""

    folder: Path
    paths: list[str]
    arms: list[Arm]
    rows: list[SweepRow] = field(default_factory=list)

    @property
    def failed(self) -> list[Arm]:
        return [arm for arm in self.arms if arm.problem]

    def tabulate(self) -> None:
        """Make the rows from the finished arms and write table.md and table.json."""
        self.rows = [_row(name, arms) for name, arms in _groups(self.arms).items()]
        write_json(self.folder / "table.json", self.as_json())
        header, cells = self.cells()
        lines = [header, ["---"] * len(header), *cells]
        text = "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
        write_text(self.folder / "table.md", text + "".join(f"\n{line}\n" for line in self._below()))

    def as_json(self) -> dict[str, Any]:
        arms = [
            {"name": a.name, "choices": a.choices, "figures": a.metric_values, "problem": a.problem or None} for a in self.arms
        ]
        return {"format": FORMAT, "paths": self.paths, "rows": [vars(row) for row in self.rows], "arms": arms}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The table's header and lines: mean and standard deviation of the figures, without groups, the best mean marked."""
        # "valid" stands beside "test" in metrics.json: of two, the one that was not looked at in training.
        splits = {name.partition(" ")[0] for row in self.rows for name in row.mean}
        names = dict.fromkeys(n for row in self.rows for n in row.mean if "/" not in n)
        shown = [n for n in names if not (n.startswith("valid ") and "test" in splits)]
        directions = agreed_directions(arm.higher_is_better for arm in self.arms)
        best = {n: best_of([row.mean.get(n) for row in self.rows], directions.get(n)) for n in shown}
        lines = []
        for i, row in enumerate(self.rows):
            metric_values = [_plus_minus(row.mean.get(n), row.deviation.get(n)) + ("*" if i in best[n] else "") for n in shown]
            lines.append([row.name, str(row.n), *metric_values])
        return ["choices", "n", *shown], lines

    def _below(self) -> list[str]:
        below = ["Mean ± standard deviation over n seeds; * best mean."] if any(row.n for row in self.rows) else []
        below += [f"Failed: {arm.name}: {arm.problem}" for arm in self.failed]
        missing = [arm.name for arm in self.arms if arm.metric_values is None and not arm.problem]
        return [*below, *([f"Not yet trained: {'; '.join(missing)}"] if missing else [])]

    def print(self, console: Console | None = None) -> None:
        """The table on a terminal, plain columns elsewhere, and what failed."""
        console = console or Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
        print_table(console, *self.cells())
        for line in self._below():
            console.print(line, markup=False)

    def _repr_html_(self) -> str:
        header, lines = self.cells()
        rows = [[*line[:2], *(html.Cell(c.removesuffix("*"), strong=c.endswith("*")) for c in line[2:])] for line in lines]
        below = [line.replace("* best mean", "best mean in bold") for line in self._below()]
        return html.page(html.table(header, rows, caption=f"Sweep in {self.folder}"), html.notes(below))


def sweep(
    recipe: str | Path | Run,
    assignments: Sequence[str] | Mapping[str, Sequence[Any]],
    folder: str | Path,
    *,
    plugins: list[str] | None = None,
    display: Display | None = None,
) -> SweepResult:
    """Train a recipe with every combination of values, one after another, each into ``folder/<its choices>``.

    A sweep that was stopped goes on when it is asked for again: finished arms are kept, an interrupted one is resumed, failed
    ones are tried again. Every arm is checked before the first is trained. One that fails in training does not stop the others.

    Args:
        recipe: A recipe file, the name of a shipped recipe, a run's folder, or a Run.
        assignments: ``path=v1,v2`` as on the command line (a single value is the same in all arms), or the values by path.
        folder: Where the arms, sweep.json, table.md and table.json are written.
        plugins: Names of imported plug-ins, noted in the arms' folders.
        display: Shows the progress.

    Raises ValueError before anything is trained if an arm is not valid, or the folder holds another sweep; Interrupted or
    KeyboardInterrupt if it is stopped, after the table of what there is was written.
    """
    values = read_assignments(assignments)
    place = Path(folder)
    arms = make_arms(values, place)
    display = display or Display()
    runs = _read_all(recipe, arms)
    result = SweepResult(place, [path for path, texts in values.items() if len(texts) > 1], arms)
    home, first = RunFolder(place), runs[0].dump(hashes=True)
    if _look(home, values, first):
        display.say(f"going on with the sweep in {place}")
    _check_all(arms, runs, display)
    try:
        _take(home, values, first)
        try:
            for number, (arm, run) in enumerate(zip(arms, runs, strict=True), 1):
                display.say(f"arm {number} of {len(arms)}: {arm.name}")
                _train(arm, run, plugins or [], display)
        finally:
            for arm in arms:
                if arm.metric_values is None and not arm.problem and _is_finished(arm.folder):  # stopped before it was looked at
                    with contextlib.suppress(ValueError, OSError):
                        _read_metrics(arm)
            result.tabulate()
    finally:
        home.close()
    return result


def default_folder(recipe: str, assignments: Sequence[str]) -> Path:
    """``runs/<recipe>-sweep-<hash>``: the same command finds the same folder, and so goes on."""
    from weft.training.recipes import find_recipe, name_of_recipe

    name = name_of_recipe(find_recipe(recipe))
    key = json.dumps([[p, *texts] for p, texts in read_assignments(assignments).items()])
    return Path("runs") / f"{name}-sweep-{hashlib.sha256(key.encode()).hexdigest()[:6]}"


# ---------------------------------------------------------------------------------------------------------- assignments


def read_assignments(assignments: Sequence[str] | Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """The values of each path, as YAML texts. Raises RecipeError with every mistake."""
    if isinstance(assignments, str):
        raise ValueError(f"assignments are a list of texts, or a mapping: [{assignments!r}]")
    problems: list[Problem] = []
    found: dict[str, list[str]] = {}
    if isinstance(assignments, Mapping):
        given = [(path, [json.dumps(v, ensure_ascii=False) for v in values]) for path, values in assignments.items()]
    else:
        given = []
        for text in assignments:
            path, equals, rest = text.partition("=")
            if not equals or not path.strip():
                problems.append(Problem(COMMAND_LINE, text, "a sweep's choices are path=v1,v2, as in seed=1,2,3"))
                continue
            try:
                given.append((path.strip(), split_values(rest)))
            except ValueError as error:
                problems.append(Problem(COMMAND_LINE, path.strip(), str(error)))
    for path, texts in given:
        if path in found:
            problems.append(Problem(COMMAND_LINE, path, f"is given twice: give all values at once, {path}=v1,v2"))
            continue
        found[path] = texts
        try:
            plain = [json.dumps(parse_value(text, path).plain()) for text in texts]
        except RecipeError as error:
            problems += error.problems
            continue
        if twice := next((t for t, p in zip(texts, plain, strict=True) if plain.count(p) > 1), None):
            problems.append(Problem(COMMAND_LINE, path, f"the value {twice} is there twice"))
        if not texts:
            problems.append(Problem(COMMAND_LINE, path, "has no values"))
    if problems:
        raise RecipeError(problems)
    arms = math.prod(map(len, found.values()))
    if arms < 2:
        raise ValueError("a sweep needs a path with at least two values, as in learning.steps=100,200 or seed=1,2,3")
    if arms > MOST_ARMS:
        counts = " x ".join(str(len(texts)) for texts in found.values() if len(texts) > 1)
        raise ValueError(f"{counts} = {arms:,} arms are too many: a sweep has at most {MOST_ARMS:,}")
    return found


def split_values(text: str) -> list[str]:
    """Split at the commas that are in no brackets and no quotes.

    >>> split_values("1, [2, 3], 'a,b'")
    ['1', '[2, 3]', "'a,b'"]
    """
    parts, closing, quote, start, before = [], [], "", 0, ","
    at = 0
    while at < len(text):
        char = text[at]
        if quote:
            if (char == "\\" and quote == '"') or (char == quote == "'" and text[at + 1 : at + 2] == "'"):
                at += 1  # an escape: what follows does not end it
            elif char == quote:
                quote = ""
        elif char in "'\"" and before in ",[{:":  # within a word it is an apostrophe
            quote = char
        elif char in _CLOSING:
            closing.append(_CLOSING[char])
        elif closing and char == closing[-1]:
            closing.pop()
        elif char == "," and not closing:
            parts.append(text[start:at].strip())
            start = at + 1
        if not char.isspace():
            before = char
        at += 1
    if quote or closing:
        raise ValueError(f"a {quote or closing[-1]} is missing in {text}")
    parts.append(text[start:].strip())
    if len(parts) > 1 and not all(parts):
        raise ValueError(f"a value is missing between the commas of {text!r} (for nothing, write null)")
    return parts


def make_arms(values: Mapping[str, Sequence[str]], folder: Path) -> list[Arm]:
    """Every combination, the last path changing fastest, each with a short name of its own."""
    varied = [path for path, texts in values.items() if len(texts) > 1]
    words = {path: dict(zip(values[path], _words(values[path]), strict=True)) for path in varied}
    titles = _titles(varied)
    arms = []
    for number, texts in enumerate(itertools.product(*values.values()), 1):
        chosen = dict(zip(values, texts, strict=True))
        name = ",".join(f"{titles[path]}={words[path][chosen[path]]}" for path in varied)
        if len(name.encode()) > 200:
            name = f"arm-{number}"
        choices = {path: parse_value(chosen[path], path).plain() for path in varied}
        arms.append(Arm(name, choices, [f"{path}={text}" for path, text in chosen.items()], folder / name))
    return arms


def _titles(paths: Sequence[str]) -> dict[str, str]:
    """The last step of each path, or as many as tell it from the others."""
    found = {}
    for path in paths:
        steps = path.split(".")
        ends = (".".join(steps[-n:]) for n in range(1, len(steps) + 1))
        found[path] = next((e for e in ends if not any(f".{p}".endswith(f".{e}") for p in paths if p != path)), path)
    return {path: re.sub(r"[^\w.-]+", "-", title) for path, title in found.items()}


def _words(texts: Sequence[str]) -> list[str]:
    """Values as they can stand in the name of a folder, all different."""
    short = [re.sub(r"[^A-Za-z0-9.+-]+", "-", text) for text in texts]
    short = [word if text.startswith("-") else word.strip("-") for word, text in zip(short, texts, strict=True)]
    short = [word if len(word) <= _LONGEST else word[-_LONGEST:].lstrip("-") for word in short]
    folded = [word.lower() for word in short]  # some file systems take A and a for the same
    marks = [hashlib.sha256(text.encode()).hexdigest()[:6] for text in texts]
    return [
        f"{word}-{mark}" if word and folded.count(word.lower()) > 1 else word or mark
        for word, mark in zip(short, marks, strict=True)
    ]


# ------------------------------------------------------------------------------------------------------- before training


def _read_all(recipe: str | Path | Run, arms: list[Arm]) -> list[Run]:
    """The run of each arm. Raises ValueError with every mistake."""
    from weft.training.recipes import read_run, read_run_text
    from weft.training.run import Run

    found, problems = [], dict[str, list[str]]()
    text = recipe.to_yaml() if isinstance(recipe, Run) else ""
    for arm in arms:
        try:
            if isinstance(recipe, Run):
                found.append(read_run_text(text, "run.to_yaml()", Path(), arm.overrides))
            else:
                found.append(read_run(recipe, arm.overrides))
        except RecipeError as error:
            for problem in error.problems:
                problems.setdefault(str(problem), []).append(arm.name)
    _refuse(problems, len(arms))
    return found


def _check_all(arms: list[Arm], runs: list[Run], display: Display) -> None:
    """``weft check`` for every arm that is not finished; of those that differ in the seed alone, for the first."""
    from weft.training.dry_run import check, enough_memory

    problems: dict[str, list[str]] = {}
    left = [arm for arm in arms if not _is_finished(arm.folder)]
    first = {name: members[0].name for name, members in _groups(left).items()}
    with display.waiting(f"checking {len(arms)} arms"):
        for arm, run in zip(arms, runs, strict=True):
            if arm.name not in first.values():
                continue
            try:
                for report in check(run):
                    if trouble := enough_memory(report):
                        raise ValueError(f"stage {report.stage}: {trouble}")
            except ValueError as error:
                problems.setdefault(str(error), []).append(arm.name)
    _refuse(problems, len(first))


def _refuse(problems: Mapping[str, list[str]], arms: int) -> None:
    if not problems:
        return
    said = [f"{text}\n  (in {_some(names) if len(names) < arms else 'every arm'})" for text, names in problems.items()]
    raise ValueError("\n".join(said) + "\nnothing was trained")


def _some(names: list[str]) -> str:
    return f"the arm {names[0]}" if len(names) == 1 else f"{len(names)} arms: {'; '.join(names[:4])}{'; ...' * (len(names) > 4)}"


def _look(folder: RunFolder, values: dict[str, list[str]], recipe: dict[str, Any]) -> bool:
    """Whether the folder holds this sweep already. Raises FolderError if it holds something else."""
    place, file = folder.path, folder.path / _FILE
    if place.exists() and not place.is_dir():
        raise FolderError(f"{place} is a file: choose another folder with --run")
    if folder.is_run():
        raise FolderError(f"{place} holds a single run: choose another folder with --run")
    if not file.is_file():
        if place.is_dir() and any(p.name != ".lock" for p in place.iterdir()):
            raise FolderError(f"{place} is not empty and holds no sweep: choose another folder with --run")
        return False
    old = read_json(file)
    if not isinstance(old, dict) or old.get("format") != FORMAT or not {"assignments", "recipe"} <= set(old):
        raise FolderError(f"{file}: not the file of a sweep that this weft can read; choose another folder with --run")
    before = dict(old["assignments"])
    said = [
        f"  {path}: was {','.join(before.get(path, [])) or 'not given'}, now {','.join(values.get(path, [])) or 'not given'}"
        for path in dict.fromkeys([*before, *values])
        if before.get(path) != values.get(path)
    ]
    if not said and list(before) != list(values):
        said = [f"  the order was {', '.join(before)}, now {', '.join(values)}"]
    if not said:  # or else the first arm's recipe differs anyway
        said = [f"  {path}: was {a!r}, now {b!r}" for path, (a, b) in compare_recipes(old["recipe"], recipe).items()]
    if said:
        raise FolderError(f"{place} holds another sweep:\n" + "\n".join(said) + "\nchoose another folder with --run")
    return True


def _take(folder: RunFolder, values: dict[str, list[str]], recipe: dict[str, Any]) -> None:
    """Make the folder this sweep's, and keep other processes out."""
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderError(f"cannot make the sweep's folder {folder.path}: {error.strerror}") from None
    folder.lock()
    if not _look(folder, values, recipe):  # another process may have been faster
        about = {"format": FORMAT, "assignments": [[path, texts] for path, texts in values.items()], "recipe": recipe}
        write_json(folder.path / _FILE, about)


# --------------------------------------------------------------------------------------------------------------- training


def _is_finished(path: Path) -> bool:
    folder = RunFolder(path)
    return folder.is_run() and folder.model.is_file() and folder.metrics.is_file() and folder.ledger.is_file()


def _train(arm: Arm, run: Run, plugins: list[str], display: Display) -> None:
    """Train an arm, or what is left of it; whatever goes wrong is noted in it, except that somebody stopped it."""
    from weft.learning import Interrupted
    from weft.training.trainer import train

    try:
        if _is_finished(arm.folder):
            _same(arm.folder, run)
            display.say("  is finished already")
        else:
            again = RunFolder(arm.folder)
            train(run, arm.folder, resume=again.is_run() or again.is_stub(), plugins=plugins, display=display)
        _read_metrics(arm)
    except Interrupted:
        raise
    except Exception as error:  # of whatever kind: the other arms are still worth having
        known = isinstance(error, ValueError | ArithmeticError | OSError)
        arm.problem = " ".join(str(error).split()) if known else f"{type(error).__name__}: {' '.join(str(error).split())}"
        display.say(f"  failed: {error if known else arm.problem}")


def _read_metrics(arm: Arm) -> None:
    path = RunFolder(arm.folder).metrics
    metrics = read_json(path)
    arm.metric_values, arm.higher_is_better = figures_of(metrics, path), directions_of(metrics)


def _same(folder: Path, run: Run) -> None:
    """Raises FolderError if a finished arm was made with other choices."""
    from weft.training.recipes import read_run

    told = compare_recipes(read_run(RunFolder(folder).recipe).dump(hashes=True), run.dump(hashes=True))
    if told:
        said = "; ".join(f"{path} was {old!r}, now {new!r}" for path, (old, new) in told.items())
        raise FolderError(f"{folder} was trained with other choices: {said}")


# ------------------------------------------------------------------------------------------------------------------ table


def _groups(arms: Sequence[Arm]) -> dict[str, list[Arm]]:
    """Arms by their choices without the seed."""
    found: dict[str, list[Arm]] = {}
    for arm in arms:
        titles = _titles(list(arm.choices))
        chosen = [f"{titles[path]}={_short(value)}" for path, value in arm.choices.items() if path != "seed"]
        found.setdefault(" ".join(chosen) or "as in the recipe", []).append(arm)
    return found


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _row(name: str, arms: list[Arm]) -> SweepRow:
    done = [arm.metric_values for arm in arms if arm.metric_values is not None]
    names = [n for n in (done[0] if done else {}) if all(n in metric_values for metric_values in done)]
    mean = {n: math.fsum(f[n] for f in done) / len(done) for n in names}
    # By hand: statistics.stdev refuses what is not finite, and a run that diverged is one.
    deviation = {n: _deviation([f[n] for f in done]) for n in names}
    choices = {path: value for path, value in arms[0].choices.items() if path != "seed"}
    return SweepRow(name, choices, [arm.name for arm in arms], len(done), mean, deviation)


def _deviation(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def _plus_minus(mean: float | None, deviation: float | None) -> str:
    return show_figure(mean) if deviation is None else f"{show_figure(mean)} ± {show_figure(deviation)}"
