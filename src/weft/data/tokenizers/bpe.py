"""Text as pieces of words: byte-pair encoding."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.vocabulary import VocabularyTokenizer, again, most_frequent, split

# A piece is a word, a number or a run of signs, with the space before it; further spaces are pieces of their own. "<" stands
# alone, so that no merge can ever spell the name of a special id.
_PIECES = r"<| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}<]+|\s+(?!\S)|\s+"


def learn_merges(texts: Iterable[str], cut: pre_tokenizers.PreTokenizer, alphabet: list[str], size: int) -> models.BPE:
    """Byte-pair encoding with the special ids, this alphabet, and the merges that the library finds in the texts."""
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        special_tokens=list(Special.NAMES),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
    )
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = cut
    trained.train_from_iterator(texts, trainer)
    learned = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in learned["merges"]]
    return models.BPE(learned["vocab"], merges, unk_token=Special.NAMES[Special.unk])


@block("bpe")
class BPE(VocabularyTokenizer):
    """Byte-pair encoding of characters: the most frequent neighbours are merged, again and again, until the vocabulary is full.

    (a, b) = argmax count(a b); every a b becomes ab. Merges stay inside a word, and the space before it belongs to the word.
    So the tokens of a text, put together, are the text: one of known characters comes back exactly, double and leading
    spaces too. Characters that training did not see are ``<unk>``.

    Sennrich, Haddow and Birch 2016, https://arxiv.org/abs/1508.07909

    Args:
        size: Most ids: the 7 special ones, all characters (the most frequent, if there are too many), then merges. Fewer when
            no pair is left that occurs twice.
        lowercase: Whether texts are lower-cased first.

    Example:
        >>> pieces = BPE(size=20)
        >>> pieces.train(["low lower lowest", "  low"])
        >>> pieces.tokens(pieces.encode("low  lowest"))
        ['low', '▁', '▁lowe', 's', 't']
    """

    model, cut = "BPE", "Split"

    def __init__(self, *, size: Vocab = 8000, lowercase: bool = False):
        super().__init__(size=size, lowercase=lowercase)

    def train(self, texts: Iterable[str]) -> None:
        texts = again(texts)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(self.normalise(text))
        if not counts:
            raise ValueError("there is no text to find pieces of words in")
        # the library breaks ties among rare characters by the order of a hash table: choose the alphabet here
        alphabet = most_frequent(counts, self.size - len(Special.NAMES))
        model = learn_merges((self.normalise(text) for text in texts), split(_PIECES), alphabet, self.size)
        inner = self.assemble(model, split(_PIECES))
        inner.decoder = decoders.Fuse()
        self.adopt(inner)
