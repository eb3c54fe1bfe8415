"""The latent space of a trained run: encode, decode, sample, interpolate, steer, transfer."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.systems.latent_text.small_runs import EXAMPLES, TEXTS, A, B, C

from weft.core.batch import Instance, collate
from weft.core.contracts import Decodes, Encodes
from weft.generate import BeamSearch, Sampling
from weft.systems.latent_text.run_evaluation import evaluate_run
from weft.systems.latent_text.space import LatentSpace, open_latent


@pytest.fixture
def decoded(space: LatentSpace, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The latent codes that are decoded."""
    codes: list[np.ndarray] = []
    search = LatentSpace._search
    monkeypatch.setattr(LatentSpace, "_search", lambda self, z, *rest: (codes.append(z), search(self, z, *rest))[1])
    return codes


# ------------------------------------------------------------------------------------------------------------- encode and decode


def test_encode_returns_the_posterior_mean_whatever_the_batch(space, monkeypatch):
    texts = [*TEXTS[::5], "", "the", TEXTS[0]]
    monkeypatch.setattr("weft.inference.engine.MAX_BATCH_TOKENS", 16)  # several batches, some with padding
    found = space.encode(texts)
    assert found.shape == (len(texts), 5) and np.array_equal(found[0], found[-1])
    assert len(np.unique(found[:-1].round(3), axis=0)) == len(texts) - 1
    codec: Any = space.codec
    for text, mean in zip(texts, found, strict=True):
        ids = space.source.frame.around([codec.encode("source", text)])
        with torch.inference_mode():
            alone = space.model.posterior(collate([Instance(source=ids)])["source"]).mean_BP
        np.testing.assert_allclose(mean, alone[0], rtol=1e-4, atol=1e-5)
    assert space.encode([]).shape == (0, 5)


def test_truncated_texts_are_counted(home):
    space = open_latent(home / "vae")
    long = " ".join(["food"] * 40)
    np.testing.assert_allclose(space.encode([long, "the food", long])[0], space.encode([" ".join(["food"] * 12)])[0], atol=1e-5)
    assert space.truncated == 2


def test_texts_with_unknown_words_are_counted(home):
    space = open_latent(home / "vae")
    space.encode(["the zorgon was fine", A, "the zorgon was fine", "", " ", "food " * 12 + "zorgon"])
    assert (space.encoded, space.unknown, space.truncated) == (4, 2, 1), "removed words are not counted"
    by_word = open_latent(home / "conditional")
    by_word.encode(["", A, "the fööd"])  # with word_ids an empty text has one word, which is unknown
    assert (by_word.encoded, by_word.unknown) == (2, 1)


def test_decoded_texts_do_not_depend_on_the_batch(space, monkeypatch):
    z = space.encode(TEXTS)
    texts = space.decode(z)
    assert len(set(texts)) > 2
    assert texts == [space.decode(z[i : i + 1])[0] for i in range(len(z))]
    sampling = partial(Sampling, temperature=1.5, seed=4)
    samples = space.decode(z, search=sampling)
    assert samples[:5] == space.decode(z[:5], search=sampling) and samples != texts
    assert list(space.rewrite(TEXTS, search=sampling, batch_size=3)) == samples
    assert space.decode(z, search=sampling) == samples and space.decode(z) == texts
    assert space.decode(z[:0]) == []


def test_reconstruct_encodes_and_decodes_with_any_search(space):
    assert space.reconstruct(TEXTS[:5]) == space.decode(space.encode(TEXTS[:5]))
    assert space.reconstruct(TEXTS[:5]) == space.run.generate(TEXTS[:5])
    for search in (BeamSearch(beams=3, max_length=7), partial(Sampling, top_k=3, max_length=7)):
        assert list(space.rewrite(TEXTS[:5], search=search, batch_size=2)) == space.reconstruct(TEXTS[:5], search=search)


def test_empty_texts_stay_empty_and_extra_spaces_do_not_matter(space, conditional):
    first, second = space.reconstruct([A, B])
    assert space.reconstruct([A, "", B, " "]) == [first, "", second, ""] and first and second
    assert (conditional.encode([f" {A.replace(' ', '   ')} "]) == conditional.encode([A])).all()  # encoded word by word


@pytest.mark.parametrize(
    ("z", "message"),
    [
        (np.zeros(5), r"z must have the shape \(N, 5\), not \(5,\)"),
        (np.zeros((2, 4)), r"not \(2, 4\)"),
        (np.full((1, 5), np.nan), "not finite"),
    ],
)
def test_invalid_latent_codes_are_reported(space, z, message):
    with pytest.raises(ValueError, match=message):
        space.decode(z)


@pytest.mark.parametrize(
    "call", [lambda s: s.encode("one"), lambda s: s.reconstruct("one"), lambda s: s.steer(["a"], "b", ["c"])]
)
def test_a_string_instead_of_a_list_is_rejected(space, call):
    with pytest.raises(ValueError, match="texts must be a list of strings"):
        call(space)


# -------------------------------------------------------------------------------------------------------- sample and interpolate


def test_samples_depend_on_seed_and_index_only(space):
    state = torch.random.get_rng_state()
    z = space.sample_latents(6, seed=1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert np.array_equal(z[:3], space.sample_latents(3, seed=1)) and not np.array_equal(z, space.sample_latents(6, seed=2))
    assert len(np.unique(z, axis=0)) == 6 and abs(space.sample_latents(400).std() - 1) < 0.05
    assert space.sample(6, seed=1) == space.decode(z) and space.sample(2, seed=1) == space.sample(6, seed=1)[:2]
    with pytest.raises(ValueError, match="samples must be at least 0, not -1"):
        space.sample_latents(-1)


@pytest.mark.parametrize("method", ["linear", "spherical"])
def test_interpolation_endpoints_are_the_reconstructions(space, method, decoded):
    found = space.interpolate(A, B, method=method)
    assert [step.tau for step in found] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
    [codes] = decoded
    ends = space.encode([A, B])
    assert np.array_equal(codes[[0, -1]], ends) and not np.allclose(codes[5], ends[0])
    assert [found[0].text, found[-1].text] == space.reconstruct([A, B])
    assert [step.text for step in found[::5]] == [step.text for step in space.interpolate(A, B, 3, method)]
    assert [step.text for step in space.interpolate(A, B, 2, method)] == space.reconstruct([A, B])


def test_interpolation_needs_two_steps(space):
    with pytest.raises(ValueError, match="steps must be at least 2, endpoints included, not 1"):
        space.interpolate(A, B, 1)


def test_analogy_and_arithmetic_decode_linear_combinations(space, decoded):
    assert space.analogy(A, A, C) == space.analogy(A, B, C, scale=0) == space.reconstruct([C])[0]
    z_a, z_b, z_c = space.encode([A, B, C])
    np.testing.assert_allclose(decoded[0][0], z_c, rtol=1e-5, atol=1e-6)
    space.analogy(A, B, C, 0.5)
    np.testing.assert_allclose(decoded[-1][0], z_c + 0.5 * (z_b - z_a), rtol=1e-5, atol=1e-6)
    space.arithmetic([(1, C), (0.5, B), (-0.5, A)])
    np.testing.assert_allclose(decoded[-1], decoded[-2], atol=1e-5)
    assert space.arithmetic([(1, C)]) == space.reconstruct([C])[0]
    with pytest.raises(ValueError, match="terms is empty"):
        space.arithmetic([])


# ------------------------------------------------------------------------------------------------------------ steer and transfer


def test_steering_adds_the_difference_of_two_means(space, decoded):
    good, bad = TEXTS[::4], TEXTS[2::3]
    z_good, z_bad = space.encode(good).mean(0), space.encode(bad).mean(0)
    np.testing.assert_allclose(space.direction(good, bad), z_good - z_bad, atol=1e-5)
    assert space.steer([A, B], good, bad, scale=0) == space.steer([A, B], good, good) == space.reconstruct([A, B])
    space.steer([A, B], good, bad, -2)
    np.testing.assert_allclose(decoded[-1], space.encode([A, B]) - 2 * (z_good - z_bad), rtol=1e-4, atol=1e-4)
    for target, source, name in (([], bad, "target"), (good, [], "source")):
        with pytest.raises(ValueError, match=f"{name} has no texts"):
            space.steer([A], target, source)


def test_models_without_classes_name_an_alternative(space):
    for call in (
        lambda: space.transfer([A], "good"),
        lambda: space.sample(2, "good"),
        lambda: space.reconstruct([A], "good"),
        lambda: evaluate_run(space.run, [("a", "b"), ("c", "d")]),
    ):
        with pytest.raises(ValueError, match=r"vae \(TextVAE\).*move texts along an attribute vector with steer"):
            call()


def test_transfer_and_sampling_condition_on_the_class(conditional):
    assert conditional.labels.names == ("bad", "good")
    own = [label for _, label in EXAMPLES]
    rewritten = {label: conditional.transfer(TEXTS, label) for label in conditional.labels.names}
    assert rewritten["good"] != rewritten["bad"]
    per_text = [rewritten[label][row] for row, label in enumerate(own)]
    assert conditional.transfer(TEXTS, own) == conditional.reconstruct(TEXTS, own) == per_text
    assert list(conditional.rewrite(TEXTS, None, own, batch_size=5)) == per_text
    good, bad = (conditional.sample(8, label, seed=3) for label in ("good", "bad"))
    assert good != bad and good[:3] == conditional.sample(3, "good", seed=3)
    assert conditional.sample(4, seed=3) == [bad[0], good[1], bad[2], good[3]]  # in turn
    first, *_, last = conditional.interpolate(A, B, label="bad")
    assert [first.text, last.text] == conditional.reconstruct([A, B], "bad")


def test_invalid_labels_are_reported(conditional):
    for call in (
        lambda: conditional.transfer([A], "goood"),
        lambda: conditional.sample(1, "goood"),
        lambda: conditional.decode([], "goood"),
    ):
        with pytest.raises(ValueError, match=r"has no class 'goood'; did you mean 'good'\? \(available: bad, good\)"):
            call()
    with pytest.raises(ValueError, match=r"no label was given; choose 'bad' or 'good' .on the command line: --label bad"):
        conditional.reconstruct([A])
    with pytest.raises(ValueError, match="style transfer needs a target class"):
        conditional.transfer([A], None)
    for labels in (["bad"], ["bad"] * 3):
        with pytest.raises(ValueError, match=f"{len(labels)} labels for 2 texts"):
            conditional.transfer([A, B], labels)


def test_a_model_with_a_conditional_prior_only_samples(conditional, monkeypatch):
    model = conditional.model
    monkeypatch.setattr(model, "class_conditional", False)
    monkeypatch.setattr(model, "prior", lambda rows, label_B: torch.randn(rows, 4) + 5.0 * label_B[:, None])
    memory_from = model.decoder.memory_from
    monkeypatch.setattr(
        model, "memory_from", lambda z_BP, label_B=None: memory_from(z_BP, torch.zeros(len(z_BP), dtype=torch.long))
    )
    assert conditional.sample(3, "good") != conditional.sample(3, "bad")
    with pytest.raises(ValueError, match=r"sample texts of a class with weft latent RUN sample --label good, or .*steer"):
        conditional.transfer([A], "good")
    found = evaluate_run(conditional.run, EXAMPLES * 2, split="valid")
    assert found.transfer is None and found.transferred == () and "transfer_accuracy" not in found.metric_values()


@pytest.mark.parametrize(
    ("protocols", "message"),
    [
        ((Decodes, Encodes), "it supports weft generate, weft embed; train a structure"),
        ((), "train a structure with one, such as text-vae"),
    ],
)
def test_runs_without_a_latent_space_are_rejected(protocols, message):
    run: Any = SimpleNamespace(model=SimpleNamespace(provides=lambda: protocols), folder="runs/x")
    with pytest.raises(ValueError, match=f"runs/x has no latent space; {message}"):
        LatentSpace(run)


def test_texts_with_more_than_max_words_are_truncated(conditional):
    words = [f"{word}" for word, _ in zip(("the food was fine and " * 9).split(), range(40), strict=False)]
    before = conditional.truncated
    short, full = " ".join(words[:13]), " ".join(words)
    assert np.array_equal(*conditional.encode([short, full])), "position-concat has 13 word positions"
    assert conditional.truncated == before + 1
    assert conditional.transfer([A, full], "good") == [conditional.transfer([text], "good")[0] for text in (A, short)]


def test_predict_and_generate_point_to_open_latent(conditional, space):
    for run in (conditional.run, space.run):
        with pytest.raises(
            ValueError, match=r"generates text and does not classify: use weft.systems.latent_text.space.open_latent"
        ):
            run.predict([A])
    with pytest.raises(ValueError, match=r"generates class-conditionally; .*transfer.texts, CLASS. rewrites"):
        conditional.run.generate([A])
    assert len(space.run.generate([A])) == 1
