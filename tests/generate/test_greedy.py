from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.core.fields import Special
from weft.core.seq import Seq
from weft.generate import BeamSearch, GreedySearch, Sampling

NEVER = (0, 1, 4, 5, 6)
EOS = 2


def by_hand(model, number, prompt, limit):
    """Greedy search written for one row."""
    ids, steps = [], []
    for _ in range(limit):
        logp = model.logp(number, (*prompt, *ids))
        logp[[i for i in NEVER if i < len(logp)]] = -np.inf
        token = int(logp.argmax())
        steps.append(logp[token])
        if token == EOS:
            return ids, steps, True
        ids.append(token)
    return ids, steps, False


@pytest.mark.parametrize("seed", range(5))
def test_takes_the_most_probable_token(toy, remember, seed):
    model = toy(vocab=12, seed=seed)
    limits = [9, 0, 4, 1, 30, 7]
    found = GreedySearch()(model, remember(*range(6)), limits=limits)
    for number, (limit, [h]) in enumerate(zip(limits, found, strict=True)):
        ids, steps, finished = by_hand(model, number, (1,), limit)
        assert (h.ids, h.finished) == (ids, finished)
        assert h.steps == pytest.approx(steps, abs=1e-5)
        assert h.logprob == h.score == pytest.approx(sum(steps), abs=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_prompts_of_different_lengths(toy, side):
    model = toy(vocab=12, seed=3)
    prompts = [(1, 9, 8), (1,), (1, 7, 7, 10, 11)]
    data, mask = torch.zeros(3, 5, dtype=torch.long), torch.zeros(3, 5, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        at = slice(5 - len(prompt), None) if side == "left" else slice(len(prompt))
        data[row, at], mask[row, at] = torch.tensor(prompt), True
    for search in (GreedySearch(), BeamSearch(beams=1)):
        found = search(model, None, prompt=Seq(data, mask), limits=[6, 6, 6])
        assert [h.ids for [h] in found] == [by_hand(model, 0, prompt, 6)[0] for prompt in prompts]


def test_a_row_that_is_done_costs_nothing(toy, remember):
    model = toy(vocab=12, seed=1)
    limits = [3, 10, 0, 10, 1]
    found = GreedySearch()(model, remember(*range(5)), limits=limits)
    # Every generated token but each row's last is read once; so is the BOS of rows with something to generate.
    assert model.read == sum(len(h.steps) for [h] in found)


def test_all_rows_end_at_once_and_no_rows(toy, remember):
    class Ends(toy):
        def logits(self, number, prefix):
            return np.where(np.arange(self.target.vocab) == EOS, 50, 0).astype(np.float32)

    for search in (GreedySearch(), BeamSearch(beams=3), Sampling()):
        found = search(Ends(), remember(0, 1, 2), limits=[5, 5, 5])
        assert [[h.ids for h in row] for row in found] == [[[]]] * 3
        assert all(h.finished and len(h.steps) == 1 for row in found for h in row)
        nothing = search(Ends(), remember(0, 1), limits=[0, 0])
        assert [[(h.ids, h.score, h.finished) for h in row] for row in nothing] == [[([], 0.0, False)]] * 2


def test_forbidden_ids_are_never_generated_but_keep_their_probability(toy):
    class Marks(toy):
        def logits(self, number, prefix):
            return np.where(np.isin(np.arange(self.target.vocab), NEVER), 3.0, 0.0).astype(np.float32)

    for search in (GreedySearch(), BeamSearch(beams=2), Sampling()):
        [[h]] = search(Marks(vocab=9), None, limits=[6])
        assert not set(h.ids) & set(NEVER)
        expected = -np.log(5 * np.exp(3.0) + 4)
        assert h.steps == pytest.approx([expected] * len(h.steps))


def test_a_bos_that_is_also_the_eos_can_end(toy):
    model = toy(vocab=6, seed=0, special=Special(pad=2, bos=2, eos=2, unk=2, mask=2, cls=2, sep=2))
    found = GreedySearch()(model, None, limits=[60])
    assert found[0][0].finished
    model = toy(vocab=6, special=Special(pad=-1, bos=0, eos=2, unk=3, mask=-1, cls=-1, sep=99))
    assert GreedySearch()(model, None, limits=[60])


def test_limits_relative_to_the_input():
    assert [GreedySearch().limit(n) for n in (0, 5, 900)] == [200, 200, 200]
    assert [GreedySearch(max_length_ratio=1.5, max_length_extra=3, max_length=30).limit(n) for n in (0, 5, 900)] == [3, 10, 30]
    assert (
        BeamSearch(max_length_ratio=2.0, max_length_extra=0).limit(7)
        == Sampling(max_length_ratio=2.0, max_length_extra=0).limit(7)
        == 14
    )


def test_errors(toy, remember):
    with pytest.raises(ValueError, match="3 limits for the 2 rows of the memory"):
        GreedySearch()(toy(), remember(0, 1), limits=[4, 4, 4])
    with pytest.raises(ValueError, match="1 limits for the 2 rows of the prompt"):
        GreedySearch()(toy(), None, prompt=Seq(torch.ones(2, 1, dtype=torch.long)), limits=[4])
    prompt = Seq(torch.ones(3, 2, dtype=torch.long), torch.tensor([[1, 1], [0, 0], [1, 0]]).bool())
    with pytest.raises(ValueError, match="prompt of row 1 is empty"):
        GreedySearch()(toy(), None, prompt=prompt, limits=[4, 4, 4])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_broken_weights_are_an_error(toy, bad):
    class Broken(toy):
        def logits(self, number, prefix):
            return np.full(self.target.vocab, bad, np.float32)

    for search in (GreedySearch(), BeamSearch(beams=2), Sampling()):
        with pytest.raises(ValueError, match="weights have diverged"):
            search(Broken(), None, limits=[4])
