"""Base class of tokenizers with a vocabulary: special ids, decoding, and the file format.

The state is one object of the library ``tokenizers``, and the file is its tokenizer.json. The special ids are in the vocabulary
under their names but are not *added tokens* of the library: the text "<eos>" is ordinary text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from weft.core.contracts import Tokenizer
from weft.core.fields import Special
from weft.core.io import MAX_VOCABULARY_BYTES, read_bytes, write_text
from weft.data.tokenizers.tokenizer_json import library_errors, open_tokenizer

UNKNOWN = "\ufffd"
"""The replacement character, to which unknown tokens are decoded."""

_BATCH_TEXTS = 1024
"""Texts per call of the library, which stores far more than their ids."""
_CLOSING = frozenset(".,;:!?)]}%…»”")
_OPENING = frozenset("([{«„“¿¡")


def split_by(pattern: str) -> pre_tokenizers.PreTokenizer:
    """Return a pre-tokenizer that isolates the matches of a regular expression."""
    return pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")


def most_frequent(counts: Mapping[str, int], limit: int) -> list[str]:
    """Return the ``limit`` most frequent symbols, ties by code point: deterministic."""
    return sorted(counts, key=lambda symbol: (-counts[symbol], symbol))[:limit]


def vocabulary(symbols: Iterable[str]) -> dict[str, int]:
    """Return the ids of the special tokens and then of these symbols."""
    return {name: number for number, name in enumerate([*Special.NAMES, *symbols])}


def reiterable(texts: Iterable[str]) -> Iterable[str]:
    """Return texts that can be iterated more than once; only an iterator is stored as a list."""
    return list(texts) if isinstance(texts, Iterator) else texts


def count_pieces(texts: Iterable[str], pre_tokenizer: pre_tokenizers.PreTokenizer) -> Counter[str]:
    """Count the pieces of texts, in one pass with memory for the distinct ones."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update([piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)])
    return counts


def detokenize(words: Iterable[str]) -> str:
    """Join words with spaces, except before closing and after opening punctuation."""
    parts: list[str] = []
    glue = ""
    for word in words:
        parts += ["" if word in _CLOSING else glue, word]
        glue = "" if word in _OPENING else " "
    return "".join(parts)


def which_continue(names: Sequence[str]) -> list[bool]:
    """Return for each symbol whether it continues the previous word: by the prefix ``##`` of WordPiece, or because it lacks the
    leading space that other symbols have. Punctuation is a word of its own."""
    if any(name.startswith("##") and len(name) > 2 for name in names):
        return [name.startswith("##") for name in names]
    counts = {mark: sum(name.startswith(mark) for name in names) for mark in (" ", "Ġ", "▁")}
    mark = max(counts, key=lambda m: counts[m])
    if not counts[mark]:
        return [False] * len(names)
    special = frozenset(Special.NAMES)
    return [name not in special and not name.startswith(mark) and any(c.isalnum() for c in name) for name in names]


def is_lossless(tokenizer: Tokenizer, text: str) -> bool:
    """Return whether decoding the ids of a text restores it exactly."""
    return tokenizer.decode(tokenizer.encode(text)) == text


class VocabularyTokenizer(Tokenizer):
    """Base class of tokenizers with a vocabulary, backed by the library ``tokenizers``.

    Subclasses implement ``train`` and set ``model`` and ``pre_tokenizer``.

    Args:
        vocab_size: Maximum number of ids, including the 7 special ones.
        lowercase: Whether to lower-case texts.
    """

    model: str
    """Class name of the model in the library."""
    pre_tokenizer: str
    """Class name of the pre-tokenizer in the library."""

    def __init__(self, *, vocab_size: int, lowercase: bool):
        if vocab_size <= len(Special.NAMES):
            raise ValueError(f"vocab_size must be at least 8, not {vocab_size}: {len(Special.NAMES)} ids are special tokens")
        self.vocab_size, self.lowercase = vocab_size, lowercase
        self._inner: tokenizers.Tokenizer | None = None
        self._names: list[str] = []

    def max_vocab(self) -> int:
        return self.vocab_size

    @property
    def inner(self) -> tokenizers.Tokenizer:
        """The tokenizer of the library."""
        if self._inner is None:
            raise ValueError(f"the {type(self).__name__} tokenizer is not trained; call train(texts) or load(file) first")
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
            with library_errors():
                return self.inner.encode(text, add_special_tokens=False).ids
        except TypeError:
            raise _not_a_text([text]) from None

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts in parallel; equal to ``encode`` of each."""
        inner, ids = self.inner, []
        for start in range(0, len(texts), _BATCH_TEXTS):
            batch = list(texts[start : start + _BATCH_TEXTS])
            try:
                with library_errors():
                    ids += [one.ids for one in inner.encode_batch_fast(batch, add_special_tokens=False)]
            except TypeError:
                raise _not_a_text(batch, start) from None
        return ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        try:
            with library_errors():
                return self.inner.encode(text, add_special_tokens=False).offsets
        except TypeError:
            raise _not_a_text([text]) from None

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids. Special tokens are skipped, except that <unk> becomes U+FFFD."""
        return self.join(self.symbols(ids))

    def join(self, symbols: list[str]) -> str:
        return "".join(symbols)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        """Return the symbols of ids, without special tokens."""
        first, unk, names = len(Special.NAMES), Special.unk, self._checked(ids)
        return [names[i] if i >= first else UNKNOWN for i in map(int, ids) if i >= first or i == unk]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        names = self._checked(ids)
        return [names[int(i)].replace(" ", "▁") for i in ids]

    def _checked(self, ids: Sequence[int]) -> list[str]:
        names = self.names
        if len(ids) and (min(ids) < 0 or max(ids) >= len(names)):
            raise ValueError(f"ids must be in 0 .. {len(names) - 1}, not {min(ids)} to {max(ids)}")
        return names

    def normalizer(self) -> normalizers.Normalizer | None:
        """The normalizer that is applied before pre-tokenization."""
        return normalizers.Lowercase() if self.lowercase else None

    def normalize(self, text: str) -> str:
        normalizer = self.normalizer()
        return normalizer.normalize_str(text) if normalizer else text

    def assemble(self, model: tokenizers.models.Model, pre_tokenizer: pre_tokenizers.PreTokenizer) -> tokenizers.Tokenizer:
        """Build a tokenizer of the library: normalizer, pre-tokenizer, model."""
        inner = tokenizers.Tokenizer(model)
        if normalizer := self.normalizer():
            inner.normalizer = normalizer
        inner.pre_tokenizer = pre_tokenizer
        return inner

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        """Use a tokenizer of the library, whose ids 0 to 6 must be the special tokens."""
        found = {number: name for name, number in inner.get_vocab(with_added_tokens=True).items()}
        names = [found.get(number, "") for number in range(len(found))]
        kind = (type(inner.model).__name__, type(inner.pre_tokenizer).__name__)
        if kind != (self.model, self.pre_tokenizer) or tuple(names[: len(Special.NAMES)]) != Special.NAMES or "" in names:
            raise ValueError(
                f"not a vocabulary of a {type(self).__name__} tokenizer; ids 0 to 6 must be {', '.join(Special.NAMES)}"
            )
        self._inner, self._names = inner, names
        self.lowercase = inner.normalizer is not None and "a" in inner.normalizer.normalize_str("A")

    def save(self, file: Path) -> None:
        """Write tokenizer.json atomically."""
        write_text(file, self.inner.to_str(pretty=True))

    def load(self, file: Path) -> None:
        text = read_vocabulary(file)
        try:
            self.adopt(open_tokenizer(text))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file}: {error}") from None


def read_vocabulary(file: Path | str) -> str:
    """Return the content of a vocabulary file."""
    try:
        return read_bytes(file, MAX_VOCABULARY_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise ValueError(f"{file}: file not found; it should have the vocabulary of the tokenizer") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: cannot be read: {error}") from None


def surrogate_error(text: str) -> ValueError | None:
    """Return the error for a text with a lone surrogate, which UTF-8 cannot encode; None if there is none."""
    at = next((n for n, c in enumerate(text) if "\ud800" <= c <= "\udfff"), None)
    if at is None:
        return None
    return ValueError(
        f"character {at} of the text is the lone surrogate U+{ord(text[at]):04X}, which UTF-8 cannot encode; read the text "
        "with the right encoding, or leave it out"
    )


def _not_a_text(texts: Sequence[str], start: int = 0) -> Exception:
    for number, text in enumerate(texts, start):
        if not isinstance(text, str):
            return TypeError(f"a text must be a str, not {type(text).__name__} (text {number})")
        if error := surrogate_error(text):
            return error
    return TypeError("the texts cannot be encoded")
