"""Hold-out validation by hash: rows whose text hashes below a threshold, so that equal texts stay in one split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


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
