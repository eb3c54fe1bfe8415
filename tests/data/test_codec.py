from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.core.contracts import Data
from weft.core.example import Sequences
from weft.data import Character, Dates, LabeledText, MultipleChoice, ParallelText, PlainText, Word, load_codec, save_codec


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Data]:
    (tmp_path / "a").write_text("ein Haus\nzwei Häuser\n" * 3, encoding="utf-8")
    (tmp_path / "b").write_text("one house\ntwo houses\n" * 3, encoding="utf-8")
    (tmp_path / "t").write_text("text\tlabel\ngood\tgut\nbad\tnicht gut\n", encoding="utf-8")
    (tmp_path / "q").write_text("question\tchoices\tanswer\nzwei?\t1 + 1|2 + 2\tA\nvier?\t1|2|3|4\tD\n", encoding="utf-8")
    a, b, t, q = (str(tmp_path / name) for name in "abtq")
    return {
        "dates": Dates(train=5, valid=2, test=2),
        "plain": PlainText(train=a, tokenizer=Word),
        "shared": ParallelText(train=(a, b)),
        "separate": ParallelText(train=(a, b), tokenizer=Character, target_tokenizer=Word),
        "labeled": LabeledText(train=t, tokenizer=Character, validation_fraction=0),
        "choices": MultipleChoice(train=q, tokenizer=Character, validation_fraction=0),
    }


@pytest.mark.parametrize("name", ["dates", "plain", "shared", "separate", "labeled", "choices"])
def test_round_trip(name: str, sources: dict[str, Data], tmp_path: Path) -> None:
    data, folder = sources[name], tmp_path / "run" / "data"
    codec = data.open().codec
    save_codec(codec, folder)
    expected = {"fields.json", *(f"tokenizer-{space}.json" for space in codec.tokenizers)}
    assert {p.name for p in folder.iterdir()} == expected
    assert json.loads((folder / "fields.json").read_text(encoding="utf-8"))["format"] == 3
    loaded = load_codec(data, folder)
    assert loaded.info == codec.info
    for field in codec.info.texts():
        assert loaded.encode(field.name, "zwei Häuser 12").tolist() == codec.encode(field.name, "zwei Häuser 12").tolist()
    before, after = data.open(), data.open(loaded)
    for split, dataset in before.splits.items():
        for row in range(len(dataset)):
            one, two = dataset[row], after.splits[split][row]
            assert {k: plain(v) for k, v in one.items()} == {k: plain(v) for k, v in two.items()}


def plain(value: Any) -> Any:
    parts = value.parts if isinstance(value, Sequences) else [value]
    return [part if isinstance(part, int) else part.tolist() for part in parts]


def test_files_that_are_missing_or_damaged(sources: dict[str, Data], tmp_path: Path) -> None:
    data, folder = sources["separate"], tmp_path / "run"
    save_codec(data.open().codec, folder)
    fields = folder / "fields.json"
    text = fields.read_text(encoding="utf-8")
    content = json.loads(text)

    def broken(content: str, message: str) -> None:
        fields.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            load_codec(data, folder)

    broken(text[:50], r"fields\.json: not valid JSON")
    broken("[]", r"fields\.json: format None is not supported; this version of weft reads format 3; train again")
    broken(json.dumps({**content, "format": 9}), r"fields\.json: format 9 is not supported")
    broken(json.dumps({"format": 3}), r"fields\.json: damaged file: KeyError")
    first = content["fields"][0]
    broken(
        json.dumps({**content, "fields": [{**first, "vocab": "many"}]}),
        r"fields\.json: damaged file: the field 'source' of kind text: vocab: expected int, not 'many'",
    )
    broken(json.dumps({**content, "fields": [{**first, "vocab": True}]}), "vocab: expected int, not True")
    broken(json.dumps({**content, "fields": [{**first, "vocab": 0}]}), "the field 'source' has vocab 0; it must be at least 1")
    broken(json.dumps({**content, "fields": [{**first, "sentence_ends": [1, "2"]}]}), "sentence_ends: expected int, not '2'")
    broken(
        json.dumps({**content, "fields": [{**first, "frame": {"first": []}}]}),
        "frame: it lacks between, last, pair, segments, single",
    )
    broken(
        json.dumps({**content, "fields": [{**first, "color": 1}]}),
        r"fields\.json: damaged file: .* it has the unknown color; it must",
    )
    broken(
        json.dumps({**content, "fields": [{**first, "kind": "graph"}]}),
        "json: the field 'source' has the unknown kind 'graph'; kinds",
    )
    broken(json.dumps({**content, "fields": ["text"]}), "a field is an object with a name and a kind, not 'text'")
    broken(
        json.dumps({**content, "fields": [{k: v for k, v in first.items() if k != "special"}]}),
        r"fields\.json: damaged file.*special",
    )
    broken(
        json.dumps({**content, "fields": [{**first, "vocab": 5000}, content["fields"][1]]}),
        r"'source' has 5000 ids, but tokenizer-source",
    )
    broken(
        json.dumps({**content, "fields": [{**first, "space": "../x"}]}),
        r"id spaces are \.\./x, but the data of the recipe has source, target",
    )
    fields.write_text(text, encoding="utf-8")
    load_codec(data, folder)
    (folder / "tokenizer-target.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"tokenizer-target\.json: "):
        load_codec(data, folder)
    (folder / "tokenizer-target.json").unlink()
    with pytest.raises(ValueError, match=r"tokenizer-target\.json: file not found"):
        load_codec(data, folder)
    fields.unlink()
    with pytest.raises(ValueError, match=r"fields\.json: file not found"):
        load_codec(data, folder)
