"""``weft prompt``: zero-shot and few-shot classification with a language model."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from tests.commands import weft

import weft as package
from weft.data import ByteBPE, PlainText, Word
from weft.inference.few_shot import check_choices
from weft.inference.load import load
from weft.inference.prompting import PromptTemplate, log_probabilities
from weft.learning import Gradient
from weft.models import LanguageModel
from weft.objectives import NextToken

TEMPLATE = "Review: {text}\\nIt was {answer}"
WORDS = ["--verbalizer", "pos=good", "--verbalizer", "neg=very bad"]
TEST = "text\tlabel\n" + "".join(
    f"a {thing} {n}\t{label}\n" for n in ["one", "two"] for thing, label in (("film", "pos"), ("play", "neg"))
)
TRAIN = "text\tlabel\n" + "".join(f"a {thing} of {n}\t{('pos', 'neg')[n % 2]}\n" for n, thing in enumerate(["film", "play"] * 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    text = "Review: a film one\nIt was good\nReview: a play two\nIt was very bad\npos neg of\n" * 20
    (folder / "text.txt").write_text(text)
    (folder / "test.tsv").write_text(TEST)
    (folder / "train.tsv").write_text(TRAIN)
    data = partial(PlainText, train=str(folder / "text.txt"), tokenizer=partial(Word, vocab_size=100), validation_fraction=0.0)
    learning = partial(Gradient, steps=30, batch_tokens=200)
    run = package.Run(data=data, structure=partial(LanguageModel, dim=16), objective=NextToken, learning=learning)
    run.train(folder / "run", quiet=True)
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of 64 positions."""
    folder = tmp_path_factory.mktemp("gpt2")
    tokenizer = ByteBPE(vocab_size=300)
    tokenizer.train(["Review: a film one\nIt was good, it was bad"] * 3)
    tokenizer.save(folder / "tokenizer.json")
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=tokenizer.vocab, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def asked(folder: Path, *more: str | Path, model: Path | None = None) -> dict:
    found = weft("prompt", model or folder / "run", folder / "test.tsv", "--template", TEMPLATE, "--json", *more)
    assert found.code == 0, found.err
    return json.loads(found.out)


@pytest.mark.parametrize("shots", [0, 1, 4])
def test_accuracy_and_predictions_follow_from_the_scores(folder: Path, tmp_path: Path, shots: int) -> None:
    found = asked(folder, *WORDS, "--shots", str(shots), "--train", folder / "train.tsv", "--out", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    questions = [dict(zip(("text", "label"), line.split("\t"), strict=True)) for line in TEST.splitlines()[1:]]
    pool = [dict(zip(("text", "label"), line.split("\t"), strict=True)) for line in TRAIN.splitlines()[1:]]
    ask = PromptTemplate(TEMPLATE.replace("\\n", "\n"), {"pos": "good", "neg": "very bad"}, shots=shots)
    scores = ask.scores(load(folder / "run"), questions, [(row, row["label"]) for row in pool])
    assert [row["row"] for row in rows] == questions
    assert np.allclose([[row["scores"]["pos"], row["scores"]["neg"]] for row in rows], scores, atol=1e-5)
    right = [max(row["scores"], key=row["scores"].get) == row["label"] for row in rows]
    assert [row["predicted"] == row["label"] for row in rows] == right
    assert found["accuracy"] == sum(right) / 4 and found["majority"] == 0.5
    low, high = found["intervals"]["accuracy"]
    assert low <= found["accuracy"] <= high
    wanted = {
        "examples": 4,
        "shots": shots,
        "seed": 1,
        "score": "length",
        "calibrated": False,
        "verbalizer": dict(ask.verbalizer),
    }
    assert {name: found[name] for name in wanted} == wanted


def scored(folder: Path, out: Path, *more: str, model: Path | None = None) -> np.ndarray:
    asked(folder, "--out", out, *more, model=model)
    return np.array([list(json.loads(line)["scores"].values()) for line in out.read_text().splitlines()])


def test_scores_are_plain_per_token_and_calibrated(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    plain, mean = scored(folder, out, *WORDS, "--score", "plain"), scored(folder, out, *WORDS)
    assert np.allclose(mean, plain / [1, 2], atol=1e-5)
    less = plain - scored(folder, out, *WORDS, "--score", "plain", "--calibrate")
    assert np.allclose(less, less[0], atol=1e-4) and np.abs(less).min() > 0.1  # the same for every row: no row is in it


def test_demonstrations_depend_on_the_seed_alone(folder: Path, tmp_path: Path) -> None:
    few = [*WORDS, "--shots", "2", "--train", str(folder / "train.tsv")]
    first, again = scored(folder, tmp_path / "a", *few), scored(folder, tmp_path / "b", *few)
    other = scored(folder, tmp_path / "c", *few, "--seed", "2")
    assert (first == again).all() and not np.allclose(first, other, atol=1e-6)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_class_names_are_the_default_verbalizer(folder: Path, tmp_path: Path) -> None:
    assert asked(folder)["verbalizer"] == {"neg": "neg", "pos": "pos"}
    (tmp_path / "ask.txt").write_text("Review: {text}\nIt was {answer}\n")
    ways = [["--template", TEMPLATE], ["--template-file", str(tmp_path / "ask.txt")]]
    one, two = (weft("prompt", folder / "run", folder / "test.tsv", *way, "--json").out for way in ways)
    assert one == two
    shown = weft("prompt", folder / "run", folder / "test.tsv", *ways[0]).out.splitlines()
    assert shown[0].startswith("accuracy  ") and shown[0].endswith("]") and shown[1].startswith("majority  0.5000")


def test_tables_of_other_kinds_and_columns(folder: Path, tmp_path: Path) -> None:
    rows = [dict(zip(("text", "kind"), line.split("\t"), strict=True)) for line in TEST.splitlines()[1:]]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = weft("prompt", folder / "run", tmp_path / "test.jsonl", "--template", TEMPLATE, "--label", "kind", "--json")
    assert json.loads(found.out)["accuracy"] == asked(folder)["accuracy"]


def test_scores_of_a_published_gpt2_equal_transformers(folder: Path, published: Path, tmp_path: Path) -> None:
    found = scored(folder, tmp_path / "out.jsonl", *WORDS, "--score", "plain", model=published)
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


OWN = [
    {"question": "a film one", "choices": ["good", "very bad"], "answer": "good"},
    {"question": "a play two", "choices": ["pos", "very bad", "good"], "answer": "very bad"},
    {"question": "a film two", "choices": ["very bad", "of", "good", "neg"], "answer": "good"},
]
OWN_TEMPLATE = TEMPLATE.replace("{text}", "{question}")


def own(folder: Path, file: Path, *more: str | Path) -> list[dict]:
    options = ["--template", OWN_TEMPLATE, "--choices", "auto", "--out", file.with_suffix(".out")]
    found = weft("prompt", folder / "run", file, *options, *more)
    assert found.code == 0, found.err
    return [json.loads(line) for line in file.with_suffix(".out").read_text().splitlines()]


@pytest.mark.parametrize("how", [[], ["--score", "plain"], ["--calibrate"]])
def test_each_row_may_have_answers_of_its_own(folder: Path, tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in OWN))
    run, prompt = load(folder / "run"), "Review: {}\nIt was"
    for row, found in zip(OWN, own(folder, tmp_path / "own.jsonl", *how), strict=True):
        words = [f" {word}" for word in row["choices"]]
        score, tokens = log_probabilities(run, [(prompt.format(row["question"]), word) for word in words])
        if how == ["--calibrate"]:
            score = score - log_probabilities(run, [(prompt.format("N/A"), word) for word in words])[0]
        wanted = score if how == ["--score", "plain"] else score / tokens
        assert list(found["scores"]) == list("ABCD"[: len(words)])
        assert np.allclose(list(found["scores"].values()), wanted, atol=1e-5)
        assert found["predicted"] == "ABCD"[int(wanted.argmax())]
        assert found["label"] == "ABCD"[row["choices"].index(row["answer"])]
    options = ["--template", OWN_TEMPLATE, "--choices", "choices", "--json"]
    shown = json.loads(weft("prompt", folder / "run", tmp_path / "own.jsonl", *options, *how).out)
    lines = [json.loads(line) for line in (tmp_path / "own.out").read_text().splitlines()]
    assert shown["accuracy"] == pytest.approx(sum(line["predicted"] == line["label"] for line in lines) / 3)


def test_rows_of_choices_may_be_nested_and_are_shown_with_their_own_answers(folder: Path, tmp_path: Path) -> None:
    """As CommonsenseQA has them; a demonstration has the right one of its own."""

    def nested(row: dict) -> dict:
        choices = [{"label": label, "text": text} for label, text in zip("PQRS", row["choices"], strict=False)]
        right = choices[row["choices"].index(row["answer"])]["label"]
        return {"answerKey": right, "question": {"stem": row["question"], "choices": choices}}

    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in OWN))
    (tmp_path / "nested.jsonl").write_text("".join(json.dumps(nested(row)) + "\n" for row in OWN))
    plain, other = own(folder, tmp_path / "own.jsonl"), own(folder, tmp_path / "nested.jsonl")
    assert [(r["scores"], r["label"]) for r in plain] == [(r["scores"], r["label"]) for r in other]
    rows = [{"question": row["question"], "choices": "\t".join(row["choices"])} for row in OWN]
    ask = PromptTemplate("{question} ({choices})? {answer}", None)
    assert ask.format(rows[0], [(rows[1], "B")]) == "a play two (pos, very bad, good)? very bad\n\na film one (good, very bad)?"


def test_mistakes_in_rows_of_choices(folder: Path, tmp_path: Path) -> None:
    def rejects(match: str, rows: list[dict], *more: str) -> None:
        (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        options = more if "--template" in more else ("--template", OWN_TEMPLATE, *more)
        found = weft("prompt", folder / "run", tmp_path / "own.jsonl", "--choices", "auto", *options)
        assert found.code == 2 and match in found.err, found.err

    rejects("exclude each other", OWN, "--verbalizer", "a=b", "--verbalizer", "c=d")
    rejects("1 choices; a row must have 2 to 26", [{"question": "a", "choices": ["b"], "answer": "b"}])
    rejects("no choice is marked as correct", [OWN[0] | {"answer": ""}])
    rejects("has the column 'film', but the columns are", OWN, "--template", "{question} {film} {answer}")
    rejects(
        "the template contains {label}",
        [{"question": "a", "choices": ["b", "c"], "label": 1}],
        "--template",
        "{question} {label}",
    )
    rejects("has no examples", [])
    assert "there is no file" in weft("prompt", folder / "run", "no.jsonl", "--template", OWN_TEMPLATE, "--choices", "auto").err
    with pytest.raises(ValueError, match="has 1 choices; must be 2 to 26"):
        PromptTemplate(OWN_TEMPLATE, None).answers({"choices": "one"})
    mute = SimpleNamespace(codec=SimpleNamespace(encode=lambda field, text: [], info=SimpleNamespace(target="text")))
    with pytest.raises(ValueError, match="the choice 'a' of example 1 has no tokens"):
        check_choices(mute, [({"choices": "a\tb"}, "A")], "f.jsonl")  # pyright: ignore[reportArgumentType]


def test_mistakes(folder: Path, published: Path, tmp_path: Path) -> None:
    def rejects(match: str, *arguments: str | Path, model: Path | None = None, file: Path | None = None) -> None:
        found = weft("prompt", model or folder / "run", file or folder / "test.tsv", *arguments)
        assert found.code == 2 and match in found.err, found
        assert not found.out

    template, train = ("--template", TEMPLATE), ("--train", folder / "train.tsv")
    rejects("pass the template either as --template or as --template-file")
    rejects("pass the template either", *template, "--template-file", folder / "text.txt")
    rejects("nowhere.txt: cannot be read", "--template-file", tmp_path / "nowhere.txt")
    rejects("has no column; write at least one in braces", "--template", "It was {answer}")
    rejects("must be at the end of the template", "--template", "{answer} was {text}")
    rejects(
        "test.tsv:2: the template has the column 'review', but the columns are: text, label", "--template", "{review} {answer}"
    )
    rejects("the template contains {label}, the column of the labels", "--template", "{text} {label} {answer}")
    rejects("shots is 9, but there are 8 examples", *template, *train, "--shots", "9")
    rejects("pass it as --train", *template, "--shots", "1")
    rejects("would reveal the labels", *template, "--shots", "1", "--train", folder / "test.tsv")
    rejects(
        "test.tsv has the class 'neg', but verbalizers are: pos, odd",
        *template,
        "--verbalizer",
        "pos=good",
        "--verbalizer",
        "odd=bad",
    )
    rejects("has no words; write CLASS=WORDS", *template, "--verbalizer", "pos=")
    rejects("the class 'pos' has two verbalizers", *template, "--verbalizer", "pos=good", "--verbalizer", "pos=fine")
    rejects("have the same tokens", *template, "--verbalizer", "pos=strange", "--verbalizer", "neg=foreign")
    rejects("unknown score 'best'; use length or plain", *template, "--score", "best")
    rejects("no column 'kind'; available: text, label", *template, "--label", "kind")
    rejects("there is no file", *template, file=tmp_path / "none.tsv")
    (tmp_path / "empty.tsv").write_text("text\tlabel\n")
    rejects("empty.tsv has no examples", *template, file=tmp_path / "empty.tsv")
    (tmp_path / "uneven.tsv").write_text("text\tlabel\na\n")
    rejects("uneven.tsv:2: 1 columns, but the header has 2", *template, file=tmp_path / "uneven.tsv")
    (tmp_path / "one.tsv").write_text("text\tlabel\na\tpos\n")
    rejects("got 1 answers; classification needs at least two", *template, file=tmp_path / "one.tsv")
    rejects("the longest prompt is too long", *template, *train, "--shots", "8", model=published)
    rejects("the model has 64 positions", *template, *train, "--shots", "8", model=published)
    rejects("there is no file or folder", *template, model=tmp_path / "nothing")


def test_an_encoder_is_rejected(folder: Path, tmp_path: Path) -> None:
    found = weft("prompt", "minilm", folder / "test.tsv", "--template", TEMPLATE)
    assert found.code == 2 and "minilm is not a language model" in found.err
