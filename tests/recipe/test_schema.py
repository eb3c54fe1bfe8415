"""The JSON Schema accepts what the parser accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mutations import BROAD, mutants, recipes
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from tests.recipe.compositions import runs

from weft.core.registry import CATALOG, option_parameters, recipe_key
from weft.recipe import RecipeError, parse
from weft.recipe.schema import schema
from weft.training.recipes import read_run, read_run_text, shipped_recipes
from weft.training.run import Run

STRUCTURAL = [
    "text for a number",
    "number for a text",
    "number for a part or list",
    "text for true or false",
    "negative number",
    "zero",
    "10^12",
    "10^30",
    "true for a number",
    "null",
    "a list",
    "a mapping",
    "empty text",
    "name from another slot",
    "misspelled key",
    "misspelled name",
    "unknown key",
    "key deleted",
]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema(Run))


def accepts(validator: Draft202012Validator, text: str) -> bool:
    return validator.is_valid(parse(text, "r.yaml").plain())


def test_the_schema_is_valid(validator: Draft202012Validator) -> None:
    Draft202012Validator.check_schema(validator.schema)
    assert json.loads(json.dumps(validator.schema, allow_nan=False)) == validator.schema
    assert validator.schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_reference_of_the_schema_resolves(validator: Draft202012Validator) -> None:
    text = json.dumps(validator.schema)
    for name in {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}:
        assert name in validator.schema["$defs"], name


def test_every_catalog_entry_has_a_definition(validator: Draft202012Validator) -> None:
    reachable = validator.schema["$defs"]
    for kind, entries in CATALOG.items():
        if kind.__name__ not in reachable:
            continue
        for name, factory in entries.items():
            entry = reachable[f"{kind.__name__}.{name}"]
            assert set(entry["properties"]) == {"type", "with", *map(recipe_key, option_parameters(factory))}
            assert set(entry["required"]) == {
                recipe_key(n) for n, p in option_parameters(factory).items() if p.default is p.empty
            }
    assert {"Data", "Structure", "Objective", "Learning", "Encoder", "Norm", "Metric", "Phase"} <= set(reachable)


def test_options_have_descriptions_and_defaults(validator: Draft202012Validator) -> None:
    entry = validator.schema["$defs"]["Attention.multihead"]
    assert entry["properties"]["heads"]["default"] == 4
    assert entry["properties"]["heads"]["description"]
    assert entry["description"]
    assert validator.schema["$defs"]["Structure.seq2seq"]["properties"]["encoder"]["default"]["bidirectional"] is True


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_shipped_recipes_are_valid(validator: Draft202012Validator, name: str) -> None:
    assert list(validator.iter_errors(parse(shipped_recipes()[name].read_text(encoding="utf-8"), name).plain())) == []
    run = read_run(name)
    assert list(validator.iter_errors(run.dump())) == []
    assert list(validator.iter_errors(run.dump(hashes=True))) == []


def test_the_broad_recipe_is_valid(validator: Draft202012Validator) -> None:
    assert list(validator.iter_errors(parse(BROAD, "broad.yaml").plain())) == []
    assert list(validator.iter_errors(read_run_text(BROAD, "broad.yaml", Path()).dump())) == []


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(runs())
def test_random_compositions_are_valid(validator: Draft202012Validator, run: Run) -> None:
    assert list(validator.iter_errors(json.loads(json.dumps(run.dump())))) == []


def test_the_schema_rejects_what_the_parser_rejects(validator: Draft202012Validator) -> None:
    """Of mutated recipes, the schema rejects those that the parser rejects for their form, and no others."""
    made = [m for m in mutants(500, seed=3) if m.kind in STRUCTURAL and "with" not in (m.path or "")]
    refused = 0
    for mutant in [m for kind in STRUCTURAL for m in [m for m in made if m.kind == kind][:6]]:
        try:
            read_run_text(mutant.text, mutant.recipe, Path())
        except RecipeError as error:
            if any(
                message in str(error)
                for message in ("too similar to 'type'", "there is no file", "is a folder", "the recipe has no value at")
            ):
                continue  # what the schema cannot know: a name that is a misspelled word, files, where references lead
            refused += 1
            assert not accepts(validator, mutant.text), f"{mutant.kind} at {mutant.path}: {error}"
        else:
            assert accepts(validator, mutant.text), f"{mutant.kind} at {mutant.path} is valid"
    assert refused > 50
    assert len(recipes()) >= 5


HEAD = "data: dates\nobjective: next-token\nlearning: {type: gradient, steps: 3}\n"


@pytest.mark.parametrize(
    ("structure", "valid"),
    [
        ("seq2seq", True),
        ("seq3seq", False),
        ("{type: seq2seq, encoder: {layers: 2}}", True),
        ("{type: seq2seq, encoder: {layers: 2, bidirectional: false}}", True),
        ("{type: seq2seq, encoder: {layer: 2}}", False),
        ("{type: seq2seq, encoder: {type: transformer, layer: [transformer-layer, {mixer: {heads: 2}}]}}", True),
        ("{type: seq2seq, encoder: {type: transformer, layer: []}}", False),
        ("{type: seq2seq, encoder: {type: transformer, layer: [{mixer: {haeds: 2}}]}}", False),
        ('{type: seq2seq, encoder: "${structure.decoder}", dim: "${seed}"}', True),
        ('{type: seq2seq, encoder: "${}"}', False),
        ('{type: seq2seq, encoder: {type: transformer, layer: ["${a}"]}}', True),
        ("{type: seq2seq, target_embedder: null}", True),
        ("{type: seq2seq, encoder: null}", False),
        ("{type: transformer-base, with: {encoder.layer.mixer: alignment}}", True),
        ("{type: transformer-base, with: [a]}", False),
        ("{type: seq2seq, info: 3}", False),
        ("{dim: 3}", False),
        ("{}", False),
        ("3", False),
    ],
)
def test_forms_of_a_part(validator: Draft202012Validator, structure: str, valid: bool) -> None:
    text = f"{HEAD}structure: {structure}\n"
    assert accepts(validator, text) is valid
    if "${" not in text:
        try:
            read_run_text(text, "r.yaml", Path())
            read: Any = True
        except RecipeError:
            read = False
        assert read is valid
