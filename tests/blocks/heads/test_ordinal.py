"""Ordinal head."""

from __future__ import annotations

import pytest
import torch

from weft.blocks import OrdinalHead
from weft.core.fields import LabelField, NumberField


def head(classes=5, dim=4):
    made = OrdinalHead(dim, LabelField("label", classes), None)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter))
    return made.double()


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_probabilities_are_differences_of_sigmoids(classes):
    made = head(classes)
    x_ND = torch.randn(6, 4, dtype=torch.float64)
    above_NK = (x_ND @ made.score.weight.T - made.thresholds()).sigmoid()
    edge_N1 = torch.ones(6, 1, dtype=torch.float64)
    full = torch.cat([edge_N1, above_NK, 0 * edge_N1], 1)
    torch.testing.assert_close(made(x_ND).exp(), full[:, :-1] - full[:, 1:])
    torch.testing.assert_close(made(x_ND).exp().sum(1), edge_N1.squeeze(1))


def test_thresholds_always_increase():
    made = head(6)
    with torch.no_grad():
        made.gaps.copy_(torch.tensor([-9.0, 3.0, -2.0, 0.0]))
    assert bool((made.thresholds().diff() > 0).all())


def test_extreme_scores_have_finite_losses():
    made = OrdinalHead(1, LabelField("label", 4), None)
    with torch.no_grad():
        made.score.weight.fill_(1.0)
    x_ND = torch.tensor([[-90.0], [90.0], [0.0]], requires_grad=True)
    for target in range(4):
        nll_N = made.nll(x_ND, torch.full((3,), target))
        assert bool(torch.isfinite(nll_N).all())
        (gradient,) = torch.autograd.grad(nll_N.sum(), x_ND)
        assert bool(torch.isfinite(gradient).all())


def test_initial_thresholds_are_centered_at_zero():
    made = OrdinalHead(4, LabelField("label", 4), None)
    torch.testing.assert_close(made.thresholds(), torch.tensor([-1.0, 0.0, 1.0]), atol=1e-3, rtol=0)


def test_a_single_class_is_rejected():
    with pytest.raises(ValueError, match="needs at least 2 classes, but the field 'label' has 1"):
        OrdinalHead(4, NumberField("label"), None)
