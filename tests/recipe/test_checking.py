"""``weft check``: the report of a valid recipe, and the errors of incompatible parts."""

from __future__ import annotations

import pytest
import torch

from weft.cli.check_report import print_reports, warnings_of
from weft.cli.listing import print_catalog
from weft.core.contracts import Metric
from weft.evaluate import Evaluation
from weft.objectives import NextToken
from weft.recipe import RecipeError
from weft.training.dry_run import check

LIGHT = ["structure.encoder=bag-of-words", "structure.decoder={type: transformer, layers: 1}"]


def refused(run) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        check(run)
    return str(caught.value).splitlines()


def test_the_report_lists_parameters_shapes_and_cost(read, small: str) -> None:
    (report,) = check(read(small))
    run = read(small)
    built = run.structure(report.info)
    assert report.parameters == sum(p.numel() for p in built.parameters())
    rows = {row.name: row for row in report.rows}
    assert rows["encoder"].kind == "Transformer"
    assert rows["encoder"].parameters == sum(p.numel() for p in built.encoder.parameters())
    batch, length, width = map(int, rows["encoder"].shape.split(" x "))
    assert width == 16
    assert (batch, length) == (report.batch[0], length)
    assert report.memory > 16 * report.parameters
    assert report.operations > 0
    assert report.terms == ["loss"]


def test_nothing_is_opened_or_allocated(read, small: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.txt").write_text("a\n", encoding="utf-8")
    text = small[: small.index("structure:")].replace("{type: dates, train: 100}", "{type: plain-text, train: t.txt}")
    text += (
        "structure: {type: language-model, dim: 640000, decoder: {type: transformer, layers: 1}}\n"
        + small[small.index("objective:") :]
    )
    run = read(text, folder=tmp_path)
    (tmp_path / "t.txt").unlink()
    (report,) = check(run)
    assert report.parameters > 10**12  # it would not fit into any machine
    assert torch.get_default_device().type == "cpu"


def test_an_incompatible_structure_and_objective_are_reported(read, small: str, tmp_path) -> None:
    (tmp_path / "t.tsv").write_text("text\tlabel\na\tx\nb\ty\n", encoding="utf-8")
    text = small[: small.index("structure:")].replace(
        "{type: dates, train: 100}", "{type: labeled-text, train: t.tsv, labels: [x, y]}"
    )
    text += "structure: {type: classifier, encoder: bag-of-words}\n" + small[small.index("objective:") :]
    (line,) = refused(read(text, folder=tmp_path))
    found, _, usable = line.partition("; use one of: ")
    assert found == (
        "r.yaml:4: objective: the objective 'next-token' needs a structure that provides Decodes, "
        "but the structure 'classifier' provides: Encodes, Embeds, Classifies"
    )
    assert {"seq2seq", "language-model"} <= set(usable.split(", ")) and "classifier" not in usable.split(", ")


@pytest.mark.parametrize(
    ("change", "message"),
    {
        "evaluate.monitor=f1": "evaluate.monitor: monitor is 'f1', but the evaluation returns: loss",
        "learning.lr_factors={enc: 0.1}": "learning.lr_factors: phase main: lr_factors: 'enc' matches no trained parameter "
        "(available: embed",
        "learning.patience=3": "learning.patience: patience needs evaluations during training",
        "learning.final=best": "learning.final: final: best needs evaluations during training",
    }.items(),
)
def test_errors_of_options_are_reported_where_they_are_set(read, small: str, change: str, message: str) -> None:
    every = ["evaluate.every=1"] if "monitor" in change else []
    (line,) = refused(read(small, [change, *every]))
    assert line.startswith(f"command line: {message}")
    option, _, value = change.partition("=")
    part, name = option.split(".")
    written = f"{small}\n" if f"{part}:" in small else f"{small}\n{part}: {{}}\n"
    head = written[: written.index(f"{part}:")].count("\n") + 1
    lines = written.splitlines()
    text = "\n".join([*lines[:head], f"  {name}: {value}", *lines[head:]])
    if lines[head - 1].strip() == f"{part}:":
        (line,) = refused(read(text, every))
        assert line.startswith(f"r.yaml:{head + 1}: {message}")


def test_an_error_of_an_inherited_option_is_reported_at_the_learning(read, small: str) -> None:
    phases = "learning.phases=[{train: [encoder.*]}, {train: [decoder.*]}]"
    lines = refused(read(small, ["learning.lr_factors={enc: 0.1}", phases]))
    assert all(line.startswith("command line: learning.lr_factors: ") for line in lines)
    own = "learning.phases=[{train: [encoder.*], lr_factors: {enc: 0.1}}, {train: [decoder.*]}]"
    (line,) = refused(read(small, [own]))
    assert line.startswith("command line: learning.phases.0.lr_factors: ")


def test_incompatible_data_is_reported(read, small: str) -> None:
    assert refused(read(small, ["objective=classification"])) == [
        "command line: objective: needs a field 'label', but the data (dates) has: source, target"
    ]


def test_errors_of_independent_parts_are_reported_together(read, small: str) -> None:
    text = small.replace("dim: 16", "dim: 6").replace("steps: 3", "steps: 3\n  average: 9")
    lines = refused(read(text))
    assert [line.split(": ")[:2] for line in lines] == [
        ["r.yaml:6", "structure.encoder.layer.mixer"],
        ["r.yaml:9", "learning"],
    ]
    lines = refused(read(text, ["data.first_year=3000"]))
    assert [line.split(": ")[:2] for line in lines] == [["r.yaml:2", "data"], ["r.yaml:9", "learning"]]


def test_phases_are_checked(read, small: str) -> None:
    text = small + "  phases:\n    - {}\n    - {objective: x}\n    - {train: [nothing.*]}\n"
    lines = refused(read(text, LIGHT))
    assert [line.split(": ")[:2] for line in lines] == [
        ["r.yaml:15", "learning.phases.1"],
        ["r.yaml:16", "learning.phases.2.train"],
    ]


def test_stages_are_checked(read, small: str) -> None:
    text = small + "stages:\n  - {name: a, learning: {steps: 1}}\n  - {name: a, learning: {steps: 1}}\n"
    assert refused(read(text, LIGHT)) == ["r.yaml:15: stages.1: two stages have the name 'a'; names must be unique"]
    reports = check(read(text, [*LIGHT, "stages.1.name=b"]))
    assert [report.stage for report in reports] == ["main", "a", "b"]
    text = small + "stages:\n  - {name: a, learning: {steps: 1}, structure: {type: seq2seq, dim: 7}}\n"
    (line,) = refused(read(text, LIGHT))
    assert line.startswith("r.yaml:14: stages.0.structure.encoder: dim 7 is odd")


@pytest.mark.parametrize(
    ("best", "metrics", "refused"),
    [
        ("loss", "", None),
        ("perplexity", "", None),
        ("exact_match", "[exact-match]", None),
        ("exact_match", "[bleu, exact-match]", None),
        ("exact-match", "[exact-match]", None),  # by its name in the catalog
        ("exact-match/dd-mm", "[{type: exact-match, group_by: language}]", None),
        ("exact_match_worst_group", "[{type: exact-match, group_by: language}]", None),
        ("exact_match/en", "[{type: exact-match, group_by: language}]", None),
        ("exact_match_worst_group", "[exact-match]", "loss, perplexity, exact_match"),
        ("bleu", "", "loss, perplexity"),
    ],
)
def test_the_monitored_metric_must_be_computed(read, small: str, best: str, metrics: str, refused: str | None) -> None:
    run = read(small, [*LIGHT, f"evaluate.monitor={best}", f"evaluate.metrics={metrics}"])
    (report,) = check(read(small, LIGHT))
    evaluation, objective = run.evaluate(), run.objective(report.info, 16)
    if refused is None:
        evaluation.check_monitor(evaluation.monitor, report.terms, objective)
    else:
        with pytest.raises(ValueError, match=f"monitor is '{best}', but the evaluation returns: {refused}$"):
            evaluation.check_monitor(evaluation.monitor, report.terms, objective)


def test_a_plug_in_metric_can_be_monitored_if_it_declares_its_direction(read, small: str) -> None:
    class Declared(Metric):
        higher_is_better = {"wer": False, "texts": None}

    (report,) = check(read(small, LIGHT))
    objective = NextToken(report.info, 16)
    Evaluation(metrics=[Declared]).check_monitor("wer", report.terms, objective)
    with pytest.raises(ValueError, match=r"'texts', which does not declare .*; choose one of: loss, perplexity, wer$"):
        Evaluation(metrics=[Declared]).check_monitor("texts", report.terms, objective)


def test_an_ema_that_keeps_the_initial_weights_is_reported(read, small: str) -> None:
    def errors_with(ema: str) -> list[str]:
        return warnings_of(read(small, [f"learning.ema={ema}"]))

    text = "the EMA still has 51% of the initial weights at the end: lower decay or set warmup: true"
    assert errors_with("{decay: 0.8}") == [f"command line: learning.ema: {text}"]
    assert errors_with("{decay: 0.4}") == errors_with("{decay: 0.8, warmup: true}") == errors_with("null") == []


def test_a_warmup_longer_than_the_run_is_reported(read, small: str, capsys: pytest.CaptureFixture[str]) -> None:
    def errors_with(*overrides: str) -> list[str]:
        return warnings_of(read(small.replace("steps: 3\n", "steps: 3\n  schedule: {type: cosine, warmup: 4}\n"), overrides))

    text = "learning.schedule: the warmup takes 4 optimizer steps but the phase has 3: the learning rate never reaches its peak"
    assert errors_with() == [f"r.yaml:12: {text}"]
    assert errors_with("learning.schedule={type: linear, warmup: 4}") == [f"command line: {text}"]
    assert errors_with("learning.steps=4") == errors_with("learning.schedule=constant") == []
    assert errors_with("learning.phases=[{repeat: 2}]") == errors_with("learning.phases=[{every: {epochs: 1}}]") == []
    (line,) = errors_with("learning.phases=[{repeat: 2}, {every: 3, schedule: {type: noam, warmup: 2}}]")
    assert line.startswith("command line: learning.phases.1.schedule: the warmup takes 2 optimizer steps but the phase has 1:")
    run = read(small, [*LIGHT, "learning.schedule=noam"])
    print_reports(run, check(run))
    assert "\nwarning     command line: learning.schedule: the warmup takes 4,000 optimizer steps" in capsys.readouterr().out


def test_the_catalog_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    print_catalog(None, None)
    listed = capsys.readouterr().out
    assert "\n  lstm " in listed
    assert listed.startswith("activation  ")
    print_catalog("encoder", None)
    assert len(capsys.readouterr().out.splitlines()) >= 5
    print_catalog("attention", "multihead")
    shown = capsys.readouterr().out
    assert "  heads  (an integer from 1 to 10,000; default 4)\n" in shown
    assert "  score  (a Score; default scaled-dot)\n" in shown
    assert "  with  (" not in shown
    assert "arxiv.org" in shown
    print_catalog("evaluation", "evaluation")
    assert (
        "  metrics  (a list of Metrics or a mapping of names to lists of Metrics or null; default null)\n"
        in capsys.readouterr().out
    )
    print_catalog("structure", "transformer-base")
    shown = capsys.readouterr().out
    assert "  with  (a mapping of paths to parts or values)\n" in shown
    assert "encoder, encoder.layer, decoder" in shown
    with pytest.raises(ValueError, match=r"unknown slot or part 'encodr'; did you mean 'encoder'\?"):
        print_catalog("encodr", None)
    with pytest.raises(ValueError, match=r"unknown encoder 'lsmt'; did you mean 'lstm'\?"):
        print_catalog("encoder", "lsmt")
