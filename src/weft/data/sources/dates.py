"""Synthetic task without files: dates in natural language to ISO 8601."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.fields import Info, Special, TextField
from weft.core.options import Count, Natural
from weft.core.registry import block
from weft.core.seeding import key
from weft.data.columns import Column, TokenDataset
from weft.data.order import mix
from weft.data.sources.date_formats import LANGUAGES, Language, alphabet, formats_of
from weft.data.tokenizers.character import Character

_PARTS = 20  # one for validation and one for test
_LOWER = 5  # one date in five is in lower case


@block("dates")
class Dates(Data):
    """Synthetic dates in many formats and eight languages, to be normalized to YYYY-MM-DD.

    "Mittwoch, den 3. März 1999" -> "1999-03-03". Row r of a split is a pure function of (seed, split, r). The separator
    distinguishes American from European dates: 3/4/1999 is March 4, 3.4.1999 and 3-4-1999 are April 3. One date in five is in
    lower case.

    The split is by calendar day: a hash of the day, independent of the seed, puts 90 % of all days into train, 5 % into valid
    and 5 % into test, so no test day occurs in training in any format. Fields: ``source`` and ``target``, tokenized into
    characters; raw rows also have the name of the ``format``.

    Args:
        train: Number of training examples.
        valid: Number of validation examples.
        test: Number of test examples.
        seed: Seed of the examples.
        languages: Languages of the dates; numeric formats are always included.
        first_year: First year, at least 1000.
        last_year: Last year, at most 9999.

    Example:
        >>> data = Dates(train=3, seed=1)
        >>> data.open().splits["train"].raw(0)
        {'source': '08.06.2094', 'target': '2094-06-08', 'format': 'dots-padded'}
    """

    def __init__(
        self,
        *,
        train: Count = 20_000,
        valid: Count = 1000,
        test: Count = 2000,
        seed: Natural = 0,
        languages: tuple[Language, ...] = LANGUAGES,
        first_year: Count = 1900,
        last_year: Count = 2099,
    ):
        if not 1000 <= first_year <= last_year <= 9999:
            raise ValueError(f"years must be 1000 <= first_year <= last_year <= 9999, not {first_year} and {last_year}")
        unknown = [language for language in languages if language not in LANGUAGES]
        if unknown or not languages:
            raise ValueError(f"languages must be one or more of {', '.join(LANGUAGES)}, not {', '.join(unknown) or 'none'}")
        self.rows = {"train": train, "valid": valid, "test": test}
        self.seed, self.first_year, self.last_year = seed, first_year, last_year
        self.formats = formats_of(languages)

    def declare(self) -> Info:
        """Exact: alphabet and maximum length follow from the formats."""
        vocab = len(Special.NAMES) + len(alphabet())
        source = TextField("source", vocab, max_length=max(f.max_length() for f in self.formats), space="characters")
        return Info(
            {"source": source, "target": TextField("target", vocab, max_length=10, space="characters")}, "target", "dates"
        )

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"characters": Character(vocab_size=len(Special.NAMES) + len(alphabet()))}

    def training_texts(self, folder: Path, progress: ProgressCallback | None = None) -> dict[str, Iterable[str]]:
        return {"characters": [alphabet()]}

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        if codec is None:
            own = dict(tokenizers or self.tokenizers())
            if not tokenizers:
                own["characters"].train([alphabet()])
            codec = Codec(self.declare(), own)
        days = self._days()
        datasets = {
            split: self._dataset(split, days[split], codec.tokenizers["characters"])
            for split in self.rows
            if not splits or split in splits
        }
        ledger = {split: {"rows": self.rows[split], "calendar days": len(days[split])} for split in datasets}
        return Corpus(codec, datasets, ledger)

    def _days(self) -> dict[str, np.ndarray]:
        """The calendar days of each split, as ordinals."""
        first, last = datetime.date(self.first_year, 1, 1).toordinal(), datetime.date(self.last_year, 12, 31).toordinal()
        days = np.arange(first, last + 1)
        part = mix(days, key("dates", "split")) % np.uint64(_PARTS)
        return {"train": days[part > 1], "valid": days[part == 0], "test": days[part == 1]}

    def _dataset(self, split: str, days: np.ndarray, tokenizer: Tokenizer) -> TokenDataset:
        rows = np.arange(self.rows[split])

        def sample(what: str, n: int) -> np.ndarray:
            return (mix(rows, key("dates", self.seed, split, what)) % np.uint64(n)).astype(np.int64)

        examples: list[tuple[str, str, str]] = []
        for day, index, lower in zip(
            days[sample("day", len(days))].tolist(),
            sample("format", len(self.formats)).tolist(),
            (sample("case", _LOWER) == 0).tolist(),
            strict=True,
        ):
            date, date_format = datetime.date.fromordinal(day), self.formats[index]
            text = date_format.write(date.year, date.month, date.day, date.weekday())
            examples.append((text.lower() if lower else text, date.isoformat(), date_format.name))

        def raw(row: int) -> dict[str, str]:
            return dict(zip(("source", "target", "format"), examples[row], strict=True))

        source = Column.of(tokenizer.encode(text) for text, _, _ in examples)
        target = Column.of(tokenizer.encode(iso) for _, iso, _ in examples)
        return TokenDataset({"source": source, "target": target}, raw)
