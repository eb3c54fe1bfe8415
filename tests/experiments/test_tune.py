"""``weft.tune``: the task is detected from a file, and training continues from the pretrained weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from weft.cli.app import main
from weft.core.fields import Info, TextField
from weft.experiments.scaffold import detect_data, fine_tuning_recipe
from weft.models import bert, gpt2, t5
from weft.pretrained import load, save
from weft.training.dry_run import check
from weft.training.recipes import read_run, read_run_text

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fine", "poor", "film", "play", "very", "not"]
WORDS += ["it", "was", "a", "the", "what"]
TEXT = Info({"text": TextField("text", len(WORDS))})
PAIR = Info({name: TextField(name, len(WORDS)) for name in ("source", "target")}, "target")
SIZES: dict[str, Any] = {"dim": 32, "layers": 2, "heads": 2}
MODELS: dict[str, tuple[Any, Info]] = {
    "bert": (bert(**SIZES, hidden=64, length=40), TEXT),
    "gpt2": (gpt2(**SIZES, length=40), TEXT),
    "t5": (t5(**SIZES, hidden=64), PAIR),
}
QUESTION = {"question": "what was good", "answer": "film", "answer_start": 4}
CHOICE = {"choices": ["good film", "bad play"], "label": 0}
FILES: dict[str, str] = {
    "labeled.tsv": "text\tlabel\n" + "a very good film\tyes\na very bad play\tno\n" * 20,
    "multi-label.tsv": "text\tlabel\n" + "a very good film\tgood|film\na very bad play\tplay\nnot a bad film\tfilm\n" * 20,
    "numbers.tsv": "text\tscore\n" + "a very good film\t4.5\na very bad play\t1.5\nnot so bad\t3.1\n" * 20,
    "pairs.tsv": "first\tsecond\tlabel\n"
    + "a good film it was\tit was a good film\tyes\nit was a bad play\tthe good film\tno\n" * 20,
    "tagged.txt": "good O\nfilm B-WORK\n\nbad O\nplay B-WORK\n\n" * 20,
    "questions.jsonl": "".join(
        json.dumps(QUESTION | {"context": c}) + "\n" for c in ("the film was good", "the film was very good") * 20
    ),
    "choices.jsonl": "".join(json.dumps(CHOICE | {"question": q}) + "\n" for q in ("was it good", "what was good") * 20),
    "rows.tsv": "source\ttarget\n" + "a very good film\tnot a bad film\na very bad play\tnot a good play\n" * 20,
    "plain.txt": "a very good film\na very bad play\nit was not a good film\n" * 20,
}
REQUESTS: dict[str, Any] = {
    "labeled.tsv": "good film",
    "multi-label.tsv": "good film",
    "numbers.tsv": "good film",
    "pairs.tsv": {"first": "good film", "second": "bad play"},
    "tagged.txt": "good film",
    "questions.jsonl": {"question": "what", "context": "the good film"},
    "choices.jsonl": {"question": "what", "choices": ["good film", "bad play"]},
}
CASES = [("bert", file) for file in FILES if file != "rows.tsv"] + [("gpt2", "plain.txt"), ("t5", "rows.tsv")]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the data files and the pretrained models."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    torch.manual_seed(0)
    for name, (structure, info) in MODELS.items():
        save(structure(info), structure, name)
        (Path(name) / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


@pytest.mark.parametrize(("model", "file"), CASES)
def test_fine_tuning_starts_from_the_pretrained_weights(model: str, file: str, here: Path) -> None:
    run = weft.tune(model, file, steps=1, folder="run", quiet=True)
    before, after = load(here / model).model.state_dict(), run.model.state_dict()
    pretrained = [name for name in before if name.startswith(("embedder.", "encoder.", "decoder."))]
    assert len(pretrained) > 20
    assert all(float((after[name].cpu() - before[name]).abs().max()) < 1e-3 for name in pretrained)  # after one small step
    if file in ("rows.tsv", "plain.txt"):
        return
    (answer,) = weft.load("run").predict([REQUESTS[file]])
    assert [answer] == run.predict([REQUESTS[file]])
    if file == "numbers.tsv":
        float(answer)
    elif file in ("labeled.tsv", "pairs.tsv"):
        assert answer in ("yes", "no")
    elif file == "tagged.txt":
        assert len(answer.split()) == 2 and set(answer.split()) <= {"O", "B-WORK"}
    elif file == "questions.jsonl":
        assert answer in "the good film"


@pytest.mark.parametrize(("model", "file"), CASES)
def test_weft_new_writes_the_recipe_of_tune(model: str, file: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["new", file, "--from", model, "--out", "r.yaml"])
    assert not exited.value.code and "wrote r.yaml" in capsys.readouterr().out
    assert Path("r.yaml").read_text() == fine_tuning_recipe(detect_data([file]), here, model)
    run = read_run("r.yaml")
    check(run)
    learning, evaluation = run.dump()["learning"], run.dump()["evaluate"]
    assert learning["epochs"] == 10 and learning["final"] == "best" and learning["patience"] and evaluation["every"]
    fewer = read_run_text(fine_tuning_recipe(detect_data([file]), here, model, 7), "r.yaml", here)
    assert fewer.dump()["learning"]["steps"] == 7 and fewer.dump()["learning"]["epochs"] is None


@pytest.mark.parametrize(
    ("model", "file", "message"),
    [
        ("t5", "plain.txt", r"the files are plain-text .*, but .* is a sequence-to-sequence model"),
        ("gpt2", "rows.tsv", r"the files are parallel-text .*, but .* is not a sequence-to-sequence model"),
        ("bert", "rows.tsv", r"the files are parallel-text .*, but "),
        ("t5", "labeled.tsv", r"the files are labeled-text .*, but "),
        ("gpt2", "questions.jsonl", r"the files are question-answering .*, but "),
        ("nothing-there", "labeled.tsv", "there is no file or folder"),
        ("bert", "missing.tsv", r"there is no file .*missing\.tsv"),
    ],
)
def test_a_model_without_a_head_for_the_task_is_an_error(model: str, file: str, message: str, here: Path) -> None:
    with pytest.raises(ValueError, match=message):
        weft.tune(model, file, quiet=True)
    assert not Path("runs").exists()


def test_text_pairs_are_truncated_to_the_positions_of_the_model(here: Path) -> None:
    row = "a good film " * 30 + "\t" + "a bad play " * 30 + "\tyes\n"
    Path("long.tsv").write_text("first\tsecond\tlabel\n" + (row + "a film it was\tbad it was\tno\n") * 20)
    run = weft.tune("bert", "long.tsv", steps=2, quiet=True)
    assert run.folder is not None and run.folder.parent == Path("runs")
    assert len(run.predict([{"first": "film " * 50, "second": "play " * 50}])) == 1


def test_large_data_is_trained_for_three_epochs(here: Path) -> None:
    Path("large.tsv").write_text("text\tlabel\n" + "a very good film\tyes\na very bad play\tno\n" * 20_000)
    run = read_run_text(fine_tuning_recipe(detect_data(["large.tsv"]), here, "bert"), "r.yaml", here)
    learning = run.dump()["learning"]
    assert learning["epochs"] == 3 and learning["batch_size"] == 16


ROWS = [{"Review": f"a very {'good' if i % 2 else 'bad'} film", "Polarity": "yes" if i % 2 else "no", "id": i} for i in range(24)]


@pytest.mark.parametrize("form", ["frame", "dicts", "columns", "files"])
def test_in_memory_rows_and_lists_of_files(form: str, here: Path) -> None:
    import pandas

    frame = pandas.DataFrame(ROWS)
    frame.to_csv("one.csv", index=False)
    frame.to_csv("two.csv", index=False)
    data = {"frame": frame, "dicts": ROWS, "columns": dict(frame.items()), "files": ["one.csv", "two.csv"]}[form]
    run = weft.tune("bert", data, text="Review", label="Polarity", test=frame, lr=1e-3, steps=2, folder="run", quiet=True)
    recipe = run.run.dump()
    assert (recipe["data"]["text"], recipe["data"]["label"]) == ("Review", "Polarity")
    assert (recipe["learning"]["optimizer"]["lr"], recipe["learning"]["steps"]) == (1e-3, 2)
    assert run.result.split == "test" and set(run.predict(frame)) <= {"yes", "no"}


def test_epochs_and_batch_size_count_examples(here: Path) -> None:
    run = weft.tune("bert", ROWS, text="Review", label="Polarity", epochs=3, batch_size=4, quiet=True)
    learning = run.run.dump()["learning"]
    assert (learning["epochs"], learning["batch_size"]) == (3, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "review"}, "there is no column 'review'; the columns are: Review, Polarity, id"),
        ({"epochs": 1, "steps": 1}, r"got both epochs \(1\) and steps \(1\)"),
        ({"lr": -1.0}, "lr is -1.0; it must be greater than 0"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, Any], message: str, here: Path) -> None:
    with pytest.raises(ValueError, match=message):
        weft.tune("bert", ROWS, **options)
    with pytest.raises(ValueError, match="no training data"):
        weft.tune("bert")
    assert not Path("runs").exists()
