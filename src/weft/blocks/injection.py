"""How a latent vector enters a decoder. P width of the latent vector, L layers; other suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor

from weft.blocks.linear import Linear
from weft.catalog import block
from weft.slots import Decoder, Injection


@block("latent-slot")
class LatentSlot(Injection):
    """Every layer has one place more that all tokens can look at: a vector made of z, which is key and value there.

    [m_1; ...; m_L] = W z;  in layer l, keys = [m_l; K x],  values = [m_l; V x]

    Positions of the tokens are those of the decoder alone. Where W z is exactly 0 nothing looks there, so that with W = 0 the
    decoder is the plain one.

    Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Example:
        >>> import torch
        >>> from weft.blocks import TransformerDecoder
        >>> decoder = TransformerDecoder(8, None, layers=3)
        >>> LatentSlot(8, 4, decoder).remembered(torch.ones(2, 4)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, latent: int, decoder: Decoder):
        super().__init__(dim, latent, decoder)
        if not decoder.slots:
            raise ValueError(f"{type(decoder).__name__} has no layers that could remember a vector; use latent-embedding alone")
        self.layers = decoder.slots
        self.map = Linear(latent, decoder.slots * dim, bias=False)

    def remembered(self, z_BP: Tensor) -> Tensor:
        return self.map(z_BP).unflatten(-1, (self.layers, -1))


@block("latent-embedding")
class LatentEmbedding(Injection):
    """A vector made of z is added to the vector of every token.

    x_t <- x_t + W z

    Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Example:
        >>> import torch
        >>> from weft.blocks import GRUDecoder
        >>> LatentEmbedding(8, 4, GRUDecoder(8, None)).added(torch.ones(2, 4)).shape
        torch.Size([2, 8])
    """

    def __init__(self, dim: int, latent: int, decoder: Decoder):
        super().__init__(dim, latent, decoder)
        self.map = Linear(latent, dim, bias=False)

    def added(self, z_BP: Tensor) -> Tensor:
        return self.map(z_BP)
