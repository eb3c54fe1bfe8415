"""What is done to a text that is to be restored. T tokens.

Each noise makes a source and a target of a text. Those of BART and some of T5 have the text itself as the target, so that they
can be done one after another; T5's others say only what is missing. Reserved ids that stand in a text (unknown tokens, masks) are
never chosen: shares are of the F other tokens. Noises that only cut or move a text (prefix, deshuffling, sentence-permutation,
document-rotation) hide nothing, and move them too.
"""

from __future__ import annotations

import numpy as np

from weft.core.contracts import Corrupted, Noise
from weft.core.fields import Field
from weft.core.options import Fraction, Positive
from weft.core.registry import Build, block
from weft.objectives.masking import cut, runs_of


def budget_of(share: float, length: int) -> int:
    """How many of ``length`` tokens are noise: round(share length), at least one, and not all."""
    return min(max(1, round(share * length)), length - 1)


def ordinary_places(ids: np.ndarray, field: Field) -> np.ndarray:
    """F: the places of a text that may be chosen."""
    return np.flatnonzero(~field.is_reserved()[ids])


def some(ids: np.ndarray, share: float, rng: np.random.Generator, field: Field) -> np.ndarray:
    """T: True at a share of the ordinary places, each as likely as any other; nowhere if there is only one."""
    free = ordinary_places(ids, field)
    noise_T = np.zeros(len(ids), bool)
    if len(free) > 1:
        noise_T[free[rng.permutation(len(free))[: budget_of(share, len(free))]]] = True
    return noise_T


def needs_mask(field: Field) -> None:
    """Raises ValueError where there is no id to put in the place of a token."""
    if field.special.mask < 0:
        raise ValueError(f"the vocabulary of {field.name!r} has no id for a mask: take another noise, or another tokenizer")


def needs_sentinels(field: Field, spans: int) -> None:
    """Raises ValueError where there are too few ids to put in the place of so many spans, which the longest text may have."""
    if field.sentinel_count < spans + 1:
        raise ValueError(
            f"texts of up to {field.max_length} tokens may have {spans} spans, which need {spans + 1} sentinels, but the "
            f"vocabulary of {field.name!r} has {field.sentinel_count} spare ids: use the tokenizer "
            f"with-sentinels (number: {spans + 1}), a smaller length of the data, or another noise"
        )


def sentinels(noise_T: np.ndarray, ids: np.ndarray, field: Field) -> Corrupted:
    """Each run of noise becomes a sentinel of its own; the target has each with what it stands for, and a last one.

    Sentinels are the spare ids of the vocabulary, from its end downwards.
    """
    runs = runs_of(noise_T)
    if len(runs) + 1 > field.sentinel_count:
        raise ValueError(
            f"{len(runs)} spans need {len(runs) + 1} sentinels, but the vocabulary has {field.sentinel_count} spare ids: "
            "take the tokenizer with-sentinels, or shorter texts"
        )
    source: list[np.ndarray] = []
    target: list[np.ndarray] = []
    done = 0
    for number, run in enumerate(runs):
        mark = np.array([field.vocab - 1 - number])
        source += [ids[done : run[0]], mark]
        target += [mark, ids[run]]
        done = run[-1] + 1
    return Corrupted(np.concatenate([*source, ids[done:]]), np.concatenate([*target, [field.vocab - 1 - len(runs)]]))


# ---------------------------------------------------------------------------------------------------------- T5's table


@block("prefix")
class PrefixNoise(Noise):
    """The text is cut at a random place: from the first part, the second is to be written.

    Raffel et al. 2020 (T5), table 3, https://arxiv.org/abs/1910.10683

    Example:
        >>> made = PrefixNoise().corrupt(np.arange(7, 17), np.random.default_rng(0), Field("text", 30))
        >>> np.concatenate([made.source, made.target]).tolist() == list(range(7, 17))
        True
    """

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        cut = int(rng.integers(1, len(ids)))
        return Corrupted(ids[:cut], ids[cut:])


@block("token-masking")
class TokenMasking(Noise):
    """Some tokens become the mask, or another token; the whole text is to be written.

    BERT-style in T5's table with other 0.1, MASS-style with other 0, and BART's token masking.

    Raffel et al. 2020 (T5), table 3; Song et al. 2019 (MASS), https://arxiv.org/abs/1905.02450; Lewis et al. 2020 (BART)

    Args:
        share: Of the tokens, how many.
        other: Of those, how many become another token instead of the mask.

    Example:
        >>> made = TokenMasking().corrupt(np.arange(7, 27), np.random.default_rng(0), Field("text", 30))
        >>> int((made.source == 4).sum()), made.target.tolist() == list(range(7, 27))
        (3, True)
    """

    restores = True

    def __init__(self, *, share: Fraction = 0.15, other: Fraction = 0.0):
        super().__init__()
        self.share, self.other = share, other

    def check(self, field: Field) -> None:
        if self.other < 1:
            needs_mask(field)

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        places = np.flatnonzero(some(ids, self.share, rng, field))
        source = ids.copy()
        source[places] = field.special.mask
        replaced = places[rng.random(len(places)) < self.other]
        source[replaced] = field.ordinary_ids()[rng.integers(len(field.ordinary_ids()), size=len(replaced))]
        return Corrupted(source, ids)


@block("deshuffling")
class Deshuffling(Noise):
    """The tokens are shuffled; the text is to be written in order.

    Raffel et al. 2020 (T5), table 3, https://arxiv.org/abs/1910.10683

    Example:
        >>> made = Deshuffling().corrupt(np.arange(7, 17), np.random.default_rng(0), Field("text", 30))
        >>> sorted(made.source.tolist()) == made.target.tolist()
        True
    """

    restores = True

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        return Corrupted(rng.permutation(ids), ids)


@block("replace-spans")
class ReplaceSpans(Noise):
    """Some tokens are left out, each run of them replaced by a sentinel; what the sentinels stand for is to be written.

    "Thank you for inviting me to your party last week ." -> "Thank you <X> me to your party <Y> week ." and
    "<X> for inviting <Y> last <Z>"

    Raffel et al. 2020 (T5), table 3 (i.i.d. noise, replace spans)

    Args:
        share: Of the tokens, how many.

    Example:
        >>> field = Field("text", 40, spare=10)
        >>> made = ReplaceSpans().corrupt(np.arange(7, 27), np.random.default_rng(0), field)
        >>> len(made.source) + len(made.target) - 20 - 2 * int((made.source >= 30).sum())
        1
    """

    def __init__(self, *, share: Fraction = 0.15):
        super().__init__()
        self.share = share

    def check(self, field: Field) -> None:
        # at most each chosen token is a run of its own, and between two runs there is a token
        needs_sentinels(field, min(budget_of(self.share, max(2, field.max_length)), (field.max_length + 1) // 2))

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        return sentinels(some(ids, self.share, rng, field), ids, field)


@block("drop-tokens")
class DropTokens(Noise):
    """Some tokens are left out without a trace; they are to be written.

    Raffel et al. 2020 (T5), table 3 (i.i.d. noise, drop tokens)

    Args:
        share: Of the tokens, how many.

    Example:
        >>> made = DropTokens().corrupt(np.arange(7, 27), np.random.default_rng(0), Field("text", 30))
        >>> len(made.source), len(made.target)
        (17, 3)
    """

    def __init__(self, *, share: Fraction = 0.15):
        super().__init__()
        self.share = share

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        noise_T = some(ids, self.share, rng, field)
        return Corrupted(ids[~noise_T], ids[noise_T])


@block("random-spans")
class RandomSpans(Noise):
    """Spans of a mean length are left out, each replaced by a sentinel; what the sentinels stand for is to be written.

    n = round(share F) noise tokens in s = max(1, round(n / mean)) spans: n is cut into s parts at random, F - n into s + 1 of
    which the last may be empty, and the parts alternate, beginning with what is kept. As published a text always ends with a
    span; then the one span of a short text would always be its end. A reserved id inside a span is kept and makes two spans of
    it; only where sentinels run out by that, it is left out with the span.

    Raffel et al. 2020 (T5), section 3.3.4, https://arxiv.org/abs/1910.10683

    Args:
        share: Of the tokens, how many.
        mean: Tokens of a span, on average.

    Example:
        >>> field = Field("text", 60, spare=10)
        >>> made = RandomSpans().corrupt(np.arange(7, 47), np.random.default_rng(0), field)
        >>> int((made.source >= 50).sum()), len(made.target)
        (2, 9)
    """

    def __init__(self, *, share: Fraction = 0.15, mean: Positive = 3.0):
        super().__init__()
        self.share, self.mean = share, mean

    def check(self, field: Field) -> None:
        needs_sentinels(field, self._spans(max(2, field.max_length)))

    def _spans(self, length: int) -> int:
        noise = budget_of(self.share, length)
        return min(max(1, round(noise / self.mean)), noise, length - noise)

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        free, whole_T, noise_T = ordinary_places(ids, field), np.zeros(len(ids), bool), np.zeros(len(ids), bool)
        if len(free) > 1:
            noise, spans = budget_of(self.share, len(free)), self._spans(len(free))
            kept = parts(len(free) - noise + 1, spans + 1, rng) - np.eye(spans + 1, dtype=int)[-1]
            lengths = np.append(np.stack([kept[:-1], parts(noise, spans, rng)], 1).ravel(), kept[-1])
            noise_F = np.repeat(np.arange(2 * spans + 1) % 2 == 1, lengths)
            noise_T[free] = noise_F
            for run in runs_of(noise_F):
                whole_T[free[run[0]] : free[run[-1]] + 1] = True
        return sentinels(noise_T if len(runs_of(noise_T)) < field.sentinel_count else whole_T, ids, field)


def parts(total: int, number: int, rng: np.random.Generator) -> np.ndarray:
    """``total`` as a sum of ``number`` positive numbers, each such sum as likely as any other."""
    cuts = np.sort(rng.permutation(total - 1)[: number - 1] + 1)
    return np.diff(np.concatenate([[0], cuts, [total]]))


# ------------------------------------------------------------------------------------------------------- BART's noises


@block("token-deletion")
class TokenDeletion(Noise):
    """Some tokens are left out without a trace; the whole text is to be written.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Args:
        share: Of the tokens, how many.

    Example:
        >>> made = TokenDeletion().corrupt(np.arange(7, 27), np.random.default_rng(0), Field("text", 30))
        >>> len(made.source), len(made.target)
        (17, 20)
    """

    restores = True

    def __init__(self, *, share: Fraction = 0.15):
        super().__init__()
        self.share = share

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        return Corrupted(ids[~some(ids, self.share, rng, field)], ids)


@block("text-infilling")
class TextInfilling(Noise):
    """Spans become one mask each; the whole text is to be written.

    A span of no token is a mask put in between; of those there are at most F, others then have a token.
    Lengths are Poisson; spans are drawn until round(share F) tokens are gone, and the last is shortened to that. A reserved id
    inside a span stays, between two masks.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Args:
        share: Of the tokens, how many are replaced.
        mean: Tokens of a span, on average.

    Example:
        >>> made = TextInfilling().corrupt(np.arange(7, 27), np.random.default_rng(0), Field("text", 30))
        >>> int((made.source != 4).sum()), len(made.target)
        (14, 20)
    """

    restores = True

    def __init__(self, *, share: Fraction = 0.3, mean: Positive = 3.0):
        super().__init__()
        self.share, self.mean = share, mean

    def check(self, field: Field) -> None:
        needs_mask(field)

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        free = ordinary_places(ids, field)
        left, empty = budget_of(self.share, len(free)) if len(free) > 1 else 0, len(free)
        lengths: list[int] = []
        while left:
            lengths.append(min(max(int(rng.poisson(self.mean)), 0 if empty else 1), left))
            left -= lengths[-1]
            empty -= not lengths[-1]
        # the spans and the kept tokens in a random order: no two spans can overlap, however long they are
        kept = len(free) - sum(lengths)
        order = rng.permutation(kept + len(lengths))
        source: list[np.ndarray] = []
        done, at, mask = 0, 0, np.array([field.special.mask])
        span_at = {int(place): number for number, place in enumerate(np.flatnonzero(order < len(lengths)))}
        for place in range(kept + len(lengths)):
            if place not in span_at:  # with the reserved ids before it
                source.append(ids[at : free[done] + 1])
                done, at = done + 1, free[done] + 1
                continue
            length = lengths[span_at[place]]
            source += [mask] if not length else []
            for number, gone in enumerate(free[done : done + length]):
                if gone > at or not number:
                    source += [ids[at:gone], mask]
                at = gone + 1
            done += length
        return Corrupted(np.concatenate([*source, ids[at:]]), ids)


@block("sentence-permutation")
class SentencePermutation(Noise):
    """The sentences are shuffled; the text is to be written in order.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Example:
        >>> field = Field("text", 30, stops=(9,))
        >>> made = SentencePermutation().corrupt(np.array([7, 9, 8, 9]), np.random.default_rng(1), field)
        >>> sorted(made.source.tolist()), made.target.tolist()
        ([7, 8, 9, 9], [7, 9, 8, 9])
    """

    restores = True

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        sentences = cut(ids, np.flatnonzero(np.isin(ids[:-1], field.sentence_ends)) + 1)
        return Corrupted(np.concatenate([sentences[i] for i in rng.permutation(len(sentences))]), ids)


@block("document-rotation")
class DocumentRotation(Noise):
    """The text is turned so that it begins at a random token; it is to be written from its beginning.

    Lewis et al. 2020 (BART), section 2.2, https://arxiv.org/abs/1910.13461

    Example:
        >>> made = DocumentRotation().corrupt(np.arange(7, 12), np.random.default_rng(0), Field("text", 30))
        >>> sorted(made.source.tolist()) == made.target.tolist()
        True
    """

    restores = True

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        return Corrupted(np.roll(ids, -int(rng.integers(len(ids)))), ids)


BART: list[Build[Noise]] = [SentencePermutation, TextInfilling]


@block("chain")
class Chained(Noise):
    """Several noises one after another; the whole text is to be written.

    The default is what BART was trained with.

    Lewis et al. 2020 (BART), section 3, https://arxiv.org/abs/1910.13461

    Args:
        parts: The noises in order, each of which has the whole text as its target.

    Example:
        >>> made = Chained().corrupt(np.arange(7, 27), np.random.default_rng(0), Field("text", 30))
        >>> len(made.target)
        20
    """

    restores = True

    def __init__(self, *, parts: list[Build[Noise]] = BART):
        super().__init__()
        self.parts = [part() for part in parts]
        for part in self.parts:
            if not part.restores:
                raise ValueError(f"{type(part).__name__} asks for something else than the text, so nothing can be done after it")

    def check(self, field: Field) -> None:
        for part in self.parts:
            part.check(field)

    def corrupt(self, ids: np.ndarray, rng: np.random.Generator, field: Field) -> Corrupted:
        source = ids
        for part in self.parts:
            source = part.corrupt(source, rng, field).source if len(source) > 1 else source
        return Corrupted(source, ids)
