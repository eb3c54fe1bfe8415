"""Multi-layer perceptron against torch."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from weft.blocks import MLP, BatchNorm, LeakyReLU


def twin(mlp: MLP, activation: nn.Module) -> nn.Sequential:
    """The same network of torch modules."""
    layers: list[nn.Module] = []
    for i, layer in enumerate(mlp.maps):
        layers += [nn.Linear(layer.in_features, layer.out_features)]
        layers[-1].load_state_dict(layer.state_dict())
        if len(mlp.batch_norms):
            layers.append(nn.BatchNorm1d(layer.out_features))
            own = mlp.batch_norms[i]
            layers[-1].load_state_dict({"weight": own.weight, "bias": own.bias}, strict=False)
        layers.append(activation)
    layers.append(nn.Linear(mlp.out.in_features, mlp.out.out_features))
    layers[-1].load_state_dict(mlp.out.state_dict())
    return nn.Sequential(*layers)


@pytest.mark.parametrize("batch_norm", [None, BatchNorm])
def test_mlp_equals_torch_in_training_and_evaluation(batch_norm):
    mlp = MLP(3, 2, hidden=[5, 4], activation=partial(LeakyReLU, negative_slope=0.1), batch_norm=batch_norm)
    for parameter in mlp.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    other = twin(mlp, nn.LeakyReLU(0.1))
    for _ in range(3):
        x = torch.randn(7, 3)
        torch.testing.assert_close(mlp(x), other(x))
    torch.testing.assert_close(mlp.eval()(x), other.eval()(x))


def test_mlp_without_hidden_layers_is_a_linear_layer():
    mlp = MLP(3, 2, hidden=[])
    x = torch.randn(4, 3)
    torch.testing.assert_close(mlp(x), nn.functional.linear(x, mlp.out.weight, mlp.out.bias))
