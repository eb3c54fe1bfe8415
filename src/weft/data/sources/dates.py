"""The embedded task: dates as people write them, to ISO."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import numpy as np

from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.fields import Field, Info, Special
from weft.core.options import Count, Natural
from weft.core.registry import block
from weft.core.seeding import key
from weft.data.columns import Column, TokenDataset
from weft.data.order import mix
from weft.data.sources.date_formats import LANGUAGES, Language, alphabet, formats_of
from weft.data.tokenizers.character import Character

_PARTS = 20  # of which one is for validation and one for the test
_LOWER = 5  # one date in five is written in lower case


@block("dates")
class Dates(Data):
    """Dates in many formats and eight languages, to be rewritten as YYYY-MM-DD; made by rule, so that every answer is known.

    "Mittwoch, den 3. März 1999" -> "1999-03-03". Row r of a split is a pure function of (seed, split, r). The separator
    tells American from European dates: 3/4/1999 is March 4, 3.4.1999 and 3-4-1999 are April 3. One date in five is written
    in lower case.

    The split is by calendar day: a hash of the day, whatever the seed, puts 90 % of all days into train, 5 % into valid and 5 %
    into test, so no day of the test occurs in training in any format. Fields ``source`` and ``target``, of characters; raw rows
    also have the name of the ``format``.

    Args:
        train: Rows to train on.
        valid: Rows for validation.
        test: Rows for the final evaluation.
        seed: Which rows are drawn.
        languages: Languages to write in; formats of digits alone are always among them.
        first_year: The first year, at least 1000.
        last_year: The last year, at most 9999.

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
        """Exact: the alphabet and the longest date are known without making any."""
        vocab = len(Special.NAMES) + len(alphabet())
        source = Field("source", vocab, length=max(f.longest() for f in self.formats), space="characters")
        return Info({"source": source, "target": Field("target", vocab, length=10, space="characters")}, "target", "dates")

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"characters": Character(size=len(Special.NAMES) + len(alphabet()))}

    def open(
        self,
        codec: Codec | None = None,
        *,
        known: Mapping[str, Tokenizer] | None = None,
        only: Sequence[str] = (),
        tell: ProgressCallback | None = None,
    ) -> Corpus:
        if codec is None:
            tokenizers = self.tokenizers()
            tokenizers["characters"].train([alphabet()])
            codec = Codec(self.declare(), tokenizers)
        days = self._days()
        splits = {
            split: self._dataset(split, days[split], codec.tokenizers["characters"])
            for split in self.rows
            if not only or split in only
        }
        ledger = {split: {"rows": self.rows[split], "calendar days": len(days[split])} for split in splits}
        return Corpus(codec, splits, ledger)

    def _days(self) -> dict[str, np.ndarray]:
        """The calendar days of each split, as ordinals."""
        first, last = datetime.date(self.first_year, 1, 1).toordinal(), datetime.date(self.last_year, 12, 31).toordinal()
        days = np.arange(first, last + 1)
        part = mix(days, key("dates", "split")) % np.uint64(_PARTS)
        return {"train": days[part > 1], "valid": days[part == 0], "test": days[part == 1]}

    def _dataset(self, split: str, days: np.ndarray, tokenizer: Tokenizer) -> TokenDataset:
        rows = np.arange(self.rows[split])

        def draw(what: str, n: int) -> np.ndarray:
            return (mix(rows, key("dates", self.seed, split, what)) % np.uint64(n)).astype(np.int64)

        written: list[tuple[str, str, str]] = []
        for day, number, lower in zip(
            days[draw("day", len(days))].tolist(),
            draw("format", len(self.formats)).tolist(),
            (draw("case", _LOWER) == 0).tolist(),
            strict=True,
        ):
            date, form = datetime.date.fromordinal(day), self.formats[number]
            text = form.write(date.year, date.month, date.day, date.weekday())
            written.append((text.lower() if lower else text, date.isoformat(), form.name))

        def raw(row: int) -> dict[str, str]:
            return dict(zip(("source", "target", "format"), written[row], strict=True))

        source = Column.of(tokenizer.encode(text) for text, _, _ in written)
        target = Column.of(tokenizer.encode(iso) for _, iso, _ in written)
        return TokenDataset({"source": source, "target": target}, raw)
