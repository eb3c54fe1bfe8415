"""Rows of a table by their numbers. Suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor


def lookup(table_VD: Tensor, id_BT: Tensor, wrong: Callable[[int, int, int], str]) -> Tensor:
    """B x T x D: the rows of these numbers.

    Nothing is looked at before the lookup has failed, which costs nothing where all is well. Graphics cards do not raise but
    stop; there, and in compiled code, whoever asks gets the device's own message.

    Args:
        table_VD: V rows.
        id_BT: Numbers from 0 to V - 1.
        wrong: Makes the message of the ValueError from the first number that is not, its row and its position.

    >>> import torch
    >>> look_up(torch.eye(3), torch.tensor([[0, 9]]), lambda number, row, position: f"{number} in row {row} at {position}")
    Traceback (most recent call last):
    ValueError: 9 in row 0 at 1
    """
    try:
        return F.embedding(id_BT, table_VD)
    except IndexError:
        outside = ((id_BT < 0) | (id_BT >= len(table_VD))).nonzero()
        if not len(outside):
            raise
        row, position = outside[0, :2].tolist()
        raise ValueError(wrong(int(id_BT[tuple(outside[0])]), row, position)) from None
