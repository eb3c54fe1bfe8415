"""${a.b} in recipes."""

from __future__ import annotations

import pytest

from weft.recipe.tree import MAX_DEPTH, MAX_NODES, RecipeError
from weft.training.dry_run import check
from weft.training.recipes import read_run_text


def test_scalars_and_parts(read, small: str) -> None:
    text = small.replace("decoder: transformer", 'decoder: "${structure.encoder}"').replace(
        "steps: 3", 'steps: "${ data.train }"'
    )
    run = read(text).dump()
    assert run["structure"]["decoder"]["layers"] == 1
    assert run["learning"]["steps"] == 100


def test_forward_and_through_others(read, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${structure.dim}"').replace("dim: 16", 'dim: "${learning.steps}"')
    text = text.replace("decoder: transformer", 'decoder: "${structure.encoder}"')
    text = text.replace("steps: 3", 'steps: "${structure.decoder.layers}"')
    assert read(text).dump()["seed"] == 1


def test_type_of_a_bare_name(read, small: str) -> None:
    text = small.replace("{type: transformer, layers: 1}", '"${structure.decoder.type}"')
    assert read(text).dump()["structure"]["encoder"]["type"] == "transformer"


def test_entries_of_lists(read, small: str) -> None:
    text = small.replace("train: 100", 'train: 100, languages: [de, "${data.languages.0}"]')
    assert read(text).dump()["data"]["languages"] == ["de", "de"]


def test_a_copy_is_read_in_its_new_place(mistakes, small: str) -> None:
    text = small.replace("decoder: transformer", 'decoder: {type: attention-lstm}\n  head: "${structure.decoder}"')
    (line,) = mistakes(text)
    message, known = line.removesuffix(")").split(" (known: ")
    assert message == "r.yaml:8: structure.head.type: no Head named 'attention-lstm': that is a Decoder"
    assert sorted(known.split(", ")) == ["classifier", "ordinal", "tied", "untied"] and line.endswith(")")


def test_a_mistake_in_what_is_copied_is_said_once_where_it_stands(mistakes, small: str) -> None:
    text = small.replace("layers: 1}", "layrs: 1}").replace("decoder: transformer", 'decoder: "${structure.encoder}"')
    (said,) = mistakes(text)
    assert said.startswith("r.yaml:6: structure.encoder.layrs: Transformer has no option 'layrs'; did you mean 'layers'?")


def test_a_misspelt_top_is_said_of_it_and_not_of_who_refers_to_it(mistakes, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${data.train}"')
    said = mistakes(text.replace("\ndata:", "\ndtaa:"))
    assert any("'dtaa'; did you mean 'data'?" in line for line in said) and not any("nothing is written" in line for line in said)
    assert any("the recipe has no value at 'dtaa.train'" in line for line in mistakes(text.replace("${data", "${dtaa")))


def test_also_through_several_copies_and_from_inside_one(mistakes, small: str) -> None:
    text = small.replace("lr: 0.01", "lr: -1") + '  phases: [{optimizer: "${learning.optimizer}"}, "${learning.phases.0}"]\n'
    assert mistakes(text) == ["r.yaml:12: learning.optimizer.lr: must be a number above 0, up to 10^12, not -1"]


def test_what_is_wrong_only_in_the_copy_is_said_there(mistakes, small: str) -> None:
    """Both are wrong, and not in the same way."""
    text = small.replace("layers: 1}", "layrs: 1}").replace("decoder: transformer", 'head: "${structure.encoder}"')
    said = mistakes(text)
    assert len(said) == 2
    assert said[0].startswith("r.yaml:6: structure.encoder.layrs")
    assert said[1].startswith("r.yaml:7: structure.head.type: no Head named 'transformer'")


def test_what_a_constructor_refuses_is_said_once_too(read, small: str) -> None:
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
        ("${}", "${} names nothing; write for instance ${structure.dim}"),
        ("${ }", "${ } names nothing; write for instance ${structure.dim}"),
        ("${structure.dim}", "${structure.dim} refers to itself (structure.dim -> structure.dim)"),
        ("${structure}", "${structure} refers to itself (structure -> structure)"),
        ("2${seed}", "'2${seed}': a reference stands alone, as in ${structure.dim}; nothing computes"),
        ("${seed}${seed}", "'${seed}${seed}': a reference stands alone, as in ${structure.dim}; nothing computes"),
        ("${seed", "'${seed': a reference stands alone, as in ${structure.dim}; nothing computes"),
        ("${${seed}}", "'${${seed}}': a reference stands alone, as in ${structure.dim}; nothing computes"),
    ],
)
def test_mistakes(mistakes, small: str, written: str, message: str) -> None:
    assert mistakes(small.replace("dim: 16", f'dim: "{written}"')) == [f"r.yaml:5: structure.dim: {message}"]


def test_cycles_are_said_once_each(mistakes, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${structure.dim}"').replace("dim: 16", 'dim: "${seed}"')
    text = text.replace("steps: 3", 'steps: "${seed}"')
    assert mistakes(text) == [
        "r.yaml:1: seed: ${structure.dim} refers to itself (structure.dim -> seed -> structure.dim)",
        "r.yaml:5: structure.dim: ${seed} refers to itself (seed -> structure.dim -> seed)",
    ]


def test_a_cycle_through_a_part_of_itself(mistakes, small: str) -> None:
    assert mistakes(small.replace("dim: 16", 'dim: "${structure.dim.x}"')) == [
        "r.yaml:5: structure.dim: ${structure.dim.x} refers to itself (structure.dim.x -> structure.dim.x)"
    ]


def test_what_leads_to_a_mistake_is_not_one(mistakes, small: str) -> None:
    text = small.replace("seed: 1", 'seed: "${learning.steps}"').replace("steps: 3", 'steps: "${nope}"')
    assert mistakes(text) == ["r.yaml:11: learning.steps: ${nope}: the recipe has no value at 'nope'"]


def test_too_many(mistakes) -> None:
    text = "a: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True):
        text += f"{name}: [{', '.join([chr(34) + '${' + before + '}' + chr(34)] * 10)}]\n"
    (line,) = mistakes(text)
    assert line.endswith(f"more than {MAX_NODES:,} values once references are written out")


@pytest.mark.parametrize("inner", ['"${k%d}"', '{x: "${k%d}"}', '["${k%d.0}"]'])
def test_too_deep(mistakes, inner: str) -> None:
    text = "".join(f"k{i}: {inner % (i + 1)}\n" for i in range(400)) + "k400: 1\n"
    lines = mistakes(text)
    assert any(f"{MAX_DEPTH}" in line for line in lines)


def test_a_named_model_is_not_built_of_a_reference_to_nothing(tmp_path):
    """What is broken is said once, where it stands: the composition around it must not stumble over it."""
    rest = "objective: next-token\nlearning: {type: gradient, steps: 1}\n"
    text = 'data: dates\nstructure: {type: pretrained, from: "${nothing}"}\n' + rest
    with pytest.raises(RecipeError, match=r"r\.yaml:2: structure\.from: \$\{nothing\}: the recipe has no value at 'nothing'"):
        read_run_text(text, "r.yaml", tmp_path)
