"""Overrides: path=value on the command line."""

from __future__ import annotations

import pytest


def test_overrides_set_values(read, small: str) -> None:
    run = read(small, ["structure.dim=32", "learning.optimizer.lr=1e-4", "device=cpu", "evaluate.monitor=a=b"]).dump()
    assert run["structure"]["dim"] == 32
    assert run["learning"]["optimizer"]["lr"] == 1e-4
    assert run["device"] == "cpu"
    assert run["evaluate"]["monitor"] == "a=b"


def test_values_are_yaml(read, small: str) -> None:
    chosen = ["data.languages=[de, fr]", 'evaluate.split="1"', "structure.encoder={type: gru, layers: 2}", "evaluate.search=beam"]
    run = read(small, chosen).dump()
    assert run["data"]["languages"] == ["de", "fr"]
    assert run["evaluate"]["split"] == "1"
    assert run["structure"]["encoder"]["type"] == "gru"
    assert run["structure"]["encoder"]["layers"] == 2
    assert run["evaluate"]["search"]["type"] == "beam"


def test_space_around_an_override_is_ignored(read, small: str) -> None:
    assert read(small, [" structure.dim = 32 "]).dump()["structure"]["dim"] == 32


def test_an_option_replaces_its_alternative_in_the_file(read, errors_of, small: str) -> None:
    text = small.replace("steps: 3", "epochs: 3\n  batch_tokens: 90")
    learning = read(text, ["learning.steps=5", "learning.batch_size=4"]).dump()["learning"]
    assert [learning[name] for name in ("steps", "epochs", "batch_size", "batch_tokens")] == [5, None, 4, None]
    assert read(text, ["learning.steps="]).dump()["learning"]["epochs"] == 3
    both = read(text, ["learning.steps=5", "learning.epochs=2"]).dump()["learning"]
    assert (both["steps"], both["epochs"]) == (5, 2)  # an error where the part is built


def test_empty_value_is_null(read, errors_of, small: str) -> None:
    assert read(small, ["structure.encoder.position="]).dump()["structure"]["encoder"]["position"] is None
    assert errors_of(small, ["structure.dim="]) == [
        "command line: structure.dim: must be an integer from 1 to 1,000,000, not null"
    ]
    assert errors_of(small, ["structure.encoder="]) == [
        "command line: structure.encoder: must be an Encoder, a name or {type: name, ...}, not null"
    ]


def test_an_option_below_a_bare_name(read, small: str) -> None:
    run = read(small, ["objective.label_smoothing=0.1", "structure.decoder.layers=3"]).dump()
    assert run["objective"] == {"type": "next-token", "label_smoothing": 0.1, "full_sequence": False}
    assert run["structure"]["decoder"]["layers"] == 3


def test_an_option_below_a_default(read, small: str) -> None:
    run = read(small, ["structure.encoder.layer.mixer.heads=2", "evaluate.search.max_length=9"]).dump()
    assert run["structure"]["encoder"]["layers"] == 1
    assert run["structure"]["encoder"]["layer"]["mixer"]["heads"] == 2
    assert run["evaluate"]["search"] == {"type": "greedy", "max_length": 9, "max_length_ratio": None, "max_length_extra": 10}


def test_an_option_below_null(read, small: str) -> None:
    text = small.replace("dim: 16", "target_embedder: null")
    assert read(text, ["structure.target_embedder.type=sum"]).dump()["structure"]["target_embedder"]["type"] == "sum"


def test_entries_of_lists_are_overridden_by_index(read, small: str) -> None:
    text = (
        small + "evaluate: {metrics: [bleu, {type: exact-match, group_by: format}]}\nstages: [{name: a, learning: {steps: 1}}]\n"
    )
    run = read(text, ["evaluate.metrics.0.lowercase=true", "evaluate.metrics.1=chrf", "stages.0.learning.steps=9"]).dump()
    assert run["evaluate"]["metrics"][0] == {"type": "bleu", "field": "target", "tokenize": "13a", "lowercase": True}
    assert run["evaluate"]["metrics"][1]["type"] == "chrf"
    assert run["stages"][0]["learning"]["steps"] == 9
    assert run["stages"][0]["name"] == "a"


def test_a_new_type_drops_the_options_of_the_old(read, small: str) -> None:
    text = small.replace("layers: 1", "layers: 4, norm: rms-norm")
    assert read(text, ["structure.encoder.type=lstm"]).dump()["structure"]["encoder"]["layers"] == 1
    assert read(text, ["structure.encoder=lstm"]).dump()["structure"]["encoder"]["layers"] == 1


def test_the_same_type_keeps_the_options(read, small: str) -> None:
    text = small.replace("layers: 1", "layers: 4")
    assert read(text, ["structure.encoder.type=transformer"]).dump()["structure"]["encoder"]["layers"] == 4


def test_a_type_over_a_default_drops_the_options_of_the_default(read, small: str) -> None:
    text = small.replace("{type: adam, lr: 0.01}", "{lr: 0.01, eps: 0.5}")
    assert read(text, ["learning.optimizer.type=sgd"]).dump()["learning"]["optimizer"]["lr"] == 0.1


@pytest.mark.parametrize("turn", [1, -1])
def test_type_and_option_may_be_in_any_order(read, small: str, turn: int) -> None:
    chosen = ["structure.encoder.type=lstm", "structure.encoder.layers=3", "structure.encoder.bidirectional=true"][::turn]
    encoder = read(small, chosen).dump()["structure"]["encoder"]
    assert encoder == {"type": "lstm", "layers": 3, "bidirectional": True, "dropout": 0.0}


def test_nested_overrides_are_kept_by_a_later_type(read, small: str) -> None:
    text = small.replace("{type: transformer, layers: 1}", "{type: lstm, layers: 5}")
    chosen = ["structure.encoder.layer.mixer.heads=2", "structure.encoder.type=transformer"]
    encoder = read(text, chosen).dump()["structure"]["encoder"]
    assert encoder["layer"]["mixer"]["heads"] == 2
    assert encoder["layers"] == 2  # the Transformer's own default, not the LSTM's 5


def test_the_last_override_of_a_path_applies(read, small: str) -> None:
    assert read(small, ["structure.dim=32", "structure.dim=64"]).dump()["structure"]["dim"] == 64


def test_a_graft_is_overridden(read, small: str) -> None:
    text = small.replace("type: seq2seq\n", "type: transformer-base\n").replace("  encoder: {type: transformer, layers: 1}\n", "")
    text = text.replace("  decoder: transformer\n", "").replace("dim: 16", "dim: 16\n  layers: 1\n  heads: 2")
    run = read(text, ["structure.with.encoder.layer.mixer.heads=4"]).dump()
    assert run["structure"]["encoder"]["layer"]["mixer"]["heads"] == 4
    assert run["structure"]["decoder"]["layer"]["mixer"]["heads"] == 2


def test_an_override_changes_one_copy_of_an_alias(read, small: str) -> None:
    text = small.replace("{type: transformer, layers: 1}", "&t {type: transformer, layers: 1}")
    text = text.replace("decoder: transformer", "decoder: *t")
    run = read(text, ["structure.encoder.layers=5"]).dump()["structure"]
    assert (run["encoder"]["layers"], run["decoder"]["layers"]) == (5, 1)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("structure", "structure: an override is path=value, as in learning.steps=100"),
        ("=3", "=3: an override is path=value, as in learning.steps=100"),
        ("structure..dim=3", "structure..dim=3: an override is path=value, as in learning.steps=100"),
        ("structure.dim.x=3", "structure.dim: cannot set an option below the scalar 16"),
        ("device=@x", "device: not valid YAML: a value cannot start with @; put it in quotes"),
        ("data={type: dates", "data: not valid YAML: the { that opens here is not closed"),
        ("device='x", "device: not valid YAML: the quote that opens here is not closed"),
        ("device=#x", "device: '#x' is only a comment; does it need quotes?"),
        ("device=a\n---\nb", "device: a recipe is one YAML document, but a second one starts here"),
        ("device=!!python/name:os.system", "device: cannot read '' as !!python/name:os.system; a recipe has plain values only"),
        ("data={train: 1, train: 2}", "data.train: duplicate key 'train' (first: command line)"),
        ("device.x=1", 'device: must be auto, cpu, cuda or mps, not {"type": "auto", "x": 1}'),
        ("evaluate.metrics.0=bleu", 'evaluate.metrics.0: must be a list of Metric, not "bleu": write [bleu]'),
        (
            "evaluate.metrics=bleu",
            'evaluate.metrics: must be a list of Metric or a mapping of names to such lists or null, not "bleu": write [bleu]',
        ),
        (
            "structure.encoder.type=lsmt",
            "structure.encoder.type: no Encoder named 'lsmt'; did you mean 'lstm'? "
            "(known: bag-of-words, cnn, lstm, gru, transformer, shared-transformer; your own: --import MODULE)",
        ),
        (
            "structure.encoder.heads=2",
            "structure.encoder.heads: Transformer has no option 'heads'; did you mean 'layer.mixer.heads'? "
            "(options: layers, layer, position, norm, layer_mix)",
        ),
    ],
)
def test_wrong_overrides_are_reported(errors_of, small: str, assignment: str, message: str) -> None:
    text = small.replace("seed: 1", "seed: 1\ndevice: auto")
    assert errors_of(text, [assignment]) == [f"command line: {message}"]


def test_an_index_must_exist(errors_of, small: str) -> None:
    text = small + "evaluate: {metrics: [bleu]}\n"
    for step in ("1", "-1", "x", "²", "99999999999999999999"):
        assert errors_of(text, [f"evaluate.metrics.{step}=bleu"]) == [
            f"command line: evaluate.metrics.{step}: {step!r} is not an index of this list (indices: 0)"
        ]
        assert "is not an index of this list" in errors_of(text, [f"evaluate.metrics.{step}.field=a"])[0]


def test_an_option_below_a_reference_is_an_error(errors_of, read, small: str) -> None:
    text = small.replace("decoder: transformer", 'decoder: "${structure.encoder}"')
    assert errors_of(text, ["structure.decoder.layers=3"]) == [
        "command line: structure.decoder: this is the reference ${structure.encoder}: "
        "change the value it refers to, or assign a full value here first"
    ]
    assert read(text, ["structure.encoder.layers=3"]).dump()["structure"]["decoder"]["layers"] == 3
    chosen = ["structure.decoder=transformer", "structure.decoder.layers=3"]
    assert read(text, chosen).dump()["structure"]["decoder"]["layers"] == 3


def test_an_override_may_be_a_reference(read, small: str) -> None:
    chosen = ["structure.decoder=${structure.encoder}", "structure.encoder.layers=${seed}", "seed=4"]
    assert read(small, chosen).dump()["structure"]["decoder"]["layers"] == 4


def test_all_errors_are_reported_at_once(errors_of, small: str) -> None:
    lines = errors_of(
        small.replace("steps: 3", "steps: 0\n  keep: many"), ["x", "device=gpu", "structure.dim.y=1", "seed=${nope}"]
    )
    assert [line.rpartition(": ")[0].partition(": ")[0] for line in lines] == ["command line"] * 4 + ["r.yaml:11", "r.yaml:12"]
