"""The output of ``weft catalog`` and ``weft recipes``."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, get_args

from weft.cli.console import print_result
from weft.core.registry import CATALOG, document, is_composition, option_parameters, slot_of, wiring
from weft.recipe import Part, nearest
from weft.recipe.describe import allowed, with_article
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
    if slot not in slots and (filled := _part_options(slots).get(slot)):
        if name is None:
            _print_option(slot, filled, slots)
            return
        slot = next((title for title in filled if name in CATALOG[slots[title]]), filled[0])
    if slot not in slots and name is None and (filled := _slots_of(slot, slots)):
        for title in filled:
            _print_entry(title, slot, CATALOG[slots[title]][slot])
        return
    if slot not in slots:
        raise ValueError(_unknown(slot, slots))
    contract = slots[slot]
    if name is None:
        print_result(f"{slot}  {document(contract).summary}\nwiring: {', '.join(wiring(contract)) or 'none'}")
        _print_entries(CATALOG[contract])
        return
    if name not in CATALOG[contract]:
        raise ValueError(f"unknown {slot} {name!r}{nearest(name, CATALOG[contract])} (available: {', '.join(CATALOG[contract])})")
    _print_entry(slot, name, CATALOG[contract][name])


def _print_option(option: str, filled: list[str], slots: Mapping[str, type]) -> None:
    """Print the parts that an option takes, and the commands for parts of the same name."""
    for title in filled:
        print_result(f"{option} is an option that takes {with_article(slots[title])}: weft catalog {title}\n")
        print_catalog(title, None)
    if commands := _commands(option, slots):
        print_result(f"\n{option} is also a part; show it with: {commands}")


def _commands(name: str, slots: Mapping[str, type]) -> str:
    """The commands that show the parts of this name."""
    return " or ".join(f"weft catalog {title} {name}" for title in _slots_of(name, slots))


def _slots_of(name: str, slots: Mapping[str, type]) -> list[str]:
    """The slots that have a part of this name; one that is in several because they inherit is in the most specific one."""
    found = {title: CATALOG[contract][name] for title, contract in slots.items() if name in CATALOG[contract]}

    def inherited(title: str) -> bool:
        return any(
            found[t] is found[title] and slots[t] is not slots[title] and issubclass(slots[t], slots[title]) for t in found
        )

    return [title for title in found if not inherited(title)]


def _part_options(slots: Mapping[str, type]) -> dict[str, list[str]]:
    """The options that take parts, with the slots of these parts: ``attention`` for ``mixer``."""
    titles = {contract: title for title, contract in slots.items()}
    found: dict[str, list[str]] = {}
    for factory in (factory for contract in titles for factory in CATALOG[contract].values()):
        for option, parameter in option_parameters(factory).items():
            for contract in filter(None, map(slot_of, _leaves(parameter.annotation))):
                if contract in titles and titles[contract] not in found.setdefault(option, []):
                    found[option].append(titles[contract])
    return found


def _leaves(annotation: Any) -> list[Any]:
    """The members of unions and lists, down to parts and plain types."""
    if slot_of(annotation) is not None or not get_args(annotation):
        return [annotation]
    return [leaf for inner in get_args(annotation) for leaf in _leaves(inner)]


def _unknown(name: str, slots: Mapping[str, type]) -> str:
    """The message for a name that is neither a slot, nor an option that takes parts, nor a part."""
    parts = [entry for entries in CATALOG.values() for entry in entries]
    if commands := _commands(name, slots):
        return f"{name!r} is not a slot but a part; show it with: {commands}"
    return f"unknown slot or part {name!r}{nearest(name, [*slots, *_part_options(slots), *parts])} (slots: {', '.join(slots)})"


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
