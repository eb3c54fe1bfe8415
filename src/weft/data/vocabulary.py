"""What all tokenizers with a vocabulary share: the special ids, decoding, and the file.

The state is one object of the library ``tokenizers``, and the file is the library's own tokenizer.json, so other programs
can read it. The special ids stand in the vocabulary under their names but are not *added tokens* of the library: a text in
which somebody wrote "<eos>" is a text like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from weft.batch import Special
from weft.slots import Tokenizer

UNKNOWN = "\ufffd"
"""What an unknown symbol is decoded to."""


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    """Cut a text at the matches of a regular expression; every match is a piece."""
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


def most_frequent(counts: Mapping[str, int], most: int) -> list[str]:
    """The ``most`` frequent symbols, equally frequent ones by their code: the same in every process."""
    return sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:most]


def vocabulary(symbols: Iterable[str]) -> dict[str, int]:
    """Ids of the special names and then of these symbols."""
    return {name: number for number, name in enumerate([*Special.NAMES, *symbols])}


class VocabularyTokenizer(Tokenizer):
    """A tokenizer that looks symbols up. Subclasses write ``train`` and say which ``model`` of the library they are.

    Args:
        size: Most ids, the 7 special ones included.
        lowercase: Whether texts are lower-cased first.
    """

    model: str

    def __init__(self, *, size: int, lowercase: bool):
        if size <= len(Special.NAMES):
            raise ValueError(f"size {size} leaves no id for text: {len(Special.NAMES)} are special, so give at least 8")
        self.size, self.lowercase = size, lowercase
        self._inner: tokenizers.Tokenizer | None = None
        self._names: list[str] = []

    def bound(self) -> int:
        return self.size

    @property
    def inner(self) -> tokenizers.Tokenizer:
        """The library's tokenizer."""
        if self._inner is None:
            raise ValueError(f"this {type(self).__name__} tokenizer has no vocabulary yet: call train(texts) or load(file) first")
        return self._inner

    @property
    def names(self) -> list[str]:
        """The symbol of each id."""
        return self._names if self.inner else []

    @property
    def vocab(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids. Special ids are left out, except that an unknown symbol becomes U+FFFD."""
        return self.join(self.symbols(ids))

    def join(self, symbols: list[str]) -> str:
        return "".join(symbols)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        """The texts that these ids stand for, special ones left out."""
        first, unk, names = len(Special.NAMES), Special.unk, self._checked(ids)
        return [names[i] if i >= first else UNKNOWN for i in map(int, ids) if i >= first or i == unk]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        names = self._checked(ids)
        return [names[int(i)].replace(" ", "▁") for i in ids]

    def _checked(self, ids: Sequence[int]) -> list[str]:
        names = self.names
        if len(ids) and (min(ids) < 0 or max(ids) >= len(names)):
            raise ValueError(f"ids must lie in 0 .. {len(names) - 1}, but they reach from {min(ids)} to {max(ids)}")
        return names

    def normalise(self, text: str) -> str:
        return normalizers.Lowercase().normalize_str(text) if self.lowercase else text

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        """Take over a tokenizer of the library whose ids 0 to 6 are the special ones."""
        found = {number: name for name, number in inner.get_vocab(with_added_tokens=True).items()}
        names = [found.get(number, "") for number in range(len(found))]
        if type(inner.model).__name__ != self.model or tuple(names[: len(Special.NAMES)]) != Special.NAMES or "" in names:
            raise ValueError(
                f"not a vocabulary of a {type(self).__name__} tokenizer (ids 0 to 6 must be {', '.join(Special.NAMES)})"
            )
        self._inner, self._names = inner, names
        self.lowercase = isinstance(inner.normalizer, normalizers.Lowercase)

    def save(self, file: Path) -> None:
        """Write tokenizer.json: first beside it, then moved, so that the file is always whole."""
        file, text = Path(file), self.inner.to_str(pretty=True)
        new = file.with_name(file.name + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(file)

    def load(self, file: Path) -> None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ValueError(f"{file}: there is no such file, but the tokenizer's vocabulary should be there") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{file}: cannot be read: {error}") from None
        try:
            self.adopt(tokenizers.Tokenizer.from_str(text))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file}: {error}") from None
