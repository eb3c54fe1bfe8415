"""Pretrained tokenizers, with their own ids."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, normalizers

from weft.core.fields import Frame, Special
from weft.core.gguf import SUFFIX, find_gguf, read_gguf
from weft.core.hub import find_model
from weft.core.io import MAX_VOCABULARY_BYTES, read_bytes, read_json
from weft.core.options import Model
from weft.core.registry import block
from weft.data.tokenizers.byte import readable, to_bytes
from weft.data.tokenizers.gguf_tokenizer import from_metadata, tokenizer_config
from weft.data.tokenizers.sentencepiece import from_pieces, read_pieces
from weft.data.tokenizers.tokenizer_json import library_errors, open_tokenizer
from weft.data.tokenizers.vocabulary import UNKNOWN, VocabularyTokenizer, read_vocabulary
from weft.data.tokenizers.vocabulary_files import (
    BYTE_CLASS,
    USUAL_NAMES,
    apply_config,
    from_bytes,
    from_merges,
    from_vocabulary,
    read_decoder_start,
    read_tokenizer_config,
    special_names,
    tokenizer_class,
)

_PROBES = 2000


def find_special(inner: tokenizers.Tokenizer, names: Mapping[str, str] = {}) -> Special:
    """Find the special ids of a vocabulary by the names in its files, or by usual names; a missing one is replaced by the token
    that models use instead, or -1.

    BERT has no BOS and EOS: they are ``[CLS]`` and ``[SEP]``. RoBERTa's ``<s>`` and ``</s>`` are all four. T5 starts decoding
    with ``<pad>``. GPT-2 has ``<|endoftext|>`` only. Padding is masked, so any id works.
    """
    added, known = {token.content for token in inner.get_added_tokens_decoder().values()}, inner.get_vocab(True)
    own = {
        key: next((known[n] for n in sorted(names, key=lambda n: n not in added) if n in known), -1)
        for key, names in USUAL_NAMES.items()
    }
    own |= {key: known[name] for key, name in names.items() if name in known}
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


def find_frame(inner: tokenizers.Tokenizer) -> Frame:
    """Find the ids that the post-processor adds around one text and around two; tokenizers trained by weft have their own."""
    if [inner.id_to_token(i) for i in range(len(Special.NAMES))] == list(Special.NAMES):
        return Frame()
    text = _some_text(inner)
    length = len(inner.encode(text, add_special_tokens=False))
    single, pair = (_template(found, length) for found in (inner.encode(text), inner.encode(text, text)))
    begin = next((i for i, (id_, _) in enumerate(single) if id_ < 0), len(single))
    first, last = (tuple(id_ for id_, _ in part if id_ >= 0) for part in (single[:begin], single[begin:]))
    ids = [id_ for id_, _ in pair]
    second = ids.index(Frame.SECOND) if Frame.SECOND in ids else len(ids)
    between = tuple(id_ for id_ in ids[len(first) + 1 : second])
    segments = any(of for _, of in pair)
    usual_pair = [*((i, 0) for i in (*first, Frame.FIRST, *between)), *((i, int(segments)) for i in (Frame.SECOND, *last))]
    usual = [(i, 0) for i in (*first, Frame.FIRST, *last)]
    if list(pair) == usual_pair and all(id_ >= 0 for id_ in between):
        return Frame(first, between, last, segments, () if list(single) == usual else single)
    return Frame(first, (), last, False, () if list(single) == usual else single, pair)


def _template(encoding: tokenizers.Encoding, length: int) -> tuple[tuple[int, int], ...]:
    """What an encoding consists of: each special token, and each text of ``length`` tokens, with their segment."""
    parts: list[tuple[int, int]] = []
    at = 0
    while at < len(encoding.ids):
        of = encoding.sequence_ids[at]
        if of is None and not encoding.special_tokens_mask[at]:  # the library does not count the first copy
            raise ValueError("the template of the post-processor repeats a text; use each of $A and $B once")
        parts.append((encoding.ids[at] if of is None else Frame.FIRST - of, encoding.type_ids[at]))
        at += 1 if of is None else length
    return tuple(parts)


def _some_text(inner: tokenizers.Tokenizer) -> str:
    """Any text that has tokens."""
    pieces = (inner.decode([number]) for number in range(min(_PROBES, inner.get_vocab_size())))
    for text in ("a", *pieces):
        if text and inner.encode(text, add_special_tokens=False).ids:
            return text
    raise ValueError("no text can be tokenized: the vocabulary is empty, or the model cannot segment text")


FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
"""Tokenizer files of a pretrained model folder, in order of preference."""


@block("pretrained")
class PretrainedTokenizer(VocabularyTokenizer):
    """Pretrained tokenizer with its own ids, for models that were trained with it.

    encode(text) equals the library ``tokenizers`` with the same file, without the special tokens of the post-processor, which
    objectives add. Truncation and padding settings of the file are ignored. As in the library, the name of a special token in a
    text ("[MASK]") is encoded as the special id. Special ids are found by their names: see ``special``.

    Args:
        from_: A pretrained model (a folder, a GGUF file, minilm, or a name on the hub), or a run folder; or a tokenizer.json of
            the library ``tokenizers``, a vocab.txt of BERT, a vocab.json of GPT or GPT-2 with its merges.txt beside it, or a
            SentencePiece file (spiece.model) with config.json and tokenizer_config.json beside it. ByT5 has a
            tokenizer_config.json only.
        lowercase: For a vocab.txt, whether to lower-case texts and remove accents; None = as in its tokenizer_config.json, else
            if no subword has an upper-case letter. For the spiece.model of ALBERT, whether to lower-case; None = as in its
            tokenizer_config.json. Other files define it themselves.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "vocab.txt")
        >>> _ = file.write_text("[PAD] [UNK] [CLS] [SEP] [MASK] dog ##s bark".replace(" ", "\\n"))
        >>> tokenizer = PretrainedTokenizer(from_=str(file))
        >>> tokenizer.encode("Dogs bark"), tokenizer.special.mask
        ([5, 6, 7], 4)
    """

    def __init__(self, *, from_: Model, lowercase: bool | None = None):
        super().__init__(vocab_size=10**8, lowercase=bool(lowercase))
        self.from_, self._lowercase = from_, lowercase
        self._special, self._frame, self._start = Special(), Frame(), -1
        self._skipped: frozenset[int] = frozenset()

    def spec(self) -> Any:
        """Identity by options: whether texts are lower-cased may be known only after loading."""
        return ["pretrained", {"from_": str(self.from_), "lowercase": self._lowercase}]

    def max_vocab(self) -> int:
        return self.vocab

    def train(self, texts: Iterable[str]) -> None:
        """Do nothing: the vocabulary is fixed."""

    @property
    def special(self) -> Special:
        return self._special if self.inner else Special()

    @property
    def frame(self) -> Frame:
        return self._frame if self.inner else Frame()

    @property
    def decoder_start(self) -> int:
        """``decoder_start_token_id`` of the generation_config.json or config.json beside it; -1 if not set."""
        return self._start if self._start < self.vocab else -1

    @property
    def sentinel_count(self) -> int:
        """Number of T5's sentinel tokens, <extra_id_0> and so on, at the end of the vocabulary; ByT5's are in ascending order."""
        names = [name.removeprefix("▁") for name in self.names]  # mT5's are ordinary pieces
        last = list(itertools.takewhile(lambda name: name.startswith("<extra_id_"), reversed(names)))
        return len(last) if {*last} == {f"<extra_id_{i}>" for i in range(len(last))} else 0

    @property
    def word_prefix(self) -> str:
        """A space for byte-level BPE that adds none itself (``add_prefix_space``): "a b" is encoded as "a" and " b"."""
        word = _some_text(self.inner).strip()
        one, spaced, both = (self.encode(text) for text in (word, f" {word}", f"{word} {word}"))
        return " " if both != one * 2 and both == one + spaced else ""

    @property
    def inner(self) -> tokenizers.Tokenizer:
        if self._inner is None:
            self._open()
        return super().inner

    def _open(self) -> None:
        file = self._find()
        if file.suffix.lower() == SUFFIX:
            return self._open_gguf(file)
        self._start = read_decoder_start(file)
        if file.suffix == ".json" and self._lowercase is not None:
            raise ValueError(f"{file}: a tokenizer.json defines lower-casing itself; remove the option lowercase")
        if file.suffix not in (".json", ".txt", ".model"):
            suffix = file.suffix or "file without a suffix"
            raise ValueError(f"{file}: must be a tokenizer.json, a vocab.txt or a spiece.model, not a {suffix}")
        if file.suffix == ".model":
            return self._open_sentencepiece(file)
        text, config = read_vocabulary(str(file)), read_tokenizer_config(file)
        try:
            if file.suffix == ".txt":
                inner = from_vocabulary(text, self._lowercase, config)
            elif (merges := file.parent / "merges.txt").is_file() and file.name == "vocab.json":
                inner = from_merges(text, read_vocabulary(str(merges)), config)
            elif file.name == "tokenizer_config.json":
                inner = from_bytes(config)
            else:
                inner = open_tokenizer(text)
                apply_config(inner, config, tokenizer_class(file, config))
            with library_errors():
                self.adopt(inner, special_names(config))
        except Exception as error:  # the library raises nothing narrower
            hint = "" if file.suffix == ".txt" else "; expected a tokenizer.json of the library tokenizers"
            raise ValueError(f"{file}: {error}{hint}") from None

    def _open_sentencepiece(self, file: Path) -> None:
        config: dict[str, Any] = {}
        for beside in (file.with_name("config.json"), file.with_name("tokenizer_config.json")):
            found = read_json(beside) if beside.is_file() else {}
            if not isinstance(found, dict):
                raise ValueError(f"{beside}: must be a JSON object")
            config |= {key: value for key, value in found.items() if key != "model_type" or "model_type" not in config}
        try:
            names = special_names(read_tokenizer_config(file))
            with library_errors():
                self.adopt(from_pieces(read_pieces(read_bytes(file, MAX_VOCABULARY_BYTES)), config, self._lowercase), names)
        except OSError as error:
            raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file}: {error}") from None

    def _open_gguf(self, file: Path) -> None:
        if self._lowercase is not None:
            raise ValueError(f"{file}: a GGUF file defines lower-casing itself; remove the option lowercase")
        metadata = read_gguf(file).metadata
        try:
            with library_errors():
                self.adopt(from_metadata(metadata), special_names(tokenizer_config(metadata)))
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file}: {error}") from None

    def _find(self) -> Path:
        path = find_model(self.from_)
        if not path.is_dir():
            return path
        if (gguf := find_gguf(path)) is not None:
            return gguf
        found = next((path / name for name in FILES if (path / name).is_file()), None)
        config = path / "tokenizer_config.json"
        if found is None and config.is_file() and read_tokenizer_config(config).get("tokenizer_class") == BYTE_CLASS:
            return config
        own = sorted([*path.glob("tokenizer-*.json"), *path.glob("*/tokenizer-*.json")])  # of a run, and of its stages
        if found is None and len(own) > 1:
            names = ", ".join(str(file.relative_to(path)) for file in own)
            raise ValueError(f"{path}: several tokenizers found; set from to one of {names}")
        found = found or next(iter(own), None)
        if found is None:
            raise ValueError(f"{path}: no tokenizer found; expected one of {', '.join(FILES)}")
        return found

    def adopt(self, inner: tokenizers.Tokenizer, special_names: Mapping[str, str] = {}) -> None:
        """Use any tokenizer of the library, with the names of special tokens from the files beside it."""
        inner.no_truncation()
        inner.no_padding()
        ids = inner.get_vocab(with_added_tokens=True)
        if not ids:
            raise ValueError("the vocabulary is empty")
        names = [""] * (max(ids.values()) + 1)
        for name, number in ids.items():
            names[number] = name
        self._special, self._frame = find_special(inner, special_names), find_frame(inner)
        self._inner, self._names = inner, names
        flagged = {number for number, token in inner.get_added_tokens_decoder().items() if token.special}
        usual = [name for known in USUAL_NAMES.values() for name in known]
        named = {ids[name] for name in (*usual, *special_names.values()) if name in ids}
        self._skipped = frozenset(flagged | named) - {self._special.unk}
        self.lowercase = inner.normalizer is not None and "a" in inner.normalizer.normalize_str("A")

    def normalizer(self) -> normalizers.Normalizer | None:
        return self.inner.normalizer

    def symbols(self, ids: Sequence[int]) -> list[str]:
        names, unk = self._checked(ids), self._special.unk
        return [UNKNOWN if i == unk else names[i] for i in map(int, ids) if i not in self._skipped]

    def join(self, symbols: list[str]) -> str:
        decoder = self.inner.decoder
        return decoder.decode(symbols) if decoder else " ".join(symbols)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        names, inner = self._checked(ids), self.inner
        if not isinstance(inner.decoder, decoders.ByteLevel):
            return super().tokens(ids)
        added = inner.get_added_tokens_decoder()
        return [names[i] if i in added else readable(to_bytes(names[i])) for i in map(int, ids)]
