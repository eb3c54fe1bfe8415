"""Date formats in several languages, for the source ``dates``.

Numeric dates are ambiguous, so the separator decides: ``/`` with the year last is American (month first), ``.`` and ``-`` with
the year last are European (day first), and with the year first the month is in the middle. Years have four digits.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Language = Literal["de", "en", "es", "fr", "it", "nl", "pt", "sv"]

LANGUAGES: tuple[Language, ...] = ("de", "en", "es", "fr", "it", "nl", "pt", "sv")


def _words(texts: dict[Language, str]) -> dict[Language, tuple[str, ...]]:
    return {language: tuple(text.split()) for language, text in texts.items()}


MONTHS = _words(
    {
        "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "en": "January February March April May June July August September October November December",
        "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "nl": "januari februari maart april mei juni juli augustus september oktober november december",
        "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "sv": "januari februari mars april maj juni juli augusti september oktober november december",
    }
)
SHORT = _words(
    {
        "de": "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez",
        "en": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
        "es": "ene feb mar abr may jun jul ago sep oct nov dic",
    }
)
WEEKDAYS = _words(
    {
        "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "es": "lunes martes miércoles jueves viernes sábado domingo",
        "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        "pt": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        "sv": "måndag tisdag onsdag torsdag fredag lördag söndag",
    }
)


@dataclass(frozen=True)
class DateFormat:
    """A date format.

    Args:
        name: Its name, prefixed with the language if it has one.
        language: The language; None = numeric.
        template: A format string with d, m, y (numbers), dd, mm (two digits), nth (an ordinal), month, mon (short), weekday.
    """

    name: str
    language: Language | None
    template: str

    def write(self, year: int, month: int, day: int, weekday: int) -> str:
        """Return the date in this format; ``weekday`` 0 is Monday."""
        if self.language is None:
            return self.template.format(d=day, m=month, y=year, dd=f"{day:02}", mm=f"{month:02}")
        return self.template.format(
            d=day,
            y=year,
            nth=_nth(self.language, day),
            month=MONTHS[self.language][month - 1],
            mon=SHORT[self.language][month - 1] if self.language in SHORT else "",
            weekday=WEEKDAYS[self.language][weekday],
        )

    def max_length(self) -> int:
        """Return the maximum number of characters of a date in this format."""
        if self.language is None:
            return len(self.write(1000, 12, 31, 0))
        month = max(range(12), key=lambda m: len(MONTHS[self.language or "en"][m])) + 1
        weekday = max(range(7), key=lambda w: len(WEEKDAYS[self.language or "en"][w]))
        return max(len(self.write(1000, month, day, weekday)) for day in range(1, 32))


def _nth(language: Language, day: int) -> str:
    if language == "en":
        return f"{day}th" if day in (11, 12, 13) else f"{day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th') }"
    first = {"fr": "1er", "it": "1º", "pt": "1º"}.get(language)
    return first if first and day == 1 else str(day)


_TEMPLATES = {
    "iso": "{y}-{mm}-{dd}",
    "compact": "{y}{mm}{dd}",
    "year-slashes": "{y}/{mm}/{dd}",
    "dots": "{d}.{m}.{y}",
    "dots-padded": "{dd}.{mm}.{y}",
    "dashes": "{d}-{m}-{y}",
    "dashes-padded": "{dd}-{mm}-{y}",
    "us-slashes": "{m}/{d}/{y}",
    "us-slashes-padded": "{mm}/{dd}/{y}",
    "en-long": "{d} {month} {y}",
    "en-us": "{month} {d}, {y}",
    "en-us-short": "{mon} {d}, {y}",
    "en-dashes": "{d}-{mon}-{y}",
    "en-weekday": "{weekday}, {d} {month} {y}",
    "en-us-weekday": "{weekday}, {month} {d}, {y}",
    "en-ordinal": "{nth} of {month} {y}",
    "en-us-ordinal": "{month} {nth}, {y}",
    "de-long": "{d}. {month} {y}",
    "de-short": "{d}. {mon}. {y}",
    "de-weekday": "{weekday}, den {d}. {month} {y}",
    "es-long": "{d} de {month} de {y}",
    "es-short": "{d} {mon} {y}",
    "es-weekday": "{weekday}, {d} de {month} de {y}",
    "fr-long": "{nth} {month} {y}",
    "fr-article": "le {nth} {month} {y}",
    "fr-weekday": "{weekday} {nth} {month} {y}",
    "it-long": "{nth} {month} {y}",
    "it-weekday": "{weekday} {nth} {month} {y}",
    "nl-long": "{d} {month} {y}",
    "nl-weekday": "{weekday} {d} {month} {y}",
    "pt-long": "{nth} de {month} de {y}",
    "pt-weekday": "{weekday}, {nth} de {month} de {y}",
    "sv-long": "{d} {month} {y}",
    "sv-article": "den {d} {month} {y}",
    "sv-weekday": "{weekday} den {d} {month} {y}",
}
FORMATS = tuple(
    DateFormat(name, next((language for language in LANGUAGES if name.startswith(f"{language}-")), None), template)
    for name, template in _TEMPLATES.items()
)


def formats_of(languages: Iterable[Language]) -> tuple[DateFormat, ...]:
    """Return the formats of these languages and the numeric ones."""
    wanted = set(languages)
    return tuple(f for f in FORMATS if f.language is None or f.language in wanted)


@functools.cache
def alphabet() -> str:
    """Return every character that a format can produce, in either case, sorted: the vocabulary of the task."""
    days = [datetime.date(2000, month, day) for month in range(1, 13) for day in range(1, 29)]
    texts = [f.write(d.year, d.month, d.day, d.weekday()) for f in FORMATS for d in days]
    seen = set("0123456789").union(*texts)
    return "".join(sorted(seen | set("".join(seen).lower())))
