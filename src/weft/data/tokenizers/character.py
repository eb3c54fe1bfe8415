"""Text as single characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, models

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, most_frequent, split, vocabulary


@block("character")
class Character(VocabularyTokenizer):
    """One id for each Unicode character, spaces included.

    encode(c_1 ... c_n) = id(c_1), ..., id(c_n); characters that training did not see, or that did not fit, are ``<unk>``.
    A text of known characters comes back exactly.

    Args:
        size: Most ids, the 7 special ones included; the most frequent characters get them.
        lowercase: Whether texts are lower-cased first.

    Example:
        >>> characters = Character()
        >>> characters.train(["to be"])
        >>> characters.decode(characters.encode("to  bet"))
        'to  bet'
    """

    model, cut = "WordLevel", "Split"

    def __init__(self, *, size: Vocab = 1000, lowercase: bool = False):
        super().__init__(size=size, lowercase=lowercase)
        self._ids: dict[str, int] = {}

    def train(self, texts: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(self.normalise(text))
        if not counts:
            raise ValueError("there is no text to find characters in")
        ids = vocabulary(most_frequent(counts, self.size - len(Special.NAMES)))
        model = models.WordLevel(ids, unk_token=Special.NAMES[Special.unk])
        inner = self.assemble(model, split("(?m:.)"))  # in this dialect, m lets the dot match a line end
        inner.decoder = decoders.Fuse()
        self.adopt(inner)

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        super().adopt(inner)
        self._ids = {name: number for number, name in enumerate(self.names) if number >= len(Special.NAMES)}

    def encode(self, text: str) -> list[int]:
        if not self._ids:
            return super().encode(text)
        # a look-up per character is several times faster than the library, which gives the same
        get, unk = self._ids.get, Special.unk
        return [get(c, unk) for c in self.normalise(text)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]
