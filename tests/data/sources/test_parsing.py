from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.data.sources import cursor as cursor_module
from weft.data.sources.cursor import BOM, EMPTY_FILES, WINDOWS, Cursor
from weft.data.sources.parsing import ColumnSpec, ParsedRow, TableFormat, tables


def write(file: Path, content: str | bytes) -> str:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


def lines_of(cursor: Cursor) -> list[tuple[str, str]]:
    return [line for _ in cursor.each_file() for line in cursor.lines()]


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    cursor = Cursor([write(tmp_path / "f", "\ufeffone\r\ntwo\u2028still two\x0c\r\n\r\nfour")])
    assert lines_of(cursor) == [("one", ""), ("two\u2028still two\x0c", ""), ("", ""), ("four", "")]
    assert +cursor.counts == {BOM: 1, WINDOWS: 3}
    assert lines_of(Cursor([write(tmp_path / "g", "a\n\n"), write(tmp_path / "h", "b\rc")])) == [
        ("a", ""),
        ("", ""),
        ("b\rc", ""),
    ]


def test_invalid_utf8_is_reported(tmp_path: Path) -> None:
    cursor = Cursor([write(tmp_path / "f", b"good\nb\xe4d\nl\xc3\xa4st")])
    assert [problem for _, problem in lines_of(cursor)] == [
        "",
        "byte 0xe4 is not valid UTF-8; save the file as UTF-8, set the option encoding, or fix the line",
        "",
    ]


def test_files_without_content_are_counted(tmp_path: Path) -> None:
    cursor = Cursor([write(tmp_path / "a", ""), write(tmp_path / "b", "x"), write(tmp_path / "c", "")])
    assert lines_of(cursor) == [("x", "")] and cursor.counts[EMPTY_FILES] == 2 and cursor.total == cursor.read() == 1


@given(
    files=st.lists(st.text(st.sampled_from("ab\u00e4\u2028\r\n\n\n\ufeff"), max_size=30), min_size=1, max_size=3),
    stop=st.integers(0, 40),
    block=st.integers(1, 20),
)
@settings(max_examples=200, deadline=None)
def test_a_cursor_continues_from_any_mark(
    files: list[str], stop: int, block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("f")
    names = [write(folder / str(n), content) for n, content in enumerate(files)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cursor_module, "_BLOCK_BYTES", block)
        expected, counts, cursor = [], Counter(), Cursor(names)
        for name in cursor.each_file():
            expected += [(name, cursor.line, line) for line, _ in cursor.lines()]
        cut = [content.encode().split(b"\n") for content in files]
        assert [line for _, _, line in expected] == [
            line.removesuffix(b"\r").decode().removeprefix("\ufeff" if not n else "")
            for parts in cut
            for n, line in enumerate(parts if parts[-1] else parts[:-1])
        ]
        cursor, found = Cursor(names, counts=counts), []
        for name in cursor.each_file():
            for line, _ in cursor.lines():
                found.append((name, cursor.line, line))
                if len(found) == stop:
                    break
            if len(found) == stop:
                break
        second = Cursor(names, tuple(json.loads(json.dumps(cursor.mark()))), counts)
        for name in second.each_file():
            found += [(name, second.line, line) for line, _ in second.lines()]
        assert found == expected
        assert +counts == +_counted(names)


def _counted(names: list[str]) -> Counter[str]:
    cursor = Cursor(names)
    lines_of(cursor)
    return cursor.counts


# ------------------------------------------------------------------------------------------------------------------- tables

ANY = {"text": ColumnSpec(None, ("text", "sentence")), "label": ColumnSpec(None, ("label",))}


def rows_of(file: str, wanted: dict[str, ColumnSpec] = ANY, header: tuple[str, ...] | None = None) -> list[ParsedRow]:
    return list(tables(Cursor([file]), wanted, TableFormat(header)))


def test_tabs_separate_and_quotes_do_not(tmp_path: Path) -> None:
    file = write(tmp_path / "f.tsv", '\ufeffid\tlabel\tsentence\r\n1\tyes\t"a, b\r\n\r\n2\tno\tc" ')
    assert rows_of(file) == [
        ParsedRow(file, 2, {"text": '"a, b', "label": "yes"}),
        ParsedRow(file, 3, {}),
        ParsedRow(file, 4, {"text": 'c" ', "label": "no"}),
    ]


def test_names_of_columns_can_be_given(tmp_path: Path) -> None:
    file = write(tmp_path / "f.tsv", "x\t1\ny\t0\n")
    assert rows_of(file, header=("text", "label"))[0] == ParsedRow(file, 1, {"text": "x", "label": "1"})
    assert rows_of(file, {"a": ColumnSpec("1")}) == [ParsedRow(file, 2, {"a": "0"})]


cells = st.text(st.sampled_from('ab,"\n\r\t \u00e4'), min_size=1, max_size=12).map(lambda t: t.replace("\r", "")).filter(bool)


@given(content=st.lists(st.tuples(cells, cells), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_csv_as_the_library_writes_it(content: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("la\nbel", "text"), *content])
    file = write(tmp_path_factory.mktemp("f") / "f.csv", stream.getvalue())
    found = rows_of(file, {"text": ColumnSpec("text"), "label": ColumnSpec("la\nbel")})
    assert [(row.cells["label"], row.cells["text"]) for row in found] == content
    line = 3
    for row, record in zip(found, content, strict=True):
        assert row.line == line
        line += 1 + sum(cell.count("\n") for cell in record)


def test_csv_that_is_wrong(tmp_path: Path) -> None:
    file = write(tmp_path / "f.csv", 'text,label\n"a"b,1\n5" pipe,1\nx,1,2\n\n"never\nclosed,1\n')
    found = rows_of(file)
    assert [(row.line, row.problem) for row in found] == [
        (2, "not valid CSV: ',' expected after '\"'"),
        (3, ""),
        (4, "3 columns, but the header has 2 (text, label)"),
        (5, ""),
        (6, "not valid CSV: a quotation mark is never closed (lines 6 to 7)"),
    ]
    assert found[1].cells == {"text": '5" pipe', "label": "1"} and not found[3].cells


def test_objects(tmp_path: Path) -> None:
    lines = [
        '{"text": "x\\ny", "label": 3}',
        "",
        '{"text": "y", "label": ["a", "b"], "more": 1}',
        '{"text": null, "label": true}',
    ]
    file = write(tmp_path / "f.jsonl", "\n".join(lines))
    assert [row.cells for row in rows_of(file)] == [
        {"text": "x\ny", "label": "3"},
        {},
        {"text": "y", "label": "a\tb"},
        {"text": "", "label": "true"},
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "x"', "not valid JSON: Expecting ',' delimiter"),
        ("[1]", r"must be an object \{...\}, not \[1\]"),
        ('{"text": "x"}', "no column 'label'; available: text; name it with the option label"),
        ('{"text": "\\ud800", "label": 1}', r"column 'text' has a lone surrogate U\+D800"),
        ("[" * 100_000, "nested more than 100 levels deep"),
        (f'{{"text": {"9" * 5000}, "label": 1}}', r"a number has 5,000 digits, more than 300 \(column 10\)"),
    ],
)
def test_objects_that_are_wrong(tmp_path: Path, line: str, problem: str) -> None:
    good = '{"text": "x", "label": 1}'
    found = rows_of(write(tmp_path / "f.jsonl", f"{good}\n{line}\n{good}"))
    assert [bool(row.problem) for row in found] == [False, True, False] and found[1].line == 2
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(found[1].problem)


@pytest.mark.parametrize(
    ("content", "wanted", "message"),
    [
        ("a\tb\nx\t1\n", ANY, r"f:1: no column 'text' or 'sentence'; available: a, b; name it with the option text"),
        ("text\tb\nx\t1\n", ANY, r"f:1: no column 'label'; available: text, b"),
        ("so good\tpos\nbad\tneg\n", ANY, r"if the first line is not a header, name all columns with the option column_names"),
        ("text\tlabel\ttext\nx\t1\ty\n", ANY, r"f:1: 2 columns are named 'text'; the header is: text, label, text"),
        ("text\tlabel\nx\t1\n", {"text": ColumnSpec("body")}, r"f:1: no column 'body'; available: text, label"),
        (b"t\xe4xt\tlabel\nx\t1\n", ANY, r"f:1: byte 0xe4 is not valid UTF-8"),
    ],
)
def test_headers_that_are_wrong(tmp_path: Path, content: str | bytes, wanted: dict[str, ColumnSpec], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_of(write(tmp_path / "f", content), wanted)


def test_column_names_are_suggested_only_where_they_help(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "so good\tpos\nbad\tneg\n")
    without = {name: column._replace(headerless=False) for name, column in ANY.items()}
    for wanted, names in ((ANY, ("a", "b")), (without, None)):
        with pytest.raises(ValueError, match="no column 'text'") as error:
            list(tables(Cursor([file]), wanted, TableFormat(names)))
        assert "option column_names" not in str(error.value)


def test_a_line_that_is_too_long_is_located_and_not_read_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.data.sources.cursor.MAX_DATA_BYTES", 300_000)
    file = write(tmp_path / "f", "one\ntwo\n" + "a" * 400_000 + "\nfour")
    with pytest.raises(ValueError, match=r"f:3: the line has more than 300,000 bytes; split it"):
        lines_of(Cursor([file]))
    monkeypatch.setattr("weft.data.sources.cursor.MAX_DATA_BYTES", 500_000)
    assert [line for line, _ in lines_of(Cursor([file]))] == ["one", "two", "a" * 400_000, "four"]
