from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from weft.core.fields import Special
from weft.data import Unigram, Word, WordPiece
from weft.data.tokenizers.unigram import train_unigram
from weft.data.tokenizers.unigram_lattice import SegmentationLattice

TEXTS = [
    "The lower dogs (slower than most) don't lower; they're 12.50 €!",
    "größere Straßen, é á ñ 漢字 と 仮名",
    "a <eos> in <pad><pad> text, <unk> ##s",
    "low lower lowest slow slower slowest 1 2 34",
] * 2
LETTERS = sorted(set("".join(TEXTS)))


def trained(kind, texts=TEXTS, **options):
    tokenizer = kind(**options)
    tokenizer.train(texts)
    return tokenizer


PIECES, PLAIN = trained(WordPiece, vocab_size=140), trained(WordPiece, vocab_size=140, lowercase=True, strip_accents=True)
UNIGRAMS = trained(Unigram, vocab_size=110)

# ---------------------------------------------------------------------------------------------------------- wordpiece


def greedy(tokenizer: WordPiece, text: str) -> list[int]:
    """The longest piece first, from the definition."""
    ids = {name: number for number, name in enumerate(tokenizer.names)}
    out: list[int] = []
    for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(tokenizer.normalize(text)):
        start, found = 0, []
        while start < len(word):
            ends = (e for e in range(len(word), start, -1) if ("##" if start else "") + word[start:e] in ids)
            end = next(ends, None)
            if end is None or len(word) > 100:
                found = [Special.unk]
                break
            found.append(ids[("##" if start else "") + word[start:end]])
            start = end
        out += found
    return out


@given(st.text() | st.text(st.sampled_from([*LETTERS, *"ÉÄ\0\u200b\u00a0𠀀"])))
def test_word_pieces_are_the_longest(text: str) -> None:
    for tokenizer in (PIECES, PLAIN):
        assert tokenizer.encode(text) == greedy(tokenizer, text)


@given(st.lists(st.text(st.sampled_from("delorstw"), min_size=1, max_size=12), max_size=6))
def test_known_words_come_back_with_single_spaces(words: list[str]) -> None:
    text = " ".join(words)
    assert PIECES.decode(PIECES.encode(f"  {text}\t")) == text


def test_word_pieces_are_joined() -> None:
    assert PIECES.decode(PIECES.encode("the  Dogs ( lower ) , ##s!".replace("Dogs", "dogs"))) == "the dogs (lower), # # s!"
    assert PIECES.tokens(PIECES.encode("lower slowst")) == ["lower", "slow", "##st"]
    inside = PIECES.encode("slowst")[1:]
    assert len(inside) == 1 and PIECES.decode(inside) == "st"
    assert PIECES.decode([*PIECES.encode("low"), Special.unk, *inside]) == "low �st"


def test_normalization_is_an_option(tmp_path: Path) -> None:
    assert PLAIN.decode(PLAIN.encode("LÖWER É")) == "lower e"
    assert PIECES.decode(PIECES.encode("é")) == "é"
    for options in (
        {"clean_text": False},
        {"handle_chinese_chars": False},
        {"strip_accents": True},
        {"lowercase": True},
        {"lowercase": True, "strip_accents": True, "clean_text": False, "handle_chinese_chars": False},
    ):
        tokenizer = trained(WordPiece, vocab_size=140, **options)
        tokenizer.save(tmp_path / "t.json")
        other = WordPiece()
        other.load(tmp_path / "t.json")
        names = ("lowercase", "strip_accents", "clean_text", "handle_chinese_chars")
        assert all(
            getattr(other, n) == getattr(tokenizer, n) == options.get(n, n in ("clean_text", "handle_chinese_chars"))
            for n in names
        )
        assert other.encode("Ä\0é 漢字") == tokenizer.encode("Ä\0é 漢字")
    chinese, joined = (
        trained(WordPiece, ["漢字漢字"] * 3, vocab_size=30),
        trained(WordPiece, ["漢字漢字"] * 3, vocab_size=30, handle_chinese_chars=False),
    )
    assert chinese.tokens(chinese.encode("漢字")) == ["漢", "字"] and joined.tokens(joined.encode("漢字")) == ["漢", "##字"]
    kept = trained(WordPiece, ["a\x07b"], vocab_size=30, clean_text=False)
    assert kept.decode(kept.encode("a\x07b")) == "a\x07b" and PIECES.decode(PIECES.encode("l\x07o")) == "lo"


def test_long_and_unknown_words() -> None:
    assert PIECES.encode("l" * 101) == [Special.unk] and Special.unk not in PIECES.encode("l" * 100)
    assert PIECES.encode("low Ωlow low").count(Special.unk) == 1
    small = trained(WordPiece, vocab_size=12)
    assert small.vocab == 12 and set(small.encode("Qx")) == {Special.unk}


# ------------------------------------------------------------------------------------------------------------ unigram


def cuts(word: str) -> list[list[str]]:
    """All ways to cut a word."""
    out = []
    for flags in itertools.product([False, True], repeat=len(word) - 1):
        cuts = [0, *(i for i, cut in enumerate(flags, 1) if cut), len(word)]
        out.append([word[a:b] for a, b in itertools.pairwise(cuts)])
    return out


@given(st.text(st.sampled_from([c for c in LETTERS if c != "▁"] + ["\n", "\t"])))
def test_unigrams_come_back_exactly(text: str) -> None:
    tokenizer = trained(Unigram, [*TEXTS, "\n\t"], vocab_size=110) if "\n" in text or "\t" in text else UNIGRAMS
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.inner.decode(tokenizer.encode(text)) == text


@given(st.text(st.sampled_from("lowersta"), min_size=1, max_size=9))
def test_unigrams_are_the_most_probable_cut(word: str) -> None:
    model = UNIGRAMS.inner.to_str()
    assert '"unk_id":3' in model
    scores = dict(SCORES)
    best = max(sum(scores[p] for p in cut) for cut in cuts("▁" + word) if all(p in scores for p in cut))
    assert sum(scores[name] for name in UNIGRAMS.tokens(UNIGRAMS.encode(word))) == pytest.approx(best)


def scores_of(tokenizer: Unigram) -> list[tuple[str, float]]:
    import json

    return [(name, score) for name, score in json.loads(tokenizer.inner.to_str())["model"]["vocab"]]


SCORES = scores_of(UNIGRAMS)


def test_unigrams_of_a_text() -> None:
    assert UNIGRAMS.tokens(UNIGRAMS.encode("low  slower")) == ["▁low", "▁", "▁slower"]
    assert UNIGRAMS.encode("low ΩΩ low").count(Special.unk) == 1 and UNIGRAMS.decode(UNIGRAMS.encode("low ΩΩ")) == "low �"
    assert UNIGRAMS.decode(UNIGRAMS.encode(" low ")) == " low " and UNIGRAMS.encode("") == []
    assert UNIGRAMS.decode(UNIGRAMS.encode("a▁a")) == "a a"
    learned = SCORES[7:]
    assert {c for text in TEXTS for c in text.replace(" ", "▁")} <= {name for name, _ in learned}
    assert [score for _, score in learned] == sorted((score for _, score in learned), reverse=True)
    assert sum(np.exp(score) for _, score in learned) == pytest.approx(1, abs=0.05)


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.text("abc", min_size=2, max_size=4), max_size=6, unique=True),
    st.integers(0, 2**32 - 1),
)
def test_sums_over_cuts_are_those_written_out(words: dict[str, int], longer: list[str], seed: int) -> None:
    pieces = {piece: number for number, piece in enumerate(["a", "b", "c", *longer])}
    scores = np.random.default_rng(seed).normal(size=len(pieces)) * 3
    expected, best = np.zeros(len(pieces)), []
    for word, count in words.items():
        ways = [[pieces[p] for p in cut] for cut in cuts(word) if all(p in pieces for p in cut)]
        logs = np.array([scores[way].sum() for way in ways])
        best.append(logs.max())
        shares = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        for way, share in zip(ways, shares, strict=True):
            for piece in way:
                expected[piece] += share * count
    ways = SegmentationLattice(list(words), pieces, 4)
    np.testing.assert_allclose(ways.expected(scores, np.array(list(words.values()), float)), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ways.best(scores), best, rtol=1e-9)
    ways.keep(np.array([0, 1, 2, *[-1] * len(longer)]))
    single = [sum(scores[pieces[c]] for c in word) for word in words]
    np.testing.assert_allclose(ways.best(scores[:3]), single, rtol=1e-9, atol=1e-9)


def test_what_is_learned_explains_the_words() -> None:
    words = Counter({"▁lower": 20, "▁slower": 20, "▁low": 20, "▁slow": 20, "▁er": 1})
    pieces = dict(train_unigram(words, sorted(set("▁lowers")), 11))
    assert len(pieces) == 11 and {"▁low", "▁slow", "▁lower", "▁slower"} < set(pieces)
    assert len(train_unigram(words, sorted(set("▁lowers")), 500)) < 60
    assert [p for p, _ in train_unigram(words, ["▁", "l"], 2)] == ["▁", "l"]
    long = "abcdefgh" * 40
    assert (
        trained(Unigram, [long, long], vocab_size=40).decode(trained(Unigram, [long, long], vocab_size=40).encode(long)) == long
    )


# ------------------------------------------------------------------------------------------------- words with characters


def test_words_are_spelled(tmp_path: Path) -> None:
    tokenizer = trained(Word, ["the dogs, the cats; incomprehensibilities a"], max_characters=5)
    text = "The dogs incomprehensibilities, ☃ a"
    spelled = tokenizer.spell(text)
    assert spelled is not None and len(spelled) == len(tokenizer.encode(text))
    shown = [["<unk>", "h", "e"], ["d", "o", "g", "s"], ["i", "n", "c", "e", "s"], [","], ["<unk>"], ["a"]]
    assert [tokenizer.tokens(word) for word in spelled] == shown
    assert tokenizer.encode("a ,") == [tokenizer.names.index("a"), tokenizer.names.index(",")]
    assert tokenizer.spell("") == []
    tokenizer.save(tmp_path / "t.json")
    other = Word(max_characters=5)
    other.load(tmp_path / "t.json")
    assert other.spell(text) == spelled and other.character_vocab == tokenizer.character_vocab
    plain = Word()
    plain.load(tmp_path / "t.json")
    assert plain.spell(text) is None and plain.character_vocab == 0 and plain.encode(text) == tokenizer.encode(text)


def test_characters_come_before_words() -> None:
    tokenizer = trained(Word, ["bb bb b abc abc abc a x"], vocab_size=15, max_characters=3)
    assert tokenizer.names[7:] == ["b", "a", "c", "x", "abc", "bb"] and tokenizer.character_vocab == 11
    tokenizer = trained(Word, ["bb bb b abc abc abc a x"], vocab_size=12, max_characters=3)
    assert tokenizer.names[7:] == ["b", "a", "c", "x", "abc"]
    tokenizer = trained(Word, ["bb bb b abc abc abc a x"], vocab_size=9, max_characters=3)
    assert tokenizer.names[7:] == ["b", "a"] and tokenizer.character_vocab == 9
    assert tokenizer.spell("xab") == [[Special.unk, 8, 7]]


@given(st.text(), st.integers(1, 8))
def test_spellings_fit_tokens(text: str, most: int) -> None:
    tokenizer = trained(Word, ["Some known words: don't, 12.5"], max_characters=most, lowercase=True)
    spelled, ids = tokenizer.spell(text), tokenizer.encode(text)
    assert spelled is not None and len(spelled) == len(ids)
    assert all(1 <= len(word) <= most and max(word) < tokenizer.character_vocab for word in spelled)
    for word, number in zip(spelled, ids, strict=True):
        name = tokenizer.names[number]
        if number != Special.unk and len(name) <= most:
            assert "".join(tokenizer.tokens(word)) == name


def test_a_vocabulary_without_letters_cannot_spell(tmp_path: Path) -> None:
    trained(Word, ["the dogs a"]).save(tmp_path / "t.json")
    with pytest.raises(ValueError, match=r"t\.json: .*trained without max_characters"):
        Word(max_characters=4).load(tmp_path / "t.json")
    assert Word(max_characters=4).character_vocab > len(Special.NAMES)  # an upper bound, before there is a vocabulary
    tokenizer = trained(Word, ["the dogs a"], max_characters=4)
    with pytest.raises(ValueError, match="lone surrogate"):
        tokenizer.spell("\udc00")


def test_lower_case_is_the_librarys() -> None:
    tokenizer = trained(Word, ["İSTANBUL ẞ"], lowercase=True, max_characters=9)
    assert tokenizer.names[-1] == normalizers.Lowercase().normalize_str("İSTANBUL")
