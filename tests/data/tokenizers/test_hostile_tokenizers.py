"""Tokenizer files of somebody else: refused before the library allocates by their numbers, or matches for ever."""

from __future__ import annotations

import base64
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from weft.data import BPE, PretrainedTokenizer, Word
from weft.data.tokenizers.patterns import check_pattern
from weft.data.tokenizers.tokenizer_json import library_errors

PLAIN: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2}, "unk_token": "[UNK]"},
}


def changed(**sections: Any) -> dict[str, Any]:
    return {**deepcopy(PLAIN), **sections}


def word_level(vocabulary: Any, **options: Any) -> dict[str, Any]:
    return {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]", **options}


def added(number: Any) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return [{"id": number, "content": "x", **flags}]


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(depth: int) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": [sequence(depth - 1)]} if depth else {"type": "Lowercase"}


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "large id": (
        changed(model=word_level({"[UNK]": 0, "a": 300_000_000})),
        "the largest id is 300,000,000, but there are 2 tokens",
    ),
    "largest id": (changed(model=word_level({"[UNK]": 0, "a": 2**32 - 1})), "the largest id is 4,294,967,295"),
    "added id": (changed(added_tokens=added(2**32 - 1)), "the largest id is 4,294,967,295"),
    "negative id": (changed(model=word_level({"a": -1})), "the token 'a' has the id -1"),
    "id that is no number": (changed(model=word_level({"a": "1"})), "the token 'a' has the id '1'"),
    "no vocabulary": (changed(model=word_level(3)), r"model\.vocab must be"),
    "no model": (changed(model=None), "model must be an object"),
    "unknown model": (changed(model={"type": "Pickle", "vocab": {}}), r"model\.type 'Pickle' is not known"),
    "long words": (
        changed(model={"type": "WordPiece", "vocab": {"[UNK]": 0}, "max_input_chars_per_word": 10**12}),
        r"max_input_chars_per_word is 1,000,000,000,000; at most 10,000",
    ),
    "unknown component": (changed(pre_tokenizer={"type": "Python"}), "pre_tokenizer: the type 'Python' is not known"),
    "nested": (changed(normalizer=sequence(6)), "normalizer: nested more than 4 levels"),
    "many": (
        changed(normalizer={"type": "Sequence", "normalizers": [{"type": "Lowercase"}] * 51}),
        "normalizer: has 51 components; at most 50",
    ),
    "growth": (
        changed(normalizer={"type": "Sequence", "normalizers": [replace({"String": "a"}, "a" * 50)] * 5}),
        "normalizer: its replacements can make a text 312,500,000 times longer; at most 16",
    ),
    "growth at no character": (
        changed(normalizer={"type": "Sequence", "normalizers": [replace({"Regex": "(?=a)"}, "a")] * 5}),
        "normalizer: its replacements can make a text 32 times longer",
    ),
    "growth of bytes": (
        changed(normalizer={"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 5}),
        "can make a text 32 times longer",
    ),
    "prefix": (changed(normalizer={"type": "Prepend", "prepend": "a" * 1000}), r"normalizer: Prepend\.prepend: has 1,000"),
    "pattern": (
        changed(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}),
        r"pre_tokenizer: Split: the pattern '\(a\+\)\+\$' repeats a group",
    ),
    "charsmap": (
        changed(normalizer={"type": "Precompiled", "precompiled_charsmap": base64.b64encode(b"\xff" * 64).decode()}),
        "normalizer: Precompiled: damaged: its precompiled_charsmap is incomplete",
    ),
    "deep": ({"a": json.loads("[" * 300 + "]" * 300)}, "nested more than 100 levels deep"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_its_name(name: str, tmp_path: Path) -> None:
    document, message = HOSTILE[name]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=rf"tokenizer\.json: .*{message}"):
        PretrainedTokenizer(from_=str(tmp_path / "tokenizer.json")).encode("a")
    with pytest.raises(ValueError, match=rf"tokenizer\.json: .*{message}"):  # of a run folder
        Word(vocab_size=10).load(tmp_path / "tokenizer.json")


def test_padding_and_truncation_of_a_file_are_ignored_in_a_run(tmp_path: Path) -> None:
    tokenizer = BPE(vocab_size=40)
    tokenizer.train(["low lower lowest"])
    tokenizer.save(tmp_path / "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    sizes = {"strategy": {"Fixed": 2**31}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0}
    (tmp_path / "t.json").write_text(json.dumps({**document, "padding": {**sizes, "pad_token": "<pad>"}}))
    again = BPE(vocab_size=40)
    again.load(tmp_path / "t.json")
    assert again.encode("lower low") == tokenizer.encode("lower low")


@pytest.mark.parametrize("extra", [10**9, 10_001])
def test_the_number_of_sentinels_is_bounded(extra: int, tmp_path: Path) -> None:
    piece = b"\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02"
    (tmp_path / "spiece.model").write_bytes(b"\x0a" + bytes([len(piece)]) + piece + b"\x12\x00\x1a\x00")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": extra}))
    with pytest.raises(ValueError, match=rf"spiece\.model: extra_ids in tokenizer_config\.json is {extra}; .* at most 10,000"):
        PretrainedTokenizer(from_=str(tmp_path / "spiece.model")).encode("a")


@pytest.mark.parametrize("number", [-1, 10**6, "0", True, None])
def test_ids_of_a_vocab_json_are_checked(number: Any, tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"a": number}))
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(ValueError, match=r"vocab\.json: the (token 'a' has the id|largest id is 1,000,000)"):
        PretrainedTokenizer(from_=str(tmp_path / "vocab.json")).encode("a")


def test_a_panic_of_the_library_is_an_error() -> None:
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(ValueError, match="the library tokenizers cannot process it: retry limit"), library_errors():
        raise panic("retry limit\nmore")
    with pytest.raises(KeyboardInterrupt), library_errors():
        raise KeyboardInterrupt


# --------------------------------------------------------------------------------------------------------------- patterns

PUBLISHED = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama-3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s",
    "qwen-2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k with look-ahead": r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+(?i:'s|'t)?|\s+(?!\S)|\s+",
    "deepseek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    "chinese": r"[一-龥぀-ゟ゠-ヿ]+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "falcon": r"[0-9][0-9][0-9]",
    "sentencepiece": r" {2,}",
    "ends": r"\A +|▁+\z|<(?=0x[0-9A-F]{2}>)",
    "any": "(?m:.)",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_patterns_of_published_tokenizers_are_allowed(name: str) -> None:
    check_pattern(PUBLISHED[name])


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "(a*)*b", "(a|a)*b", "(a|ab)+c", "(?:a?a)*b", "((a+))+b", "(?:(?:a|b)c?)*d", "(a{1,3})+b", "(?:a{2}){3,}b"),
        *("(?>a+b?)*c", "(?=a+)+b", "(?<name>x+)*y", "a**", "a{2}{3}{4}", "x{1,3}+y", "(x{1,3}+)y", "a*a*a*a*b", "a+b+c+d+e"),
        *(r"(a)\1", r"\k<name>", r"\g<0>", r"\X", "(?~a)", "(?(1)a)", "(?#c)", "a{1001}", "a{1,100000}", "(a", "a)", "[a", "*"),
        "(" * 30 + "a" + ")" * 30,
        "a" * 100_001,
    ],
)
def test_patterns_that_can_take_exponential_time_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        check_pattern(pattern)
