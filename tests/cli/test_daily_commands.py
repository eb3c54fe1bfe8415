"""The commands of every day on a small classifier: new, predict, evaluate, errors, compare, sweep, inspect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import weft

import weft as package
from weft.data import cache_rows

RECIPE = """
seed: 1
data: {type: labeled-text, train: train.tsv, valid: valid.tsv, tokenizer: word}
structure: {type: classifier, dim: 8, encoder: {type: transformer, layers: 1, layer: {mixer: {type: multihead, heads: 2}}}}
objective: classification
learning: {type: gradient, steps: 30, batch_tokens: 100, log_every: 10, optimizer: {type: adam, lr: 0.02}}
evaluate: {every: 15, metrics: [accuracy, macro-f1]}
"""


def table(*numbers: int) -> str:
    return "text\tlabel\n" + "".join(f"{'good' if n % 3 else 'bad'} film {n}\t{'yes' if n % 3 else 'no'}\n" for n in numbers)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("daily")
    (home / "train.tsv").write_text(table(*range(40)))
    (home / "valid.tsv").write_text(table(*range(100, 112)))
    (home / "films.yaml").write_text(RECIPE)
    for seed in (1, 2):
        answer = weft("train", home / "films.yaml", f"seed={seed}", "--run", home / f"run{seed}", "--track", "tensorboard")
        assert answer.code == 0, answer.err
    return home


def test_a_run_prints_its_data_and_writes_its_outputs(home):
    run = home / "run1"
    metrics = json.loads((run / "metrics.json").read_text())
    low, high = metrics["intervals"]["accuracy"]
    assert 0 <= low <= metrics["accuracy"] <= high <= 1
    lines = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == list(range(12))
    right = sum(line["prediction"] == line["reference"]["label"] for line in lines)
    assert right / 12 == pytest.approx(metrics["accuracy"])
    usage = json.loads((run / "usage.json").read_text())
    assert usage["seconds"] > 0 and len(usage["sessions"]) == 1
    assert usage["tokens"] > 1000 and set(usage["spent"]) == {"data", "forward", "backward", "optimizer"}
    for picture in ("curve.png", "confusion.png", "reliability.png"):
        assert (run / picture).read_bytes().startswith(b"\x89PNG")
    assert list((run / "tensorboard").iterdir())


def test_a_wrong_price_is_reported_before_training(home, monkeypatch):
    for price in ("abc", "-1", "nan"):
        monkeypatch.setenv("WEFT_PRICE", price)
        answer = weft("train", home / "films.yaml", "--run", home / "priced")
        assert answer.code == 2 and "WEFT_PRICE must be a number" in answer.err
        assert not (home / "priced").exists()


def test_the_cost_of_a_run_is_reported_with_price_and_grid(home, monkeypatch):
    monkeypatch.setenv("WEFT_PRICE", "0.3")
    monkeypatch.setenv("WEFT_GRID", "400")
    answer = weft("train", home / "films.yaml", "--run", home / "priced", "--keep")
    assert answer.code == 0 and " tokens, " in answer.err and " money, " in answer.err and " g CO2" in answer.err
    (home / "priced" / "usage.json").write_text("{}")  # damaged: what it cost before is not known any more
    assert weft("train", home / "priced", "--resume", "learning.steps=32").code == 0
    assert len(json.loads((home / "priced" / "usage.json").read_text())["sessions"]) == 1


def test_other_files_may_have_other_columns(home):
    (home / "other.tsv").write_text(table(*range(9)).replace("text\tlabel", "words\tlabel"))
    answer = weft("evaluate", home / "run1", home / "other.tsv")
    assert answer.code == 2 and "available: words, label" in answer.err
    answer = weft("evaluate", home / "run1", home / "other.tsv", "data.text=words")
    assert answer.code == 0 and "accuracy" in answer.out
    answer = weft("evaluate", home / "run1", home / "other.tsv", "structure.dim=4")
    assert answer.code == 2 and "only options of the data can be changed on a trained run" in answer.err
    answer = weft("evaluate", home / "run1", f"yes={home}/other.tsv")
    assert answer.code == 2 and "test has one class (yes); give the files of two or more classes" in answer.err
    answer = weft("evaluate", home / "run1", home / "other.tsv", "data.text=words", "--split", "valid")
    assert answer.code == 2 and "got both the split 'valid' and other files" in answer.err


def test_predict_streams_in_order(home):
    texts = [f"{word} film" for word in ("good", "bad", "good", "good", "bad")] * 30
    answer = weft("predict", home / "run1", given="\n".join(texts).encode())
    assert answer.out.splitlines() == ["yes" if text.startswith("good") else "no" for text in texts]
    (line,) = weft("predict", home / "run1", "--json", given=b"good film").out.splitlines()
    found = json.loads(line)
    assert found["answer"] == "yes" and found["text"] == "good film"
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    assert max(found["probabilities"], key=found["probabilities"].get) == "yes"


def test_predict_answers_what_is_around_a_line_that_is_not_text(home):
    answer = weft("predict", home / "run1", given=b"good film\n\xff\nbad film\n")
    assert (answer.code, answer.out.splitlines()) == (0, ["yes", "", "no"])
    assert "standard input:2: not valid UTF-8" in answer.err


def test_evaluate_on_own_data_and_on_other_files(home, tmp_path):
    own = json.loads(weft("evaluate", home / "run1", "--json").out)
    (tmp_path / "same.tsv").write_text(table(*range(100, 112)))
    (tmp_path / "wrong.tsv").write_text(table(*range(100, 112)).replace("yes", "?").replace("no", "yes").replace("?", "no"))
    same = json.loads(weft("evaluate", home / "run1", tmp_path / "same.tsv", "--json").out)
    wrong = json.loads(weft("evaluate", home / "run1", tmp_path / "wrong.tsv", "--json").out)
    assert own["accuracy"] == same["accuracy"] == pytest.approx(1 - wrong["accuracy"])
    shown = weft("evaluate", home / "run1").out
    assert "[" in shown and "micro average" in shown and "precision" in shown
    scores = same["class_report"]
    assert set(scores["classes"]) == {"yes", "no"} and scores["averages"]["micro"]["f1"] == pytest.approx(same["accuracy"])
    assert scores["averages"]["macro"]["support"] == sum(c["support"] for c in scores["classes"].values()) == 12
    answer = weft("evaluate", home / "run1", tmp_path / "none.tsv")
    assert answer.code == 2 and "none.tsv" in answer.err
    (tmp_path / "odd.tsv").write_text("text\tlabel\ngood\tmaybe\n")
    answer = weft("evaluate", home / "run1", tmp_path / "odd.tsv")
    assert answer.code == 2 and "odd.tsv:2" in answer.err and "maybe" in answer.err


def test_errors_come_by_their_loss(home, tmp_path):
    (tmp_path / "mixed.tsv").write_text("text\tlabel\ngood film 1\tyes\ngood film 2\tno\nbad film 3\tno\n")
    found = [json.loads(line) for line in weft("errors", home / "run1", tmp_path / "mixed.tsv", "--json").out.splitlines()]
    assert found[0]["row"] == 1
    assert found[0]["prediction"] == "yes" and found[0]["reference"]["label"] == "no"
    losses = [error["loss"] for error in found]
    assert losses == sorted(losses, reverse=True)
    assert weft("errors", home / "run1", tmp_path / "mixed.tsv", "--max-examples", "1").out.count("loss") == 1


def test_compare_two_seeds(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = weft("compare", home / "run1", home / "run2")
    assert answer.code == 0, answer.err
    assert "seed" in answer.out and "accuracy" in answer.out
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert weft("compare", home / "run1").code == 2
    assert weft("compare", home / "run1", home).code == 2


def test_sweep_makes_a_table_and_resumes(home, tmp_path):
    words = ("sweep", home / "films.yaml", "learning.optimizer.lr=0.02,0.001", "seed=1,2", "--run", tmp_path / "s", "--quiet")
    answer = weft(*words, "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert "table.md" in {path.name for path in (tmp_path / "s").iterdir()}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("*/model.safetensors")}
    assert len(before) == 4
    again = weft(*words, "--json")
    assert json.loads(again.out) == found
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("*/model.safetensors")} == before


def test_inspect_writes_a_page_and_a_picture(home, tmp_path):
    for name, head in (("page.html", b"<!doctype html>"), ("picture.png", b"\x89PNG")):
        answer = weft("inspect", home / "run1", "--input", "good film", "--out", tmp_path / name)
        assert answer.code == 0, answer.err
        assert (tmp_path / name).read_bytes()[:20].lower().startswith(head.lower())
    assert weft("inspect", home / "run1", "--input", "good film", "--out", tmp_path / "page.doc").code == 2


def test_inspect_attributes_a_prediction(home, tmp_path):
    page = tmp_path / "page.html"
    words = ("inspect", home / "run1", "--input", "good film", "--out", page)
    for method in ("integrated-gradients", "occlusion", "shapley"):
        answer = weft(*words, "--method", method, "--target", "no", "--baseline", "unk")
        assert answer.code == 0, answer.err
        assert "prediction  yes" in answer.out and "\nno\n" in answer.out and answer.out.splitlines()[-1] == str(page)
        assert 'class="token ' in page.read_text(encoding="utf-8")
    for wrong, message in [
        (("--method", "lime"), "lime"),
        (("--method", "shapley", "--target", "maybe"), "the classes are: no, yes"),
        (("--method", "occlusion", "--baseline", "black"), "of a text it must be one of"),
        (("--method", "attention", "--target", "no"), "are options of attributions"),
        (("--method", "occlusion", "--out", tmp_path / "page.png"), "ends in .html"),
    ]:
        answer = weft(*words, *wrong)
        assert answer.code == 2 and message in answer.err, answer.err


def test_the_same_from_python_in_three_lines(home):
    run = package.load(home / "run1")
    assert run.predict(["good film", "bad film"]) == ["yes", "no"]


# ----------------------------------------------------------------------------------------------------------------- new


KINDS = {
    "labeled": ({"train.tsv": table(*range(60))}, "labeled-text", "classifier"),
    "labeled csv": (
        {"d.csv": "review,stars\n" + '"It was, in all, good",5\n"It was really bad",1\n' * 20},
        "labeled-text",
        "classifier",
    ),
    "labeled jsonl": (
        {"d.jsonl": '{"text": "it was very good", "label": "yes"}\n{"text": "it was very bad", "label": "no"}\n' * 20},
        "labeled-text",
        "classifier",
    ),
    "several labels": (
        {
            "d.csv": "id,review,topics\n"
            + "1,the food was very good,food;service\n2,it was really slow,service\n3,so so it was,\n" * 20
        },
        "labeled-text",
        "classifier",
    ),
    "rows without a label": (
        {"d.csv": "review,verdict\n" + "the food was good,yes\nit was really slow,no\nso so it was,\n" * 20},
        "labeled-text",
        "classifier",
    ),
    "texts without blanks": (
        {"d.tsv": "text\tlabel\n" + "".join(f"这部电影非常好看{i}\t好\n这部电影不好{i}\t坏\n" for i in range(20))},
        "labeled-text",
        "classifier",
    ),
    "two texts without a header": (
        {"d.tsv": "".join(f"das ist der Satz {i}\tthis is the sentence {i}\n" for i in [0, *range(40)])},
        "parallel-text",
        "seq2seq",
    ),
    "parts of speech": ({"train.conll": "a DET\ndog NOUN\n\nthe DET\ncat NOUN\n\n" * 20}, "tagged-text", "tagger"),
    "parallel": ({"train.de": "ein Hund da\n" * 30, "train.en": "a dog there\n" * 30}, "parallel-text", "seq2seq"),
    "tagged": ({"train.conll": "EU NNP B-ORG\nrejects VBZ O\n\nPeter NNP B-PER\nspoke VBD O\n\n" * 20}, "tagged-text", "tagger"),
    "plain": ({"book.txt": "".join(f"Line number {i} of a book.\n" for i in range(60))}, "plain-text", "language-model"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_new_writes_a_recipe_that_trains(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, source, structure = KINDS[kind]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    answer = weft("new", *files)
    assert answer.code == 0, answer.err
    assert ("\ncolumns: " in answer.out) == any(name.endswith((".tsv", ".csv", ".jsonl")) for name in files)
    text = (tmp_path / "recipe.yaml").read_text()
    assert f"type: {source}" in text and f"type: {structure}" in text
    small = ["structure.dim=8", "learning.epochs=null", "learning.steps=2", "evaluate.every=1", "data.validation_fraction=0.2"]
    if source == "parallel-text":  # the rows are all the same, so none can be held out
        small[-2:] = ["data.validation_fraction=0", "evaluate.every=0", "learning.patience=0", "learning.final=last"]
    answer = weft("train", "recipe.yaml", *small, "--run", "run")
    assert answer.code == 0, answer.err
    assert weft("check", "recipe.yaml").out.endswith("recipe: valid\n")
    again = weft("new", *files)
    assert again.code == 2 and "recipe.yaml already exists" in again.err


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.txt": ""}, "a.txt: the file is empty"),
        ({"a.bin": "\0\x01\x02\udcff\x03\n" * 9}, "a.bin: not a text file"),
        ({"test.txt": "x y z\n"}, "no training file among test.txt"),
        ({"a.de": "x\n", "a.en": "x\ny\n"}, "have 1 and 2 lines; parallel texts need the same number of lines"),
        ({"a.tsv": "id\tage\n" + "".join(f"{i}\t{i}\n" for i in range(30))}, "no column holds texts"),
    ],
)
def test_new_reports_why_it_cannot_detect_the_task(files, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    answer = weft("new", *files)
    assert answer.code == 2 and message in answer.err
    assert not (tmp_path / "recipe.yaml").exists()


# ------------------------------------------------------------------------------------------------------- rows from Python


def test_rows_from_lists_frames_and_datasets_are_the_same(tmp_path):
    import datasets
    import pandas

    pairs = [("good film", 1), ("bad film", 0)]
    dicts = [{"text": text, "label": label} for text, label in pairs]
    files = [
        cache_rows(pairs, ("text", "label")),
        cache_rows(dicts),
        cache_rows(pandas.DataFrame(dicts)),
        cache_rows(datasets.Dataset.from_list(dicts)),
    ]
    assert len(set(files)) == 1
    assert [json.loads(line) for line in Path(files[0]).read_text().splitlines()] == dicts
    with pytest.raises(ValueError, match="a row has 1 cells, but columns names 2"):
        cache_rows(["good"], ("text", "label"))
    with pytest.raises(ValueError, match="not a str"):
        cache_rows("good")
    with pytest.raises(ValueError, match="data has no rows; at least one is needed"):
        cache_rows([])
