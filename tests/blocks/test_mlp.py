"""Several dense maps, and standardising over a batch: beside torch, and with a single row."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from weft.blocks import MLP, BatchNorm, LeakyReLU, UnitNorm


def twin(mlp: MLP, activation: nn.Module) -> nn.Sequential:
    """The same network in torch's own modules."""
    layers: list[nn.Module] = []
    for i, map_ in enumerate(mlp.maps):
        layers += [nn.Linear(map_.in_features, map_.out_features)]
        layers[-1].load_state_dict(map_.state_dict())
        if len(mlp.batch_norms):
            layers.append(nn.BatchNorm1d(map_.out_features))
            own = mlp.batch_norms[i]
            layers[-1].load_state_dict({"weight": own.weight, "bias": own.bias}, strict=False)
        layers.append(activation)
    layers.append(nn.Linear(mlp.out.in_features, mlp.out.out_features))
    layers[-1].load_state_dict(mlp.out.state_dict())
    return nn.Sequential(*layers)


@pytest.mark.parametrize("batch_norm", [None, BatchNorm])
def test_it_computes_what_torch_does_in_training_and_in_evaluation(batch_norm):
    mlp = MLP(3, 2, hidden=[5, 4], activation=partial(LeakyReLU, negative_slope=0.1), batch_norm=batch_norm)
    for parameter in mlp.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    other = twin(mlp, nn.LeakyReLU(0.1))
    for _ in range(3):
        x = torch.randn(7, 3)
        torch.testing.assert_close(mlp(x), other(x))
    torch.testing.assert_close(mlp.eval()(x), other.eval()(x))


def test_one_row_in_training_is_standardised_as_in_evaluation_and_moves_no_statistics():
    norm = BatchNorm(4)
    for _ in range(5):
        norm(3 * torch.randn(9, 4) + 1)
    before = norm.mean.clone(), norm.variance.clone()
    row = torch.randn(1, 4)
    assert torch.equal(norm(row), norm.eval()(row))
    assert torch.equal(norm.mean, before[0]) and torch.equal(norm.variance, before[1])
    norm.train()(torch.randn(2, 4))
    assert not torch.equal(norm.mean, before[0])


def test_without_hidden_widths_it_is_one_map():
    mlp = MLP(3, 2, hidden=[])
    x = torch.randn(4, 3)
    torch.testing.assert_close(mlp(x), nn.functional.linear(x, mlp.out.weight, mlp.out.bias))


def test_vectors_on_the_sphere():
    x = torch.randn(5, 6)
    y = UnitNorm(6)(x)
    torch.testing.assert_close(y.norm(dim=-1), torch.ones(5))
    torch.testing.assert_close(nn.functional.cosine_similarity(x, y), torch.ones(5))
    assert torch.equal(UnitNorm(6)(torch.zeros(1, 6)), torch.zeros(1, 6))
