"""Cells that stand for a missing label: NA, nan, null, None, - and ?."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from weft.core.fields.number import finite_number
from weft.core.printable import printable_line
from weft.data.sources.text_source import TextSource
from weft.data.sources.training_scan import sort_labels
from weft.experiments.scaffold.columns import NUMBER
from weft.experiments.scaffold.detected_data import DetectedData, skip_rows, yaml_string

_MISSING = ("na", "n/a", "nan", "null", "none", "-", "?")
_NEVER_CLASSES = ("nan", "-")
"""Of these, the ones that are no class among words either; none, for example, may be one."""
_MOST_MISSING = 0.2
"""Largest fraction of missing labels among words; if there are more, they are a class."""
_MOSTLY = 0.9
"""Fraction of numbers from which a column is one of numbers, whatever else it has."""


def present_cells(cells: Sequence[str]) -> list[str]:
    """The cells of a column that are not empty; of a column of numbers, without those that stand for a missing number.

    Example:
        >>> present_cells(["1.5", "", "NA"]), present_cells(["yes", "", "NA"])
        (['1.5'], ['yes', 'NA'])
    """
    filled = [cell for cell in cells if cell]
    others = [cell for cell in filled if cell.lower() not in _MISSING]
    return others if others and all(map(NUMBER.fullmatch, others)) else filled


def check_numbers(name: str, cells: Sequence[str]) -> str:
    """Return what is wrong with a column of fractional numbers that also has words; "" for any other column."""
    numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
    words = [cell for cell in cells if not NUMBER.fullmatch(cell)]
    if not words or len(numbers) < _MOSTLY * len(cells) or all(float(number) % 1 == 0 for number in numbers):
        return ""
    return (
        f"{name} has numbers in {len(numbers):,} of {len(cells):,} rows, but also {printable_line(words[0])[:40]!r}: for "
        "regression, leave these cells empty or write NA, and the rows are skipped; for classes, replace the numbers by names"
    )


def skip_missing_labels(detected: DetectedData, source: TextSource, rows: int) -> None:
    """Skip the rows whose label is missing: no number in regression, a dash among classes. Add what is skipped to the remarks.

    Args:
        detected: The data; its options are changed.
        source: The data source with these options.
        rows: Rows of each file that are read to find missing labels.
    """
    tables = detected.source in ("labeled-text", "sentence-pairs") and not isinstance(detected.splits["train"], dict)
    if not tables or detected.label_type == "multiple" or "format" in detected.options:
        return
    found: Counter[str] = Counter()
    for split in detected.splits:
        for file in source.files(source.paths[split])[0]:
            found.update(_labels(source, [file], rows))
    missing = _not_numbers(found) if detected.label_type == "number" else _missing_classes(found)
    if not missing:
        return
    count, total = sum(found[label] for label in missing), found.total()
    shown = ", ".join(repr(printable_line(label)[:40]) for label in missing[:3])
    if detected.label_type == "single":
        classes = Counter(_labels(source, source.files(source.paths["train"])[0], None))
        detected.options["labels"] = f"[{', '.join(yaml_string(label) for label in sort_labels({*classes} - {*missing, ''}))}]"
        detected.remarks.append(
            f"{count:,} of {total:,} rows have the label {shown}, which stands for no label, and are skipped; if it is a class, "
            "remove labels and on_bad_row"
        )
    else:
        detected.remarks.append(f"{count:,} of {total:,} rows have no number as label, but {shown}, and are skipped")
    detected.options.setdefault("on_bad_row", skip_rows(count, total, "have no label"))


def _labels(source: TextSource, files: list[str], rows: int | None) -> Iterator[str]:
    """The labels of the first rows that have one."""
    found = islice(source.rows([source.cursor(files)]), rows)
    return (label for row in found if not row.problem and (label := row.cells.get("label", "")))


def _not_numbers(found: Counter[str]) -> list[str]:
    """Labels that are no number."""
    return [label for label in found if not _is_number(label)]


def _is_number(label: str) -> bool:
    try:
        finite_number("label", label)
    except ValueError:
        return False
    return True


def _missing_classes(found: Counter[str]) -> list[str]:
    """Labels that stand for a missing one beside two classes or more."""
    classes = [label for label in found if label.lower() not in _MISSING]
    if len(classes) < 2 or "+" in classes:
        return []
    if all(map(NUMBER.fullmatch, classes)):
        return [label for label in found if label not in classes]
    missing = [label for label in found if label.lower() in _NEVER_CLASSES]
    return missing if sum(found[label] for label in missing) <= _MOST_MISSING * found.total() else []
