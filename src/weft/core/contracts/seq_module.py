"""The type check at the entry of every block that takes a ``Seq``."""

from __future__ import annotations

from typing import Any

from torch import nn

from weft.core.seq import Seq


class SeqModule(nn.Module):
    """A module whose ``forward`` takes a ``Seq`` first. Calling it with anything else raises TypeError.

    The check is in ``__call__``, not in a hook, which would disable the fast path of ``nn.Module``. Models call their embedder
    first, so they are covered too.

    Example:
        >>> import torch
        >>> class Double(SeqModule):
        ...     def forward(self, x: Seq) -> Seq:
        ...         return x.with_data(2 * x.data)
        >>> Double()(torch.ones(1, 2))
        Traceback (most recent call last):
        TypeError: Double expected a weft Seq, got Tensor; wrap it: Seq(x)
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and not isinstance(args[0], Seq):
            kind = type(args[0]).__name__
            raise TypeError(f"{type(self).__name__} expected a weft Seq, got {kind}; wrap it: Seq(x)")
        return super().__call__(*args, **kwargs)
