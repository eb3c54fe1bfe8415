"""Text files as streams of UTF-8 bytes: gzip files are decompressed, other encodings are converted, both in bounded memory."""

from __future__ import annotations

import codecs
import difflib
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file. A UTF-8 text cannot start with them."""
MAX_EXPANSION = 200
"""A gzip file may expand to this many times its size; text rarely expands more than 20 times."""
_FREE_BYTES = 64 << 20
"""Before this many bytes, the expansion is not checked."""
_CHUNK_BYTES, _READ_BYTES = 1 << 16, 1 << 20
_INVALID = "weft.invalid-bytes"
_NOT_TEXT = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
_USUAL = ("utf-8", "latin-1", "cp1252", "utf-16", "cp1251", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "koi8_r")
BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte-order marks and the encodings that they announce."""


def check_encoding(name: str) -> str:
    """Return the canonical name of a text encoding that Python knows; raise ValueError for any other.

    Example:
        >>> check_encoding("Latin1"), check_encoding("UTF8")
        ('iso8859-1', 'utf-8')
    """
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):  # ValueError: a null character
        found = None
    if found is None or found.name.replace("_", "-") in _NOT_TEXT or not getattr(found, "_is_text_encoding", True):
        near = difflib.get_close_matches(name.lower(), _USUAL, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"usual ones: {', '.join(_USUAL)}"
        raise ValueError(f"{name[:40]!r} is not the name of a text encoding; {hint}")
    return "utf-8" if found.name == "utf-8-sig" else found.name


def data_suffix(path: str | Path) -> str:
    """The suffix that decides the format of a file, in lower case and without ``.gz``.

    Example:
        >>> data_suffix("train.TSV.gz"), data_suffix("notes.gz")
        ('.tsv', '')
    """
    path = Path(path)
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


class TextStream:
    """The bytes of a text file in UTF-8, read from a position on. Use it as a context manager.

    Bytes that are invalid in the encoding become bytes that are invalid in UTF-8, so that they are found. Raises ValueError
    for a file that is not regular, damaged gzip data, and data that expands to more than ``MAX_EXPANSION`` times its size.

    Args:
        path: The file.
        encoding: Its encoding.
        offset: Bytes of the UTF-8 text to skip.

    Attributes:
        converted: Whether the bytes differ from those of the file.
    """

    def __init__(self, path: str | Path, encoding: str = "utf-8", offset: int = 0):
        encoding = check_encoding(encoding)
        self._file = open_regular(path)
        head = self._file.read(4)
        self._file.seek(0)
        compressed = head.startswith(GZIP)
        self.converted = compressed or encoding != "utf-8"
        if not self.converted:
            self._file.seek(offset)
            self._text = self._file
            return
        chunks = _decompressed(self._file, path) if compressed else iter(lambda: self._file.read(_CHUNK_BYTES), b"")
        self._text = io.BufferedReader(_Chunks(chunks if encoding == "utf-8" else _recoded(chunks, encoding)), _CHUNK_BYTES)
        while offset > 0 and (skipped := len(self._text.read(min(offset, _CHUNK_BYTES)))):
            offset -= skipped

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        return self._text.read(size)

    def readline(self, limit: int) -> bytes:
        """The bytes up to and including the next line feed, at most ``limit``."""
        return self._text.readline(limit)

    def position(self) -> int:
        """Number of bytes read from the file itself."""
        return self._file.tell()


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; raise ValueError for a device or a pipe, without waiting for it."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError(f"{path}: must be a regular file, not a device or pipe")
    return file


def read_whole(path: str | Path, limit: int, encoding: str = "utf-8") -> bytes:
    """The content of a text file in UTF-8, of at most ``limit`` bytes; raises ValueError for a larger one."""
    with TextStream(path, encoding) as stream:
        chunks, size = list[bytes](), 0
        while size <= limit and (chunk := stream.read(_READ_BYTES)):
            chunks.append(chunk)
            size += len(chunk)
    if size > limit:
        raise ValueError(f"{path}: has more than {limit:,} bytes, which is the maximum")
    return b"".join(chunks)


class _Chunks(io.RawIOBase):
    """A raw stream of chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks, self._left = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


def _decompressed(file: BinaryIO, path: str | Path) -> Iterator[bytes]:
    written = 0
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                written += len(chunk)
                if written > max(_FREE_BYTES, MAX_EXPANSION * file.tell()):
                    raise ValueError(
                        f"{path}: the gzip data expands to more than {MAX_EXPANSION} times its size; if that is intended, "
                        "decompress the file first (gunzip)"
                    )
                yield chunk
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: damaged gzip data: {error}; get the file again") from None


def _recoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(_INVALID)
    first = True
    for chunk in chunks:
        if first and encoding in ("utf-16", "utf-32") and BOMS.get(chunk[:4], BOMS.get(chunk[:2])) == encoding:
            yield codecs.BOM_UTF8  # the decoder removes the mark; ``Cursor`` counts it
        first = False
        try:
            text = decoder.decode(chunk)
        except UnicodeError as error:
            raise ValueError(f"the text is not in {encoding}: {error}; set the option encoding") from None
        yield text.encode("utf-8", "surrogateescape")
    yield decoder.decode(b"", True).encode("utf-8", "surrogateescape")


def _escape_invalid(error: UnicodeError) -> tuple[str, int]:
    """Replace invalid bytes by a lone surrogate, which becomes a byte that is invalid in UTF-8."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    byte = error.object[error.start]
    return chr(0xDC00 + (byte if byte >= 0x80 else 0xFF)), error.end


codecs.register_error(_INVALID, _escape_invalid)
