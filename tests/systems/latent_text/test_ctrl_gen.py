"""Ctrl-Gen: a class-conditional text VAE, and the losses of its two sleep phases."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Normal

from weft.blocks import CNN, GRU, GRUDecoder, LastPooler, LatentEmbedding
from weft.core.batch import Batch, Clock, collate
from weft.core.contracts import Latent, Variational
from weft.core.fields import Frame, Info, LabelField, TextField
from weft.core.seq import Seq
from weft.generate.soft_decoding import soft_decode
from weft.models import Classifier, LanguageModel, TextEncoder, TextVAE
from weft.objectives import ELBO
from weft.objectives.elbo import standard_normal
from weft.systems.latent_text.cara import CARAMutualInformation, CARATextClassifier, ClassifiesTexts
from weft.systems.latent_text.ctrl_gen import CtrlGen, CtrlGenDiscriminator, CtrlGenGenerator

LABEL = LabelField("label", 3, labels=("bad", "fair", "good"))
INFO = Info({"source": TextField("source", 14), "target": TextField("target", 14), "label": LABEL}, target="target")
SMALL: dict[str, Any] = {
    "latent": 4,
    "label_dim": 3,
    "encoder": partial(TextEncoder, dim=10, encoder=GRU, head=None),
    "pooler": LastPooler,
    "decoder": partial(LanguageModel, dim=8, decoder=GRUDecoder),
    "text_classifier": partial(Classifier, dim=8, encoder=partial(CNN, layers=1)),
}


def model_of(**choices: Any) -> CtrlGen:
    torch.manual_seed(0)
    model = CtrlGen(INFO, **{**SMALL, **choices})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def batch_of(objective: Any, rows: int = 6) -> Batch:
    rng = np.random.default_rng(0)
    found = []
    for i in range(rows):
        ids = rng.integers(7, 14, 3)
        found.append({"source": ids, "target": ids, "label": i % 3})
    return collate([objective.prepare(row, np.random.default_rng(i), found) for i, row in enumerate(found)], range(rows))


def moved_by(objective: Any, model: CtrlGen) -> set[str]:
    model.zero_grad()
    objective(model, batch_of(objective), Clock()).mean().backward()
    return {n.partition(".")[0] for n, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}


def test_structure_is_a_class_conditional_text_vae_with_a_classifier():
    model = model_of()
    assert isinstance(model, TextVAE) and {Latent, Variational, ClassifiesTexts} <= set(model.provides())
    assert (
        model.class_conditional
        and model.samples_by_label
        and set(model.substructures()) == {"encoder", "decoder", "text_classifier"}
    )


def test_text_vae_conditions_on_the_class():
    choices = {name: SMALL[name] for name in ("latent", "encoder", "pooler", "decoder", "label_dim")}
    torch.manual_seed(0)
    model = TextVAE(INFO, **choices, injections=[LatentEmbedding]).eval()
    x, z = Seq(torch.tensor([[1, 7, 8]])), torch.randn(1, 4)
    texts = [model.decode(x, model.memory_from(z, torch.tensor([y]))).hidden.data for y in range(3)]
    assert not torch.allclose(texts[0], texts[1]) and not torch.allclose(texts[1], texts[2])
    with pytest.raises(ValueError, match="class-conditional, but no label was given"):
        model.memory_from(z)
    objective = ELBO(INFO, 8)
    batch = batch_of(objective)
    one = objective(model, batch, Clock())["reconstruction"].total
    other = objective(model, Batch({**batch.fields, "label": (batch["label"] + 1) % 3}, len(batch)), Clock())[
        "reconstruction"
    ].total
    assert not torch.allclose(one, other), "the ELBO does not depend on the class"
    plain = TextVAE(INFO, **{**choices, "label_dim": 0}, injections=[LatentEmbedding])
    assert not plain.class_conditional and plain.decoder.labels is None
    with pytest.raises(ValueError, match="needs a field 'label'"):
        TextVAE(Info({n: INFO[n] for n in ("source", "target")}, target="target"), **choices)


def test_generator_loss_equals_its_formula():
    model, objective = model_of(), CtrlGenGenerator(INFO, 8, max_length=5)
    batch = batch_of(objective)
    loss = objective(model, batch, Clock())
    z = standard_normal(batch, 4)
    text = soft_decode(model, model.memory_from(z, batch["target_label"]), max_length=5)
    q = model.posterior(text)
    nll = -Normal(q.mean_BP, (0.5 * q.logvar_BP).exp()).log_prob(z).sum()
    torch.testing.assert_close(loss["latent"].total, nll)
    torch.testing.assert_close(
        loss["class"].total, F.cross_entropy(model.text_logits(text), batch["target_label"], reduction="sum")
    )


def test_discriminator_loss_equals_its_formula():
    model, objective = model_of(), CtrlGenDiscriminator(INFO, 8, generated_weight=0.2, entropy_weight=0.5, max_length=5)
    batch = batch_of(objective)
    loss = objective(model, batch, Clock())
    text = soft_decode(model, model.memory_from(standard_normal(batch, 4), batch["target_label"]), max_length=5)
    logits = model.text_logits(text)
    torch.testing.assert_close(
        loss["real"].total, F.cross_entropy(model.text_logits(batch["text"]), batch["label"], reduction="sum")
    )
    torch.testing.assert_close(loss["generated"].total, F.cross_entropy(logits, batch["target_label"], reduction="sum"))
    torch.testing.assert_close(loss["entropy"].total, Categorical(logits=logits).entropy().sum())
    assert (loss["generated"].weight, loss["entropy"].weight) == (0.2, 0.1)
    alone = CtrlGenDiscriminator(INFO, 8, generated_weight=0.0)
    assert set(alone(model, batch_of(alone), Clock())) == set(alone.counts(batch)) == {"real"}


def test_gradients_of_each_objective_reach_its_networks_only():
    model = model_of()
    assert moved_by(CtrlGenDiscriminator(INFO, 8, max_length=4), model) == {
        "text_classifier"
    }  # no gradient through generated texts
    assert {"decoder", "encoder", "to_posterior", "text_classifier"} == moved_by(CtrlGenGenerator(INFO, 8, max_length=4), model)
    assert moved_by(ELBO(INFO, 8), model) == {"encoder", "to_posterior", "decoder"}
    assert moved_by(CARATextClassifier(INFO, 8), model) == {"text_classifier"}
    assert "decoder" in moved_by(CARAMutualInformation(INFO, 8, max_length=4), model)  # objectives of CARA apply as well


def test_generator_loss_needs_one_vocabulary():
    apart = Info({**INFO.fields, "target": TextField("target", 14, space="target")}, target="target")
    framed = Info({**INFO.fields, "source": TextField("source", 14, frame=Frame(first=(5,), last=(6,)))}, target="target")
    for info in (apart, framed):
        with pytest.raises(ValueError, match="source and target need the same vocabulary"):
            CtrlGenGenerator(info, 8)
    CtrlGenDiscriminator(apart, 8)


def test_a_single_class_is_rejected():
    one = Info({**INFO.fields, "label": LabelField("label", 2, labels=("good",))}, target="target")
    for build in (lambda: CtrlGen(one, **SMALL), lambda: CtrlGenGenerator(one, 8), lambda: CtrlGenDiscriminator(one, 8)):
        with pytest.raises(ValueError, match="needs at least two classes"):
            build()
