"""Combinations of masks allow what each of them allows, and stay as simple as they can."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from weft.blocks import StateSpace
from weft.core.masks import Causal, Fixed, Full, Global, Latest, Mask, Prefix, Strided, Window
from weft.core.seq import Seq

MASKS = [Full(), Causal(), Window(reach=2), Global(), Strided(stride=3), Fixed(stride=3), Prefix(2)]


def allowed(mask: Mask) -> torch.Tensor:
    positions = torch.arange(8)[None]
    found = mask.allow(positions, positions)
    return torch.ones(1, 8, 8, dtype=torch.bool) if found is None else found.expand(1, 8, 8)


@pytest.mark.parametrize(("one", "other"), list(product(MASKS, MASKS)))
def test_intersection_and_union(one: Mask, other: Mask) -> None:
    assert torch.equal(allowed(one & other), allowed(one) & allowed(other))
    assert torch.equal(allowed(one | other), allowed(one) | allowed(other))


def test_masks_that_imply_each_other_are_one() -> None:
    assert Full() & Causal() == Causal() & Full() == Causal() & Causal() == Causal()
    assert isinstance(Causal() & Latest(), Latest) and isinstance(Latest() & Causal(), Latest)
    assert Full() | Causal() == Causal() | Full() == Full()


def test_a_causal_mixer_takes_a_causal_mask_from_the_layer_and_from_the_stack() -> None:
    mixer, x = StateSpace(8), Seq(torch.randn(1, 5, 8))
    with pytest.raises(ValueError, match="supported: Causal"):
        mixer.check_mask(Full())
    mixer.check_mask(Full() & Causal())
    mixer.check_mask(Causal() & Causal())
    assert mixer.mix(x, Full() & Causal(), None, None).hidden.data.shape == x.data.shape
