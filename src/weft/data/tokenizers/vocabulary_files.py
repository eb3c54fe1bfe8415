"""Files of published tokenizers other than tokenizer.json, and the options in tokenizer_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from weft.core.io import parse_json, read_json
from weft.data.tokenizers.byte import byte_names
from weft.data.tokenizers.tokenizer_json import check_ids

USUAL_NAMES = {
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
_BYTE_LEVEL = ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer")
_LOWER_CASING = ("BertTokenizer", "ElectraTokenizer", "AlbertTokenizer")
_FIXED = ("PreTrainedTokenizerFast", "TokenizersBackend", "OpenAIGPTTokenizer")
"""Classes for which tokenizer.json alone decides about lower-casing."""
_CLASSES = {
    "bert": "BertTokenizer",
    "electra": "ElectraTokenizer",
    "albert": "AlbertTokenizer",
    "roberta": "RobertaTokenizer",
    "bart": "BartTokenizer",
    "gpt2": "GPT2Tokenizer",
    "t5": "T5Tokenizer",
    "mt5": "T5Tokenizer",
    "openai-gpt": "OpenAIGPTTokenizer",
}
"""Tokenizer classes of transformers by ``model_type``, for folders whose tokenizer_config.json names none."""
BYTE_CLASS = "ByT5Tokenizer"
_WORD_END = "</w>"
_SENTINELS = 125
"""ByT5's number of sentinel tokens, where its tokenizer_config.json does not list them."""


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
    named = {key: config.get(f"{key}_token") for key in USUAL_NAMES}
    contents = {key: name.get("content") if isinstance(name, dict) else name for key, name in named.items()}
    names = {key: name for key, name in contents.items() if isinstance(name, str)}
    if names.get("unk") in (names.get("bos"), names.get("eos")):
        names.pop("unk", None)
    return names


def from_vocabulary(text: str, lowercase: bool | None, config: Mapping[str, Any] = {}) -> tokenizers.Tokenizer:
    """Build BERT's WordPiece from a vocab.txt, one subword per line.

    Args:
        text: Content of the file.
        lowercase: Whether to lower-case texts; None = as ``config`` sets it, else if no subword has an upper-case letter.
        config: From the files beside it: ``do_lower_case``, ``strip_accents``, ``tokenize_chinese_chars``, special names.
    """
    own = {**_BERT, **special_names(config)}
    options = {name: flag(config, name) for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars")}
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
    if cls in ids and sep in ids:  # MPNet has RoBERTa's names of special tokens, and its two separators between two texts
        ends = (sep, ids[sep]), (cls, ids[cls])
        inner.post_processor = (
            processors.RobertaProcessing(*ends, trim_offsets=False, add_prefix_space=False)
            if sep == "</s>"
            else processors.BertProcessing(*ends)
        )
    return inner


def from_merges(vocabulary: str, merges: str, config: Mapping[str, Any] = {}) -> tokenizers.Tokenizer:
    """Build a BPE from its vocab.json and merges.txt: GPT-2's byte-level one, or GPT's, whose symbols end a word with ``</w>``.

    Args:
        vocabulary: Content of vocab.json.
        merges: Content of merges.txt.
        config: From the files beside it: ``add_prefix_space``, special names.
    """
    pairs = [line.split(" ") for line in merges.splitlines() if line and not line.startswith("#version")]
    ids, rules = parse_json(vocabulary), [(a, b) for a, b in pairs]
    if not isinstance(ids, dict):
        raise ValueError("must be a JSON object of ids")
    check_ids(list(ids.items()))
    if any(second.endswith(_WORD_END) for _, second in rules):
        return _from_gpt(ids, rules, special_names(config))
    inner = tokenizers.Tokenizer(models.BPE(ids, rules))
    prefix = flag(config, "add_prefix_space") is True
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    inner.decoder = decoders.ByteLevel()
    named = [name for usual in (*USUAL_NAMES.values(), special_names(config).values()) for name in usual if name in ids]
    inner.add_special_tokens(list(dict.fromkeys(named)))
    if "<s>" in ids and "</s>" in ids:
        inner.post_processor = processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), add_prefix_space=prefix)
    return inner


def _from_gpt(ids: dict[str, int], merges: list[tuple[str, str]], names: Mapping[str, str]) -> tokenizers.Tokenizer:
    """GPT's BPE over the words and punctuation of BERT's basic tokenizer, lower-cased and without accents; see
    ``OpenAIGPTTokenizer`` of transformers."""
    unk = names.get("unk", "<unk>")
    inner = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token=unk, end_of_word_suffix=_WORD_END))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.BPEDecoder(suffix=_WORD_END)
    inner.add_special_tokens(list(dict.fromkeys((unk, *names.values()))))
    return inner


def from_bytes(config: Mapping[str, Any] = {}) -> tokenizers.Tokenizer:
    """Build ByT5's tokenizer, which has no vocabulary file: ``<pad>``, ``</s>``, ``<unk>``, the 256 bytes of UTF-8, sentinels.

    Args:
        config: From tokenizer_config.json: ``added_tokens_decoder``, or ``extra_ids``.
    """
    names = {**dict(enumerate(("<pad>", "</s>", "<unk>"))), **{3 + byte: name for byte, name in enumerate(byte_names())}}
    added = {i: AddedToken(names[i], lstrip=True, rstrip=True, special=True, normalized=False) for i in range(3)}
    listed = config.get("added_tokens_decoder")
    sentinels = config.get("extra_ids") or _SENTINELS
    stored = listed if isinstance(listed, dict) else {str(259 + i): {"content": f"<extra_id_{i}>"} for i in range(sentinels)}
    for key, token in stored.items():
        strip = {side: bool(token.get(side)) for side in ("lstrip", "rstrip", "single_word")}
        added[int(key)] = AddedToken(token["content"], special=True, normalized=False, **strip)
    names |= {number: token.content for number, token in added.items()}
    inner = tokenizers.Tokenizer(models.BPE({name: number for number, name in sorted(names.items())}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([added[number] for number in sorted(added)])
    eos = names[1]
    inner.post_processor = processors.TemplateProcessing(
        single=f"$A {eos}", pair=f"$A {eos} $B:0 {eos}", special_tokens=[(eos, 1)]
    )
    return inner


def flag(config: Mapping[str, Any], name: str) -> bool | None:
    """A boolean of tokenizer_config.json; None if it is not set."""
    value = config.get(name)
    if not isinstance(value, bool | None):
        raise ValueError(f"{name} in tokenizer_config.json is {value!r}; it must be true or false")
    return value


def tokenizer_class(file: Path, config: Mapping[str, Any]) -> str:
    """The tokenizer class of transformers for a folder: as tokenizer_config.json or config.json names it, or that of the
    ``model_type``; empty if nothing names it."""
    found = read_json(file.with_name("config.json")) if file.with_name("config.json").is_file() else {}
    model = found if isinstance(found, dict) else {}
    named = config.get("tokenizer_class") or model.get("tokenizer_class") or _CLASSES.get(str(model.get("model_type")), "")
    return str(named).removesuffix("Fast") if named != "PreTrainedTokenizerFast" else named


def apply_config(inner: tokenizers.Tokenizer, config: Mapping[str, Any], class_: str) -> None:
    """Apply ``add_prefix_space`` and ``do_lower_case`` of tokenizer_config.json to the content of a tokenizer.json. The classes
    of transformers for one model let them take precedence; those of any model ignore them."""
    prefix, lower = flag(config, "add_prefix_space"), flag(config, "do_lower_case")
    if prefix is not None and class_ in (*_BYTE_LEVEL, "") and isinstance(inner.pre_tokenizer, pre_tokenizers.ByteLevel):
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if lower is not None and class_ not in _FIXED and isinstance(inner.normalizer, normalizers.BertNormalizer):
        inner.normalizer.lowercase = lower
    elif lower is not None and class_ in (*_LOWER_CASING, "") and isinstance(inner.normalizer, normalizers.Sequence):
        inner.normalizer = _with_lower_casing(inner.normalizer, lower)


def _with_lower_casing(sequence: normalizers.Sequence, lower: bool) -> normalizers.Normalizer:
    """A sequence of normalizers with lower-casing, before SentencePiece's own normalization, or without it."""
    parts: list[Any] = [part for part in sequence if not isinstance(part, normalizers.Lowercase)]
    at = next((i for i, part in enumerate(parts) if isinstance(part, normalizers.Precompiled)), len(parts))
    return normalizers.Sequence([*parts[:at], *([normalizers.Lowercase()] if lower else []), *parts[at:]])
