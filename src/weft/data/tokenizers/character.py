"""Character tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, models

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, most_frequent, split_by, vocabulary


@block("character")
class Character(VocabularyTokenizer):
    """Character tokenizer: one id per Unicode character, spaces included.

    encode(c_1 ... c_n) = id(c_1), ..., id(c_n); characters outside the vocabulary are ``<unk>``. Texts of known characters are
    decoded exactly.

    Args:
        vocab_size: Maximum number of ids, including the 7 special ones, for the most frequent characters.
        lowercase: Whether to lower-case texts.

    Example:
        >>> characters = Character()
        >>> characters.train(["to be"])
        >>> characters.decode(characters.encode("to  bet"))
        'to  bet'
    """

    model, pre_tokenizer = "WordLevel", "Split"

    def __init__(self, *, vocab_size: Vocab = 1000, lowercase: bool = False):
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)
        self._ids: dict[str, int] = {}

    def train(self, texts: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(self.normalize(text))
        if not counts:
            raise ValueError("cannot train the tokenizer: the texts are empty")
        ids = vocabulary(most_frequent(counts, self.vocab_size - len(Special.NAMES)))
        model = models.WordLevel(ids, unk_token=Special.NAMES[Special.unk])
        inner = self.assemble(model, split_by("(?m:.)"))  # in this dialect, m lets the dot match a line feed
        inner.decoder = decoders.Fuse()
        self.adopt(inner)

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        super().adopt(inner)
        self._ids = {name: number for number, name in enumerate(self.names) if number >= len(Special.NAMES)}

    def encode(self, text: str) -> list[int]:
        if not self._ids:
            return super().encode(text)
        # a look-up per character gives the same as the library, several times faster
        get, unk = self._ids.get, Special.unk
        return [get(c, unk) for c in self.normalize(text)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]
