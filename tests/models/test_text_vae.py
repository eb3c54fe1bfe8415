"""The text VAE: how z enters the decoder, that stepping equals the full pass, and the bound that it is trained by."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from weft.blocks import (
    GRU,
    GRUDecoder,
    LatentEmbedding,
    LatentMemory,
    LatentPerPosition,
    LearnedPositionEmbedder,
    SumEmbedder,
    TokenEmbedder,
    TransformerDecoder,
)
from weft.core.batch import Batch, Clock, collate
from weft.core.contracts import Posterior
from weft.core.fields import Info, TextField
from weft.core.seq import Seq
from weft.generate import BeamSearch, GreedySearch
from weft.models import Classifier, LanguageModel, Seq2Seq, TextEncoder, TextVAE, gpt2
from weft.objectives import ELBO, ClampFreeBits, ConstantAnnealing, CyclicalAnnealing, ThresholdFreeBits
from weft.pretrained import save

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
INFO = Info(
    {"source": TextField("source", 13, space="source"), "target": TextField("target", 17, space="target")}, target="target"
)
DECODER = partial(LanguageModel, dim=8, decoder=partial(TransformerDecoder, layers=3))
ENCODER = partial(TextEncoder, dim=12, head=None)
IDS = torch.tensor([[1, 7, 9, 16], [1, 12, 10, 8]])


def vae(**choices) -> TextVAE:
    torch.manual_seed(0)
    model = TextVAE(INFO, **{"latent": 4, "encoder": ENCODER, "decoder": DECODER, **choices})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def examples(lengths=(5, 2, 3), seed: int = 0):
    rng = np.random.default_rng(seed)
    return [{"source": rng.integers(7, 13, n), "target": rng.integers(7, 17, n)} for n in lengths]


def batch_of(objective: ELBO, rows) -> Batch:
    return collate([objective.prepare(row, np.random.default_rng(i), None) for i, row in rows])


# ------------------------------------------------------------------------------------------------------------ how z enters

INJECTIONS = {
    "both": [LatentMemory, LatentEmbedding],
    "slot": [LatentMemory],
    "embedding": [LatentEmbedding],
    "per position": [partial(LatentPerPosition, positions=7)],
    "all": [partial(LatentPerPosition, positions=2), LatentMemory, LatentEmbedding, partial(LatentPerPosition, positions=3)],
}


@pytest.mark.parametrize("injections", INJECTIONS.values(), ids=INJECTIONS)
def test_stepping_equals_the_full_pass(injections):
    model = vae(injections=injections)
    memory = model.memory_from(torch.randn(2, 4))
    full = model.decode(Seq(IDS), memory).hidden.data
    state, steps = model.start(memory, 2), []
    for t in range(IDS.shape[1]):
        done = model.step(Seq(IDS[:, t : t + 1]), state)
        state = done.state.select(torch.tensor([0, 1]))
        steps.append(done.hidden.data)
    torch.testing.assert_close(torch.cat(steps, 1), full, **CLOSE)


@pytest.mark.parametrize("injections", INJECTIONS.values(), ids=INJECTIONS)
def test_every_position_sees_z_and_no_later_token(injections):
    model = vae(injections=injections)
    z = torch.randn(1, 4, requires_grad=True)
    soft = torch.nn.functional.one_hot(IDS[:1], 17).float().requires_grad_()
    hidden = model.decode(Seq(soft), model.memory_from(z)).hidden.data
    for t in range(IDS.shape[1]):
        by_z, by_x = torch.autograd.grad(hidden[0, t].sum(), (z, soft), retain_graph=True)
        assert bool((by_z != 0).any()), f"position {t} does not see z"
        assert bool((by_x[0, t + 1 :] == 0).all()), f"position {t} sees a later token"


def test_per_position_each_token_has_its_own_map_and_those_after_the_last_have_none():
    model = vae(injections=[partial(LatentPerPosition, positions=2)])
    (injection,) = model.decoder.injections
    z_BP, plain = torch.randn(2, 4), model.decoder.model.embed(Seq(IDS)).data
    given = model.decoder.embed_with(Seq(IDS), model.decoder.added(model.memory_from(z_BP))).data - plain
    for t, weight_DP in enumerate(injection.map.weight.unflatten(0, (2, -1))):
        torch.testing.assert_close(given[:, t], z_BP @ weight_DP.T, **CLOSE)
    assert not given[:, 2:].any()
    mask = torch.tensor([[False, False, True, True], [True, True, True, False]])
    padded = Seq(IDS, mask)
    given = (
        model.decoder.embed_with(padded, model.decoder.added(model.memory_from(z_BP))).data
        - model.decoder.model.embed(padded).data
    )
    torch.testing.assert_close(given[0, 2:], (injection.map(z_BP[0])).unflatten(0, (2, -1)), **CLOSE)


def test_several_injections_are_summed_element_wise():
    model = vae(injections=[partial(LatentPerPosition, positions=3), LatentEmbedding, partial(LatentPerPosition, positions=2)])
    z_BP = torch.randn(2, 4)
    three, everywhere, two = (injection.embedding_offsets(z_BP) for injection in model.decoder.injections)
    wanted = everywhere + three
    wanted[:, :2] += two
    torch.testing.assert_close(model.decoder.added(model.memory_from(z_BP)), wanted, **CLOSE)
    with pytest.raises(ValueError, match=r"positions is 1, but must be at least 2.*use latent-embedding"):
        vae(injections=[partial(LatentPerPosition, positions=1)])


def test_without_injections_z_is_not_seen():
    model = vae(injections=None)
    one, two = (model.decode(Seq(IDS), model.memory_from(torch.randn(2, 4))).hidden.data for _ in range(2))
    assert torch.equal(one, two)


DECODERS = {
    "rotary": DECODER,
    "learned positions": partial(
        DECODER, embedder=partial(SumEmbedder, parts=[TokenEmbedder, partial(LearnedPositionEmbedder, length=9)])
    ),
    "gpt2": gpt2(dim=8, layers=2, heads=2, length=9, dropout=0.0),
}


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_with_the_latent_paths_at_zero_the_decoder_is_the_plain_one(decoder):
    model = vae(decoder=decoder)
    for injection in model.decoder.injections:
        torch.nn.init.zeros_(injection.map.weight)
    plain = model.decoder.model.decode(Seq(IDS), None).hidden.data
    torch.testing.assert_close(model.decode(Seq(IDS), model.memory_from(torch.randn(2, 4))).hidden.data, plain, **CLOSE)


def test_a_slot_is_key_and_value_of_every_layer():
    """Against attention written out: one layer, one head, a slot before the tokens."""
    model = vae(decoder=partial(LanguageModel, dim=8, decoder=partial(TransformerDecoder, layers=1)), injections=[LatentMemory])
    z = torch.randn(2, 4)
    (kv,) = model.memory_from(z).past
    slot = model.decoder.injections[0].map(z)
    mixer = model.decoder.decoder.stack.layers[0].mixer
    wanted = slot.unflatten(-1, (mixer.heads, -1))
    assert torch.equal(kv.key[:, :, 0], wanted) and torch.equal(kv.value[:, :, 0], wanted)
    assert kv.position.tolist() == [[0], [0]]


def test_a_recurrent_decoder_takes_the_embedding_and_refuses_the_memory():
    decoder = partial(LanguageModel, dim=8, decoder=GRUDecoder)
    model = vae(decoder=decoder, injections=[LatentEmbedding])
    assert model.decode(Seq(IDS), model.memory_from(torch.randn(2, 4))).hidden.data.shape == (2, 4, 8)
    with pytest.raises(ValueError, match="needs a decoder with attention layers; GRUDecoder has none, use latent-embedding"):
        vae(decoder=decoder)


@pytest.mark.parametrize("search", [GreedySearch(max_length=6), BeamSearch(beams=3, max_length=6)])
def test_what_is_written_depends_on_the_row_alone(search):
    model, z = vae(), 3 * torch.randn(5, 4)
    together = search(model, model.memory_from(z), limits=[6] * 5)
    assert len({tuple(row[0].ids) for row in together}) > 1
    for row, found in enumerate(together):
        alone = search(model, model.memory_from(z[row : row + 1]), limits=[6])[0]
        assert alone[0].ids == found[0].ids


# --------------------------------------------------------------------------------------------------------------- the bound


def test_divergence_and_bound_against_torch():
    model, objective = vae(), ELBO(INFO, 8).eval()
    batch = batch_of(objective, enumerate(examples()))
    loss = objective(model, batch, Clock())
    found = model.posterior(batch["source"])
    q = Normal(found.mean_BP, (0.5 * found.logvar_BP).exp())
    torch.testing.assert_close(loss["raw_kl"].total, kl_divergence(q, Normal(torch.zeros(4), torch.ones(4))).sum(), **CLOSE)
    z = objective.sample_z(found, batch)
    logits = model.head(model.decode(batch["input"], model.memory_from(z)).hidden.data)
    nll = 0.0
    for row, example in enumerate(examples()):
        ids = [*example["target"].tolist(), 2]
        nll += torch.nn.functional.cross_entropy(logits[row, : len(ids)], torch.tensor(ids), reduction="sum")
    torch.testing.assert_close(loss["reconstruction"].total, nll, **CLOSE)
    assert objective.metric_values({"reconstruction": 3.0, "raw_kl": 2.0, "kl": 9.0}) == {"negative_elbo": 5.0}


@pytest.mark.parametrize("training", [True, False])
def test_noise_follows_from_the_row_and_has_the_variance_that_was_read(training):
    objective = ELBO(INFO, 8).train(training)
    rows = list(enumerate(examples()))
    model, whole = vae(), batch_of(objective, rows)
    together = objective.sample_z(model.posterior(whole["source"]), whole)
    for number, row in enumerate(rows):
        alone = batch_of(objective, [row])
        torch.testing.assert_close(objective.sample_z(model.posterior(alone["source"]), alone)[0], together[number], **CLOSE)
    many = batch_of(objective, ((i, examples()[0]) for i in range(4000)))
    wide = Posterior(torch.full((4000, 4), 2.0), torch.full((4000, 4), float(np.log(9.0))))
    z = objective.sample_z(wide, many)
    assert float((z.mean() - 2).abs()) < 0.1 and float((z.std() - 3).abs()) < 0.1


def test_other_kinds_of_noise():
    model, rows = vae(), list(enumerate(examples()))
    none, unit = ELBO(INFO, 8, noise="none"), ELBO(INFO, 8, noise="unit")
    batch = batch_of(none, rows)
    posterior = model.posterior(batch["source"])
    assert torch.equal(none.sample_z(posterior, batch), posterior.mean_BP)
    eps = unit.sample_z(posterior, batch) - posterior.mean_BP
    assert not torch.allclose(eps, torch.zeros(()))
    flat = Posterior(posterior.mean_BP, posterior.logvar_BP * 0 - 20)
    torch.testing.assert_close(unit.sample_z(flat, batch) - posterior.mean_BP, eps, **CLOSE)


def test_beta_and_free_bits_are_of_training_alone():
    model, objective = (
        vae(),
        ELBO(
            INFO,
            8,
            beta=partial(CyclicalAnnealing, zero_fraction=0.5, rise_fraction=0.25),
            free_bits=partial(ClampFreeBits, nats=50.0),
        ),
    )
    batch = batch_of(objective, enumerate(examples()))
    first, last = (objective(model, batch, Clock(update, 100)) for update in (0, 99))
    assert first["kl"].weight == 0.0 and last["kl"].weight == 1.0
    assert float(first["kl"].total) == pytest.approx(float(first["raw_kl"].total)), "while beta is 0 nothing is free"
    assert float(last["kl"].total) == pytest.approx(3 * 4 * 50.0)
    judged = objective.eval()(model, batch, Clock())
    assert judged["kl"].weight == 1.0 and float(judged["kl"].total) == pytest.approx(float(judged["raw_kl"].total))


def test_per_token_divides_by_what_is_predicted():
    plain, objective = ELBO(INFO, 8), ELBO(INFO, 8, per_token=True)
    model, rows = vae(), list(enumerate(examples((4, 4))))
    totals = [o(model, batch_of(o, rows), Clock())["reconstruction"].total for o in (plain, objective)]
    torch.testing.assert_close(totals[1], totals[0] / 5, **CLOSE)
    judged = [o.eval()(model, batch_of(o, rows), Clock())["reconstruction"].total for o in (plain, objective)]
    torch.testing.assert_close(judged[1], judged[0], **CLOSE)  # what is judged is the bound


def test_schedules_at_their_corners():
    assert [
        CyclicalAnnealing(zero_fraction=0.2, rise_fraction=0.4, weight=2.0).weight(s) for s in (0.0, 0.199, 0.2, 0.4, 0.6, 1.0)
    ] == pytest.approx([0, 0, 0, 1, 2, 2])
    twice = CyclicalAnnealing(zero_fraction=0.5, rise_fraction=0.5, cycles=2)
    assert [twice.weight(s) for s in (0.0, 0.25, 0.375, 0.5, 0.75, 0.875, 1.0)] == pytest.approx([0, 0, 0.5, 0, 0, 0.5, 1])
    assert CyclicalAnnealing(zero_fraction=0.5, rise_fraction=0.0).weight(0.5) == 1.0
    assert ConstantAnnealing(weight=0.3).weight(0.9) == 0.3
    with pytest.raises(ValueError, match=r"zero_fraction 0\.6 \+ rise_fraction 0\.5 is 1\.1; the sum must be at most 1"):
        CyclicalAnnealing(zero_fraction=0.6, rise_fraction=0.5)


@pytest.mark.parametrize("per", ["example", "batch"])
def test_both_forms_of_free_bits_have_one_gradient(per):
    kl = torch.tensor([[0.1, 0.9, 2.0], [0.3, 0.05, 0.1]], requires_grad=True)  # 0.5 is between mean and most of the second
    grads = [torch.autograd.grad(form(nats=0.5, per=per).kl_term(kl).sum(), kl)[0] for form in (ClampFreeBits, ThresholdFreeBits)]
    assert torch.equal(*grads)
    paid = kl > 0.5 if per == "example" else (kl.mean(0) > 0.5).expand_as(kl)
    assert torch.equal(grads[0], paid.float())
    assert float(
        (ClampFreeBits(nats=0.5, per=per).kl_term(kl) - ThresholdFreeBits(nats=0.5, per=per).kl_term(kl)).sum()
    ) == pytest.approx(0.5 * float((~paid).sum()))


# ------------------------------------------------------------------------------------------------------------- what is built


def test_what_reads_and_what_writes():
    with pytest.raises(ValueError, match=r"encoder is a Seq2Seq, which does not only encode; use .*text-encoder"):
        vae(encoder=partial(Seq2Seq, encoder=GRU))
    with pytest.raises(ValueError, match=r"decoder is a TextEncoder, which is not a language model; use .*gpt2"):
        vae(decoder=TextEncoder)
    with pytest.raises(ValueError, match="needs a field 'label'"):
        vae(encoder=Classifier)


def test_parts_begin_with_their_weights(tmp_path):
    """The decoder from a published folder, the encoder from random numbers."""
    from weft.pretrained.weights import initialize_weights

    structure = gpt2(dim=8, layers=2, heads=2, length=9)
    torch.manual_seed(3)
    source = structure(INFO.single_text("target"))
    save(source, structure, tmp_path / "gpt2")
    choices = {"encoder": ENCODER, "decoder": partial(structure, weights=str(tmp_path / "gpt2"))}
    torch.manual_seed(4)
    model = TextVAE(INFO, latent=4, **choices)
    encoder = {name: tensor.clone() for name, tensor in model.encoder.state_dict().items()}
    taken = initialize_weights(model, partial(TextVAE, latent=4, **choices))
    assert [str(path) for path in taken] == [str(tmp_path / "gpt2")]
    for name, tensor in source.state_dict().items():
        assert torch.equal(model.decoder.model.state_dict()[name], tensor), name
    assert all(torch.equal(model.encoder.state_dict()[name], tensor) for name, tensor in encoder.items())
