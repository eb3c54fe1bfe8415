"""Text as pieces of words: WordPiece, as BERT has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, repeat, starmap

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, count_pieces, most_frequent, spaced, vocabulary

_INSIDE = "##"
_LONGEST = 100
"""Longer words are <unk>, as in BERT."""


@block("wordpiece")
class WordPiece(VocabularyTokenizer):
    """Pieces of words, the longest that fits first; a piece that does not begin a word is marked by ``##``.

    A text is cut at white space and around each sign of punctuation; w = p_1 ##p_2 ... ##p_k, where p_i is the longest piece
    of the vocabulary that the rest of w begins with. A word of which some rest begins with no piece, or that has more than
    100 characters, is ``<unk>``. Pieces are learned by merging frequent neighbours. Decoding is lossy: words are joined by
    one space, with none before closing and none after opening punctuation.

    Schuster and Nakajima 2012; Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        size: Most ids: the 7 special ones, all characters (the most frequent, if there are too many), then longer pieces.
            Fewer when no pair is left that occurs twice.
        lowercase: Whether texts are lower-cased first.
        accents: Whether accents are kept; otherwise é becomes e.
        clean: Whether control characters are removed and all white space becomes spaces.
        ideographs: Whether Chinese characters are words of their own.

    Example:
        >>> pieces = WordPiece(size=24, lowercase=True)
        >>> pieces.train(["low lower lowest", "Low!"])
        >>> pieces.tokens(pieces.encode("Lowest low!"))
        ['lowe', '##s', '##t', 'low', '!']
        >>> pieces.decode(pieces.encode("Lowest low!"))
        'lowest low!'
    """

    model, cut = "WordPiece", "BertPreTokenizer"

    def __init__(
        self,
        *,
        size: Vocab = 8000,
        lowercase: bool = False,
        accents: bool = True,
        clean: bool = True,
        ideographs: bool = True,
    ):
        super().__init__(size=size, lowercase=lowercase)
        self.accents, self.clean, self.ideographs = accents, clean, ideographs

    def normaliser(self) -> normalizers.Normalizer:
        return normalizers.BertNormalizer(
            clean_text=self.clean,
            handle_chinese_chars=self.ideographs,
            strip_accents=not self.accents,
            lowercase=self.lowercase,
        )

    def train(self, texts: Iterable[str]) -> None:
        cut = pre_tokenizers.BertPreTokenizer()
        words = count_pieces(map(self.normalise, texts), cut)
        if not words:
            raise ValueError("there is no text to find pieces of words in")
        symbols: Counter[str] = Counter()
        for word, number in words.items():
            for letter in word:
                symbols[letter] += number
            for letter in word[1:]:
                symbols[_INSIDE + letter] += number
        room = self.size - len(Special.NAMES)
        ids = vocabulary(most_frequent(symbols, room))
        if len(symbols) < room:
            ids = self._merge(words, list(ids))
        unk = Special.NAMES[Special.unk]
        inner = self.assemble(models.WordPiece(ids, unk_token=unk, max_input_chars_per_word=_LONGEST), cut)
        inner.decoder = decoders.WordPiece(prefix=_INSIDE)
        self.adopt(inner)

    def _merge(self, words: Counter[str], symbols: list[str]) -> dict[str, int]:
        """The library numbers characters in the order of a hash table, and breaks ties by it: so they are given to it first."""
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.size,
            min_frequency=2,
            show_progress=False,
            special_tokens=symbols,
            continuing_subword_prefix=_INSIDE,
        )
        trained = tokenizers.Tokenizer(models.WordPiece(unk_token=Special.NAMES[Special.unk]))
        trained.train_from_iterator(chain.from_iterable(starmap(repeat, words.items())), trainer)
        return trained.get_vocab(with_added_tokens=False)

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        normaliser = inner.normalizer
        if not isinstance(normaliser, normalizers.BertNormalizer):
            raise ValueError("not a vocabulary of a WordPiece tokenizer: its normalizer must be a BertNormalizer")
        super().adopt(inner)
        self.lowercase, self.clean = normaliser.lowercase, normaliser.clean_text
        self.accents, self.ideographs = not normaliser.strip_accents, normaliser.handle_chinese_chars

    def join(self, symbols: list[str]) -> str:
        words: list[str] = []
        for symbol in symbols:
            if symbol.startswith(_INSIDE) and words:
                words[-1] += symbol.removeprefix(_INSIDE)
            else:
                words.append(symbol.removeprefix(_INSIDE))
        return spaced(words)
