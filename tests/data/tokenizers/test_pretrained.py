from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers

from weft.core.fields import Special
from weft.data import BPE, ByteBPE, PretrainedTokenizer, Unigram, Word, WordPiece
from weft.data.tokenizers.vocabulary import UNKNOWN

TEXTS = [
    "The Dogs bark; naïve cafés, Straße! 12.50 €",
    "漢字 and 仮名, don't <s> [MASK] </s> <|endoftext|>",
    "low lower lowest slow slower slowest",
]
AWKWARD = [
    "",
    " ",
    "Crème brûlée Ünïcödé é É İ ß ẞ",
    "漢字仮名交じり文 한국어 ไทย",
    "🙂👩‍👧🏽 🇩🇪",
    "a\0b\x07c\u200b\u00a0\ufeff\u2028d\r\n\te",
    "x" * 5000,
    "low" * 40,
    "[MASK] a [CLS]b <mask> <s>a</s><pad> <|endoftext|>  [UNK]",
    "##s ▁ Ġ # low▁er",
    "  two  spaces  ",
    "\ufffd \U0010ffff ☃ 𝒳",
]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert(lowercase: bool = True) -> tokenizers.Tokenizer:
    letters = sorted({c for text in TEXTS for c in text if c not in " ☃"} | set("abcdefghijklmnopqrstuvwxyz"))
    pieces = [*BERT, *letters, *(f"##{c}" for c in letters), "low", "slow", "##er", "##est", "Dog", "dog"]
    inner = tokenizers.Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.add_special_tokens(BERT)
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    inner.enable_truncation(5)
    inner.enable_padding(length=20)
    return inner


def byte_level(names: list[str]) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator(TEXTS, trainer)
    inner.add_special_tokens([AddedToken(name, lstrip=name == "<mask>") for name in names])
    return inner


def t5() -> tokenizers.Tokenizer:
    letters = sorted({c for text in TEXTS for c in text.replace(" ", "▁")})
    longer = [("▁low", -3.0), ("▁slow", -3.5), ("er", -4.0), ("est", -4.1), ("▁the", -4.2)]
    special = ["<pad>", "</s>", "<unk>"]
    inner = tokenizers.Tokenizer(models.Unigram([*((n, 0.0) for n in special), *longer, *((c, -6.0) for c in letters)], 2, False))
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    inner.add_special_tokens(special)
    inner.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return inner


MADE = {
    "bert": (bert, Special(0, 2, 3, 1, 4, 2, 3)),
    "cased": (lambda: bert(False), Special(0, 2, 3, 1, 4, 2, 3)),
    "roberta": (lambda: byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]), Special(301, 300, 302, 303, 304, 300, 302)),
    "gpt2": (lambda: byte_level(["<|endoftext|>"]), Special(300, 300, 300, -1, -1, 300, 300)),
    "t5": (t5, Special(0, 0, 1, 2, -1, -1, 1)),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("published")
    made = {}
    for name, (make, _) in MADE.items():
        made[name] = folder / name / "tokenizer.json"
        made[name].parent.mkdir()
        make().save(str(made[name]))
    return made


def plain(file: Path) -> tokenizers.Tokenizer:
    """What the library reads, only that it neither cuts nor fills up."""
    inner = tokenizers.Tokenizer.from_file(str(file))
    inner.no_truncation()
    inner.no_padding()
    return inner


@pytest.mark.parametrize("name", MADE)
def test_ids_are_the_librarys(files: dict[str, Path], name: str) -> None:
    tokenizer, library = PretrainedTokenizer(from_=str(files[name])), plain(files[name])

    @settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(st.text() | st.sampled_from(AWKWARD))
    def check(text: str) -> None:
        ids = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == ids == tokenizer.encode_batch([text])[0]
        unknown = tokenizer.special.unk
        if unknown not in ids:
            assert tokenizer.decode(ids) == library.decode(ids, skip_special_tokens=True)

    check()
    assert tokenizer.encode_batch(AWKWARD) == [library.encode(t, add_special_tokens=False).ids for t in AWKWARD]
    assert tokenizer.vocab == tokenizer.max_vocab() == library.get_vocab_size()


@pytest.mark.parametrize("name", MADE)
def test_special_ids_are_found(files: dict[str, Path], name: str) -> None:
    tokenizer, wanted = PretrainedTokenizer(from_=str(files[name])), MADE[name][1]
    if name in ("roberta", "gpt2"):  # their size depends on how many merges there were to learn
        shift = tokenizer.vocab - {"roberta": 305, "gpt2": 301}[name]
        wanted = Special(**{k: v + shift if v >= 0 else v for k, v in vars(wanted).items()})
    assert tokenizer.special == wanted
    ids = tokenizer.encode("low")
    marks = [i for i in (wanted.bos, wanted.eos, wanted.pad, wanted.mask) if i >= 0]
    assert tokenizer.decode([*marks, *ids, *marks]).strip() == "low"


@pytest.mark.parametrize("name", MADE)
def test_a_run_keeps_its_own_copy(files: dict[str, Path], name: str, tmp_path: Path) -> None:
    tokenizer = PretrainedTokenizer(from_=str(files[name]))
    tokenizer.train(["nothing is learned from this"])
    tokenizer.save(tmp_path / "tokenizer-text.json")
    other = PretrainedTokenizer(from_="nowhere/tokenizer.json")
    other.load(tmp_path / "tokenizer-text.json")
    assert other.encode_batch(AWKWARD) == tokenizer.encode_batch(AWKWARD)
    assert (other.special, other.vocab) == (tokenizer.special, tokenizer.vocab)
    other.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer-text.json").read_bytes()


def test_a_file_that_cuts_and_pads_does_neither(files: dict[str, Path]) -> None:
    stored = json.loads(files["bert"].read_text())
    assert stored["truncation"] and stored["padding"]
    tokenizer = PretrainedTokenizer(from_=str(files["bert"]))
    assert len(tokenizer.encode("low " * 30)) == 30 and len(tokenizer.encode("low")) == 1
    assert len(tokenizer.encode_batch(["low", "low " * 30])[0]) == 1


def test_unknown_and_readable(files: dict[str, Path]) -> None:
    uncased, cased = PretrainedTokenizer(from_=str(files["bert"])), PretrainedTokenizer(from_=str(files["cased"]))
    assert uncased.normalize("É") == "e" and cased.normalize("É") == "É"
    assert uncased.decode(uncased.encode("low ☃ low")) == f"low {UNKNOWN} low"
    assert uncased.tokens([0, 4, *uncased.encode("LOW")]) == ["[PAD]", "[MASK]", "low"]
    roberta = PretrainedTokenizer(from_=str(files["roberta"]))
    assert roberta.tokens([roberta.special.mask, *roberta.encode("low \u0101")]) == ["<mask>", "low", "▁", "\\xc4", "\\x81"]
    assert roberta.decode([*roberta.encode("low"), roberta.special.unk, roberta.special.eos]) == f"low{UNKNOWN}"
    with pytest.raises(ValueError, match=rf"0 \.\. {roberta.vocab - 1}"):
        roberta.decode([roberta.vocab])


@pytest.mark.parametrize("kind", [BPE, ByteBPE, Unigram, Word, WordPiece])
def test_what_weft_wrote_is_published_too(kind: type, tmp_path: Path) -> None:
    mine = kind(vocab_size=300)
    mine.train(TEXTS)
    mine.save(tmp_path / "tokenizer.json")
    tokenizer = PretrainedTokenizer(from_=str(tmp_path / "tokenizer.json"))
    assert tokenizer.special == Special() and tokenizer.vocab == mine.vocab
    assert tokenizer.encode_batch(AWKWARD) == mine.encode_batch(AWKWARD)
    assert tokenizer.decode([1, *mine.encode("low slower"), 2, 0]) == "low slower"


# ---------------------------------------------------------------------------------------------------------- vocab.txt

PIECES = [
    *BERT,
    *"abcdelnorstuwx漢字!#,.[]",
    "low",
    "##er",
    "##s",
    "##t",
    "##x",
    "cafe",
    "creme",
    "naive",
    "dog",
    "##w",
    "strasse",
]
CASED = [*PIECES, "Low", "É", "Café", "Crème", "A", "##É"]


@pytest.mark.parametrize("lines", [PIECES, CASED])
@pytest.mark.parametrize("lowercase", [True, False, None])
def test_a_vocab_txt_is_berts(lines: list[str], lowercase: bool | None, tmp_path: Path) -> None:
    transformers = import_module("transformers")
    legacy = pytest.importorskip("transformers.models.bert.tokenization_bert_legacy")
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = PretrainedTokenizer(from_=str(file), lowercase=lowercase)
    lower = lines is PIECES if lowercase is None else lowercase
    fast = transformers.BertTokenizer(vocab={line: n for n, line in enumerate(lines)}, do_lower_case=lower)
    slow = legacy.BertTokenizerLegacy(str(file), do_lower_case=lower)
    texts = [*AWKWARD, *TEXTS, "Café CAFÉ crème Low lowers LOWEST loww, a.b!", "字漢字low", "x" * 100, "x" * 101]

    def ids(other, text: str) -> list[int]:
        return other(text, add_special_tokens=False)["input_ids"]

    assert tokenizer.encode_batch(texts) == [ids(fast, text) for text in texts]
    # the old Python code keeps a few signs that the library's clean-up removes
    sober = [text for text in texts if not set(text) & set("\0\x07\u200b\ufeff\u2028🙂\U0010ffff")]
    assert len(sober) > 10 and [tokenizer.encode(text) for text in sober] == [ids(slow, text) for text in sober]
    assert tokenizer.lowercase is lower and tokenizer.special == Special(0, 2, 3, 1, 4, 2, 3)
    assert tokenizer.decode([2, *tokenizer.encode("lowers dog."), 3]) == "lowers dog."
    tokenizer.save(tmp_path / "t.json")
    other = PretrainedTokenizer(from_="gone/vocab.txt")
    other.load(tmp_path / "t.json")
    assert other.encode_batch(texts) == tokenizer.encode_batch(texts)


def test_lines_of_a_vocab_txt(tmp_path: Path) -> None:
    file = tmp_path / "vocab.txt"
    file.write_bytes("\r\n".join([*BERT, "low", "\u2028", "", "dog"]).encode())
    tokenizer = PretrainedTokenizer(from_=str(file))
    assert tokenizer.encode("low dog") == [5, 8] and tokenizer.vocab == 9
    file.write_text("\n".join([*BERT, "low", "dog", "low", "cat"]))
    twice = PretrainedTokenizer(from_=str(file))  # as in BERT's own code the later line counts, and no id moves
    assert twice.encode("low dog cat") == [7, 6, 8] and twice.vocab == 9
    twice.decode([5])


# ------------------------------------------------------------------------------------------------------------- errors


def test_what_cannot_be_read(tmp_path: Path, files: dict[str, Path]) -> None:
    def fails(name: str, content: bytes | None, match: str, **options) -> None:
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        tokenizer = PretrainedTokenizer(from_=str(file), **options)  # a recipe can be read where the file is not
        for use in (tokenizer.max_vocab, lambda: tokenizer.encode("a"), lambda: tokenizer.special):
            with pytest.raises(ValueError, match=match):
                use()

    fails("none.json", None, r"there is no file or folder .*none\.json")
    fails("vocab.json", b'{"a": 0}', r"vocab\.json: .*expected a tokenizer\.json")
    fails("half.json", files["bert"].read_bytes()[:500], r"half\.json: ")
    fails("words.txt", b"a\nb\n", r"words\.txt: no line \[UNK\]")
    fails("latin.txt", b"[UNK]\n\xe9\n", r"latin\.txt: cannot be read")
    fails("spiece.model", b"\x0a", r"spiece\.model: damaged, or not a SentencePiece file")
    fails("tokenizer.pkl", b"\x0a", r"must be a tokenizer\.json, a vocab\.txt or a spiece\.model, not a \.pkl")
    fails("bert.json", files["bert"].read_bytes(), "remove the option lowercase", lowercase=True)


def test_the_tokenizer_of_a_run_is_taken_as_it_is(tmp_path):
    own = WordPiece(vocab_size=60)
    own.train(["the food was very good .", "it was bad , really"] * 5)
    own.save(tmp_path / "tokenizer-text.json")
    again = PretrainedTokenizer(from_=str(tmp_path))
    for text in ("the food was bad", "really , ??"):
        assert again.encode(text) == own.encode(text)
    assert (again.frame, again.special, again.vocab, again.continues()) == (own.frame, own.special, own.vocab, own.continues())
    own.save(tmp_path / "tokenizer-other.json")
    with pytest.raises(
        ValueError, match=r"several tokenizers found; set from to one of tokenizer-other\.json, tokenizer-text\.json"
    ):
        PretrainedTokenizer(from_=str(tmp_path)).encode("a")
