"""WordPiece, the tokenizer of BERT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, repeat, starmap

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, count_pieces, detokenize, most_frequent, vocabulary

_PREFIX = "##"
_MAX_WORD = 100
"""Maximum characters of a word; longer words are <unk>, as in BERT."""


@block("wordpiece")
class WordPiece(VocabularyTokenizer):
    """WordPiece: greedy longest-match subwords; a subword that does not start a word has the prefix ``##``.

    Texts are split at white space and around punctuation; w = p_1 ##p_2 ... ##p_k, where p_i is the longest subword of the
    vocabulary that is a prefix of the rest of w. A word without such a segmentation, or of more than 100 characters, is
    ``<unk>``. The vocabulary is learned by merging frequent adjacent pairs. Decoding is lossy: words are joined by one space,
    without one before closing and after opening punctuation.

    Schuster and Nakajima 2012; Devlin et al. 2019 (BERT), https://arxiv.org/abs/1810.04805

    Args:
        vocab_size: Maximum number of ids: the 7 special ones, all characters (the most frequent, if there are too many), then
            longer subwords. Fewer if no pair occurs twice.
        lowercase: Whether to lower-case texts.
        strip_accents: Whether to remove accents: é becomes e.
        clean_text: Whether to remove control characters and replace all white space by spaces.
        handle_chinese_chars: Whether every Chinese character is a word.

    Example:
        >>> pieces = WordPiece(vocab_size=24, lowercase=True)
        >>> pieces.train(["low lower lowest", "Low!"])
        >>> pieces.tokens(pieces.encode("Lowest low!"))
        ['lowe', '##s', '##t', 'low', '!']
        >>> pieces.decode(pieces.encode("Lowest low!"))
        'lowest low!'
    """

    model, pre_tokenizer = "WordPiece", "BertPreTokenizer"

    def __init__(
        self,
        *,
        vocab_size: Vocab = 8000,
        lowercase: bool = False,
        strip_accents: bool = False,
        clean_text: bool = True,
        handle_chinese_chars: bool = True,
    ):
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)
        self.strip_accents, self.clean_text, self.handle_chinese_chars = strip_accents, clean_text, handle_chinese_chars

    def normalizer(self) -> normalizers.Normalizer:
        return normalizers.BertNormalizer(
            clean_text=self.clean_text,
            handle_chinese_chars=self.handle_chinese_chars,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )

    def train(self, texts: Iterable[str]) -> None:
        pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        words = count_pieces(map(self.normalize, texts), pre_tokenizer)
        if not words:
            raise ValueError("cannot train the tokenizer: the texts are empty")
        symbols: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                symbols[character] += count
            for character in word[1:]:
                symbols[_PREFIX + character] += count
        limit = self.vocab_size - len(Special.NAMES)
        ids = vocabulary(most_frequent(symbols, limit))
        if len(symbols) < limit:
            ids = self._merge(words, list(ids))
        unk = Special.NAMES[Special.unk]
        inner = self.assemble(models.WordPiece(ids, unk_token=unk, max_input_chars_per_word=_MAX_WORD), pre_tokenizer)
        inner.decoder = decoders.WordPiece(prefix=_PREFIX)
        self.adopt(inner)

    def _merge(self, words: Counter[str], symbols: list[str]) -> dict[str, int]:
        """Train with the library. It orders characters by hash table, so they are passed to it as special tokens, in order."""
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.vocab_size,
            min_frequency=2,
            show_progress=False,
            special_tokens=symbols,
            continuing_subword_prefix=_PREFIX,
        )
        trained = tokenizers.Tokenizer(models.WordPiece(unk_token=Special.NAMES[Special.unk]))
        trained.train_from_iterator(chain.from_iterable(starmap(repeat, words.items())), trainer)
        return trained.get_vocab(with_added_tokens=False)

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        normalizer = inner.normalizer
        if not isinstance(normalizer, normalizers.BertNormalizer):
            raise ValueError("not a vocabulary of a WordPiece tokenizer; its normalizer must be a BertNormalizer")
        super().adopt(inner)
        self.lowercase, self.clean_text = normalizer.lowercase, normalizer.clean_text
        self.strip_accents = bool(normalizer.strip_accents)
        self.handle_chinese_chars = normalizer.handle_chinese_chars

    def join(self, symbols: list[str]) -> str:
        words: list[str] = []
        for symbol in symbols:
            if symbol.startswith(_PREFIX) and words:
                words[-1] += symbol.removeprefix(_PREFIX)
            else:
                words.append(symbol.removeprefix(_PREFIX))
        return detokenize(words)
