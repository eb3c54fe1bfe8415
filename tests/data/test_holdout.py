"""Hold-out and k-fold splits: folds partition the rows, keep class proportions and groups, and depend on contents alone."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data import LabeledText, MultipleChoice, PlainText, SentencePairs, Word
from weft.data.holdout import HeldOut, HoldOut, assign_parts, hold_out_hashes, hold_out_units
from weft.data.sources import training_scan
from weft.data.sources.training_scan import hash_text

Row = tuple[str, str, str]
"""Text, label and group."""


def write(path: Path, rows: Sequence[Row]) -> str:
    path.write_text("text\tlabel\tauthor\n" + "".join("\t".join(row) + "\n" for row in rows))
    return str(path)


def texts_of(source: Any, split: str) -> list[str]:
    dataset = source.open(splits=(split,)).splits[split]
    return [dataset.raw(row)["text"] for row in range(len(dataset))]


def rows_of(seed: int, n: int = 60) -> list[Row]:
    rng = random.Random(seed)
    return [(f"text {seed} {i}", rng.choice("aaaabbc"), f"author{rng.randrange(15)}") for i in range(n)]


def folds_of(file: str, folds: int, **options: Any) -> list[list[str]]:
    made = (LabeledText(train=file, tokenizer=Word, labels=tuple("abc"), fold=f, folds=folds, **options) for f in range(folds))
    return [texts_of(source, "valid") for source in made]


# ------------------------------------------------------------------------------------------------------------- the sources


@pytest.mark.parametrize("options", [{}, {"stratify": True}, {"group": "author"}, {"stratify": True, "group": "author"}])
def test_folds_partition_the_rows(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = rows_of(1)
    file = write(tmp_path / "a.tsv", rows)
    found = folds_of(file, 4, **options)
    assert sorted(text for fold in found for text in fold) == sorted(text for text, _, _ in rows)
    for number, fold in enumerate(found):
        source = LabeledText(train=file, tokenizer=Word, labels=tuple("abc"), fold=number, folds=4, **options)
        assert sorted(texts_of(source, "train") + fold) == sorted(text for text, _, _ in rows)
    authors, labels = ({row[0]: row[i] for row in rows} for i in (2, 1))
    if "group" in options:
        assert sum(len({authors[text] for text in fold}) for fold in found) == len(set(authors.values()))
    else:
        sizes = [len(fold) for fold in found]
        assert max(sizes) - min(sizes) <= 1
    if options == {"stratify": True}:
        for label in "abc":
            counts = [sum(labels[text] == label for text in fold) for fold in found]
            assert max(counts) - min(counts) <= 1, (label, counts)


def test_a_split_depends_on_the_contents_and_the_seed_alone(tmp_path: Path) -> None:
    rows = rows_of(2)
    first = folds_of(write(tmp_path / "a.tsv", rows), 3, stratify=True)
    random.Random(3).shuffle(rows)
    other = folds_of(write(tmp_path / "b.tsv", rows), 3, stratify=True)
    assert [sorted(fold) for fold in first] == [sorted(fold) for fold in other]
    reseeded = folds_of(write(tmp_path / "a.tsv", rows), 3, stratify=True, split_seed=1)
    assert sorted(first[0]) != sorted(reseeded[0])
    plain = [
        sorted(texts_of(LabeledText(train=str(tmp_path / f"{f}.tsv"), tokenizer=Word, split_seed=seed), "valid"))
        for f, seed in (("a", 0), ("b", 0), ("a", 5))
    ]
    assert plain[0] == plain[1] != plain[2]


def test_stratified_hold_out_is_exact(tmp_path: Path) -> None:
    rows = [(f"text {n}", "a" if n % 10 else "b", "") for n in range(200)]  # 180 and 20
    source = LabeledText(train=write(tmp_path / "a.tsv", rows), tokenizer=Word, validation_fraction=0.1, stratify=True)
    dataset = source.open(splits=("valid",)).splits["valid"]
    assert Counter(dataset.raw(row)["label"] for row in range(len(dataset))) == {"a": 18, "b": 2}


def test_equal_texts_are_on_one_side_and_rows_without_a_group_go_by_their_text(tmp_path: Path) -> None:
    rows = [(f"text {n % 20}", "ab"[n % 2], "") for n in range(80)]
    found = folds_of(write(tmp_path / "a.tsv", rows), 4, stratify=True)
    assert sum(len(set(fold)) for fold in found) == 20 and sum(map(len, found)) == 80
    grouped = folds_of(write(tmp_path / "a.tsv", rows), 4, group="author")
    assert sum(len(set(fold)) for fold in grouped) == 20 and sum(map(len, grouped)) == 80


def test_other_sources_have_folds_and_groups(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(30)))
    lines = [texts_of(PlainText(train=str(tmp_path / "a.txt"), tokenizer=Word, fold=f, folds=3), "valid") for f in range(3)]
    assert sorted(map(len, lines)) == [10, 10, 10] and len({line for fold in lines for line in fold}) == 30
    pairs = "".join(f"one {n}\ttwo {n}\t{n % 2}\tu{n % 6}\n" for n in range(30))
    (tmp_path / "a.tsv").write_text("first\tsecond\tlabel\tuser\n" + pairs)
    choices = [{"question": f"q {n}", "choices": ["x", "y"], "answer": 0, "meta": {"user": f"u{n % 6}"}} for n in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in choices))
    for source, field in (
        (SentencePairs(train=str(tmp_path / "a.tsv"), tokenizer=Word, group="user", fold=0, folds=3), "first"),
        (MultipleChoice(train=str(tmp_path / "a.jsonl"), tokenizer=Word, group="meta.user", fold=0, folds=3), "question"),
    ):
        splits = source.open().splits
        users = {n: {int(splits[n].raw(r)[field].split()[1]) % 6 for r in range(len(splits[n]))} for n in ("train", "valid")}
        assert len(users["valid"]) == 2 and users["train"].isdisjoint(users["valid"])


def test_wrong_options_are_errors(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", rows_of(1))

    def refused(message: str, **options: Any) -> None:
        with pytest.raises(ValueError, match=message):
            LabeledText(train=file, tokenizer=Word, **options).open()

    refused("fold 5 does not exist: the 5 folds are 0 to 4", fold=5)
    refused("folds is 1; at least 2", folds=1)
    refused("fold 0 of train is held out for validation, but valid is given too", fold=0, valid=file)
    refused("a.tsv:2: no column 'autor', which the option group names", group="autor", stratify=True)
    refused("stratify needs classes, but label_type is number", stratify=True, label_type="number")
    refused("60 rows with 14 values of 'author' leave one of 20 folds empty; set fewer folds", group="author", fold=0, folds=20)
    refused("leaves no row for training or validation", stratify=True, validation_fraction=0.001)
    # a test file need not have the column
    (tmp_path / "test.tsv").write_text("text\tlabel\nan example\ta\n")
    source = LabeledText(train=file, test=str(tmp_path / "test.tsv"), tokenizer=Word, group="author")
    assert texts_of(source, "test") == ["an example"]


# ----------------------------------------------------------------------------------------------------------- the algorithm


_rows = st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abcd")), min_size=1, max_size=80)


@given(rows=_rows, folds=st.integers(2, 7), order=st.randoms())
@settings(max_examples=200, deadline=None)
def test_class_counts_differ_by_at_most_the_largest_unit(rows: list[tuple[int, str]], folds: int, order: Any) -> None:
    """By one where every row is a unit; whatever the order of the rows."""
    unit_class = dict(rows)
    rows = [(unit, unit_class[unit]) for unit, _ in rows]  # a unit has one class
    units, parts = assign_parts(np.array([u for u, _ in rows], np.uint64), [c for _, c in rows], [1 / folds] * folds)
    sizes, part_of = Counter(u for u, _ in rows), dict(zip(units.tolist(), parts.tolist(), strict=True))
    assert set(part_of) == set(unit_class)
    for label in set(unit_class.values()):
        counts = Counter(dict.fromkeys(range(folds), 0))
        counts.update(part_of[u] for u, c in rows if c == label)
        largest = max(sizes[u] for u, c in rows if c == label)
        assert max(counts.values()) - min(counts.values()) <= largest
    order.shuffle(rows)
    again = assign_parts(np.array([u for u, _ in rows], np.uint64), [c for _, c in rows], [1 / folds] * folds)
    assert (again[0] == units).all() and (again[1] == parts).all()


@given(classes=st.lists(st.sampled_from("abc"), min_size=2, max_size=200), fraction=st.floats(0.05, 0.5))
@settings(max_examples=200, deadline=None)
def test_a_stratified_fraction_is_exact_for_each_class(classes: list[str], fraction: float) -> None:
    units, parts = assign_parts(np.arange(len(classes), dtype=np.uint64), classes, [fraction, 1 - fraction])
    for label, total in Counter(classes).items():
        held = sum(part == 0 and classes[unit] == label for unit, part in zip(units, parts, strict=True))
        assert abs(held - fraction * total) < 1


@given(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=50), st.integers(0, 2**64 - 1))
def test_a_list_of_units_is_found_again(units: list[int], other: int) -> None:
    hashes = [unit.to_bytes(8) for unit in sorted(units)]
    spec = HoldOut(0.5, fold=1, folds=2)
    held = hold_out_units(spec, hashes, []) if len(units) > 1 else None
    if held is not None:
        inside = [unit for unit in units if unit in held]
        assert abs(len(inside) - len(units) / 2) <= 0.5 and HeldOut(units=held.units) == held
        assert (other in held) == (other in inside)


def test_beyond_the_exact_rows_folds_are_ranges_of_hashes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(training_scan, "EXACT_ROWS", 50)
    rows = rows_of(4, 200)
    found = folds_of(write(tmp_path / "a.tsv", rows), 4, stratify=True)
    assert sorted(text for fold in found for text in fold) == sorted(text for text, _, _ in rows)
    ranges = [hold_out_hashes(HoldOut(0, fold=f, folds=4)) for f in range(4)]
    for fold, held in zip(found, ranges, strict=True):
        assert all(int.from_bytes(hash_text(text)) in held for text in fold)
