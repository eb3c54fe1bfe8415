"""Detection of the encoding of text files: UTF-8 if it is valid, else by byte-order mark or by the statistics of the bytes."""

from __future__ import annotations

import codecs
import logging
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from weft.core.text_stream import BOMS, TextStream

_BLOCK_BYTES = 1 << 18
_MAX_BYTES = 64 << 20
"""Of a larger file, the encoding is detected from its first part."""
_MAX_LINE = 1 << 20
_SAMPLE_BYTES = 1 << 15
_HEAD_BYTES = 4096
_CANDIDATES = (
    "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "koi8_r", "cp1250", "cp874", "cp1253", "cp1254", "cp1256",
)  # fmt: skip
_CENTRAL = b"\x9a\x9e\x8a\x8e\xb9\xb3\xbe"
"""Letters of cp1250 that are punctuation or rare letters of cp1252."""
_WESTERN = frozenset("äöüßÄÖÜéèêëÉÈÊËàâáåæçñíîïìóôòøœúùûýÀÂÁÅÆÇÑÍÎÏÌÓÔÒØŒÚÙÛÿãõÃÕðþÐÞ–—“”„‘’‚…€£§°«»¡¿·•©®™½¼¾ªº´×±²µ¢¥\xa0\xad")


_TO_CSV = "python -c \"import pandas; pandas.read_{kind}('{name}').to_csv('{stem}.csv', index=False)\""
_EXCEL = ("an Excel file", _TO_CSV.replace("{kind}", "excel"))
_BINARY = {
    b"PAR1": ("a Parquet file", _TO_CSV.replace("{kind}", "parquet")),
    b"ARROW1": ("an Arrow file", _TO_CSV.replace("{kind}", "feather")),
    b"\xd0\xcf\x11\xe0": _EXCEL,
    b"SQLite format 3": ("a SQLite database", ""),
    b"\x89HDF": ("an HDF5 file", ""),
    b"%PDF": ("a PDF document", ""),
    b"PK\x03\x04": ("a ZIP archive", "unzip {name}"),
    b"BZh": ("a file compressed by bzip2", "bunzip2 -k {name}"),
    b"\xfd7zXZ": ("a file compressed by xz", "unxz -k {name}"),
    b"\x28\xb5\x2f\xfd": ("a file compressed by Zstandard", "unzstd {name}"),
}
"""First bytes of binary formats: what the file is, and a command that makes a text file of it."""


@dataclass
class _Tally:
    """Lines beyond ASCII: how many are valid UTF-8, how many are not, and a sample of these."""

    valid: int = 0
    invalid: int = 0
    sample: bytes = b""

    def add(self, line: bytes) -> None:
        if line.isascii():
            return
        try:
            line.decode()
            self.valid += 1
        except UnicodeDecodeError:
            self.invalid += 1
            self.sample += line[: _SAMPLE_BYTES - len(self.sample)]


def detect_encoding(file: str) -> str:
    """Return the name of the encoding of a text file; ``ascii`` for a text that is the same in all usual encodings.

    A file in UTF-8 may have some lines that are not valid, which are reported later. Raises ValueError for a binary file, and for
    lines that end in carriage returns only.
    """
    tally, read = _Tally(), 0
    with TextStream(file) as stream:
        while (block := stream.read(_BLOCK_BYTES)) and read < _MAX_BYTES:
            if not read:
                _check_start(file, block)
                if found := _wide_encoding(block[:_HEAD_BYTES]):
                    return found
            block += stream.readline(_MAX_LINE)
            read += len(block)
            if not block.isascii():
                _add_block(tally, block)
    if not tally.invalid:
        return "utf-8" if tally.valid else "ascii"
    return "utf-8" if tally.valid > tally.invalid else _legacy_encoding(file, tally.sample)


def _check_start(file: str, start: bytes) -> None:
    """Raise ValueError if a file starts as a known binary format does, or has no line ends but carriage returns."""
    path = Path(file)
    if (found := next((about for magic, about in _BINARY.items() if start.startswith(magic)), None)) is not None:
        kind, command = _EXCEL if path.suffix.lower() in (".xlsx", ".xlsm") else found
        command = command.format(name=file, stem=path.stem) if re.fullmatch(r"[\w./-]+", file) else ""
        raise ValueError(f"{file}: {kind}, not a text file; convert it to CSV or text{f': {command}' if command else ''}")
    if start.count(b"\r") > 1 and b"\n" not in start:
        raise ValueError(
            f"{file}: lines end in carriage returns only, but must end in line feeds; convert it: "
            f"tr '\\r' '\\n' < {shlex.quote(file)} > converted{path.suffix}"
        )


def _add_block(tally: _Tally, block: bytes) -> None:
    for line in block.split(b"\n"):
        tally.add(line)


def _wide_encoding(head: bytes) -> str:
    """UTF-8, UTF-16 or UTF-32 by a byte-order mark; UTF-16 also by the null bytes of ASCII characters."""
    for mark, name in BOMS.items():
        text = head[: len(head) // 4 * 4].decode(name, "ignore") if head.startswith(mark) else ""
        if name != "utf-8" and (" " in text or "\n" in text):
            return name
    even, odd = (head[start::2].count(0) * 2 / max(1, len(head)) for start in (0, 1))
    if max(even, odd) > 0.4 and min(even, odd) < 0.05:
        return "utf-16-le" if odd > even else "utf-16-be"
    return ""


def _legacy_encoding(file: str, sample: bytes) -> str:
    """The encoding of lines that are not UTF-8."""
    control = sum(byte < 32 and byte not in b"\t\n\r\f" for byte in sample)
    if control > 0.05 * len(sample):
        raise ValueError(f"{file}: not a text file: of {len(sample):,} bytes, {control:,} are control characters")
    if found := _western(sample):
        return found
    import charset_normalizer  # only for files that are not UTF-8

    logging.getLogger("charset_normalizer").setLevel(logging.ERROR)
    best = charset_normalizer.from_bytes(sample, cp_isolation=list(_CANDIDATES)).best()
    if best is None:
        raise ValueError(f"{file}: not a text file, or in an unknown encoding; set the option encoding")
    name = str(best.encoding)
    if name == "cp1251" and _lower(sample, "koi8_r") > _lower(sample, name):
        return "koi8_r"
    return name


def _western(sample: bytes) -> str:
    """``latin-1`` or ``cp1252`` if few characters are beyond ASCII, and those are usual in Western Europe; else ""."""
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    beyond = [character for character in text if not character.isascii()]
    usual = sum(character in _WESTERN for character in beyond)
    central = sum(sample.count(byte) for byte in _CENTRAL)
    if usual < 0.95 * len(beyond) or central > 0.05 * len(beyond) or len(beyond) > 0.4 * len(text):
        return ""
    return "cp1252" if any(0x80 <= byte < 0xA0 for byte in sample) else "latin-1"


def _lower(sample: bytes, name: str) -> int:
    return sum(character.islower() for character in codecs.decode(sample, name, "replace"))


def check_file_encoding(file: str, encoding: str) -> None:
    """Raise ValueError if the first part of a file shows that it is in another encoding."""
    try:
        found = detect_encoding(file)
    except ValueError:
        if encoding == "utf-8":
            raise
        return  # the bytes are unusual, but the user has named their encoding
    if found == "ascii" or codecs.lookup(found) == codecs.lookup(encoding):
        return
    if encoding != "utf-8" and found != "utf-8" and _decodes(file, encoding):
        return
    raise ValueError(f"{file}: the file is not in {encoding}, but probably in {found}; set the option encoding: {found}")


def _decodes(file: str, encoding: str) -> bool:
    """Whether at most a few lines of the first part of a file are invalid in an encoding."""
    tally, read = _Tally(), 0
    with TextStream(file, encoding) as stream:
        while (block := stream.read(_BLOCK_BYTES)) and read < _MAX_BYTES:
            block += stream.readline(_MAX_LINE)
            read += len(block)
            _add_block(tally, block)
    return tally.valid >= tally.invalid
