"""Recipes round-trip between Python and YAML."""

from __future__ import annotations

import functools
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.recipe.compositions import runs

import weft
from weft.blocks import LSTM, MultiHeadAttention, TokenEmbedder, Transformer, TransformerLayer
from weft.core.contracts import Encoder
from weft.core.fields import Info, TextField
from weft.core.masks import Window
from weft.core.registry import CATALOG, is_composition, option_parameters, slot_of
from weft.data import Dates, PlainText
from weft.evaluate import Evaluation, ExactMatch
from weft.learning import Adam, ConstantSchedule, Gradient
from weft.models import Seq2Seq, transformer_base
from weft.objectives import NextToken
from weft.recipe import dump, parse, to_yaml
from weft.training.recipes import read_run, read_run_text, shipped_recipes
from weft.training.run import Run

HERE = str(Path(__file__).resolve())


def read(text: str) -> Run:
    return read_run_text(text, "r.yaml", Path())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(runs())
def test_random_compositions_round_trip(run: Run) -> None:
    tree = run.dump()
    again = read(run.to_yaml())
    assert repr(again.dump()) == repr(tree)  # repr: 1 is not 1.0, and -0.0 is not 0.0
    assert again.to_yaml() == run.to_yaml()
    assert_same(run.structure, again.structure)
    assert_same(run.learning, again.learning)


def assert_same(ours: Any, theirs: Any) -> None:
    """The parsed run has the same classes and the same value of every option as the composed run."""
    if is_composition(ours):
        ours = ours()
    if isinstance(ours, functools.partial):
        assert theirs.func is ours.func
        for name, value in ours.keywords.items():
            assert_same(value, theirs.keywords[name])
    elif isinstance(ours, type):
        assert theirs.func is ours
    elif isinstance(ours, list | tuple):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            assert_same(ours[key], theirs[key])
    else:
        assert (type(ours), repr(ours)) == (type(theirs), repr(theirs))


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_shipped_recipes_round_trip(name: str) -> None:
    run = read_run(name)
    assert read(run.to_yaml()).dump() == run.dump()
    assert run.checked().dump() == run.dump()


def test_every_entry_of_the_catalog_can_be_written() -> None:
    for kind, entries in CATALOG.items():
        for factory in entries.values():
            required = [p for p in option_parameters(factory).values() if p.default is p.empty]
            if not required:
                assert to_yaml({"part": dump(factory)}), kind


# --------------------------------------------------------------------------------------------------------------- values


def back(value: Any) -> Any:
    return parse(to_yaml({"x": value}), "r.yaml").plain()["x"]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.floats())
def test_floats_are_exact(value: float) -> None:
    found = back(value)
    assert type(found) is float
    assert found.hex() == value.hex() or (math.isnan(found) and math.isnan(value))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers())
def test_integers_are_exact(value: int) -> None:
    assert (back(value), type(back(value))) == (value, int)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_strings_are_exact(value: str) -> None:
    assert back(value) == value


@pytest.mark.parametrize(
    "value",
    [
        *(
            "1",
            "-1",
            "0x1F",
            "0o7",
            "017",
            "1e3",
            "1_000",
            "1.5",
            ".5",
            ".inf",
            "-.INF",
            ".nan",
            "true",
            "False",
            "yes",
            "no",
            "on",
        ),
        *(
            "null",
            "~",
            "",
            " ",
            "  a  ",
            "2020-01-01",
            "12:30:00",
            "=",
            "<<",
            "- a",
            "? a",
            "a: b",
            "#a",
            "a #b",
            "*a",
            "&a",
            "!a",
        ),
        *(
            "%a",
            "@a",
            "`a",
            "[a",
            "{a",
            "'",
            '"',
            "\\",
            "a\nb",
            "\n",
            "a\n",
            "\ta",
            "a\tb",
            "\r",
            "\x85",
            "\u2028",
            "\ufeff",
            "\0",
        ),
        *("\x7f", "é", "日本語", "🦙", "---", "...", "x" * 500, "word " * 100, "a\n\n b\n  c"),
    ],
)
def test_strings_that_look_like_other_types_are_quoted(value: str) -> None:
    assert back(value) == value
    assert back([value]) == [value]
    assert back({"k": value}) == {"k": value}


@pytest.mark.parametrize("value", [1e-5, 1e22, 1e300, 0.1 + 0.2, 5e-324, -0.0, 3e-4])
def test_floats_have_a_decimal_point(value: float) -> None:
    assert "." in to_yaml({"x": value})


def test_the_same_object_twice_is_written_twice() -> None:
    shared = {"a": 1}
    assert "&" not in to_yaml({"x": shared, "y": shared})


# ---------------------------------------------------------------------------------------------------------------- Python


def run_with(**parts: Any) -> Run:
    given = {"data": Dates, "structure": Seq2Seq, "objective": NextToken, "learning": partial(Gradient, steps=3)}
    return Run(**{**given, **parts})


def test_python_and_yaml_give_the_same_recipe() -> None:
    ours = weft.Run(
        data=partial(Dates, train=100),
        structure=partial(
            Seq2Seq,
            dim=16,
            encoder=partial(
                Transformer,
                layers=2,
                layer=[TransformerLayer, partial(TransformerLayer, mixer=partial(MultiHeadAttention, heads=2))],
            ),
        ),
        objective={"a": NextToken, "b": partial(NextToken, label_smoothing=0.1)},
        learning=partial(Gradient, steps=3, optimizer=partial(Adam, lr=1e-5)),
        evaluate=partial(Evaluation, every=5),
    )
    theirs = read(
        """\
data: {train: 100, type: dates}
structure:
  type: seq2seq
  dim: 16
  encoder: {type: transformer, layer: [transformer-layer, {mixer: {heads: 2}}]}
objective: {a: next-token, b: {type: next-token, label_smoothing: 0.1}}
learning: {type: gradient, steps: 3, optimizer: {type: adam, lr: 1.0e-5}}
evaluate: {every: 5}
"""
    )
    assert ours.dump() == theirs.dump()
    assert ours.to_yaml() == theirs.to_yaml()


def test_a_named_model_is_written_as_its_composition() -> None:
    found = run_with(structure=partial(transformer_base, layers=2)).dump()["structure"]
    assert found["type"] == "seq2seq"
    assert found["encoder"]["layers"] == 2
    assert found == run_with(structure=transformer_base(layers=2)).dump()["structure"]


def test_numpy_scalars_and_paths_are_written() -> None:
    found = dump(partial(LSTM, layers=np.int64(3), dropout=np.float64(0.25), bidirectional=True))
    assert repr(found) == "{'type': 'lstm', 'layers': 3, 'bidirectional': True, 'dropout': 0.25}"
    assert dump(partial(PlainText, train=Path(HERE)))["train"] == HERE


def test_files_are_written_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("x\n", encoding="utf-8")
    run = run_with(data=partial(PlainText, train="a.txt"))
    assert run.dump()["data"]["train"] == str((tmp_path / "a.txt").resolve())
    filled = run.dump(hashes=True)
    assert set(filled["data"]["train"]) == {"path", "sha256"}
    again = read_run_text(to_yaml(filled), "r.yaml", tmp_path / "elsewhere")
    assert again.dump(hashes=True) == filled
    Path("a.txt").write_text("y\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is not the file of this recipe"):
        read(to_yaml(filled))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            partial(LSTM, layrs=3),
            r"LSTM has no option 'layrs'; did you mean 'layers'\? \(options: layers, bidirectional, dropout\)",
        ),
        (partial(LSTM, dim=3), "LSTM: 'dim' is set by the enclosing part, not by the recipe"),
        (partial(LSTM, 3), "LSTM: 3 is a positional argument; pass every option by keyword"),
        (partial(transformer_base, layrs=3), "transformer_base has no option 'layrs'; did you mean 'layers'?"),
        (lambda dim: LSTM(dim), "is not in the catalog: register it with @weft.block"),
        (partial(LSTM, layers={3}), r"^layers: \{3\} cannot be written in a recipe: it is a set"),
        (partial(LSTM, layers=b"3"), "cannot be written in a recipe: it is a bytes"),
        (partial(LSTM, layers="${seed}"), "starts a reference"),
        (partial(LSTM, layers="\ud800"), "it is not valid Unicode"),
        (partial(LSTM, layers={1: 2}), "the key 1 cannot be written in a recipe: keys must be strings"),
        (partial(Transformer, layer=[TransformerLayer, int]), "is not in the catalog"),
    ],
)
def test_values_that_a_recipe_cannot_contain_are_errors(part: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dump(part)


@pytest.mark.parametrize(
    ("parts", "path", "kind"),
    [
        ({"structure": partial(Seq2Seq, encoder=LSTM(8))}, "structure.encoder", "LSTM"),
        ({"learning": partial(Gradient, steps=1, schedule=ConstantSchedule())}, "learning.schedule", "ConstantSchedule"),
        ({"evaluate": partial(Evaluation, metrics=[ExactMatch, ExactMatch()])}, "evaluate.metrics.1", "ExactMatch"),
        ({"evaluate": Evaluation()}, "evaluate", "Evaluation"),
        ({"objective": {"a": NextToken(Info({"text": TextField("text", vocab=9)}), 8)}}, "objective.a", "NextToken"),
    ],
)
def test_an_instance_instead_of_a_factory_is_an_error(parts: dict[str, Any], path: str, kind: str) -> None:
    with pytest.raises(ValueError) as caught:
        run_with(**parts).checked()
    message = f"{path} must be a class or functools.partial, not an instance of {kind}: weft builds it itself"
    assert str(caught.value) == message


def test_wrong_values_from_python_are_located() -> None:
    with pytest.raises(ValueError, match=r"structure.encoder.layers: must be an integer from 1 to 1,000, not 0"):
        run_with(structure=partial(Seq2Seq, encoder=partial(LSTM, layers=0))).checked()


def test_a_missing_required_option_is_an_error() -> None:
    layer = partial(TransformerLayer, mask=Window)
    with pytest.raises(ValueError, match=r"structure.encoder.layer.mask: Window needs 'reach'"):
        run_with(structure=partial(Seq2Seq, encoder=partial(Transformer, layer=layer))).checked()


def test_parts_of_the_wrong_slot_from_python_are_errors() -> None:
    with pytest.raises(ValueError, match=r"structure.encoder.type: no Encoder named 'token': that is an Embedder"):
        run_with(structure=partial(Seq2Seq, encoder=TokenEmbedder)).checked()
    assert slot_of(Encoder) is Encoder
