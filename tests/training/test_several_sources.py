"""Runs on several sources: named data, mixtures, evaluation of each source, resuming."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.commands import weft

from weft.core.contracts import Objective
from weft.core.io import read_json, read_lines
from weft.experiments.baselines import run_baselines
from weft.inference.convert import to_published
from weft.inference.load import load
from weft.inspect.inspection import inspect_texts
from weft.recipe import RecipeError
from weft.training.callbacks import CallbackError, UserCallbacks
from weft.training.dry_run import check
from weft.training.recipes import read_run_text
from weft.training.run import Run
from weft.training.trainer import train

MIXTURE = """
device: cpu
data:
  type: mixture
  temperature: 2
  of:
    review:
      type: text-to-text
      prefix: "sentiment: "
      of: {type: labeled-text, train: r.tsv, tokenizer: &t {type: word, vocab_size: 90}}
    copy: {type: parallel-text, train: p.tsv, tokenizer: *t}
structure: {type: seq2seq, dim: 8, encoder: {type: transformer, layers: 1}, decoder: {type: transformer, layers: 1}}
objective: next-token
learning: {type: gradient, steps: 9, batch_tokens: 150, save_every: 1}
evaluate:
  metrics: {review: [{type: accuracy, field: target}], copy: [{type: bleu}]}
"""
NAMED = """
device: cpu
data:
  reading: {type: plain-text, train: r.txt, tokenizer: &t {type: word, vocab_size: 90}}
  ner: {type: tagged-text, train: t.conll, tokenizer: *t}
structure: {type: tagger, dim: 8, encoder: {type: transformer, layers: 1}}
objective:
  lm: {type: encoder-lm, vocab_size: 50}
  tag: tagging
learning:
  type: gradient
  steps: 4
  batch_tokens: 150
  phases: [{data: reading, objective: lm}, {data: ner, objective: tag}]
evaluate: {every: 2, monitor: ner.tag-accuracy, metrics: {ner: [tag-accuracy]}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    words = [f"w{i % 7} w{i % 5} w{i % 3}" for i in range(40)]
    (tmp_path / "r.tsv").write_text(
        "text\tlabel\n" + "".join(f"{w}\t{'good' if i % 2 else 'bad'}\n" for i, w in enumerate(words))
    )
    (tmp_path / "p.tsv").write_text("source\ttarget\n" + "".join(f"{w} {i}\t{w}\n" for i, w in enumerate(words)))
    (tmp_path / "r.txt").write_text("".join(f"{w} {i}\n" for i, w in enumerate(words)))
    (tmp_path / "t.conll").write_text("".join(f"w{i % 7} B-X\nnr{i} O\n\n" for i in range(30)))
    return tmp_path


def recipe(files: Path, text: str, *overrides: str) -> Run:
    return read_run_text(text, "r.yaml", files, overrides)


def problem(files: Path, text: str, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        check(recipe(files, text, *overrides))
    return str(caught.value)


def test_each_source_is_evaluated_under_its_name(files):
    train(recipe(files, MIXTURE), files / "run")
    values = read_json(files / "run" / "metrics.json")
    assert values["loss"] == pytest.approx((values["review.loss"] + values["copy.loss"]) / 2)
    assert {"review.accuracy", "copy.bleu"} <= values.keys()
    assert not {"copy.accuracy", "review.bleu"} & values.keys()
    assert set(values["intervals"]) == {"review.accuracy", "copy.bleu"}
    assert values["higher_is_better"]["review.accuracy"] is True and values["higher_is_better"]["copy.loss"] is False
    for name in ("review", "copy"):
        lines = read_lines(files / "run" / f"predictions-{name}.jsonl")
        assert lines and all({"source", "target"} <= line["reference"].keys() for line in lines)


def test_weft_evaluate_repeats_the_final_evaluation_of_each_source(files):
    train(recipe(files, MIXTURE), files / "run")
    values, run = read_json(files / "run" / "metrics.json"), load(files / "run", "cpu")
    whole = run.evaluate()
    assert whole.metric_values == {name: pytest.approx(values[name]) for name in whole.metric_values}
    assert whole.split == "valid" and set(whole.parts) == {"review", "copy"}
    review = run.of("review").evaluate("valid").metric_values
    assert review == {name: pytest.approx(values[f"review.{name}"]) for name in review}
    rows = [("w1 w2 w0", "good"), ("w2 w2 w2", "bad")]
    assert run.of("review").evaluate([dict(zip(("text", "label"), row, strict=True)) for row in rows]).split == "files"


def test_a_table_belongs_to_one_of_several_sources(files):
    pandas = pytest.importorskip("pandas")
    train(recipe(files, MIXTURE), files / "run")
    with pytest.raises(ValueError, match=r"several sources \(review, copy\); name the one that the data belongs to"):
        load(files / "run", "cpu").evaluate(pandas.DataFrame({"text": ["w1"], "label": ["good"]}))


CLASSES = """
device: cpu
data: {review: {type: labeled-text, train: r.tsv, tokenizer: {type: word, vocab_size: 90}}}
structure: {type: classifier, dim: 8, encoder: {type: transformer, layers: 1}}
objective: classification
learning: {type: gradient, steps: 2, batch_tokens: 150}
evaluate: {metrics: {review: [{type: macro-f1}]}}
"""


def test_a_single_source_with_a_name_has_its_own_metrics(files):
    train(recipe(files, CLASSES), files / "run")
    values, run = read_json(files / "run" / "metrics.json"), load(files / "run", "cpu")
    found = run.evaluate("valid").metric_values
    assert {"loss", "review.loss", "review.macro_f1"} <= found.keys() and "review.accuracy" not in found
    assert found == {name: pytest.approx(values[name]) for name in found}
    assert run.evaluate([{"text": "w1 w2", "label": "good"}]).metric_values.keys() >= {"loss", "macro_f1"}


def test_the_splits_of_a_source_cannot_be_changed_but_its_name_may_resemble_one(files):
    train(recipe(files, CLASSES.replace("review", "train-de")), files / "run")
    for change in ("data.train-de.test=x.tsv", "data.train-de.train.0=x.tsv"):
        with pytest.raises(ValueError, match="the splits of a trained run cannot be changed"):
            load(files / "run", "cpu", [change])
    (files / "other.tsv").write_text("review\tlabel\nw1 w2\tgood\n")
    found = load(files / "run", "cpu", ["data.train-de.text=review"]).of("train-de").evaluate(str(files / "other.tsv"))
    assert len(found.predictions) == 1


def test_baselines_of_a_single_source_with_a_name(files):
    pytest.importorskip("sklearn")
    report = run_baselines(recipe(files, CLASSES))
    assert {"macro_f1"} == {name for result in report.results for name in result.metric_values}
    with pytest.raises(ValueError, match="no baselines for several sources"):
        run_baselines(recipe(files, MIXTURE))


def test_prediction_names_the_sources_where_the_first_is_not_predicted(files):
    train(recipe(files, NAMED), files / "run")
    run = load(files / "run", "cpu")
    with pytest.raises(ValueError, match=r"EncoderLM, the objective of the first source, predicts nothing.* reading, ner"):
        run.predict(["w1 w2"])
    assert len(run.of("ner").predict(["w1 w2"])[0].split()) == 2
    (shown,) = inspect_texts(run, ["w1 w2"])
    (tagged,) = inspect_texts(run.of("ner"), ["w1 w2"])
    assert shown.maps and not shown.output and tagged.output


def test_a_converted_run_has_the_classes_of_all_sources(files):
    bert = "{type: bert, task: token-classification, dim: 8, heads: 2, layers: 1, hidden: 8}"
    train(recipe(files, re.sub(r"structure: .*", f"structure: {bert}", NAMED)), files / "run")
    to_published(files / "run", files / "bert")
    config = read_json(files / "bert" / "config.json")
    assert config["id2label"] == {"0": "B-X", "1": "O"}
    tagged = load(files / "run", "cpu").of("ner").predict(["w1 nr3", "w2 w2"])
    assert load(files / "bert", "cpu").predict(["w1 nr3", "w2 w2"]) == tagged


def test_the_plots_of_a_source_have_its_name(files):
    train(recipe(files, CLASSES), files / "run")
    weft("evaluate", files / "run", "--source", "review")
    assert (files / "run" / "confusion-review.png").is_file() and not (files / "run" / "confusion.png").exists()
    assert (files / "run" / "metrics-review-valid.json").is_file()


def test_an_unknown_source_of_a_run_is_reported(files):
    train(recipe(files, MIXTURE), files / "run")
    run = load(files / "run", "cpu")
    with pytest.raises(ValueError, match=r"has no source 'x'; it has: review, copy"):
        run.of("x")
    with pytest.raises(ValueError, match=r"several sources \(review, copy\); name the one that the data belongs to"):
        run.evaluate(str(files / "r.tsv"))


@pytest.mark.parametrize("step", [1, 4, 8])
def test_a_run_interrupted_at_any_step_ends_with_the_same_weights(files, step):
    def stop(number: int, path: Path) -> None:
        if number == step:
            raise KeyError("stop")

    train(recipe(files, MIXTURE), files / "whole")
    with pytest.raises(CallbackError):
        train(recipe(files, MIXTURE), files / "run", user=UserCallbacks(on_save=stop))
    train(recipe(files, MIXTURE), files / "run", resume=True)
    whole, resumed = (load_file(files / name / "model.safetensors") for name in ("whole", "run"))
    assert whole.keys() == resumed.keys() and all((whole[name] == resumed[name]).all() for name in whole)


def test_each_phase_trains_on_its_source(files, monkeypatch):
    seen: dict[str, set[frozenset[str]]] = {}
    prepare = {name: cls.prepare for name, cls in (("lm", _class("encoder-lm")), ("tag", _class("tagging")))}

    def spy(name: str):
        def recorded(self, example, rng, dataset):
            seen.setdefault(name, set()).add(frozenset(example))
            return prepare[name](self, example, rng, dataset)

        return recorded

    for name, cls in (("lm", _class("encoder-lm")), ("tag", _class("tagging"))):
        monkeypatch.setattr(cls, "prepare", spy(name))
    train(recipe(files, NAMED), files / "run")
    assert seen == {"lm": {frozenset({"text"})}, "tag": {frozenset({"text", "tags"})}}
    log = [row for row in read_lines(files / "run" / "log.jsonl") if row.get("event", "train") == "train" and "step" in row]
    assert {"lm/loss", "tag/loss"} <= log[-1].keys()


def _class(name: str) -> type:
    from weft.core.registry import CATALOG

    found = CATALOG[Objective][name]
    assert isinstance(found, type)
    return found


def test_named_sources_share_the_tokenizer_and_have_their_own_fields(files):
    train(recipe(files, NAMED), files / "run")
    names = {path.name for path in (files / "run").glob("*.json")}
    assert {"fields-reading.json", "fields-ner.json", "tokenizer-text.json"} <= names and "fields.json" not in names
    run = load(files / "run", "cpu")
    words = run.codec.tokenizers["text"].names
    assert "nr3" in words and "w6" in words
    assert list(run.of("ner").codec.info.fields) == ["text", "tags"] and list(run.codec.info.fields) == ["text"]
    assert run.of("ner").predict(["w1 w2"])[0].split(" ")[0] in ("B-X", "O")
    values = read_json(files / "run" / "metrics.json")
    assert {"reading.loss", "ner.loss", "ner.tag_accuracy"} <= values.keys()
    assert "reading.tag_accuracy" not in values


def test_the_best_step_is_that_of_the_monitored_source(files):
    train(recipe(files, NAMED, "learning.final=best", "learning.steps=6"), files / "run")
    rows = [row for row in read_lines(files / "run" / "log.jsonl") if row.get("event") == "valid"]
    best = max(row["valid"]["ner.tag_accuracy"] for row in rows)
    assert read_json(files / "run" / "metrics.json")["ner.tag_accuracy"] == pytest.approx(best)


def test_a_run_on_named_sources_resumes(files):
    def stop(number: int, path: Path) -> None:
        if number == 2:
            raise KeyError("stop")

    train(recipe(files, NAMED, "learning.save_every=1"), files / "whole")
    with pytest.raises(CallbackError):
        train(recipe(files, NAMED, "learning.save_every=1"), files / "run", user=UserCallbacks(on_save=stop))
    train(recipe(files, NAMED, "learning.save_every=1"), files / "run", resume=True)
    assert (files / "run" / "model.safetensors").read_bytes() == (files / "whole" / "model.safetensors").read_bytes()


def test_the_skipped_examples_are_counted_by_source_and_split(files):
    train(recipe(files, NAMED), files / "run")
    ledger = json.loads((files / "run" / "ledger.json").read_text())
    assert {"reading.train", "reading.valid", "ner.train", "ner.valid"} <= ledger.keys()


def test_a_stage_may_replace_the_named_sources(files):
    stage = "stages=[{name: fine, data: {type: tagged-text, train: t.conll, tokenizer: {type: word, vocab_size: 90}}, "
    stage += "objective: tagging, learning: {type: gradient, steps: 2, batch_tokens: 99}, evaluate: {metrics: [tag-accuracy]}}]"
    train(recipe(files, NAMED, stage), files / "run")
    run = load(files / "run", "cpu")
    assert run.parts == [""] and list(run.codec.info.fields) == ["text", "tags"]
    assert (files / "run" / "fine" / "tokenizer-text.json").read_bytes() == (files / "run" / "tokenizer-text.json").read_bytes()


PHASES = "learning.phases="


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (
            NAMED,
            [PHASES + "[{data: x, objective: lm}]"],
            "learning.phases.0.data: a phase has the data 'x', but the recipe has: reading, ner",
        ),
        (NAMED, [PHASES + "[{objective: lm}]"], "learning.phases.0.data: the recipe has several sources (reading, ner)"),
        (NAMED, [PHASES + "null"], "learning.phases: the recipe has several sources (reading, ner)"),
        (MIXTURE, [PHASES + "[{data: x}]"], "but the recipe has a single, unnamed one"),
        (
            NAMED,
            ["data.ner.tokenizer.vocab_size=80"],
            "r.yaml:5: data.ner: the sources 'reading' and 'ner' share the id space 'text'",
        ),
        (NAMED, ["evaluate.metrics={x: [accuracy]}"], "evaluate.metrics: metrics names 'x', but the data has: reading, ner"),
        (MIXTURE, ["evaluate.metrics={x: [accuracy]}"], "but the data has: review, copy"),
        (NAMED, ["evaluate.monitor=tag-accuracy"], "with several sources it must be loss"),
        (NAMED, ["evaluate.monitor=ner.nothing"], "monitor is 'nothing', but the evaluation returns: loss, tag_accuracy"),
        (
            NAMED,
            ["evaluate.metrics={reading: [tag-accuracy]}"],
            "the metric tag-accuracy needs 'tags', but the data (plain-text) has: text",
        ),
        (MIXTURE, ["data.temperature=.nan"], "data.temperature: must be a number above 0, up to 10^12, not NaN"),
        (MIXTURE, ["data.temperature=-1"], "data.temperature: must be a number above 0"),
        (MIXTURE, ["data.temperature=1", "data.weights={x: 1}"], "data.weights: weights names 'x', but the mixture has"),
        (MIXTURE, ["data.of={}"], "data.of: an empty mapping; at least one Data is needed"),
        (MIXTURE, ["data.of.copy.train=no.tsv"], "data.of.copy.train: there is no file"),
        (
            NAMED,
            ["objective={lm: {type: encoder-lm, vocab_size: 50}}", PHASES + "[{data: reading}, {data: ner}]"],
            "the sources of one objective must have the same fields",
        ),
    ],
)
def test_wrong_recipes_are_located(files, text, overrides, message):
    assert message in problem(files, text, *overrides)


def test_metrics_of_a_single_source_are_a_list(files):
    text = re.sub(r"data:.*?structure", "data: {type: dates, train: 20}\nstructure", MIXTURE, flags=re.DOTALL)
    assert "a single, unnamed source; give a list of metrics" in problem(files, text)


def test_default_metrics_are_those_of_each_objective(files):
    run = recipe(files, NAMED, "evaluate.metrics=null", "evaluate.monitor=loss")
    train(run, files / "run")
    assert "ner.tag_accuracy" in read_json(files / "run" / "metrics.json") or "ner.entity_f1" in read_json(
        files / "run" / "metrics.json"
    )
