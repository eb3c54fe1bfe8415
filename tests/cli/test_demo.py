"""``weft demo``: every demonstration runs, with tiny sizes; its data is as described."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.commands import weft

from weft.cli import demo_run
from weft.cli.demos import DEMOS, data, recipe_of
from weft.training.recipes import read_run

SHORT = ("learning.steps=2", "learning.save_every=0", "evaluate.every=0", "structure.dim=16")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 120 rows per file, and 40 sentences per library."""
    monkeypatch.setattr(data, "SENTENCES_PER_LIBRARY", 40)
    monkeypatch.setattr(
        demo_run, "DATA", {name: lambda folder, write=write: cut(write(folder)) for name, write in data.DATA.items()}
    )


def cut(files: dict[str, Path]) -> dict[str, Path]:
    for file in files.values():
        file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:120]), encoding="utf-8")
    return files


def test_the_list_starts_with_the_default() -> None:
    lines = weft("demo", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["dates", "pronunciation", "digits", "libraries", "search"]


@pytest.mark.parametrize("name", ["pronunciation", "digits", "libraries"])
def test_a_demonstration_trains_and_shows_its_result(name: str, tmp_path: Path) -> None:
    answer = weft("demo", name, *SHORT, "--run", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert answer.out.startswith(f"{name}: ") and answer.out.count("  ->  ") == 12
    assert f"weft evaluate {tmp_path / 'run'}" in answer.out
    page = "attention.html" if name == "pronunciation" else "attribution.html"
    assert (tmp_path / "run" / page).stat().st_size > 3000 and page in answer.out
    assert ("token error rate" if name == "pronunciation" else "macro average") in answer.out
    again = weft("evaluate", tmp_path / "run", "--json")
    assert again.code == 0 and json.loads(again.out)["loss"] > 0


def test_search_finds_sentences_with_the_meaning_of_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["shutil.rmtree: Recursively delete a directory tree.", "statistics.mean: Return the arithmetic mean of data."]
    extra = [f"lib{n}.open: Open the connection number {n}." for n in range(8)]

    def write(folder: Path) -> dict[str, Path]:
        (folder / "sentences.txt").write_text("\n".join([*lines, *extra]))
        return {"sentences": folder / "sentences.txt"}

    monkeypatch.setattr(demo_run, "DATA", {"search": write})
    answer = weft("demo", "search")
    assert answer.code == 0, answer.err
    found = {block.splitlines()[0]: block.splitlines()[1] for block in answer.out.split("\n\n") if "  0." in block}
    assert list(found) == list(demo_run.QUERIES)
    assert lines[0] in found[demo_run.QUERIES[0]] and lines[1] in found[demo_run.QUERIES[2]]
    assert "weft embed minilm" in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digit"], "there is no demonstration 'digit'; did you mean 'digits'?"),
        (["digits", "--recipe", "dates"], "--recipe is an option of the demonstration dates"),
        (["search", "learning.steps=3"], "trains nothing"),
        (["digits", "learning.stepz=3"], "did you mean 'steps'"),
    ],
)
def test_mistakes_are_explained(words: list[str], message: str, tmp_path: Path) -> None:
    answer = weft("demo", *words, "--run", tmp_path / "run")
    assert answer.code == 2 and message in answer.err, answer.err


@pytest.mark.parametrize(("name", "missing"), [(n, m) for n, chosen in DEMOS.items() for m in chosen.needs])
def test_a_missing_package_is_named_with_the_command(name: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda module, *rest: None if module == missing else find(module, *rest))
    answer = weft("demo", name)
    assert answer.code == 2 and f"needs {missing}; install with: pip install 'weft[{DEMOS[name].needs[missing]}]'" in answer.err


def test_the_extras_are_declared() -> None:
    import tomllib

    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for chosen in DEMOS.values() for extra in chosen.needs.values()} <= extras.keys()


# ---------------------------------------------------------------------------------------------------------------- the data


def rows_of(files: dict[str, Path]) -> dict[str, list[dict[str, Any]]]:
    return {split: [json.loads(line) for line in file.read_text().splitlines()] for split, file in files.items()}


def test_no_word_is_in_two_splits_and_phonemes_have_no_stress(tmp_path: Path) -> None:
    splits = rows_of(data.write_pronunciation(tmp_path))
    words = {split: {row["source"] for row in rows} for split, rows in splits.items()}
    assert not words["test"] & words["train"] and not words["valid"] & (words["train"] | words["test"])
    assert len(words["test"]) == len(words["valid"]) == 1000 and len(words["train"]) > 50_000
    assert len({p for row in splits["train"] for p in row["target"].split()}) == 39  # the phonemes of the dictionary
    known = {row["source"]: row["target"] for rows in splits.values() for row in rows}
    assert known["phoneme"] == "F OW N IY M"


def test_digits_are_those_of_scikit_learn(tmp_path: Path) -> None:
    from PIL import Image
    from sklearn.datasets import load_digits

    files, bunch = data.write_digits(tmp_path), load_digits()
    seen: set[int] = set()
    for file in files.values():
        for line in file.read_text().splitlines()[1:]:
            name, digit = line.split("\t")
            number = int(Path(name).stem)
            assert number not in seen and bunch.target[number] == int(digit)
            seen.add(number)
    assert len(seen) == 1797
    np.testing.assert_allclose(
        np.asarray(Image.open(tmp_path / "images" / "0007.png"), float) * 16 / 255, bunch.images[7], atol=0.04
    )


def test_sentences_are_balanced_distinct_and_do_not_name_their_library(tmp_path: Path) -> None:
    splits = rows_of(data.write_libraries(tmp_path))
    rows = [row for rows in splits.values() for row in rows]
    labels = [row["label"] for row in rows]
    assert {label: labels.count(label) for label in set(labels)} == {"Python": 40, "NumPy": 40, "PyTorch": 40}
    texts = [row["text"].lower() for row in rows]
    assert len(set(texts)) == 120 and not any(name in text for text in texts for name in ("numpy", "torch", "python"))
    assert rows_of(data.write_libraries(tmp_path)) == splits


def test_the_error_rate_is_the_edit_distance() -> None:
    rate = demo_run.token_error_rate
    assert rate(["a b c"], ["a b c"]) == 0 and rate(["", "a"], ["a b", "a"]) == pytest.approx(2 / 3)
    assert rate(["b c d"], ["a b c"]) == pytest.approx(2 / 3) and rate(["x y"], ["a"]) == 2


def test_the_recipes_of_demonstrations_are_valid(tmp_path: Path) -> None:
    for chosen in DEMOS.values():
        if chosen.recipe:
            assert read_run(recipe_of(chosen), files=False).dump()["seed"] == 1
