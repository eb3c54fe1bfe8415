"""Classification with few labels: logistic regression on latent codes, on pooled encoder states, and on the states of a plain
encoder.

    python -m benchmarks.low_resource                            free bits of 0.5 nats in benchmarks.collapse, three seeds
    python -m benchmarks.low_resource runs/optimus-1             runs of yours, on data with classes
    python -m benchmarks.low_resource runs/optimus-1 --seeds 5

For each number of labels N, N training texts are sampled, balanced over the classes, with a different seed each time; accuracy on
held-out texts, mean and standard deviation over seeds and runs. All features see the same texts. Nothing else is trained.
The plain encoder has the architecture of the encoder of that arm, without a latent space, and is trained by masked language
modeling on as many sentences of the same texts.
Without a run, missing arms are trained first, and accuracies are stored in benchmarks/results.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.arms import Arm, done, run
from benchmarks.collapse import SEEDS, arm
from benchmarks.document import show
from benchmarks.results import record, recorded, spread
from benchmarks.sentences import YELP
from weft.blocks import MeanPooler
from weft.core.batch import Instance, collate
from weft.core.contracts import Dataset, Encodes, Latent
from weft.inference.load import load
from weft.inference.trained_run import TrainedRun
from weft.recipe import RecipeError

USED = "annealed, free bits 0.5 nats"
PLAIN = (
    *(
        "data.min_words=4",
        "data.max_words=12",
        "data.tokenizer={type: word, vocab_size: 3000, split: whitespace}",
        "structure.encoder.layers=2",
    ),
    *("learning.steps=4000", "learning.batch_tokens=1000", "learning.save_every=1000", "evaluate.every=1000", "stages=null"),
)
"""What makes the first stage of cara-pretrained an encoder like that of optimus: the same data, size and number of sentences."""
LABELS = (10, 30, 100, 300, 1000)
MOST_TEST = 2000
_ROWS = 256


def encoder_of(model: Any) -> Any:
    """The module that encodes and pools: the model itself, or the one inside it."""
    while not hasattr(model, "pooler"):
        if not hasattr(model, "model"):
            raise ValueError(f"a {type(model).__name__} has no pooler: its states cannot be compared with its latent space")
        model = model.model
    return model


@torch.inference_mode()
def features(trained: TrainedRun, dataset: Dataset, rows: Sequence[int]) -> dict[str, np.ndarray]:
    """N x P means of the posterior and N x D pooled states of the encoder; of an encoder, the means of its states."""
    provided = () if trained.codec is None else trained.model.provides()
    if Latent not in provided and Encodes not in provided:
        raise ValueError(f"{trained.name} neither has a latent space nor encodes: give a trained run of text-vae or text-encoder")
    frame, model = trained.codec.info.text("source").frame, trained.model.eval()
    device = next(model.parameters()).device
    encoder = encoder_of(model) if Latent in provided else model
    found: dict[str, list[np.ndarray]] = {}
    order = sorted(range(len(rows)), key=lambda i: len(dataset[rows[i]]["source"]))
    for some in (order[i : i + _ROWS] for i in range(0, len(order), _ROWS)):
        x = collate([Instance(source=frame.around([dataset[rows[i]]["source"]])) for i in some]).to(device)["source"]
        states = encoder.encode(x)
        if Latent in provided:
            own = {"latent means": model.posterior(x).mean_BP, "pooled states": encoder.pooler(states)}
        else:
            own = {"plain encoder": MeanPooler(states.data.shape[-1])(states)}
        for name, x_BD in own.items():
            found.setdefault(name, []).append(x_BD.float().cpu().numpy())
    back = np.argsort(order)
    return {name: np.concatenate(parts)[back] for name, parts in found.items()}


def sample_balanced(labels: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Sample ``number`` rows, balanced over the classes where possible."""
    rng, classes = np.random.default_rng(seed), np.unique(labels)
    shares = [number // len(classes) + (i < number % len(classes)) for i in range(len(classes))]
    own = [np.flatnonzero(labels == c) for c in classes]
    if short := [len(rows) for rows, share in zip(own, shares, strict=True) if len(rows) < share]:
        raise ValueError(f"{number} labels are more than there are: a class has {min(short)} texts")
    return np.concatenate([rng.choice(rows, share, replace=False) for rows, share in zip(own, shares, strict=True)])


def accuracy(train_ND: np.ndarray, label_N: np.ndarray, test_MD: np.ndarray, right_M: np.ndarray) -> float:
    """Of logistic regression on standardized features."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(train_ND, label_N)
    return float((model.predict(test_MD) == right_M).mean())


Found = dict[str, dict[str, list[float]]]
"""Accuracies of each kind of features, by the number of labels: one per sample of labels."""


def compare(trained: TrainedRun, numbers: Sequence[int] = LABELS, seeds: int = 3) -> Found:
    """Accuracies of one run, on the same texts for all features."""
    corpus = {name: trained.dataset(name)[1] for name in ("train", "valid")}
    label = {name: np.array([dataset[row]["label"] for row in range(len(dataset))]) for name, dataset in corpus.items()}
    tested = sample_balanced(label["valid"], min(MOST_TEST, 2 * int(np.bincount(label["valid"]).min())), 0)
    test = features(trained, corpus["valid"], tested.tolist())
    found: Found = {name: {} for name in test}
    for number in numbers:
        for seed in range(seeds):
            chosen = sample_balanced(label["train"], number, seed + 1)
            train = features(trained, corpus["train"], chosen.tolist())
            for name, x_ND in train.items():
                own = accuracy(x_ND, label["train"][chosen], test[name], label["valid"][tested])
                found[name].setdefault(str(number), []).append(own)
    return found


def arms(seed: int) -> tuple[Arm, Arm]:
    """The text VAE and the plain encoder."""
    return arm(USED, seed), Arm(f"plain-encoder-{seed}", "cara-pretrained", (f"seed={seed}", *YELP.data(), *PLAIN))


def of_arm(own: Arm, draws: int) -> Found:
    """Accuracies of an arm: as recorded, or of its run, which is trained if it is missing."""
    name = f"low-resource-{own.folder().name}-{draws}"
    if (kept := recorded(name)) is not None:
        return kept
    if not done(own.folder()) and not run(own):
        raise ValueError(f"{own.name} could not be trained")
    record(name, found := compare(load(own.folder()), seeds=draws))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=3, help="samples of labels")
    chosen = parser.parse_args()
    try:
        each = [compare(load(folder), seeds=chosen.seeds) for folder in chosen.runs]
        each = each or [of_arm(own, chosen.seeds) for seed in SEEDS for own in arms(seed)]
    except (OSError, RecipeError, ValueError) as problem:
        raise SystemExit(str(problem)) from None
    lines = [f"| labels | {' | '.join(map(str, LABELS))} |", "|---" * (len(LABELS) + 1) + "|"]
    for name in dict.fromkeys(name for one in each for name in one):
        own = [one[name] for one in each if name in one]
        cells = [spread([100 * value for one in own for value in one[str(number)]]) for number in LABELS]
        lines.append(f"| {' | '.join([name, *cells])} |")
    if chosen.runs:
        print("\n".join(lines))
    else:
        show("low-resource", lines)


if __name__ == "__main__":
    main()
