"""The inference engine: from requests to answers, in the order of the requests, with bounded memory.

requests -> windows -> examples (tokenized together) -> batches of similar length under a token budget -> answers

Every command and every method that asks a trained model something goes through ``answers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from weft.blocks.prepared import PreparedWeights, prepared_for
from weft.core.batch import Instance
from weft.core.example import MarkedIds, Sequences, Value

BATCH_SIZE = 64
"""Maximum number of requests per batch."""
MAX_BATCH_TOKENS = 4096
"""Token budget of a batch of an encoder, padding included."""
MAX_DECODER_TOKENS = 16_384
"""Token budget of a batch that is decoded, padding included: a step decodes one token per row, so it needs many rows."""
TOKENS_PER_THREAD = 256
"""Token budget of a batch of an encoder per CPU thread, for at least two threads: small batches have less padding and stay in the
caches, but products of few rows are slower."""
MAX_WINDOW_BATCHES = 16
"""Number of full batches in the largest window."""
MAX_WINDOW_CHARACTERS = 1 << 22
"""Characters of the texts of a window, above which it ends: requests may be long."""

Request = TypeVar("Request")
Encoded = TypeVar("Encoded")
Answer = TypeVar("Answer")


def answers(
    requests: Iterable[Request],
    encode: Callable[[list[Request], int], Sequence[Encoded | ValueError]],
    compute: Callable[[list[Encoded], list[int]], Iterable[Answer]],
    *,
    length: Callable[[Encoded], int],
    model: nn.Module | None = None,
    max_rows: int = BATCH_SIZE,
    max_tokens: int = MAX_BATCH_TOKENS,
) -> Iterator[Answer]:
    """Yield the answer to each request, in order.

    Requests are read in windows. The examples of a window are sorted by length and computed in batches of at most ``max_rows``
    rows and ``max_tokens`` padded tokens. The first window is one batch, so that the first answers come early; the following
    ones grow. With ``max_rows`` 1 each request is answered before the next one is read.

    Args:
        requests: The requests.
        encode: Maps the requests of a window, and the number of the first one (from 0), to an example each. In place of an
            example, the error of a request that cannot be encoded: it is raised after the answers to the requests before it.
        compute: Maps the examples of a batch, and the numbers of their requests, to an answer each. It runs in inference mode.
        length: The number of tokens of an example.
        model: The model that ``compute`` calls, whose prepared weights are kept for the next call; None = they are not kept.
        max_rows: Maximum number of requests per batch.
        max_tokens: Maximum number of tokens per batch, padding included; an example with more is a batch of its own.
    """
    first = 0
    weights = PreparedWeights() if model is None else prepared_for(model)
    for window in windows(requests, max_rows):
        encoded, error = _until_error(encode(window, first))
        found: list[Any] = [None] * len(encoded)
        for rows in length_buckets([length(one) for one in encoded], max_rows, max_tokens):
            with torch.inference_mode(), weights.active():
                computed = compute([encoded[row] for row in rows], [first + row for row in rows])
                for row, answer in zip(rows, computed, strict=True):
                    found[row] = answer
        yield from found
        if error is not None:
            raise error
        first += len(window)


def windows(requests: Iterable[Request], max_rows: int = BATCH_SIZE) -> Iterator[list[Request]]:
    """Yield the requests in windows: ``max_rows`` of them, then twice as many each time, up to ``MAX_WINDOW_BATCHES`` batches.

    Example:
        >>> [len(window) for window in windows(range(10), 2)]
        [2, 4, 4]
    """
    size = max_rows
    window: list[Request] = []
    characters = 0
    for request in requests:
        window.append(request)
        characters += _characters(request)
        if len(window) == size or characters > MAX_WINDOW_CHARACTERS:
            yield window
            window, characters = [], 0
            size = min(2 * size, MAX_WINDOW_BATCHES * max_rows) if max_rows > 1 else 1
    if window:
        yield window


def length_buckets(lengths: Sequence[int], max_rows: int, max_tokens: int) -> Iterator[list[int]]:
    """Yield batches of the indices of lengths, longest first: at most ``max_rows`` and, padded to the longest, ``max_tokens``.

    Example:
        >>> list(length_buckets([3, 9, 4, 4], max_rows=64, max_tokens=10))
        [[1], [2, 3], [0]]
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        size = max(1, min(max_rows, max_tokens // max(1, lengths[order[start]])))
        yield order[start : start + size]
        start += size


def encoder_budget(device: torch.device) -> int:
    """Return the token budget of a batch of an encoder on a device."""
    if device.type != "cpu":
        return MAX_BATCH_TOKENS
    return min(MAX_BATCH_TOKENS, TOKENS_PER_THREAD * max(2, torch.get_num_threads()))


def instance_length(instance: Instance | None) -> int:
    """Return the number of tokens of an instance: of all its sequences; an image counts as its longer side. Of None it is 0.

    Example:
        >>> instance_length(Instance(source=np.array([5, 6, 7]), label=1))
        3
    """
    return 0 if instance is None else sum(map(_value_length, instance.values()))


def _value_length(value: Any) -> int:
    if isinstance(value, Instance):
        return instance_length(value)
    if isinstance(value, Value):
        return value.tokens
    if isinstance(value, Sequences):  # padded to the longest
        return max((len(part) for part in value.parts), default=0) * len(value)
    if isinstance(value, MarkedIds):
        return len(value)
    if isinstance(value, np.ndarray):
        return max(value.shape[-2:]) if value.ndim == 3 else len(value) if value.dtype.kind in "iu" else 0
    return 0


def _until_error(encoded: Sequence[Any]) -> tuple[list[Any], ValueError | None]:
    """The examples before the first error, and that error."""
    found: list[Any] = []
    for one in encoded:
        if isinstance(one, ValueError):
            return found, one
        found.append(one)
    return found, None


def _characters(request: Any) -> int:
    """The length of the texts of a request."""
    if isinstance(request, str):
        return len(request)
    values = request.values() if isinstance(request, dict) else request if isinstance(request, tuple | list) else ()
    return sum(map(_characters, values))
