"""From hidden states to logits. Suffixes: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.activation import Tanh
from weft.blocks.dropout import DropoutLayer
from weft.blocks.heads.nll import nll
from weft.blocks.linear import Linear
from weft.blocks.matmul import linear
from weft.core.contracts import Activation, Embedder, Head, Transform
from weft.core.fields import Field
from weft.core.options import Dim, Dropout, Positive
from weft.core.registry import Build, block


@block("tied")
class TiedHead(Head):
    """Compares a hidden state with every token's own vector.

    logits = scale E transform(h) + b

    Before training, a hidden state is mostly the vector of the token it came from, and so is most like that token itself: with
    scale 1 its logit is sqrt(dim), and the wider the network, the worse its first guess. T5's scale of dim^(-1/2) mends that but
    learns slower; the default is between them, and starts at chance.

    Press and Wolf 2017, https://arxiv.org/abs/1608.05859; Raffel et al. 2020 (T5), https://arxiv.org/abs/1910.10683

    Args:
        scale: What similarities are multiplied by; None = dim^(-1/4).
        bias: Whether each symbol has a number of its own, b.
        transform: A map of the hidden state before it is compared; None = none.

    Example:
        >>> import torch
        >>> from weft.blocks.embedding.token import TokenEmbedder
        >>> field = Field("text", 9)
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
            raise ValueError("a tied head needs an embedder to be tied to, and there is none here; use untied")
        symbols, width = embedder.table().shape
        if symbols != field.vocab or (width != dim and transform is None):
            better = "use untied" if symbols != field.vocab else "give it a transform, or use untied"
            raise ValueError(f"a head of {field.vocab} x {dim} cannot be tied to a table of {symbols} x {width}; {better}")
        self.transform = None if transform is None else transform(dim, width)
        # In a tuple, so that the embedder is not registered (and saved) a second time as a part of the head.
        self._tie = (embedder,)
        self.vocab = field.vocab
        self.scale = dim**-0.25 if scale is None else scale
        self.bias = nn.Parameter(torch.zeros(field.vocab)) if bias else None

    def forward(self, x_ND: Tensor) -> Tensor:
        return self._compare(self._features(x_ND))

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return nll(self._compare, self._features(x_ND), target_N, smoothing, self.vocab)

    def _features(self, x_ND: Tensor) -> Tensor:
        return x_ND if self.transform is None else self.transform(x_ND)

    def _compare(self, x_ND: Tensor) -> Tensor:
        return linear(x_ND * self.scale, self._tie[0].table(), self.bias)


@block("untied")
class UntiedHead(Head):
    """A dense map to the vocabulary.

    logits = W transform(h) + b

    Args:
        bias: Whether each symbol has a number of its own, b.
        transform: A map of the hidden state before it; None = none.
        embedding_dim: Width of what the transform gives; None = that of the hidden state.

    Example:
        >>> import torch
        >>> UntiedHead(4, Field("text", 9), None)(torch.ones(2, 4)).shape
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
        self.vocab = field.vocab
        self.transform = None if transform is None else transform(dim, embedding_dim or dim)
        self.out = Linear(embedding_dim or dim, field.vocab, bias)

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.out(self._features(x_ND))

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return nll(self.out, self._features(x_ND), target_N, smoothing, self.vocab)

    def _features(self, x_ND: Tensor) -> Tensor:
        return x_ND if self.transform is None else self.transform(x_ND)


@block("classifier")
class ClassifierHead(Head):
    """Says the class of a vector, by a dense map or a small network.

    logits = W dropout(h) + b,  or with a hidden layer  W dropout(f(U dropout(h) + c)) + b

    Args:
        hidden: Width of the hidden layer; None = no hidden layer.
        activation: The function f.
        dropout: Share of the numbers that training zeroes before each map.
        bias: Whether each class has a number of its own, b.

    Example:
        >>> import torch
        >>> ClassifierHead(4, Field("label", 2, kind="label"), None, hidden=8)(torch.ones(3, 4)).shape
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
        self.vocab = field.vocab
        self.drop = DropoutLayer(dropout)
        self.hidden = None if hidden is None else Linear(dim, hidden)
        self.activation = None if hidden is None else activation()
        self.out = Linear(dim if hidden is None else hidden, field.vocab, bias)

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.out(self._features(x_ND))

    def nll(self, x_ND: Tensor, target_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return nll(self.out, self._features(x_ND), target_N, smoothing, self.vocab)

    def _features(self, x_ND: Tensor) -> Tensor:
        x_ND = self.drop(x_ND)
        if self.hidden is None or self.activation is None:
            return x_ND
        return self.drop(self.activation(self.hidden(x_ND)))
