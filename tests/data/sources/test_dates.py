from __future__ import annotations

import datetime
import re

import numpy as np
import pytest

from weft.core.contracts import Corpus
from weft.core.fields import Special
from weft.data import Dates
from weft.data.sources.date_formats import FORMATS, LANGUAGES, MONTHS, SHORT, WEEKDAYS, alphabet, formats_of


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Dates(train=6000, valid=500, test=500).open()


def rows(corpus: Corpus, split: str) -> list[dict[str, str]]:
    data = corpus.splits[split]
    return [data.raw(row) for row in range(len(data))]


def understand(text: str) -> datetime.date:
    """An independent parser of every format, by the rules of the documentation."""
    text = text.lower()
    if m := re.fullmatch(r"(\d{4})([-/]?)(\d\d)\2(\d\d)", text):
        return datetime.date(int(m[1]), int(m[3]), int(m[4]))
    if m := re.fullmatch(r"(\d+)/(\d+)/(\d{4})", text):
        return datetime.date(int(m[3]), int(m[1]), int(m[2]))
    if m := re.fullmatch(r"(\d+)[.-](\d+)[.-](\d{4})", text):
        return datetime.date(int(m[3]), int(m[2]), int(m[1]))
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    months = {name.lower(): n for names in (*MONTHS.values(), *SHORT.values()) for n, name in enumerate(names, 1)}
    month = next(months[w] for w in re.findall(r"[^\W\d_]+", text) if w in months)
    return datetime.date(numbers[1], month, numbers[0])


def test_every_answer_is_right(corpus: Corpus) -> None:
    for split in ("train", "valid", "test"):
        for row in rows(corpus, split):
            date = understand(row["source"])
            assert date.isoformat() == row["target"], row
            assert 1900 <= date.year <= 2099
            if row["format"].endswith("weekday"):
                assert row["source"].lower().startswith(WEEKDAYS[row["format"][:2]][date.weekday()].lower())  # pyright: ignore


def test_no_day_of_the_test_is_trained_on(corpus: Corpus) -> None:
    days = {split: {row["target"] for row in rows(corpus, split)} for split in ("train", "valid", "test")}
    assert not days["train"] & days["test"] and not days["train"] & days["valid"] and not days["valid"] & days["test"]
    other = Dates(train=3000, seed=7, languages=("de",), first_year=1990, last_year=2010).open()
    assert not {row["target"] for row in rows(other, "train")} & days["test"]
    counts = [corpus.ledger[split]["calendar days"] for split in ("train", "valid", "test")]
    assert sum(counts) == (datetime.date(2100, 1, 1) - datetime.date(1900, 1, 1)).days
    assert counts[0] / sum(counts) == pytest.approx(0.9, abs=0.01) and counts[2] / sum(counts) == pytest.approx(0.05, abs=0.005)


def test_any_single_year_has_days_for_every_split() -> None:
    days = Dates(first_year=1000, last_year=9999)._days()
    for ordinals in days.values():
        dates = np.datetime64("0001-01-01") + (ordinals - 1)
        assert len(np.unique(dates.astype("datetime64[Y]"))) == 9000


def test_the_declared_vocabulary_and_lengths_are_exact() -> None:
    data = Dates(train=60_000, valid=1, test=1)
    declared, corpus = data.declare(), data.open()
    assert corpus.codec.info == declared
    assert declared["source"].vocab == corpus.codec.tokenizers["characters"].vocab == len(Special.NAMES) + len(alphabet())
    assert declared["source"].space == declared["target"].space == "characters" and declared.target == "target"
    train = corpus.splits["train"]
    assert train.lengths["source"].max() == declared["source"].max_length
    assert set(train.lengths["target"].tolist()) == {declared["target"].max_length}
    used = set(np.concatenate([train.columns[name].ids for name in ("source", "target")]).tolist())
    assert used == set(range(len(Special.NAMES), declared["source"].vocab)), "no unknown character, and none in vain"


def test_languages_share_the_vocabulary() -> None:
    for languages in (("en",), ("de", "fr"), LANGUAGES):
        data = Dates(train=2000, valid=1, test=1, languages=languages)
        corpus = data.open()
        assert data.declare()["source"].vocab == Dates().declare()["source"].vocab
        assert {row["format"] for row in rows(corpus, "train")} == {f.name for f in formats_of(languages)}
        assert corpus.splits["train"].lengths["source"].max() <= data.declare()["source"].max_length
    assert Dates(languages=("en",)).declare()["source"].max_length < Dates().declare()["source"].max_length


def test_formats_are_many_named_and_tell_the_date() -> None:
    assert len({f.name for f in FORMATS}) == len(FORMATS) >= 12 and len(LANGUAGES) >= 5
    assert {f.language for f in FORMATS} == {None, *LANGUAGES}
    for names in (MONTHS, SHORT):
        meaning: dict[str, set[int]] = {}
        for months in names.values():
            assert len(months) == 12
            for number, name in enumerate(months):
                meaning.setdefault(name.lower(), set()).add(number)
        assert all(len(numbers) == 1 for numbers in meaning.values())
    # one text never means two days, whoever wrote it
    meant: dict[str, str] = {}
    for day in range(datetime.date(2000, 1, 1).toordinal(), datetime.date(2001, 1, 1).toordinal()):
        date = datetime.date.fromordinal(day)
        for f in FORMATS:
            text = f.write(date.year, date.month, date.day, date.weekday())
            assert meant.setdefault(text.lower(), date.isoformat()) == date.isoformat(), text
            assert len(text) <= f.max_length()


@pytest.mark.parametrize(
    ("name", "date", "text"),
    [
        ("en-ordinal", (1999, 3, 3), "3rd of March 1999"),
        ("en-us-ordinal", (1999, 3, 11), "March 11th, 1999"),
        ("en-us-ordinal", (1999, 3, 22), "March 22nd, 1999"),
        ("en-us-ordinal", (1999, 3, 31), "March 31st, 1999"),
        ("de-weekday", (1999, 3, 3), "Mittwoch, den 3. März 1999"),
        ("fr-article", (1999, 3, 1), "le 1er mars 1999"),
        ("fr-article", (1999, 3, 21), "le 21 mars 1999"),
        ("es-long", (1999, 3, 3), "3 de marzo de 1999"),
        ("it-weekday", (1999, 3, 3), "mercoledì 3 marzo 1999"),
        ("nl-long", (1999, 3, 3), "3 maart 1999"),
        ("us-slashes", (1999, 3, 14), "3/14/1999"),
        ("dots-padded", (1999, 3, 4), "04.03.1999"),
        ("dashes", (1999, 3, 4), "4-3-1999"),
        ("compact", (1999, 3, 4), "19990304"),
    ],
)
def test_how_dates_are_written(name: str, date: tuple[int, int, int], text: str) -> None:
    form = next(f for f in FORMATS if f.name == name)
    assert form.write(*date, datetime.date(*date).weekday()) == text


def test_rows_are_a_function_of_seed_and_number(corpus: Corpus) -> None:
    longer = Dates(train=7000, valid=600, test=10).open()
    assert rows(longer, "train")[:6000] == rows(corpus, "train") and rows(longer, "valid")[:500] == rows(corpus, "valid")
    other = rows(Dates(train=6000, seed=1).open(), "train")
    same = np.mean([a == b for a, b in zip(other, rows(corpus, "train"), strict=True)])
    assert same < 0.01
    assert len({row["target"] for row in other}) > 5000


def test_one_in_five_is_lower_case_and_formats_are_equally_frequent(corpus: Corpus) -> None:
    written = [row for row in rows(corpus, "train") if row["format"] == "en-us" or row["format"] == "de-long"]
    assert np.mean([row["source"].islower() for row in written]) == pytest.approx(0.2, abs=0.08)
    names = [row["format"] for row in rows(corpus, "train")]
    shares = np.array([names.count(f.name) for f in FORMATS]) / len(names)
    assert shares.min() > 0.6 / len(FORMATS) and shares.max() < 1.5 / len(FORMATS)


def test_examples_are_the_raw_rows(corpus: Corpus) -> None:
    test = corpus.splits["test"]
    for row in range(50):
        assert corpus.codec.decode("source", test[row]["source"].tolist()) == test.raw(row)["source"]
        assert corpus.codec.decode("target", test[row]["target"].tolist()) == test.raw(row)["target"]


def test_messages() -> None:
    with pytest.raises(ValueError, match="not 1999 and 1990"):
        Dates(first_year=1999, last_year=1990)
    with pytest.raises(ValueError, match="not 999 and 2099"):
        Dates(first_year=999)
    with pytest.raises(ValueError, match=r"one or more of de, en, .*, not xx"):
        Dates(languages=("xx",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="not none"):
        Dates(languages=())
