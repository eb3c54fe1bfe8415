"""SentencePiece's file (spiece.model, sentencepiece.bpe.model, tokenizer.model) as a tokenizer of the library ``tokenizers``.

The file is a message of Protocol Buffers, of which a few fields are needed: the pieces with their scores and kinds, which model
cuts a text into them, and how a text is normalised before.

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

import numpy as np
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of pieces."""
MODELS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
EXTRA = "<extra_id_{}>"
"""T5's sentinels."""
SHIFTED = ("camembert", "mbart", "m2m_100", "nllb-moe", "xglm", "barthez", "plbart")
"""Models whose ids are not those of the file."""
_ALL = 2**31


@dataclass(frozen=True)
class Piece:
    """A piece, its score (log p of a unigram, minus the rank of a BPE), and its kind."""

    name: str
    score: float
    kind: int


@dataclass(frozen=True)
class Pieces:
    """What a SentencePiece file says.

    Args:
        pieces: By their ids.
        model: unigram, bpe, word or char.
        bytes: Whether unknown characters are written as bytes.
        charsmap: The compiled normalisation; empty = none.
        prefix: Whether a text gets a space before its first word.
        squeeze: Whether spaces at both ends go and several become one.
        escape: Whether a space becomes ▁.
        suffix: Whether the space of a word is behind it.
    """

    pieces: tuple[Piece, ...]
    model: str
    bytes: bool
    charsmap: bytes
    prefix: bool
    squeeze: bool
    escape: bool
    suffix: bool


# --------------------------------------------------------------------------------------------------------- the wire format


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("ends in the middle of a number")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise ValueError(f"has a number of more than 10 bytes at {at}")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Each field's number and value: an int, or the bytes of a text, a message or a number of fixed width."""
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
            raise ValueError(f"has a field of the kind {kind} at byte {at}, which there is none of")
        if not number or at + size > len(data):
            raise ValueError(f"ends in the middle of a field ({len(data) - at} of {size} bytes are there)")
        yield number, data[at : at + size]
        at += size


def _message(value: int | bytes, what: str) -> dict[int, Any]:
    """The fields of an inner message; of one that is there twice, the last."""
    if isinstance(value, int):
        raise ValueError(f"has a number where {what} should be")
    return dict(_fields(value))


def _piece(value: int | bytes, number: int) -> Piece:
    found = _message(value, f"piece {number}")
    name, score, kind = found.get(1, b""), found.get(2, b"\0\0\0\0"), found.get(3, NORMAL)
    if not isinstance(name, bytes) or not isinstance(score, bytes) or len(score) != 4 or kind not in range(1, 7):
        raise ValueError(f"piece {number} has no name, score and kind")
    points = struct.unpack("<f", score)[0]
    if not name or not math.isfinite(points):
        raise ValueError(f"piece {number} has " + ("an empty name" if not name else f"the score {points}"))
    return Piece(name.decode("utf-8"), points, kind)


def read_pieces(data: bytes) -> Pieces:
    """Read the bytes of a SentencePiece file. What is damaged gives a ValueError."""
    if not data:
        raise ValueError("the file is empty")
    try:
        pieces, specs = [], {}
        for number, value in _fields(data):
            if number == 1:
                pieces.append(_piece(value, len(pieces)))
            elif number in (2, 3):
                specs[number] = _message(value, "a description")
    except ValueError as error:  # also what is no UTF-8
        raise ValueError(f"is damaged, or no file of SentencePiece: it {error}") from None
    if not pieces or len(specs) < 2:
        raise ValueError("is cut short, or no file of SentencePiece: pieces, trainer_spec and normalizer_spec are not all there")
    names = [piece.name for piece in pieces]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(f"is damaged: the piece {twice!r} is there twice")
    if sum(piece.kind == UNKNOWN for piece in pieces) != 1:
        raise ValueError("is damaged: one piece, and only one, must stand for what is unknown")
    trainer, normaliser = specs[2], specs[3]
    charsmap = normaliser.get(2, b"")
    if not isinstance(charsmap, bytes) or (charsmap and not _whole(charsmap)):
        raise ValueError("is damaged: its precompiled_charsmap is not whole")
    return Pieces(
        tuple(pieces),
        MODELS.get(trainer.get(3, 1), "unknown"),
        bool(trainer.get(35, 0)),
        charsmap,
        prefix=bool(normaliser.get(3, 1)),
        squeeze=bool(normaliser.get(4, 1)),
        escape=bool(normaliser.get(5, 1)),
        suffix=bool(trainer.get(24, 0)),
    )


def _whole(charsmap: bytes) -> bool:
    """Whether all that can be reached in it is there: the library would come to a violent end.

    It is a trie as a double array of 4-byte units, its length before it, and the texts that its leaves point to, each with a
    zero behind it. Yata et al. 2007, https://doi.org/10.1016/j.ipm.2006.04.004; the units: https://github.com/s-yata/darts-clone
    """
    size = int.from_bytes(charsmap[:4], "little")
    if size < 4 or size % 4 or 4 + size >= len(charsmap) or charsmap[-1]:
        return False
    try:
        charsmap[4 + size :].decode("utf-8")
    except UnicodeDecodeError:
        return False
    unit_U = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    text = np.frombuffer(charsmap, np.uint8, offset=4 + size)
    below_U = np.arange(len(unit_U)) ^ ((unit_U >> 10) << ((unit_U & 0x200) >> 6))
    seen_U = np.zeros(len(unit_U), bool)
    at_N = np.zeros(1, np.int64)
    while len(at_N):
        seen_U[at_N] = True
        if (below_U[at_N] | 0xFF).max() >= len(unit_U):
            return False
        leaf_N = unit_U[below_U[at_N[(unit_U[at_N] & 0x100) > 0]]] & 0x7FFFFFFF
        if len(leaf_N) and (leaf_N.max() >= len(text) or (text[leaf_N] & 0xC0 == 0x80).any()):
            return False
        next_NC = below_U[at_N][:, None] ^ np.arange(1, 256)
        at_N = np.unique(next_NC[unit_U[next_NC] & 0x800000FF == np.arange(1, 256)])
        at_N = at_N[~seen_U[at_N]]
    return True


# ------------------------------------------------------------------------------------------------------ the library's objects


def from_pieces(found: Pieces, config: Mapping[str, Any], lowercase: bool | None = None) -> tokenizers.Tokenizer:
    """A tokenizer of the library that does with a text what SentencePiece does, with the frame of its kind of model.

    Args:
        found: What the file says.
        config: What config.json and tokenizer_config.json beside it say: ``model_type``, ``extra_ids``, ``do_lower_case``,
            ``keep_accents``.
        lowercase: For an ALBERT, whether texts are lower-cased first; None = as ``do_lower_case`` says.
    """
    if found.model not in ("unigram", "bpe"):
        raise ValueError(f"is a SentencePiece model of the type {found.model}: those that are read are unigram and bpe")
    if found.suffix:
        raise ValueError("puts the space of a word behind it (treat_whitespace_as_suffix), which is not read")
    if any(piece.kind == UNUSED for piece in found.pieces):
        raise ValueError("has pieces that are marked as unused, which is not read")
    kind = str(config.get("model_type", ""))
    if lowercase is not None and kind != "albert":
        raise ValueError("a SentencePiece file says itself whether texts are lower-cased: leave lowercase out")
    if kind in SHIFTED:
        raise ValueError(f"belongs to a {kind}, which numbers its pieces in a way that is not read: give its tokenizer.json")
    if kind.startswith("xlm-roberta"):
        found = _shifted(found)
    names = [piece.name for piece in found.pieces]
    control = [piece.name for piece in found.pieces if piece.kind in (CONTROL, UNKNOWN)]
    extra = _extra(names, config)
    inner = tokenizers.Tokenizer(_unigram(found, extra) if found.model == "unigram" else _bpe(found, extra))
    if steps := (_albert(config, lowercase) if kind == "albert" else []) + _normalisers(found):
        inner.normalizer = normalizers.Sequence(steps)
    if (cut := _cut(found)) is not None:
        inner.pre_tokenizer = cut
    space = [decoders.Replace(SPACE, " ")] if found.escape else []
    before = _ALL if found.squeeze else 1 if found.prefix else 0
    ends = [decoders.Strip(" ", before, 0)] if before else []
    inner.decoder = decoders.Sequence([*space, decoders.ByteFallback(), decoders.Fuse(), *ends])
    # what the user defined is never normalised: where that would change it, it is looked for before
    defined = [piece.name for piece in found.pieces if piece.kind == DEFINED]
    inner.add_tokens([AddedToken(name, normalized=False) for name in defined if _plain(found, name) != name])
    inner.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in [*control, *extra]])
    _frame(inner, kind)
    return inner


def _plain(found: Pieces, name: str) -> str:
    """A piece as the charsmap leaves it."""
    return normalizers.Precompiled(found.charsmap).normalize_str(name) if found.charsmap else name


def _shifted(found: Pieces) -> Pieces:
    """XLM-R's ids: <s>, <pad>, </s>, <unk>, the pieces but for their first three, <mask>."""
    if [piece.name for piece in found.pieces[:3]] != ["<unk>", "<s>", "</s>"]:
        raise ValueError("does not begin with <unk>, <s>, </s>, so it is no file of an XLM-R")
    first = [Piece(name, 0.0, UNKNOWN if name == "<unk>" else CONTROL) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    return replace(found, pieces=(*first, *found.pieces[3:], Piece("<mask>", 0.0, CONTROL)))


def _extra(names: Sequence[str], config: Mapping[str, Any]) -> list[str]:
    """T5's sentinels, which the file does not have: they count down, so that <extra_id_0> is the last id."""
    if any(name.lstrip(SPACE).startswith("<extra_id_") for name in names):
        return []
    number = config.get("extra_ids")
    if number is None:
        number = 100 if config.get("model_type") == "t5" else 0
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"tokenizer_config.json has extra_ids {number!r}, which is no number of ids")
    return [EXTRA.format(i) for i in reversed(range(number))]


def _albert(config: Mapping[str, Any], lowercase: bool | None) -> list[normalizers.Normalizer]:
    """What ALBERT does to a text before SentencePiece sees it."""
    steps: list[normalizers.Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not config.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if config.get("do_lower_case", True) if lowercase is None else lowercase:
        steps += [normalizers.Lowercase()]
    return steps


def _normalisers(found: Pieces) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(found.charsmap)] if found.charsmap else []
    mark = SPACE if found.escape else " "
    if found.squeeze:
        steps += [normalizers.Replace(tokenizers.Regex(r"\A +"), ""), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    if found.prefix:
        steps += [normalizers.Prepend(mark)]
    if found.escape:
        steps += [normalizers.Replace(" ", SPACE)]
    if found.squeeze:
        steps += [normalizers.Replace(tokenizers.Regex(rf"{mark}+\z"), "")]
    return steps


def _cut(found: Pieces) -> pre_tokenizers.PreTokenizer | None:
    """Where no piece goes from one word into the next, words are cut alone, which changes nothing and is faster."""
    steps: list[pre_tokenizers.PreTokenizer] = []
    defined = sorted((p.name for p in found.pieces if p.kind == DEFINED), key=lambda name: -len(name))
    if defined and found.model == "bpe":
        steps.append(pre_tokenizers.Split(tokenizers.Regex("|".join(map(re.escape, defined))), "isolated"))
    if any(piece.kind == BYTE for piece in found.pieces):  # a text with "<0x41>" in it does not mean the byte
        steps.append(pre_tokenizers.Split(tokenizers.Regex("<(?=0x[0-9A-F]{2}>)"), "isolated"))
    names = {piece.name for piece in found.pieces if piece.kind in (NORMAL, DEFINED)}
    if found.escape and SPACE in names and not any(SPACE in name[1:] for name in names):
        steps.append(pre_tokenizers.Metaspace(SPACE, prepend_scheme="never", split=True))
    return pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0] if steps else None


def _unknown(found: Pieces) -> int:
    return next(i for i, piece in enumerate(found.pieces) if piece.kind == UNKNOWN)


def _unigram(found: Pieces, extra: Sequence[str]) -> models.Unigram:
    """The library's unknown is 10 below the lowest score of all, SentencePiece's below that of the normal pieces: no other kind
    may be lower. A piece that the user defined has -0.1, so that it wins; with scores above 0, more for each of its bytes."""
    normal = [piece.score for piece in found.pieces if piece.kind == NORMAL] or [0.0]
    low, high = min(normal), max(0.0, *normal)

    def score(piece: Piece) -> float:
        if piece.kind == NORMAL:
            return piece.score
        return max(low, len(piece.name.encode()) * high - 0.1) if piece.kind == DEFINED else max(low, 0.0)

    scored = [(piece.name, score(piece)) for piece in found.pieces]
    return models.Unigram([*scored, *((name, max(low, 0.0)) for name in extra)], _unknown(found), found.bytes)


def _bpe(found: Pieces, extra: Sequence[str]) -> models.BPE:
    """SentencePiece joins the two neighbours whose piece has the best score; the library needs each pair with its rank."""
    ids = {piece.name: i for i, piece in enumerate(found.pieces)}
    normal = {piece.name: piece.score for piece in found.pieces if piece.kind == NORMAL}
    merges: list[tuple[str, str]] = []
    for name in sorted((name for name in normal if len(name) > 1), key=lambda name: (-normal[name], ids[name])):
        pairs = [(name[:i], name[i:]) for i in range(1, len(name)) if name[:i] in normal and name[i:] in normal]
        merges += sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    whole = ids | {name: len(ids) + i for i, name in enumerate(extra)}
    unknown = found.pieces[_unknown(found)].name
    defined = any(piece.kind == DEFINED for piece in found.pieces)
    return models.BPE(whole, merges, unk_token=unknown, fuse_unk=True, byte_fallback=found.bytes, ignore_merges=defined)


def _frame(inner: tokenizers.Tokenizer, kind: str) -> None:
    """Put special ids around texts.

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
