"""Tables are put into the page at their marks, as often as one likes, and nothing else of it changes."""

from __future__ import annotations

import re

import pytest
from benchmarks.document import PAGE, show

TEXT = "before\n\n<!-- one -->\n\n<!-- end one -->\n\nbetween\n\n<!-- two -->\n\n| old |\n\n<!-- end two -->\n\nafter\n"


def test_a_table_replaces_what_stands_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(TEXT)
    show("two", ["| a |", "|---|"], page)
    new = TEXT.replace("| old |", "| a |\n|---|")
    assert page.read_text() == new
    show("one", ["| b |"], page)
    once = page.read_text()
    show("one", ["| b |"], page)
    assert page.read_text() == once == new.replace("<!-- one -->\n", "<!-- one -->\n\n| b |\n")


def test_without_a_page_a_table_is_only_printed(capsys):
    before = PAGE.read_text(encoding="utf-8")
    show("three", ["| a |"], None)
    assert capsys.readouterr().out == "\nthree\n\n| a |\n" and PAGE.read_text(encoding="utf-8") == before


def test_a_page_without_the_marks_is_left_as_it_is(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(TEXT.replace("<!-- end two -->", ""))
    for name in ("two", "three"):
        with pytest.raises(ValueError, match=f"has no markers for the table '{name}'"):
            show(name, ["| a |"], page)
    assert page.read_text() == TEXT.replace("<!-- end two -->", "")


def test_marks_of_the_page_of_figures_come_in_pairs():
    marks = re.findall(r"^<!-- (?:end )?([\w-]+) -->$", PAGE.read_text(encoding="utf-8"), re.M)
    assert marks and marks[::2] == marks[1::2] and len(set(marks)) == len(marks) // 2
