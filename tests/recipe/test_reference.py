"""References: ``${a.b}`` copies the value at a.b."""

from __future__ import annotations

import pytest

from weft.recipe.tree import MAX_DEPTH, MAX_NODES, RecipeError
from weft.training.dry_run import check
from weft.training.recipes import read_run_text


def test_scalars_and_parts_are_copied(read, small: str) -> None:
    text = small.replace("decoder: transformer", 'decoder: "${structure.encoder}"').replace(
        "steps: 3", 'steps: "${ data.train }"'
    )
    run = read(text).dump()
    assert run["structure"]["decoder"]["layers"] == 1
    assert run["learning"]["steps"] == 100


def test_references_may_point_forward_and_to_references(read, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${structure.dim}"').replace("dim: 16", 'dim: "${learning.steps}"')
    text = text.replace("decoder: transformer", 'decoder: "${structure.encoder}"')
    text = text.replace("steps: 3", 'steps: "${structure.decoder.layers}"')
    assert read(text).dump()["seed"] == 1


def test_the_type_of_a_bare_name_can_be_referenced(read, small: str) -> None:
    text = small.replace("{type: transformer, layers: 1}", '"${structure.decoder.type}"')
    assert read(text).dump()["structure"]["encoder"]["type"] == "transformer"


def test_entries_of_lists_can_be_referenced(read, small: str) -> None:
    text = small.replace("train: 100", 'train: 100, languages: [de, "${data.languages.0}"]')
    assert read(text).dump()["data"]["languages"] == ["de", "de"]


def test_a_copy_is_validated_at_its_new_path(errors_of, small: str) -> None:
    text = small.replace("decoder: transformer", 'decoder: {type: attention-lstm}\n  head: "${structure.decoder}"')
    (line,) = errors_of(text)
    message, known = line.removesuffix("; your own: --import MODULE)").split(" (known: ")
    assert message == "r.yaml:8: structure.head.type: no Head named 'attention-lstm': that is a Decoder"
    assert sorted(known.split(", ")) == ["classifier", "ordinal", "tied", "untied"]


def test_an_error_in_a_copied_value_is_reported_once_at_the_original(errors_of, small: str) -> None:
    text = small.replace("layers: 1}", "layrs: 1}").replace("decoder: transformer", 'decoder: "${structure.encoder}"')
    (line,) = errors_of(text)
    assert line.startswith("r.yaml:6: structure.encoder.layrs: Transformer has no option 'layrs'; did you mean 'layers'?")


def test_a_misspelled_key_is_reported_but_not_the_references_to_it(errors_of, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${data.train}"')
    lines = errors_of(text.replace("\ndata:", "\ndtaa:"))
    assert any("'dtaa'; did you mean 'data'?" in line for line in lines) and not any(
        "nothing is written" in line for line in lines
    )
    assert any("the recipe has no value at 'dtaa.train'" in line for line in errors_of(text.replace("${data", "${dtaa")))


def test_errors_are_reported_once_through_chains_of_references(errors_of, small: str) -> None:
    text = small.replace("lr: 0.01", "lr: -1") + '  phases: [{optimizer: "${learning.optimizer}"}, "${learning.phases.0}"]\n'
    assert errors_of(text) == ["r.yaml:12: learning.optimizer.lr: must be a number above 0, up to 10^12, not -1"]


def test_an_error_of_the_copy_alone_is_reported_at_the_copy(errors_of, small: str) -> None:
    """The original and the copy have different errors."""
    text = small.replace("layers: 1}", "layrs: 1}").replace("decoder: transformer", 'head: "${structure.encoder}"')
    lines = errors_of(text)
    assert len(lines) == 2
    assert lines[0].startswith("r.yaml:6: structure.encoder.layrs")
    assert lines[1].startswith("r.yaml:7: structure.head.type: no Head named 'transformer'")


def test_an_error_of_a_copied_constructor_is_reported_once(read, small: str) -> None:
    text = small.replace("layers: 1}", "layers: 1, layer: {mixer: {heads: 3}}}")
    text += 'stages: [{name: again, learning: {type: gradient, steps: 1}, structure: "${structure}"}]\n'
    with pytest.raises(RecipeError) as caught:
        check(read(text))
    (problem,) = caught.value.problems
    assert (problem.where, problem.path) == ("r.yaml:6", "structure.encoder.layer.mixer")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("${sead}", "${sead}: the recipe has no value at 'sead'; did you mean 'seed'?"),
        (
            "${learning.stesp}",
            "${learning.stesp}: the recipe has no value at 'learning.stesp'; did you mean 'learning.steps'?",
        ),
        ("${learning.clip}", "${learning.clip}: the recipe has no value at 'learning.clip'"),
        ("${seed.x}", "${seed.x}: the recipe has no value at 'seed.x'"),
        ("${data.languages.0}", "${data.languages.0}: the recipe has no value at 'data.languages.0'"),
        ("${}", "${} has no path; write for example ${structure.dim}"),
        ("${ }", "${ } has no path; write for example ${structure.dim}"),
        ("${structure.dim}", "${structure.dim} refers to itself (structure.dim -> structure.dim)"),
        ("${structure}", "${structure} refers to itself (structure -> structure)"),
        ("2${seed}", "'2${seed}': a reference must be the full value, as in ${structure.dim}"),
        ("${seed}${seed}", "'${seed}${seed}': a reference must be the full value, as in ${structure.dim}"),
        ("${seed", "'${seed': a reference must be the full value, as in ${structure.dim}"),
        ("${${seed}}", "'${${seed}}': a reference must be the full value, as in ${structure.dim}"),
    ],
)
def test_wrong_references_are_reported(errors_of, small: str, written: str, message: str) -> None:
    assert errors_of(small.replace("dim: 16", f'dim: "{written}"')) == [f"r.yaml:5: structure.dim: {message}"]


def test_every_cycle_is_reported_once(errors_of, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${structure.dim}"').replace("dim: 16", 'dim: "${seed}"')
    text = text.replace("steps: 3", 'steps: "${seed}"')
    assert errors_of(text) == [
        "r.yaml:1: seed: ${structure.dim} refers to itself (structure.dim -> seed -> structure.dim)",
        "r.yaml:5: structure.dim: ${seed} refers to itself (seed -> structure.dim -> seed)",
    ]


def test_a_cycle_through_an_inner_part_is_reported(errors_of, small: str) -> None:
    assert errors_of(small.replace("dim: 16", 'dim: "${structure.dim.x}"')) == [
        "r.yaml:5: structure.dim: ${structure.dim.x} refers to itself (structure.dim.x -> structure.dim.x)"
    ]


def test_a_reference_to_a_broken_value_is_not_reported(errors_of, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${learning.steps}"').replace("steps: 3", 'steps: "${nope}"')
    assert errors_of(text) == ["r.yaml:11: learning.steps: ${nope}: the recipe has no value at 'nope'"]


def test_the_number_of_copied_values_is_bounded(errors_of) -> None:
    text = "a: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True):
        text += f"{name}: [{', '.join([chr(34) + '${' + before + '}' + chr(34)] * 10)}]\n"
    (line,) = errors_of(text)
    assert line.endswith(f"more than {MAX_NODES:,} values once references are written out")


@pytest.mark.parametrize("inner", ['"${k%d}"', '{x: "${k%d}"}', '["${k%d.0}"]'])
def test_the_depth_of_copied_values_is_bounded(errors_of, inner: str) -> None:
    text = "".join(f"k{i}: {inner % (i + 1)}\n" for i in range(400)) + "k400: 1\n"
    lines = errors_of(text)
    assert any(f"{MAX_DEPTH}" in line for line in lines)


def test_a_named_model_is_not_built_from_a_broken_reference(tmp_path):
    """A broken reference is reported once, not again by the composition around it."""
    rest = "objective: next-token\nlearning: {type: gradient, steps: 1}\n"
    text = 'data: dates\nstructure: {type: pretrained, from: "${nothing}"}\n' + rest
    with pytest.raises(RecipeError, match=r"r\.yaml:2: structure\.from: \$\{nothing\}: the recipe has no value at 'nothing'"):
        read_run_text(text, "r.yaml", tmp_path)
