"""Near-duplicates: every pair that brute force finds, and no other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data import near_duplicates as duplicates
from weft.data.near_duplicates import near_duplicates


def grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = text.lower().split()
    if len(words) < n:
        return {tuple(words)} if words else set()
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def brute(train: list[str], valid: list[str], least: float, n: int) -> list[tuple[int, int, float]]:
    """For each row of validation the first row of training that nearly equals it."""
    found = []
    for v, text in enumerate(valid):
        mine = grams(text, n)
        for t, other in enumerate(train):
            theirs = grams(other, n)
            if mine and theirs and len(mine & theirs) / len(mine | theirs) >= least:
                found.append((v, t, len(mine & theirs) / len(mine | theirs)))
                break
    return found


# Few words, and texts made by changing others: pairs on both sides of the threshold are common.
word = st.sampled_from(["a", "b", "c", "A", "dog"])
text = st.lists(word, max_size=14).map(" ".join)


@st.composite
def sets(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    train = draw(st.lists(text, max_size=12))
    valid = draw(st.lists(text, max_size=8))
    for _ in range(draw(st.integers(0, 4)) if train else 0):
        words = draw(st.sampled_from(train)).split()
        start = draw(st.integers(0, len(words)))
        words[start : start + draw(st.integers(0, 1))] = draw(st.lists(word, max_size=1))
        valid.append(" ".join(words))
    return train, valid


@settings(max_examples=300, deadline=None)
@given(sets(), st.sampled_from([0.8, 0.5, 0.3, 1.0, 2 / 3, 0.05]), st.integers(1, 6))
def test_equals_brute_force(both: tuple[list[str], list[str]], least: float, n: int) -> None:
    train, valid = both
    found = near_duplicates(train, valid, similarity=least, words=n, examples=100)
    assert found.examples == brute(train, valid, least, n)
    assert (found.count, found.valid_rows, found.train_rows) == (len(found.examples), len(valid), len(train))


@pytest.mark.parametrize(("rows", "words", "block"), [(3, 10**6, 10**6), (10**6, 20, 10**6), (7, 50, 3)])
def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch, rows: int, words: int, block: int) -> None:
    rng = random.Random(1)
    pool = [" ".join(rng.choices("abcd", k=rng.randrange(2, 9))) for _ in range(12)]
    train, valid = ([" ".join(rng.choices(pool, k=rng.randrange(1, 4))) for _ in range(n)] for n in (150, 60))
    monkeypatch.setattr(duplicates, "_CHUNK_ROWS", rows)
    monkeypatch.setattr(duplicates, "_CHUNK_WORDS", words)
    monkeypatch.setattr(duplicates, "_BLOCK", block)
    expected = brute(train, valid, 0.8, 3)
    assert 5 < len(expected) < 55
    assert near_duplicates(train, valid, similarity=0.8, words=3, examples=60).examples == expected


def test_changed_word_in_a_long_text() -> None:
    words = [f"w{i}" for i in range(60)]
    one, two = words.copy(), words.copy()
    one[30] = "x"  # 5 of 56 n-grams: 51 / 61
    two[20] = two[40] = "x"  # 10 of 56: 46 / 66
    found = near_duplicates([" ".join(words)], [" ".join(one), " ".join(two)])
    assert found.examples == [(0, 0, 51 / 61)]


def test_short_and_empty_texts() -> None:
    train = ["Good  morning\tall", "", "one two three four", "   "]
    found = near_duplicates(train, ["good morning ALL", "good morning", "", " ", "one two three four five"])
    assert found.examples == [(0, 0, 1.0)] and found.count == 1 and found.valid_rows == 5


def test_repeated_rows_are_counted_each() -> None:
    found = near_duplicates(["a b c d e f"] * 1000, ["a b c d e f"] * 500 + ["no"], examples=2)
    assert (found.count, found.valid_rows, found.train_rows) == (500, 501, 1000)
    assert found.examples == [(0, 0, 1.0), (1, 0, 1.0)]
    assert str(found) == "500 of 501 validation rows (99.8%) have a near-duplicate in training"


def test_functions_iterators_and_files(tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_text("a b c d e f\nx y\n")
    opened: list[int] = []

    def train() -> list[str]:
        opened.append(1)
        return file.read_text().splitlines()

    for given_train in (train, iter(train()), train()):
        assert near_duplicates(given_train, (row for row in ["x y", "z"])).examples == [(0, 1, 1.0)]
    assert len(opened) == 4  # twice as a function


def test_the_sample_depends_on_the_seed_and_is_reported() -> None:
    rows = [f"row {i}" for i in range(400)]
    one, same, other = (near_duplicates(rows, rows, max_rows=100, seed=s, examples=500) for s in (0, 0, 1))
    assert one == same and one.examples != other.examples
    assert one.train_rows == one.valid_rows == 100 and 0 < one.count < 100
    assert all(p.valid_row == p.train_row for p in one.examples)
    assert one.note == (
        "100 of 400 validation rows were compared, sampled at random (seed 0); "
        "100 of 400 training rows were compared, sampled at random (seed 0)"
    )
    assert one.note in str(one)
    assert near_duplicates(rows, rows, max_rows=400).note == "" and near_duplicates(rows, rows, max_rows=400).count == 400


def test_nothing_to_compare() -> None:
    assert near_duplicates([], ["a"]).count == near_duplicates(["a"], []).count == near_duplicates([], []).count == 0
    assert str(near_duplicates([], [])) == "0 of 0 validation rows have a near-duplicate in training"


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="train is a single text"):
        near_duplicates("abc", ["abc"])
    for wrong in (0, 1.01, float("nan")):
        with pytest.raises(ValueError, match=rf"similarity must be above 0 and at most 1, not {wrong}"):
            near_duplicates([], [], similarity=wrong)
    with pytest.raises(ValueError, match="words and max_rows must be at least 1, not 0 and 5"):
        near_duplicates([], [], words=0, max_rows=5)
