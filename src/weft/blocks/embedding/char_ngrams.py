"""Word embeddings with character n-grams. Shape suffixes: C characters, G n-grams of a word; others: see seq.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.blocks.embedding.char_cnn import require_characters
from weft.blocks.embedding.token import TokenEmbedder
from weft.core.contracts import Embedder
from weft.core.fields import Field
from weft.core.options import Count, Dim, Dropout
from weft.core.registry import Build, block
from weft.core.seq import Seq

_FIRST, _LAST = 1, 2
"""Ids of the markers around a word, where characters have ids from 7 on."""
_PRIME, _GOLDEN = 1_000_003, 0x9E3779B97F4A7C15 - 2**64
"""Factors of the hash; the second is the golden ratio of 64 bits as a signed integer."""


@block("char-ngrams")
class CharNgrams(Embedder):
    """Word embedding plus the embeddings of the character n-grams of the word, as in fastText.

    x_t = word(t) + 1/sqrt(|G_t|) sum_(g in G_t) E[hash(g) mod buckets], with G_t the n-grams of <word t>

    With the encoder ``bag-of-words`` and mean pooling this is a linear classifier that trains in seconds and is strong on few
    examples. Unknown words get informative embeddings from their n-grams, which include the beginning and the end of the word.
    E is initialized with zeros, so that n-grams without training examples have no effect.

    Bojanowski et al. 2017, https://arxiv.org/abs/1607.04606; as a classifier: Joulin et al. 2017,
    https://arxiv.org/abs/1607.01759

    Args:
        word: Embedder of the words; a head can be tied to it.
        min_n: Minimum length of the n-grams.
        max_n: Maximum length of the n-grams.
        buckets: Number of n-gram embeddings; n-grams with the same hash share one.
        dropout: Probability of leaving out an n-gram in training.

    Example:
        >>> from weft.core.fields import TextField
        >>> x = Seq(torch.tensor([[7, 8]])).mark(characters=torch.tensor([[[9, 10, 0], [11, 10, 9]]]))
        >>> CharNgrams(4, TextField("text", 20, characters=12), buckets=64)(x).data.shape
        torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        dim: int,
        field: Field,
        *,
        word: Build[Embedder] = TokenEmbedder,
        min_n: Count = 3,
        max_n: Count = 4,
        buckets: Dim = 65_536,
        dropout: Dropout = 0.0,
    ):
        super().__init__(dim, field)
        require_characters(field)
        if min_n > max_n:
            raise ValueError(f"min_n is {min_n}, but max_n is {max_n}; min_n cannot be larger")
        self.word = word(dim, field)
        self.min_n, self.max_n, self.buckets, self.dropout = min_n, max_n, buckets, dropout
        self.weight = nn.Parameter(torch.zeros(buckets + 1, dim))  # row 0: no n-gram

    def forward(self, x: Seq) -> Seq:
        if "characters" not in x.marks:
            raise ValueError("char-ngrams needs the mark 'characters' (character ids of each word), but the sequence has none")
        gram_BTG = self._hashes(x.marks["characters"])
        if self.training and self.dropout:
            gram_BTG = gram_BTG.masked_fill(torch.rand(gram_BTG.shape, device=gram_BTG.device) < self.dropout, 0)
        count_BT1 = (gram_BTG > 0).sum(-1, keepdim=True).clamp(min=1)
        sum_ND = F.embedding_bag(gram_BTG.flatten(0, 1), self.weight, mode="sum", padding_idx=0)
        return x.with_data(self.word(x).data + sum_ND.unflatten(0, gram_BTG.shape[:2]) * count_BT1.to(sum_ND.dtype).rsqrt())

    def table(self) -> Tensor:
        return self.word.table()

    def _hashes(self, character_BTC: Tensor) -> Tensor:
        """B x T x G: the rows of E of all n-grams of each word; 0 where there is none."""
        length_BT1 = (character_BTC > 0).sum(-1, keepdim=True)
        marked = F.pad(character_BTC, (1, max(1, self.max_n - 1)))
        marked[..., :1] = torch.where(length_BT1 > 0, _FIRST, 0)
        marked = marked.scatter(-1, length_BT1 + 1, torch.where(length_BT1 > 0, _LAST, 0))
        found: list[Tensor] = []
        for n in range(self.min_n, self.max_n + 1):
            width = marked.shape[-1] - n + 1
            code = torch.full_like(marked[..., :width], n)
            for i in range(n):
                code = code * _PRIME + marked[..., i : i + width]
            code = code * _GOLDEN
            code = code ^ ((code >> 29) & 0x7FFFFFFFF)  # the high bits are the best ones
            complete = marked[..., n - 1 :] > 0  # the last character; those before it are there too
            found.append(torch.where(complete, code % self.buckets + 1, 0))
        return torch.cat(found, -1)
