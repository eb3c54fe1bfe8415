"""Texts in which a mask stands by its name, for what is asked of a run that fills masks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from weft.core.contracts import Codec, Tokenizer
from weft.core.fields import Special

NAMES = ("<mask>", "[MASK]")
"""What a mask is called in most vocabularies: these names are always understood, besides the vocabulary's own."""


class Masking(Tokenizer):
    """Encodes as another tokenizer does, and the name of the mask as its id.

    A published tokenizer does so itself. Of others, what stands before a mask and what stands after it are encoded by themselves;
    where tokens have the blank before them, that of the mask is a part of it, and one that begins every text is not doubled.

    Args:
        tokenizer: The other one.
    """

    def __init__(self, tokenizer: Tokenizer):
        super().__init__()
        self.tokenizer, self.id = tokenizer, tokenizer.special.mask
        self.name = tokenizer.tokens([self.id])[0]
        self.itself = tokenizer.encode(self.name) == [self.id]
        self.blanks = any(len(token) > 1 and token[0] in "▁Ġ" for token in tokenizer.tokens(range(tokenizer.vocab)))
        self.begins = self.blanks and tokenizer.tokens(tokenizer.encode("a"))[0][0] in "▁Ġ"
        self.names = re.compile("|".join(map(re.escape, dict.fromkeys([self.name, *NAMES]))))

    @property
    def vocab(self) -> int:
        return self.tokenizer.vocab

    @property
    def special(self) -> Special:
        return self.tokenizer.special

    def encode(self, text: str) -> list[int]:
        if self.itself:
            return self.tokenizer.encode(self.names.sub(lambda _: self.name, text))
        ids: list[int] = []
        for number, part in enumerate(parts := self._parts(text)):
            ids += [*(self.tokenizer.encode(part) if part else []), *([self.id] if number < len(parts) - 1 else [])]
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def spell(self, text: str) -> list[list[int]] | None:
        if self.tokenizer.spell("") is None:
            return None
        spelled: list[list[int]] = []
        for number, part in enumerate(parts := self._parts(text)):
            spelled += [*(self.tokenizer.spell(part) or []), *([[self.special.unk]] if number < len(parts) - 1 else [])]
        return spelled

    def _parts(self, text: str) -> list[str]:
        """What stands between the masks."""
        first, *others = self.names.split(text)
        parts = [first, *(part.removeprefix(" ") if self.begins else part for part in others)]
        return [*(part.removesuffix(" ") if self.blanks else part for part in parts[:-1]), parts[-1]]


def with_masks(codec: Codec) -> Codec:
    """The same codec, but the name of a mask in a text is its id, where the vocabulary has one."""
    masking = {space: Masking(one) if one.special.mask >= 0 else one for space, one in codec.tokenizers.items()}
    return replace(codec, tokenizers=masking)
