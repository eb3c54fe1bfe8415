"""Words that know how they are spelled. C letters of a word, E width of a letter, F filters; other suffixes: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.conv.cnn import windows
from weft.blocks.dropout import DropoutLayer
from weft.blocks.embedding.lookup import lookup
from weft.blocks.embedding.token import TokenEmbedder
from weft.blocks.linear import Linear
from weft.core.contracts import Embedder
from weft.core.fields import Field
from weft.core.options import Count, Dim, Dropout
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("char-cnn")
class CharCNN(Embedder):
    """A word's own vector plus one that is made from its letters, so that unknown words have a meaning too.

    x_t = word(t) + W relu(max_j (V [c_j-k; ...; c_j; ...; c_j+k] + b)),  with c_j the vector of letter j and the maximum over all
    letters of the word

    Two vectors side by side, brought to the width by a dense map, would be the same: the map's first half can be taken into the
    table of words. A word without letters (a mark of begin or end, padding) has none but its own vector. With ``word_dropout``,
    words are now and then hidden in training, and the network learns to rely on spelling.

    Ma and Hovy 2016, https://arxiv.org/abs/1603.01354; hiding words: Lample et al. 2016, https://arxiv.org/abs/1603.01360

    Args:
        word: Vectors of the words themselves; a head can be tied to them.
        char_dim: Width of the letters' vectors.
        filters: How many patterns of letters are looked for.
        kernel_size: Letters in a pattern; odd.
        word_dropout: Share of the words that training takes for unknown ones; their letters stay.
        dropout: Share of the letters' vectors, and of the patterns found, that training zeroes.

    Example:
        >>> x = Seq(torch.tensor([[7, 8]])).mark(letters=torch.tensor([[[9, 10, 0], [11, 10, 9]]]))
        >>> CharCNN(4, Field("text", 20, characters=12))(x).data.shape
        torch.Size([1, 2, 4])
    """

    def __init__(
        self,
        dim: int,
        field: Field,
        *,
        word: Build[Embedder] = TokenEmbedder,
        char_dim: Dim = 32,
        filters: Dim = 64,
        kernel_size: Count = 3,
        word_dropout: Dropout = 0.0,
        dropout: Dropout = 0.0,
    ):
        super().__init__(dim, field)
        if not field.characters:
            raise ValueError(
                f"the words of {field.name!r} are not spelled: set tokenizer: {{type: word, max_characters: 20}} in the data, "
                "or take the embedder token"
            )
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {kernel_size}, but must be odd; use {kernel_size + 1}")
        self.word = word(dim, field)
        self.unk, self.word_dropout, self.kernel_size = field.special.unk, word_dropout, kernel_size
        self.letter = nn.Parameter(torch.empty(field.characters, char_dim))
        nn.init.normal_(self.letter)
        self.find = Linear(kernel_size * char_dim, filters)
        self.out = Linear(filters, dim, bias=False)
        self.drop = DropoutLayer(dropout)

    def forward(self, x: Seq) -> Seq:
        if "letters" not in x.marks:
            raise ValueError("this text comes without the mark 'letters', which spells its words")
        vector_BTD = self.word(self._hide(x)).data
        return x.with_data(vector_BTD + self.out(self.drop(self._patterns(x.marks["letters"]))))

    def table(self) -> Tensor:
        return self.word.table()

    def _patterns(self, letter_BTC: Tensor) -> Tensor:
        """B x T x F: how strongly each pattern is there, at the best place of the word."""
        letter_NC = letter_BTC.flatten(0, 1)
        there_NC1 = (letter_NC > 0)[..., None]
        c_NCE = self.drop(lookup(self.letter, letter_NC, self._wrong)).masked_fill(~there_NC1, 0.0)
        found_NCF = self.find(windows(c_NCE, self.kernel_size)).relu()
        return found_NCF.masked_fill(~there_NC1, 0.0).amax(1).unflatten(0, letter_BTC.shape[:2])

    def _wrong(self, number: int, word: int, at: int) -> str:
        return f"the letter {number} (letter {at} of word {word}), but there are {len(self.letter)} letters, from 0"

    def _hide(self, x: Seq) -> Seq:
        """Some words as unknown ones; those without letters are marks, and stay."""
        if not self.training or not self.word_dropout or x.data.is_floating_point():
            return x
        hidden_BT = (torch.rand(x.data.shape, device=x.data.device) < self.word_dropout) & (x.marks["letters"] > 0).any(-1)
        return x.with_data(x.data.masked_fill(hidden_BT, self.unk))
