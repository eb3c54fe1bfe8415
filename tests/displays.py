"""Every notebook display must be well-formed, without scripts, and unaffected by markup in its texts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

HOSTILE = '<img src=x onerror="alert(1)">&amp;\'"</td></table><script>x</script>\x00'
"""A text that would break out of a careless page."""


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def parsed(shown: Any) -> ET.Element:
    """The display of an object, or its text, as a tree. Fails where it is not well-formed or could do something."""
    text = shown if isinstance(shown, str) else shown._repr_html_()
    tree = ET.fromstring(text)  # strict: every element is closed, every entity known
    parser = _Tags()
    parser.feed(text)
    assert not parser.tags & {"script", "style", "link", "iframe", "object", "img"}, parser.tags
    assert not {name for name in parser.attributes if name.startswith("on")} | parser.attributes & {"id", "href", "src"}
    return tree


def cells(tree: ET.Element) -> list[list[str]]:
    """The texts of all tables, row by row."""
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


def strong(tree: ET.Element) -> list[str]:
    """The texts of emphasized cells."""
    return ["".join(td.itertext()) for td in tree.iter("td") if "font-weight:600" in td.attrib["style"]]


def words(tree: ET.Element) -> str:
    return " ".join("".join(tree.itertext()).split())
