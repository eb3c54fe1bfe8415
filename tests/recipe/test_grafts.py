"""Grafts: ``with:`` replaces parts and options of a named model by path."""

from __future__ import annotations

import pytest

HEAD = "data: dates\nobjective: next-token\nlearning: {type: gradient, steps: 3}\n"


def structure(grafts: str, kind: str = "transformer-base") -> str:
    return f"{HEAD}structure:\n  type: {kind}\n  with:\n    {grafts}\n"


def test_a_part_is_replaced(read) -> None:
    found = read(structure("encoder.layer.mixer: alignment")).dump()["structure"]
    assert found["encoder"]["layer"]["mixer"]["type"] == "alignment"
    assert found["decoder"]["layer"]["mixer"]["type"] == "multihead"
    assert found["type"] == "seq2seq"


def test_options_are_set_on_the_existing_part(read) -> None:
    found = read(structure("encoder.layer.mixer: {bias: false}")).dump()["structure"]
    assert found["encoder"]["layer"]["mixer"]["heads"] == 8  # as transformer-base has it
    assert found["encoder"]["layer"]["mixer"]["bias"] is False
    assert found["decoder"]["layer"]["mixer"]["bias"] is True


def test_a_leaf_is_replaced(read) -> None:
    assert read(structure("encoder.layers: 3")).dump()["structure"]["encoder"]["layers"] == 3


def test_a_glob_replaces_every_match(read) -> None:
    found = read(structure('"*.dropout": 0.5')).dump()["structure"]
    assert found["embedder"]["dropout"] == 0.5
    assert found["encoder"]["layer"]["mixer"]["dropout"] == 0.5
    assert found["decoder"]["layer"]["residual"]["dropout"] == 0.5


def test_grafts_are_applied_in_order(read) -> None:
    text = structure("'*.mixer': {type: multihead, heads: 2}\n    encoder.layer.mixer.heads: 4\n    decoder: attention-gru")
    found = read(text).dump()["structure"]
    assert found["encoder"]["layer"]["mixer"]["heads"] == 4
    assert found["decoder"]["type"] == "attention-gru"


def test_an_entry_of_a_list_is_replaced(read) -> None:
    found = read(structure("embedder.parts.1: {type: learned, length: 7}")).dump()["structure"]["embedder"]["parts"]
    assert [p["type"] for p in found] == ["token", "learned"]
    assert found[1]["length"] == 7
    found = read(structure("embedder.parts.1.base: 5.0")).dump()["structure"]["embedder"]["parts"]
    assert found[1]["base"] == 5.0
    found = read(structure("embedder.parts: [token]")).dump()["structure"]["embedder"]["parts"]
    assert len(found) == 1


def test_one_part_is_replaced_by_a_list(read) -> None:
    text = structure("encoder.layer: [transformer-layer, {mixer: {heads: 2}}]\n    encoder.layer.1.mixer.bias: false")
    layers = read(text).dump()["structure"]["encoder"]["layer"]
    assert [layer["mixer"]["heads"] for layer in layers] == [4, 2]
    assert [layer["mixer"]["bias"] for layer in layers] == [True, False]


def test_an_entry_of_a_mapping_is_replaced(read) -> None:
    text = """\
data: dates
structure: seq2seq
objective: {type: weighted, parts: {a: next-token, b: next-token}, with: {parts.b.label_smoothing: 0.2}}
learning: {type: gradient, steps: 3}
"""
    parts = read(text).dump()["objective"]["parts"]
    assert (parts["a"]["label_smoothing"], parts["b"]["label_smoothing"]) == (0.0, 0.2)


def test_any_part_can_be_grafted(read) -> None:
    found = read(structure("'*.mixer.heads': 2\n  encoder: transformer", "seq2seq")).dump()["structure"]
    assert found["encoder"]["layer"]["mixer"]["heads"] == 2


def test_empty_grafts_change_nothing(read) -> None:
    assert read(f"{HEAD}structure: {{type: transformer-base, with: {{}}}}\n").dump()["structure"]["dim"] == 512


@pytest.mark.parametrize(
    ("grafts", "message"),
    [
        (
            "encoder.layer.mixr: alignment",
            "7: structure.with.encoder.layer.mixr: matches nothing; did you mean 'encoder.layer.mixer'? "
            "(available: dim, embedder, encoder, decoder, head, target_embedder, pooler, weights, ...)",
        ),
        (
            "encoder.layer.mixer: alignmnt",
            "7: structure.with.encoder.layer.mixer: no Mixer named 'alignmnt'; did you mean 'alignment'? "
            "(known: alignment, linear-attention, multihead, gated-convolution, state-space; your own: --import MODULE)",
        ),
        (
            "encoder.layer.mixer: {haeds: 3}",
            "7: structure.with.encoder.layer.mixer.haeds: MultiHeadAttention has no option 'haeds'; did you mean 'heads'? "
            "(options: heads, head_dim, kv_heads, tied, score, bias, out_bias, dropout)",
        ),
        ("'*.dropout': 2", "7: structure.with.*.dropout: must be a number from 0 to below 1, not 2"),
        ("encoder.layers: 0", "7: structure.with.encoder.layers: must be an integer from 1 to 1,000, not 0"),
        (
            "encoder.layer: [a]",
            "7: structure.with.encoder.layer.0: no Layer named 'a' (known: transformer-layer; your own: --import MODULE)",
        ),
    ],
)
def test_wrong_grafts_are_located(errors_of, grafts: str, message: str) -> None:
    assert errors_of(structure(grafts)) == [f"r.yaml:{message}"]


@pytest.mark.parametrize("written", ["3", "[a]", "alignment", "null"])
def test_grafts_must_be_a_mapping(errors_of, written: str) -> None:
    (line,) = errors_of(f"{HEAD}structure: {{type: transformer-base, with: {written}}}\n")
    assert line.startswith("r.yaml:4: structure.with: must be a mapping of paths to new parts, not ")


def test_an_error_of_a_grafted_constructor_is_located(read) -> None:
    from weft.core.fields import Info, TextField
    from weft.recipe import RecipeError

    info = Info({"source": TextField("source", 11), "target": TextField("target", 11)}, target="target")
    run = read(structure("encoder.layers: 1\n    encoder.layer.mixer: {heads: 7}"))
    with pytest.raises(RecipeError, match=r"^r.yaml:8: structure.with.encoder.layer.mixer: dim 512 is not divisible by 7"):
        run.structure(info)
