"""Mask tokens in the text of requests to a masked language model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from weft.core.contracts import Codec, Tokenizer
from weft.core.fields import Special

NAMES = ("<mask>", "[MASK]")
"""Usual names of the mask token, accepted besides the one of the vocabulary."""


class MaskAwareTokenizer(Tokenizer):
    """Encodes like another tokenizer, and the name of the mask token as the mask id.

    Pretrained tokenizers do that themselves. With others, the text before and after a mask is encoded separately; if tokens
    include the space before them, the space before a mask belongs to it, and the one that starts every text is not doubled.

    Args:
        tokenizer: The other tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer):
        super().__init__()
        self.tokenizer, self.id = tokenizer, tokenizer.special.mask
        self.name = tokenizer.tokens([self.id])[0]
        self.native = tokenizer.encode(self.name) == [self.id]
        self.has_spaces = any(len(token) > 1 and token[0] in "▁Ġ" for token in tokenizer.tokens(range(tokenizer.vocab)))
        self.prepends_space = self.has_spaces and tokenizer.tokens(tokenizer.encode("a"))[0][0] in "▁Ġ"
        self.names = re.compile("|".join(map(re.escape, dict.fromkeys([self.name, *NAMES]))))

    def max_vocab(self) -> int:
        return self.tokenizer.max_vocab()

    @property
    def vocab(self) -> int:
        return self.tokenizer.vocab

    @property
    def special(self) -> Special:
        return self.tokenizer.special

    def encode(self, text: str) -> list[int]:
        if self.native:
            return self.tokenizer.encode(self.names.sub(lambda _: self.name, text))
        ids: list[int] = []
        for index, part in enumerate(parts := self._between_masks(text)):
            ids += [*(self.tokenizer.encode(part) if part else []), *([self.id] if index < len(parts) - 1 else [])]
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return self.tokenizer.tokens(ids)

    @property
    def word_prefix(self) -> str:
        return self.tokenizer.word_prefix

    def spell(self, text: str) -> list[list[int]] | None:
        if self.tokenizer.spell("") is None:
            return None
        characters: list[list[int]] = []
        for index, part in enumerate(parts := self._between_masks(text)):
            characters += [*(self.tokenizer.spell(part) or []), *([[self.special.unk]] if index < len(parts) - 1 else [])]
        return characters

    def _between_masks(self, text: str) -> list[str]:
        first, *others = self.names.split(text)
        parts = [first, *(part.removeprefix(" ") if self.prepends_space else part for part in others)]
        return [*(part.removesuffix(" ") if self.has_spaces else part for part in parts[:-1]), parts[-1]]


def with_mask_tokens(codec: Codec) -> Codec:
    """Return a codec that encodes the name of the mask token as its id, if the vocabulary has one."""
    tokenizers = {space: MaskAwareTokenizer(t) if t.special.mask >= 0 else t for space, t in codec.tokenizers.items()}
    return replace(codec, tokenizers=tokenizers)
