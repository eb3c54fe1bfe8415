"""SentencePiece files (spiece.model, sentencepiece.bpe.model, tokenizer.model) as tokenizers of the library ``tokenizers``.

A file is a Protocol Buffers message, of which a few fields are needed: the pieces with their scores and types, the segmentation
model, and the normalization.

Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226; the fields: sentencepiece_model.proto of
https://github.com/google/sentencepiece; the wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from weft.data.tokenizers.charsmap import check_charsmap
from weft.data.tokenizers.tokenizer_json import check_ids

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of pieces."""
MODELS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
EXTRA = "<extra_id_{}>"
"""Sentinel tokens of T5."""
SHIFTED = ("camembert", "mbart", "m2m_100", "nllb-moe", "xglm", "barthez", "plbart")
"""Model types whose ids differ from those of the file; not supported."""
MAX_PIECE = 512
"""Longest piece, in characters: merges are found by splitting it everywhere."""
MAX_EXTRA = 10_000
"""Most sentinel tokens."""
_ALL = 2**31


@dataclass(frozen=True)
class Piece:
    """A piece, its score (log p of a unigram model, minus the rank of a BPE merge), and its type."""

    name: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePieceModel:
    """Content of a SentencePiece file.

    Args:
        pieces: Pieces by id.
        model: unigram, bpe, word or char.
        byte_fallback: Whether unknown characters are encoded as bytes.
        charsmap: Compiled normalization rules; empty = none.
        add_dummy_prefix: Whether a space is added before the first word.
        remove_extra_whitespaces: Whether leading, trailing and repeated spaces are removed.
        escape_whitespaces: Whether a space becomes ▁.
        whitespace_as_suffix: Whether the space of a word follows it.
    """

    pieces: tuple[Piece, ...]
    model: str
    byte_fallback: bool
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool
    whitespace_as_suffix: bool


# ------------------------------------------------------------------------------------------------------------- wire format


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it ends in the middle of a number")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError(f"a number at byte {at} has more than 10 bytes")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: an int, or the bytes of a string, a message or a fixed-size number."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field at byte {at} has the unknown wire type {kind}")
        if not number or at + size > len(data):
            raise ValueError(f"it ends in the middle of a field ({len(data) - at} of {size} bytes)")
        yield number, data[at : at + size]
        at += size


def _message(value: int | bytes, what: str) -> dict[int, Any]:
    """The fields of a nested message; of repeated ones, the last."""
    if isinstance(value, int):
        raise ValueError(f"{what} is a number, not a message")
    return dict(_fields(value))


def _piece(value: int | bytes, number: int) -> Piece:
    found = _message(value, f"piece {number}")
    name, score, kind = found.get(1, b""), found.get(2, b"\0\0\0\0"), found.get(3, NORMAL)
    if not isinstance(name, bytes) or not isinstance(score, bytes) or len(score) != 4 or kind not in range(1, 7):
        raise ValueError(f"piece {number} lacks a name, score or type")
    points = struct.unpack("<f", score)[0]
    if not name or not math.isfinite(points):
        raise ValueError(f"piece {number} has " + ("an empty name" if not name else f"the score {points}"))
    return Piece(name.decode("utf-8"), points, kind)


def read_pieces(data: bytes) -> SentencePieceModel:
    """Parse a SentencePiece file. Raises ValueError if it is damaged."""
    if not data:
        raise ValueError("the file is empty")
    try:
        pieces, specs = [], {}
        for number, value in _fields(data):
            if number == 1:
                pieces.append(_piece(value, len(pieces)))
            elif number in (2, 3):
                specs[number] = _message(value, "a description")
    except ValueError as error:  # also invalid UTF-8
        raise ValueError(f"damaged, or not a SentencePiece file: {error}") from None
    if not pieces or len(specs) < 2:
        raise ValueError("truncated, or not a SentencePiece file: it must have pieces, trainer_spec and normalizer_spec")
    names = [piece.name for piece in pieces]
    check_ids([(name, number) for number, name in enumerate(names)])
    if (longest := max(map(len, names))) > MAX_PIECE:
        raise ValueError(f"a piece has {longest:,} characters; at most {MAX_PIECE} are allowed")
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(f"damaged: the piece {twice!r} occurs twice")
    if sum(piece.kind == UNKNOWN for piece in pieces) != 1:
        raise ValueError("damaged: exactly one piece must have the type UNKNOWN")
    trainer, normalizer = specs[2], specs[3]
    charsmap = normalizer.get(2, b"")
    if not isinstance(charsmap, bytes):
        raise ValueError("damaged: its precompiled_charsmap is incomplete")
    if charsmap:
        check_charsmap(charsmap)
    return SentencePieceModel(
        tuple(pieces),
        MODELS.get(trainer.get(3, 1), "unknown"),
        bool(trainer.get(35, 0)),
        charsmap,
        add_dummy_prefix=bool(normalizer.get(3, 1)),
        remove_extra_whitespaces=bool(normalizer.get(4, 1)),
        escape_whitespaces=bool(normalizer.get(5, 1)),
        whitespace_as_suffix=bool(trainer.get(24, 0)),
    )


# ------------------------------------------------------------------------------------------------------ the library's objects


def from_pieces(found: SentencePieceModel, config: Mapping[str, Any], lowercase: bool | None = None) -> tokenizers.Tokenizer:
    """Build a tokenizer of the library that equals SentencePiece, with the post-processor of the model type.

    Args:
        found: Content of the file.
        config: From config.json and tokenizer_config.json beside it: ``model_type``, ``extra_ids``, ``do_lower_case``,
            ``keep_accents``.
        lowercase: For ALBERT, whether to lower-case texts; None = ``do_lower_case``.
    """
    if found.model not in ("unigram", "bpe"):
        raise ValueError(f"SentencePiece model type {found.model} is not supported; supported are unigram and bpe")
    if found.whitespace_as_suffix:
        raise ValueError("treat_whitespace_as_suffix is not supported")
    if any(piece.kind == UNUSED for piece in found.pieces):
        raise ValueError("pieces of the type UNUSED are not supported")
    kind = str(config.get("model_type", ""))
    if lowercase is not None and kind != "albert":
        raise ValueError("a SentencePiece file defines lower-casing itself; remove the option lowercase")
    if kind in SHIFTED:
        raise ValueError(f"the ids of model_type {kind} are not supported; use its tokenizer.json")
    if kind.startswith("xlm-roberta"):
        found = _shifted(found)
    names = [piece.name for piece in found.pieces]
    control = [piece.name for piece in found.pieces if piece.kind in (CONTROL, UNKNOWN)]
    extra = _extra(names, config)
    inner = tokenizers.Tokenizer(_unigram(found, extra) if found.model == "unigram" else _bpe(found, extra))
    if steps := (_albert(config, lowercase) if kind == "albert" else []) + _normalizers(found):
        inner.normalizer = normalizers.Sequence(steps)
    if (pre_tokenizer := _pre_tokenizer(found)) is not None:
        inner.pre_tokenizer = pre_tokenizer
    space = [decoders.Replace(SPACE, " ")] if found.escape_whitespaces else []
    before = _ALL if found.remove_extra_whitespaces else 1 if found.add_dummy_prefix else 0
    ends = [decoders.Strip(" ", before, 0)] if before else []
    inner.decoder = decoders.Sequence([*space, decoders.ByteFallback(), decoders.Fuse(), *ends])
    # user-defined pieces are never normalized: if normalization would change one, it is matched before
    defined = [piece.name for piece in found.pieces if piece.kind == DEFINED]
    inner.add_tokens([AddedToken(name, normalized=False) for name in defined if _plain(found, name) != name])
    inner.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in [*control, *extra]])
    _add_post_processor(inner, kind)
    return inner


def _plain(found: SentencePieceModel, name: str) -> str:
    """A piece after normalization by the charsmap."""
    return normalizers.Precompiled(found.charsmap).normalize_str(name) if found.charsmap else name


def _shifted(found: SentencePieceModel) -> SentencePieceModel:
    """The ids of XLM-R: <s>, <pad>, </s>, <unk>, the pieces except the first three, <mask>."""
    if [piece.name for piece in found.pieces[:3]] != ["<unk>", "<s>", "</s>"]:
        raise ValueError("does not start with <unk>, <s>, </s>; expected a file of XLM-R")
    first = [Piece(name, 0.0, UNKNOWN if name == "<unk>" else CONTROL) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    return replace(found, pieces=(*first, *found.pieces[3:], Piece("<mask>", 0.0, CONTROL)))


def _extra(names: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """Sentinel tokens of T5, which the file lacks: they count down, so that <extra_id_0> is the last id."""
    if any(name.lstrip(SPACE).startswith("<extra_id_") for name in names):
        return []
    number = config.get("extra_ids")
    if number is None:
        number = 100 if config.get("model_type") == "t5" else 0
    if not isinstance(number, int) or not 0 <= number <= MAX_EXTRA:
        raise ValueError(f"extra_ids in tokenizer_config.json is {number!r}; it must be a number of ids, at most {MAX_EXTRA:,}")
    return [EXTRA.format(i) for i in reversed(range(number))]


def _albert(config: Mapping[str, Any], lowercase: bool | None) -> list[normalizers.Normalizer]:
    """Normalization of ALBERT before SentencePiece."""
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not config.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if config.get("do_lower_case", True) if lowercase is None else lowercase:
        steps += [normalizers.Lowercase()]
    return steps


def _normalizers(found: SentencePieceModel) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(found.charsmap)] if found.charsmap else []
    mark = SPACE if found.escape_whitespaces else " "
    if found.remove_extra_whitespaces:
        steps += [normalizers.Replace(tokenizers.Regex(r"\A +"), ""), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    if found.add_dummy_prefix:
        steps += [normalizers.Prepend(mark)]
    if found.escape_whitespaces:
        steps += [normalizers.Replace(" ", SPACE)]
    if found.remove_extra_whitespaces:
        steps += [normalizers.Replace(tokenizers.Regex(rf"{mark}+\z"), "")]
    return steps


def _pre_tokenizer(found: SentencePieceModel) -> pre_tokenizers.PreTokenizer | None:
    """Split at words if no piece spans two: the same segmentation, faster."""
    steps: list[pre_tokenizers.PreTokenizer] = []
    defined = sorted((p.name for p in found.pieces if p.kind == DEFINED), key=lambda name: -len(name))
    if defined and found.model == "bpe":
        steps.append(pre_tokenizers.Split(tokenizers.Regex("|".join(map(re.escape, defined))), "isolated"))
    if any(piece.kind == BYTE for piece in found.pieces):  # "<0x41>" in a text is not a byte
        steps.append(pre_tokenizers.Split(tokenizers.Regex("<(?=0x[0-9A-F]{2}>)"), "isolated"))
    names = {piece.name for piece in found.pieces if piece.kind in (NORMAL, DEFINED)}
    if found.escape_whitespaces and SPACE in names and not any(SPACE in name[1:] for name in names):
        steps.append(pre_tokenizers.Metaspace(SPACE, prepend_scheme="never", split=True))
    return pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0] if steps else None


def _unknown(found: SentencePieceModel) -> int:
    return next(i for i, piece in enumerate(found.pieces) if piece.kind == UNKNOWN)


def _unigram(found: SentencePieceModel, extra: Sequence[str]) -> models.Unigram:
    """The library scores unknown characters 10 below the minimum of all pieces, SentencePiece below that of the normal ones: no
    other type may be lower. A user-defined piece has -0.1, so that it wins; with scores above 0, more for each of its bytes."""
    normal = [piece.score for piece in found.pieces if piece.kind == NORMAL] or [0.0]
    low, high = min(normal), max(0.0, *normal)

    def score(piece: Piece) -> float:
        if piece.kind == NORMAL:
            return piece.score
        return max(low, len(piece.name.encode()) * high - 0.1) if piece.kind == DEFINED else max(low, 0.0)

    scored = [(piece.name, score(piece)) for piece in found.pieces]
    return models.Unigram([*scored, *((name, max(low, 0.0)) for name in extra)], _unknown(found), found.byte_fallback)


def _bpe(found: SentencePieceModel, extra: Sequence[str]) -> models.BPE:
    """SentencePiece merges the adjacent pair with the best score; the library needs every pair with its rank."""
    ids = {piece.name: i for i, piece in enumerate(found.pieces)}
    normal = {piece.name: piece.score for piece in found.pieces if piece.kind == NORMAL}
    merges: list[tuple[str, str]] = []
    for name in sorted((name for name in normal if len(name) > 1), key=lambda name: (-normal[name], ids[name])):
        pairs = [(name[:i], name[i:]) for i in range(1, len(name)) if name[:i] in normal and name[i:] in normal]
        merges += sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    vocabulary = ids | {name: len(ids) + i for i, name in enumerate(extra)}
    unknown = found.pieces[_unknown(found)].name
    defined = any(piece.kind == DEFINED for piece in found.pieces)
    return models.BPE(
        vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=found.byte_fallback, ignore_merges=defined
    )


def _add_post_processor(inner: tokenizers.Tokenizer, kind: str) -> None:
    """Add special tokens around texts.

    ALBERT: [CLS] first [SEP] second [SEP]. XLM-R: <s> first </s> </s> second </s>. T5, and a file that has no <s>: first </s>
    second </s>. Else none.
    """
    ids = inner.get_vocab()
    if "[CLS]" in ids and "[SEP]" in ids:
        inner.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
        )
    elif kind.startswith("xlm-roberta"):
        ends = [("<s>", ids["<s>"]), ("</s>", ids["</s>"])]
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
        )
    elif "</s>" in ids and (kind in ("t5", "mt5", "umt5") or "<s>" not in ids):
        inner.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", ids["</s>"])]
        )
