"""A tokenizer that somebody has published, with its own ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from weft.core.fields import Frame, Special
from weft.core.hub import find_model
from weft.core.io import read_json
from weft.core.options import Model
from weft.core.registry import block
from weft.data.tokenizers.byte import readable, to_bytes
from weft.data.tokenizers.sentencepiece import from_pieces, read_pieces
from weft.data.tokenizers.vocabulary import UNKNOWN, VocabularyTokenizer, read

_USUAL = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "bos": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
}
_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_SAID = ("special_tokens_map.json", "tokenizer_config.json")
"""Files beside a vocabulary that name its special tokens; the last one counts."""
_PROBES = 2000


def read_said(file: Path) -> dict[str, Any]:
    """What the files beside a vocabulary say of it: its options, and the names of its special tokens (``mask_token``)."""
    said: dict[str, Any] = {}
    for beside in (file.with_name(name) for name in _SAID):
        found = read_json(beside) if beside.is_file() else {}
        if not isinstance(found, dict):
            raise ValueError(f"{beside}: is not an object of JSON")
        said |= {key: value for key, value in found.items() if value is not None or not key.endswith("_token")}
    return said


def start_said(file: Path) -> int:
    """What the model beside a vocabulary gives its decoder first; -1 where nothing is said."""
    for name in ("generation_config.json", "config.json"):
        found = read_json(file.with_name(name)) if file.with_name(name).is_file() else {}
        said = found.get("decoder_start_token_id") if isinstance(found, dict) else None
        if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
            return said
    return -1


def names_said(said: Mapping[str, Any]) -> dict[str, str]:
    """The names of special tokens: ``{"mask": "<mask>"}``. GPT-2's files call the end mark unknown too; nothing is, in bytes."""
    told = {key: said.get(f"{key}_token") for key in _USUAL}
    contents = {key: name.get("content") if isinstance(name, dict) else name for key, name in told.items()}
    names = {key: name for key, name in contents.items() if isinstance(name, str)}
    if names.get("unk") in (names.get("bos"), names.get("eos")):
        names.pop("unk", None)
    return names


def find_special(inner: tokenizers.Tokenizer, names: Mapping[str, str] = {}) -> Special:
    """The special ids of a vocabulary by the names that its files say, or by their usual ones; where one is missing, the one that
    models use in its place, or -1.

    BERT has no begin and end: they are its ``[CLS]`` and ``[SEP]``. RoBERTa's ``<s>`` and ``</s>`` are all four. T5 begins with
    ``<pad>``. GPT-2 has ``<|endoftext|>`` alone. What pads is never looked at, so any id will do.
    """
    added, known = {token.content for token in inner.get_added_tokens_decoder().values()}, inner.get_vocab(True)
    own = {
        key: next((known[n] for n in sorted(names, key=lambda n: n not in added) if n in known), -1)
        for key, names in _USUAL.items()
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


def from_vocabulary(text: str, lowercase: bool | None, said: Mapping[str, Any] = {}) -> tokenizers.Tokenizer:
    """BERT's WordPiece with the lines of a vocab.txt as its ids.

    Args:
        text: The file.
        lowercase: Whether texts are lower-cased; None = as ``said``, or if no piece has an upper-case letter.
        said: What the files beside it say: ``do_lower_case``, ``strip_accents``, ``tokenize_chinese_chars``, special names.
    """
    own, options = {**_BERT, **names_said(said)}, {}
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        options[name] = said.get(name)
        if not isinstance(options[name], bool | None):
            raise ValueError(f"tokenizer_config.json has {name} {options[name]!r}, which is neither true nor false")
    lowercase = options["do_lower_case"] if lowercase is None else lowercase
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {line: number for number, line in enumerate(lines)}
    if own["unk"] not in ids:
        raise ValueError(f"has no line {own['unk']}, so it is no vocab.txt of a BERT (one piece a line)")
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
    """GPT-2's byte-level BPE from its vocab.json and merges.txt."""
    pairs = [line.split(" ") for line in merges.splitlines() if line and not line.startswith("#version")]
    ids = json.loads(vocabulary)
    inner = tokenizers.Tokenizer(models.BPE(ids, [(a, b) for a, b in pairs]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    named = [name for usual in (*_USUAL.values(), names) for name in usual if name in ids]
    inner.add_special_tokens(list(dict.fromkeys(named)))
    if "<s>" in ids and "</s>" in ids:
        inner.post_processor = processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), add_prefix_space=False)
    return inner


def find_frame(inner: tokenizers.Tokenizer) -> Frame:
    """The ids that its post-processor puts around one text and around two; of a tokenizer that weft has trained, its own."""
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
    """A text that has tokens."""
    pieces = (inner.decode([number]) for number in range(min(_PROBES, inner.get_vocab_size())))
    for text in ("a", *pieces):
        if text and inner.encode(text, add_special_tokens=False).ids:
            return text
    raise ValueError("no text has a token in it: its vocabulary is empty, or a text cannot be cut into its pieces")


FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
"""What a published model's folder may hold, the best first."""


@block("published")
class Published(VocabularyTokenizer):
    """A published tokenizer as it is, with its own ids, for models that were trained with it.

    encode(text) is what the library ``tokenizers`` gives for the file, without the special tokens that its post-processor
    would add: objectives add those. Truncation and padding that a file asks for are off. As in the library, a special name
    that stands in a text ("[MASK]") is the special id. The special ids are found by their usual names: see ``special``.

    Args:
        from_: A published model (a folder, minilm, or a name on the hub), or a run's folder; or a tokenizer.json of the library
            ``tokenizers``, a vocab.txt of a BERT, a vocab.json of a GPT-2 with its merges.txt beside it, or a file of
            SentencePiece (spiece.model) with config.json and tokenizer_config.json beside it.
        lowercase: For a vocab.txt, whether texts are lower-cased and lose their accents first; None = as its
            tokenizer_config.json says, or if no piece has an upper-case letter. For the spiece.model of an ALBERT, whether they
            are lower-cased; None = as its tokenizer_config.json says. Other files say so themselves.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "vocab.txt")
        >>> _ = file.write_text("[PAD] [UNK] [CLS] [SEP] [MASK] dog ##s bark".replace(" ", "\\n"))
        >>> pieces = Published(from_=str(file))
        >>> pieces.encode("Dogs bark"), pieces.special.mask
        ([5, 6, 7], 4)
    """

    def __init__(self, *, from_: Model, lowercase: bool | None = None):
        super().__init__(size=10**8, lowercase=bool(lowercase))
        self.from_, self._lowercase = from_, lowercase
        self._special, self._frame, self._start = Special(), Frame(), -1
        self._silent: frozenset[int] = frozenset()

    def described(self) -> Any:
        """By what was chosen: whether texts are lower-cased may be found out later."""
        return ["published", {"from_": str(self.from_), "lowercase": self._lowercase}]

    def bound(self) -> int:
        return self.vocab

    def train(self, texts: Iterable[str]) -> None:
        """There is nothing to learn."""

    @property
    def special(self) -> Special:
        return self._special if self.inner else Special()

    @property
    def frame(self) -> Frame:
        return self._frame if self.inner else Frame()

    @property
    def start(self) -> int:
        """``decoder_start_token_id`` of the config.json beside it, or of its generation_config.json, which counts first."""
        return self._start if self._start < self.vocab else -1

    @property
    def sentinel_count(self) -> int:
        """T5's sentinels, <extra_id_0> and so on, which count down from the end."""
        names = [name.removeprefix("▁") for name in self.names]  # mT5's are pieces
        marks = sum(name == f"<extra_id_{i}>" for i, name in enumerate(reversed(names)))
        return marks if all(name.startswith("<extra_id_") for name in names[len(names) - marks :]) else 0

    @property
    def inner(self) -> tokenizers.Tokenizer:
        if self._inner is None:
            self._open()
        return super().inner

    def _open(self) -> None:
        file = self._find()
        self._start = start_said(file)
        if file.suffix == ".json" and self._lowercase is not None:
            raise ValueError(f"{file}: a tokenizer.json says itself whether texts are lower-cased: leave lowercase out")
        if file.suffix not in (".json", ".txt", ".model"):
            ending = file.suffix or "file without an ending"
            raise ValueError(f"{file}: give a tokenizer.json, a vocab.txt or a spiece.model, not a {ending}")
        if file.suffix == ".model":
            return self._open_pieces(file)
        text, said = read(str(file)), read_said(file)
        try:
            if file.suffix == ".txt":
                inner = from_vocabulary(text, self._lowercase, said)
            elif (merges := file.parent / "merges.txt").is_file() and file.name == "vocab.json":
                inner = from_merges(text, read(str(merges)), names_said(said).values())
            else:
                inner = tokenizers.Tokenizer.from_str(text)
            self.adopt(inner, names_said(said))
        except Exception as error:  # the library raises nothing narrower
            hint = "" if file.suffix == ".txt" else " (is it a tokenizer.json of the library tokenizers?)"
            raise ValueError(f"{file}: {error}{hint}") from None

    def _open_pieces(self, file: Path) -> None:
        config: dict[str, Any] = {}
        for beside in (file.with_name("config.json"), file.with_name("tokenizer_config.json")):
            found = read_json(beside) if beside.is_file() else {}
            if not isinstance(found, dict):
                raise ValueError(f"{beside}: is not an object of JSON")
            config |= {key: value for key, value in found.items() if key != "model_type" or "model_type" not in config}
        try:
            names = names_said(read_said(file))
            self.adopt(from_pieces(read_pieces(file.read_bytes()), config, self._lowercase), names)
        except OSError as error:
            raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file}: {error}") from None

    def _find(self) -> Path:
        place = find_model(self.from_)
        if not place.is_dir():
            return place
        found = next((place / name for name in FILES if (place / name).is_file()), None)
        own = sorted([*place.glob("tokenizer-*.json"), *place.glob("*/tokenizer-*.json")])  # of a run, and of its stages
        if found is None and len(own) > 1:
            names = ", ".join(str(file.relative_to(place)) for file in own)
            raise ValueError(f"{place} has several tokenizers: name one of {names}")
        found = found or next(iter(own), None)
        if found is None:
            raise ValueError(f"{place} has no tokenizer: none of {', '.join(FILES)} is there")
        return found

    def adopt(self, inner: tokenizers.Tokenizer, names_said: Mapping[str, str] = {}) -> None:
        """Take over any tokenizer of the library, with the names that the files beside it have for special tokens."""
        inner.no_truncation()
        inner.no_padding()
        ids = inner.get_vocab(with_added_tokens=True)
        if not ids:
            raise ValueError("its vocabulary is empty")
        names = [""] * (max(ids.values()) + 1)
        for name, number in ids.items():
            names[number] = name
        self._special, self._frame = find_special(inner, names_said), find_frame(inner)
        self._inner, self._names = inner, names
        flagged = {number for number, token in inner.get_added_tokens_decoder().items() if token.special}
        usual = [name for known in _USUAL.values() for name in known]
        named = {ids[name] for name in (*usual, *names_said.values()) if name in ids}
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
