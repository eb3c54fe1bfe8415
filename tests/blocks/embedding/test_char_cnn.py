"""Word embeddings with a character CNN; the reference is a loop over words and characters."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from weft.blocks import CharCNN, LearnedPositionEmbedder, SumEmbedder, TiedHead, TokenEmbedder
from weft.core.batch import Instance, collate
from weft.core.example import MarkedIds, surround
from weft.core.fields import Info, TextField
from weft.core.seq import Seq

FIELD = TextField("text", 30, characters=12)
CHARACTERS = torch.tensor([[[8, 9, 10], [11, 0, 0], [0, 0, 0]], [[7, 7, 0], [9, 8, 0], [3, 0, 0]]])
IDS = torch.tensor([[20, 21, 2], [22, 22, 3]])
X = Seq(IDS).mark(characters=CHARACTERS)


def by_hand(module, ids, characters):
    vector = module.word(Seq(ids[None, None])).data[0, 0]
    characters = [int(character) for character in characters if character > 0]
    if not characters:
        return vector
    reach = module.kernel_size // 2
    zero = torch.zeros(module.letter.shape[1])
    around = [zero] * reach + [module.letter[character] for character in characters] + [zero] * reach
    found = [module.find(torch.cat(around[i : i + module.kernel_size])) for i in range(len(characters))]
    return vector + module.out(torch.stack(found).max(0).values.relu())


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_char_cnn_equals_a_loop_over_words_and_characters(kernel_size):
    module = CharCNN(6, FIELD, char_dim=5, filters=7, kernel_size=kernel_size)
    got = module(X).data
    for b, t in np.ndindex(2, 3):
        torch.testing.assert_close(got[b, t], by_hand(module, IDS[b, t], CHARACTERS[b, t]))


def test_character_padding_does_not_change_the_output():
    module = CharCNN(6, FIELD)
    with torch.no_grad():
        module.letter[0] = 100.0  # the embedding of padding is not used
    wide = Seq(IDS).mark(characters=torch.nn.functional.pad(CHARACTERS, (0, 4)))
    torch.testing.assert_close(module(wide).data, module(X).data)


def test_unknown_words_with_other_characters_get_other_embeddings():
    module = CharCNN(6, FIELD)
    x = Seq(torch.full((1, 2), 3)).mark(characters=torch.tensor([[[8, 9], [9, 8]]]))
    vectors = module(x).data[0]
    assert not torch.allclose(vectors[0], vectors[1])


def test_word_dropout_keeps_characters_and_skips_special_tokens():
    module = CharCNN(6, FIELD, word_dropout=0.9).train()
    torch.manual_seed(0)
    many = Seq(IDS.repeat(300, 1)).mark(characters=CHARACTERS.repeat(300, 1, 1))
    got = module(many).data
    as_unknown = module.eval()(Seq(torch.full_like(IDS, 3)).mark(characters=CHARACTERS)).data
    plain = module(X).data
    dropped = torch.isclose(got, as_unknown.repeat(300, 1, 1)).all(-1)
    assert bool((dropped | torch.isclose(got, plain.repeat(300, 1, 1)).all(-1)).all())
    fraction = dropped.float().unflatten(0, (300, 2)).mean(0)
    assert fraction[0, 2] == 0  # EOS has no characters
    assert 0.8 < fraction[0, 0] < 0.97 and 0.8 < fraction[1, 1] < 0.97
    assert torch.equal(module(X).data, plain)  # no word dropout in eval mode


def test_framed_examples_carry_characters():
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


def test_head_can_be_tied_and_other_embedders_added():
    module = SumEmbedder(6, FIELD, parts=[partial(CharCNN, word=partial(TokenEmbedder, scale=1.0)), LearnedPositionEmbedder])
    assert module.table().shape == (30, 6)
    assert module(X).data.shape == (2, 3, 6)
    assert TiedHead(6, FIELD, module)(torch.ones(1, 6)).shape == (1, 30)


def test_invalid_options_and_missing_characters_are_rejected():
    with pytest.raises(
        ValueError, match=r"the field 'text' has no character ids; set tokenizer: \{type: word, max_characters: 20\}"
    ):
        CharCNN(6, TextField("text", 30))
    with pytest.raises(ValueError, match="kernel_size is 2, but must be odd; use 3"):
        CharCNN(6, FIELD, kernel_size=2)
    with pytest.raises(ValueError, match="needs the mark 'characters'"):
        CharCNN(6, FIELD)(Seq(IDS))


def test_character_ids_out_of_range_are_reported():
    wrong = CHARACTERS.clone()
    wrong[0, 1, 0] = 12
    with pytest.raises(ValueError, match=r"character id 12 \(word 1, character 0\) is out of range; character ids are 0 to 11"):
        CharCNN(4, FIELD)(Seq(IDS).mark(characters=wrong))
