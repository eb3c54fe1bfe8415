"""Words with their spelling; the reference is a loop over words and letters."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from weft.blocks import CharCNN, LearnedPositionEmbedder, SumEmbedder, TiedHead, TokenEmbedder
from weft.core.batch import Instance, collate
from weft.core.example import MarkedIds, surround
from weft.core.fields import Field, Info
from weft.core.seq import Seq

FIELD = Field("text", 30, characters=12)
LETTERS = torch.tensor([[[8, 9, 10], [11, 0, 0], [0, 0, 0]], [[7, 7, 0], [9, 8, 0], [3, 0, 0]]])
IDS = torch.tensor([[20, 21, 2], [22, 22, 3]])
X = Seq(IDS).mark(characters=LETTERS)


def by_hand(module, ids, letters):
    vector = module.word(Seq(ids[None, None])).data[0, 0]
    letters = [int(letter) for letter in letters if letter > 0]
    if not letters:
        return vector
    reach = module.kernel_size // 2
    zero = torch.zeros(module.letter.shape[1])
    around = [zero] * reach + [module.letter[letter] for letter in letters] + [zero] * reach
    found = [module.find(torch.cat(around[i : i + module.kernel_size])) for i in range(len(letters))]
    return vector + module.out(torch.stack(found).max(0).values.relu())


@pytest.mark.parametrize("width", [1, 3, 5])
def test_equals_a_loop_over_words_and_letters(width):
    module = CharCNN(6, FIELD, char_dim=5, filters=7, kernel_size=width)
    got = module(X).data
    for b, t in np.ndindex(2, 3):
        torch.testing.assert_close(got[b, t], by_hand(module, IDS[b, t], LETTERS[b, t]))


def test_padded_letters_and_their_number_change_nothing():
    module = CharCNN(6, FIELD)
    with torch.no_grad():
        module.letter[0] = 100.0  # whatever padding's own vector is
    wide = Seq(IDS).mark(characters=torch.nn.functional.pad(LETTERS, (0, 4)))
    torch.testing.assert_close(module(wide).data, module(X).data)


def test_spelling_tells_unknown_words_apart():
    module = CharCNN(6, FIELD)
    x = Seq(torch.full((1, 2), 3)).mark(characters=torch.tensor([[[8, 9], [9, 8]]]))
    vectors = module(x).data[0]
    assert not torch.allclose(vectors[0], vectors[1])


def test_hidden_words_keep_their_letters_and_marks_are_never_hidden():
    module = CharCNN(6, FIELD, word_dropout=0.9).train()
    torch.manual_seed(0)
    many = Seq(IDS.repeat(300, 1)).mark(characters=LETTERS.repeat(300, 1, 1))
    got = module(many).data
    as_unknown = module.eval()(Seq(torch.full_like(IDS, 3)).mark(characters=LETTERS)).data
    plain = module(X).data
    hidden = torch.isclose(got, as_unknown.repeat(300, 1, 1)).all(-1)
    assert bool((hidden | torch.isclose(got, plain.repeat(300, 1, 1)).all(-1)).all())
    share = hidden.float().unflatten(0, (300, 2)).mean(0)
    assert share[0, 2] == 0  # the end mark: no letters
    assert 0.8 < share[0, 0] < 0.97 and 0.8 < share[1, 1] < 0.97
    assert torch.equal(module(X).data, plain)  # in evaluation nothing is hidden


def test_examples_with_marks_of_begin_and_end():
    info = Info({"text": FIELD})
    rng = np.random.default_rng(0)
    rows = [Instance(text=surround([1], info.synthetic_example(rng, n)["text"], [2])) for n in (4, 2)]
    assert isinstance(rows[0]["text"], MarkedIds)
    module = CharCNN(6, FIELD)
    batch = collate(rows)
    got = module(batch["text"]).data
    torch.testing.assert_close(got[:, 0], module.word(Seq(torch.tensor([[1]]))).data[:, 0].expand(2, -1))
    alone = module(collate(rows[1:])["text"]).data
    torch.testing.assert_close(got[1:, :4], alone)


def test_a_head_can_be_tied_and_other_embedders_added():
    module = SumEmbedder(6, FIELD, parts=[partial(CharCNN, word=partial(TokenEmbedder, scale=1.0)), LearnedPositionEmbedder])
    assert module.table().shape == (30, 6)
    assert module(X).data.shape == (2, 3, 6)
    assert TiedHead(6, FIELD, module)(torch.ones(1, 6)).shape == (1, 30)


def test_what_is_refused():
    with pytest.raises(
        ValueError, match=r"the field 'text' has no character ids; set tokenizer: \{type: word, max_characters: 20\}"
    ):
        CharCNN(6, Field("text", 30))
    with pytest.raises(ValueError, match="kernel_size is 2, but must be odd; use 3"):
        CharCNN(6, FIELD, kernel_size=2)
    with pytest.raises(ValueError, match="needs the mark 'characters'"):
        CharCNN(6, FIELD)(Seq(IDS))


def test_letters_that_there_are_not_are_named():
    wrong = LETTERS.clone()
    wrong[0, 1, 0] = 12
    with pytest.raises(ValueError, match=r"character id 12 \(word 1, character 0\) is out of range; character ids are 0 to 11"):
        CharCNN(4, FIELD)(Seq(IDS).mark(characters=wrong))
