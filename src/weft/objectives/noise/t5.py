"""Noising functions of T5's comparison of pretraining objectives. T tokens, F of them ordinary (not reserved)."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Corrupted, Noise
from weft.core.fields import TextField
from weft.core.options import Fraction, Positive
from weft.core.registry import block
from weft.objectives.masking import runs_of
from weft.objectives.noise.selection import (
    check_mask,
    check_sentinels,
    noise_budget,
    ordinary_positions,
    replace_with_sentinels,
    select_tokens,
)


@block("prefix")
class PrefixNoise(Noise):
    """Split the text at a random position: the first part is the source, the second the target.

    Raffel et al. 2020 (T5), table 3, https://arxiv.org/abs/1910.10683

    Example:
        >>> corrupted = PrefixNoise().corrupt(np.arange(7, 17), np.random.default_rng(0), TextField("text", 30))
        >>> np.concatenate([corrupted.source, corrupted.target]).tolist() == list(range(7, 17))
        True
    """

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        split = int(rng.integers(1, len(ids)))
        return Corrupted(ids[:split], ids[split:])


@block("token-masking")
class TokenMaskingNoise(Noise):
    """Replace tokens by the mask token or by random tokens; the target is the full text.

    The "BERT-style" objective of T5 with ``random_ratio`` 0.1, "MASS-style" with 0, and BART's token masking.

    Raffel et al. 2020 (T5), table 3; Song et al. 2019 (MASS), https://arxiv.org/abs/1905.02450; Lewis et al. 2020 (BART)

    Args:
        ratio: Fraction of the tokens.
        random_ratio: Fraction of these that become a random token instead of the mask token.

    Example:
        >>> corrupted = TokenMaskingNoise().corrupt(np.arange(7, 27), np.random.default_rng(0), TextField("text", 30))
        >>> int((corrupted.source == 4).sum()), corrupted.target.tolist() == list(range(7, 27))
        (3, True)
    """

    restores = True

    def __init__(self, *, ratio: Fraction = 0.15, random_ratio: Fraction = 0.0):
        super().__init__()
        self.ratio, self.random_ratio = ratio, random_ratio

    def check(self, field: TextField) -> None:
        if self.random_ratio < 1:
            check_mask(field)

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        chosen = np.flatnonzero(select_tokens(ids, self.ratio, rng, field))
        source = ids.copy()
        source[chosen] = field.special.mask
        replaced = chosen[rng.random(len(chosen)) < self.random_ratio]
        source[replaced] = field.ordinary_ids()[rng.integers(len(field.ordinary_ids()), size=len(replaced))]
        return Corrupted(source, ids)


@block("deshuffling")
class Deshuffling(Noise):
    """Shuffle the tokens; the target is the original text.

    Raffel et al. 2020 (T5), table 3, https://arxiv.org/abs/1910.10683

    Example:
        >>> corrupted = Deshuffling().corrupt(np.arange(7, 17), np.random.default_rng(0), TextField("text", 30))
        >>> sorted(corrupted.source.tolist()) == corrupted.target.tolist()
        True
    """

    restores = True

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        return Corrupted(rng.permutation(ids), ids)


@block("replace-spans")
class ReplaceSpans(Noise):
    """Replace each run of sampled tokens by a sentinel; the target is the sentinels, each followed by its tokens.

    "Thank you for inviting me to your party last week ." -> "Thank you <X> me to your party <Y> week ." and
    "<X> for inviting <Y> last <Z>"

    Raffel et al. 2020 (T5), table 3 (i.i.d. noise, replace spans)

    Args:
        ratio: Fraction of the tokens.

    Example:
        >>> field = TextField("text", 40, sentinel_count=10)
        >>> corrupted = ReplaceSpans().corrupt(np.arange(7, 27), np.random.default_rng(0), field)
        >>> len(corrupted.source) + len(corrupted.target) - 20 - 2 * int((corrupted.source >= 30).sum())
        1
    """

    def __init__(self, *, ratio: Fraction = 0.15):
        super().__init__()
        self.ratio = ratio

    def check(self, field: TextField) -> None:
        # at worst each sampled token is a run of its own, and at least one token separates two runs
        check_sentinels(field, min(noise_budget(self.ratio, max(2, field.max_length)), (field.max_length + 1) // 2))

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        return replace_with_sentinels(select_tokens(ids, self.ratio, rng, field), ids, field)


@block("drop-tokens")
class DropTokens(Noise):
    """Drop tokens; the target is the dropped tokens.

    Raffel et al. 2020 (T5), table 3 (i.i.d. noise, drop tokens)

    Args:
        ratio: Fraction of the tokens.

    Example:
        >>> corrupted = DropTokens().corrupt(np.arange(7, 27), np.random.default_rng(0), TextField("text", 30))
        >>> len(corrupted.source), len(corrupted.target)
        (17, 3)
    """

    def __init__(self, *, ratio: Fraction = 0.15):
        super().__init__()
        self.ratio = ratio

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        noise_T = select_tokens(ids, self.ratio, rng, field)
        return Corrupted(ids[~noise_T], ids[noise_T])


@block("random-spans")
class RandomSpans(Noise):
    """Span corruption: replace random spans by sentinels; the target is the sentinels, each followed by its tokens.

    n = round(ratio F) noise tokens in s = max(1, round(n / mean_length)) spans. n is partitioned at random into s parts and F - n
    into s + 1, the last of which may be empty; kept and noise parts alternate, starting with a kept one. (In the published code
    every text ends with a span, so the only span of a short text would always be its end.) A reserved id inside a span is kept
    and splits the span; it is dropped with the span only where there would be too few sentinels.

    Raffel et al. 2020 (T5), section 3.3.4, https://arxiv.org/abs/1910.10683

    Args:
        ratio: Fraction of the tokens.
        mean_length: Mean length of a span in tokens.

    Example:
        >>> field = TextField("text", 60, sentinel_count=10)
        >>> corrupted = RandomSpans().corrupt(np.arange(7, 47), np.random.default_rng(0), field)
        >>> int((corrupted.source >= 50).sum()), len(corrupted.target)
        (2, 9)
    """

    def __init__(self, *, ratio: Fraction = 0.15, mean_length: Positive = 3.0):
        super().__init__()
        self.ratio, self.mean_length = ratio, mean_length

    def check(self, field: TextField) -> None:
        check_sentinels(field, self._spans(max(2, field.max_length)))

    def _spans(self, length: int) -> int:
        noise = noise_budget(self.ratio, length)
        return min(max(1, round(noise / self.mean_length)), noise, length - noise)

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        free, span_T, noise_T = ordinary_positions(ids, field), np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        if len(free) > 1:
            noise, spans = noise_budget(self.ratio, len(free)), self._spans(len(free))
            kept = random_partition(len(free) - noise + 1, spans + 1, rng) - np.eye(spans + 1, dtype=int)[-1]
            lengths = np.append(np.stack([kept[:-1], random_partition(noise, spans, rng)], 1).ravel(), kept[-1])
            noise_F = np.repeat(np.arange(2 * spans + 1) % 2 == 1, lengths)
            noise_T[free] = noise_F
            for run in runs_of(noise_F):
                span_T[free[run[0]] : free[run[-1]] + 1] = True
        return replace_with_sentinels(noise_T if len(runs_of(noise_T)) < field.sentinel_count else span_T, ids, field)


def random_partition(total: int, parts: int, rng: np.random.Generator) -> np.ndarray:
    """``total`` as a sum of ``parts`` positive integers, sampled uniformly."""
    cuts = np.sort(rng.permutation(total - 1)[: parts - 1] + 1)
    return np.diff(np.concatenate([[0], cuts, [total]]))
