"""One encoder pass for several computations on the same batch: loss, prediction and class probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

_METHODS = ("encode", "features")
"""Methods of a structure that map an input to hidden states, deterministically in evaluation mode."""
_LOCKS: WeakKeyDictionary[nn.Module, AbstractContextManager[Any]] = WeakKeyDictionary()
"""A lock for each model: within the context its methods are replaced, which other threads must not see."""


@contextmanager
def shared_encoding(model: nn.Module) -> Iterator[None]:
    """Within the context, ``model.encode(x)`` and ``model.features(x)`` run once for each input object ``x``.

    Use it around one batch, in evaluation mode and without gradient: the hidden states of the batch stay in memory until the
    context ends. In training mode, where dropout differs between two passes, it does nothing. Other threads that use it with the
    same model wait.

    Args:
        model: A structure in evaluation mode.

    Example:
        >>> class Encoder(nn.Module):
        ...     def encode(self, x):
        ...         print("encoding", x)
        ...         return x
        >>> model, x = Encoder().eval(), (1, 2)
        >>> with shared_encoding(model):
        ...     _ = model.encode(x), model.encode(x)
        encoding (1, 2)
    """
    with _LOCKS.setdefault(model, RLock()):
        names = [] if model.training else [name for name in _METHODS if callable(getattr(model, name, None))]
        before = {name: vars(model)[name] for name in names if name in vars(model)}
        for name in names:
            setattr(model, name, _once_per_input(getattr(model, name)))
        try:
            yield
        finally:
            for name in names:
                delattr(model, name)
                if name in before:
                    setattr(model, name, before[name])


def _once_per_input(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Cache the results of a method by the identity of its input; the cache keeps the inputs alive, so no id is reused."""
    seen: dict[int, tuple[Any, Any]] = {}

    def cached(x: Any, *args: Any, **options: Any) -> Any:
        if args or options:
            return method(x, *args, **options)
        if id(x) not in seen:
            seen[id(x)] = (x, method(x))
        return seen[id(x)][1]

    return cached
