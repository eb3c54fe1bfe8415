"""The hostile files of ``benchmarks.hostile``: what is made, and which command is run on it."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
DEEP = "[" * 200_000 + "]" * 200_000
HUGE = "9" * 6000
TINY = """\
seed: 3
device: cpu
data: {{type: labeled-text, train: {data}, validation_fraction: 0.2, tokenizer: word}}
structure:
  type: classifier
  dim: 8
  encoder: {{type: transformer, layers: 1, layer: {{mixer: {{type: multihead, heads: 2}}}}}}
objective: classification
learning: {{type: gradient, steps: 2, batch_tokens: 300}}
"""


@dataclass(frozen=True)
class Case:
    """One hostile input.

    Args:
        kind: Kind of file, for the table.
        name: What is hostile about it.
        make: Writes it into a folder.
        command: Arguments of ``weft``; ``@`` stands for that folder.
    """

    kind: str
    name: str
    make: Callable[[Path], None]
    command: list[str]


def text_file(name: str, content: str | bytes) -> Callable[[Path], None]:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return lambda folder: _written(folder / name, data)


def _written(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def recipes() -> Iterator[Case]:
    """Recipes that try to run code, to grow, or to confuse the terminal."""
    texts = {
        "python tag": "data: !!python/object/apply:os.system ['touch owned']",
        "python name": "data: !!python/name:os.system",
        "import path": "data: {type: os.system}",
        "dunder": "data: {type: __class__}",
        "alias bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)),
        "cycle": "data: &a {type: *a}",
        "reference cycle": 'seed: "${seed}"\ndata: dates',
        "deep flow": "data: " + "[" * 5000 + "]" * 5000,
        "deep block": "\n".join(" " * i + f"a{i}:" for i in range(3000)),
        "huge number": f"seed: {HUGE}",
        "huge float": "seed: 1e999999999",
        "underscores": "seed: 1_000",
        "full width": "seed: １２",
        "long scalar": "seed: " + "x" * 5_000_000,
        "many keys": "\n".join(f"k{i}: 1" for i in range(50_000)),
        "nul": "seed: \0",
        "escape": f'"{json.dumps(ESCAPE)[1:-1]}": 1',
        "escape value": f"data: {{type: {json.dumps(ESCAPE)}}}",
        "not utf-8": b"seed: \xff\xfe",
        "utf-16": "seed: 1\ndata: dates".encode("utf-16"),
        "empty": "",
        "list": "- 1\n- 2",
        "merge key": "a: &a {seed: 1}\n<<: *a\ndata: dates",
        "two documents": "seed: 1\n---\nseed: 2",
        "duplicate": "seed: 1\nseed: 2",
        "date": "seed: 2020-01-01",
        "path out": "data: {type: plain-text, train: ../../../../etc/passwd, tokenizer: character}",
        "device": "data: {type: plain-text, train: /dev/zero, tokenizer: character}",
    }
    for name, content in texts.items():
        for command in (["check", "@/r.yaml"], ["train", "@/r.yaml", "--run", "@/out"]):
            yield Case("recipe", f"{name}: {command[0]}", text_file("r.yaml", content), command)


JSON_FILES = (
    "fields.json",
    "metrics.json",
    "usage.json",
    "ledger.json",
    "environment.json",
    "published.json",
    "tokenizer-text.json",
)
JSON_TEXTS = {
    "deep": DEEP,
    "huge number": HUGE,
    "list": "[]",
    "null": "null",
    "number": "3",
    "empty": "",
    "half": '{"format": 1, "a": [1, 2',
    "not utf-8": "\xff\xfe".encode("latin-1"),
    "escape": json.dumps({"format": 1, ESCAPE: ESCAPE, "fields": [{"name": ESCAPE, "kind": ESCAPE}]}),
}
USES = (["predict", "@/run", "@/lines.txt"], ["evaluate", "@/run"], ["train", "@/run", "learning.steps=3", "--resume"])


def run_folders(trained: Path) -> Iterator[Case]:
    """Copies of a trained run with one file changed."""

    def changed(change: Callable[[Path], None]) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            shutil.copytree(trained, folder / "run")
            (folder / "lines.txt").write_text("good film\n")
            change(folder / "run")

        return make

    for file in JSON_FILES:
        for name, content in JSON_TEXTS.items():
            yield Case("run folder", f"{file}: {name}", changed(text_file(file, content)), list(USES[len(name) % 3]))
    for name, content in JSON_TEXTS.items():
        yield Case("run folder", f"log.jsonl: {name}", changed(text_file("log.jsonl", content)), list(USES[2]))
        yield Case(
            "run folder",
            f"compare: metrics.json: {name}",
            changed(text_file("metrics.json", content)),
            ["compare", "@/run", "@/run"],
        )

        def best(run: Path, content: str | bytes = content) -> None:
            text_file("checkpoints/best.json", content)(run)

        yield Case("run folder", f"best.json: {name}", changed(best), [*USES[2]])
    for use in USES:
        for name, dim in {"dim 30000": "dim: 30000", "layers 100000": "layers: 100000"}.items():

            def grow(run: Path, dim: str = dim) -> None:
                text = (run / "recipe.yaml").read_text()
                key = dim.split(":")[0]
                (run / "recipe.yaml").write_text(
                    "\n".join(f"{line.split(key)[0]}{dim}" if f"{key}:" in line else line for line in text.splitlines())
                )

            yield Case("run folder", f"recipe with {name}: {use[0]}", changed(grow), list(use))
        for name, header in {
            "length": struct.pack("<Q", 2**62),
            "short": b"\x08",
            "deep": struct.pack("<Q", len(DEEP)) + DEEP.encode(),
        }.items():
            yield Case("run folder", f"safetensors {name}: {use[0]}", changed(text_file("model.safetensors", header)), list(use))
        for target in (
            "log.jsonl",
            "metrics.json",
            "predictions.jsonl",
            "checkpoints",
            "model.safetensors",
            "recipe.yaml",
            ".lock",
            "tensorboard",
        ):

            def link(run: Path, target: str = target) -> None:
                path = run / target
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                path.symlink_to(
                    run.parents[1] / "home" / ("victim-run" if target in ("checkpoints", "tensorboard") else "profile")
                )

            yield Case("run folder", f"{target} is a link: {use[0]}", changed(link), list(use))
        for target in ("log.jsonl", "fields.json", ".lock", "model.safetensors"):

            def pipe(run: Path, target: str = target) -> None:
                (run / target).unlink(missing_ok=True)
                os.mkfifo(run / target)

            yield Case("run folder", f"{target} is a pipe: {use[0]}", changed(pipe), list(use))


def published() -> Iterator[Case]:
    """Published models whose config, tokenizer or index lies."""
    config: dict[str, Any] = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": 8,
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
    }
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]

    def model(changes: dict[str, Any] | None = None, files: dict[str, str | bytes] | None = None) -> Callable[[Path], None]:
        def make(folder: Path) -> None:
            (folder / "lines.txt").write_text("good film\n")
            text_file("model/config.json", json.dumps({**config, **(changes or {})}))(folder)
            text_file("model/vocab.txt", "\n".join(words))(folder)
            for name, content in (files or {}).items():
                text_file(f"model/{name}", content)(folder)

        return make

    uses = (["embed", "@/model", "@/lines.txt"], ["convert", "@/model", "@/out"])
    values = [2**62, -1, 0, 1e308, "x", None, [], {}, ESCAPE, True]
    for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings", "model_type"):
        for value in values:
            yield Case("published model", f"{key}: {str(value)[:12]!r}", model({key: value}), list(uses[0]))
    for name, content in JSON_TEXTS.items():
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            yield Case("published model", f"{file}: {name}", model(files={file: content}), list(uses[len(name) % 2]))
    plain = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
    }

    def tokenizer(vocab: dict[str, int], **more: Any) -> str:
        return json.dumps({**plain, "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}, **more})

    known = {word: i for i, word in enumerate(words)}
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 50}
    tokenizers = {
        "id 300 million": tokenizer({**known, "x": 300_000_000}),
        "id 4 billion": tokenizer({**known, "x": 2**32 - 1}),
        "id too large": tokenizer({**known, "x": 2**70}),
        "negative id": tokenizer({**known, "x": -1}),
        "added id": tokenizer(
            known,
            added_tokens=[
                {
                    "id": 2**31,
                    "content": "x",
                    "special": True,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                }
            ],
        ),
        "catastrophic pattern": tokenizer(
            known, pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
        ),
        "growing normalizers": tokenizer(known, normalizer={"type": "Sequence", "normalizers": [grow] * 8}),
        "deep normalizers": json.dumps({**plain, "model": {"type": "WordLevel", "vocab": known, "unk_token": "[UNK]"}}).replace(
            '"normalizer": null',
            '"normalizer": ' + '{"type": "Sequence", "normalizers": [' * 300 + '{"type": "Lowercase"}' + "]}" * 300,
        ),
        "escape token": tokenizer({**known, ESCAPE: len(known)}),
    }
    for name, content in tokenizers.items():
        for use in uses:
            yield Case("tokenizer", f"{name}: {use[0]}", model(files={"tokenizer.json": content}), list(use))
    indices = {
        "out": "../../home/profile",
        "absolute": "/etc/passwd",
        "device": "/dev/zero",
        "itself": "model.safetensors.index.json",
    }
    for name, target in indices.items():
        index = json.dumps({"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": target}})
        yield Case("published model", f"index {name}", model(files={"model.safetensors.index.json": index}), list(uses[0]))
    pickled = b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."
    yield Case("published model", "pickle", model(files={"pytorch_model.bin": pickled}), list(uses[0]))
    yield Case("published model", "pickle as safetensors", model(files={"model.safetensors": pickled}), list(uses[0]))
    yield Case(
        "published model",
        "auto_map",
        model({"auto_map": {"AutoModel": "evil.Model"}}, {"evil.py": "open('owned', 'w')"}),
        list(uses[0]),
    )


def data_files() -> Iterator[Case]:
    """Tables and texts."""
    rows = "".join(f"good film {i},pos\nbad film {i},neg\n" for i in range(30))
    texts: dict[str, str | bytes] = {
        "nul": f"text,label\n{rows}a\0b,pos\n",
        "escape text": f"text,label\n{rows}{ESCAPE},pos\n",
        "escape class": f"text,label\n{rows}good,{ESCAPE}\n",
        "escape header": f"{ESCAPE},label\n{rows}",
        "open quote": f'text,label\n{rows}"good,pos\n' + "x" * 1_000_000,
        "long line": f"text,label\n{rows}{'word ' * 2_000_000},pos\n",
        "many columns": "a," * 100_000 + "\n" + "1," * 100_000 + "\n",
        "not utf-8": b"text,label\n" + rows.encode() + b"\xff\xfe,pos\n",
        "utf-16": f"text,label\n{rows}".encode("utf-16"),
        "empty": "",
        "only header": "text,label\n",
        "one column": "text\n" + "x\n" * 50,
        "formula": f"text,label\n{rows}=cmd|'/c calc'!A1,pos\n",
        "surrogate": f"text,label\n{rows}\ud800,pos\n",
        "gzip bomb name": b"\x1f\x8b\x08\x00" + b"\0" * 50,
        "line separators": f"text,label\n{rows}a\u2028b\x85c\x0bd,pos\n",
    }
    for name, content in texts.items():
        yield Case("table", f"{name}: new", text_file("d.csv", content), ["new", "@/d.csv", "--out", "@/r.yaml"])

        def both(folder: Path, content: str | bytes = content) -> None:
            text_file("d.csv", content)(folder)
            (folder / "r.yaml").write_text(TINY.format(data="d.csv"))

        yield Case("table", f"{name}: train", both, ["train", "@/r.yaml", "--run", "@/out"])
    lines = {"deep": DEEP, "huge number": f'{{"text": "a", "label": {HUGE}}}', "list": "[1]", "null": "null", "half": '{"text": '}
    for name, line in lines.items():

        def table(folder: Path, line: str = line) -> None:
            good = "".join(json.dumps({"text": f"good film {i}", "label": "ab"[i % 2]}) + "\n" for i in range(30))
            text_file("d.jsonl", good + line + "\n")(folder)
            (folder / "r.yaml").write_text(TINY.format(data="d.jsonl"))

        yield Case("table", f"jsonl {name}: train", table, ["train", "@/r.yaml", "--run", "@/out"])
        yield Case("table", f"jsonl {name}: new", table, ["new", "@/d.jsonl", "--out", "@/n.yaml"])
    for name in (f"a{ESCAPE}b.csv", "a\nb.csv", "-x.csv", "a b;touch owned.csv", "$(touch owned).csv", "x" * 240 + ".csv"):
        yield Case(
            "file name", repr(name)[:30], text_file(name, f"text,label\n{rows}"), ["new", f"@/{name}", "--out", "@/r.yaml"]
        )
        yield Case("file name", f"missing {name!r}"[:30], lambda folder: None, ["check", f"@/missing{name}"])


def images() -> Iterator[Case]:
    """Pictures that are something else, or larger than they look."""
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(owned) (w) file closefile\nshowpage\n"
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0) + b"\0\0\0\0"
    contents = {
        "eps": postscript,
        "pixel bomb": header,
        "half": b"\x89PNG\r\n\x1a\n\0\0",
        "text": b"hello",
        "empty": b"",
        "svg": b"<svg/>",
    }
    for name, content in contents.items():
        for bad in ("train", "valid"):

            def make(folder: Path, content: bytes = content, bad: str = bad) -> None:
                from PIL import Image

                for split in ("train", "valid"):
                    (folder / split).mkdir()
                    for i in range(8):
                        Image.new("L", (8, 8), 20 * i).save(folder / split / f"{i}.png")
                    table = "".join(f"{i}.png,{'ab'[i % 2]}\n" for i in range(8)) + ("bad.png,a\n" if split == bad else "")
                    (folder / split / "table.csv").write_text("file,label\n" + table)
                (folder / bad / "bad.png").write_bytes(content)
                (folder / "r.yaml").write_text(
                    "data: {type: labeled-images, train: train/table.csv, valid: valid/table.csv, size: 8}\n"
                    "structure: {type: vit, dim: 8, layers: 1, heads: 2, hidden: 8, patch: 4}\n"
                    "objective: classification\nlearning: {type: gradient, steps: 2, batch_tokens: 300}\n"
                )

            yield Case("image", f"{name} in {bad}", make, ["train", "@/r.yaml", "--run", "@/out"])


def all_cases(trained: Path) -> list[Case]:
    """Return every case; those of run folders change copies of a trained run."""
    return [*recipes(), *run_folders(trained), *published(), *data_files(), *images()]
