"""Messages for YAML syntax errors, at the line that causes the error rather than the line where the parser noticed it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.tokens import FlowMappingEndToken, FlowMappingStartToken, FlowSequenceEndToken, FlowSequenceStartToken

from weft.recipe.tree import COMMAND_LINE, Problem

LINE_BREAK = re.compile(r"\r\n|\r|\n")
_NO_COLON = "a `key: value` has no colon"


def location(file: str, line: int | None) -> str:
    """Return ``file:line``, or ``file`` alone for the command line or where the line is unknown."""
    return file if line is None or file == COMMAND_LINE else f"{file}:{line}"


def explain_syntax_error(error: MarkedYAMLError, text: str, file: str) -> list[Problem]:
    """Return the problems behind a syntax error.

    Args:
        error: The error of the YAML parser.
        text: The text that was parsed.
        file: Name of the file, for the location.
    """
    lines = LINE_BREAK.split(text)
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    tabs = [i for i, content in enumerate(lines, 1) if re.match(r" *\t", content) and content.strip()]
    if line in tabs or line - 1 in tabs:
        return [Problem(location(file, n), "", "a tab in the indentation: YAML requires spaces") for n in tabs]
    syntax = _SyntaxError(
        text,
        lines,
        line,
        mark.column if mark else None,
        " ".join(str(error.problem or error.context or "invalid syntax").split()),
        str(error.context or ""),
        error.context_mark.line + 1 if error.context_mark else line,
    )
    found = _scalar_rules(syntax) or _flow_rules(syntax) or _block_rules(syntax) or (line, syntax.problem)
    return [Problem(location(file, found[0]), "", f"not valid YAML: {found[1]}")]


@dataclass(frozen=True)
class _SyntaxError:
    """A parser error: the line and column where it was noticed, and the line where the context starts."""

    text: str
    lines: list[str]
    line: int
    column: int | None
    problem: str
    context: str
    start: int

    def indent(self, line: int) -> int:
        """The column where the content of a line starts, after the dashes of list entries."""
        found = re.match(r" *(- +)*", self.lines[line - 1] if line <= len(self.lines) else "")
        return found.end() if found else 0

    def dedented(self, line: int) -> bool:
        """Whether a line is indented no further than the line where the context starts."""
        return self.indent(line) <= self.indent(self.start)


def _scalar_rules(e: _SyntaxError) -> tuple[int, str] | None:
    """Line and message of an error in a scalar or key."""
    if e.problem.endswith("cannot start any token"):
        rest = "" if e.column is None or e.line > len(e.lines) else e.lines[e.line - 1][e.column :]
        character = rest[:1]
        if character == "\t":
            return e.line, "a tab where YAML requires spaces"
        return e.line, f"a value cannot start with {character}; put it in quotes"
    if "quoted scalar" in e.context and "end of stream" in e.problem:
        return e.start, "the quote that opens here is not closed"
    if "simple key" in e.context and "expected ':'" in e.problem:
        return e.start, _NO_COLON
    return None


def _flow_rules(e: _SyntaxError) -> tuple[int, str] | None:
    """Line and message of an error in ``[...]`` or ``{...}``."""
    if e.column is not None and "flow mapping" in e.context and e.lines[e.line - 1][: e.column + 1].endswith("${"):
        return e.line, "a ${...} inside of {...} must be in quotes"
    if e.context.endswith("flow node") and "stream end" in e.problem:
        line, bracket = _last_open_bracket(e.text)
        return line, f"the {bracket} that opens here is not closed"
    between = (n for n in range(e.start + 1, e.line) if e.dedented(n))
    dedented = e.start != e.line and (e.dedented(e.line) or any(_is_block_key(e.lines[n - 1]) for n in between))
    if "flow" in e.context and ("stream end" in e.problem or dedented):
        return e.start, f"the {'{' if 'mapping' in e.context else '['} that opens here is not closed"
    return None


def _block_rules(e: _SyntaxError) -> tuple[int, str] | None:
    """Line and message of an error in the indentation or the colons of a block."""
    before = max((n for n in range(1, e.line) if e.lines[n - 1].split("#")[0].strip()), default=e.line)
    merged = ":" not in e.lines[before - 1].split("#")[0] and e.indent(before) == e.indent(e.line)  # the value of the key above
    if merged and ("mapping values are not allowed" in e.problem or "expected <block end>" in e.problem):
        return before, _NO_COLON
    if "mapping values are not allowed" in e.problem:
        return e.line, "an unexpected colon, or a line that is indented too far"
    if "expected <block end>" in e.problem:
        return e.line, f"this line is indented unlike the others of its block, which starts at line {e.start}"
    if e.context and e.start != e.line:
        return e.line, f"{e.problem} ({e.context}, which starts at line {e.start})"
    return None


def _is_block_key(line: str) -> bool:
    """Whether a line starts with ``key:``, and does not end as the entries within brackets do."""
    content = line.split("#")[0].strip()
    return re.match(r"[^\s\[\]{},]+:(\s|$)", content) is not None and content[-1] not in ",]}"


def _last_open_bracket(text: str) -> tuple[int, str]:
    """Line and character of the innermost bracket that is not closed."""
    found: list[tuple[int, str]] = []
    for token in YAML(typ="safe", pure=True).scan(text):
        if isinstance(token, FlowSequenceStartToken | FlowMappingStartToken):
            found.append((token.start_mark.line + 1, "[" if isinstance(token, FlowSequenceStartToken) else "{"))
        elif isinstance(token, FlowSequenceEndToken | FlowMappingEndToken):
            found.pop()
    return found[-1]
