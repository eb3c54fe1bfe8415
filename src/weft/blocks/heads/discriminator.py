"""Class-conditional discriminators of vectors. Shape suffixes: P size of the vector, H hidden size; others: see seq.py."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from weft.blocks.activation import LeakyReLU
from weft.blocks.linear import Linear
from weft.blocks.mlp import MLP
from weft.core.contracts import Activation, Discriminator, Transform
from weft.core.options import Dim
from weft.core.registry import Build, block


@block("concat")
class ConcatDiscriminator(Discriminator):
    """Conditional discriminator that concatenates the vector with a class embedding.

    D(x, y) = f([x; v_y]), with v_y the embedding of class y

    Mirza & Osindero 2014 (conditional GAN), https://arxiv.org/abs/1411.1784

    Args:
        label_dim: Size of the class embeddings.
        transform: Network f with one output.

    Example:
        >>> ConcatDiscriminator(4, 2)(torch.ones(3, 4), torch.tensor([0, 1, 1])).shape
        torch.Size([3])
    """

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        label_dim: Dim = 64,
        transform: Build[Transform] = partial(MLP, hidden=[512, 512], activation=LeakyReLU),
    ):
        super().__init__(dim, classes)
        self.labels = nn.Embedding(classes, label_dim)
        self.transform = transform(dim + label_dim, 1)

    def forward(self, x_BP: Tensor, label_B: Tensor) -> Tensor:
        return self.transform(torch.cat([x_BP, self.labels(label_B).to(x_BP.dtype)], -1)).squeeze(-1)


@block("projection")
class ProjectionDiscriminator(Discriminator):
    """Projection discriminator: adds the inner product of features and class embedding to an unconditional score.

    D(x, y) = w . h + b + v_y . h,  h = f(t(x)), with v_y the embedding of class y

    Miyato & Koyama 2018, https://arxiv.org/abs/1802.05637

    Args:
        hidden: Size of the features h.
        transform: Network t.
        activation: Activation f.

    Example:
        >>> ProjectionDiscriminator(4, 2)(torch.ones(3, 4), torch.tensor([0, 1, 1])).shape
        torch.Size([3])
    """

    def __init__(
        self,
        dim: int,
        classes: int,
        *,
        hidden: Dim = 512,
        transform: Build[Transform] = partial(MLP, hidden=[512], activation=LeakyReLU),
        activation: Build[Activation] = LeakyReLU,
    ):
        super().__init__(dim, classes)
        self.transform, self.activation = transform(dim, hidden), activation()
        self.out, self.labels = Linear(hidden, 1), nn.Embedding(classes, hidden)
        nn.init.normal_(self.labels.weight, std=hidden**-0.5)  # the same initial scale as w

    def forward(self, x_BP: Tensor, label_B: Tensor) -> Tensor:
        h_BH = self.activation(self.transform(x_BP))
        return self.out(h_BH).squeeze(-1) + (self.labels(label_B).to(h_BH.dtype) * h_BH).sum(-1)
