"""The output of ``weft catalog`` and ``weft recipes``."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from weft.cli.console import print_result
from weft.core.registry import CATALOG, document, is_composition, option_parameters, wiring
from weft.recipe import Part, nearest
from weft.recipe.describe import allowed
from weft.recipe.part import part, walk
from weft.recipe.serialize import dump, to_yaml
from weft.training.recipes import shipped_recipes

MAX_SUMMARY = 240
"""Maximum length of a recipe's summary, in characters."""


def print_recipes() -> None:
    """Print the shipped recipes, each with its summary; wrapped at a terminal, one line each otherwise."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else MAX_SUMMARY * 2
    for name, path in shipped_recipes().items():
        print_result(_beside(f"{name:24} ", first_sentence(path.read_text(encoding="utf-8")), width))


def first_sentence(text: str) -> str:
    """Return the first sentence of the comment at the top of a recipe, truncated at a word if it is too long.

    >>> first_sentence("# Normalize\\n# dates. More.\\n#\\n# Values: ours.\\nseed: 1")
    'Normalize dates.'
    """
    comment = re.match(r"(#[^\S\n]*\S.*(\n|$))*", text)
    assert comment is not None
    joined = " ".join(line.lstrip("# ") for line in comment[0].splitlines())
    return textwrap.shorten(re.split(r"(?<=\.)\s", joined)[0], MAX_SUMMARY, placeholder=" ...")


def _beside(name: str, text: str, width: int) -> str:
    """A name and a text with hanging indent; in one line where there is no room for that."""
    room = max(width, len(name) + 40)
    indent = " " * len(name)
    return textwrap.fill(
        text, room, initial_indent=name, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


_ROLES = ("parts", "networks", "model", "data", "objective", "learning", "use")


def _contract_order(contract: type) -> int:
    """Contracts by role, then the slots of other packages."""
    package, _, role = contract.__module__.rpartition(".")
    return _ROLES.index(role) if package == "weft.core.contracts" and role in _ROLES else len(_ROLES)


def print_catalog(slot: str | None, name: str | None) -> None:
    """Print every slot with its entries, one slot, or the full documentation of one entry."""
    contracts = sorted(CATALOG, key=_contract_order)  # whatever was imported first
    slots = {_kebab(contract.__name__): contract for contract in contracts if CATALOG[contract]}
    if slot is None:
        for title, contract in slots.items():
            print_result(f"{title}  {document(contract).summary}")
            _print_entries(CATALOG[contract])
        return
    if slot not in slots:
        raise ValueError(f"unknown slot {slot!r}{nearest(slot, slots)} (available: {', '.join(slots)})")
    contract = slots[slot]
    if name is None:
        print_result(f"{slot}  {document(contract).summary}\nwiring: {', '.join(wiring(contract)) or 'none'}")
        _print_entries(CATALOG[contract])
        return
    if name not in CATALOG[contract]:
        raise ValueError(f"unknown {slot} {name!r}{nearest(name, CATALOG[contract])} (available: {', '.join(CATALOG[contract])})")
    _print_entry(slot, name, CATALOG[contract][name])


def _print_entries(entries: dict[str, Callable[..., Any]]) -> None:
    width = max(map(len, entries))
    for name, factory in entries.items():
        print_result(f"  {name:{width}}  {document(factory).summary}")


def _print_entry(slot: str, name: str, factory: Callable[..., Any]) -> None:
    doc = document(factory)
    print_result(f"{slot} {name}: {doc.summary}\n")
    if doc.body:
        print_result(f"{doc.body}\n")
    known = option_parameters(factory)
    print_result("options:" if known else "no options")
    for option, parameter in known.items():
        value = parameter.default
        default = "required" if value is inspect.Parameter.empty else f"default {_inline(dump(value))}"
        print_result(f"  {option}  ({allowed(parameter.annotation)}; {default})\n      {doc.args.get(option, '')}")
    if is_composition(factory):
        print_result(f"  with  (a mapping of paths to parts or values)\n      {_replaceable(factory)}")
    file = inspect.getsourcefile(factory)
    print_result(f"\nin Python: {factory.__module__}.{factory.__qualname__}" + (f"  ({file})" if file else ""))


def _replaceable(factory: Callable[..., Any]) -> str:
    """The components that ``with`` can replace in a named model, down to the second level."""
    text = "Replaces components of the model, by path or glob."
    if any(parameter.default is parameter.empty for parameter in option_parameters(factory).values()):
        return text
    paths = [path for path, value in walk(part(factory(), "", "")) if isinstance(value, Part) and path.count(".") < 2]
    return f"{text} Available: {', '.join(paths)}, and everything below"


def _inline(value: Any) -> str:
    if isinstance(value, dict) and "type" in value:
        return str(value["type"])
    return to_yaml(value).strip().removesuffix("\n...").replace("\n", ", ")


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
