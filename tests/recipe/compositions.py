"""Hypothesis strategies for runs, composed in Python from the full catalog."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from hypothesis import strategies as st

from weft.core.options import IsFile
from weft.core.registry import CATALOG, alternatives, option_parameters, slot_of
from weft.pretrained import pretrained
from weft.training.run import Run

HERE = str(Path(__file__).resolve())
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda t: "${" not in t)
NAMES = st.sampled_from(["a", "rec", "b-2", "ünï", "1", "true", "null", "~", "#x", "a b", "*", "- a", "0x1"])


def bounds(extra: tuple[Any, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for limit in extra:
        match limit:
            case Ge(a):
                found["min_value"] = a
            case Gt(a):
                found |= {"min_value": a, "exclude_min": True}
            case Le(b):
                found["max_value"] = b
            case Lt(b):
                found |= {"max_value": b, "exclude_max": True}
    return found


def values(annotation: Any, depth: int) -> st.SearchStrategy[Any]:
    """Values of an option with this annotation, in Python."""
    members = alternatives(annotation)
    if len(members) > 1:
        return st.one_of([values(m, depth) for m in members])
    if (kind := slot_of(annotation)) is not None:
        return factories(kind, depth)
    extra: tuple[Any, ...] = ()
    if get_origin(annotation) is Annotated:
        annotation, *rest = get_args(annotation)
        extra = tuple(rest)
    inner = get_args(annotation)
    if IsFile in extra:
        return st.just(HERE)
    kind = get_origin(annotation) or annotation
    if kind is type(None):
        return st.none()
    if kind is Literal:
        return st.sampled_from(inner)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(**bounds(extra))
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False, **bounds(extra))
    if kind is str:
        return TEXT
    if kind is list:
        return st.lists(values(inner[0], depth), min_size=1 if slot_of(inner[0]) else 0, max_size=2)
    if kind is tuple and inner[1:] == (Ellipsis,):
        return st.lists(values(inner[0], depth), max_size=3).map(tuple)
    if kind is tuple:
        return st.tuples(*(values(i, depth) for i in inner))
    if kind is dict:
        keys = st.sampled_from(get_args(inner[0])) if get_origin(inner[0]) is Literal else NAMES
        return st.dictionaries(keys, values(inner[1], depth), min_size=1, max_size=2)
    raise AssertionError(f"a test for {annotation} is missing")


@st.composite
def factories(draw: Callable[[Any], Any], kind: type, depth: int) -> Any:
    """A class of the catalog, or a partial with some of its options."""
    entries = [f for f in CATALOG[kind].values() if f is not pretrained]  # it needs the folder of a pretrained model
    plain = [f for f in entries if all(p.default is not p.empty for p in option_parameters(f).values())]
    if depth <= 0 and plain:
        return draw(st.sampled_from(plain))
    factory = draw(st.sampled_from(entries))
    given = {}
    for name, parameter in option_parameters(factory).items():
        if parameter.default is parameter.empty or draw(st.booleans()):
            given[name] = draw(values(parameter.annotation, depth - 1))
    if not given:
        return factory
    return partial(partial(factory), **given) if draw(st.booleans()) else partial(factory, **given)


@st.composite
def runs(draw: Callable[[Any], Any]) -> Run:
    given = {}
    for name, parameter in option_parameters(Run).items():
        if parameter.default is parameter.empty or draw(st.booleans()):
            given[name] = draw(values(parameter.annotation, 3))
    return Run(**given)
