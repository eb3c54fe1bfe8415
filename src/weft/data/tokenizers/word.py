"""Text as words and punctuation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers
from tokenizers import models, pre_tokenizers

from weft.core.fields import Special
from weft.core.options import Natural, Vocab
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, count_pieces, most_frequent, spaced, split, surrogate, vocabulary

_MOST_LETTERS = 1000
"""What is assumed of an alphabet before it is known."""
# A text that has the name of a special id in it is a text like any other: the "<" is cut off.
_NAMES = "<(?=(?:" + "|".join(name[1:-1] for name in Special.NAMES) + ")>)"
_WORDS = r"\w+(?:['’\-]\w+)*|[^\w\s]"


@block("word")
class Word(VocabularyTokenizer):
    """One id for each word; punctuation is split off, one id for each sign.

    A word is a run of letters, digits and underscores, with apostrophes and hyphens inside it ("don't", "well-known").
    Words that training did not see, or that did not fit, are ``<unk>``. Decoding is lossy: words are joined by one space,
    with none before closing and none after opening punctuation.

    With ``characters``, a text can also be spelled: each word as the ids of its characters, so that a network can look into
    words, unknown ones too. All characters of the training texts then have ids, the first after the special ones.

    Args:
        size: Most ids, the 7 special ones included; the most frequent words get them.
        lowercase: Whether texts are lower-cased first.
        at: Where texts are cut: at spaces and punctuation, or at spaces alone (texts that are given as words).
        characters: Most characters of a word in its spelling; of a longer word, the first and last ones are kept. 0 = words
            are not spelled, and their characters have no ids.

    Example:
        >>> words = Word(lowercase=True, characters=4)
        >>> words.train(["A dog, a cat (which isn't a dog)."])
        >>> words.decode(words.encode("A   cat isn't a dog ( a Cat )."))
        "a cat isn't a dog (a cat)."
        >>> [words.tokens(word) for word in words.spell("a which")]
        [['a'], ['w', 'h', 'c', 'h']]
    """

    model, cut = "WordLevel", "Sequence"

    def __init__(
        self,
        *,
        size: Vocab = 30_000,
        lowercase: bool = False,
        at: Literal["punctuation", "spaces"] = "punctuation",
        characters: Natural = 0,
    ):
        super().__init__(size=size, lowercase=lowercase)
        self.at = at
        self.characters = characters
        self._letters: dict[str, int] = {}

    def train(self, texts: Iterable[str]) -> None:
        pieces = split(_WORDS if self.at == "punctuation" else _NAMES)
        cut = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pieces])
        counts = count_pieces(map(self.normalise, texts), cut)
        if not counts:
            raise ValueError("there is no text to find words in")
        room = self.size - len(Special.NAMES)
        symbols: list[str] = []
        if self.characters:
            letters: Counter[str] = Counter()
            for word, number in counts.items():
                for letter in word:
                    letters[letter] += number
            symbols = most_frequent(letters, room)
            counts = Counter({word: number for word, number in counts.items() if len(word) > 1})
        ids = vocabulary([*symbols, *most_frequent(counts, room - len(symbols))])
        self.adopt(self.assemble(models.WordLevel(ids, unk_token=Special.NAMES[Special.unk]), cut))

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        super().adopt(inner)
        self._letters = {}
        if self.characters:
            # the file says nothing of letters, but they come first, and a word has more than one character
            first = len(Special.NAMES)
            last = next((n for n in range(first, self.vocab) if len(self.names[n]) > 1), self.vocab)
            letters = {self.names[n]: n for n in range(first, last)}
            if missing := {c for word in self.names[last:] for c in word} - set(letters):
                self._inner = None
                raise ValueError(
                    f"{len(missing)} characters of its words have no id of their own ({' '.join(sorted(missing)[:5])}): it was "
                    "trained without characters, so train it again, or set characters to 0"
                )
            self._letters = letters

    @property
    def letters(self) -> int:
        """Ids that can occur in spellings, the special ones included; 0 where nothing is spelled."""
        if not self.characters:
            return 0
        return len(Special.NAMES) + len(self._letters) if self.trained else min(self.size, _MOST_LETTERS)

    def spell(self, text: str) -> list[list[int]] | None:
        """The ids of the characters of each token, as many lists as ``encode`` gives ids."""
        if not self.characters:
            return None
        cut, get = self.inner.pre_tokenizer, self._letters.get
        assert cut is not None
        if error := surrogate(text):
            raise error
        first, last = self.characters - self.characters // 2, self.characters // 2
        words = [word for word, _ in cut.pre_tokenize_str(self.normalise(text))]
        short = [w if len(w) <= self.characters else w[:first] + w[len(w) - last :] for w in words]
        return [[get(letter, Special.unk) for letter in word] for word in short]

    def join(self, symbols: list[str]) -> str:
        return spaced(symbols) if self.at == "punctuation" else " ".join(symbols)
