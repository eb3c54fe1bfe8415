"""Word embeddings with a character CNN. Shape suffixes: C characters, E character features, F filters; others: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.blocks.conv.cnn import windows
from weft.blocks.dropout import DropoutLayer
from weft.blocks.embedding.lookup import lookup
from weft.blocks.embedding.token import TokenEmbedder
from weft.blocks.linear import Linear
from weft.core.contracts import Embedder
from weft.core.fields import Field, TokenizedField
from weft.core.options import Dim, Dropout, KernelSize
from weft.core.registry import Build, block
from weft.core.seq import Seq


@block("char-cnn")
class CharCNN(Embedder):
    """Word embedding plus a CNN over the characters of the word, so that unknown words get informative embeddings too.

    x_t = word(t) + W relu(max_j (V [c_j-k; ...; c_j; ...; c_j+k] + b)), with c_j the embedding of character j and
    k = (kernel_size - 1) / 2; the maximum is over all characters of the word

    Adding both embeddings is equivalent to concatenating them before a linear layer. Special tokens and padding have no
    characters, only a word embedding. With ``word_dropout``, words are replaced by the unknown token at random in training, so
    that the model learns to rely on characters.

    Ma and Hovy 2016, https://arxiv.org/abs/1603.01354; word dropout: Lample et al. 2016, https://arxiv.org/abs/1603.01360

    Args:
        word: Embedder of the words; a head can be tied to it.
        char_dim: Size of the character embeddings.
        filters: Number of convolution filters.
        kernel_size: Size of the filters in characters; odd.
        word_dropout: Probability of replacing a word by the unknown token; its characters are kept.
        dropout: Dropout probability of the character embeddings and of the filter outputs.

    Example:
        >>> from weft.core.fields import TextField
        >>> x = Seq(torch.tensor([[7, 8]])).mark(characters=torch.tensor([[[9, 10, 0], [11, 10, 9]]]))
        >>> CharCNN(4, TextField("text", 20, characters=12))(x).data.shape
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
        kernel_size: KernelSize = 3,
        word_dropout: Dropout = 0.0,
        dropout: Dropout = 0.0,
    ):
        super().__init__(dim, field)
        text = require_characters(field)
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {kernel_size}, but must be odd; use {kernel_size + 1}")
        self.word = word(dim, field)
        self.unk, self.word_dropout, self.kernel_size = text.special.unk, word_dropout, kernel_size
        self.letter = nn.Parameter(torch.empty(text.characters, char_dim))
        nn.init.normal_(self.letter)
        self.find = Linear(kernel_size * char_dim, filters)
        self.out = Linear(filters, dim, bias=False)
        self.drop = DropoutLayer(dropout)

    def forward(self, x: Seq) -> Seq:
        if "characters" not in x.marks:
            raise ValueError("char-cnn needs the mark 'characters' (character ids of each word), but the sequence has none")
        word_BTD = self.word(self._drop_words(x)).data
        return x.with_data(word_BTD + self.out(self.drop(self._filter_outputs(x.marks["characters"]))))

    def table(self) -> Tensor:
        return self.word.table()

    def _filter_outputs(self, character_BTC: Tensor) -> Tensor:
        """B x T x F: the maximum of each filter over the characters of each word."""
        character_NC = character_BTC.flatten(0, 1)
        real_NC1 = (character_NC > 0)[..., None]
        c_NCE = self.drop(lookup(self.letter, character_NC, self._out_of_range)).masked_fill(~real_NC1, 0.0)
        output_NCF = self.find(windows(c_NCE, self.kernel_size)).relu()  # not negative, so zeros at padding keep the maximum
        return output_NCF.masked_fill(~real_NC1, 0.0).amax(1).unflatten(0, character_BTC.shape[:2])

    def _out_of_range(self, index: int, word: int, position: int) -> str:
        last = len(self.letter) - 1
        return f"character id {index} (word {word}, character {position}) is out of range; character ids are 0 to {last}"

    def _drop_words(self, x: Seq) -> Seq:
        """Replace words by the unknown token at random; special tokens, which have no characters, are kept."""
        if not self.training or not self.word_dropout or x.data.is_floating_point():
            return x
        dropped_BT = (torch.rand(x.data.shape, device=x.data.device) < self.word_dropout) & (x.marks["characters"] > 0).any(-1)
        return x.with_data(x.data.masked_fill(dropped_BT, self.unk))


def require_characters(field: Field) -> TokenizedField:
    """Return the text field; raise ValueError for a field without character ids."""
    if not isinstance(field, TokenizedField) or not field.characters:
        raise ValueError(
            f"the field {field.name!r} has no character ids; set tokenizer: {{type: word, max_characters: 20}} in the data, "
            "or use the embedder token"
        )
    return field
