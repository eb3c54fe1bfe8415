"""Hold-out validation and k-fold cross-validation: which training rows are held out.

Rows are held out in *units*, which are never divided: rows with equal texts, or with the same value in a group column. A unit is
represented by a 64-bit hash, so the split depends neither on the order of the rows nor on that of the files.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
_HASHES = 2**64


@dataclass(frozen=True)
class HoldOut:
    """How validation rows are selected from the training rows.

    Args:
        fraction: Fraction of the rows, where ``fold`` is None.
        stratify: Whether every class has its share of the validation rows.
        group: Column whose values are not divided between training and validation; None = equal texts are not.
        fold: The fold that is held out; None = a fraction.
        folds: Number of folds.
        split_seed: Another seed is another split.
    """

    fraction: float
    stratify: bool = False
    group: str | None = None
    fold: int | None = None
    folds: int = 5
    split_seed: int = 0

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ValueError(f"folds is {self.folds}; at least 2 are needed")
        if self.fold is not None and self.fold >= self.folds:
            raise ValueError(f"fold {self.fold} does not exist: the {self.folds} folds are 0 to {self.folds - 1}")

    @property
    def is_plain(self) -> bool:
        """Whether a fraction of all rows is held out, whatever their classes and groups."""
        return self.fold is None and not self.stratify and self.group is None


@dataclass(frozen=True)
class HeldOut:
    """The units that are held out: those whose hashes are in an interval, or in a list.

    Args:
        low: First hash of the interval.
        high: End of the interval, exclusive.
        units: The hashes of further units in increasing order, 8 bytes each, in Base64.
    """

    low: int = 0
    high: int = 0
    units: str = ""

    @cached_property
    def _hashes(self) -> np.ndarray:
        return np.frombuffer(base64.b64decode(self.units), ">u8").astype(np.uint64)

    def __contains__(self, unit: int) -> bool:
        if self.low <= unit < self.high:
            return True
        if not self.units:
            return False
        at = int(np.searchsorted(self._hashes, np.uint64(unit)))
        return at < len(self._hashes) and int(self._hashes[at]) == unit


def hold_out_hashes(spec: HoldOut) -> HeldOut:
    """Return the units that are held out where there are too many to count them: a range of hashes, exact in expectation."""
    if spec.fold is None:
        return HeldOut(high=min(int(spec.fraction * _HASHES), _HASHES - 1))
    return HeldOut(_HASHES * spec.fold // spec.folds, _HASHES * (spec.fold + 1) // spec.folds)


def hold_out_units(spec: HoldOut, hashes: Sequence[bytes], classes: Sequence[str]) -> HeldOut | None:
    """Return the units that are held out: at least one, never all; None if that is impossible.

    Args:
        spec: What to hold out.
        hashes: 8-byte hash of each row's unit.
        classes: Class of each row; empty unless ``spec.stratify``.
    """
    if spec.is_plain:
        threshold = hash_threshold(hashes, spec.fraction)
        return None if threshold is None else HeldOut(high=threshold)
    shares = [spec.fraction, 1 - spec.fraction] if spec.fold is None else [1 / spec.folds] * spec.folds
    units, parts = assign_parts(np.frombuffer(b"".join(hashes), ">u8").astype(np.uint64), classes, shares)
    if len(set(parts.tolist())) < len(shares):
        return None
    held = units[parts == (spec.fold or 0)]
    return HeldOut(units=base64.b64encode(held.astype(">u8").tobytes()).decode())


def assign_parts(hashes: np.ndarray, classes: Sequence[str], shares: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Divide units into parts such that every part has its share of each class.

    Units are assigned one by one, the largest first, to the part that lacks most of their rows, relative to the size of their
    classes. The numbers of rows of a class in two parts with equal shares differ by at most the size of the largest unit: by one
    where every unit is a row. Units of several classes (groups) are balanced as far as they allow. As in the stratified group
    k-fold of scikit-learn, with ties in the order of the hashes.

    Args:
        hashes: Hash of each row's unit.
        classes: Class of each row; empty = one class.
        shares: The fraction of the rows for each part.

    Returns:
        The hash of each unit in increasing order, and its part.
    """
    units, unit_N = np.unique(hashes, return_inverse=True)
    _, class_N = np.unique(np.array(classes), return_inverse=True) if classes else (None, np.zeros(len(hashes), np.int64))
    totals, sizes = np.bincount(class_N), np.bincount(unit_N)
    pairs, counts = np.unique(unit_N * len(totals) + class_N, return_counts=True)
    rows: list[list[tuple[int, int]]] = [[] for _ in units]
    for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
        rows[pair // len(totals)].append((pair % len(totals), count))
    total_C = totals.tolist()
    excess_PC = [[-share * total for total in total_C] for share in shares]
    excess_P = [-share * len(hashes) for share in shares]
    numbers, parts = range(len(shares)), np.zeros(len(units), np.int64)
    for unit in np.lexsort((units, -sizes)).tolist():
        found = rows[unit]

        def cost(part: int, found: list[tuple[int, int]] = found) -> tuple[float, float]:
            own = excess_PC[part]
            return sum(count * own[c] / total_C[c] ** 2 for c, count in found), excess_P[part]

        best = min(numbers, key=cost)
        parts[unit] = best
        for c, count in found:
            excess_PC[best][c] += count
            excess_P[best] += count
    return units, parts


def hash_threshold(hashes: Sequence[bytes], fraction: float) -> int | None:
    """Return the hash below which a fraction of the rows lies: at least one row, never all; None if impossible.

    Args:
        hashes: 8-byte hash of each row; equal texts have equal hashes.
        fraction: Fraction of rows to hold out.
    """
    distinct, sizes = np.unique(np.frombuffer(b"".join(hashes), ">u8"), return_counts=True)
    wanted = max(1, round(fraction * len(hashes)))
    held = max(1, int(np.searchsorted(np.cumsum(sizes), wanted, side="right")))
    return int(distinct[held]) if held < len(distinct) else None


def fraction_for_all_classes(rows: Sequence[tuple[bytes, str]], fraction: float) -> float | None:
    """Return the fraction closest to this one that leaves every class in both splits; None if there is none.

    Args:
        rows: Hash and class of each row.
        fraction: The present fraction.
    """
    hashes, classes = [row_hash for row_hash, _ in rows], {label for _, label in rows}
    for candidate in sorted(_FRACTIONS, key=lambda candidate: abs(candidate - fraction)):
        threshold = hash_threshold(hashes, candidate)
        sides = {(label, int.from_bytes(row_hash) < threshold) for row_hash, label in rows} if threshold is not None else set()
        if len(sides) == 2 * len(classes):
            return candidate
    return None
