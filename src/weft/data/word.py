"""Text as words and punctuation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from weft.batch import Special
from weft.catalog import block
from weft.choices import Vocab
from weft.data.vocabulary import VocabularyTokenizer, most_frequent, split, vocabulary

_WORDS = r"\w+(?:['’\-]\w+)*|[^\w\s]"
_CLOSING = frozenset(".,;:!?)]}%…»”")
_OPENING = frozenset("([{«„“¿¡")


@block("word")
class Word(VocabularyTokenizer):
    """One id for each word; punctuation is split off, one id for each sign.

    A word is a run of letters, digits and underscores, with apostrophes and hyphens inside it ("don't", "well-known").
    Words that training did not see, or that did not fit, are ``<unk>``. Decoding is lossy: words are joined by one space,
    with none before closing and none after opening punctuation.

    Args:
        size: Most ids, the 7 special ones included; the most frequent words get them.
        lowercase: Whether texts are lower-cased first.

    Example:
        >>> words = Word(lowercase=True)
        >>> words.train(["A dog, a cat (which isn't a dog)."])
        >>> words.decode(words.encode("A   cat isn't a dog ( a Cat )."))
        "a cat isn't a dog (a cat)."
    """

    model = "WordLevel"

    def __init__(self, *, size: Vocab = 30_000, lowercase: bool = False):
        super().__init__(size=size, lowercase=lowercase)

    def train(self, texts: Iterable[str]) -> None:
        cut = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split(_WORDS)])
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(piece for piece, _ in cut.pre_tokenize_str(self.normalise(text)))
        if not counts:
            raise ValueError("there is no text to find words in")
        ids = vocabulary(most_frequent(counts, self.size - len(Special.NAMES)))
        inner = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=Special.NAMES[Special.unk]))
        if self.lowercase:
            inner.normalizer = normalizers.Lowercase()
        inner.pre_tokenizer = cut
        self.adopt(inner)

    def join(self, symbols: list[str]) -> str:
        text, glue = "", ""
        for symbol in symbols:
            text += ("" if symbol in _CLOSING else glue) + symbol
            glue = "" if symbol in _OPENING else " "
        return text
