"""Embeddings of character n-grams: those of the words with markers around them, whatever the padding."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from weft.blocks import CharNgrams, TokenEmbedder
from weft.core.fields import Field, TextField
from weft.core.seq import Seq

FIELD = TextField("text", 30, characters=20)
WORDS = [[7, 8, 9], [10], [7, 8, 9, 11], []]


def sequence(width: int, words: list[list[int]] = WORDS) -> Seq:
    characters = torch.tensor([[word + [0] * (width - len(word)) for word in words]])
    return Seq(torch.arange(7, 7 + len(words))[None]).mark(characters=characters)


def embedder(**options: int | float) -> CharNgrams:
    torch.manual_seed(0)
    found = CharNgrams(4, FIELD, word=partial(TokenEmbedder, scale=1.0), buckets=100_003, **options)  # pyright: ignore[reportArgumentType]
    torch.nn.init.normal_(found.weight)
    return found


def ngrams(word: list[int], low: int, high: int) -> list[tuple[int, ...]]:
    """The n-grams of a word between markers, written down."""
    marked = [1, *word, 2] if word else []
    return [tuple(marked[i : i + n]) for n in range(low, high + 1) for i in range(len(marked) - n + 1)]


@pytest.mark.parametrize(("low", "high"), [(3, 4), (1, 2), (2, 6)])
def test_a_word_has_the_ngrams_of_its_characters_and_markers(low: int, high: int) -> None:
    module = embedder(min_n=low, max_n=high)
    rows = module._hashes(sequence(6).marks["characters"])[0].tolist()
    known: dict[tuple[int, ...], int] = {}
    for word, found in zip(WORDS, rows, strict=True):
        expected = ngrams(word, low, high)
        buckets = [row for row in found if row]
        assert len(buckets) == len(expected)
        for gram, bucket in zip(expected, buckets, strict=True):
            assert known.setdefault(gram, bucket) == bucket  # the same n-gram has the same bucket in every word
    assert len(set(known.values())) == len(known), "different n-grams, different buckets"


def test_the_vector_is_the_scaled_sum() -> None:
    module, x = embedder(), sequence(5)
    rows = module._hashes(x.marks["characters"])[0]
    for t in range(len(WORDS)):
        own = rows[t][rows[t] > 0]
        expected = module.word(x).data[0, t] + module.weight[own].sum(0) / max(1, len(own)) ** 0.5
        torch.testing.assert_close(module(x).data[0, t], expected)


def test_the_width_of_the_batch_does_not_matter() -> None:
    torch.testing.assert_close(embedder()(sequence(4)).data, embedder()(sequence(9)).data)


def test_new_ngrams_have_no_effect_before_training() -> None:
    module = CharNgrams(4, FIELD)
    torch.testing.assert_close(module(sequence(4)).data, module.word(sequence(4)).data)


def test_dropout_leaves_out_ngrams_in_training_only() -> None:
    module = embedder(dropout=0.5)
    plain = module.eval()(sequence(4)).data
    torch.testing.assert_close(plain, embedder()(sequence(4)).data)
    assert not torch.equal(module.train()(sequence(4)).data, plain)


@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        (TextField("text", 30), {}, "has no character ids; set tokenizer"),
        (FIELD, {"min_n": 5, "max_n": 4}, "min_n is 5, but max_n is 4"),
    ],
)
def test_wrong_options_are_errors(field: Field, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CharNgrams(4, field, **options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="needs the mark 'characters'"):
        CharNgrams(4, FIELD)(Seq(torch.tensor([[7, 8]])))
