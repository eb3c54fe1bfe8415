from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.contracts import Tokenizer
from weft.core.ragged_array import RaggedArray
from weft.data import BPE, Byte, ByteBPE, Character, Unigram, Word, WordPiece
from weft.data.tokenizers import word_cache
from weft.data.tokenizers.word_cache import WordCache

TRAINING = [
    "low lower  lowest\tnew",
    " a Low (lower) low, isn't it?",
    "\u00e4ber \u00c4rger 12 34\n\nnew",
    "<e os> \u0001 a\u00a0b \u2581x",
] * 3
KINDS = {
    "bpe": partial(BPE, vocab_size=60),
    "lower": partial(BPE, vocab_size=60, lowercase=True),
    "byte-bpe": partial(ByteBPE, vocab_size=280),
    "wordpiece": partial(WordPiece, vocab_size=90, lowercase=True, strip_accents=True),
    "word": Word,
    "spaces": partial(Word, split="whitespace"),
    "unigram": partial(Unigram, vocab_size=60),
    "character": Character,
    "byte": Byte,
}
texts = st.text(
    st.sampled_from("  lowerst<>'s\u00e4\u00c4\u0308\u0301\t\n\r\x0b\x00\x01\x1c\x85\u00a0\u2028\u2581\u4e2d\ufeff12.,(\u03a3"),
    max_size=20,
)


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    made = {name: kind() for name, kind in KINDS.items()}
    for tokenizer in made.values():
        tokenizer.train(TRAINING)
    return made


@pytest.mark.parametrize("name", KINDS)
def test_recalled_ids_are_the_tokenizers_own(name: str, tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers[name]
    quick = WordCache(tokenizer)

    @given(st.lists(texts, max_size=6))
    @settings(max_examples=300, deadline=None)
    def check(some: list[str]) -> None:
        found = quick(some)
        assert [row.tolist() for row in found.rows()] == [tokenizer.encode(text) for text in some]

    check()


def test_each_word_is_encoded_once_and_memory_is_bounded(
    tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Spy(BPE):
        def encode_batch(self, texts):  # pyright: ignore[reportIncompatibleMethodOverride]
            asked.extend(texts)
            return super().encode_batch(texts)

    spy = Spy(vocab_size=60)
    spy.train(TRAINING)
    monkeypatch.setitem(word_cache._WORD_PREFIX, Spy, " ")
    quick = WordCache(spy)
    quick(["low lower low", "low new lower"])
    quick(["low lower low", "low new lower", "new low"])
    assert sorted(asked) == sorted(["low", " lower", " low", " new", "new"])
    monkeypatch.setattr(word_cache, "_MAX_WORDS", 5)
    expected = [spy.encode(text) for text in ["low lower low low x", "a b c d e"]]
    assert quick(["low lower low low x"]).flat.tolist() == expected[0] and len(quick.indices) == 5
    assert quick(["a b c d e"]).flat.tolist() == expected[1] and not quick.indices


def test_ragged_array_operations_equal_those_of_lists() -> None:
    rows = [[1, 2], [], [3], [4, 5, 6]]
    lists = RaggedArray.of(rows)
    assert [row.tolist() for row in lists.rows()] == rows
    assert [row.tolist() for row in RaggedArray.concatenate(lists.rows()).rows()] == rows
    assert [row.tolist() for row in lists.take(np.array([3, 0, 1, 3])).rows()] == [[4, 5, 6], [1, 2], [], [4, 5, 6]]
    assert [row.tolist() for row in lists.append([[7], []]).rows()] == [*rows, [7], []]
    assert RaggedArray.of([]).rows() == [] and RaggedArray.of([]).take(np.array([], int)).rows() == []
