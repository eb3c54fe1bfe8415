"""Rows that are asked and are longer than those of training: read in part, and never in silence."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tests.commands import weft

import weft as toolkit

RECIPE = """\
data: {{type: {data}, tokenizer: word, max_length: 4, validation_fraction: 0.25}}
structure: {structure}
objective: {objective}
learning: {{type: gradient, steps: 1, batch_tokens: 100}}
"""
KINDS = {
    "classes": ("labeled-text, train: rows.tsv", "{type: classifier, dim: 8}", "classification"),
    "texts": ("parallel-text, train: [a.txt, a.txt]", "{type: seq2seq, dim: 8}", "next-token"),
}
LONG, SHORT = "one two three four five six", "one two three"


@pytest.fixture(scope="module", params=list(KINDS))
def run(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("cut")
    (home / "rows.tsv").write_text("text\tlabel\n" + "".join(f"one two {i} three\t{i % 2}\n" for i in range(12)))
    (home / "a.txt").write_text("".join(f"one two {i} three\n" for i in range(12)))
    data, structure, objective = KINDS[request.param]
    (home / "r.yaml").write_text(RECIPE.format(data=data, structure=structure, objective=objective))
    answer = weft("train", home / "r.yaml", "--run", home / "run", "--quiet")
    assert answer.code == 0, answer.err
    return home / "run"


def test_it_is_reported_in_python(run):
    trained = toolkit.load(run)
    ask = trained.predict if hasattr(trained.model, "classifier") else trained.generate
    with pytest.warns(UserWarning, match="truncated 2 requests longer than 4 tokens"):
        ask([LONG, SHORT, LONG])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask([SHORT])
    assert trained.truncated == 2


def test_it_is_reported_on_the_command_line(run):
    command = "predict" if hasattr(toolkit.load(run).model, "classifier") else "generate"
    long, short = (weft(command, run, given=f"{text}\n".encode()) for text in (LONG, SHORT))
    assert "truncated 1 request longer than 4 tokens" in long.err and len(long.out.splitlines()) == 1
    assert "longer" not in short.err
