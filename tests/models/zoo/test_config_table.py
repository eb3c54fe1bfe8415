"""The tables of config.json: each row holds in both directions, and names options that the family has."""

from __future__ import annotations

import random
from typing import Any

import pytest

from weft.blocks import GELU, ReLU, RMSNorm
from weft.core.options import Dim
from weft.core.registry import identity
from weft.models import TextEncoder, bert
from weft.models.zoo.config import REQUIRED, ModelConfig, SameAs
from weft.models.zoo.config_table import Computed, Constant, DataKey, Key, Row, revised
from weft.models.zoo.family import FAMILIES, Family, config_of
from weft.models.zoo.option_paths import has_option, option_at, with_option_at

NAMES = {
    "str": ["relu", "gelu", "silu", "tanh"],
    "dim": [2, 6, 40],
    "dropout": [0.0, 0.125, 0.5],
}
NEEDED = {
    "rope_theta": 100.0,
    "rope_parameters": None,
    "rope_scaling": None,
    "layer_types": None,
    "pad_token_id": 1,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 33,
}
"""Keys whose random values must fit to others."""


def sampled(family: Family, row: Row, rng: random.Random) -> Any:
    """A value of config.json that is not the default."""
    if isinstance(row, Constant):
        return row.default
    if row.name in NEEDED:
        return NEEDED[row.name]
    if row.name == "architecture":
        return rng.choice(family.networks)
    if row.type is bool:
        return rng.random() < 0.5
    if row.type is str:
        return rng.choice(NAMES["str"])
    return rng.choice(NAMES["dropout"] if "float" in str(row.type) else NAMES["dim"])


def config_for(family: Family, seed: int) -> ModelConfig:
    rng, rows = random.Random(f"{family.model_type}-{seed}"), [row for row in family.config if not isinstance(row, DataKey)]
    return config_of({"vocab_size": 9, **{row.name: sampled(family, row, rng) for row in rows}}, family.model_type)


def structures(family: Family, config: ModelConfig) -> dict[str, Any]:
    """The structure for each task, without and with the optional heads."""
    found = {}
    for task in dict.fromkeys(family.tasks.values()):
        for names in ((), ("lm_head.weight", "pooler.dense.weight", "cls.seq_relationship.weight")):
            found[f"{task} {bool(names)}"] = family.from_config(config, task, names)
    return found


@pytest.mark.parametrize("model_type", FAMILIES)
def test_what_the_table_writes_it_reads_again(model_type: str) -> None:
    family = FAMILIES[model_type]
    for seed in range(3):
        config = config_for(family, seed)
        for name, structure in structures(family, config).items():
            written = family.to_config(structure)
            keys = [row.name for row in family.config if isinstance(row, Key) and row.name in written]
            assert {key: written[key] for key in keys} == {key: config[key] for key in keys}, name
            again = family.from_config(config_of({**written, "vocab_size": 9}, model_type), name.split()[0], ())
            if name.endswith("False"):
                assert identity(again) == identity(structure), name


OFTEN = {"head.transform.activation", "head.transform.norm.eps", "discriminator.hidden", "discriminator.activation"}
"""Options of heads that not every family with BERT's table has."""
RARE = {"decoder.norm.eps", "head.embedding_dim"}
"""Options of GPT-2, but not of GPT; of untied heads."""


@pytest.mark.parametrize("model_type", FAMILIES)
def test_every_row_sets_options_that_exist(model_type: str) -> None:
    family = FAMILIES[model_type]
    built = list(structures(family, config_for(family, 0)).values())
    for row in (row for row in family.config if isinstance(row, Key)):
        used = {path for structure in built for path in row._paths_in(structure)}
        assert used, row.name
        assert {path for _, _, path in row.paths} - used <= OFTEN | RARE, row.name


@pytest.mark.parametrize("model_type", FAMILIES)
def test_each_value_of_config_json_changes_an_option(model_type: str) -> None:
    """Nothing is read and forgotten."""
    family = FAMILIES[model_type]
    config = config_for(family, 0)
    before = structures(family, config)
    for row in (row for row in family.config if isinstance(row, Key) and row.name not in NEEDED):
        other = 0.25 if "float" in str(row.type) else 7
        value = {str: "gelu_new", bool: not config[row.name]}.get(row.type, other)
        after = structures(family, config_of({**config, row.name: value}, model_type))
        assert any(identity(before[name]) != identity(after[name]) for name in before), row.name


def found(tree: Any, name: str) -> set[Any]:
    """The values of all options of a name in the identity of a structure."""
    if isinstance(tree, dict):
        own = {tree[name]} if isinstance(tree.get(name), int | float) else set()
        return own.union(*(found(value, name) for value in tree.values()))
    return set().union(*(found(value, name) for value in tree)) if isinstance(tree, list) else set()


@pytest.mark.parametrize("model_type", [name for name, family in FAMILIES.items() if not family.networks])
def test_no_option_keeps_a_value_that_config_json_does_not_have(model_type: str) -> None:
    """The sizes of the structure that the table starts from are placeholders: none may remain. (Those of a named image network
    do.)"""
    family = FAMILIES[model_type]
    config = config_for(family, 0)
    values = {row.name: 0.25 if "float" in str(row.type) else 6 for row in family.config if isinstance(row, Key)}
    config.update(
        {name: value for name, value in values.items() if config[name].__class__ in (float, int) and name not in NEEDED}
    )
    keeps_eps = not any("eps" in row.name for row in family.config)  # those of DistilBERT and BART are constants
    for name, structure in structures(family, config).items():
        tree = identity(structure)
        assert found(tree, "heads") | found(tree, "layers") <= {6}, name
        assert found(tree, "dropout") <= {0.0, 0.25}, name
        assert keeps_eps or found(tree, "eps") <= {0.25}, name


def test_options_that_disagree_are_of_no_family() -> None:
    family = FAMILIES["bert"]
    odd = with_option_at(bert(), "embedder.dropout", 0.4)
    config = config_of({**family.to_config(odd), "vocab_size": 9}, "bert")
    names = ["pooler.dense.weight", "cls.seq_relationship.weight"]
    assert identity(family.from_config(config, "masked-lm", names)) != identity(odd)
    assert identity(family.from_config(config_of(family.to_config(bert()), "bert"), "masked-lm", names)) == identity(bert())


def test_a_structure_without_an_option_has_no_config() -> None:
    with pytest.raises(ValueError, match=r"has no option decoder.layers, which config.json has as num_hidden_layers"):
        Key("num_hidden_layers", Dim, "decoder.layers").write(TextEncoder)


def test_defaults() -> None:
    config = ModelConfig({"a": None, "c": 3}, defaults={"a": SameAs("b"), "b": 2, "c": 1})
    assert (config["a"], config["b"], config["c"]) == (2, 2, 3)
    assert Computed("a", bool, lambda _: None).write(TextEncoder) == {} == DataKey("a", Dim).write(TextEncoder)
    assert Computed("a", bool, lambda _: True).default is REQUIRED


def test_a_constant_is_required_and_written() -> None:
    with pytest.raises(ValueError, match="a is 2, but only 1 is supported"):
        Constant("a", 1).apply(TextEncoder, ModelConfig({"a": 2}, defaults={}))
    assert Constant("a", 1).write(TextEncoder) == {} and Constant("a", 1, written=True).write(TextEncoder) == {"a": 1}


def test_a_table_is_revised_in_place() -> None:
    table = (Constant("a", 1), Constant("b", 2), Constant("c", 3))
    found = revised(table, Constant("d", 4), Constant("b", 5), without=("a",))
    assert [(row.name, row.default) for row in found] == [("b", 5), ("c", 3), ("d", 4)]


def test_paths() -> None:
    structure = bert()
    assert has_option(structure, "embedder.parts.1.length") and has_option(structure, "segment_head")
    for path in ("embedder.parts.3.length", "embedder.parts.length", "embedder.mixer", "encoder.position.heads", "dim.size"):
        assert not has_option(structure, path)
    changed = with_option_at(structure, "encoder.layer.residual.norm", RMSNorm)
    changed = with_option_at(changed, "embedder.parts.1.length", 7)
    assert option_at(changed, "embedder.parts.1.length") == 7 and option_at(structure, "embedder.parts.1.length") == 512
    assert option_at(changed, "encoder.layer.residual.norm") is RMSNorm
    assert option_at(with_option_at(structure, "encoder.layer.feedforward.activation", ReLU), "embedder.norm.eps") == 1e-12
    assert option_at(structure, "encoder.layer.feedforward.activation") is GELU
