"""Unusual input from Python, and non-finite metrics: a message with what to do, and files that are valid JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from weft.cli.check_report import summarize_tensors
from weft.core.fields import Info, TextField, TextsField
from weft.core.io import finite
from weft.data import LabeledText, cache_rows
from weft.data.requests import request_cells
from weft.evaluate.metrics_file import metric_values
from weft.inference.published import open_published
from weft.models import bert, gpt2
from weft.pretrained import save
from weft.training.recipes import read_run_text

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "play", "."]
TEXT = Info({"text": TextField("text", 9)})
PAIR = Info({"first": TextField("first", 9), "second": TextField("second", 9)}, "first")
CHOICE = Info({"question": TextField("question", 9), "choices": TextsField("choices", 9)})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny BERT that fills and a GPT-2, in the published layout."""
    torch.manual_seed(0)
    home = tmp_path_factory.mktemp("odd")
    for name, build in {"bert": bert(dim=16, layers=1, heads=2, length=16), "gpt2": gpt2(dim=16, layers=1, heads=2)}.items():
        save(build(Info({"text": TextField("text", len(WORDS))})), build, home / name)
        (home / name / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return {name: home / name for name in ("bert", "gpt2")}


def test_a_model_that_cannot_generate_reports_what_it_can_do(folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="the model of bert has no decoder and cannot generate text; use predict"):
        weft.load(folders["bert"], "cpu").generate(["good film"])


def test_what_makes_vectors_alone_cannot_be_asked(folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="the model of bert has no head that predicts; for embeddings use weft embed, or embed"):
        open_published(folders["bert"], task="encode", device="cpu").predict(["good [MASK]"])


@pytest.mark.parametrize(
    ("texts", "message"), [(["good", None], "text 2 is 'None' of type NoneType"), ("good", "expected a list of texts")]
)
def test_only_texts_are_continued(folders: dict[str, Path], texts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        weft.load(folders["gpt2"], "cpu").generate(texts)


@pytest.mark.parametrize("odd", [None, 3, b"good", float("nan")])
def test_only_texts_are_asked(folders: dict[str, Path], odd: Any) -> None:
    with pytest.raises(ValueError, match=r"an input needs text, but .* is a (NoneType|int|bytes|float); pass texts"):
        weft.load(folders["bert"], "cpu").predict([odd])


@pytest.mark.parametrize(
    ("info", "asked"),
    [
        (TEXT, [None]),
        (TEXT, {"text": None}),
        (PAIR, ("good", None)),
        (PAIR, {"first": "good", "second": math.nan}),
        (CHOICE, ("good", ["bad", None])),
        (CHOICE, ("good", "bad", None)),
    ],
)
def test_a_text_that_is_missing_in_a_row_is_named(info: Info, asked: Any) -> None:
    with pytest.raises(ValueError, match=r"(None|nan) \((NoneType|float)\) is not a text; pass a text"):
        request_cells(info, asked)


def test_numbers_may_be_choices() -> None:
    assert request_cells(CHOICE, ("one and one?", [1, 2]))["choices"] == "1\t2"  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("number", [26, 27])
def test_a_row_has_at_most_as_many_choices_as_letters(number: int) -> None:
    asked = {"question": "q", "choices": [str(i) for i in range(number)]}
    if number == 26:
        assert request_cells(CHOICE, asked)["choices"].count("\t") == 25
        return
    with pytest.raises(ValueError, match="has 27 choices; at most 26 are allowed, remove some"):
        request_cells(CHOICE, asked)


@pytest.mark.parametrize("odd", [None, 3])
def test_rows_that_are_none_are_refused(odd: Any) -> None:
    with pytest.raises(
        ValueError, match=r"a row must be a text, a tuple, a list or a dict, not (None|3) \((NoneType|int)\); remove it"
    ):
        cache_rows(["good", odd])


@pytest.mark.parametrize("label", [None, math.nan])
def test_a_label_that_is_missing_is_no_class(label: Any) -> None:
    file = cache_rows([("good", 1.0), ("bad", label), ("poor", 0.0)], ("text", "label"))
    with pytest.raises(ValueError, match=r"rows.jsonl:2: label is empty; fix the row, or set on_bad_row: skip"):
        LabeledText(train=file, validation_fraction=0).open()


# --------------------------------------------------------------------------------------------------------------- files


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_figures_that_are_not_defined_are_null(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("text\tscore\n" + "".join(f"good film {i}\t{i / 3}\n" for i in range(20)))
    (tmp_path / "same.tsv").write_text("text\tscore\n" + "good film\t0.5\n" * 4)
    recipe = """
data: {type: labeled-text, train: rows.tsv, valid: same.tsv, label_type: number, tokenizer: {type: bpe, vocab_size: 60}}
structure: {type: classifier, dim: 8}
objective: regression
learning: {type: gradient, steps: 1}
evaluate: {metrics: [correlation]}
device: cpu
"""
    judged = read_run_text(recipe, "r.yaml", tmp_path).train(tmp_path / "run", quiet=True).result
    assert math.isnan(judged.metric_values["pearson"])  # all numbers of a side are equal
    found = strict((tmp_path / "run/metrics.json").read_text())
    assert found["pearson"] is None and found["loss"] == pytest.approx(judged.metric_values["loss"])
    again = metric_values(found)
    assert math.isnan(again["valid pearson"]) and again["valid loss"] == found["loss"]


def test_finite_keeps_all_else() -> None:
    assert finite({"a": [1, 2.5, math.nan, -math.inf], "b": ("x", True, None)}) == {
        "a": [1, 2.5, None, None],
        "b": ["x", True, None],
    }


# --------------------------------------------------------------------------------------------------------------- check


def test_what_is_not_trained_is_a_short_line() -> None:
    layers = [f"encoder.stack.layers.{i}.{part}.{kind}" for i in range(12) for part in "abcdef" for kind in ("weight", "bias")]
    summary = summarize_tensors(["mark", *layers])
    assert summary.startswith("145 tensors: mark, encoder.stack.layers.*.a, ") and summary.endswith(".d and 2 more")
    assert summarize_tensors(["pooler.weight"]) == "1 tensor: pooler"
