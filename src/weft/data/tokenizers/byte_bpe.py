"""Byte-level byte-pair encoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import decoders, pre_tokenizers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.bpe import learn_merges
from weft.data.tokenizers.byte import ByteLevel, byte_names

_MIN_VOCAB_SIZE = len(Special.NAMES) + 256


@block("byte-bpe")
class ByteBPE(ByteLevel):
    """Byte-level byte-pair encoding: no unknown tokens, and lossless decoding (up to lower-casing).

    (a, b) = argmax count(a b); every a b becomes ab, starting from the 256 bytes of UTF-8. Merges stay within a word, a number
    or a run of symbols, and the space before it belongs to it; English contractions ("'s", "'ll") are separate.

    Radford et al. 2019 (GPT-2)

    Args:
        vocab_size: Maximum number of ids: the 7 special ones, 256 bytes, then merges; at least 263. Fewer if no pair occurs
            twice.
        lowercase: Whether to lower-case texts.

    Example:
        >>> pieces = ByteBPE(vocab_size=270)
        >>> pieces.train(["low lower lowest", "  low"])
        >>> pieces.tokens(pieces.encode("low  löwe"))
        ['low', '▁', '▁', 'l', '\\\\xc3', '\\\\xb6', 'w', 'e']
    """

    def __init__(self, *, vocab_size: Vocab = 8000, lowercase: bool = False):
        super().__init__(vocab_size=vocab_size, lowercase=lowercase)
        if vocab_size < _MIN_VOCAB_SIZE:
            raise ValueError(
                f"vocab_size must be at least {_MIN_VOCAB_SIZE}, not {vocab_size}: {len(Special.NAMES)} special ids and 256 bytes"
            )

    def train(self, texts: Iterable[str]) -> None:
        has_text = False

        def normalized() -> Iterator[str]:
            nonlocal has_text
            for text in texts:
                has_text = has_text or bool(text)
                yield self.normalize(text)

        pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model = learn_merges(normalized(), pre_tokenizer, list(byte_names()), self.vocab_size)
        if not has_text:
            raise ValueError("cannot train the tokenizer: the texts are empty")
        inner = self.assemble(model, pre_tokenizer)
        inner.decoder = decoders.ByteLevel()
        self.adopt(inner)

    @property
    def word_prefix(self) -> str:
        return " "

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        if missing := set(byte_names()) - set(inner.get_vocab()):
            raise ValueError(f"not a vocabulary of a ByteBPE tokenizer: {len(missing)} of the 256 bytes are missing")
        super().adopt(inner)
