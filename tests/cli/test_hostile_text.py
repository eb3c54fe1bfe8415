"""Names and texts of files reach a terminal only as visible characters."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from pathlib import Path

import pytest
from tests.commands import standard_input

import weft.cli
from weft.cli.app import main
from weft.cli.console import read_lines
from weft.core.printable import one_line, printable, printable_json, printable_line

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\u202egnp.\r\x08"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
RECIPE = """\
data: {type: labeled-text, train: rows.jsonl, validation_fraction: 0, test: rows.jsonl, tokenizer: {type: byte}}
structure: {type: classifier, dim: 8}
objective: classification
learning: {type: gradient, steps: 1}
evaluate: {metrics: [accuracy]}
device: cpu
"""


class Tty(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def at_terminal(*arguments: str | Path, given: bytes = b"", tty: bool = True) -> str:
    """All that a command prints, to a terminal or not."""
    out = Tty() if tty else io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), standard_input(given), pytest.raises(SystemExit):
        main([str(argument) for argument in arguments])
    return out.getvalue()


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")  # rich prints no styles of its own


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose folder, classes and texts have control characters."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [{"text": f"{HOSTILE} {i}\nnext", "label": f"{HOSTILE}{i % 2}\nx"} for i in range(8)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "r.yaml").write_text(RECIPE)
    run = folder / HOSTILE.replace("/", "").replace("\r", "")
    assert not CONTROL.search(at_terminal("train", folder / "r.yaml", "--run", run, tty=False))  # without a bar
    assert (run / "model.safetensors").is_file()
    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ["predict", "RUN"],
        ["predict", "RUN", "--json"],
        ["errors", "RUN"],
        ["errors", "RUN", "--json"],
        ["evaluate", "RUN"],
        ["check", "RUN"],
        ["compare", "RUN", "RUN", "--plot", "OUT"],
        ["generate", "RUN"],
        ["transfer", "RUN", "--to", HOSTILE],
        ["convert", "RUN", "OUT"],
        ["train", "RUN", f"learning.{HOSTILE}=1"],
        ["train", HOSTILE],
        ["evaluate", "RUN", HOSTILE],
        ["new", HOSTILE],
        [HOSTILE],
        ["predict", "RUN", "--beams", HOSTILE],
        ["predict", "RUN", HOSTILE],
    ],
    ids=lambda arguments: " ".join(arguments[:2]).replace(HOSTILE, "hostile"),
)
def test_no_control_character_reaches_a_terminal(arguments: list[str], trained: Path, tmp_path: Path) -> None:
    known = {"RUN": trained, "OUT": tmp_path / "out.png"}
    printed = at_terminal(*(known.get(word, word) for word in arguments), given=f"{HOSTILE} 1\n".encode())
    assert printed.strip() and not CONTROL.search(printed), ascii(CONTROL.search(printed))


def test_other_programs_get_one_unchanged_line_per_input(trained: Path) -> None:
    printed = at_terminal("predict", trained, given=b"a\nb\nc\n", tty=False)
    lines = printed.removesuffix("\n").split("\n")
    assert len(lines) == 3
    assert set(lines) <= {one_line(f"{HOSTILE}{i}\nx") for i in range(2)}
    assert "\x1b" in lines[0] and "\r" not in lines[0]


def test_an_input_line_that_is_too_long_is_located(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.console.MAX_DATA_BYTES", 100)
    with (
        standard_input(b"one\n" + b"a" * 101 + b"\n"),
        pytest.raises(ValueError, match="input:2: the line has more than 100 bytes"),
    ):
        list(read_lines(None))
    with standard_input(b"one\n" + b"a" * 90):
        assert list(read_lines(None)) == ["one", "a" * 90]


def test_visible_text_is_kept() -> None:
    text = "naïve 漢字 👩‍👧🏽 עברית\tX\n\\x1b"
    assert printable(text) == text and printable_line(text) == text.replace("\n", "\\n")
    assert printable("\ud800\u2028\x00") == "\\ud800\\u2028\\x00"


def test_json_is_the_same_document() -> None:
    document = {"a": HOSTILE + "naïve\u2028"}
    shown = printable_json(json.dumps(document, ensure_ascii=False))
    assert json.loads(shown) == document and not CONTROL.search(shown) and "naïve" in shown


def test_commands_print_through_one_module() -> None:
    """``print`` is called only in console.py, which escapes what it prints."""
    folder = Path(weft.cli.__file__).parent
    found = {
        str(file.relative_to(folder))
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write", "typer.echo")
    }
    assert found == {"console.py"}
