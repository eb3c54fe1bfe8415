from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from weft.batch import Special
from weft.data import BPE, Character, Word
from weft.data.vocabulary import UNKNOWN, VocabularyTokenizer

KINDS = [Character, Word, BPE]
TEXTS = [
    "Two dogs, one ball: they're running!",
    "  leading and   inner spaces ",
    "zwei Hunde laufen über die Straße",
    "tab\there, line\nthere, ▁ and � and \u2028 and á",
    "price < 3 > 2 (about 12.50 €)",
    "a <eos> in a text, <pad><pad>, <unk>",
    "low lower lowest; dogs dog",
]
KNOWN = sorted(set("".join(TEXTS)))


def trained(kind: type[VocabularyTokenizer], texts: list[str] = TEXTS, **options) -> VocabularyTokenizer:
    tokenizer = kind(**options)
    tokenizer.train(texts)
    return tokenizer


CHARACTERS, PIECES, WORDS = trained(Character), trained(BPE, size=120), trained(Word)


@given(st.text(st.sampled_from(KNOWN)))
def test_characters_come_back_exactly(text: str) -> None:
    assert CHARACTERS.decode(CHARACTERS.encode(text)) == text
    assert len(CHARACTERS.encode(text)) == len(text)


@given(st.text(st.sampled_from(KNOWN)))
def test_pieces_come_back_exactly(text: str) -> None:
    assert PIECES.decode(PIECES.encode(text)) == text
    assert min(PIECES.encode(text), default=7) >= len(Special.NAMES)


@given(st.text())
def test_any_text_can_be_encoded(text: str) -> None:
    for tokenizer in (CHARACTERS, PIECES, WORDS):
        ids = tokenizer.encode(text)
        assert all(i == Special.unk or len(Special.NAMES) <= i < tokenizer.vocab for i in ids)
        tokenizer.decode(ids)


@given(st.text(st.sampled_from([*KNOWN, "ß", "漢", "Ω"])))
def test_the_look_up_of_characters_is_what_the_library_does(text: str) -> None:
    assert CHARACTERS.encode(text) == CHARACTERS.inner.encode(text, add_special_tokens=False).ids


def test_unknown_symbols() -> None:
    assert CHARACTERS.encode("漢d") == [Special.unk, CHARACTERS.encode("d")[0]]
    assert CHARACTERS.decode(CHARACTERS.encode("d漢d")) == f"d{UNKNOWN}d"
    assert PIECES.encode("漢漢").count(Special.unk) == 2
    assert WORDS.encode("dogs elephants") == [WORDS.encode("dogs")[0], Special.unk]


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids_come_first_and_are_not_decoded(kind: type[VocabularyTokenizer]) -> None:
    tokenizer = trained(kind)
    assert tokenizer.tokens(range(7)) == list(Special.NAMES)
    ids = tokenizer.encode("dogs")
    assert tokenizer.decode([Special.bos, *ids, Special.eos, Special.pad, Special.sep, Special.cls, Special.mask]) == "dogs"
    assert tokenizer.decode([]) == "" and tokenizer.tokens([]) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", Special.NAMES)
def test_a_special_name_in_a_text_is_text(kind: type[VocabularyTokenizer], name: str) -> None:
    tokenizer = trained(kind, [f"{name} a{name}b {name}{name}"] * 30)
    for text in (name, f"a {name}", f"{name}{name}", f"x{name}"):
        assert not set(tokenizer.encode(text)) & (set(range(7)) - {Special.unk})
    assert tokenizer.decode(tokenizer.encode(name)).replace(" ", "") == name
    assert Special.unk not in tokenizer.encode(name)


def test_words_are_split_and_joined() -> None:
    tokenizer = trained(Word, ["(A well-known dog), isn't it? «12.5 %»"])
    pieces = ["(", "A", "well-known", "dog", ")", ",", "isn't", "it", "?", "«", "12", ".", "5", "%", "»"]
    ids = tokenizer.encode(" (A  well-known dog),\tisn't it?  «12.5 %» ")
    assert tokenizer.tokens(ids) == pieces
    assert tokenizer.decode(ids) == "(A well-known dog), isn't it? «12. 5%»"


def test_pieces_keep_the_space_before_a_word() -> None:
    tokenizer = trained(BPE, ["the dog the dog the dog"] * 5)
    assert tokenizer.tokens(tokenizer.encode("the dog  the")) == ["the", "▁dog", "▁", "▁the"]


@pytest.mark.parametrize("kind", KINDS)
def test_frequent_symbols_come_first_and_size_is_a_bound(kind: type[VocabularyTokenizer]) -> None:
    texts = ["a a a b b c c d"]
    tokenizer = trained(kind, texts, size=10)
    assert tokenizer.vocab == tokenizer.bound() == 10
    if kind is not Character:
        texts = ["a b c d e f g h i j k l m n o p q r s t u v w x y z " * 3]
        assert trained(kind, texts, size=12).vocab == 12
    assert trained(Word, ["a a a b b c c d"], size=10).tokens([7, 8, 9]) == ["a", "b", "c"]
    assert trained(Character, ["aaabbccd"], size=10).tokens([7, 8, 9]) == ["a", "b", "c"]
    assert kind().bound() == {Character: 1000, Word: 30_000, BPE: 8000}[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_lower_case(kind: type[VocabularyTokenizer], tmp_path: Path) -> None:
    tokenizer = trained(kind, ["Dogs BARK ÄÖÜ"], lowercase=True)
    assert tokenizer.decode(tokenizer.encode("DOGS bark äÖü")) == "dogs bark äöü"
    tokenizer.save(tmp_path / "t.json")
    other = kind()
    other.load(tmp_path / "t.json")
    assert other.decode(other.encode("DOGS")) == "dogs"
    plain = trained(kind, ["Dogs dogs"])
    assert plain.decode(plain.encode("Dogs dogs")) == "Dogs dogs"


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load(kind: type[VocabularyTokenizer], tmp_path: Path) -> None:
    tokenizer, other = trained(kind), kind()
    tokenizer.save(tmp_path / "t.json")
    other.load(tmp_path / "t.json")
    assert [other.encode(t) for t in TEXTS] == [tokenizer.encode(t) for t in TEXTS]
    assert other.vocab == tokenizer.vocab and other.names == tokenizer.names
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json"))
    assert [library.encode(t, add_special_tokens=False).ids for t in TEXTS] == [tokenizer.encode(t) for t in TEXTS]
    other.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "t.json").read_bytes()
    assert json.loads((tmp_path / "t.json").read_text())["version"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.json", "t.json"]


SCRIPT = """
import random
from weft.data import BPE, Character, Word
rng = random.Random(0)
words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyzäöü漢字仮名", k=rng.randint(1, 7))) for _ in range(600)]
texts = [" ".join(rng.choices(words, k=8)) for _ in range(300)]
ties = [" ".join(chr(c) for c in range(0x4E00, 0x4E80))] * 2
for kind, size, known in ((BPE, 300, texts), (BPE, 30, ties), (Word, 100, texts), (Word, 30, ties), (Character, 30, ties)):
    tokenizer = kind(size=size)
    tokenizer.train(known)
    print(tokenizer.inner.to_str())
"""


def test_training_is_the_same_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    exec(SCRIPT, {})
    here = capsys.readouterr().out
    path = str(Path(__file__).parents[2] / "src")
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "3",
        "PYTHONIOENCODING": "utf-8",
        "TOKENIZERS_PARALLELISM": "false",
    }
    there = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, encoding="utf-8", check=True, env=env).stdout
    assert here == there and len(here) > 1000


@pytest.mark.parametrize("kind", KINDS)
def test_untrained(kind: type[VocabularyTokenizer], tmp_path: Path) -> None:
    tokenizer = kind()
    uses = [
        partial(tokenizer.encode, "a"),
        partial(tokenizer.decode, [7]),
        partial(tokenizer.tokens, [7]),
        partial(tokenizer.save, tmp_path / "t.json"),
        lambda: tokenizer.vocab,
    ]
    for use in uses:
        with pytest.raises(ValueError, match=rf"{kind.__name__} tokenizer has no vocabulary yet: call train"):
            use()
    with pytest.raises(ValueError, match="no text"):
        tokenizer.train([])
    with pytest.raises(ValueError, match="size 7 leaves no id"):
        kind(size=7)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_ids_and_bad_files(kind: type[VocabularyTokenizer], tmp_path: Path) -> None:
    tokenizer = trained(kind)
    for bad in ([7, tokenizer.vocab], [-1]):
        with pytest.raises(ValueError, match=rf"0 \.\. {tokenizer.vocab - 1}"):
            tokenizer.decode(bad)
    with pytest.raises(ValueError, match=r"nowhere\.json: there is no such file"):
        tokenizer.load(tmp_path / "nowhere.json")
    file = tmp_path / "broken.json"
    tokenizer.save(file)
    text = file.read_text(encoding="utf-8")
    others = {Character: BPE, Word: BPE, BPE: Word}
    foreign = tmp_path / "foreign.json"
    trained(others[kind]).save(foreign)
    for content in (text[: len(text) // 2], "{}", "[]", "", foreign.read_text(), text.replace("<eos>", "<end>")):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"broken\.json: "):
            kind().load(file)
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match=r"broken\.json: cannot be read"):
        kind().load(file)
