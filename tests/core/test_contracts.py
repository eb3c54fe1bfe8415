"""Contracts name the protocol of what they take."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import weft.core.contracts
from weft.core.fields import Info, LabelField, NumberField, TagsField, TokenizedField

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
