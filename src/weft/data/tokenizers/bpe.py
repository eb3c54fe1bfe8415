"""Byte-pair encoding (BPE) of characters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, most_frequent, reiterable, split_by

# A pre-token is a word, a number or a run of symbols, with the space before it; further spaces are separate. "<" is isolated, so
# that no merge can produce the name of a special token.
_PIECES = r"<| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}<]+|\s+(?!\S)|\s+"


def learn_merges(
    texts: Iterable[str], pre_tokenizer: pre_tokenizers.PreTokenizer, alphabet: list[str], vocab_size: int
) -> models.BPE:
    """Train a BPE model with the special tokens, this alphabet, and merges learned by the library."""
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=list(Special.NAMES),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
    )
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizer
    trained.train_from_iterator(texts, trainer)
    learned = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in learned["merges"]]
    return models.BPE(learned["vocab"], merges, unk_token=Special.NAMES[Special.unk])


@block("bpe")
class BPE(VocabularyTokenizer):
    """Byte-pair encoding of characters: merge the most frequent pair of adjacent symbols until the vocabulary is full.

    (a, b) = argmax count(a b); every a b becomes ab. Merges stay within a word, and the space before a word belongs to it, so
    the concatenated tokens are the text: known characters are decoded exactly, including double and leading spaces. Unseen
    characters are ``<unk>``.

    Sennrich, Haddow and Birch 2016, https://arxiv.org/abs/1508.07909

    Args:
        vocab_size: Maximum number of ids: the 7 special ones, all characters (the most frequent, if there are too many), then
            merges. Fewer if no pair occurs twice.
        lowercase: Whether to lower-case texts.

    Example:
        >>> pieces = BPE(vocab_size=20)
        >>> pieces.train(["low lower lowest", "  low"])
        >>> pieces.tokens(pieces.encode("low  lowest"))
        ['low', '▁', '▁lowe', 's', 't']
    """

    model, pre_tokenizer = "BPE", "Split"

    def __init__(self, *, vocab_size: Vocab = 8000, lowercase: bool = False):
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)

    def train(self, texts: Iterable[str]) -> None:
        texts = reiterable(texts)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(self.normalize(text))
        if not counts:
            raise ValueError("cannot train the tokenizer: the texts are empty")
        # the library breaks ties among rare characters by hash-table order: choose the alphabet here
        alphabet = most_frequent(counts, self.vocab_size - len(Special.NAMES))
        model = learn_merges((self.normalize(text) for text in texts), split_by(_PIECES), alphabet, self.vocab_size)
        inner = self.assemble(model, split_by(_PIECES))
        inner.decoder = decoders.Fuse()
        self.adopt(inner)
