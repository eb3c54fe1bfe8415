"""Heads: logits from hidden states. Shape suffixes: F features; others: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.activation import Tanh
from weft.blocks.dropout import DropoutLayer
from weft.blocks.heads.nll import FeatureHead
from weft.blocks.linear import Linear
from weft.blocks.matmul import linear
from weft.core.contracts import Activation, Embedder, Transform
from weft.core.fields import Field
from weft.core.options import Dim, Dropout, Positive
from weft.core.registry import Build, block


@block("tied")
class TiedHead(FeatureHead):
    """Output layer tied to the token embedding matrix E.

    logits = scale E transform(h) + b

    Before training, a hidden state is close to the embedding of its input token. With scale 1 the logit of that token is about
    sqrt(dim), so the initial loss grows with dim. The scale dim^(-1/2) of T5 avoids this but learns more slowly. The default
    dim^(-1/4) lies between them, and the initial loss is that of a uniform distribution.

    Press and Wolf 2017, https://arxiv.org/abs/1608.05859; Raffel et al. 2020 (T5), https://arxiv.org/abs/1910.10683

    Args:
        scale: Factor of the logits; None = dim^(-1/4).
        bias: Whether each token has a bias b.
        transform: Transform of the hidden state, such as the dense layer of BERT; None = none.

    Example:
        >>> import torch
        >>> from weft.blocks.embedding.token import TokenEmbedder
        >>> from weft.core.fields import TextField
        >>> field = TextField("text", 9)
        >>> TiedHead(4, field, TokenEmbedder(4, field))(torch.ones(2, 4)).shape
        torch.Size([2, 9])
    """

    def __init__(
        self,
        dim: int,
        field: Field,
        embedder: Embedder | None,
        *,
        scale: Positive | None = None,
        bias: bool = True,
        transform: Build[Transform] | None = None,
    ):
        super().__init__(dim, field, embedder)
        if embedder is None:
            raise ValueError("a tied head needs an embedder to share weights with, but this structure passes none; use untied")
        rows, size = embedder.table().shape
        if rows != field.outputs or (size != dim and transform is None):
            fix = "use untied" if rows != field.outputs else "set transform, or use untied"
            raise ValueError(f"a head of {field.outputs} x {dim} cannot be tied to an embedding matrix of {rows} x {size}; {fix}")
        self.transform = None if transform is None else transform(dim, size)
        # In a tuple, so that the embedder is not registered (and saved) again as a submodule of the head.
        self._tie = (embedder,)
        self.scale = dim**-0.25 if scale is None else scale
        self.bias = nn.Parameter(torch.zeros(field.outputs)) if bias else None

    def features(self, x_ND: Tensor) -> Tensor:
        return x_ND if self.transform is None else self.transform(x_ND)

    def logits(self, feature_NF: Tensor) -> Tensor:
        return linear(feature_NF * self.scale, self._tie[0].table(), self.bias)


@block("untied")
class UntiedHead(FeatureHead):
    """Linear output layer with its own weights.

    logits = W transform(h) + b

    Args:
        bias: Whether each token has a bias b.
        transform: Transform of the hidden state before the output layer; None = none.
        embedding_dim: Output size of the transform; None = dim.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextField
        >>> UntiedHead(4, TextField("text", 9), None)(torch.ones(2, 4)).shape
        torch.Size([2, 9])
    """

    def __init__(
        self,
        dim: int,
        field: Field,
        embedder: Embedder | None,
        *,
        bias: bool = True,
        transform: Build[Transform] | None = None,
        embedding_dim: Dim | None = None,
    ):
        super().__init__(dim, field, embedder)
        if transform is None and embedding_dim not in (None, dim):
            raise ValueError(
                f"embedding_dim is {embedding_dim}, but dim is {dim} and there is no transform; set transform, such as dense"
            )
        self.transform = None if transform is None else transform(dim, embedding_dim or dim)
        self.out = Linear(embedding_dim or dim, field.outputs, bias)

    def features(self, x_ND: Tensor) -> Tensor:
        return x_ND if self.transform is None else self.transform(x_ND)

    def logits(self, feature_NF: Tensor) -> Tensor:
        return self.out(feature_NF)


@block("classifier")
class ClassifierHead(FeatureHead):
    """Classification head: dropout and a linear layer, with an optional hidden layer.

    logits = W dropout(h) + b,  or logits = W dropout(f(U dropout(h) + c)) + b with a hidden layer

    Args:
        hidden: Size of the hidden layer; None = no hidden layer.
        activation: Activation f of the hidden layer.
        dropout: Dropout probability before each linear layer.
        bias: Whether each class has a bias b.

    Example:
        >>> import torch
        >>> from weft.core.fields import LabelField
        >>> ClassifierHead(4, LabelField("label", 2), None, hidden=8)(torch.ones(3, 4)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        dim: int,
        field: Field,
        embedder: Embedder | None,
        *,
        hidden: Dim | None = None,
        activation: Build[Activation] = Tanh,
        dropout: Dropout = 0.0,
        bias: bool = True,
    ):
        super().__init__(dim, field, embedder)
        self.drop = DropoutLayer(dropout)
        self.hidden = None if hidden is None else Linear(dim, hidden)
        self.activation = None if hidden is None else activation()
        self.out = Linear(dim if hidden is None else hidden, field.outputs, bias)

    def features(self, x_ND: Tensor) -> Tensor:
        x_ND = self.drop(x_ND)
        if self.hidden is None or self.activation is None:
            return x_ND
        return self.drop(self.activation(self.hidden(x_ND)))

    def logits(self, feature_NF: Tensor) -> Tensor:
        return self.out(feature_NF)
