"""Bag-of-words encoder: no interaction between positions. Shape suffixes: see seq.py."""

from __future__ import annotations

from weft.core.contracts import Encoder, FeedForward
from weft.core.masks import Full, Mask
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("bag-of-words")
class BagOfWords(Encoder):
    """Encodes each position on its own, without regard to word order.

    h_t = x_t,  or h_t = f(x_t)

    Args:
        feedforward: Position-wise feed-forward network f; None = the embeddings are returned unchanged.

    Example:
        >>> import torch
        >>> BagOfWords(4)(Seq(torch.ones(2, 3, 4))).data.shape
        torch.Size([2, 3, 4])
    """

    supported_masks = (Mask,)  # positions do not interact, so every mask holds

    def __init__(self, dim: int, *, feedforward: Build[FeedForward] | None = None):
        super().__init__(dim)
        self.feedforward = None if feedforward is None else feedforward(dim)

    def states(self, x: Seq, mask: Mask = Full()) -> list[Seq]:
        return [x] if self.feedforward is None else [x, x.with_data(self.feedforward(x.data))]
