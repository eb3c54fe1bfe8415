"""Pretrained tokenizers, with their own ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from weft.core.fields import Frame, Special
from weft.core.hub import find_model
from weft.core.io import MAX_VOCABULARY_BYTES, parse_json, read_bytes, read_json
from weft.core.options import Model
from weft.core.registry import block
from weft.data.tokenizers.byte import readable, to_bytes
from weft.data.tokenizers.sentencepiece import from_pieces, read_pieces
from weft.data.tokenizers.tokenizer_json import check_ids, library_errors, open_tokenizer
from weft.data.tokenizers.vocabulary import UNKNOWN, VocabularyTokenizer, read_vocabulary

_USUAL_NAMES = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "bos": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
}
_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_CONFIG_FILES = ("special_tokens_map.json", "tokenizer_config.json")
"""Files beside a vocabulary that name its special tokens; later ones take precedence."""
_PROBES = 2000


def read_tokenizer_config(file: Path) -> dict[str, Any]:
    """Read the options and the names of special tokens (``mask_token``) from the files beside a vocabulary."""
    config: dict[str, Any] = {}
    for beside in (file.with_name(name) for name in _CONFIG_FILES):
        found = read_json(beside) if beside.is_file() else {}
        if not isinstance(found, dict):
            raise ValueError(f"{beside}: must be a JSON object")
        config |= {key: value for key, value in found.items() if value is not None or not key.endswith("_token")}
    return config


def read_decoder_start(file: Path) -> int:
    """Return ``decoder_start_token_id`` of the model beside a vocabulary; -1 if it is not set."""
    for name in ("generation_config.json", "config.json"):
        found = read_json(file.with_name(name)) if file.with_name(name).is_file() else {}
        start = found.get("decoder_start_token_id") if isinstance(found, dict) else None
        if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
            return start
    return -1


def special_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of special tokens: ``{"mask": "<mask>"}``. GPT-2 names EOS as <unk> too; byte-level BPE needs none."""
    named = {key: config.get(f"{key}_token") for key in _USUAL_NAMES}
    contents = {key: name.get("content") if isinstance(name, dict) else name for key, name in named.items()}
    names = {key: name for key, name in contents.items() if isinstance(name, str)}
    if names.get("unk") in (names.get("bos"), names.get("eos")):
        names.pop("unk", None)
    return names


def find_special(inner: tokenizers.Tokenizer, names: Mapping[str, str] = {}) -> Special:
    """Find the special ids of a vocabulary by the names in its files, or by usual names; a missing one is replaced by the token
    that models use instead, or -1.

    BERT has no BOS and EOS: they are ``[CLS]`` and ``[SEP]``. RoBERTa's ``<s>`` and ``</s>`` are all four. T5 starts decoding
    with ``<pad>``. GPT-2 has ``<|endoftext|>`` only. Padding is masked, so any id works.
    """
    added, known = {token.content for token in inner.get_added_tokens_decoder().values()}, inner.get_vocab(True)
    own = {
        key: next((known[n] for n in sorted(names, key=lambda n: n not in added) if n in known), -1)
        for key, names in _USUAL_NAMES.items()
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


def from_vocabulary(text: str, lowercase: bool | None, config: Mapping[str, Any] = {}) -> tokenizers.Tokenizer:
    """Build BERT's WordPiece from a vocab.txt, one subword per line.

    Args:
        text: Content of the file.
        lowercase: Whether to lower-case texts; None = as ``config`` sets it, else if no subword has an upper-case letter.
        config: From the files beside it: ``do_lower_case``, ``strip_accents``, ``tokenize_chinese_chars``, special names.
    """
    own, options = {**_BERT, **special_names(config)}, {}
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        options[name] = config.get(name)
        if not isinstance(options[name], bool | None):
            raise ValueError(f"{name} in tokenizer_config.json is {options[name]!r}; it must be true or false")
    lowercase = options["do_lower_case"] if lowercase is None else lowercase
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {line: number for number, line in enumerate(lines)}
    check_ids(list(ids.items()))
    if own["unk"] not in ids:
        raise ValueError(f"no line {own['unk']}; expected a vocab.txt of BERT, one subword per line")
    if lowercase is None:
        lowercase = all(line == line.lower() for line in lines if not (line.startswith("[") and line.endswith("]")))
    inner = tokenizers.Tokenizer(models.WordPiece(ids, unk_token=own["unk"], max_input_chars_per_word=100))
    inner.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options["tokenize_chinese_chars"] is not False,
        strip_accents=options["strip_accents"],
        lowercase=lowercase,
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece(prefix="##")
    inner.add_special_tokens(list(dict.fromkeys(name for name in own.values() if name in ids)))
    cls, sep = own["cls"], own["sep"]
    if cls in ids and sep in ids:
        inner.post_processor = processors.BertProcessing((sep, ids[sep]), (cls, ids[cls]))
    return inner


def from_merges(vocabulary: str, merges: str, names: Iterable[str] = ()) -> tokenizers.Tokenizer:
    """Build GPT-2's byte-level BPE from its vocab.json and merges.txt."""
    pairs = [line.split(" ") for line in merges.splitlines() if line and not line.startswith("#version")]
    ids = parse_json(vocabulary)
    if not isinstance(ids, dict):
        raise ValueError("must be a JSON object of ids")
    check_ids(list(ids.items()))
    inner = tokenizers.Tokenizer(models.BPE(ids, [(a, b) for a, b in pairs]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    named = [name for usual in (*_USUAL_NAMES.values(), names) for name in usual if name in ids]
    inner.add_special_tokens(list(dict.fromkeys(named)))
    if "<s>" in ids and "</s>" in ids:
        inner.post_processor = processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), add_prefix_space=False)
    return inner


def find_frame(inner: tokenizers.Tokenizer) -> Frame:
    """Find the ids that the post-processor adds around one text and around two; tokenizers trained by weft have their own."""
    if [inner.id_to_token(i) for i in range(len(Special.NAMES))] == list(Special.NAMES):
        return Frame()
    text = _some_text(inner)
    one, two = inner.encode(text), inner.encode(text, text)
    inside = [i for i, special in enumerate(one.special_tokens_mask) if not special]
    first, last = tuple(one.ids[: inside[0]]), tuple(one.ids[inside[-1] + 1 :])
    second = two.sequence_ids.index(1)
    begin = max(i for i, of in enumerate(two.sequence_ids) if of == 0) + 1
    return Frame(first, tuple(two.ids[begin:second]), last, two.type_ids[second] != two.type_ids[begin - 1])


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
        from_: A pretrained model (a folder, minilm, or a name on the hub), or a run folder; or a tokenizer.json of the library
            ``tokenizers``, a vocab.txt of BERT, a vocab.json of GPT-2 with its merges.txt beside it, or a SentencePiece file
            (spiece.model) with config.json and tokenizer_config.json beside it.
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
        """Number of T5's sentinel tokens, <extra_id_0> and so on, from the end of the vocabulary."""
        names = [name.removeprefix("▁") for name in self.names]  # mT5's are ordinary pieces
        count = sum(name == f"<extra_id_{i}>" for i, name in enumerate(reversed(names)))
        return count if all(name.startswith("<extra_id_") for name in names[len(names) - count :]) else 0

    @property
    def inner(self) -> tokenizers.Tokenizer:
        if self._inner is None:
            self._open()
        return super().inner

    def _open(self) -> None:
        file = self._find()
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
                inner = from_merges(text, read_vocabulary(str(merges)), special_names(config).values())
            else:
                inner = open_tokenizer(text)
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

    def _find(self) -> Path:
        path = find_model(self.from_)
        if not path.is_dir():
            return path
        found = next((path / name for name in FILES if (path / name).is_file()), None)
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
        usual = [name for known in _USUAL_NAMES.values() for name in known]
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
