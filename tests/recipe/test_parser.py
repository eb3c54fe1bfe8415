"""Parts and options: parsing, and the location of errors."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import pytest
import torch
from annotated_types import Ge, Gt, Le, Lt

from weft.blocks import LSTM, MultiHeadAttention, Transformer
from weft.core.contracts import Encoder, Norm
from weft.core.fields import Info, TextField
from weft.core.options import Count, Dim, File, Fraction, Layers
from weft.core.registry import CATALOG, block, option_parameters, unregister
from weft.models import Seq2Seq
from weft.recipe import Node, Part, RecipeError, RecipeParser
from weft.recipe.describe import allowed

INFO = Info({"source": TextField("source", 11), "target": TextField("target", 11)}, target="target")


# ---------------------------------------------------------------------------------------------------------------- parts


def test_the_three_ways_to_write_a_part(read, small: str) -> None:
    written = small.replace("encoder: {type: transformer, layers: 1}", "encoder: {}")
    default = read(written).dump()["structure"]["encoder"]
    assert default == {"type": "lstm", "layers": 1, "bidirectional": True, "dropout": 0.0}  # the slot's default, not the block's
    options = read(written.replace("{}", "{layers: 3}")).dump()["structure"]["encoder"]
    assert options == {**default, "layers": 3}
    bare = read(written.replace("{}", "lstm")).dump()["structure"]["encoder"]
    assert bare == {**default, "bidirectional": False}
    assert bare == read(written.replace("{}", "{type: lstm}")).dump()["structure"]["encoder"]


def test_a_name_with_underscores_is_the_one_with_hyphens(read, errors_of, small: str) -> None:
    evaluated = small + "evaluate: {every: 1, metrics: [exact_match, exact-match, {type: exact_match}], monitor: exact-match}\n"
    evaluation = read(evaluated).evaluation()
    assert [type(metric).__name__ for metric in evaluation.metrics] == ["ExactMatch"] * 3 and evaluation.monitor == "exact_match"
    assert "did you mean 'exact-match'" in errors_of(small + "evaluate: {metrics: [exact_matsch]}\n")[0]


def test_null_for_an_optional_part(read, small: str) -> None:
    text = small.replace("layers: 1", "layers: 1, position: null, norm: ~")
    encoder = read(text).dump()["structure"]["encoder"]
    assert (encoder["position"], encoder["norm"]) == (None, None)


def test_a_list_is_cycled_over_the_layers(read, small: str) -> None:
    text = small.replace("layers: 1", "layers: 3, layer: [{mixer: {heads: 2}}, transformer-layer]")
    built = read(text).structure(INFO)
    assert [layer.mixer.heads for layer in built.encoder.stack.layers] == [2, 4, 2]


def test_objectives_by_name(read, small: str) -> None:
    text = small.replace("objective: next-token", "objective: {a: next-token, b: {type: next-token, label_smoothing: 0.1}}")
    assert list(read(text).objective) == ["a", "b"]


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        ("{tpye: next-token}", ["objective.tpye: 'tpye' is too similar to 'type'; did you mean 'type'?"]),
        (
            "{label_smoothing: 0.1}",
            [
                "objective.label_smoothing: without a type, these are several Objective parts by name: "
                "'label_smoothing' must be one, not 0.1"
            ],
        ),
        ("{}", ["objective: an empty mapping; at least one Objective is needed"]),
        ("[next-token]", ['objective: must be an Objective, a name or {type: name, ...}, not ["next-token"]']),
        (
            "{a: next-tokn}",
            [
                "objective.a: no Objective named 'next-tokn'; did you mean 'next-token'? "
                "(known: {objectives}; your own: --import MODULE)"
            ],
        ),
        ("{a: {}}", ["objective.a: needs a type: which Objective? (known: {objectives})"]),
    ],
)
def test_wrong_objectives_are_reported(errors_of, small: str, written: str, messages: list[str]) -> None:
    kind = next(k for k in CATALOG if k.__name__ == "Objective")
    known = ", ".join(CATALOG[kind])
    found = errors_of(small.replace("objective: next-token", f"objective: {written}"))
    assert found == [f"r.yaml:8: {m.replace('{objectives}', known)}" for m in messages]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "dim: 16",
            "dmi: 16",
            "5: structure.dmi: Seq2Seq has no option 'dmi'; did you mean 'dim'? "
            "(options: dim, embedder, target_embedder, encoder, decoder, pooler, head, weights)",
        ),
        (
            "type: transformer, layers: 1",
            "type: transfomer",
            "6: structure.encoder.type: no Encoder named 'transfomer'; did you mean 'transformer'? "
            "(known: bag-of-words, cnn, lstm, gru, transformer, shared-transformer; your own: --import MODULE)",
        ),
        (
            "decoder: transformer",
            "decoder: Transformer",
            "7: structure.decoder: no Decoder named 'Transformer'; did you mean 'transformer'? "
            "(known: lstm, gru, attention-lstm, attention-gru, transformer; your own: --import MODULE)",
        ),
        ("dim: 16", "dim: 0", "5: structure.dim: must be an integer from 1 to 1,000,000, not 0"),
        ("dim: 16", "dim: 16.0", "5: structure.dim: must be an integer from 1 to 1,000,000, not 16.0"),
        ("dim: 16", "dim: true", "5: structure.dim: must be an integer from 1 to 1,000,000, not true"),
        ("dim: 16", "dim:", "5: structure.dim: must be an integer from 1 to 1,000,000, not null"),
        ("dim: 16", "dim: .nan", "5: structure.dim: must be an integer from 1 to 1,000,000, not NaN"),
        ("dim: 16", "dim: '16'", '5: structure.dim: must be an integer from 1 to 1,000,000, not "16"'),
        (
            "layers: 1",
            "layers: 1000000000000",
            "6: structure.encoder.layers: must be an integer from 1 to 1,000, not 1000000000000",
        ),
        ("steps: 3", "steps: -3", "11: learning.steps: must be an integer from 1 to 10^12 or null, not -3"),
        ("lr: 0.01", "lr: 0", "12: learning.optimizer.lr: must be a number above 0, up to 10^12, not 0"),
        ("lr: 0.01", "lr: .nan", "12: learning.optimizer.lr: must be a number above 0, up to 10^12, not NaN"),
        ("lr: 0.01", "lr: 1e999", "12: learning.optimizer.lr: must be a number above 0, up to 10^12, not Infinity"),
        ("lr: 0.01", "betas: [1, 0.9]", "12: learning.optimizer.betas.0: must be a number from 0 to below 1, not 1"),
        ("seed: 1", "device: gpu", '1: device: must be auto, cpu, cuda or mps, not "gpu"'),
        ("seed: 1", "device: cup", "1: device: must be auto, cpu, cuda or mps, not \"cup\"; did you mean 'cpu'?"),
        ("seed: 1", "precision: fp23", "1: precision: must be fp32 or bf16, not \"fp23\"; did you mean 'fp32'?"),
        ("seed: 1", "format: true", "1: format: must be 1, not true"),
        ("seed: 1", "format: 1.0", "1: format: must be 1, not 1.0"),
        ("seed: 1", "format: 2", "1: format: must be 1, not 2"),
        ("train: 100", "languages: [de, dee]", '2: data.languages.1: must be de, en, es, fr, it, nl, pt or sv, not "dee"; {de}'),
        ("train: 100", "languages: de", '2: data.languages: must be a list of de, en, es, fr, it, nl, pt or sv, not "de"; {de}'),
        ("layers: 1", "dim: 3", "6: structure.encoder.dim: 'dim' is set by the enclosing part, not by the recipe"),
        (
            "layers: 1",
            "wiht: {}",
            "6: structure.encoder.wiht: Transformer has no option 'wiht'; did you mean 'with'? {transformer}",
        ),
        (
            "layers: 1",
            "heads: 1",
            "6: structure.encoder.heads: Transformer has no option 'heads'; did you mean 'layer.mixer.heads'? {transformer}",
        ),
        ("{type: transformer, layers: 1}", "{typ: lstm}", "6: structure.encoder.typ: no key 'typ' here; did you mean 'type'?"),
        ("{type: transformer, layers: 1}", "[lstm]", '6: structure.encoder: {encoder}, not ["lstm"]'),
        ("{type: transformer, layers: 1}", "3", "6: structure.encoder: {encoder}, not 3"),
        ("{type: transformer, layers: 1}", "{type: 3}", "6: structure.encoder.type: no Encoder named 3 {encoders}"),
        ("{type: transformer, layers: 1}", "{type: [lstm]}", '6: structure.encoder.type: no Encoder named ["lstm"] {encoders}'),
        (
            "{type: transformer, layers: 1}",
            "adam",
            "6: structure.encoder: no Encoder named 'adam': that is an Optimizer {encoders}",
        ),
        ("{type: dates, train: 100}", "{}", "2: data: an empty mapping; at least one Data is needed"),
        (
            "{type: dates, train: 100}",
            "{train: x.tsv}",
            "2: data.train: without a type, these are several Data parts by name: 'train' must be one, not \"x.tsv\" {datas}",
        ),
        ("layers: 1}", "layers: 1, layer: {mask: window}}", "6: structure.encoder.layer.mask: Window needs 'reach'"),
        ("objective: next-token\n", "", "1: a recipe needs 'objective'"),
    ],
)
def test_wrong_values_are_located(errors_of, small: str, old: str, new: str, message: str) -> None:
    shorthands = {
        "{de}": "did you mean 'de'?",
        "{transformer}": f"(options: {', '.join(option_parameters(Transformer))})",
        "{encoder}": "must be an Encoder, a name or {type: name, ...}",
        "{encoders}": f"(known: {', '.join(CATALOG[Encoder])}; your own: --import MODULE)",
        "{datas}": f"(known: {', '.join(next(v for k, v in CATALOG.items() if k.__name__ == 'Data'))})",
    }
    for short, long in shorthands.items():
        message = message.replace(short, long)
    assert old in small
    assert errors_of(small.replace(old, new)) == [f"r.yaml:{message}"]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{split: 1}", "evaluate.split: must be a string, not 1: put it in quotes"),
        ("{split: true}", "evaluate.split: must be a string, not true: put it in quotes"),
        ("{split: [a]}", 'evaluate.split: must be a string, not ["a"]'),
        (
            "{metrics: bleu}",
            'evaluate.metrics: must be a list of Metric or a mapping of names to such lists or null, not "bleu": write [bleu]',
        ),
        ("{metrics: []}", "evaluate.metrics: an empty list; at least one Metric is needed"),
        ("{metrics: [bleu, null]}", "evaluate.metrics.1: must be a Metric, a name or {type: name, ...}, not null"),
        (
            "{search: {beams: 3}}",
            "evaluate.search.beams: GreedySearch has no option 'beams'; 'beam' has one "
            "(options: max_length, max_length_ratio, max_length_extra)",
        ),
    ],
)
def test_wrong_evaluation_options_are_located(errors_of, small: str, written: str, message: str) -> None:
    assert errors_of(small + f"evaluate: {written}\n") == [f"r.yaml:13: {message}"]


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        ("every: -1", ["every: must be an integer from 0 to 10^12 or {epochs: an integer from 0 to 10^12}, not -1"]),
        ("every: {epoch: 1}", ["every.epoch: no key 'epoch' here; did you mean 'epochs'? (known: epochs)"]),
        ("every: {epochs: x}", ['every.epochs: must be an integer from 0 to 10^12, not "x"']),
        ("train: 3", ["train: must be a list of strings, not 3"]),
        (
            "train: [3, a, true]",
            ["train.0: must be a string, not 3: put it in quotes", "train.2: must be a string, not true: put it in quotes"],
        ),
        ("clip: x", ['clip: must be a number from 0 to 10^12 or null, not "x"']),
    ],
)
def test_wrong_phases_are_located(errors_of, small: str, written: str, messages: list[str]) -> None:
    found = errors_of(small + f"  phases:\n    - {{repeat: 1}}\n    - {{{written}}}\n")
    assert found == [f"r.yaml:15: learning.phases.1.{m}" for m in messages]


def test_all_errors_are_reported_in_the_order_of_lines(errors_of) -> None:
    text = """\
learning: {type: gradient, stpes: 3, optimizer: {type: adma, lr: 1}}
objective: 3
structure:
  type: seq2seq
  dim: -1
  dim: 3
  encoder: {type: transformer, layer: [{mixer: {haeds: 3}}, {feedforward: gatd}]}
  decoder: "${structure.encodr}"
  pooler: !!python/name:os.system
strange: {a: 1}
"""
    assert [line.split(": ")[:2] for line in errors_of(text, ["device=3"])] == [
        ["command line", "device"],
        ["r.yaml:1", "learning.stpes"],
        ["r.yaml:1", "learning.optimizer.type"],
        ["r.yaml:1", "a recipe needs 'data'"],
        ["r.yaml:2", "objective"],
        ["r.yaml:6", "structure.dim"],
        ["r.yaml:7", "structure.encoder.layer.0.mixer.haeds"],
        ["r.yaml:7", "structure.encoder.layer.1.feedforward"],
        ["r.yaml:8", "structure.decoder"],
        ["r.yaml:9", "structure.pooler"],
        ["r.yaml:10", "strange"],
    ]


def test_a_misspelled_option_is_not_also_reported_as_missing(errors_of, small: str) -> None:
    (line,) = errors_of(small.replace("steps: 3", "stesp: 3"))
    assert "did you mean 'steps'?" in line


def test_names_come_from_the_catalog_only(errors_of, small: str) -> None:
    for name in ("weft.blocks.LSTM", "os.system", "__import__('os')", "../lstm", "LSTM\\0", "builtins:eval"):
        (line,) = errors_of(small.replace("decoder: transformer", f'decoder: "{name}"'))
        assert line.startswith("r.yaml:7: structure.decoder: no Decoder named ")


# ------------------------------------------------------------------------------------------------------- constructors


def refused(build: object, *given: object) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        build(*given)  # pyright: ignore[reportCallIssue]
    return str(caught.value).splitlines()


def test_an_error_of_a_constructor_is_located(read, small: str) -> None:
    text = small.replace("layers: 1", "layers: 1, layer: {mixer: {heads: 3}}")
    assert refused(read(text).structure, INFO) == [
        "r.yaml:6: structure.encoder.layer.mixer: dim 16 is not divisible by 3 heads; change dim or heads, or set head_dim"
    ]


def test_an_error_of_a_default_is_located(read, small: str) -> None:
    (line,) = refused(read(small.replace("dim: 16", "dim: 6")).structure, INFO)
    assert line.startswith("r.yaml:6: structure.encoder.layer.mixer: dim 6 is not divisible by 4 heads")
    (line,) = refused(read(small.replace("dim: 16", "dim: 6").replace("{type: transformer, layers: 1}", "gru")).structure, INFO)
    assert line.startswith("r.yaml:7: structure.decoder.layer.mixer: dim 6 is not divisible by 4 heads")


def test_errors_in_lists_and_mappings_are_located(read, small: str) -> None:
    text = small.replace("layers: 1", "layers: 2, layer: [{mixer: {heads: 2}},\n    {mixer: {heads: 3}}]")
    (line,) = refused(read(text).structure, INFO)
    assert line.startswith("r.yaml:7: structure.encoder.layer.1.mixer: dim 16 is not divisible by 3 heads")
    text = small.replace("objective: next-token", "objective:\n  a: next-token\n  b: classification")
    (line,) = refused(read(text).objective["b"], INFO, 16)
    assert line.startswith("r.yaml:10: objective.b: needs a field 'label'")


def test_errors_of_an_override_are_located_on_the_command_line(read, small: str) -> None:
    (line,) = refused(read(small, ["structure.encoder={type: lstm, bidirectional: true}", "structure.dim=7"]).structure, INFO)
    assert line.startswith("command line: structure.encoder: dim 7 is odd")


def test_errors_of_a_named_model_are_located(read, small: str) -> None:
    text = (
        small[: small.index("structure:")]
        + "structure: {type: transformer-base, heads: 7}\n"
        + small[small.index("objective:") :]
    )
    (line,) = refused(read(text).structure, INFO)
    assert line.startswith("r.yaml:3: structure.encoder.layer.mixer: dim 512 is not divisible by 7 heads")


def test_a_part_is_a_partial(read, small: str) -> None:
    run = read(small)
    assert isinstance(run.structure, Part)
    assert isinstance(run.structure, partial)
    assert run.structure.func is Seq2Seq
    assert isinstance(run.structure.keywords["encoder"], Part)
    assert run.structure.keywords["encoder"].path == "structure.encoder"
    assert isinstance(run.structure(INFO), torch.nn.Module)


def test_errors_of_parts_from_python_are_located() -> None:
    from weft.objectives import NextToken, Weighted
    from weft.recipe.part import part

    found = part(partial(Weighted, parts={"a": NextToken, "b": partial(NextToken, label_smoothing=0.5)}), "r.yaml:3", "objective")
    assert [(p.path, p.where) for p in found.keywords["parts"].values()] == [
        ("objective.parts.a", "r.yaml:3"),
        ("objective.parts.b", "r.yaml:3"),
    ]


def test_exceptions_other_than_value_errors_are_not_caught() -> None:
    def broken() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        Part(broken)()


# ---------------------------------------------------------------------------------------------------------- signatures


@pytest.fixture
def odd_norm():
    """A block with options of many types."""

    @block("odd-norm")
    class OddNorm(Norm):
        """Normalizes oddly."""

        def __init__(
            self,
            dim: int,
            *,
            file: File | None = None,
            files: tuple[File, File] | None = None,
            many: list[File] = [],
            by_name: dict[str, File] = {},
            pairs: tuple[int, str] = (1, "a"),
            either: int | Literal["all"] = "all",
            words: dict[str, str] = {},
            inner: dict[str, list[Fraction]] = {},
        ):
            super().__init__(dim)
            self.file = file

    yield OddNorm
    unregister(OddNorm)


def read_odd(written: dict, folder: Path = Path(), where: str = "r.yaml:1") -> object:
    from weft.recipe import from_plain

    parser = RecipeParser(folder)
    found = parser.part(Norm, from_plain({"type": "odd-norm", **written}, where), "norm")
    return found.keywords if found is not None else [f"{p.path}: {p.text}" for p in parser.problems]


@pytest.mark.usefixtures("odd_norm")
def test_leaves_of_every_type_are_validated() -> None:
    found = read_odd({"pairs": [3, "x"], "either": 3, "words": {"*": "a.*"}, "inner": {"a": [0, 0.5]}})
    assert isinstance(found, dict)
    assert found["pairs"] == (3, "x")
    assert (found["either"], found["words"], found["inner"]) == (3, {"*": "a.*"}, {"a": [0.0, 0.5]})
    assert read_odd({"pairs": [3]}) == ["norm.pairs: must be a list of 2 integers, not [3]"]
    assert read_odd({"pairs": [3, 4]}) == ["norm.pairs.1: must be a string, not 4: put it in quotes"]
    assert read_odd({"either": "al"}) == ["norm.either: must be an integer or all, not \"al\"; did you mean 'all'?"]
    assert read_odd({"either": 1.0}) == ["norm.either: must be an integer or all, not 1.0"]
    assert read_odd({"either": True}) == ["norm.either: must be an integer or all, not true"]
    assert read_odd({"words": {"a": 1}}) == ["norm.words.a: must be a string, not 1: put it in quotes"]
    assert read_odd({"words": ["a"]}) == ['norm.words: must be a mapping of names to strings, not ["a"]']
    assert read_odd({"inner": {"a": [0, 2], "b": [-1]}}) == [
        "norm.inner.a.1: must be a number from 0 to 1, not 2",
        "norm.inner.b.0: must be a number from 0 to 1, not -1",
    ]


@pytest.mark.usefixtures("odd_norm")
def test_files_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    file = tmp_path / "a.txt"
    file.write_text("hello", encoding="utf-8")
    digest = hashlib.sha256(b"hello").hexdigest()
    resolved = str(file.resolve())
    for written in ("a.txt", "./data/../a.txt", str(file), {"path": "a.txt", "sha256": digest}):
        found = read_odd({"file": written}, tmp_path)
        assert isinstance(found, dict), found
        assert found["file"] == resolved
    found = read_odd(
        {"files": ["a.txt", {"path": "a.txt", "sha256": digest}], "many": ["a.txt"], "by_name": {"x": "a.txt"}}, tmp_path
    )
    assert isinstance(found, dict), found
    assert (found["files"], found["many"], found["by_name"]) == ((resolved, resolved), [resolved], {"x": resolved})


@pytest.mark.usefixtures("odd_norm")
def test_files_on_the_command_line_are_also_searched_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    recipes, here = tmp_path / "recipes", tmp_path / "here"
    for folder, name in ((recipes, "both.txt"), (here, "both.txt"), (here, "mine.txt")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("hello", encoding="utf-8")
    monkeypatch.chdir(here)

    def found(name: str, where: str) -> object:
        read = read_odd({"file": name}, recipes, where)
        return Path(read["file"]) if isinstance(read, dict) else read

    assert found("mine.txt", "command line") == (here / "mine.txt").resolve()
    assert found("both.txt", "command line") == (recipes / "both.txt").resolve()
    paths = [str((folder / "none.txt").resolve()) for folder in (recipes, here)]
    unset = " (WEFT_DATA, a second folder to search, is not set)"
    assert found("none.txt", "command line") == [f"norm.file: there is no file {paths[0]}, nor {paths[1]}{unset}"]
    assert found("mine.txt", "r.yaml:1") == [f"norm.file: there is no file {(recipes / 'mine.txt').resolve()}{unset}"]


@pytest.mark.usefixtures("odd_norm")
def test_missing_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_DATA", raising=False)
    unset = " (WEFT_DATA, a second folder to search, is not set)"
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    folder = tmp_path.resolve()
    other = hashlib.sha256(b"other").hexdigest()
    form = "norm.file: a file must be a path, or {path: ..., sha256: ...}"
    assert read_odd({"file": "b.txt"}, tmp_path) == [f"norm.file: there is no file {folder / 'b.txt'}{unset}"]
    assert read_odd({"file": "/b.txt"}, tmp_path) == ["norm.file: there is no file /b.txt"]
    assert read_odd({"file": "."}, tmp_path) == [f"norm.file: {folder} is a folder, not a file"]
    for empty in ("", " "):  # else the folder of the recipe
        assert read_odd({"file": empty}, tmp_path) == [f'norm.file: must be the path of a file, not "{empty}"']
    assert read_odd({"file": 3}, tmp_path) == ["norm.file: must be the path of a file, not 3"]
    assert read_odd({"file": {"path": "a.txt"}}, tmp_path) == [form]
    assert read_odd({"file": {"path": "a.txt", "sha256": 3}}, tmp_path) == [form]
    assert read_odd({"file": {"path": "a.txt", "sha256": other, "x": ""}}, tmp_path) == [form]
    mine = hashlib.sha256(b"hello").hexdigest()
    assert read_odd({"file": {"path": "a.txt", "sha256": other}}, tmp_path) == [
        f"norm.file: {folder / 'a.txt'} is not the file of this recipe: its SHA-256 is {mine[:12]}..., not {other[:12]}..."
    ]
    for odd in ("x" * 5000, "loop", "a\0b"):
        (line,) = read_odd({"file": odd}, tmp_path)  # pyright: ignore[reportGeneralTypeIssues]
        assert line.startswith("norm.file: ")
        assert len(line) < 400
    assert read_odd({"files": ["a.txt", "c"], "many": ["d"], "by_name": {"x": "e"}}, tmp_path) == [
        f"norm.files.1: there is no file {folder / 'c'}{unset}",
        f"norm.many.0: there is no file {folder / 'd'}{unset}",
        f"norm.by_name.x: there is no file {folder / 'e'}{unset}",
    ]


@pytest.mark.usefixtures("odd_norm")
def test_files_are_also_searched_under_weft_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, elsewhere = tmp_path / "recipes", tmp_path / "data"
    for folder, name in ((beside, "both"), (elsewhere, "both"), (elsewhere, "there")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(folder.name, encoding="utf-8")
    monkeypatch.setenv("WEFT_DATA", str(elsewhere))
    found = read_odd({"files": ["both", "there"]}, beside)
    assert isinstance(found, dict)
    assert found["files"] == (str(beside.resolve() / "both"), str(elsewhere.resolve() / "there"))
    missing = f"norm.file: there is no file {beside.resolve() / 'none'}, nor {elsewhere.resolve() / 'none'}"
    assert read_odd({"file": "none"}, beside) == [missing]


def test_paths_are_relative_to_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.training.recipes import read_run

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "t.txt").write_text("a b\n", encoding="utf-8")
    recipe = (
        "data: {type: plain-text, train: t.txt}\nstructure: language-model\nobjective: next-token\n"
        "learning: {type: gradient, steps: 1}\n"
    )
    (tmp_path / "sub" / "r.yaml").write_text(recipe, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run = read_run("sub/r.yaml")
    assert run.data.keywords["train"] == str((tmp_path / "sub" / "t.txt").resolve())
    filled = run.dump(hashes=True)["data"]["train"]
    assert filled["sha256"] == hashlib.sha256(b"a b\n").hexdigest()
    with pytest.raises(RecipeError, match=r"^sub/r.yaml:1: data.train: there is no file .*other"):
        (tmp_path / "sub" / "r.yaml").write_text(recipe.replace("t.txt", "other"), encoding="utf-8")
        read_run("sub/r.yaml")


def test_an_option_cannot_have_a_reserved_name() -> None:
    class Bad(Norm):
        def __init__(self, dim: int, *, type: int = 1):
            super().__init__(dim)

    with pytest.raises(TypeError, match="Bad: an option cannot be named 'type', which is a reserved key of recipes"):
        block("bad")(Bad)
    assert "bad" not in CATALOG[Norm]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Dim, "an integer from 1 to 1,000,000"),
        (Layers, "an integer from 1 to 1,000"),
        (Count | None, "an integer from 1 to 10^12 or null"),
        (Annotated[float, Gt(0), Lt(1)], "a number between 0 and 1"),
        (Annotated[float, Gt(-1.5)], "a number above -1.5"),
        (Annotated[int, Ge(2)], "an integer from 2"),
        (Annotated[int, Le(2)], "an integer up to 2"),
        (Annotated[int, Lt(-(10**9))], "an integer below -10^9"),
        (Annotated[float, Ge(0), Lt(1)], "a number from 0 to below 1"),
        (bool, "true or false"),
        (str, "a string"),
        (Literal["a"], "a"),
        (Literal["a", "b", 3], "a, b or 3"),
        (list[str], "a list of strings"),
        (list[list[int]], "a list of lists of integers"),
        (tuple[Fraction, ...], "a list of numbers from 0 to 1"),
        (tuple[File, File], "a list of 2 paths of files"),
        (File, "the path of a file"),
        (dict[str, float], "a mapping of names to numbers"),
        (dict[Literal["epochs"], Count], "{epochs: an integer from 1 to 10^12}"),
        (bytes, "bytes"),
    ],
)
def test_allowed_values_are_described(annotation: object, words: str) -> None:
    assert allowed(annotation) == words


def test_a_parser_without_a_recipe() -> None:
    parser = RecipeParser()
    found = parser.read(Encoder, Node("lstm", "here"), "encoder")
    assert found.func is LSTM
    assert parser.read(Encoder, Node("lsmt", "here"), "encoder") is None
    assert [str(p) for p in parser.problems] == [
        "here: encoder: no Encoder named 'lsmt'; did you mean 'lstm'? "
        "(known: bag-of-words, cnn, lstm, gru, transformer, shared-transformer; your own: --import MODULE)"
    ]
    assert MultiHeadAttention(8, 8, heads=2).heads == 2


@pytest.mark.parametrize(
    ("key", "meant"),
    [("steps", "learning.steps"), ("lr", "learning.optimizer.lr"), ("metrics", "evaluate.metrics"), ("x_y_z", None)],
)
def test_an_option_of_a_part_at_the_top_level_is_suggested_with_its_path(errors_of, small: str, key: str, meant: str) -> None:
    (line,) = errors_of(f"{small.rstrip()}\nevaluate: {{every: 10}}\n{key}: 3\n")
    hint = f"; did you mean {meant!r}?" if meant else ""
    assert line.partition(" (options: ")[0].endswith(f": {key}: a recipe has no option {key!r}{hint}")
