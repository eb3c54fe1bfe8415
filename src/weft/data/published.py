"""A tokenizer that somebody has published, with its own ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from weft.batch import Special
from weft.catalog import block
from weft.choices import File
from weft.data.byte import readable, to_bytes
from weft.data.vocabulary import UNKNOWN, VocabularyTokenizer, read

_USUAL = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "bos": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
}
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def find_special(inner: tokenizers.Tokenizer) -> Special:
    """The special ids of a vocabulary by their usual names; where one is missing, the one that models use in its place, or -1.

    BERT has no begin and end: they are its ``[CLS]`` and ``[SEP]``. RoBERTa's ``<s>`` and ``</s>`` are all four. T5 begins with
    ``<pad>``. GPT-2 has ``<|endoftext|>`` alone. What pads is never looked at, so any id will do.
    """
    added, known = {token.content for token in inner.get_added_tokens_decoder().values()}, inner.get_vocab(True)
    own = {
        key: next((known[n] for n in sorted(names, key=lambda n: n not in added) if n in known), -1)
        for key, names in _USUAL.items()
    }
    if own["unk"] < 0:
        own["unk"] = known.get(getattr(inner.model, "unk_token", None) or "", -1)

    def first(*keys: str) -> int:
        return next((own[key] for key in keys if own[key] >= 0), -1)

    return Special(
        pad=max(first("pad", "eos", "sep", "unk"), 0),
        bos=first("bos", "cls", "pad"),
        eos=first("eos", "sep"),
        unk=own["unk"],
        mask=own["mask"],
        cls=first("cls", "bos"),
        sep=first("sep", "eos"),
    )


def from_vocabulary(text: str, lowercase: bool | None) -> tokenizers.Tokenizer:
    """BERT's WordPiece with the lines of a vocab.txt as its ids."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {line: number for number, line in enumerate(lines)}
    if "[UNK]" not in ids:
        raise ValueError("has no line [UNK], so it is no vocab.txt of a BERT (one piece a line)")
    if lowercase is None:
        lowercase = all(line == line.lower() for line in lines if not (line.startswith("[") and line.endswith("]")))
    inner = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    inner.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lowercase
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece(prefix="##")
    inner.add_special_tokens([name for name in _BERT if name in ids])
    return inner


@block("published")
class Published(VocabularyTokenizer):
    """A published tokenizer as it is, with its own ids, for models that were trained with it.

    encode(text) is what the library ``tokenizers`` gives for the file, without the special tokens that its post-processor
    would add: objectives add those. Truncation and padding that a file asks for are off. As in the library, a special name
    that stands in a text ("[MASK]") is the special id. The special ids are found by their usual names: see ``special``.

    Args:
        file: A tokenizer.json of the library ``tokenizers``, or a vocab.txt of a BERT.
        lowercase: For a vocab.txt, whether texts are lower-cased and lose their accents first; None = if no piece has an
            upper-case letter. A tokenizer.json says so itself.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "vocab.txt")
        >>> _ = file.write_text("[PAD] [UNK] [CLS] [SEP] [MASK] dog ##s bark".replace(" ", "\\n"))
        >>> pieces = Published(file=str(file))
        >>> pieces.encode("Dogs bark"), pieces.special.mask
        ([5, 6, 7], 4)
    """

    def __init__(self, *, file: File, lowercase: bool | None = None):
        super().__init__(size=10**8, lowercase=bool(lowercase))
        self.file, self._lowercase = file, lowercase
        self._special = Special()
        self._silent: frozenset[int] = frozenset()

    def bound(self) -> int:
        return self.vocab

    def train(self, texts: Iterable[str]) -> None:
        """There is nothing to learn."""

    @property
    def special(self) -> Special:
        return self._special if self.inner else Special()

    @property
    def inner(self) -> tokenizers.Tokenizer:
        if self._inner is None:
            self._open()
        return super().inner

    def _open(self) -> None:
        suffix, text = Path(self.file).suffix, read(self.file)
        if suffix == ".json" and self._lowercase is not None:
            raise ValueError(f"{self.file}: a tokenizer.json says itself whether texts are lower-cased: leave lowercase out")
        if suffix not in (".json", ".txt"):
            raise ValueError(f"{self.file}: give a tokenizer.json or a vocab.txt, not a {suffix or 'file without an ending'}")
        try:
            self.adopt(tokenizers.Tokenizer.from_str(text) if suffix == ".json" else from_vocabulary(text, self._lowercase))
        except Exception as error:  # the library raises nothing narrower
            hint = "" if suffix == ".txt" else " (is it a tokenizer.json of the library tokenizers?)"
            raise ValueError(f"{self.file}: {error}{hint}") from None

    def adopt(self, inner: tokenizers.Tokenizer) -> None:
        """Take over any tokenizer of the library."""
        inner.no_truncation()
        inner.no_padding()
        ids = inner.get_vocab(with_added_tokens=True)
        if not ids:
            raise ValueError("its vocabulary is empty")
        names = [""] * (max(ids.values()) + 1)
        for name, number in ids.items():
            names[number] = name
        self._inner, self._names, self._special = inner, names, find_special(inner)
        flagged = {number for number, token in inner.get_added_tokens_decoder().items() if token.special}
        named = {ids[name] for usual in _USUAL.values() for name in usual if name in ids}
        self._silent = frozenset(flagged | named) - {self._special.unk}
        self.lowercase = inner.normalizer is not None and "a" in inner.normalizer.normalize_str("A")

    def normaliser(self) -> normalizers.Normalizer | None:
        return self.inner.normalizer

    def symbols(self, ids: Sequence[int]) -> list[str]:
        names, unk = self._checked(ids), self._special.unk
        return [UNKNOWN if i == unk else names[i] for i in map(int, ids) if i not in self._silent]

    def join(self, symbols: list[str]) -> str:
        decoder = self.inner.decoder
        return decoder.decode(symbols) if decoder else " ".join(symbols)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        names, inner = self._checked(ids), self.inner
        if not isinstance(inner.decoder, decoders.ByteLevel):
            return super().tokens(ids)
        added = inner.get_added_tokens_decoder()
        return [names[i] if i in added else readable(to_bytes(names[i])) for i in map(int, ids)]
