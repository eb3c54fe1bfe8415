"""Write self-contained HTML pages from the templates of this package."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from weft.core.files import make_folder, write_bytes

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def write_page(template: str, path: str | Path, values: Mapping[str, str], styles: Sequence[str], script: str = "") -> Path:
    """Fill in a template (``<template>.html``) and write it, with styles and script inline; return the path.

    A content security policy allows the inline script alone, so no other script runs.

    Args:
        template: Name of the template.
        path: The file to write.
        values: The value of each placeholder; it must be escaped as its position in the template requires.
        styles: Names of style sheets (``<name>.css``).
        script: Name of a script (``<name>.js``); "" = no script may run.
    """
    style, code = "".join(_resource(f"{sheet}.css") for sheet in styles), _resource(f"{script}.js") if script else ""
    allowed = f"'{_digest(code)}'" if code else "'none'"
    policy = f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src {allowed}"
    # in one pass: a placeholder inside of a value stays text
    known = {**values, "policy": policy, "style": style, "script": code}
    file = Path(path)
    text = _PLACEHOLDER.sub(lambda match: known[match[1]], _resource(f"{template}.html"))
    make_folder(file.parent)
    write_bytes(file, text.encode("utf-8", "replace"))
    return file


def _resource(name: str) -> str:
    return resources.files("weft.inspect").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
