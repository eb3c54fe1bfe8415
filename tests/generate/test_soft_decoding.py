"""Decoding in soft ids: where rows end, what is sampled and when, and that gradients flow."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from weft.blocks import GRUDecoder, LatentEmbedding, LearnedPositionEmbedder, SumEmbedder, TokenEmbedder, TransformerDecoder
from weft.core.fields import Info, TextField
from weft.core.seq import Memory
from weft.generate import GreedySearch
from weft.generate.frontier import forbidden
from weft.generate.soft_decoding import soft_decode
from weft.models import LanguageModel
from weft.models.latent_decoder import LatentDecoder

INFO = Info({"text": TextField("text", 12)})
DECODERS = {"gru": GRUDecoder, "transformer": TransformerDecoder}
ROWS = 12


def latent_decoder(decoder=GRUDecoder, embedder=SumEmbedder) -> LatentDecoder:
    torch.manual_seed(1)
    model = partial(LanguageModel, dim=8, embedder=embedder, decoder=decoder)
    made = LatentDecoder(INFO, 4, model, [LatentEmbedding])
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
        made.head.bias[INFO["text"].special.eos] += 1.0  # so that rows end at different steps
    return made.eval()


def latents(rows: int = ROWS) -> torch.Tensor:
    return 2 * torch.randn(rows, 4, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_single_symbols_without_noise_are_a_greedy_search(decoder):
    model, z = latent_decoder(decoder), latents()
    soft = soft_decode(model, model.memory_from(z), max_length=9, straight_through=True)
    found = GreedySearch(max_length=9)(model, model.memory_from(z), limits=[9] * ROWS)
    lengths = set()
    for row, (hypothesis,) in enumerate(found):
        ids = soft.data[row].argmax(-1)[soft.real()[row]].tolist()
        assert ids == hypothesis.ids + [INFO["text"].special.eos] * hypothesis.finished
        lengths.add(len(ids))
    assert len(lengths) > 1, "the rows do not end at different steps"
    assert bool(((soft.data == 0) | (soft.data == 1)).all())


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_in_evaluation_a_row_does_not_depend_on_the_others(decoder):
    model, z = latent_decoder(decoder), latents()
    together = soft_decode(model, model.memory_from(z), max_length=9)
    assert torch.equal(together.data, soft_decode(model, model.memory_from(z), max_length=9).data)
    for row in range(ROWS):
        alone = soft_decode(model, model.memory_from(z[row : row + 1]), max_length=9)
        real = together.real()[row]
        assert int(real.sum()) == alone.width == int(alone.real().sum())
        torch.testing.assert_close(together.data[row][real], alone.data[0])


def test_a_row_ends_with_the_first_eos():
    model, eos = latent_decoder(), INFO["text"].special.eos
    text = soft_decode(model, model.memory_from(latents()), max_length=9)
    for weights, real in zip(text.data, text.real(), strict=True):
        ends = (weights.argmax(-1) == eos).nonzero().flatten().tolist()
        assert real.tolist() == [t <= ends[0] if ends else True for t in range(text.width)]


def test_noise_is_sampled_in_training_alone_and_follows_the_distribution_of_the_model():
    model = latent_decoder()
    z = latents(1).expand(6000, -1)
    one, two = (soft_decode(model.train(), model.memory_from(z), max_length=1).data for _ in range(2))
    assert not torch.equal(one, two)
    memory = model.memory_from(z[:1])
    step = model.step(_begin(1), model.start(memory, 1))
    logits = model.head(step.hidden.data[:, -1])[0]
    logits[forbidden(INFO["text"], 12)] = -torch.inf
    share = one[:, 0].argmax(-1).bincount(minlength=12) / 6000
    torch.testing.assert_close(share, logits.softmax(-1), atol=0.025, rtol=0)


def _begin(rows: int):
    from weft.core.seq import Seq

    return Seq(torch.full((rows, 1), INFO["text"].special.bos))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("straight_through", [True, False])
def test_mixtures_have_no_forbidden_symbol_and_a_gradient(training, straight_through):
    model, z = latent_decoder().train(training), latents().requires_grad_()
    text = soft_decode(model, model.memory_from(z), max_length=5, straight_through=straight_through)
    torch.testing.assert_close(text.data.sum(-1), torch.ones(text.data.shape[:2]))
    assert not text.data[..., forbidden(INFO["text"], 12)].any()
    (text.data[:, -1] * torch.randn(12)).sum().backward()
    assert bool(torch.isfinite(z.grad).all()) and bool((z.grad != 0).any(1).all())


def test_the_colder_the_nearer_to_single_symbols():
    model = latent_decoder()
    peaks = [
        soft_decode(model, model.memory_from(latents()), max_length=1, temperature=t).data.amax(-1).mean()
        for t in (2.0, 0.5, 0.05)
    ]
    assert peaks[0] < peaks[1] < peaks[2] and peaks[2] > 0.95


def test_what_is_refused():
    model = latent_decoder(
        TransformerDecoder, partial(SumEmbedder, parts=[TokenEmbedder, partial(LearnedPositionEmbedder, length=4)])
    )
    memory = model.memory_from(latents())
    assert soft_decode(model, memory, max_length=4).width <= 4
    with pytest.raises(ValueError, match="length is 5; it must be at least 1 and at most 4, the model's positions"):
        soft_decode(model, memory, max_length=5)
    with pytest.raises(ValueError, match=r"length is 0; it must be at least 1$"):
        soft_decode(latent_decoder(), memory, max_length=0)
    with pytest.raises(ValueError, match="temperature is 0; it must be above 0"):
        soft_decode(model, memory, max_length=3, temperature=0.0)
    with pytest.raises(ValueError, match="conditioned on a latent vector, but the memory has none"):
        soft_decode(model, Memory(), max_length=3)
