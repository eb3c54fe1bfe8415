"""Embedding lookup with informative errors. Shape suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor


def lookup(table_VD: Tensor, id_BT: Tensor, message: Callable[[int, int, int], str]) -> Tensor:
    """B x T x D: embeddings of the ids; raises ValueError for the first id that is out of range.

    Ids are inspected only after the lookup has failed, so valid ids cost nothing. On a GPU and in compiled code, the error of the
    device or compiler is raised instead.

    Args:
        table_VD: Embedding matrix.
        id_BT: Ids from 0 to V - 1.
        message: Called with the first invalid id, its row and its position; returns the message of the error.

    Example:
        >>> import torch
        >>> lookup(torch.eye(3), torch.tensor([[0, 9]]), lambda index, row, position: f"id {index} in row {row} at {position}")
        Traceback (most recent call last):
        ValueError: id 9 in row 0 at 1
    """
    try:
        return F.embedding(id_BT, table_VD)
    except IndexError:
        invalid = ((id_BT < 0) | (id_BT >= len(table_VD))).nonzero()
        if not len(invalid):
            raise
        row, position = invalid[0, :2].tolist()
        raise ValueError(message(int(id_BT[tuple(invalid[0])]), row, position)) from None
