"""``weft generate`` and ``weft predict``: one answer for each line, in order, whatever the lines are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from tests.commands import TINY, Forked, weft

from weft import load
from weft.learning import read_weights, write_weights
from weft.training import artifacts

LINES = ["3 March 1999", "", "1.2.2003", "   ", "§§§ ☃ nothing like a date", "2001-02-03", "May the 4th, 1977"]
LANGUAGE_MODEL = """\
device: cpu
data: {type: plain-text, train: text.txt, tokenizer: character, validation_fraction: 0.2, max_length: 40}
structure:
  type: language-model
  dim: 8
  decoder: {type: transformer, layers: 1, layer: {mixer: {type: multihead, heads: 2}}}
objective: next-token
learning: {type: gradient, steps: 2, batch_tokens: 100}
evaluate: {search: {type: greedy, max_length: 5}}
"""
CLASSIFIER = """\
device: cpu
data: {type: labeled-text, train: text.tsv, tokenizer: word, validation_fraction: 0.2}
structure: {type: classifier, dim: 8, encoder: bag-of-words}
objective: classification
learning: {type: gradient, steps: 60, batch_tokens: 100, optimizer: {type: adam, lr: 0.05}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trained runs: dates, a language model and a classifier."""
    home = tmp_path_factory.mktemp("runs")
    rows = [f"the {a} {b} is {c}" for a in ("old", "red", "big") for b in ("cat", "dog", "cow") for c in ("happy", "sad")]
    (home / "text.txt").write_text("\n".join(rows) + "\n")
    labeled = [f"{row}\t{'good' if row.endswith('happy') else 'bad'}" for row in rows]
    (home / "text.tsv").write_text("\n".join(["text\tlabel", *labeled]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "draw_curve", lambda *args: None)
        for name, recipe in (("dates", TINY), ("lm", LANGUAGE_MODEL), ("cls", CLASSIFIER)):
            (home / f"{name}.yaml").write_text(recipe)
            answer = weft("train", home / f"{name}.yaml", "--run", home / name, "--quiet")
            assert answer.code == 0, answer.err
    # Weights that have hardly been trained answer the same to everything; random ones of some size do not.
    weights = read_weights(home / "dates" / "model.safetensors")
    torch.manual_seed(2)
    write_weights(home / "dates" / "model.safetensors", {name: 2 * torch.randn(tensor.shape) for name, tensor in weights.items()})
    return home


def given(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_every_line_has_its_answer_in_order_across_batches(home):
    lines = (LINES * 10)[:67]  # more than a batch
    answer = weft("generate", home / "dates", given=given(lines))
    assert answer.code == 0 and answer.err == ""
    run = load(home / "dates")
    alone = {line: run.generate([line])[0] for line in LINES}
    assert len(set(alone.values())) > 4
    assert answer.out.split("\n") == [*(alone[line] for line in lines), ""]


def test_a_file_and_standard_input_are_the_same(home, tmp_path):
    (tmp_path / "in.txt").write_bytes(given(LINES))
    assert weft("generate", home / "dates", tmp_path / "in.txt") == weft("generate", home / "dates", given=given(LINES))


@pytest.mark.parametrize(
    "data",
    [
        given(LINES).replace(b"\n", b"\r\n"),
        given(LINES)[:-1],
        b"\xef\xbb\xbf" + given(LINES),
    ],
    ids=["Windows line ends", "no last line end", "byte-order mark"],
)
def test_other_editors_line_ends(data, home):
    words = ["generate", home / "dates", "--json"]
    assert weft(*words, given=data) == weft(*words, given=given(LINES))


def test_only_a_line_feed_ends_a_line(home):
    odd = ["1 May\x0b1999", "1 May\x851999", "1 May\u20281999", "1 May\r1999"]
    answer = weft("generate", home / "dates", "--json", given=given(odd))
    assert [json.loads(line)["input"] for line in answer.out.split("\n")[:-1]] == odd


def test_no_lines_no_answers(home):
    for name, command in (("dates", "generate"), ("lm", "generate"), ("cls", "predict")):
        answer = weft(command, home / name)
        assert (answer.code, answer.out, answer.err) == (0, "", "")


@pytest.mark.parametrize(("name", "command", "code"), [("dates", "generate", 2), ("cls", "predict", 0)])
def test_invalid_utf8_is_reported_with_its_line(name, command, code, home, tmp_path):
    """``generate`` stops; ``predict`` leaves the prediction of the line empty."""
    data = b"good\nb\xe4d\n"
    (tmp_path / "in.txt").write_bytes(data)
    answer = weft(command, home / name, tmp_path / "in.txt")
    assert answer.code == code and f"{tmp_path / 'in.txt'}:2: not valid UTF-8" in answer.err
    answer = weft(command, home / name, given=data)
    assert answer.code == code and "standard input:2: not valid UTF-8" in answer.err


@pytest.mark.parametrize("name", ["dates", "lm"])
def test_lines_before_one_that_is_not_utf8_are_answered(name, home):
    whole = weft("generate", home / name, given=given(LINES[2:5]))
    answer = weft("generate", home / name, given=given(LINES[2:5]) + b"b\xe4d\n" + given(LINES))
    assert answer.code == 2 and "standard input:4: not valid UTF-8" in answer.err
    assert answer.out == whole.out and whole.code == 0


def test_json(home):
    answer = weft("generate", home / "dates", "--json", given=given(LINES))
    rows = [json.loads(line) for line in answer.out.splitlines()]
    texts = weft("generate", home / "dates", given=given(LINES)).out.split("\n")[:-1]
    assert [row["input"] for row in rows] == LINES
    assert [row["answers"][0]["text"] for row in rows] == texts
    assert all(row["answers"][0]["score"] < 0 and len(row["answers"]) == 1 for row in rows)


def test_n_best_is_sorted_and_its_first_is_the_beams_answer(home):
    best = weft("generate", home / "dates", "--beams", "4", "--n-best", "3", given=given(LINES))
    rows = [line.split("\t") for line in best.out.split("\n")[:-1]]
    assert best.code == 0 and len(rows) == 3 * len(LINES)
    groups = [rows[i : i + 3] for i in range(0, len(rows), 3)]
    for group in groups:
        scores = [float(score) for score, _ in group]
        assert scores == sorted(scores, reverse=True)
        assert len({text for _, text in group}) == 3
    single = weft("generate", home / "dates", "--beams", "4", given=given(LINES)).out.split("\n")[:-1]
    assert [group[0][1] for group in groups] == single


def test_a_beam_of_one_is_greedy_whatever_the_recipe_specifies(home):
    beam = weft("generate", home / "dates", "--beams", "1", "--max-length", "12", given=given(LINES))
    assert beam == weft("generate", home / "dates", given=given(LINES))


def test_drawing_at_random_is_the_same_every_time_and_sharpens_to_greedy(home):
    hot = ["generate", home / "dates", "--temperature", "1.5", "--max-length", "12"]
    first = weft(*hot, given=given(LINES))
    assert first == weft(*hot, given=given(LINES))
    greedy = weft("generate", home / "dates", given=given(LINES))
    assert first.out != greedy.out and first.out.count("\n") == len(LINES)
    assert weft("generate", home / "dates", "--top-k", "1", "--max-length", "12", given=given(LINES)) == greedy
    assert weft("generate", home / "dates", "--temperature", "0.00001", "--max-length", "12", given=given(LINES)) == greedy


@pytest.mark.parametrize("how", [[], ["--beams", "1"], ["--beams", "3"], ["--temperature", "2"]])
def test_length_bounds_every_search(how, home):
    answer = weft("generate", home / "dates", *how, "--max-length", "3", given=given(LINES))
    assert answer.code == 0 and all(len(line) <= 3 for line in answer.out.split("\n"))
    assert any(len(line) == 3 for line in answer.out.split("\n"))


def test_a_closed_pipe_is_no_failure(home, tmp_path):
    reading, writing = os.pipe()
    lines = given(["3 March 1999"] * 20_000)
    words = ["generate", str(home / "dates"), "--beams", "1", "--max-length", "2"]
    process = Forked(words, writing, tmp_path / "err.txt", given=lines)
    with os.fdopen(reading, "rb") as stream:
        assert stream.readline().endswith(b"\n")
    assert process.wait() == 0
    assert (tmp_path / "err.txt").read_text() == ""


# ------------------------------------------------------------------------------------------------------------ other kinds


def test_a_language_model_continues_each_line(home):
    lines = ["the old cat", "", "the"]
    answer = weft("generate", home / "lm", given=given(lines))
    assert answer.code == 0 and answer.out.split("\n") == [*load(home / "lm").generate(lines), ""]


def test_predict_classifies_each_line(home):
    lines = ["the old cow is happy", "the big cat is sad", ""]
    answer = weft("predict", home / "cls", given=given(lines))
    assert answer.code == 0 and answer.out.split("\n")[:2] == ["good", "bad"] and answer.out.count("\n") == 3
    rows = [json.loads(line) for line in weft("predict", home / "cls", "--json", given=given(lines)).out.splitlines()]
    assert [row["text"] for row in rows] == lines and [row["answer"] for row in rows] == answer.out.split("\n")[:3]


def test_each_command_points_to_the_other(home):
    answer = weft("generate", home / "cls", given=b"x\n")
    assert answer.code == 2 and "does not generate text; it supports weft predict, weft embed" in answer.err
    answer = weft("predict", home / "lm", given=b"x\n")
    assert answer.code == 2 and "has no classifier, tagger or other predictor; it supports weft generate" in answer.err
