"""Raw files of many shapes: from ``weft new`` to predictions, without a manual edit."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
from pathlib import Path

import pytest
from tests.commands import weft

from weft.data.sources.detect_encoding import detect_encoding

WORDS: list[str] = "good bad film story very fine dull plot actor scene long short music end".split()  # noqa: SIM905
CHINESE, JAPANESE, THAI = "这部电影非常好看我很喜欢", "この映画はとても面白かったです", "หนังเรื่องนี้สนุกมากผมชอบ"
Files = dict[str, str | bytes]
"""Contents by file name."""


def sentence(rng: random.Random, words: int = 6) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def rows(count: int = 60, labels: str = "ab") -> list[tuple[str, str]]:
    rng = random.Random(0)
    return [(sentence(rng), rng.choice(labels)) for _ in range(count)]


def unspaced(letters: str, count: int = 60) -> list[tuple[str, str]]:
    rng = random.Random(1)
    return [("".join(rng.choices(letters, k=14)), rng.choice(["正面", "负面"])) for _ in range(count)]


def lines(layout: str, found: list[tuple[str, str]] | None = None, header: str = "") -> str:
    return header + "".join(layout.format(text=text, label=label) + "\n" for text, label in found or rows())


def conll(layout: str, words: list[str] = WORDS) -> str:
    rng = random.Random(2)
    tags = ["O", "O", "B-PER", "B-LOC"]
    return "".join(
        "".join(layout.format(word=rng.choice(words), tag=rng.choice(tags)) + "\n" for _ in range(5)) + "\n" for _ in range(20)
    )


def pairs(count: int = 40) -> list[tuple[str, str]]:
    rng = random.Random(3)
    texts = [sentence(rng, rng.randint(2, 9)) for _ in range(count)]
    return [(text, text.upper()) for text in texts]


def squad() -> str:
    context = "Ann went to Ulm. Bob stayed at home."
    asked = [
        {"id": str(n), "question": f"Who {verb}?", "answers": [{"text": name, "answer_start": context.index(name)}]}
        for n, (verb, name) in enumerate([("went", "Ann"), ("stayed", "Bob")])
    ]
    paragraphs = [{"context": f"{context} This is text {n}.", "qas": asked} for n in range(20)]
    return json.dumps({"data": [{"paragraphs": paragraphs}]}, indent=1)


def objects(found: list[tuple[str, str]]) -> list[str]:
    return [json.dumps({"text": text, "label": label}, ensure_ascii=False) for text, label in found]


def quoted_rows() -> str:
    return "id,text,label\n" + "".join(f'{n},"{text}, so\n""{text[:4]}""",{label}\n' for n, (text, label) in enumerate(rows()))


TSV, CSV = lines("{text}\t{label}", header="text\tlabel\n"), lines("{text},{label}", header="text,label\n")
CLASSES = {kind: "".join(f"{text} {kind} caf\u00e9\n" for text, _ in rows(30)) for kind in ("pos", "neg")}
ACCENTS = lines("{text} d\u00e9j\u00e0 vu\t{label}", header="text\tlabel\n")
SHAPES: dict[str, tuple[str, Files]] = {
    "TREC": ("labeled-text", {"train.label": lines("DESC:{label} {text} ?") + lines("LOC:{label} {text} ?")}),
    "label first": ("labeled-text", {"train.txt": lines("{label}{label} {text}", rows(labels="AB"))}),
    "fastText": ("labeled-text", {"train.txt": lines("__label__{label} {text}")}),
    "fastText, several labels": (
        "labeled-text",
        {"train.txt": lines("__label__{label} __label__x {text}") + lines("__label__x {text}")},
    ),
    "class files": ("labeled-text", {f"rt-polarity.{kind}": text.encode("latin-1") for kind, text in CLASSES.items()}),
    "class folders of documents": (
        "labeled-text",
        {
            f"imdb/{split}/{kind}/{n}.txt": f"{text}\n{text}\n"
            for split in ("train", "test")
            for kind in CLASSES
            for n, (text, _) in enumerate(rows(20))
        },
    ),
    "class folders of lines": ("labeled-text", {f"texts/{kind}/all.txt": text for kind, text in CLASSES.items()}),
    "CoNLL, tabs": ("tagged-text", {"train.conll": conll("{word}\t{tag}")}),
    "CoNLL in a .tsv file": ("tagged-text", {"ner.tsv": conll("{word}\t{tag}")}),
    "CoNLL, spaces, four columns": ("tagged-text", {"train.txt": "-DOCSTART- -X- O O\n\n" + conll("{word} NN O {tag}")}),
    "CoNLL, number signs": (
        "tagged-text",
        {"wnut.test.iob": "#\tO\nUlm\tB-LOC\n\n", "wnut.train.iob": conll("{word}\t{tag}", [*WORDS, "#", "#tag"])},
    ),
    "CoNLL-U": (
        "tagged-text",
        {
            "train.conllu": "".join(
                f"# sent_id = {n}\n1\t{text.split()[0]}\t_\tNOUN" + "\t_" * 6 + "\n2\tis\t_\tVERB" + "\t_" * 6 + "\n\n"
                for n, (text, _) in enumerate(rows(30))
            )
        },
    ),
    "CoNLL, tag first": ("tagged-text", {"train.bio": conll("{tag}\t{word}")}),
    "CoNLL, Japanese": ("tagged-text", {"train.txt": conll("{word}\t{tag}", list(JAPANESE))}),
    "words and tags in JSON": (
        "tagged-text",
        {
            "train.jsonl": "".join(
                f'{{"tokens": ["{text.split()[0]}", "is"], "ner_tags": ["B-LOC", "O"]}}\n' for text, _ in rows()
            )
        },
    ),
    "tabs": ("labeled-text", {"train.tsv": TSV}),
    "tabs, no header": ("labeled-text", {"train.txt": lines("{text}\t{label}")}),
    "tabs, quoted": ("labeled-text", {"train.tsv": lines('"{text}"\t"{label}"', header='"text"\t"label"\n')}),
    "commas, quoted, line ends inside": ("labeled-text", {"train.csv": quoted_rows()}),
    "commas, no header": ("labeled-text", {"train.csv": lines("{label},{text}")}),
    "semicolons": ("labeled-text", {"train.csv": lines("{text}, {text};{label}", header="text;label\n")}),
    "a comma after the last column": ("labeled-text", {"train.csv": lines("{text},{label},", header="text,label,\n")}),
    "vertical bars": ("labeled-text", {"train.txt": lines("{text}, well|{label}", header="text|label\n")}),
    "upper case": ("labeled-text", {"train.csv": lines("{label},{text}", header="LABEL,TEXT\n")}),
    "splits, one without labels": (
        "labeled-text",
        {
            "SST/train.tsv": lines("{text}\t{label}", header="sentence\tlabel\n"),
            "SST/dev.tsv": lines("{text}\t{label}", rows(20), "sentence\tlabel\n"),
            "SST/test.tsv": lines("1\t{text}", rows(20), "index\tsentence\n"),
            "SST/README.md": "About these sentences.\n",
        },
    ),
    "Chinese": ("labeled-text", {"train.csv": lines("{text},{label}", unspaced(CHINESE), "评论,标签\n")}),
    "Japanese": ("labeled-text", {"train.tsv": lines("{text}\t{label}", unspaced(JAPANESE), "text\tlabel\n")}),
    "Thai": ("labeled-text", {"train.tsv": lines("{text}\t{label}", unspaced(THAI))}),
    "gzip, commas": ("labeled-text", {"train.csv.gz": gzip.compress(CSV.encode())}),
    "gzip, lines": ("plain-text", {"train.txt.gz": gzip.compress(lines("{text}").encode())}),
    "gzip, JSON lines": ("labeled-text", {"train.jsonl.gz": gzip.compress("\n".join(objects(rows())).encode())}),
    "Latin-1": ("labeled-text", {"train.tsv": ACCENTS.encode("latin-1")}),
    "CP1252": ("labeled-text", {"train.tsv": ACCENTS.replace("vu", "\u2013 \u201cvu\u201d").encode("cp1252")}),
    "GB18030": ("labeled-text", {"train.tsv": lines("{text}\t{label}", unspaced(CHINESE), "text\tlabel\n").encode("gb18030")}),
    "UTF-16 with a byte-order mark": ("labeled-text", {"train.tsv": ACCENTS.encode("utf-16")}),
    "UTF-8 with a byte-order mark": ("labeled-text", {"train.tsv": ACCENTS.encode("utf-8-sig")}),
    "Windows line ends": ("labeled-text", {"train.tsv": TSV.replace("\n", "\r\n")}),
    "null characters": ("plain-text", {"train.txt": lines("{text}\0{text}")}),
    "JSON lines": ("labeled-text", {"train.jsonl": "\n".join(objects(rows()))}),
    "label and text, a tab between": ("labeled-text", {"SMSSpamCollection": lines("{label}{label}\t{text}", rows(labels="AB"))}),
    "JSON list": ("labeled-text", {"train.json": "[\n" + ",\n".join(objects(rows())) + "\n]\n"}),
    "JSON lines, nested": (
        "labeled-text",
        {"train.jsonl": "".join(f'{{"id": 1, "body": {{"text": "{a}"}}, "gold": {{"label": "{b}"}}}}\n' for a, b in rows())},
    ),
    "JSON lines in .json": ("labeled-text", {"train.json": "\n".join(objects(rows()))}),
    "parallel files": (
        "parallel-text",
        {"train.de": "".join(f"{a}\n" for a, _ in pairs()), "train.en": "".join(f"{b}\n" for _, b in pairs())},
    ),
    "parallel table": ("parallel-text", {"train.tsv": "".join(f"{a}.\t{b}!\n" for a, b in pairs())}),
    "pairs with a score": (
        "sentence-pairs",
        {"train.csv": "".join(f'"{a}","{b}",{n % 5}.{n % 7}\n' for n, (a, b) in enumerate(pairs(60)))},
    ),
    "SQuAD": ("question-answering", {"train.json": squad()}),
}


def write(folder: Path, files: Files) -> list[Path]:
    """Write the files; return the arguments of ``weft new``: the files, or the folder that they are in."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return sorted({folder / Path(name).parts[0] for name in files})


def request(source: str) -> bytes:
    if source == "sentence-pairs":
        return b"good film\tbad film\n"
    return b"Who went?\tAnn went.\n" if source == "question-answering" else b"good film\n"


@pytest.mark.parametrize("shape", SHAPES)
def test_from_raw_files_to_predictions_without_an_edit(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, files = SHAPES[shape]
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    recipe, run = tmp_path / "recipe.yaml", tmp_path / "run"
    new = weft("new", *write(tmp_path, files), "--out", recipe)
    assert new.code == 0, new.err
    assert new.out.startswith(f"{source}: ") and f"type: {source}" in recipe.read_text(encoding="utf-8")
    checked = weft("check", recipe)
    assert checked.code == 0, checked.err
    small = ["structure.dim=8", "learning.steps=2", "learning.schedule=constant", "evaluate.every=1", "device=cpu"]
    small += ["data.validation_fraction=0.2"] if "validation_fraction" in recipe.read_text(encoding="utf-8") else []
    if source in ("plain-text", "parallel-text", "question-answering"):
        small += ["data.tokenizer.vocab_size=100"]
    if source == "parallel-text":
        small += ["evaluate.search={type: greedy, max_length: 5}"]
    trained = weft("train", recipe, *small, "--run", run)
    assert trained.code == 0, trained.err
    evaluated = weft("evaluate", run)
    assert evaluated.code == 0 and evaluated.out.startswith("loss "), evaluated.err
    if source in ("plain-text", "parallel-text"):
        answer = weft("generate", run, "--max-length", "4", given=b"good film\n")
    else:
        answer = weft("predict", run, "--json", given=request(source))
        predict_file(run, tmp_path / min(files, key=lambda name: "test" not in name), tmp_path)
    assert answer.code == 0, answer.err
    assert answer.out.strip()


def predict_file(run: Path, file: Path, folder: Path) -> None:
    """Predict a raw file: the output has every row of it, in a format that the message names."""
    printed = weft("predict", run, file)
    assert printed.code == 0, printed.err
    out = folder / "predictions"
    written = weft("predict", run, file, "--out", out)
    assert written.code == 0, written.err
    count, kind = re.findall(rf"wrote ([\d,]+) rows to {re.escape(str(out))} \((.*)\)", written.err)[0]
    assert int(count) == len(printed.out.splitlines()) > 0
    own = detect_encoding(str(file)).replace("ascii", "utf-8")
    text = out.read_text(encoding="utf-8" if kind == "JSON Lines" else own).removeprefix("\ufeff")
    if kind == "JSON Lines":
        found = [json.loads(line) for line in text.split("\n") if line]
        assert len(found) == int(count) and all("prediction" in row for row in found)
    elif kind in ("CSV", "TSV"):
        delimiter = max(",;|\t", key=lambda mark: text.partition("\n")[0].count(mark))
        table = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        assert len({len(row) for row in table}) == 1 and len(table) - int(count) in (0, 1)
    else:
        assert kind == "columns" and len(text.split("\n")) == len(read_text(file).split("\n"))


def read_text(file: Path) -> str:
    content = file.read_bytes()
    return (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8")
