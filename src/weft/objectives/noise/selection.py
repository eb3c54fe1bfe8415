"""What noising functions share: which tokens to corrupt, and sentinels. T tokens, F of them ordinary (not reserved)."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Corrupted
from weft.core.fields import TextField
from weft.objectives.masking import runs_of


def noise_budget(ratio: float, length: int) -> int:
    """Number of noise tokens among ``length``: round(ratio length), at least one, and fewer than all."""
    return min(max(1, round(ratio * length)), length - 1)


def ordinary_positions(ids: np.ndarray, field: TextField) -> np.ndarray:
    """F: positions of the tokens that may be corrupted: all but reserved ids."""
    return np.flatnonzero(~field.is_reserved()[ids])


def select_tokens(ids: np.ndarray, ratio: float, rng: np.random.Generator, field: TextField) -> np.ndarray:
    """T: True at a uniformly sampled fraction of the ordinary tokens; all False if there are fewer than two."""
    free = ordinary_positions(ids, field)
    noise_T = np.zeros(len(ids), bool)
    if len(free) > 1:
        noise_T[free[rng.permutation(len(free))[: noise_budget(ratio, len(free))]]] = True
    return noise_T


def check_mask(field: TextField) -> None:
    """Raise ValueError if the vocabulary has no mask token."""
    if field.special.mask < 0:
        raise ValueError(
            f"this noise masks tokens, but the vocabulary of {field.name!r} has no mask token; "
            "use another noise, or a tokenizer with a mask token"
        )


def check_sentinels(field: TextField, spans: int) -> None:
    """Raise ValueError if the vocabulary has too few sentinels for ``spans`` spans, the most that the longest text can have."""
    if field.sentinel_count < spans + 1:
        raise ValueError(
            f"texts of up to {field.max_length} tokens can have {spans} spans, which need {spans + 1} sentinels, but the "
            f"vocabulary of {field.name!r} has {field.sentinel_count}; use the tokenizer with-sentinels (count: {spans + 1}), "
            "a smaller max_length of the data, or another noise"
        )


def replace_with_sentinels(noise_T: np.ndarray, ids: np.ndarray, field: TextField) -> Corrupted:
    """Replace each run of noise tokens by a sentinel; the target is each sentinel followed by its tokens, and a final sentinel.

    Sentinels are the last ids of the vocabulary, in descending order.
    """
    runs = runs_of(noise_T)
    if len(runs) + 1 > field.sentinel_count:
        raise ValueError(
            f"{len(runs)} spans need {len(runs) + 1} sentinels, but the vocabulary of {field.name!r} has {field.sentinel_count}; "
            "use the tokenizer with-sentinels with a larger count, or shorter texts"
        )
    source: list[np.ndarray] = []
    target: list[np.ndarray] = []
    done = 0
    for number, run in enumerate(runs):
        sentinel = np.array([field.vocab - 1 - number])
        source += [ids[done : run[0]], sentinel]
        target += [sentinel, ids[run]]
        done = run[-1] + 1
    return Corrupted(np.concatenate([*source, ids[done:]]), np.concatenate([*target, [field.vocab - 1 - len(runs)]]))
