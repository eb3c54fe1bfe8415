"""A contact sheet: examples of a dataset as a self-contained page and, with pictures, as a PNG. H x W x C bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from weft.core.files import make_folder, write_bytes
from weft.core.html import escape
from weft.core.image_file import encode_png, import_pillow, resize
from weft.inspect.web_page import write_page

MAX_CHARACTERS, MAX_TOKENS = 1000, 256
"""Characters of a text and tokens of a sequence that are shown."""
_SIDE, _CELL, _LINE = 160, 96, 14
"""Longest side of a picture on the page; of a cell of the PNG; height of a line of text under it."""
_MOST_CELLS = 4096
_WHITE, _BLACK = 255, (0, 0, 0)
_COLUMNS = 12


@dataclass(frozen=True)
class Picture:
    """An image and what is written below it.

    Args:
        pixels: H x W x C bytes.
        caption: One line.
    """

    pixels: np.ndarray
    caption: str


@dataclass(frozen=True)
class Strip:
    """A sequence of tokens.

    Args:
        name: What it is.
        tokens: The tokens.
        marked: Positions that are emphasized: those that are predicted.
    """

    name: str
    tokens: Sequence[str]
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True)
class SheetExample:
    """An example: its cells, its pictures, and the sequences that the objective makes of it.

    Args:
        row: Its index in the split.
        facts: Names and texts.
        pictures: The stored images, then what training sees.
        strips: Sequences of tokens.
    """

    row: int
    facts: Sequence[tuple[str, str]]
    pictures: Sequence[Picture] = ()
    strips: Sequence[Strip] = ()


@dataclass(frozen=True)
class SheetSection:
    """The examples of a split.

    Args:
        name: Its name.
        rows: Number of examples that it has.
        examples: Those that are shown.
        notes: Remarks.
    """

    name: str
    rows: int
    examples: Sequence[SheetExample]
    notes: Sequence[str] = field(default_factory=list)


def sheet_page(sections: Sequence[SheetSection], path: str | Path, title: str) -> Path:
    """Write examples as one HTML file without scripts and links; return its path.

    Args:
        sections: The examples.
        path: The file to write.
        title: Title of the page.
    """
    cards = "\n".join(map(_section, sections))
    return write_page("contact_sheet", path, {"title": escape(title), "cards": cards}, ["attention_page", "contact_sheet"])


def sheet_image(sections: Sequence[SheetSection], path: str | Path) -> Path | None:
    """Write the pictures of examples as a PNG, the versions of an example side by side; None where there are none.

    Args:
        sections: The examples.
        path: The file to write.
    """
    groups = [example.pictures for section in sections for example in section.examples if example.pictures]
    if not groups:
        return None
    import_pillow()
    from PIL import Image, ImageDraw

    wide = max(map(len, groups))
    across = max(1, _COLUMNS // wide)
    groups = groups[: max(1, _MOST_CELLS // wide)]
    height, step = _CELL + _LINE, wide * (_CELL + 2) + 8
    sheet = Image.new("RGB", (across * step, -(-len(groups) // across) * (height + 4)), (_WHITE,) * 3)
    draw = ImageDraw.Draw(sheet)
    for number, pictures in enumerate(groups):
        y, x = number // across * (height + 4), number % across * step
        for picture in pictures:
            pixels = resize(_visible(picture.pixels), _CELL, _CELL, "pad")
            sheet.paste(Image.fromarray(pixels), (x, y))
            text = picture.caption.encode("latin-1", "replace").decode("latin-1")  # what the built-in font has
            draw.text((x, y + _CELL + 1), "".join(c if c.isprintable() else "?" for c in text)[:16], fill=_BLACK)
            x += _CELL + 2
    stream = io.BytesIO()
    sheet.save(stream, "PNG")
    file = Path(path)
    make_folder(file.parent)
    write_bytes(file, stream.getvalue())
    return file


def _section(section: SheetSection) -> str:
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in section.notes)
    head = f"<h2><bdi>{escape(section.name)}</bdi></h2>"
    count = f'<p class="count">{len(section.examples):,} of {section.rows:,} examples</p>'
    return f'<section class="card">{head}{count}{notes}{"".join(map(_example, section.examples))}</section>'


def _example(example: SheetExample) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd><bdi>{escape(_short(text))}</bdi></dd>" for name, text in example.facts)
    pictures = "".join(map(_figure, example.pictures))
    strips = "".join(map(_strip, example.strips))
    shown = f'<div class="pictures">{pictures}</div>' if pictures else ""
    return f"<article><h3>row {example.row:,}</h3>{shown}<dl>{rows}</dl>{strips}</article>"


def _figure(picture: Picture) -> str:
    data = base64.b64encode(encode_png(_thumbnail(picture.pixels))).decode()
    text = escape(_short(picture.caption))
    return f'<figure><img alt="" src="data:image/png;base64,{data}"><figcaption><bdi>{text}</bdi></figcaption></figure>'


def _strip(strip: Strip) -> str:
    tokens = "".join(
        f'<span class="token{" marked" if at in strip.marked else ""}">{escape(token) or "␣"}</span>'
        for at, token in enumerate(strip.tokens[:MAX_TOKENS])
    )
    left = len(strip.tokens) - MAX_TOKENS
    more = f'<span class="mark">and {left:,} more</span>' if left > 0 else ""
    return f'<h4><bdi>{escape(strip.name)}</bdi> ({len(strip.tokens):,})</h4><div class="strip">{tokens}{more}</div>'


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}… ({len(text):,} characters)"


def _thumbnail(pixels: np.ndarray) -> np.ndarray:
    """An image that is no larger than it is shown."""
    pixels = _visible(pixels)
    height, width = pixels.shape[:2]
    scale = min(1.0, _SIDE / max(height, width))
    return resize(pixels, max(1, round(height * scale)), max(1, round(width * scale)), "stretch")


def _visible(pixels: np.ndarray) -> np.ndarray:
    """Three channels: gray ones repeated; of other numbers the first three, or the first."""
    channels = pixels.shape[2]
    return np.ascontiguousarray(np.repeat(pixels[..., :1], 3, 2) if channels < 3 else pixels[..., :3])
