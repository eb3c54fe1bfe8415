"""What ``weft check`` and ``weft catalog`` print."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from weft.core.registry import CATALOG, choices, document, is_composition, wiring
from weft.recipe import Part, Problem, nearest
from weft.recipe.describe import allowed
from weft.recipe.part import part, walk
from weft.recipe.serialize import dump, to_yaml
from weft.training.build import plans
from weft.training.dry_run import Report, enough_memory
from weft.training.run import Error, Run, shipped_recipes

FORMAT = 1
TAB = "\t"
LONGEST = 240
"""Characters of a recipe's description that are shown."""


def print_reports(run: Run, reports: list[Report]) -> None:
    for report in reports:
        if len(reports) > 1:
            print(f"stage {report.stage}")
        fields = ", ".join(f"{f.name} ({f.kind}, up to {f.vocab:,})" for f in report.info.fields.values())
        print(f"data        {report.info.data}: {fields}")
        rows, tokens = report.batch
        print(f"batch       {rows:,} rows, {tokens:,} tokens (of made-up examples)")
        _table(["part", "what", "result", "parameters"], [[r.name, r.kind, r.shape, f"{r.parameters:,}"] for r in report.rows])
        print(f"parameters  {report.parameters:,}")
        print(f"memory      about {_bytes(report.memory)} (weights, gradients, optimiser, activations of one batch)")
        print(f"operations  about {_quantity(report.operations)} floating-point operations per round")
        print(f"loss terms  {', '.join(report.terms)}")
        if report.idle:
            print(f"not trained {_idle(report.idle)}")
        if trouble := enough_memory(report):
            print(f"warning     {trouble}")
    for trouble in slow_starts(run):
        print(f"warning     {trouble}")
    print(f"{run.name}: valid")


def _idle(names: list[str], most: int = 5) -> str:
    """How many tensors these are, and the first parts that they are of; those of all layers are one."""
    tops = list(dict.fromkeys(re.sub(r"\b\d+\b", "*", name.rpartition(".")[0] or name) for name in names))
    more = f" and {len(tops) - most} more" if len(tops) > most else ""
    return f"{len(names)} tensor{'s' if len(names) > 1 else ''}: {', '.join(tops[:most])}{more}"


def slow_starts(run: Run) -> list[str]:
    """A sentence for each schedule whose warm-up is longer than its phase, and each average that does not forget the weights it
    began with: allowed, for a trial of a few rounds is common."""
    found: list[str] = []
    for learning in (plan.learning() for plan in plans(run)):
        build = getattr(learning, "ema", None)
        left = 0.0 if build is None or (ema := build()).warmup else ema.decay**learning.steps
        if left > 0.1:
            where, path = (build.where, build.path) if isinstance(build, Part) else ("", "")
            text = f"the average still has {left:.0%} of the weights it began with at the end: lower decay, or set warmup: true"
            found.append(str(Problem(where, path, text)))
        for phase in getattr(learning, "phases", []):
            if isinstance(phase.start, dict) or isinstance(phase.every, dict):
                continue  # how many rounds an epoch has, only the data knows
            rounds = max(0, -(-(learning.steps - phase.start) // phase.every))
            build, updates = phase.schedule or learning.schedule, rounds * phase.repeat * phase.reuse
            if (warmup := getattr(build(), "warmup", 0)) > updates:
                where, path = (build.where, build.path) if isinstance(build, Part) else ("", "")
                text = f"the warm-up takes {warmup:,} updates, but there are {updates:,}: the rate never reaches its peak"
                found.append(str(Problem(where, path, text)))
    return list(dict.fromkeys(found))


def print_errors(errors: Iterable[Error]) -> None:
    """Each with its loss, what was predicted, and the row."""
    for error in errors:
        print(f"row {error.row}  loss {error.loss:.4f}" + (f"  predicted: {error.prediction}" if error.prediction else ""))
        for name, cell in error.reference.items():
            print(f"  {name}: {cell.replace(TAB, ' | ')}")


def print_recipes() -> None:
    """The shipped recipes, each with the first sentence about it: a line each, or folded at a terminal's width."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else LONGEST * 2
    for name, path in shipped_recipes().items():
        print(_beside(f"{name:24} ", first_sentence(path.read_text(encoding="utf-8")), width))


def first_sentence(text: str) -> str:
    """What a recipe is, from the comment that it begins with; cut at a word where it is too long.

    >>> first_sentence("# Dates as people write\\n# them. More.\\n#\\n# Values: ours.\\nseed: 1")
    'Dates as people write them.'
    """
    comment = re.match(r"(#[^\S\n]*\S.*(\n|$))*", text)
    assert comment is not None
    joined = " ".join(line.lstrip("# ") for line in comment[0].splitlines())
    return textwrap.shorten(re.split(r"(?<=\.)\s", joined)[0], LONGEST, placeholder=" ...")


def _beside(name: str, text: str, width: int) -> str:
    """A name with a text, whose further lines begin below its first; where there is no room for that, in one line."""
    room = max(width, len(name) + 40)
    return textwrap.fill(text, room, initial_indent=name, subsequent_indent=" " * len(name), break_long_words=False)


def reports_as_json(reports: list[Report]) -> dict[str, Any]:
    return {"format": FORMAT, "stages": [asdict(r) for r in reports]}


def print_catalog(slot: str | None, name: str | None) -> None:
    """Every slot and entry a line each; one slot; or all about one entry."""
    contracts = sorted(CATALOG, key=lambda kind: kind.__module__ != "weft.core.contracts")  # whatever was imported first
    slots = {_kebab(kind.__name__): kind for kind in contracts if CATALOG[kind]}
    if slot is None:
        for title, kind in slots.items():
            print(f"{title}  {document(kind).summary}")
            _entries(CATALOG[kind])
        return
    if slot not in slots:
        raise ValueError(f"no slot named {slot!r}{nearest(slot, slots)} (slots: {', '.join(slots)})")
    kind = slots[slot]
    if name is None:
        print(f"{slot}  {document(kind).summary}\nwiring: {', '.join(wiring(kind)) or 'none'}")
        _entries(CATALOG[kind])
        return
    if name not in CATALOG[kind]:
        raise ValueError(f"no {slot} named {name!r}{nearest(name, CATALOG[kind])} (known: {', '.join(CATALOG[kind])})")
    _entry(slot, name, CATALOG[kind][name])


def _entries(entries: dict[str, Any]) -> None:
    width = max(map(len, entries))
    for name, factory in entries.items():
        print(f"  {name:{width}}  {document(factory).summary}")


def _entry(slot: str, name: str, factory: Any) -> None:
    doc = document(factory)
    print(f"{slot} {name}: {doc.summary}\n")
    if doc.body:
        print(f"{doc.body}\n")
    known = choices(factory)
    print("options:" if known else "no options")
    for option, parameter in known.items():
        value = parameter.default
        default = "required" if value is inspect.Parameter.empty else f"default {_inline(dump(value))}"
        print(f"  {option}  ({allowed(parameter.annotation)}; {default})\n      {doc.args.get(option, '')}")
    if is_composition(factory):
        print(f"  with  (a mapping of paths to parts or values)\n      {_grafts(factory)}")
    home = inspect.getsourcefile(factory)
    print(f"\nin Python: {factory.__module__}.{factory.__qualname__}" + (f"  ({home})" if home else ""))


def _grafts(factory: Any) -> str:
    """What ``with`` can replace in a named model: the parts next to its top."""
    text = "Replaces what the model is composed of, by path or glob."
    if any(parameter.default is parameter.empty for parameter in choices(factory).values()):
        return text
    paths = [path for path, value in walk(part(factory(), "", "")) if isinstance(value, Part) and path.count(".") < 2]
    return f"{text} There is: {', '.join(paths)}, and what is below"


def _inline(value: Any) -> str:
    if isinstance(value, dict) and "type" in value:
        return str(value["type"])
    return to_yaml(value).strip().removesuffix("\n...").replace("\n", ", ")


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _table(header: list[str], rows: Iterable[list[str]]) -> None:
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        cells = [c.rjust(w) if i == len(header) - 1 else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        print("  " + "  ".join(cells))


def _bytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"


def _quantity(number: float) -> str:
    for limit, word in ((1e15, "peta"), (1e12, "tera"), (1e9, "giga"), (1e6, "mega")):
        if number >= limit:
            return f"{number / limit:.1f} {word}"
    return f"{number:.0f}"
