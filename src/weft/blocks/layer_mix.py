"""Combinations of the hidden states of all layers into one sequence. Shape suffixes: see seq.py."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from weft.core.contracts import LayerMix
from weft.core.options import Layers
from weft.core.registry import block
from weft.core.seq import Seq


@block("sum-last")
class SumLast(LayerMix):
    """Sum of the outputs of the last layers.

    y = h_L + h_L-1 + ... + h_L-n+1

    Devlin et al. 2019 (BERT), section 5.3, https://arxiv.org/abs/1810.04805

    Args:
        layers: Number of layers to sum, n. The output of the embedder is not a layer.

    Example:
        >>> import torch
        >>> states = [Seq(torch.full((1, 1, 2), float(i))) for i in range(6)]
        >>> SumLast(2, 6)(states).data.tolist()
        [[[14.0, 14.0]]]
    """

    def __init__(self, dim: int, states: int, *, layers: Layers = 4):
        super().__init__(dim, states)
        if layers > states - 1:
            available = states - 1
            raise ValueError(f"cannot sum the last {layers} of {available} layers; set layers of sum-last to at most {available}")
        self.layers = layers

    def forward(self, states: Sequence[Seq]) -> Seq:
        last_LBTD = torch.stack([state.data for state in states[-self.layers :]])
        return states[-1].with_data(last_LBTD.sum(0))


@block("scalar-mix")
class ScalarMix(LayerMix):
    """Learned weighted average of the hidden states of all layers, the output of the embedder included.

    y = gamma sum_l softmax(s)_l h_l

    The weights s are initialized to 0 and gamma to 1, which gives the mean of the layers.

    Peters et al. 2018 (ELMo), https://arxiv.org/abs/1802.05365

    Example:
        >>> import torch
        >>> states = [Seq(torch.full((1, 1, 2), float(i))) for i in range(5)]
        >>> ScalarMix(2, 5)(states).data.tolist()
        [[[2.0, 2.0]]]
    """

    def __init__(self, dim: int, states: int):
        super().__init__(dim, states)
        self.score = nn.Parameter(torch.zeros(states))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, states: Sequence[Seq]) -> Seq:
        state_LBTD = torch.stack([state.data for state in states])
        weight_L = self.scale * self.score.softmax(0)
        return states[-1].with_data(torch.einsum("l,lbtd->btd", weight_L, state_LBTD))
