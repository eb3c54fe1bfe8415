"""Attributions as plain text, for a terminal."""

from __future__ import annotations

from weft.inspect.attribution import Attribution, OutputAttribution
from weft.inspect.attribution_html import method_text, shades, sum_text
from weft.inspect.entity_spans import bracketed

MAX_ROWS = 12
"""Maximum number of tokens shown for an output, and of outputs."""


def attribution_text(found: Attribution) -> str:
    """Return the prediction, the entities in brackets, and the tokens with the largest attributions of each output."""
    lines = [f"input       {found.input.replace(chr(9), ' | ')}"]
    if found.words:
        lines.append(f"entities    {bracketed(found.words, found.entities)}")
    else:
        lines.append(f"prediction  {found.prediction}")
    lines.append(f"method      {method_text(found)}")
    for one in found.outputs[:MAX_ROWS]:
        lines += ["", one.name, *_rows(found, one), f"  {sum_text(one, found.method)}"]
    if len(found.outputs) > MAX_ROWS:
        lines += ["", f"and {len(found.outputs) - MAX_ROWS} more outputs"]
    return "\n".join([*lines, *found.notes])


def _rows(found: Attribution, one: OutputAttribution) -> list[str]:
    """The largest attributions in the order of the text, each with a bar of plus or minus signs."""
    largest = sorted(range(len(one.values)), key=lambda at: -abs(one.values[at]))[:MAX_ROWS]
    signs, width = shades(one.values), max((len(found.tokens[at]) for at in largest), default=0)
    rows = [
        f"  {found.tokens[at]:{width}}  {one.values[at]:+.3f}  {('+' if signs[at] > 0 else '-') * abs(signs[at])}".rstrip()
        for at in sorted(largest)
    ]
    left = len(one.values) - len(largest)
    return [*rows, f"  and {left} more with smaller values"] if left else rows
