"""Rows from Python: lists, data frames, datasets; for every source that reads tables, plain and tagged text too."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import numpy as np
import pytest

from weft.data import LabeledText, PlainText, TaggedText, Word, cache_rows
from weft.data.sources.python_data import data_files, table_rows

LABELED = partial(LabeledText, tokenizer=Word, validation_fraction=0, on_bad_row="skip")


def test_texts_are_texts():
    corpus = PlainText(train=cache_rows(["some text", "another"]), tokenizer=Word, validation_fraction=0).open()
    assert [corpus.splits["train"].raw(i)["text"] for i in range(2)] == ["some text", "another"]


def test_words_with_tags():
    data = [(["John", "lives"], ["B-PER", "O"]), (["in", "New\u00a0York", "."], ["O", "B-LOC", "O"])]
    corpus = TaggedText(train=cache_rows(data, ("tokens", "tags")), validation_fraction=0).open()
    assert corpus.splits["train"].raw(1) == {"text": "in New\u00a0York .", "tags": "O B-LOC O"}
    assert len(corpus.splits["train"][1]["tags"].ids) == 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((["John", "lives"], ["O"]), "2 words, but 1 tags"),
        ((["New York"], ["O"]), "contains a space: 'New York'"),
        ((["John"], ["what"]), "'what' is not a tag"),
    ],
)
def test_words_without_their_tags_are_refused(row, message):
    with pytest.raises(ValueError, match=message):
        TaggedText(train=cache_rows([(["a"], ["O"]), row], ("tokens", "tags")), validation_fraction=0).open()


def test_missing_values_are_empty_cells():
    pandas = import_module("pandas")
    assert cache_rows([("a", float("nan")), ("b", np.float32("nan")), ("c", [1.0, float("nan")])], ("text", "label"))
    frame = pandas.DataFrame({"text": ["a 1", "a 2", "a 3", None], "label": ["p", "q", float("nan"), "p"]})
    for some in (frame, frame.convert_dtypes()):
        corpus = LABELED(train=cache_rows(some)).open()
        ledger = corpus.ledger["train"]
        assert corpus.codec.info["label"].labels == ("p", "q")
        assert (ledger["empty rows"], ledger["malformed rows"], ledger["rows"]) == (1, 1, 2)


def test_json_has_no_nan(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "a", "label": 1}\n{"text": "b", "label": 0}\n{"text": "c", "label": NaN}\n')
    with pytest.raises(ValueError, match=r"rows\.jsonl:3: .*NaN is not a JSON value; write null"):
        LabeledText(train=str(file), tokenizer=Word, validation_fraction=0).open()


def test_classes_of_a_dataset_have_their_names():
    datasets = import_module("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    dataset = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [0, 1, 0]}, features=features)
    assert LABELED(train=cache_rows(dataset)).open().codec.info["label"].labels == ("neg", "pos")


def test_a_class_that_has_no_name_is_no_class():
    datasets = import_module("datasets")
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"]))
    features = datasets.Features({"tokens": datasets.Sequence(datasets.Value("string")), "tags": tags})
    good = datasets.Dataset.from_dict({"tokens": [["John", "left"]] * 3, "tags": [[1, 0]] * 3}, features=features)
    assert TaggedText(train=cache_rows(good), validation_fraction=0).open().splits["train"].raw(0)["tags"] == "B-PER O"
    bad = datasets.Dataset.from_dict({"tokens": [["John", "left"]] * 3, "tags": [[1, -1]] * 3}, features=features)
    with pytest.raises(ValueError, match="a word or tag is empty"):
        TaggedText(train=cache_rows(bad), validation_fraction=0).open()


def test_columns_must_be_named():
    with pytest.raises(ValueError, match=r"a row has 2 cells, but columns names 1 .*rows\(data, \(\"text\", \"label\"\)\)"):
        cache_rows([("good", 1)])


def test_what_was_opened_before_does_not_matter(tmp_path):
    """With and without a file for validation, other rows are held out: neither may be taken for the other."""
    train, valid = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    train.write_text("text\tlabel\n" + "".join(f"word{i} here\t{i % 2}\n" for i in range(60)))
    valid.write_text("text\tlabel\n" + "".join(f"word{i} here\t{i % 2}\n" for i in range(60, 70)))
    own, held = (
        partial(LabeledText, train=str(train), valid=str(valid)),
        partial(LabeledText, train=str(train), validation_fraction=0.1),
    )
    found = [build(tokenizer=Word).open().ledger for build in (own, held, own, held)]
    assert found[0]["train"]["unknown tokens"] == 0 and found[0] == found[2]
    assert found[1]["valid"]["rows"] == 6 and found[1] == found[3]


def test_strings_are_files_or_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("a\n")
    assert data_files("rows.csv") == ["rows.csv"] and data_files(tmp_path / "notes") == [str(tmp_path / "notes")]
    assert data_files(["a.csv", "b.csv"]) == ["a.csv", "b.csv"]  # even if missing: the source reports it
    assert data_files(["notes", "good=notes"]) == ["notes", "good=notes"]
    texts = ["a text. Another one", "x = y", "word", "long " * 2000, "null \0"]
    (file,) = data_files(texts)
    assert [text for text in open(file, encoding="utf-8")][2] == '{"text": "word"}\n'  # noqa: PTH123, SIM115, C416


def test_columns_and_rows_are_the_same_table():
    columns = {"text": ["a", "b"], "label": np.array([1, 0])}
    assert cache_rows(columns) == cache_rows([{"text": "a", "label": 1}, {"text": "b", "label": 0}])


def test_several_splits_are_no_table():
    datasets = import_module("datasets")
    part = datasets.Dataset.from_dict({"text": ["a"]})
    with pytest.raises(ValueError, match="not a DatasetDict of train, test"):
        cache_rows(datasets.DatasetDict({"train": part, "test": part}))


def test_columns_of_one_name_are_refused() -> None:
    """pandas would silently keep the last one."""
    frame = import_module("pandas").DataFrame([["one", "two", "x"]], columns=["text", "text", "label"])
    with pytest.raises(ValueError, match="several columns are named 'text'; rename them, or drop all but one"):
        list(table_rows(frame))
