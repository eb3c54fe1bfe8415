"""Compressed and converted text: the same lines, in bounded memory, from any position."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.text_stream import TextStream, check_encoding, read_whole
from weft.data.sources.cursor import BOM, WINDOWS, Cursor
from weft.data.sources.detect_encoding import check_file_encoding, detect_encoding

LETTERS = {"utf-8": "aé猫\n", "latin-1": "aé\n", "cp1252": "aé–\n", "utf-16": "aé猫\n", "utf-32-be": "a猫\n", "gb18030": "a猫é\n"}
TEXTS = {
    "latin-1": "Le café était très agréable, déjà vu à l'été.\n",
    "cp1252": "Le café – “déjà vu” – était très agréable.\n",
    "cp1250": "Zażółć gęślą jaźń, to był świetny film i bardzo mi się podobał.\n",
    "cp1251": "Это был очень хороший фильм, мне понравилось.\n",
    "koi8_r": "Это был очень хороший фильм, мне понравилось.\n",
    "gb18030": "这部电影非常好看,我很喜欢。\n",
    "big5": "這部電影非常好看,我很喜歡。\n",
    "shift_jis": "この映画はとても面白かったです。\n",
    "euc_kr": "이 영화는 정말 재미있었어요.\n",
    "utf-8": "Le café était très agréable.\n",
    "utf-16": "Le café était très agréable.\n",
    "utf-16-le": "It was fine, the café.\n",
}


def lines_of(cursor: Cursor) -> list[tuple[str, str]]:
    return [line for _ in cursor.each_file() for line in cursor.lines()]


@given(data=st.data(), encoding=st.sampled_from(sorted(LETTERS)), compressed=st.booleans(), stop=st.integers(0, 20))
@settings(max_examples=150, deadline=None)
def test_a_converted_file_has_the_same_lines_from_any_mark(
    data: st.DataObject, encoding: str, compressed: bool, stop: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = data.draw(st.text(st.sampled_from(LETTERS[encoding]), min_size=1, max_size=40))
    file = tmp_path_factory.mktemp("f") / "a.txt"
    content = text.encode(encoding)
    file.write_bytes(gzip.compress(content) if compressed else content)
    expected = [(line, "") for line in (text if text.endswith("\n") or not text else text + "\n").split("\n")[:-1]]
    cursor = Cursor([str(file)], encoding=encoding)
    found: list[tuple[str, str]] = []
    for _ in cursor.each_file():
        for line in cursor.lines():
            found.append(line)
            if len(found) == stop:
                break
        if len(found) == stop and stop:
            break
    again = Cursor([str(file)], cursor.mark(), encoding=encoding)
    assert found + lines_of(again) == expected
    assert again.read() == again.total == file.stat().st_size


def test_bytes_that_are_invalid_in_an_encoding_are_located(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes("one\ntwé".encode("cp1252") + b"\x81\nthree\n")
    cursor = Cursor([str(file)], encoding="cp1252")
    assert [(text, bool(problem)) for text, problem in lines_of(cursor)] == [
        ("one", False),
        ("twé\ufffd", True),
        ("three", False),
    ]
    file.write_bytes("a\r\nb\r\n".encode("utf-16"))
    cursor = Cursor([str(file)], encoding="utf-16")
    assert lines_of(cursor) == [("a", ""), ("b", "")] and +cursor.counts == {BOM: 1, WINDOWS: 2}


def test_names_of_encodings_are_checked() -> None:
    assert check_encoding("UTF8") == check_encoding("utf-8-sig") == "utf-8"
    for name in ("latin-x", "rot13", "hex", "utf-7", "unicode_escape", "idna", "\0"):
        with pytest.raises(ValueError, match="is not the name of a text encoding"):
            check_encoding(name)
    with pytest.raises(ValueError, match="did you mean 'latin-1'"):
        check_encoding("latin-l")


def test_a_decompression_bomb_does_not_fill_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb", 9) as stream:
        for _ in range(100):
            stream.write(bytes(1 << 20))
    assert bomb.stat().st_size < 1 << 20
    for read in (lambda: lines_of(Cursor([str(bomb)])), lambda: read_whole(bomb, 1 << 28), lambda: detect_encoding(str(bomb))):
        tracemalloc.start()
        with pytest.raises(ValueError, match=r"bomb\.gz: the gzip data expands to more than 200 times its size.*gunzip"):
            read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200 << 20


def test_many_members_and_damaged_gzip_data(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert lines_of(Cursor([str(file)])) == [("one", ""), ("two", "")]
    whole = gzip.compress(os.urandom(5000).hex().encode())
    for damaged in (whole[:-900], whole[:200] + b"\0" * 50 + whole[250:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"a\.gz: damaged gzip data: .*; get the file again"):
            lines_of(Cursor([str(file)]))


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="must be a regular file"):
        TextStream(tmp_path / "pipe")


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("count", [1, 30])
def test_encodings_are_detected(encoding: str, count: int, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes((TEXTS[encoding] * count).encode(encoding))
    found = detect_encoding(str(file))
    assert file.read_bytes().decode(found) == TEXTS[encoding] * count
    check_file_encoding(str(file), encoding)
    if encoding != "utf-8":
        with pytest.raises(ValueError, match=r"is not in utf-8, but probably in .*; set the option encoding"):
            check_file_encoding(str(file), "utf-8")
    else:
        with pytest.raises(ValueError, match="is not in cp1252, but probably in utf-8"):
            check_file_encoding(str(file), "cp1252")


def test_ascii_fits_any_encoding_and_few_invalid_lines_leave_utf8(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"plain text\n")
    assert detect_encoding(str(file)) == "ascii"
    for encoding in ("utf-8", "latin-1", "shift_jis"):
        check_file_encoding(str(file), encoding)
    file.write_bytes("déjà\n".encode() * 5 + "déjà\n".encode("latin-1"))
    assert detect_encoding(str(file)) == "utf-8"
