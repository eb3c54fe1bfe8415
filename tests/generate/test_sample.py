from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.generate import GreedySearch, Sampling
from weft.generate.sample import pick


def run(model, memory, numbers, search, limit=12):
    return search(model, memory(*numbers), limits=[limit] * len(numbers), keys=[100 + n for n in numbers])


@pytest.mark.parametrize("search", [Sampling(), Sampling(temperature=0.7, top_k=4), Sampling(top_p=0.8)])
def test_a_row_does_not_depend_on_its_batch(toy, remember, search):
    model = toy(vocab=20, seed=2)
    together = run(model, remember, [0, 1, 2, 3, 4], search)
    alone = [run(model, remember, [n], search)[0] for n in range(5)]
    backwards = run(model, remember, [4, 3, 2, 1, 0], search)[::-1]
    assert [h.ids for [h] in together] == [h.ids for [h] in alone] == [h.ids for [h] in backwards]
    assert len({tuple(h.ids) for [h] in together}) == 5


def test_keys_and_seed_make_the_draws(toy, remember):
    model, same = toy(vocab=20), remember(7, 7, 7)
    found = Sampling()(model, same, limits=[20] * 3, keys=[5, 6, 5])
    assert found[0] == found[2] != found[1]
    assert Sampling(seed=1)(model, same, limits=[20] * 3, keys=[5, 6, 5])[0] != found[0]
    assert Sampling()(model, same, limits=[3, 3, 3], keys=[5, 6, 5])[0][0].ids == found[0][0].ids[:3]  # no limit changes a draw
    assert Sampling()(model, same, limits=[9] * 3, keys=[-1, 2**70, 0])
    numbered = Sampling()(model, same, limits=[20] * 3)
    assert len({tuple(h.ids) for [h] in numbered}) == 3
    with pytest.raises(ValueError, match="2 keys for 3 rows"):
        Sampling()(model, same, limits=[1] * 3, keys=[1, 2])


def test_frequencies_follow_the_distribution(toy, remember):
    model, rows = toy(vocab=11, seed=4), 4000
    found = Sampling()(model, remember(*[0] * rows), limits=[1] * rows)
    p = np.exp(model.logp(0, (1,)))
    p[[0, 1, 4, 5, 6]] = 0
    p /= p.sum()
    counts = np.bincount([(h.ids or [2])[0] for [h] in found], minlength=11)
    chi2 = ((counts - rows * p)[p > 0] ** 2 / (rows * p)[p > 0]).sum()
    assert counts[p == 0].sum() == 0
    assert chi2 < 22.5  # 5 degrees of freedom: one time in 2,000


def test_scores_are_the_models_own(toy, remember):
    model = toy(vocab=20, seed=2)
    for [h] in run(model, remember, range(6), Sampling(temperature=2.0, top_k=8)):
        number = next(n for n in range(6) if run(model, remember, [n], Sampling(temperature=2.0, top_k=8))[0][0].ids == h.ids)
        tokens = h.ids + [2] * h.finished
        expected = [model.logp(number, (1, *tokens[:t]))[token] for t, token in enumerate(tokens)]
        assert h.steps == pytest.approx(expected, abs=1e-5)
        assert h.score == h.logprob == pytest.approx(sum(expected), abs=1e-5)


def test_cutting_to_one_token_is_greedy(toy, remember):
    model = toy(vocab=20, seed=3)
    greedy = GreedySearch()(model, remember(*range(4)), limits=[9] * 4)
    for search in (Sampling(top_k=1), Sampling(top_p=0.0), Sampling(temperature=1e-4)):
        assert [h.ids for [h] in run(model, remember, range(4), search, 9)] == [h.ids for [h] in greedy]


def test_cut_distributions():
    p = torch.tensor([[0.05, 0.4, 0.1, 0.2, 0.25]])

    def kept(**options):
        return Sampling(**options).distribution(p.log())[0].tolist()

    assert kept() == pytest.approx(p[0].tolist())
    assert kept(top_k=2) == pytest.approx([0, 0.4 / 0.65, 0, 0, 0.25 / 0.65])
    assert kept(top_k=99) == pytest.approx(p[0].tolist())
    assert kept(top_p=0.6) == pytest.approx([0, 0.4 / 0.65, 0, 0, 0.25 / 0.65])
    assert kept(top_p=0.7) == pytest.approx([0, 0.4 / 0.85, 0, 0.2 / 0.85, 0.25 / 0.85])
    assert kept(top_p=1.0) == pytest.approx(p[0].tolist())
    assert Sampling(top_p=0.5).distribution(torch.tensor([[4.0, 1, 2, 1]]).double().log())[0].tolist() == [1, 0, 0, 0]
    # The share is that of what top_k has left: 0.4 is 0.62 of it.
    assert kept(top_k=2, top_p=0.61) == pytest.approx([0, 1, 0, 0, 0])
    squared = p[0] ** 2 / (p[0] ** 2).sum()
    assert kept(temperature=0.5) == pytest.approx(squared.tolist())


def test_ties_do_not_depend_on_an_order():
    assert Sampling(top_k=2).distribution(torch.full((1, 4), 0.25).log())[0].tolist() == pytest.approx([0.25] * 4)


def test_pick_is_the_inverse_of_the_summed_distribution():
    p = torch.tensor([[0.0, 0.5, 0.0, 0.25, 0.25, 0.0]], dtype=torch.float64)
    uniform = torch.tensor([0.0, 0.4999, 0.5, 0.74, 0.75, 1 - 2**-53, 1.0], dtype=torch.float64)
    assert pick(p.expand(7, -1), uniform).tolist() == [1, 1, 3, 3, 4, 4, 4]
