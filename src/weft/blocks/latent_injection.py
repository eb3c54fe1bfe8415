"""How a latent vector enters a decoder. P width of the latent vector, L layers; other suffixes: see seq.py."""

from __future__ import annotations

from torch import Tensor, nn

from weft.blocks.linear import Linear
from weft.core.contracts import Decoder, Injection
from weft.core.options import Count
from weft.core.registry import block


@block("latent-memory")
class LatentMemory(Injection):
    """Every layer has one place more that all tokens can look at: a vector made of z, which is key and value there.

    [m_1; ...; m_L] = W z;  in layer l, keys = [m_l; K x],  values = [m_l; V x]

    Positions of the tokens are those of the decoder alone. Where W z is exactly 0 nothing looks there, so that with W = 0 the
    decoder is the plain one.

    Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Example:
        >>> import torch
        >>> from weft.blocks import TransformerDecoder
        >>> decoder = TransformerDecoder(8, None, layers=3)
        >>> LatentMemory(8, 4, decoder).past_vectors(torch.ones(2, 4)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(self, dim: int, latent: int, decoder: Decoder):
        super().__init__(dim, latent, decoder)
        if not decoder.memory_slots:
            raise ValueError(f"{type(decoder).__name__} has no layers that could remember a vector; use latent-embedding alone")
        self.layers = decoder.memory_slots
        self.map = Linear(latent, decoder.memory_slots * dim, bias=False)

    def past_vectors(self, z_BP: Tensor) -> Tensor:
        return self.map(z_BP).unflatten(-1, (self.layers, -1))


@block("latent-embedding")
class LatentEmbedding(Injection):
    """A vector made of z is added to the vector of every token.

    x_t <- x_t + W z

    Li et al. 2020 (OPTIMUS), https://arxiv.org/abs/2004.04092

    Example:
        >>> import torch
        >>> from weft.blocks import GRUDecoder
        >>> LatentEmbedding(8, 4, GRUDecoder(8, None)).embedding_offsets(torch.ones(2, 4)).shape
        torch.Size([2, 1, 8])
    """

    def __init__(self, dim: int, latent: int, decoder: Decoder):
        super().__init__(dim, latent, decoder)
        self.map = Linear(latent, dim, bias=False)

    def embedding_offsets(self, z_BP: Tensor) -> Tensor:
        return self.map(z_BP)[:, None]


@block("latent-per-position")
class LatentPerPosition(Injection):
    """A vector made of z is added to the vector of every token, by a map of its own for each place in the text.

    x_t <- x_t + W_t z

    The maps start with variance 1 / P. With the pooler position-concat, which has a map for each position, a short text is
    written again from z after a few hundred updates: words need not be counted by a recurrent network, or found by attention.

    Words bound to places: Smolensky 1990 (tensor products), https://doi.org/10.1016/0004-3702(90)90007-M

    Args:
        positions: How many places have a map; nothing is added after them.

    Example:
        >>> import torch
        >>> from weft.blocks import GRUDecoder
        >>> LatentPerPosition(8, 4, GRUDecoder(8, None), positions=16).embedding_offsets(torch.ones(2, 4)).shape
        torch.Size([2, 16, 8])
    """

    def __init__(self, dim: int, latent: int, decoder: Decoder, *, positions: Count = 32):
        super().__init__(dim, latent, decoder)
        if positions < 2:
            raise ValueError("positions is 1, but must be at least 2; to add one vector to all tokens, use latent-embedding")
        self.positions = positions
        self.map = Linear(latent, positions * dim, bias=False)
        nn.init.normal_(self.map.weight, std=latent**-0.5)  # z of variance 1 is heard as loudly as a token

    def embedding_offsets(self, z_BP: Tensor) -> Tensor:
        return self.map(z_BP).unflatten(-1, (self.positions, -1))
