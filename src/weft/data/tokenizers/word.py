"""Word tokenizer: words and punctuation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers
from tokenizers import models, pre_tokenizers

from weft.core.fields import Special
from weft.core.options import Natural, Vocab
from weft.core.registry import block
from weft.data.tokenizers.patterns import WORDS
from weft.data.tokenizers.vocabulary import (
    VocabularyTokenizer,
    count_pieces,
    detokenize,
    most_frequent,
    split_by,
    surrogate_error,
    vocabulary,
)

_ASSUMED_CHARACTERS = 1000
"""Assumed size of the alphabet before training."""
# The name of a special token in a text is ordinary text: the "<" is split off.
_NAMES = "<(?=(?:" + "|".join(name[1:-1] for name in Special.NAMES) + ")>)"


@block("word")
class Word(VocabularyTokenizer):
    """Word tokenizer: one id per word and per punctuation mark, with optional character features.

    A word is a run of letters, digits and underscores, with apostrophes and hyphens inside it ("don't", "well-known"). Words
    outside the vocabulary are ``<unk>``. Decoding is lossy: words are joined by one space, without one before closing and
    after opening punctuation.

    With ``max_characters``, every token also has the ids of its characters, the input of a character CNN, even for unknown
    words. All characters of the training texts then have ids, directly after the special ones.

    Args:
        vocab_size: Maximum number of ids, including the 7 special ones, for the most frequent words.
        lowercase: Whether to lower-case texts.
        split: Where to split texts: at white space and around ``punctuation``, or at ``whitespace`` only (pretokenized text).
        max_characters: Maximum number of characters per word; of a longer word, the first and last ones are kept. 0 = no
            character ids.

    Example:
        >>> words = Word(lowercase=True, max_characters=4)
        >>> words.train(["A dog, a cat (which isn't a dog)."])
        >>> words.decode(words.encode("A   cat isn't a dog ( a Cat )."))
        "a cat isn't a dog (a cat)."
        >>> [words.tokens(word) for word in words.spell("a which")]
        [['a'], ['w', 'h', 'c', 'h']]
    """

    model, pre_tokenizer = "WordLevel", "Sequence"

    def __init__(
        self,
        *,
        vocab_size: Vocab = 30_000,
        lowercase: bool = False,
        split: Literal["punctuation", "whitespace"] = "punctuation",
        max_characters: Natural = 0,
    ):
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)
        self.split = split
        self.max_characters = max_characters
        self._characters: dict[str, int] = {}

    def train(self, texts: Iterable[str]) -> None:
        inside = split_by(WORDS if self.split == "punctuation" else _NAMES)
        pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), inside])
        counts = count_pieces(map(self.normalize, texts), pre_tokenizer)
        if not counts:
            raise ValueError("cannot train the tokenizer: the texts are empty")
        limit = self.vocab_size - len(Special.NAMES)
        symbols: list[str] = []
        if self.max_characters:
            characters: Counter[str] = Counter()
            for word, count in counts.items():
                for character in word:
                    characters[character] += count
            symbols = most_frequent(characters, limit)
            counts = Counter({word: count for word, count in counts.items() if len(word) > 1})
        ids = vocabulary([*symbols, *most_frequent(counts, limit - len(symbols))])
        self.adopt(self.assemble(models.WordLevel(ids, unk_token=Special.NAMES[Special.unk]), pre_tokenizer))

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        super().adopt(inner)
        self._characters = {}
        if self.max_characters:
            # the file does not mark characters, but they come first, and a word has more than one character
            first = len(Special.NAMES)
            last = next((n for n in range(first, self.vocab) if len(self.names[n]) > 1), self.vocab)
            characters = {self.names[n]: n for n in range(first, last)}
            if missing := {c for word in self.names[last:] for c in word} - set(characters):
                self._inner = None
                raise ValueError(
                    f"{len(missing)} characters of its words have no id ({' '.join(sorted(missing)[:5])}): the vocabulary was "
                    "trained without max_characters; train it again, or set max_characters: 0"
                )
            self._characters = characters

    @property
    def character_vocab(self) -> int:
        """Number of ids of characters, including the special ones; 0 without character ids."""
        if not self.max_characters:
            return 0
        return len(Special.NAMES) + len(self._characters) if self.trained else min(self.vocab_size, _ASSUMED_CHARACTERS)

    def spell(self, text: str) -> list[list[int]] | None:
        """Return the character ids of each token of ``encode``; None without character ids."""
        if not self.max_characters:
            return None
        pre_tokenizer, get = self.inner.pre_tokenizer, self._characters.get
        assert pre_tokenizer is not None
        if error := surrogate_error(text):
            raise error
        first, last = self.max_characters - self.max_characters // 2, self.max_characters // 2
        words = [word for word, _ in pre_tokenizer.pre_tokenize_str(self.normalize(text))]
        short = [w if len(w) <= self.max_characters else w[:first] + w[len(w) - last :] for w in words]
        return [[get(character, Special.unk) for character in word] for word in short]

    def join(self, symbols: list[str]) -> str:
        return detokenize(symbols) if self.split == "punctuation" else " ".join(symbols)
