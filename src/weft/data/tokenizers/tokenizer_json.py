"""Opening a tokenizer.json of the library ``tokenizers``, which may come from anyone.

The library allocates by the numbers in the file, and stops the process where it expects something else. So the parsed file is
checked first: ids are dense, components are of known types and few, patterns cannot take exponential time, and normalization
cannot make a text many times longer.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tokenizers

from weft.core.io import parse_json
from weft.data.tokenizers.charsmap import check_charsmap
from weft.data.tokenizers.patterns import check_pattern

MAX_TOKENS = 2_000_000
"""Largest vocabulary."""
MAX_GAPS = 65_536
"""Most ids below the largest one that no token has."""
MAX_TOKEN_CHARACTERS = 16 << 20
"""Most characters of all tokens together."""
MAX_COMPONENTS = 50
MAX_NESTING = 4
"""Most normalizers (pre-tokenizers, decoders, post-processors) of a file, and how deeply they may be nested."""
MAX_GROWTH = 16
"""How many times longer replacements may make a text."""
MAX_NAME = 200
"""Longest affix, replacement or name of a component."""
_WORD_CHARACTERS = 10_000

_COMPONENTS = {
    "normalizer": (
        "normalizers",
        "BertNormalizer ByteLevel Lowercase NFC NFD NFKC NFKD Nmt Precompiled Prepend Replace Sequence Strip StripAccents",
    ),
    "pre_tokenizer": (
        "pretokenizers",
        "BertPreTokenizer ByteLevel CharDelimiterSplit Delimiter Digits FixedLength Metaspace Punctuation Sequence Split "
        "UnicodeScripts Whitespace WhitespaceSplit",
    ),
    "post_processor": ("processors", "BertProcessing ByteLevel RobertaProcessing Sequence TemplateProcessing"),
    "decoder": (
        "decoders",
        "BPEDecoder ByteFallback ByteLevel CTC DecodeStream Fuse Metaspace Replace Sequence Strip WordPiece",
    ),
}
"""Sections of a file: the key of the list of a sequence, and the known types."""
_MODELS = ("BPE", "Unigram", "WordLevel", "WordPiece")


@contextmanager
def library_errors() -> Iterator[None]:
    """Raise ValueError where the library panics: its exception is not an Exception, and would end the program."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        reason = str(error).splitlines()[0][:200] if str(error) else "no reason given"
        raise ValueError(f"the library tokenizers cannot process it: {reason}") from None


def open_tokenizer(text: str) -> tokenizers.Tokenizer:
    """Return the tokenizer of a tokenizer.json, without truncation and padding. Raises ValueError; see the module."""
    check_tokenizer(parse_json(text))
    with library_errors():
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except ValueError:
            raise
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(str(error)) from None
    inner.no_truncation()
    inner.no_padding()
    return inner


def check_tokenizer(document: Any) -> None:
    """Raise ValueError for a parsed tokenizer.json that could exhaust memory or time."""
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    added = document.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(token, dict) for token in added):
        raise ValueError("added_tokens must be a list of objects")
    model = document.get("model")
    if not isinstance(model, dict):
        raise ValueError("model must be an object")
    _check_model(model)
    check_ids(_token_ids(model) + [(token.get("content"), token.get("id")) for token in added])
    for section, (inner, known) in _COMPONENTS.items():
        components = list(_flat(document.get(section), section, inner, known.split()))
        if len(components) > MAX_COMPONENTS:
            raise ValueError(f"{section}: has {len(components)} components; at most {MAX_COMPONENTS} are allowed")
        _check_growth(section, components)
        for component in components:
            _check_component(section, component)


def check_ids(tokens: list[tuple[Any, Any]]) -> None:
    """Raise ValueError unless these are few enough names with ids that leave few gaps."""
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"the vocabulary has {len(tokens):,} tokens; at most {MAX_TOKENS:,} are allowed")
    characters = largest = 0
    for name, number in tokens:
        if not isinstance(name, str) or type(number) is not int or number < 0:
            raise ValueError(f"the token {_shown(name)} has the id {_shown(number)}; a token is a text with an id from 0")
        characters, largest = characters + len(name), max(largest, number)
    if characters > MAX_TOKEN_CHARACTERS:
        raise ValueError(f"the tokens have {characters:,} characters; at most {MAX_TOKEN_CHARACTERS:,} are allowed")
    if largest >= len(tokens) + MAX_GAPS:
        raise ValueError(f"the largest id is {largest:,}, but there are {len(tokens):,} tokens; ids must be dense")


def _token_ids(model: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        return list(vocabulary.items())
    if not isinstance(vocabulary, list) or not all(isinstance(entry, list) and len(entry) == 2 for entry in vocabulary):
        raise ValueError("model.vocab must be an object of ids, or a list of pieces with scores")
    return [(name, number) for number, (name, _) in enumerate(vocabulary)]


def _check_model(model: Mapping[str, Any]) -> None:
    kind = model.get("type")
    if kind is not None and kind not in _MODELS:
        raise ValueError(f"model.type {_shown(kind)} is not known; known are {', '.join(_MODELS)}")
    if isinstance(longest := model.get("max_input_chars_per_word"), int) and longest > _WORD_CHARACTERS:
        raise ValueError(f"model.max_input_chars_per_word is {longest:,}; at most {_WORD_CHARACTERS:,} is allowed")
    if isinstance(merges := model.get("merges"), list) and len(merges) > 4 * MAX_TOKENS:
        raise ValueError(f"model.merges has {len(merges):,} entries; at most {4 * MAX_TOKENS:,} are allowed")
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token"):
        _check_length(f"model.{name}", model.get(name))


def _flat(component: Any, section: str, inner: str, known: list[str], depth: int = 0) -> Iterator[dict[str, Any]]:
    """The components of a section, those of a sequence one after another."""
    if component is None:
        return
    if not isinstance(component, dict) or component.get("type") not in known:
        kind = component.get("type") if isinstance(component, dict) else component
        raise ValueError(f"{section}: the type {_shown(kind)} is not known; known are {', '.join(known)}")
    if component["type"] != "Sequence":
        yield component
        return
    if depth >= MAX_NESTING:
        raise ValueError(f"{section}: nested more than {MAX_NESTING} levels deep")
    if not isinstance(parts := component.get(inner), list):
        raise ValueError(f"{section}: a Sequence must have a list {inner}")
    for part in parts:
        yield from _flat(part, section, inner, known, depth + 1)


def _check_growth(section: str, components: list[dict[str, Any]]) -> None:
    """Each replacement can make a text longer by a factor, and they multiply."""
    growth = 1.0
    for component in components:
        if component["type"] == "Replace":
            content, pattern = component.get("content"), component.get("pattern")
            length = len(content) if isinstance(content, str) else 0
            literal = pattern.get("String") if isinstance(pattern, dict) else None
            growth *= max(1.0, length / len(literal) if isinstance(literal, str) and literal else length and length + 1)
        elif section == "normalizer" and component["type"] == "ByteLevel":
            growth *= 2
    if growth > MAX_GROWTH:
        raise ValueError(f"{section}: its replacements can make a text {growth:,.0f} times longer; at most {MAX_GROWTH}")
    if sum(component["type"] == "Precompiled" for component in components) > 1:
        raise ValueError(f"{section}: more than one Precompiled")


def _check_component(section: str, component: Mapping[str, Any]) -> None:
    where = f"{section}: {component['type']}"
    pattern = component.get("pattern")
    if isinstance(pattern, dict) and isinstance(regex := pattern.get("Regex"), str):
        try:
            check_pattern(regex)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    for name in ("content", "prepend", "prefix", "suffix", "cleanup", "pad_token", "word_delimiter_token"):
        _check_length(f"{where}.{name}", component.get(name))
    for name in ("single", "pair", "special_tokens"):
        _check_length(f"{where}.{name}", component.get(name))
    for token in (component.get("special_tokens") or {}).values() if component["type"] == "TemplateProcessing" else ():
        _check_length(f"{where}.special_tokens", token.get("ids") if isinstance(token, dict) else None)
    if component["type"] == "Precompiled" and component.get("precompiled_charsmap"):
        try:
            check_charsmap(base64.b64decode(component["precompiled_charsmap"], validate=True))
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from None


def _check_length(where: str, value: Any) -> None:
    if isinstance(value, str | list | dict) and len(value) > MAX_NAME:
        raise ValueError(f"{where}: has {len(value):,} characters or entries; at most {MAX_NAME} are allowed")


def _shown(value: Any) -> str:
    return repr(value)[:60]
