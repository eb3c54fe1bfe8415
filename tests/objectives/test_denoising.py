"""What is done to texts: budgets, what can be undone, what is never touched."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.fields import Field, Info, Special, TextField
from weft.objectives import (
    Denoising,
    Deshuffling,
    DocumentRotation,
    DropTokens,
    MaskedLM,
    NextSentence,
    NoiseChain,
    PrefixLM,
    PrefixNoise,
    RandomSpans,
    ReplacedToken,
    ReplaceSpans,
    SentenceOrder,
    SentencePermutation,
    SpanMasking,
    TextInfilling,
    TokenDeletion,
    TokenMasking,
    TokenMaskingNoise,
    WholeWordMasking,
)

VOCAB, SPARE = 400, 100
FIELD = TextField("text", VOCAB, sentinel_count=SPARE, sentence_ends=(20,))
MASK = Special.mask
PARTY = ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week", "."]
IDS = np.arange(len(PARTY)) + 30
TEXTS = st.lists(st.integers(7, VOCAB - SPARE - 1), min_size=2, max_size=80).map(np.array)
SEEDS = st.integers(0, 2**32 - 1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def words(ids: Any) -> list[str]:
    return [PARTY[i - 30] if 30 <= i < 30 + len(PARTY) else "M" if i == MASK else f"<{VOCAB - 1 - i}>" for i in ids]


def undo_sentinels(source: np.ndarray, target: np.ndarray) -> list[int]:
    """The text from a source with sentinels and what they stand for."""
    first = VOCAB - SPARE
    stands: dict[int, list[int]] = {}
    at = None
    for i in target.tolist():
        if i >= first:
            at, stands[i] = i, []
        else:
            assert at is not None
            stands[at].append(i)
    assert stands and stands[at] == []  # the last one stands for nothing: it ends the target
    return [j for i in source.tolist() for j in (stands[i] if i >= first else [i])]


def is_subsequence(part: list[int], whole: list[int]) -> bool:
    left = iter(whole)
    return all(i in left for i in part)


@pytest.mark.parametrize(
    "noise", [ReplaceSpans(), RandomSpans(), ReplaceSpans(ratio=0.5), RandomSpans(ratio=0.5, mean_length=1.5)]
)
@given(ids=TEXTS, seed=SEEDS)
@settings(max_examples=60)
def test_sentinels_and_what_they_stand_for_give_the_text_back(noise: Any, ids: np.ndarray, seed: int) -> None:
    made = noise.corrupt(ids, rng(seed), FIELD)
    assert undo_sentinels(made.source, made.target) == ids.tolist()
    marks = [i for i in made.source.tolist() if i >= VOCAB - SPARE]
    assert marks == list(range(VOCAB - 1, VOCAB - 1 - len(marks), -1))  # each its own, counted down
    gone = len(ids) - (len(made.source) - len(marks))
    assert gone == min(max(1, round(noise.ratio * len(ids))), len(ids) - 1)


@given(ids=TEXTS, seed=SEEDS)
@settings(max_examples=60)
def test_the_other_rows_of_t5s_table(ids: np.ndarray, seed: int) -> None:
    budget = min(max(1, round(0.15 * len(ids))), len(ids) - 1)
    cut = PrefixNoise().corrupt(ids, rng(seed), FIELD)
    assert [*cut.source, *cut.target] == ids.tolist() and len(cut.source) and len(cut.target)
    for random_ratio in (0.0, 0.1):
        masked = TokenMaskingNoise(random_ratio=random_ratio).corrupt(ids, rng(seed), FIELD)
        assert masked.target.tolist() == ids.tolist() and len(masked.source) == len(ids)
        assert (masked.source != ids).sum() <= budget
        if not random_ratio:
            assert (masked.source == MASK).sum() == budget
            assert all(a == b for a, b in zip(masked.source, ids, strict=True) if a != MASK)
    shuffled = Deshuffling().corrupt(ids, rng(seed), FIELD)
    assert sorted(shuffled.source.tolist()) == sorted(ids.tolist()) and shuffled.target.tolist() == ids.tolist()
    dropped = DropTokens().corrupt(ids, rng(seed), FIELD)
    assert len(dropped.target) == budget and len(dropped.source) + len(dropped.target) == len(ids)
    assert is_subsequence(dropped.source.tolist(), ids.tolist()) and is_subsequence(dropped.target.tolist(), ids.tolist())
    assert sorted([*dropped.source, *dropped.target]) == sorted(ids.tolist())


def test_the_example_of_the_paper() -> None:
    """Raffel et al. 2020, table 3, for some seed of each row."""

    def found(noise: Any, source: str, target: str) -> bool:
        made = (noise.corrupt(IDS, rng(seed), FIELD) for seed in range(3000))
        return any((" ".join(words(m.source)), " ".join(words(m.target))) == (source, target) for m in made)

    whole = " ".join(PARTY)
    assert found(PrefixNoise(), "Thank you for inviting", "me to your party last week .")
    assert found(TokenMaskingNoise(ratio=3 / 11), "Thank you M M me to your party M week .", whole)
    assert found(ReplaceSpans(ratio=3 / 11), "Thank you <0> me to your party <1> week .", "<0> for inviting <1> last <2>")
    assert found(DropTokens(ratio=3 / 11), "Thank you me to your party week .", "for inviting last")
    spans = RandomSpans(ratio=3 / 11, mean_length=1.5)
    assert found(spans, "Thank you <0> me to your party <1> week .", "<0> for inviting <1> last <2>")
    shuffled = Deshuffling().corrupt(IDS, rng(1), FIELD)
    assert words(shuffled.source) != PARTY and sorted(words(shuffled.source)) == sorted(PARTY)
    masked = [TokenMaskingNoise(ratio=3 / 11, random_ratio=0.1).corrupt(IDS, rng(seed), FIELD) for seed in range(300)]
    replaced = sum(int(((m.source != IDS) & (m.source != MASK)).sum()) for m in masked)
    assert 55 <= replaced <= 130  # 900 tokens, 10 %: 90 with a deviation of 9


@given(ids=TEXTS, seed=SEEDS)
@settings(max_examples=80)
def test_barts_noises(ids: np.ndarray, seed: int) -> None:
    budget = {share: min(max(1, round(share * len(ids))), len(ids) - 1) for share in (0.15, 0.3)}
    deleted = TokenDeletion().corrupt(ids, rng(seed), FIELD)
    assert len(deleted.source) == len(ids) - budget[0.15] and is_subsequence(deleted.source.tolist(), ids.tolist())
    filled = TextInfilling().corrupt(ids, rng(seed), FIELD)
    kept = [i for i in filled.source.tolist() if i != MASK]
    assert len(kept) == len(ids) - budget[0.3] and is_subsequence(kept, ids.tolist())
    assert MASK in filled.source
    permuted = SentencePermutation().corrupt(ids, rng(seed), FIELD)
    turned = DocumentRotation().corrupt(ids, rng(seed), FIELD)
    for made in (permuted, turned):
        assert sorted(made.source.tolist()) == sorted(ids.tolist())
    twice = [*ids, *ids]
    assert any(twice[i : i + len(ids)] == turned.source.tolist() for i in range(len(ids)))
    for made in (deleted, filled, permuted, turned, NoiseChain().corrupt(ids, rng(seed), FIELD)):
        assert made.target.tolist() == ids.tolist()


def test_infilling_has_poisson_spans_and_some_of_no_token() -> None:
    ids = np.arange(7, 207)
    lengths: list[int] = []
    for seed in range(200):
        source = TextInfilling().corrupt(ids, rng(seed), FIELD).source.tolist()
        text = [6, *[i if i != MASK else -1 for i in source], 207]
        for a, b, c in zip(text, text[1:], text[2:], strict=False):
            if b == -1 and a != -1 and c != -1:  # a span alone between two kept tokens: its length is known
                lengths.append(c - a - 1)
    assert 0.03 < np.mean(np.array(lengths) == 0) < 0.09  # e^-3 = 0.05; spans beside others are left out here
    assert 2.4 < np.mean(lengths) < 3.2


def test_infilling_with_short_spans_does_not_blow_a_text_up() -> None:
    ids = np.arange(7, 67)
    for seed in range(5):
        source = TextInfilling(mean_length=0.001).corrupt(ids, rng(seed), FIELD).source
        assert (source != MASK).sum() == 42 and (source == MASK).sum() <= 60 + 18


def test_special_ids_in_a_text_are_not_masked() -> None:
    ids = np.array([30, Special.sep, 31, 32, Special.unk, 33, VOCAB - 1, 34, 35, 36])
    special = np.isin(ids, FIELD.reserved_ids())
    hidden = np.zeros(len(ids), bool)
    for seed in range(100):
        source = TokenMaskingNoise(ratio=0.4, random_ratio=0.3).corrupt(ids, rng(seed), FIELD).source
        assert (source[special] == ids[special]).all() and (source == MASK).sum() <= 3
        hidden |= source != ids
    assert (hidden == ~special).all()
    only = np.array([Special.sep, Special.unk, 30])
    assert TokenMaskingNoise().corrupt(only[:2], rng(), FIELD).source.tolist() == only[:2].tolist()


WITH_SPECIAL = st.lists(
    st.one_of(st.integers(30, VOCAB - SPARE - 1), st.sampled_from([Special.unk, MASK, Special.sep])), min_size=2, max_size=60
).map(np.array)


@pytest.mark.parametrize("noise", [ReplaceSpans, RandomSpans, DropTokens, TokenDeletion, TextInfilling, TokenMaskingNoise])
@given(ids=WITH_SPECIAL, seed=SEEDS, ratio=st.sampled_from([0.15, 0.5, 0.9]))
@settings(max_examples=80)
def test_special_ids_in_a_text_are_never_chosen(noise: Any, ids: np.ndarray, seed: int, ratio: float) -> None:
    made = noise(ratio=ratio).corrupt(ids, rng(seed), FIELD)
    special = np.isin(ids, [Special.unk, MASK, Special.sep])
    free = int((~special).sum())
    budget = min(max(1, round(ratio * free)), free - 1) if free > 1 else 0
    kept = [i for i in made.source.tolist() if i < VOCAB - SPARE]
    for i in (Special.unk, Special.sep):  # all of them are still there
        assert kept.count(i) == (ids == i).sum()
    assert len([i for i in kept if i >= 30]) == free - budget
    assert kept.count(MASK) >= (ids == MASK).sum()
    if noise is not TextInfilling and noise is not TokenMaskingNoise:
        assert kept.count(MASK) == (ids == MASK).sum() and is_subsequence(kept, ids.tolist())
    if noise is ReplaceSpans or noise is RandomSpans:
        assert undo_sentinels(made.source, made.target) == ids.tolist()
        assert not np.isin(made.target, [Special.unk, MASK, Special.sep]).any()
    if noise is TextInfilling:  # without the masks, what is kept has its order
        left = [i for i in kept if i != MASK]
        assert is_subsequence(left, ids.tolist()) and made.target.tolist() == ids.tolist()


def test_one_mask_for_each_part_of_a_span() -> None:
    ids = np.array([30, 31, Special.unk, 32, 33])
    seen = {tuple(TextInfilling(ratio=0.9, mean_length=9).corrupt(ids, rng(seed), FIELD).source.tolist()) for seed in range(100)}
    assert (30, MASK, Special.unk, MASK) in seen and (MASK, Special.unk, MASK, 33) in seen


def test_a_text_without_two_ordinary_tokens_is_left_out() -> None:
    for noise in (RandomSpans, ReplaceSpans, DropTokens, TextInfilling, PrefixNoise):
        assert Denoising(INFO, 8, noise=noise).prepare({"text": np.array([30, Special.unk, MASK])}, rng(), None) is None
        assert Denoising(INFO, 8, noise=noise).prepare({"text": np.array([30, Special.unk, 31])}, rng(), None) is not None


@pytest.mark.parametrize(
    "noise", [ReplaceSpans(), ReplaceSpans(ratio=0.7), RandomSpans(ratio=0.3, mean_length=1.2), RandomSpans()]
)
@pytest.mark.parametrize("length", [2, 5, 12, 21])
def test_where_the_check_finds_enough_sentinels_they_never_run_out(noise: Any, length: int) -> None:
    """The least number that is accepted is also reached by some text, so that it refuses no more than it must."""

    def field(sentinel_count: int) -> Field:
        return TextField("text", VOCAB, max_length=length, sentinel_count=sentinel_count)

    def accepted(sentinel_count: int) -> bool:
        try:
            noise.check(field(sentinel_count))
        except ValueError as error:
            assert f"texts of up to {length} tokens" in str(error) and f"has {sentinel_count};" in str(error)
            return False
        return True

    enough = next(sentinel_count for sentinel_count in range(VOCAB) if accepted(sentinel_count))
    most = 0
    for seed in range(1500):
        draw = rng(seed)
        ids = draw.integers(30, 60, int(draw.integers(2, length + 1)) if seed % 2 else length)
        ids[draw.random(len(ids)) < draw.choice([0.0, 0.0, 0.3, 0.5])] = Special.unk
        made = noise.corrupt(ids, draw, field(enough))
        most = max(most, int((made.source >= VOCAB - enough).sum()) + 1)
    assert most <= enough and (length > 12 or most == enough)


def test_where_sentinels_would_run_out_a_special_id_goes_with_its_span() -> None:
    """Budget and what can be undone come before it."""
    ids = np.array([i for k in range(20) for i in (30 + k, Special.unk)])
    noise, tight = RandomSpans(ratio=0.5, mean_length=10), TextField("text", VOCAB, max_length=40, sentinel_count=3)
    noise.check(tight)
    for seed in range(20):
        made = noise.corrupt(ids, rng(seed), tight)
        assert undo_sentinels(made.source, made.target) == ids.tolist()
        assert ((made.source >= 30) & (made.source < 60)).sum() == 10


@pytest.mark.parametrize(
    "noise", [TokenMaskingNoise, TextInfilling, NoiseChain, partial(NoiseChain, parts=[TokenDeletion, TokenMaskingNoise])]
)
def test_a_noise_that_masks_needs_a_mask(noise: Any) -> None:
    bare = Info({"text": TextField("text", 50, special=Special(mask=-1))})
    with pytest.raises(ValueError, match="the vocabulary of 'text' has no mask token"):
        Denoising(bare, 8, noise=noise)
    Denoising(bare, 8, noise=partial(TokenMaskingNoise, random_ratio=1.0))
    Denoising(bare, 8, noise=TokenDeletion)


@pytest.mark.parametrize("noise", [RandomSpans, ReplaceSpans])
def test_a_noise_with_sentinels_needs_spare_ids(noise: Any) -> None:
    with pytest.raises(ValueError, match=r"need [0-9]+ sentinels, but the vocabulary of 'text' has 0;.*with-sentinels"):
        Denoising(Info({"text": TextField("text", 50)}), 8, noise=noise)


def test_sentences_stay_whole() -> None:
    ids = np.array([31, 32, 20, 33, 20, 34, 35, 36])
    seen = {tuple(SentencePermutation().corrupt(ids, rng(seed), FIELD).source.tolist()) for seed in range(200)}
    sentences = [(31, 32, 20), (33, 20), (34, 35, 36)]
    assert len(seen) == 6
    for order in seen:
        assert all(any(order[i : i + len(s)] == s for i in range(len(order))) for s in sentences)


def test_a_chain_refuses_what_does_not_restore_the_text() -> None:
    with pytest.raises(ValueError, match="RandomSpans cannot be chained: its target is not the full text"):
        NoiseChain(parts=[RandomSpans])


def test_too_few_sentinels_are_reported() -> None:
    with pytest.raises(
        ValueError, match=r"need \d+ sentinels, but the vocabulary of 'text' has 2; use the tokenizer with-sentinels"
    ):
        ReplaceSpans(ratio=0.5).corrupt(np.arange(7, 47), rng(), TextField("text", 60, sentinel_count=2))


def test_spans_are_spread_over_the_text_with_the_mean_length() -> None:
    counts = np.zeros(100)
    for seed in range(2000):
        source = RandomSpans().corrupt(np.arange(7, 107), rng(seed), FIELD).source
        kept = source[source < VOCAB - SPARE] - 7
        counts += 1 - np.isin(np.arange(100), kept)
        assert (source >= VOCAB - SPARE).sum() == 5
    share = counts / 2000
    assert share[0] == 0 and 0.05 < share[-1] < 0.3  # a text begins with what is kept, and may end with a span
    assert abs(share.mean() - 0.15) < 1e-9 and share[20:80].min() > 0.1 and share[20:80].max() < 0.2


@pytest.mark.parametrize("length", [2, 3, 5, 11, 20, 30])
def test_the_one_span_of_a_short_text_stands_anywhere_behind_its_first_token(length: int) -> None:
    sources = [RandomSpans().corrupt(np.arange(7, 7 + length), rng(seed), FIELD).source.tolist() for seed in range(600)]
    firsts = {next(at for at, i in enumerate(source) if i >= VOCAB - SPARE) for source in sources}
    gone = min(max(1, round(0.15 * length)), length - 1)
    assert firsts == set(range(1, length - gone + 1))


# ------------------------------------------------------------------------------------------------------------- masked LM

INFO = Info({"text": FIELD})


def masked(ids: np.ndarray, seed: int = 0, **options: Any) -> Any:
    return MaskedLM(INFO, 8, **options).prepare({"text": ids}, rng(seed), None)


@pytest.mark.parametrize("masking", [TokenMasking, WholeWordMasking, SpanMasking])
@given(ids=TEXTS, seed=SEEDS)
@settings(max_examples=60)
def test_masked_positions_can_be_restored_and_special_tokens_are_never_masked(masking: Any, ids: np.ndarray, seed: int) -> None:
    made = masked(ids, seed, masking=masking)
    whole, picks = made["text"].copy(), made["picks"]
    assert len(set(picks.at.tolist())) == len(picks.at) == max(1, round(0.15 * len(ids)))
    assert picks.at.max() < len(ids)  # EOS comes after them
    whole[picks.at] = picks.ids
    assert whole.tolist() == [*ids, Special.eos]
    assert not np.isin(picks.ids, FIELD.reserved_ids()).any()


def test_of_the_selected_tokens_80_are_masked_10_replaced_and_10_left() -> None:
    ids = np.arange(7, 207)
    fates = np.zeros(3)
    for seed in range(300):
        made = masked(ids, seed)
        now = made["text"][made["picks"].at]
        fates += [(now == MASK).sum(), ((now != MASK) & (now != made["picks"].ids)).sum(), (now == made["picks"].ids).sum()]
    n = fates.sum()
    assert n == 300 * 30
    for found, share in zip(fates, (0.8, 0.1, 0.1), strict=True):
        assert abs(found - n * share) < 4 * (n * share * (1 - share)) ** 0.5


def test_replaced_tokens_are_ordinary_and_all_of_them_occur() -> None:
    seen: set[int] = set()
    for seed in range(400):
        made = masked(np.arange(7, 57), seed, mask_token_ratio=0.0, random_token_ratio=1.0)
        seen |= set(made["text"][made["picks"].at].tolist())
    assert seen == set(range(7, VOCAB - SPARE))


def test_dynamic_differs_between_draws_and_static_does_not() -> None:
    ids = np.arange(7, 107)
    assert masked(ids, 1)["picks"].at.tolist() != masked(ids, 2)["picks"].at.tolist()
    assert masked(ids, 1)["text"].tolist() == masked(ids, 1)["text"].tolist()
    first, second = masked(ids, 1, static=True), masked(ids, 2, static=True)
    assert first["text"].tolist() == second["text"].tolist()
    assert masked(ids[:-1], 1, static=True)["picks"].at.tolist() != first["picks"].at.tolist()


def test_static_positions_depend_on_the_seed() -> None:
    ids, found = np.arange(7, 107), []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        found.append(masked(ids, static=True)["picks"].at.tolist())
    assert found[0] == found[2] != found[1]


def pieces_field() -> Field:
    """Ids from 100 continue the word before them."""
    from weft.core.fields import pack_continuations

    return TextField("text", VOCAB, continuations=pack_continuations([i >= 100 for i in range(VOCAB)]))


def test_whole_words_are_hidden_whole() -> None:
    field = pieces_field()
    ids = np.array([10, 100, 101, 11, 12, 102, 13, 14, 15, 103, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26])
    objective = MaskedLM(Info({"text": field}), 8, mask_ratio=0.3, masking=WholeWordMasking)
    for seed in range(100):
        at = set(objective.prepare({"text": ids}, rng(seed), None)["picks"].at.tolist())
        for word in ({0, 1, 2}, {4, 5}, {8, 9}):
            assert word <= at or not word & at
        assert len(at) <= 6


def test_spans_are_as_long_as_published() -> None:
    """Geometric with p 0.2 cut at 10: 3.8 words on average."""
    lengths = []
    for seed in range(3000):
        groups = SpanMasking().choose(np.ones(400, bool), 12, rng(seed))
        lengths.append(len(groups[0]) if len(groups) > 1 else 0)
    first = [n for n in lengths if n]
    assert 3.0 < np.mean(first) < 4.2 and max(first) <= 12


def test_texts_without_anything_to_mask_are_dropped_and_settings_are_checked() -> None:
    assert masked(np.array([], np.int64)) is None
    with pytest.raises(ValueError, match=r"mask_token_ratio 0.8 \+ random_token_ratio 0.3 is more than 1"):
        MaskedLM(INFO, 8, random_token_ratio=0.3)
    with pytest.raises(ValueError, match="mask_ratio is 0 and there is no pairing"):
        MaskedLM(INFO, 8, mask_ratio=0.0)
    with pytest.raises(ValueError, match="has no mask token"):
        MaskedLM(Info({"text": TextField("text", 50, special=Special(mask=-1))}), 8)


# ----------------------------------------------------------------------------------------------------------------- pairs


class Pool(list[dict[str, np.ndarray]]):
    pass


POOL = Pool({"text": np.arange(10) + 50 * i + 7} for i in range(5))


def test_next_sentences_are_the_texts_own_or_anothers() -> None:
    belonging = 0
    for seed in range(400):
        found = NextSentence().pair(POOL[0]["text"], rng(seed), POOL, "text")
        assert found is not None
        if found.belong:
            belonging += 1
            assert [*found.first, *found.second] == POOL[0]["text"].tolist()
        else:
            assert found.second.min() >= 57 and len(found.second)
    assert 160 < belonging < 240


def test_lengths_and_ends_do_not_tell_whether_a_next_sentence_belongs() -> None:
    """Texts of very different lengths; each ends with an id of its own that occurs nowhere else."""
    sizes = [2, 3, 4, 5, 8, 13, 21, 60]
    pool = Pool({"text": np.append(np.full(n - 1, 10 + i), 100 + i)} for i, n in enumerate(sizes))
    lengths: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for seed in range(4000):
        ids = pool[seed % len(pool)]["text"]
        found = NextSentence().pair(ids, rng(seed), pool, "text")
        assert found is not None
        assert len(found.first) + len(found.second) == len(ids) and len(found.first) and len(found.second)
        assert found.second[-1] >= 100  # either way it ends where its text ends
        assert found.belong == (found.second[-1] == ids[-1])
        lengths[found.belong].append((len(found.first), len(found.second)))
    share = len(lengths[True]) / 4000
    assert abs(share - 0.5) < 0.03
    for part in (0, 1):
        of = {belong: np.array([pair[part] for pair in pairs]) for belong, pairs in lengths.items()}
        assert abs(of[True].mean() - of[False].mean()) < 0.15 * of[True].std()
    best = max(np.mean([p[1] > n for p in lengths[True]]) - np.mean([p[1] > n for p in lengths[False]]) for n in range(60))
    assert best < 0.05  # no length of the second segment separates them


def test_without_another_text_there_is_no_pair() -> None:
    ids = POOL[0]["text"]
    for pool in (None, POOL[:1], [{"text": ids}, {"text": ids.copy()}], [{"text": ids}, {"text": np.array([99])}]):
        assert all(NextSentence().pair(ids, rng(seed), pool, "text") is None for seed in range(20))
    alone = NextSentence(negative_ratio=0.0).pair(ids, rng(), None, "text")
    assert alone is not None and alone.belong


def test_sentence_order_swaps_half() -> None:
    swapped = 0
    for seed in range(400):
        found = SentenceOrder().pair(POOL[1]["text"], rng(seed), None, "text")
        assert found is not None
        parts = (found.first, found.second) if found.belong else (found.second, found.first)
        assert np.concatenate(parts).tolist() == POOL[1]["text"].tolist()
        swapped += not found.belong
    assert 160 < swapped < 240
    assert SentenceOrder().pair(np.array([7]), rng(), None, "text") is None


def test_a_pairing_makes_two_segments_with_marks() -> None:
    from weft.core.fields import Frame

    field = TextField("text", VOCAB, frame=Frame((5,), (6,), (6,), segments=True))
    objective = MaskedLM(Info({"text": field}), 8, pairing=SentenceOrder, mask_token_ratio=0.0, random_token_ratio=0.0)
    made = objective.prepare({"text": np.arange(30, 40)}, rng(3), None)
    ids, segment = made["text"].ids, made["text"].marks["segment"]
    cut = int(np.flatnonzero(ids == 6)[0])
    assert ids[0] == 5 and ids[-1] == 6 and segment.tolist() == [0] * (cut + 1) + [1] * (len(ids) - cut - 1)
    assert made["pairing"] in (0, 1)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_segments_that_belong_together_are_the_first_class_as_in_published_models(ratio: float) -> None:
    texts = [{"text": np.arange(20, 30)}, {"text": np.arange(30, 40)}]
    objective = MaskedLM(Info({"text": TextField("text", VOCAB)}), 8, pairing=partial(NextSentence, negative_ratio=ratio))
    made = objective.prepare(texts[0], rng(3), texts)
    assert made is not None and made["pairing"] == ratio


# ---------------------------------------------------------------------------------------------- the whole objectives


def test_denoising_gives_decoders_a_begin_and_an_end() -> None:
    made = Denoising(INFO, 8).prepare({"text": IDS}, rng(), None)
    assert made["input"][0] == Special.bos and made["picks"].ids[-1] == Special.eos
    assert made["input"][1:].tolist() == made["picks"].ids[:-1].tolist()
    assert made["source"][-1] == Special.eos
    assert Denoising(INFO, 8).prepare({"text": IDS[:1]}, rng(), None) is None


def test_prefix_lm_asks_for_what_follows_the_cut() -> None:
    for seed in range(50):
        made = PrefixLM(INFO, 8).prepare({"text": IDS}, rng(seed), None)
        cut = made["prefix"]
        assert 2 <= cut <= len(IDS)
        assert made["picks"].ids.tolist() == [*IDS[cut - 1 :], Special.eos]
        assert made["picks"].at.tolist() == list(range(cut - 1, len(IDS) + 1))


def test_a_replaced_token_is_judged_everywhere_but_at_marks() -> None:
    made = ReplacedToken(INFO, 16).prepare({"text": IDS}, rng(), None)
    assert made["tokens"].at.tolist() == list(range(len(IDS)))
    assert made["tokens"].ids.tolist() == IDS.tolist()


@pytest.mark.parametrize(
    "objective", [MaskedLM, partial(MaskedLM, masking=SpanMasking), Denoising, partial(Denoising, noise=NoiseChain), PrefixLM]
)
def test_the_same_generator_gives_the_same_and_the_text_is_left_alone(objective: Any) -> None:
    before = IDS.copy()
    made = [objective(INFO, 8).prepare({"text": IDS}, rng(5), POOL) for _ in range(2)]
    assert str(made[0]) == str(made[1]) and IDS.tolist() == before.tolist()


def test_the_generator_draws_by_its_probabilities() -> None:
    import torch

    from weft.objectives.replaced_token import sample_tokens, uniform_samples

    share = torch.tensor([0.5, 0.2, 0.0, 0.3])
    draws = uniform_samples(torch.tensor([7, 8, 2**62 - 1, 0]), torch.arange(20_000), 5_000)
    assert draws.min() > 0 and draws.max() < 1 and len(draws.unique()) == 20_000
    alone = uniform_samples(torch.tensor([8]), torch.arange(300), 300)
    assert torch.equal(alone, draws[5_000:5_300])  # in other company the same
    found = sample_tokens(share.log().expand(20_000, 4), draws)
    counts = torch.bincount(found, minlength=4) / 20_000
    assert (counts - share).abs().max() < 0.015 and counts[2] == 0
    assert sample_tokens(share.log()[None], torch.tensor([1 - 1e-12])).item() == 3
    assert sample_tokens(share.log()[None], torch.tensor([1e-12])).item() == 0


def test_the_generator_learns_from_masked_tokens_only_and_the_model_from_all() -> None:
    """No gradient goes from the second loss into the generator, and replaced positions are those that differ."""
    import torch

    from weft.blocks import ClassifierHead
    from weft.core.batch import Clock, collate
    from weft.models import TextEncoder

    torch.manual_seed(0)
    info = Info({"text": TextField("text", 60)})
    model, objective = TextEncoder(info, dim=16, discriminator=ClassifierHead), ReplacedToken(info, 16)
    batch = collate([objective.prepare({"text": np.arange(7, 37) + i}, rng(i), None) for i in range(3)])
    loss = objective(model, batch, Clock())
    assert {name: term.count for name, term in loss.items()} == objective.counts(batch)
    assert loss["replaced"].weight == 50.0
    loss["replaced"].total.backward(retain_graph=True)
    assert all(p.grad is None for p in objective.generator.parameters())
    assert all(p.grad is not None for p in model.encoder.parameters())
    model.zero_grad()
    loss["generator"].total.backward()
    assert all(p.grad is not None for p in objective.generator.parameters())
    assert all(p.grad is None for p in model.encoder.parameters())


def test_replaced_tokens_share_vectors_of_another_width_as_the_small_electra_does() -> None:
    import torch

    from weft.core.batch import Clock, collate
    from weft.models import electra

    torch.manual_seed(0)
    info = Info({"text": TextField("text", 60)})
    model, objective = electra(dim=16, layers=1, heads=2, embedding_dim=6)(info), ReplacedToken(info, 16, embedding_dim=6)
    batch = collate([objective.prepare({"text": np.arange(7, 37)}, rng(), None)])
    with pytest.raises(ValueError, match="set embedding_dim: 6 of the objective"):
        ReplacedToken(info, 16)(model, batch, Clock())
    objective(model, batch, Clock())["generator"].total.backward()
    assert model.embedder.parts[0].weight.grad.abs().sum() > 0


def test_the_judge_is_high_where_a_token_was_replaced() -> None:
    """Most tokens are original: predicting so for all of them costs little, and the contrary costs much."""
    import torch

    from weft.blocks import ClassifierHead
    from weft.core.batch import Clock, collate
    from weft.models import TextEncoder

    info = Info({"text": TextField("text", 60)})
    model, objective = TextEncoder(info, dim=16, discriminator=ClassifierHead), ReplacedToken(info, 16)
    batch, cost = collate([objective.prepare({"text": np.arange(7, 37)}, rng(), None)]), {}
    assert model.discriminator is not None
    with torch.no_grad():
        for logit in (-10.0, 10.0):
            for parameter in model.discriminator.parameters():
                parameter.zero_()
            model.discriminator.out.bias.fill_(logit)
            cost[logit] = float(objective(model, batch, Clock())["replaced"].total) / 30
    assert cost[-10.0] <= 10 * 5 / 30 < 10 * 25 / 30 <= cost[10.0]
