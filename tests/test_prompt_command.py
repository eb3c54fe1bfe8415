"""``weft prompt``: a language model asked for classes, from tables to figures."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tests.commands import weft

import weft as package
from weft.data import ByteBPE, PlainText, Word
from weft.learning import Gradient
from weft.models import LanguageModel
from weft.objectives import NextToken
from weft.prompt import Prompt
from weft.run import load

TEMPLATE = "Review: {text}\\nIt was {answer}"
WORDS = ["--answer", "pos=good", "--answer", "neg=very bad"]
TEST = "text\tlabel\n" + "".join(
    f"a {thing} {n}\t{label}\n" for n in ["one", "two"] for thing, label in (("film", "pos"), ("play", "neg"))
)
TRAIN = "text\tlabel\n" + "".join(f"a {thing} of {n}\t{('pos', 'neg')[n % 2]}\n" for n, thing in enumerate(["film", "play"] * 4))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    text = "Review: a film one\nIt was good\nReview: a play two\nIt was very bad\npos neg of\n" * 20
    (folder / "text.txt").write_text(text)
    (folder / "test.tsv").write_text(TEST)
    (folder / "train.tsv").write_text(TRAIN)
    data = partial(PlainText, train=str(folder / "text.txt"), tokenizer=partial(Word, size=100), hold_out=0.0)
    learning = partial(Gradient, steps=30, batch=200)
    run = package.Run(data=data, structure=partial(LanguageModel, dim=16), objective=NextToken, learning=learning)
    run.train(folder / "run", quiet=True)
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of 64 positions."""
    folder = tmp_path_factory.mktemp("gpt2")
    tokenizer = ByteBPE(size=300)
    tokenizer.train(["Review: a film one\nIt was good, it was bad"] * 3)
    tokenizer.save(folder / "tokenizer.json")
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=tokenizer.vocab, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def asked(place: Path, *more: str | Path, model: Path | None = None) -> dict:
    found = weft("prompt", model or place / "run", place / "test.tsv", "--template", TEMPLATE, "--json", *more)
    assert found.code == 0, found.err
    return json.loads(found.out)


@pytest.mark.parametrize("shots", [0, 1, 4])
def test_figures_are_those_of_the_scores(place: Path, tmp_path: Path, shots: int) -> None:
    found = asked(place, *WORDS, "--shots", str(shots), "--train", place / "train.tsv", "--out", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    questions = [dict(zip(("text", "label"), line.split("\t"), strict=True)) for line in TEST.splitlines()[1:]]
    pool = [dict(zip(("text", "label"), line.split("\t"), strict=True)) for line in TRAIN.splitlines()[1:]]
    ask = Prompt(TEMPLATE.replace("\\n", "\n"), {"pos": "good", "neg": "very bad"}, shots=shots)
    scores = ask.scores(load(place / "run"), questions, [(row, row["label"]) for row in pool])
    assert [row["row"] for row in rows] == questions
    assert np.allclose([[row["scores"]["pos"], row["scores"]["neg"]] for row in rows], scores, atol=1e-5)
    right = [max(row["scores"], key=row["scores"].get) == row["label"] for row in rows]
    assert [row["predicted"] == row["label"] for row in rows] == right
    assert found["accuracy"] == sum(right) / 4 and found["majority"] == 0.5
    low, high = found["intervals"]["accuracy"]
    assert low <= found["accuracy"] <= high
    wanted = {"rows": 4, "shots": shots, "seed": 1, "score": "length", "calibrated": False, "answers": dict(ask.answers)}
    assert {name: found[name] for name in wanted} == wanted


def scored(place: Path, out: Path, *more: str, model: Path | None = None) -> np.ndarray:
    asked(place, "--out", out, *more, model=model)
    return np.array([list(json.loads(line)["scores"].values()) for line in out.read_text().splitlines()])


def test_scores_are_plain_per_token_and_calibrated(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    plain, mean = scored(place, out, *WORDS, "--score", "plain"), scored(place, out, *WORDS)
    assert np.allclose(mean, plain / [1, 2], atol=1e-5)
    less = plain - scored(place, out, *WORDS, "--score", "plain", "--calibrate")
    assert np.allclose(less, less[0], atol=1e-4) and np.abs(less).min() > 0.1  # the same for every row: no row is in it


def test_demonstrations_depend_on_the_seed_alone(place: Path, tmp_path: Path) -> None:
    few = [*WORDS, "--shots", "2", "--train", str(place / "train.tsv")]
    first, again = scored(place, tmp_path / "a", *few), scored(place, tmp_path / "b", *few)
    other = scored(place, tmp_path / "c", *few, "--seed", "2")
    assert (first == again).all() and not np.allclose(first, other, atol=1e-6)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_answers_are_the_classes_where_none_are_given(place: Path, tmp_path: Path) -> None:
    assert asked(place)["answers"] == {"neg": "neg", "pos": "pos"}
    (tmp_path / "ask.txt").write_text("Review: {text}\nIt was {answer}\n")
    ways = [["--template", TEMPLATE], ["--template-file", str(tmp_path / "ask.txt")]]
    one, two = (weft("prompt", place / "run", place / "test.tsv", *way, "--json").out for way in ways)
    assert one == two
    shown = weft("prompt", place / "run", place / "test.tsv", *ways[0]).out.splitlines()
    assert shown[0].startswith("accuracy  ") and shown[0].endswith("]") and shown[1].startswith("majority  0.5000")


def test_tables_of_other_kinds_and_columns(place: Path, tmp_path: Path) -> None:
    rows = [dict(zip(("text", "kind"), line.split("\t"), strict=True)) for line in TEST.splitlines()[1:]]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = weft("prompt", place / "run", tmp_path / "test.jsonl", "--template", TEMPLATE, "--label", "kind", "--json")
    assert json.loads(found.out)["accuracy"] == asked(place)["accuracy"]


def test_a_published_gpt2_says_what_transformers_says(place: Path, published: Path, tmp_path: Path) -> None:
    found = scored(place, tmp_path / "out.jsonl", *WORDS, "--score", "plain", model=published)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(published).eval()
    codec = load(published).codec
    assert codec is not None and found.shape == (4, 2)
    prompt = "Review: a film one\nIt was"
    for number, words in enumerate((" good", " very bad")):
        before, whole = codec.encode("text", prompt).tolist(), codec.encode("text", prompt + words).tolist()
        assert whole[: len(before)] == before
        with torch.no_grad():
            logp = theirs(torch.tensor([[1, *whole]])).logits[0].log_softmax(-1)
        wanted = sum(float(logp[i, whole[i]]) for i in range(len(before), len(whole)))
        assert found[0, number] == pytest.approx(wanted, abs=1e-4)


def test_mistakes(place: Path, published: Path, tmp_path: Path) -> None:
    def says(match: str, *arguments: str | Path, model: Path | None = None, file: Path | None = None) -> None:
        found = weft("prompt", model or place / "run", file or place / "test.tsv", *arguments)
        assert found.code == 2 and match in found.err, found
        assert not found.out

    template, train = ("--template", TEMPLATE), ("--train", place / "train.tsv")
    says("give the template with --template, or in a file")
    says("and not both", *template, "--template-file", place / "text.txt")
    says("nowhere.txt: cannot be read", "--template-file", tmp_path / "nowhere.txt")
    says("asks for no column", "--template", "It was {answer}")
    says("must stand at the template's end", "--template", "{answer} was {text}")
    says("test.tsv:2: the template asks for 'review', but the columns are: text, label", "--template", "{review} {answer}")
    says("the template shows {label}, which is the answer", "--template", "{text} {label} {answer}")
    says("9 demonstrations are wanted, but there are 8 rows", *template, *train, "--shots", "9")
    says("say with --train", *template, "--shots", "1")
    says("would show their answers", *template, "--shots", "1", "--train", place / "test.tsv")
    says("test.tsv has the class 'neg', but the answers are: pos, odd", *template, "--answer", "pos=good", "--answer", "odd=bad")
    says("has no words: write CLASS=WORDS", *template, "--answer", "pos=")
    says("the class 'pos' has two answers", *template, "--answer", "pos=good", "--answer", "pos=fine")
    says("are the same tokens to this model", *template, "--answer", "pos=strange", "--answer", "neg=foreign")
    says("there is no score 'best': answers are compared by length or plain", *template, "--score", "best")
    says("no column 'kind'; there is: text, label", *template, "--label", "kind")
    says("there is no file", *template, file=tmp_path / "none.tsv")
    (tmp_path / "empty.tsv").write_text("text\tlabel\n")
    says("empty.tsv has no rows", *template, file=tmp_path / "empty.tsv")
    (tmp_path / "uneven.tsv").write_text("text\tlabel\na\n")
    says("uneven.tsv:2: 1 columns, but the header has 2", *template, file=tmp_path / "uneven.tsv")
    (tmp_path / "one.tsv").write_text("text\tlabel\na\tpos\n")
    says("1 answers leave nothing to choose", *template, file=tmp_path / "one.tsv")
    says("the longest prompt does not fit into the model", *template, *train, "--shots", "8", model=published)
    says("64 learned positions", *template, *train, "--shots", "8", model=published)
    says("there is no file or folder", *template, model=tmp_path / "nothing")


def test_what_is_no_language_model(place: Path, tmp_path: Path) -> None:
    found = weft("prompt", "minilm", place / "test.tsv", "--template", TEMPLATE)
    assert found.code == 2 and "minilm is no language model" in found.err
