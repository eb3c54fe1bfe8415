"""Contracts name the protocol of what they take."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import weft.core.contracts
from weft.core.contracts import Decodes, ModelsLanguage, Objective, Tags
from weft.core.fields import Info, LabelField, NumberField, TagsField, TokenizedField
from weft.core.registry import CATALOG
from weft.training.catalog import fill_catalog

FILES = sorted(Path(weft.core.contracts.__file__).parent.glob("*.py"))
TYPED = {"model", "dataset", "pool", "objective", "codec"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_models_and_datasets_are_typed_by_a_protocol(file: Path) -> None:
    """``Any`` would conceal from a type checker what a structure, an objective or a metric may call."""
    untyped = [
        f"{file.name}:{node.lineno}: {node.arg}"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.arg) and node.arg in TYPED and ast.unparse(node.annotation or ast.Name("Any")) == "Any"
    ]
    assert untyped == []


def type_argument(cls: type) -> Any:
    """The structure that an objective is declared for: ``Tags`` of a class that inherits from ``Objective[Tags]``."""
    for base in cls.__mro__:
        for parent in getattr(base, "__orig_bases__", ()):
            if get_args(parent) and base is not Objective:
                return get_args(parent)[0]
    return None


def objectives() -> list[type[Objective]]:
    """The objectives of the catalog."""
    fill_catalog()
    return [cls for cls in CATALOG[Objective].values() if isinstance(cls, type) and cls.__module__.startswith("weft.")]


def disagreements(cls: type[Objective]) -> list[str]:
    """The protocols that an objective needs at run time but does not declare to a type checker, where they have members."""
    argument = type_argument(cls)
    with_members = [need for need in cls.needs if any(not n.startswith("_") or n == "__annotations__" for n in vars(need))]
    return [need.__name__ for need in with_members if not (isinstance(argument, type) and issubclass(argument, need))]


def test_the_type_arguments_of_objectives_agree_with_their_needs() -> None:
    assert len(objectives()) > 15
    assert {cls.__name__: found for cls in objectives() if (found := disagreements(cls)) or type_argument(cls) is None} == {}


def test_methods_of_objectives_take_the_structure_of_the_type_argument() -> None:
    untyped = []
    for cls in objectives():
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            hint = get_type_hints(method).get("model") if method.__module__ == cls.__module__ else None
            if hint is Any or (isinstance(hint, type) and not issubclass(type_argument(cls), hint)):
                untyped.append(f"{cls.__name__}.{name}: {hint}")
    assert untyped == []


def test_an_objective_that_is_declared_for_another_structure_is_found() -> None:
    class Wrong(Objective[Decodes]):
        needs = (Tags, ModelsLanguage)

    assert disagreements(Wrong) == ["Tags"]


def test_a_field_of_another_kind_is_an_error() -> None:
    info = Info({"label": LabelField("label", 3)}, data="films")
    assert info.expect("label", LabelField, "use another objective") is info["label"]
    with pytest.raises(ValueError, match=r"^field 'label' of the data \(films\) has the kind 'label', expected 'number'; use x$"):
        info.expect("label", NumberField, "use x")
    with pytest.raises(ValueError, match="has the kind 'label', expected 'text' or 'texts'; "):
        info.expect("label", TokenizedField)
    with pytest.raises(ValueError, match="has the kind 'label', expected 'text'; use data with such a text"):
        info.text("label")
    with pytest.raises(ValueError, match="needs a field 'tags'"):
        info.expect("tags", TagsField, "use x")
