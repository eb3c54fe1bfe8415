"""Text as pieces of words, built from bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import decoders, pre_tokenizers

from weft.core.fields import Special
from weft.core.options import Vocab
from weft.core.registry import block
from weft.data.tokenizers.bpe import learn_merges
from weft.data.tokenizers.byte import ByteLevel, byte_names

_LEAST = len(Special.NAMES) + 256


@block("byte-bpe")
class ByteBPE(ByteLevel):
    """Byte-pair encoding of bytes: no text has an unknown symbol, and every text comes back exactly.

    (a, b) = argmax count(a b); every a b becomes ab, where the first symbols are the 256 bytes of UTF-8. Merges stay inside a
    word, a number or a run of signs, and the space before it belongs to it; English endings ("'s", "'ll") stand alone. (Texts
    that are lower-cased come back in lower case.)

    Radford et al. 2019 (GPT-2)

    Args:
        size: Most ids: the 7 special ones, 256 bytes, then merges; at least 263. Fewer when no pair is left that occurs twice.
        lowercase: Whether texts are lower-cased first.

    Example:
        >>> pieces = ByteBPE(size=270)
        >>> pieces.train(["low lower lowest", "  low"])
        >>> pieces.tokens(pieces.encode("low  löwe"))
        ['low', '▁', '▁', 'l', '\\\\xc3', '\\\\xb6', 'w', 'e']
    """

    def __init__(self, *, size: Vocab = 8000, lowercase: bool = False):
        super().__init__(size=size, lowercase=lowercase)
        if size < _LEAST:
            raise ValueError(
                f"size {size} leaves no room for all bytes: {len(Special.NAMES)} special ids and 256 bytes are {_LEAST}"
            )

    def train(self, texts: Iterable[str]) -> None:
        some = False

        def normalised() -> Iterator[str]:
            nonlocal some
            for text in texts:
                some = some or bool(text)
                yield self.normalise(text)

        cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model = learn_merges(normalised(), cut, list(byte_names()), self.size)
        if not some:
            raise ValueError("there is no text to find pieces of words in")
        inner = self.assemble(model, cut)
        inner.decoder = decoders.ByteLevel()
        self.adopt(inner)

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        if missing := set(byte_names()) - set(inner.get_vocab()):
            raise ValueError(f"not a vocabulary of a ByteBPE tokenizer: {len(missing)} of the 256 bytes are missing")
        super().adopt(inner)
