"""Files of SentencePiece: ids and texts are those of the package ``sentencepiece``, frames those of ``transformers``."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers

from weft.core.fields import Frame, Special
from weft.data import PretrainedTokenizer
from weft.data.tokenizers.sentencepiece import read_pieces
from weft.data.tokenizers.vocabulary import UNKNOWN
from weft.inference.prompting import log_probabilities
from weft.inference.published import open_published

WORDS = ["the", "low", "lower", "lowest", "naïve", "café", "Straße", "漢字", "仮名", "dogs", "bark", "slow", "12.5", "don't"]
WORDS += ["running", "ran", "(yes)", "LOW"]
AWKWARD = [
    "",
    " ",
    "    ",
    "  two  spaces  ",
    "low  low   lower",
    " \u3000x\u00a0y",
    "a\tb\nc",
    "Crème brûlée Ünïcödé é É İ ß ẞ",
    "cafe\u0301 nai\u0308ve",
    "漢字仮名交じり文 한국어 ไทย",
    "🙂 👍🏽 low🙂🙂low",
    "a\0b\x07c\x1b\u200b\ufeff\u2028d",
    "x" * 3000,
    "low" * 400,
    "##s ▁ Ġ # low▁er ▁low low▁",
    "\ufffd \U0010ffff ☃ 𝒳",
    "ﬁ ① Ａ ㌔",
    "<0x41> a<0x0A>b",
    "(low) ((( lowest-dogs low-",
    "trailing ",
    "   leading",
]
T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
MADE: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram", **T5},
    "identity": {"model_type": "unigram", "normalization_rule_name": "identity", **T5},
    "folded": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf", **T5},
    "spaces": {"model_type": "unigram", "remove_extra_whitespaces": False, **T5},
    "no-prefix": {"model_type": "unigram", "add_dummy_prefix": False, **T5},
    "bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 350, **T5},
    "crossing": {"model_type": "unigram", "split_by_whitespace": False, **T5},
    "defined": {"model_type": "unigram", "user_defined_symbols": ["(", ")", "low-", "owe"], **T5},
    "albert": {
        "model_type": "unigram",
        "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
    },
    "xlm-r": {"model_type": "unigram"},
    "bpe": {"model_type": "bpe", **T5},
    "bpe-bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 380, "remove_extra_whitespaces": False},
    "bpe-defined": {"model_type": "bpe", "user_defined_symbols": ["(", ")", "low-", "owe"], **T5},
}


def corpus() -> list[str]:
    rng = random.Random(1)
    rows = [" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) for _ in range(300)]
    return rows + [
        "".join(rng.choices("abcdefghilnorst", k=5)) + " " + "".join(rng.choices("abelowrst", k=4)) for _ in range(300)
    ]


def learned(**options: Any) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=written, minloglevel=2, **{"vocab_size": 100, **options}
    )
    return written.getvalue()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {name: learned(**options) for name, options in MADE.items()}


def opened(
    folder: Path, data: bytes, config: dict[str, Any] | None = None, told: dict[str, Any] | None = None
) -> PretrainedTokenizer:
    (folder / "spiece.model").write_bytes(data)
    for name, content in (("config.json", config), ("tokenizer_config.json", told)):
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    return PretrainedTokenizer(from_=str(folder))


@pytest.mark.parametrize("name", MADE)
def test_ids_and_texts_are_sentencepieces(files: dict[str, bytes], name: str, tmp_path: Path) -> None:
    mine, theirs = opened(tmp_path, files[name]), sentencepiece.SentencePieceProcessor(model_proto=files[name])
    rng = random.Random(2)
    some = ["".join(rng.choices("abelowrstd ▁(<0x41>é漢🙂\t -.", k=rng.randint(0, 14))) for _ in range(1000)]
    texts = [*AWKWARD, *corpus()[:20], *some]
    for text, found in zip(texts, mine.encode_batch(texts), strict=True):
        wanted = theirs.encode(text)
        assert found == wanted == mine.encode(text), repr(text)
        assert mine.decode(wanted) == theirs.decode(wanted).replace(" ⁇ ", UNKNOWN), repr(text)
    assert mine.names == [theirs.id_to_piece(i) for i in range(theirs.get_piece_size())]


@pytest.mark.parametrize("name", ["unigram", "bytes", "bpe", "bpe-defined"])
def test_a_run_keeps_what_it_read(files: dict[str, bytes], name: str, tmp_path: Path) -> None:
    mine = opened(tmp_path, files[name], {"model_type": "t5"})
    mine.save(tmp_path / "tokenizer-text.json")
    again = PretrainedTokenizer(from_="gone/spiece.model")
    again.load(tmp_path / "tokenizer-text.json")
    assert again.encode_batch(AWKWARD) == mine.encode_batch(AWKWARD)
    ids = mine.encode("low dogs (12.5)")
    assert (again.special, again.frame, again.sentinel_count, again.decode(ids)) == (
        mine.special,
        mine.frame,
        100,
        mine.decode(ids),
    )


def test_marks_are_treated_as_by_the_library(files: dict[str, bytes], tmp_path: Path) -> None:
    """The library normalizes a grapheme as a whole: a second mark on a letter that is changed is lost."""
    mine, theirs = opened(tmp_path, files["bytes"]), sentencepiece.SentencePieceProcessor(model_proto=files["bytes"])
    assert theirs.decode(theirs.encode("ﬁ\u0301")) == "fi\u0301" and mine.decode(mine.encode("ﬁ\u0301")) == "fi"


# ------------------------------------------------------------------------------------------------------- kinds of models


def test_t5_has_its_sentinels_and_frame(files: dict[str, bytes], tmp_path: Path) -> None:
    mine = opened(tmp_path, files["unigram"], {"model_type": "t5", "vocab_size": 256})
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    assert mine.vocab == 200 == len(theirs) and mine.sentinel_count == 100
    assert mine.names[-1] == "<extra_id_0>" and theirs.convert_tokens_to_ids("<extra_id_0>") == 199
    assert mine.special == Special(pad=0, bos=0, eos=1, unk=2, mask=-1, cls=-1, sep=1)
    assert mine.frame == Frame((), (1,), (1,), False)
    assert theirs("low", "ran")["input_ids"] == [*mine.encode("low"), 1, *mine.encode("ran"), 1]
    assert mine.encode("low<extra_id_3>") == [*mine.encode("low"), 196]
    assert mine.decode([*mine.encode("low dogs"), 199, 1, 0]) == "low dogs"
    plain = [text for text in AWKWARD if "▁" not in text and text.strip()]
    assert [mine.encode(t) for t in plain] == [theirs(t, add_special_tokens=False)["input_ids"] for t in plain]


@pytest.mark.parametrize(("extra", "sentinel_count"), [(0, 0), (7, 7), (None, 100)])
def test_how_many_sentinels(files: dict[str, bytes], extra: int | None, sentinel_count: int, tmp_path: Path) -> None:
    mine = opened(tmp_path, files["unigram"], {"model_type": "t5"}, {"extra_ids": extra})
    assert (mine.sentinel_count, mine.vocab) == (sentinel_count, 100 + sentinel_count)


def piece(name: str, kind: int) -> bytes:
    """A piece in the wire format; at the end of a file it is one more."""
    inner = bytes([0x0A, len(name.encode())]) + name.encode() + b"\x15\0\0\0\0\x18" + bytes([kind])
    return bytes([0x0A, len(inner)]) + inner


def test_sentinels_that_are_pieces(files: dict[str, bytes], tmp_path: Path) -> None:
    data = files["unigram"] + b"".join(piece(f"▁<extra_id_{i}>", 4) for i in (2, 1, 0))  # as in mT5
    mine, theirs = opened(tmp_path, data, {"model_type": "mt5"}), sentencepiece.SentencePieceProcessor(model_proto=data)
    assert mine.vocab == 103 and mine.sentinel_count == 3 and mine.frame == Frame((), (1,), (1,), False)
    for text in ("low <extra_id_0> dogs", "<extra_id_1>", "a<extra_id_2>"):
        assert mine.encode(text) == theirs.encode(text)


def test_pieces_that_cannot_be(files: dict[str, bytes], tmp_path: Path) -> None:
    rejects(tmp_path, files["unigram"] + piece("low", 1) + piece("low", 1), "the piece 'low' occurs twice")
    rejects(tmp_path, files["unigram"] + piece("?", 2), "exactly one piece must have the type UNKNOWN")
    rejects(tmp_path, files["unigram"] + piece("never", 5), "pieces of the type UNUSED are not supported")
    rejects(tmp_path, files["unigram"] + piece("odd", 9), "lacks a name, score or type")
    rejects(tmp_path, files["unigram"] + piece("", 1), "has an empty name")


@pytest.mark.parametrize("told", [None, {"do_lower_case": False}, {"keep_accents": True}])
def test_albert(files: dict[str, bytes], told: dict[str, Any] | None, tmp_path: Path) -> None:
    mine = opened(tmp_path, files["albert"], {"model_type": "albert"}, told)
    ids = {name: mine.names.index(name) for name in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")}
    cls, sep = ids["[CLS]"], ids["[SEP]"]
    assert mine.special == Special(pad=0, bos=cls, eos=sep, unk=1, mask=ids["[MASK]"], cls=cls, sep=sep)
    assert mine.frame == Frame((cls,), (sep,), (sep,), True)
    assert mine.vocab == 100 and mine.sentinel_count == 0
    lower, accents = (told or {}).get("do_lower_case", True), (told or {}).get("keep_accents", False)
    assert (mine.encode("LOW") == mine.encode("low")) is lower and mine.lowercase is lower
    assert (mine.encode("café") == mine.encode("cafe")) is not accents
    assert mine.encode("``low''") == mine.encode('"low"')
    kept = PretrainedTokenizer(from_=str(tmp_path), lowercase=not lower)
    assert (kept.encode("LOW") == kept.encode("low")) is not lower


def test_albert_is_that_of_transformers(files: dict[str, bytes], tmp_path: Path) -> None:
    mine = opened(tmp_path, files["albert"], {"model_type": "albert"})
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    for text in ["LOW dogs, café!", "naïve  ``ran''", "漢字 (yes)"]:
        assert mine.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text


def test_xlm_roberta(files: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    (tmp_path / "sentencepiece.bpe.model").write_bytes(files["xlm-r"])
    mine, theirs = PretrainedTokenizer(from_=str(tmp_path)), sentencepiece.SentencePieceProcessor(model_proto=files["xlm-r"])
    assert mine.vocab == theirs.get_piece_size() + 2
    assert mine.special == Special(pad=1, bos=0, eos=2, unk=3, mask=mine.vocab - 1, cls=0, sep=2)
    assert mine.frame == Frame((0,), (2, 2), (2,), False)
    assert mine.encode("low 漢字") == [i + 1 for i in theirs.encode("low 漢字")]
    assert mine.encode("☃") == [mine.names.index("▁"), 3]


def test_a_published_t5_folder_without_a_tokenizer_json(files: dict[str, bytes], tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = transformers.T5Config(
        vocab_size=256, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    theirs = transformers.T5ForConditionalGeneration(config).eval()
    theirs.save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes(files["unigram"])
    run = open_published(tmp_path)
    assert run.codec is not None
    tokenizer = run.codec.tokenizers["text"]
    assert tokenizer.vocab == 200 and run.codec.info[run.codec.info.target].sentinel_count == 100
    asked, answer = tokenizer.encode("low dogs"), tokenizer.encode("ran slow")
    with torch.no_grad():
        given = {"input_ids": torch.tensor([[*asked, 1]]), "decoder_input_ids": torch.tensor([[0, *answer[:-1]]])}
        logp_TV = theirs(**given).logits[0].log_softmax(-1)
    wanted = sum(float(logp_TV[i, token]) for i, token in enumerate(answer))
    assert log_probabilities(run, [("low dogs", "ran slow")])[0][0] == pytest.approx(wanted, abs=1e-4)


# --------------------------------------------------------------------------------------------------------------- errors


def rejects(folder: Path, data: bytes, match: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=match):
        opened(folder, data, **options).encode("low")


def test_what_is_damaged(files: dict[str, bytes], tmp_path: Path) -> None:
    whole = files["unigram"]
    rejects(tmp_path, b"", r"spiece\.model: the file is empty")
    rejects(tmp_path, b"this is a text, not a model\n", r"spiece\.model: damaged, or not a SentencePiece file")
    rejects(tmp_path, b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n", "not a SentencePiece file")
    for size in [*range(1, 400, 7), *range(400, len(whole) - 1, 9973)]:
        rejects(tmp_path, whole[:size], r"spiece\.model: (damaged|truncated)")
    first = read_pieces(whole).pieces[5].name.encode()
    rejects(tmp_path, whole.replace(first, b"\xff" * len(first), 1), r"spiece\.model: damaged")


def test_damage_never_ends_the_program(files: dict[str, bytes], tmp_path: Path) -> None:
    """The library panics where a trie points outside itself; no such trie may reach it."""
    rng, refused = random.Random(3), 0
    for _ in range(150):
        data = bytearray(files["unigram"])
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            opened(tmp_path, bytes(data)).encode_batch(AWKWARD)
        except ValueError:
            refused += 1
    assert refused > 20
    table = read_pieces(files["unigram"]).charsmap
    for at, unit in ((4, b"\0\xfc\xff\x7f"), (0, b"\0\0\0\x7f"), (len(table) - 1, b"x"), (len(table) - 3, b"\xff")):
        rejects(tmp_path, files["unigram"].replace(table, table[:at] + unit + table[at + len(unit) :]), "charsmap is incomplete")


def test_what_is_not_read(files: dict[str, bytes], tmp_path: Path) -> None:
    for kind in ("word", "char"):
        rejects(
            tmp_path,
            learned(model_type=kind, vocab_size=50, hard_vocab_limit=False),
            f"model type {kind} is not supported; supported are unigram and bpe",
        )
    rejects(
        tmp_path, learned(model_type="unigram", treat_whitespace_as_suffix=True), "treat_whitespace_as_suffix is not supported"
    )
    rejects(tmp_path, files["xlm-r"], "the ids of model_type camembert are not supported", config={"model_type": "camembert"})
    rejects(tmp_path, files["unigram"], "expected a file of XLM-R", config={"model_type": "xlm-roberta"})
    rejects(
        tmp_path,
        files["unigram"],
        "extra_ids in tokenizer_config.json is 'many'",
        config={"model_type": "t5"},
        told={"extra_ids": "many"},
    )
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json: not valid JSON"):
        PretrainedTokenizer(from_=str(tmp_path)).encode("low")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(ValueError, match="remove the option lowercase"):
        PretrainedTokenizer(from_=str(tmp_path), lowercase=True).encode("low")
