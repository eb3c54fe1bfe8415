"""Conditioning of a decoder on a latent code. Shape suffixes: P latent dimensions, L layers; others: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.linear import Linear
from weft.core.contracts import Decoder, Injection
from weft.core.options import Count
from weft.core.registry import block


@block("latent-memory")
class LatentMemory(Injection):
    """Adds a projection of the latent code to every layer as one more key and value that all tokens attend to.

    [m_1; ...; m_L] = W z;  keys_l = [m_l; K_l x],  values_l = [m_l; V_l x]

    The positions of the tokens do not change. A projection that is exactly 0 is masked, so that with W = 0 the decoder is
    unconditional.

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
            raise ValueError(
                f"latent-memory needs a decoder with attention layers; {type(decoder).__name__} has none, use latent-embedding"
            )
        self.layers = decoder.memory_slots
        device = next(decoder.parameters()).device
        decoder.as_kv(torch.zeros(1, self.layers, dim, device=device))  # raises ValueError for vectors that do not fit
        self.map = Linear(latent, decoder.memory_slots * dim, bias=False)

    def past_vectors(self, z_BP: Tensor) -> Tensor:
        return self.map(z_BP).unflatten(-1, (self.layers, -1))


@block("latent-embedding")
class LatentEmbedding(Injection):
    """Adds a projection of the latent code to the embedding of every token.

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
    """Adds a projection of the latent code to the embedding of every token, with a separate projection for each position.

    x_t <- x_t + W_t z

    The projections are initialized with variance 1 / P. Together with the pooler position-concat, which also has a projection
    per position, short texts are reconstructed from z after a few hundred updates: the decoder need not recover word order with
    recurrence or attention.

    Binding by tensor products: Smolensky 1990, https://doi.org/10.1016/0004-3702(90)90007-M

    Args:
        positions: Number of positions with a projection; embeddings of later positions are unchanged.

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
        nn.init.normal_(self.map.weight, std=latent**-0.5)  # z of variance 1 is projected to vectors of variance 1

    def embedding_offsets(self, z_BP: Tensor) -> Tensor:
        return self.map(z_BP).unflatten(-1, (self.positions, -1))
