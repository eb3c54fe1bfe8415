"""Noising functions of BART. T tokens, F of them ordinary (not reserved)."""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Corrupted, Noise
from weft.core.fields import TextField
from weft.core.options import Fraction, Positive
from weft.core.registry import Build, block
from weft.objectives.masking import split_at
from weft.objectives.noise.selection import check_mask, noise_budget, ordinary_positions, select_tokens


@block("token-deletion")
class TokenDeletion(Noise):
    """Delete tokens; the target is the full text.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Args:
        ratio: Fraction of the tokens.

    Example:
        >>> corrupted = TokenDeletion().corrupt(np.arange(7, 27), np.random.default_rng(0), TextField("text", 30))
        >>> len(corrupted.source), len(corrupted.target)
        (17, 20)
    """

    restores = True

    def __init__(self, *, ratio: Fraction = 0.15):
        super().__init__()
        self.ratio = ratio

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        return Corrupted(ids[~select_tokens(ids, self.ratio, rng, field)], ids)


@block("text-infilling")
class TextInfilling(Noise):
    """Text infilling: replace each span by a single mask token; the target is the full text.

    Span lengths are Poisson(mean_length); spans are sampled until round(ratio F) tokens are replaced, and the last one is
    shortened to that. A span of length 0 inserts a mask token; after F of those, lengths are at least 1. A reserved id inside a
    span is kept, between two masks.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Args:
        ratio: Fraction of the tokens that are replaced.
        mean_length: Mean of the Poisson distribution of span lengths.

    Example:
        >>> corrupted = TextInfilling().corrupt(np.arange(7, 27), np.random.default_rng(0), TextField("text", 30))
        >>> int((corrupted.source != 4).sum()), len(corrupted.target)
        (14, 20)
    """

    restores = True

    def __init__(self, *, ratio: Fraction = 0.3, mean_length: Positive = 3.0):
        super().__init__()
        self.ratio, self.mean_length = ratio, mean_length

    def check(self, field: TextField) -> None:
        check_mask(field)

    def _lengths(self, tokens: int, rng: np.random.Generator) -> list[int]:
        """Lengths of the spans in a text with ``tokens`` ordinary tokens."""
        left, empty = noise_budget(self.ratio, tokens) if tokens > 1 else 0, tokens
        lengths: list[int] = []
        while left:
            lengths.append(min(max(int(rng.poisson(self.mean_length)), 0 if empty else 1), left))
            left -= lengths[-1]
            empty -= not lengths[-1]
        return lengths

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        free = ordinary_positions(ids, field)
        lengths = self._lengths(len(free), rng)
        # the spans and the kept tokens in a random order: no two spans can overlap, however long they are
        kept = len(free) - sum(lengths)
        order = rng.permutation(kept + len(lengths))
        source: list[np.ndarray] = []
        done, at, mask = 0, 0, np.array([field.special.mask])
        span_at = {int(slot): number for number, slot in enumerate(np.flatnonzero(order < len(lengths)))}
        for slot in range(kept + len(lengths)):
            if slot not in span_at:  # a kept token, with the reserved ids before it
                source.append(ids[at : free[done] + 1])
                done, at = done + 1, free[done] + 1
                continue
            length = lengths[span_at[slot]]
            source += [mask] if not length else []
            for number, replaced in enumerate(free[done : done + length]):
                if replaced > at or not number:
                    source += [ids[at:replaced], mask]
                at = replaced + 1
            done += length
        return Corrupted(np.concatenate([*source, ids[at:]]), ids)


@block("sentence-permutation")
class SentencePermutation(Noise):
    """Shuffle the sentences; the target is the original text.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Example:
        >>> field = TextField("text", 30, sentence_ends=(9,))
        >>> corrupted = SentencePermutation().corrupt(np.array([7, 9, 8, 9]), np.random.default_rng(1), field)
        >>> sorted(corrupted.source.tolist()), corrupted.target.tolist()
        ([7, 8, 9, 9], [7, 9, 8, 9])
    """

    restores = True

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        sentences = split_at(ids, np.flatnonzero(np.isin(ids[:-1], field.sentence_ends)) + 1)
        return Corrupted(np.concatenate([sentences[i] for i in rng.permutation(len(sentences))]), ids)


@block("document-rotation")
class DocumentRotation(Noise):
    """Rotate the text so that it starts at a random token; the target is the original text.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Example:
        >>> corrupted = DocumentRotation().corrupt(np.arange(7, 12), np.random.default_rng(0), TextField("text", 30))
        >>> sorted(corrupted.source.tolist()) == corrupted.target.tolist()
        True
    """

    restores = True

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        return Corrupted(np.roll(ids, -int(rng.integers(len(ids)))), ids)


BART_NOISE: list[Build[Noise]] = [SentencePermutation, TextInfilling]


@block("chain")
class NoiseChain(Noise):
    """Apply several noising functions in sequence; the target is the full text.

    The default is the noise of the published BART models: sentence permutation, then text infilling.

    Lewis et al. 2020 (BART), section 3, https://arxiv.org/abs/1910.13461

    Args:
        parts: The noising functions in order; each must have the full text as its target.

    Example:
        >>> corrupted = NoiseChain().corrupt(np.arange(7, 27), np.random.default_rng(0), TextField("text", 30))
        >>> len(corrupted.target)
        20
    """

    restores = True

    def __init__(self, *, parts: list[Build[Noise]] = BART_NOISE):
        super().__init__()
        self.parts = [part() for part in parts]
        for part in self.parts:
            if not part.restores:
                raise ValueError(
                    f"{type(part).__name__} cannot be chained: its target is not the full text; "
                    "use noises such as token-masking, token-deletion, text-infilling, sentence-permutation, document-rotation"
                )

    def check(self, field: TextField) -> None:
        for part in self.parts:
            part.check(field)

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: TextField) -> Corrupted:
        source = ids
        for part in self.parts:
            source = part.corrupt(source, rng, field).source if len(source) > 1 else source
        return Corrupted(source, ids)
