"""Which rows are held out for validation: those whose text hashes low, so that equal texts stay together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def below(hashes: Sequence[bytes], share: float) -> int | None:
    """The hash below which a share of the rows lies, at least one and not all; None = all would. Equal texts have one hash."""
    different, sizes = np.unique(np.frombuffer(b"".join(hashes), ">u8"), return_counts=True)
    wanted = max(1, round(share * len(hashes)))
    held = max(1, int(np.searchsorted(np.cumsum(sizes), wanted, side="right")))
    return int(different[held]) if held < len(different) else None


def share_for_all(rows: Sequence[tuple[bytes, str]], share: float) -> float | None:
    """The share next to this one that would leave rows of every class on both sides; None = there is none.

    Args:
        rows: The hash and the class of each.
        share: What is held out.
    """
    hashes, classes = [where for where, _ in rows], {label for _, label in rows}
    for other in sorted(_SHARES, key=lambda other: abs(other - share)):
        edge = below(hashes, other)
        sides = {(label, int.from_bytes(where) < edge) for where, label in rows} if edge is not None else set()
        if len(sides) == 2 * len(classes):
            return other
    return None
