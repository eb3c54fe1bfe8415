"""Small CARA and ARAE models, their batches, and a training loop in memory."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks import CNN, GRU, MLP, BatchNorm, GRUDecoder, LastPooler
from weft.core.batch import Batch, collate
from weft.core.fields import Info, LabelField, TextField
from weft.learning import Adam, Gradient, Network, Phase, TrainingLoop
from weft.models import Classifier, LanguageModel, TextEncoder
from weft.systems.latent_text.cara import (
    ARAE,
    CARA,
    CARADiscriminator,
    CARAGenerator,
    CARAMutualInformation,
    CARAReconstruction,
    CARATextClassifier,
)

VOCAB, K = 14, 3
LABELS = ("bad", "fair", "good")


def info_of(labels: tuple[str, ...] = LABELS) -> Info:
    label = LabelField("label", max(2, len(labels)), labels=labels)
    return Info({"source": TextField("source", VOCAB), "target": TextField("target", VOCAB), "label": label}, target="target")


INFO = info_of()
CHOICES: dict[str, Any] = {
    "latent": 6,
    "noise": 5,
    "encoder": partial(TextEncoder, dim=10, encoder=GRU, head=None),
    "pooler": LastPooler,
    "decoder": partial(LanguageModel, dim=8, decoder=GRUDecoder),
    "sampler": partial(MLP, hidden=[9], batch_norm=BatchNorm),
    "classifier": partial(MLP, hidden=[9]),
    "discriminator": partial(MLP, hidden=[9]),
}
SMALL: dict[str, Any] = {**CHOICES, "label_dim": 3, "text_classifier": partial(Classifier, dim=8, encoder=partial(CNN, layers=1))}


def cara(**choices: Any) -> CARA:
    torch.manual_seed(0)
    return CARA(INFO, **{**SMALL, **choices})


def arae(**choices: Any) -> ARAE:
    torch.manual_seed(0)
    return ARAE(INFO, **{**CHOICES, **choices})


def examples(number: int = 24) -> list[dict[str, Any]]:
    """Texts whose first token determines the class."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(number):
        ids = np.concatenate([[7 + i % K], rng.integers(10, VOCAB, int(rng.integers(1, 6)))])
        rows.append({"source": ids, "target": ids, "label": i % K})
    return rows


def batch_of(objective: Any, rows: list[dict[str, Any]] | None = None, first: int = 0) -> Batch:
    rows = examples() if rows is None else rows
    instances = [objective.prepare(row, np.random.default_rng(first + i), rows) for i, row in enumerate(rows)]
    return collate(instances, range(len(instances)))


# -------------------------------------------------------------------------------------------------------------- a loop in memory


class Kept:
    """A watcher that keeps the last checkpoint in memory."""

    saved: Any = None

    def on_log(self, row: dict[str, Any]) -> None: ...

    def should_evaluate(self, progress: Any, last: bool) -> bool:
        return False

    def evaluate(self, progress: Any, last: bool) -> float | None:
        return None

    def save(self, tensors: Any, documents: Any, progress: Any) -> None:
        copies = {f: {n: t.clone() for n, t in named.items()} for f, named in tensors.items()}
        self.saved = copies, json.loads(json.dumps(documents))

    def restore(self) -> Any:
        return self.saved

    def should_stop(self) -> bool:
        return False


class Rows:
    """Batches of a few rows each, prepared for an objective; target classes are sampled anew in every epoch."""

    def __init__(self, objective: Any, size: int = 8):
        self.objective, self.size, self.rows, self.name = objective, size, examples(), "fixed"

    def counts(self) -> dict[str, int]:
        return {}

    def __len__(self) -> int:
        return len(self.rows) // self.size

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        first = draw % len(self) * self.size
        return batch_of(self.objective, self.rows[first : first + self.size], 100 + draw * self.size)


ENCODER = ["encoder.*", "to_latent.*"]
STEPS: dict[str, tuple[Any, list[str]]] = {
    "reconstruction": (CARAReconstruction, [*ENCODER, "decoder.*"]),
    "discriminator": (CARADiscriminator, ["classifier.*", "discriminator.*"]),
    "generator": (CARAGenerator, [*ENCODER, "sampler.*"]),
    "text_classifier": (CARATextClassifier, ["text_classifier.*"]),
    "mutual_information": (partial(CARAMutualInformation, max_length=5), [*ENCODER, "decoder.*"]),
}


def loop_of(
    model: Any,
    names: list[str],
    watcher: Any = None,
    steps: int = 1,
    lr: float = 0.01,
    starts: dict[str, int] = {},
    seed: int = 1,
    **kinds: Any,
) -> TrainingLoop:
    """A loop over these steps of the algorithm, in this order."""
    objectives = {name: kinds.get(name, STEPS[name][0])(INFO, model.dim) for name in names}
    phases = [partial(Phase, objective=name, train=STEPS[name][1], start=starts.get(name, 0)) for name in names]
    learning = Gradient(steps=steps, optimizer=partial(Adam, lr=lr), phases=phases, save_every=1)
    network = Network(model, objectives)
    return TrainingLoop(
        network,
        learning,
        lambda split, objective, name: Rows(objective),
        watcher or Kept(),
        seed=seed,
        stage=0,
        device=torch.device("cpu"),
        precision="fp32",
    )


def after(model: Any, name: str, steps: int = 30, **choices: Any) -> Any:
    """The model after updates of one step of the algorithm."""
    loop_of(model, [name], steps=steps, **choices).run(resume=False)
    return model.eval()


def accuracy(model: Any, objective: Any = None) -> float:
    batch = batch_of(CARADiscriminator(INFO, 8))
    return float((model.latent_logits(latents(model)).argmax(-1) == batch["label"]).float().mean())


def latents(model: Any) -> Tensor:
    with torch.no_grad():
        return model.eval().posterior(batch_of(CARADiscriminator(INFO, 8))["source"]).mean_BP


def classifier_loss(model: Any) -> float:
    """Cross-entropy of the latent classifier on texts."""
    with torch.no_grad():
        return float(F.cross_entropy(model.latent_logits(latents(model)), batch_of(CARADiscriminator(INFO, 8))["label"]))


def scores(model: Any) -> tuple[float, float]:
    """Mean discriminator scores of real and fake latent codes."""
    with torch.no_grad():
        fake = model.eval().fake_latents(torch.randn(200, model.noise, generator=torch.Generator().manual_seed(5)))
        return float(model.latent_scores(latents(model)).mean()), float(model.latent_scores(fake).mean())
