from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from weft.core.fields import Special
from weft.core.seq import Seq
from weft.generate import BeamSearch, GreedySearch

EOS = 2
TIGHT = Special(pad=0, bos=1, eos=2, unk=3, mask=0, cls=0, sep=0)
PENALTIES = [("power", 0.0), ("power", 0.7), ("power", 1.5), ("gnmt", 0.6), ("gnmt", 2.0)]


def penalize(logprob, n, penalty, alpha):
    return logprob / ((5 + n) / 6 if penalty == "gnmt" else n) ** alpha


def everything(model, number, limit, allowed, penalty, alpha):
    """Every sequence up to the limit, scored, best first."""
    found = []
    for n in range(1, limit + 1):
        for body in itertools.product(allowed, repeat=n - 1):
            last = [EOS] if n < limit else [EOS, *allowed]
            for token in last:
                ids = [*body, token]
                logprob = sum(model.logp(number, (1, *ids[:t]))[i] for t, i in enumerate(ids))
                found.append((penalize(logprob, n, penalty, alpha), [i for i in ids if i != EOS], token == EOS))
    return sorted(found, key=lambda f: -f[0])


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_is_exhaustive_search(toy, remember, penalty, alpha, seed):
    model = toy(vocab=5, seed=seed, special=TIGHT)
    limits = [4, 1, 3]
    found = BeamSearch(beams=81, length_penalty=alpha, length_normalization=penalty, n_best=5)(
        model, remember(0, 1, 2), limits=limits
    )
    for number, (limit, row) in enumerate(zip(limits, found, strict=True)):
        best = everything(model, number, limit, [3, 4], penalty, alpha)[:5]
        assert [(h.ids, h.finished) for h in row] == [(ids, finished) for _, ids, finished in best]
        assert [h.score for h in row] == pytest.approx([score for score, _, _ in best], abs=1e-5)


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_width_one_is_greedy_search(toy, remember, penalty, alpha, seed):
    model = toy(vocab=12, seed=seed)
    limits = [9, 0, 4, 1, 30]
    beam = BeamSearch(beams=1, length_penalty=alpha, length_normalization=penalty)(model, remember(*range(5)), limits=limits)
    greedy = GreedySearch()(model, remember(*range(5)), limits=limits)
    for [b], [g] in zip(beam, greedy, strict=True):
        assert (b.ids, b.finished) == (g.ids, g.finished)
        assert b.steps == pytest.approx(g.steps)


def by_hand(model, number, limit, width, penalty, alpha, prune=None):
    """Beam search without a bound, written with lists for one row."""
    running, pool = [((), 0.0)], []
    for n in range(1, limit + 1):
        new = []
        for ids, total in running:
            logp = model.logp(number, (1, *ids))
            new += [((*ids, i), total + logp[i]) for i in range(len(logp)) if i not in (0, 1, 4, 5, 6)]
        new.sort(key=lambda x: -x[1])
        if prune is not None:
            new = [x for x in new if x[1] >= new[0][1] - prune]
        pool += [x for x in new[:width] if x[0][-1] == EOS or n == limit]
        running = [x for x in new if x[0][-1] != EOS][:width]
    scored = [(penalize(total, len(ids), penalty, alpha), [i for i in ids if i != EOS]) for ids, total in pool]
    return sorted(scored, key=lambda x: -x[0])


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
@pytest.mark.parametrize(("width", "prune"), [(2, None), (3, None), (5, None), (3, 0.8), (5, 2.0)])
def test_stopping_early_loses_nothing(toy, remember, penalty, alpha, width, prune):
    model, limits = toy(vocab=11, seed=width), [12, 3, 7, 1, 12]
    search = BeamSearch(beams=width, length_penalty=alpha, length_normalization=penalty, n_best=2, prune_threshold=prune)
    found = search(model, remember(*range(5)), limits=limits)
    for number, (limit, row) in enumerate(zip(limits, found, strict=True)):
        expected = by_hand(model, number, limit, width, penalty, alpha, prune)[:2]
        assert [h.ids for h in row] == [ids for _, ids in expected]
        assert [h.score for h in row] == pytest.approx([score for score, _ in expected], abs=1e-5)


@pytest.mark.parametrize(("penalty", "alpha"), PENALTIES)
def test_scores_are_those_of_the_sequences(toy, remember, penalty, alpha):
    model = toy(vocab=14, seed=8)
    found = BeamSearch(beams=6, n_best=6, length_penalty=alpha, length_normalization=penalty)(
        model, remember(0, 1, 2), limits=[10, 5, 10]
    )
    for number, row in enumerate(found):
        assert len(row) == 6 and len({(*h.ids, h.finished) for h in row}) == 6
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)
        for h in row:
            tokens = h.ids + [EOS] * h.finished
            expected = [model.logp(number, (1, *tokens[:t]))[i] for t, i in enumerate(tokens)]
            assert h.steps == pytest.approx(expected, abs=1e-5)
            assert h.logprob == pytest.approx(sum(expected), abs=1e-5)
            assert h.score == pytest.approx(penalize(h.logprob, len(tokens), penalty, alpha))


def test_a_row_does_not_depend_on_its_batch(toy, remember):
    model, search = toy(vocab=14, seed=5), BeamSearch(beams=3, n_best=3, length_penalty=0.6)
    together = search(model, remember(*range(5)), limits=[12, 4, 12, 0, 9])
    assert together == [search(model, remember(n), limits=[limit])[0] for n, limit in enumerate([12, 4, 12, 0, 9])]


def test_stops_when_nothing_can_improve(toy):
    class Sure(toy):
        """Ends after two tokens, nearly surely."""

        def logits(self, number, prefix):
            likely = EOS if len(prefix) > 2 else 7 + len(prefix)
            return np.where(np.arange(self.target.vocab) == likely, 12, 0).astype(np.float32)

    for alpha in (0.0, 0.5):
        model = Sure(vocab=12)
        [[h]] = BeamSearch(beams=3, length_penalty=alpha)(model, None, limits=[200])
        assert h.ids == [8, 9]
        assert model.read < 40


def test_eos_takes_no_beam(toy):
    class Fork(toy):
        """Ends at once (0.4), or outputs 7 (0.3, then anything) or 8 (0.2, then ends)."""

        def logits(self, number, prefix):
            p = {1: {EOS: 0.4, 7: 0.3, 8: 0.2}, 8: {EOS: 0.99}}.get(prefix[-1], {})
            p = {i: p.get(i, 1e-4 if p else 1.0) for i in range(self.target.vocab)}
            return np.log(np.array(list(p.values()), np.float32))

    [row] = BeamSearch(beams=2, n_best=2)(Fork(vocab=30), None, limits=[4])
    assert [h.ids for h in row] == [[], [8]]


def test_pruning_drops_what_is_far_behind(toy, remember):
    model = toy(vocab=14, seed=5, spread=3.0)
    narrow, wide = BeamSearch(beams=8, prune_threshold=1e-9), BeamSearch(beams=8)
    greedy = GreedySearch()(model, remember(*range(4)), limits=[8] * 4)
    assert [h.ids for [h] in narrow(model, remember(*range(4)), limits=[8] * 4)] == [h.ids for [h] in greedy]
    model.read = 0
    BeamSearch(beams=8, prune_threshold=2.0)(model, remember(*range(4)), limits=[8] * 4)
    some, model.read = model.read, 0
    wide(model, remember(*range(4)), limits=[8] * 4)
    assert some < model.read


def test_fewer_continuations_than_width(toy):
    model = toy(vocab=3, special=TIGHT)  # nothing but EOS can be generated
    [row] = BeamSearch(beams=4, n_best=3)(model, None, limits=[5])
    assert [(h.ids, h.finished) for h in row] == [([], True)]
    model = toy(vocab=4, special=TIGHT, seed=1)
    [row] = BeamSearch(beams=50, n_best=50)(model, None, limits=[3])
    assert sorted(h.ids for h in row) == [[], [3], [3, 3], [3, 3, 3]]
    assert [h.finished for h in sorted(row, key=lambda h: len(h.ids))] == [True, True, True, False]


def test_prompts_of_different_lengths(toy):
    model, search = toy(vocab=12, seed=3), BeamSearch(beams=3, n_best=2, length_penalty=1.0)
    data = torch.tensor([[1, 9, 8], [0, 0, 1]])
    found = search(model, None, prompt=Seq(data, data > 0), limits=[6, 4])
    assert found[0] == search(model, None, prompt=Seq(data[:1]), limits=[6])[0]
    assert found[1] == search(model, None, limits=[4])[0]


def test_best_needs_a_beam_as_wide():
    with pytest.raises(ValueError, match="n_best is 5, but beams is 4"):
        BeamSearch(beams=4, n_best=5)
