"""What all tokenizers with a vocabulary share: the special ids, decoding, and the file.

The state is one object of the library ``tokenizers``, and the file is the library's own tokenizer.json, so other programs
can read it. The special ids stand in the vocabulary under their names but are not *added tokens* of the library: a text in
which somebody wrote "<eos>" is a text like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from weft.core.contracts import Tokenizer
from weft.core.fields import Special

UNKNOWN = "\ufffd"
"""What an unknown symbol is decoded to."""

_AT_ONCE = 1024
"""Texts that the library encodes in one call: it keeps far more of each than its ids."""
_CLOSING = frozenset(".,;:!?)]}%…»”")
_OPENING = frozenset("([{«„“¿¡")


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    """Cut a text at the matches of a regular expression; every match is a piece."""
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


def most_frequent(counts: Mapping[str, int], most: int) -> list[str]:
    """The ``most`` frequent symbols, equally frequent ones by their code: the same in every process."""
    return sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:most]


def vocabulary(symbols: Iterable[str]) -> dict[str, int]:
    """Ids of the special names and then of these symbols."""
    return {name: number for number, name in enumerate([*Special.NAMES, *symbols])}


def again(texts: Iterable[str]) -> Iterable[str]:
    """Texts that can be gone through more than once. Only an iterator, which runs dry, has to be kept as a list for that."""
    return list(texts) if isinstance(texts, Iterator) else texts


def count_pieces(texts: Iterable[str], cut: pre_tokenizers.PreTokenizer) -> Counter[str]:
    """How often each piece occurs, in one pass: what is held is one of each."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update([piece for piece, _ in cut.pre_tokenize_str(text)])
    return counts


def spaced(words: Iterable[str]) -> str:
    """Words with a space between them, but none before closing and none after opening punctuation."""
    parts: list[str] = []
    glue = ""
    for word in words:
        parts += ["" if word in _CLOSING else glue, word]
        glue = "" if word in _OPENING else " "
    return "".join(parts)


def which_continue(names: Sequence[str]) -> list[bool]:
    """For each symbol, whether it goes on with the word before it: by WordPiece's ``##``, or as it has no space before it where
    others have one. Punctuation is a word of its own."""
    if any(name.startswith("##") and len(name) > 2 for name in names):
        return [name.startswith("##") for name in names]
    counts = {mark: sum(name.startswith(mark) for name in names) for mark in (" ", "Ġ", "▁")}
    mark = max(counts, key=lambda m: counts[m])
    if not counts[mark]:
        return [False] * len(names)
    special = frozenset(Special.NAMES)
    return [name not in special and not name.startswith(mark) and any(c.isalnum() for c in name) for name in names]


def survives(tokenizer: Tokenizer, text: str) -> bool:
    """Whether the text comes back exactly when its ids are decoded: every letter, its case, every space."""
    return tokenizer.decode(tokenizer.encode(text)) == text


class VocabularyTokenizer(Tokenizer):
    """A tokenizer that looks symbols up. Subclasses write ``train`` and say which ``model`` of the library they are.

    Args:
        size: Most ids, the 7 special ones included.
        lowercase: Whether texts are lower-cased first.
    """

    model: str
    """The library's name of the model."""
    cut: str
    """The library's name of what cuts a text before the model sees it."""

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
    def trained(self) -> bool:
        return self._inner is not None

    @property
    def names(self) -> list[str]:
        """The symbol of each id."""
        return self._names if self.inner else []

    @property
    def vocab(self) -> int:
        return len(self.names)

    def continues(self) -> list[bool]:
        return which_continue(self.names) if self.trained else []

    def sentence_ends(self) -> list[int]:
        return [i for i, name in enumerate(self.names if self.trained else []) if name.lstrip(" Ġ▁") in (".", "!", "?")]

    def encode(self, text: str) -> list[int]:
        try:
            return self.inner.encode(text, add_special_tokens=False).ids
        except TypeError:
            raise _not_a_text([text]) from None

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """All at once, on all cores. Equal to ``encode`` one by one."""
        inner, ids = self.inner, []
        for start in range(0, len(texts), _AT_ONCE):
            some = list(texts[start : start + _AT_ONCE])
            try:
                ids += [one.ids for one in inner.encode_batch_fast(some, add_special_tokens=False)]
            except TypeError:
                raise _not_a_text(some, start) from None
        return ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        try:
            return self.inner.encode(text, add_special_tokens=False).offsets
        except TypeError:
            raise _not_a_text([text]) from None

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

    def normaliser(self) -> normalizers.Normalizer | None:
        """What is done to a text before it is cut."""
        return normalizers.Lowercase() if self.lowercase else None

    def normalise(self, text: str) -> str:
        normaliser = self.normaliser()
        return normaliser.normalize_str(text) if normaliser else text

    def assemble(self, model: tokenizers.models.Model, cut: pre_tokenizers.PreTokenizer) -> tokenizers.Tokenizer:
        """A tokenizer of the library: normalise, cut, look up."""
        inner = tokenizers.Tokenizer(model)
        if normaliser := self.normaliser():
            inner.normalizer = normaliser
        inner.pre_tokenizer = cut
        return inner

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        """Take over a tokenizer of the library whose ids 0 to 6 are the special ones."""
        found = {number: name for name, number in inner.get_vocab(with_added_tokens=True).items()}
        names = [found.get(number, "") for number in range(len(found))]
        kind = (type(inner.model).__name__, type(inner.pre_tokenizer).__name__)
        if kind != (self.model, self.cut) or tuple(names[: len(Special.NAMES)]) != Special.NAMES or "" in names:
            raise ValueError(
                f"not a vocabulary of a {type(self).__name__} tokenizer (ids 0 to 6 must be {', '.join(Special.NAMES)})"
            )
        self._inner, self._names = inner, names
        self.lowercase = inner.normalizer is not None and "a" in inner.normalizer.normalize_str("A")

    def save(self, file: Path) -> None:
        """Write tokenizer.json: first beside it, then moved, so that the file is always whole."""
        file, text = Path(file), self.inner.to_str(pretty=True)
        new = file.with_name(file.name + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(file)

    def load(self, file: Path) -> None:
        text = read(file)
        try:
            self.adopt(tokenizers.Tokenizer.from_str(text))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file}: {error}") from None


def read(file: Path | str) -> str:
    """The text of a vocabulary's file."""
    try:
        return Path(file).read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ValueError(f"{file}: there is no such file, but the tokenizer's vocabulary should be there") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: cannot be read: {error}") from None


def surrogate(text: str) -> ValueError | None:
    """The error for half a character (a lone surrogate), which no UTF-8 file can have."""
    at = next((n for n, c in enumerate(text) if "\ud800" <= c <= "\udfff"), None)
    if at is None:
        return None
    return ValueError(
        f"character {at} of the text is the lone surrogate U+{ord(text[at]):04X}, which is half a character and has no UTF-8: "
        "read the text with the right encoding, or leave it out"
    )


def _not_a_text(texts: Sequence[str], start: int = 0) -> Exception:
    for number, text in enumerate(texts, start):
        if not isinstance(text, str):
            return TypeError(f"a text must be a str, not {type(text).__name__} (text {number})")
        if error := surrogate(text):
            return error
    return TypeError("the texts cannot be encoded")
