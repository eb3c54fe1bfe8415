"""The compiled normalization rules of SentencePiece (``precompiled_charsmap``)."""

from __future__ import annotations

import numpy as np

MAX_BYTES = 4 << 20
"""Largest set of rules; that of NFKC has 0.3 MB."""
MAX_REPLACEMENT = 256
"""Longest text that a rule writes, in bytes; that of NFKC has 33."""
_CHUNK = 4096


def check_charsmap(charsmap: bytes) -> None:
    """Raise ValueError unless everything that is reachable exists; else the library would crash.

    The format is a trie as a double array of 4-byte units, preceded by its length, and the null-terminated texts that its leaves
    point to. Yata et al. 2007, https://doi.org/10.1016/j.ipm.2006.04.004; the units: https://github.com/s-yata/darts-clone
    """
    if len(charsmap) > MAX_BYTES:
        raise ValueError(f"the precompiled_charsmap has {len(charsmap):,} bytes; at most {MAX_BYTES:,} are allowed")
    if not _is_complete(charsmap):
        raise ValueError("damaged: its precompiled_charsmap is incomplete")
    longest = max(map(len, charsmap[4 + int.from_bytes(charsmap[:4], "little") :].split(b"\0")))
    if longest > MAX_REPLACEMENT:
        raise ValueError(f"the precompiled_charsmap writes texts of {longest:,} bytes; at most {MAX_REPLACEMENT} are allowed")


def _is_complete(charsmap: bytes) -> bool:
    size = int.from_bytes(charsmap[:4], "little")
    if size < 4 or size % 4 or 4 + size >= len(charsmap) or charsmap[-1]:
        return False
    try:
        charsmap[4 + size :].decode("utf-8")
    except UnicodeDecodeError:
        return False
    unit_U = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    text = np.frombuffer(charsmap, np.uint8, offset=4 + size)
    below_U = np.arange(len(unit_U)) ^ ((unit_U >> 10) << ((unit_U & 0x200) >> 6))
    seen_U = np.zeros(len(unit_U), bool)
    waiting = [np.zeros(1, np.int64)]
    while waiting:
        at_N = waiting.pop()
        at_N = at_N[~seen_U[at_N]]
        if not len(at_N):
            continue
        seen_U[at_N] = True
        if (below_U[at_N] | 0xFF).max() >= len(unit_U):
            return False
        leaf_N = unit_U[below_U[at_N[(unit_U[at_N] & 0x100) > 0]]] & 0x7FFFFFFF
        if len(leaf_N) and (leaf_N.max() >= len(text) or (text[leaf_N] & 0xC0 == 0x80).any()):
            return False
        next_NC = below_U[at_N][:, None] ^ np.arange(1, 256)
        found_N = np.unique(next_NC[unit_U[next_NC] & 0x800000FF == np.arange(1, 256)])
        waiting += np.array_split(found_N, -(-len(found_N) // _CHUNK)) if len(found_N) else []
    return True
