"""Tokenizers in the metadata of GGUF files: byte-level BPE or SentencePiece, and their special tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from weft.data.tokenizers.sentencepiece import Piece, SentencePieceModel, from_pieces
from weft.data.tokenizers.tokenizer_json import check_ids

_PREFIX = "tokenizer.ggml."
_CONTROL, _USER_DEFINED, _BYTE = 3, 4, 6
_SPECIAL = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "pad": "padding_token_id",
    "sep": "seperator_token_id",  # sic
    "cls": "cls_token_id",
    "mask": "mask_token_id",
}
"""Our names of special tokens and their keys. Unknown characters are bytes."""
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_SYMBOLS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3, _QWEN2 = _WORDS + r"\p{N}{1,3}" + _SYMBOLS, _WORDS + r"\p{N}" + _SYMBOLS
PRE_TOKENIZERS = {
    "gpt-2": "gpt-2",
    "smollm": "digits",
    "starcoder": "digits",
    "refact": "digits",
    "llama-bpe": "llama-3",
    "llama3": "llama-3",
    "llama-v3": "llama-3",
    "qwen2": "qwen-2",
    "deepseek-r1-qwen": "qwen-2",
}
"""How text is split into words by the name in ``tokenizer.ggml.pre``: as in GPT-2, with single digits, as in Llama 3, Qwen 2."""


def special_ids(metadata: Mapping[str, Any]) -> dict[str, int]:
    """The special ids that the metadata names, by our names (bos, eos, pad). Raises ValueError for an id that no token has."""
    size = len(_list(metadata, "tokens", str))
    found = {ours: metadata[_PREFIX + key] for ours, key in _SPECIAL.items() if _PREFIX + key in metadata}
    for ours, number in found.items():
        if type(number) is not int or not 0 <= number < size:
            raise ValueError(f"{_PREFIX}{_SPECIAL[ours]} is {str(number)[:40]}, but must be an id below {size:,}")
    return found


def tokenizer_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as a tokenizer_config.json. The chat template is copied, never executed."""
    tokens = _list(metadata, "tokens", str)
    names = {f"{ours}_token": tokens[number] for ours, number in special_ids(metadata).items()}
    template = metadata.get("tokenizer.chat_template")
    chat = {"chat_template": template} if isinstance(template, str) else {}
    return {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names, **chat}


def from_metadata(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Build the tokenizer of a GGUF file. Raises ValueError for a kind of tokenizer that is not supported."""
    kind = metadata.get(_PREFIX + "model")
    if kind not in ("gpt2", "llama"):
        raise ValueError(
            f"{_PREFIX}model is {str(kind)[:40]!r}; supported are 'gpt2' (byte-level BPE) and 'llama' (SentencePiece)"
        )
    inner, bos = _sentencepiece(metadata) if kind == "llama" else _byte_level(metadata)
    _frame(inner, metadata, bos)
    return inner


def _sentencepiece(metadata: Mapping[str, Any]) -> tuple[tokenizers.Tokenizer, bool]:
    """A BPE of SentencePiece, and that BOS is added by default."""
    tokens, types, scores = _list(metadata, "tokens", str), _types(metadata), metadata.get(_PREFIX + "scores")
    if (
        not isinstance(scores, np.ndarray)
        or scores.dtype.kind != "f"
        or len(scores) != len(tokens)
        or not np.isfinite(scores).all()
    ):
        raise ValueError(f"{_PREFIX}scores must have a number for each of the {len(tokens):,} tokens")
    check_ids(list(_ids(tokens).items()))
    model = SentencePieceModel(
        pieces=tuple(Piece(*piece) for piece in zip(tokens, scores.tolist(), types, strict=True)),
        model="bpe",
        byte_fallback=_BYTE in types,
        charsmap=b"",
        add_dummy_prefix=_flag(metadata, "add_space_prefix", True),
        remove_extra_whitespaces=False,
        escape_whitespaces=True,
        whitespace_as_suffix=False,
    )
    return from_pieces(model, {}), True


def _ids(tokens: list[str]) -> dict[str, int]:
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        again = next(token for number, token in enumerate(tokens) if ids[token] != number)
        raise ValueError(f"{_PREFIX}tokens has {again[:40]!r} more than once")
    return ids


def _byte_level(metadata: Mapping[str, Any]) -> tuple[tokenizers.Tokenizer, bool]:
    """A byte-level BPE, and whether BOS is added by default."""
    split = metadata.get(_PREFIX + "pre")
    if split not in PRE_TOKENIZERS:
        raise ValueError(f"{_PREFIX}pre is {str(split)[:40]!r}; supported are {', '.join(PRE_TOKENIZERS)}")
    tokens, merges, types = _list(metadata, "tokens", str), _list(metadata, "merges", str), _types(metadata)
    ids = _ids(tokens)
    check_ids(list(ids.items()))
    pairs = [tuple(merge.split(" ")) for merge in merges]
    if wrong := next((merge for merge, pair in zip(merges, pairs, strict=True) if len(pair) != 2), None):
        raise ValueError(f"{_PREFIX}merges has {wrong[:40]!r}, but a merge has two symbols with a space in between")
    style = PRE_TOKENIZERS[split]
    inner = tokenizers.Tokenizer(models.BPE(ids, pairs, ignore_merges=style == "llama-3"))
    inner.normalizer = normalizers.NFC() if style == "qwen-2" else None
    inner.pre_tokenizer = _pre_tokenizer(style, _flag(metadata, "add_space_prefix", False))
    inner.decoder = decoders.ByteLevel()
    inner.add_tokens(
        [
            AddedToken(token, normalized=False, special=type_ == _CONTROL)
            for token, type_ in zip(tokens, types, strict=True)
            if type_ in (_CONTROL, _USER_DEFINED)
        ]
    )
    return inner, style == "llama-3"


def _pre_tokenizer(style: str, prefix: bool) -> pre_tokenizers.PreTokenizer:
    if style == "gpt-2":
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    if style == "digits":
        parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=prefix)]
        return pre_tokenizers.Sequence(parts)
    pattern = tokenizers.Regex(_LLAMA3 if style == "llama-3" else _QWEN2)
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), bytes_])


def _frame(inner: tokenizers.Tokenizer, metadata: Mapping[str, Any], bos: bool) -> None:
    """Set the post-processor that adds BOS and EOS around a text. ``bos``: whether BOS is added where no flag specifies it."""
    special, tokens = special_ids(metadata), _list(metadata, "tokens", str)
    wanted = {"bos": _flag(metadata, "add_bos_token", bos), "eos": _flag(metadata, "add_eos_token", False)}
    if missing := [name for name, added in wanted.items() if added and name not in special]:
        raise ValueError(f"{_PREFIX}add_{missing[0]}_token is true, but {_PREFIX}{_SPECIAL[missing[0]]} is missing")
    names = {name: tokens[special[name]] for name, added in wanted.items() if added}
    if not names:
        return
    template = [names.get("bos"), "$A", names.get("eos")]
    single = [part for part in template if part is not None]
    inner.post_processor = processors.TemplateProcessing(
        single=single,
        pair=[*single, *(f"{part}:0" if part != "$A" else "$B:0" for part in single)],
        special_tokens=[(name, inner.token_to_id(name)) for name in dict.fromkeys(names.values())],
    )


def _list(metadata: Mapping[str, Any], key: str, type_: type) -> list[Any]:
    found = metadata.get(_PREFIX + key)
    if not isinstance(found, list) or not all(isinstance(item, type_) for item in found):
        kind = "missing" if found is None else type(found).__name__
        raise ValueError(f"{_PREFIX}{key} must be a list of strings, but is {kind}")
    return found


def _types(metadata: Mapping[str, Any]) -> list[int]:
    found, size = metadata.get(_PREFIX + "token_type"), len(_list(metadata, "tokens", str))
    if found is None:
        return [1] * size
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu" or len(found) != size:
        raise ValueError(f"{_PREFIX}token_type must have an integer for each of the {size:,} tokens")
    return found.tolist()


def _flag(metadata: Mapping[str, Any], key: str, default: bool) -> bool:
    found = metadata.get(_PREFIX + key, default)
    if not isinstance(found, bool):
        raise ValueError(f"{_PREFIX}{key} is {str(found)[:40]!r}, but must be true or false")
    return found
