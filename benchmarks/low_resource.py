"""Classes from few labels: logistic regression on where texts lie in a latent space, and on what the reader says before that.

    python -m benchmarks.low_resource                            the runs of benchmarks.collapse that use their latent space most
    python -m benchmarks.low_resource runs/optimus-1             a run with a latent space, on data with classes
    python -m benchmarks.low_resource runs/optimus-1 --seeds 5

For each number of labels, so many training texts are drawn, equally many of each class, with another seed each time; accuracy on
the texts held out, mean and standard deviation over the seeds and the runs. Both see the same texts. Nothing else is learned.
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

from benchmarks.arms import done
from benchmarks.collapse import SEEDS, arm
from benchmarks.document import show
from benchmarks.results import spread
from weft.batch import Instance, collate
from weft.run import Run, load
from weft.slots import Dataset, Latent

USED = "schedule, 0.5 nats free"
LABELS = (10, 30, 100, 300, 1000)
MOST_TEST = 2000
_ROWS = 256


def reader_of(model: Any) -> Any:
    """What reads and pools: the model itself, or the one inside it."""
    while not hasattr(model, "pooler"):
        if not hasattr(model, "model"):
            raise ValueError(f"a {type(model).__name__} has no pooler: its states cannot be compared with its latent space")
        model = model.model
    return model


@torch.inference_mode()
def features(run: Run, dataset: Dataset, rows: Sequence[int]) -> dict[str, np.ndarray]:
    """N x P means of the posterior, and N x D pooled states of the reader, in the order of the rows."""
    if run.codec is None or Latent not in run.model.provides():
        raise ValueError(f"{run.name} has no latent space: give the folder of a trained run of text-vae or the like")
    frame, model = run.codec.info["source"].frame, run.model.eval()
    reader, device = reader_of(model), next(model.parameters()).device
    found: dict[str, list[np.ndarray]] = {"latent means": [], "pooled states": []}
    order = sorted(range(len(rows)), key=lambda i: len(dataset[rows[i]]["source"]))
    for some in (order[i : i + _ROWS] for i in range(0, len(order), _ROWS)):
        read = [Instance(source=frame.around([dataset[rows[i]]["source"]])) for i in some]
        x = collate(read).to(device)["source"]
        found["latent means"].append(model.posterior(x).mean_BP.float().cpu().numpy())
        found["pooled states"].append(reader.pooler(reader.encode(x)).float().cpu().numpy())
    back = np.argsort(order)
    return {name: np.concatenate(parts)[back] for name, parts in found.items()}


def drawn(labels: np.ndarray, number: int, seed: int) -> np.ndarray:
    """So many rows, equally many of each class where that is possible."""
    rng, classes = np.random.default_rng(seed), np.unique(labels)
    shares = [number // len(classes) + (i < number % len(classes)) for i in range(len(classes))]
    own = [np.flatnonzero(labels == c) for c in classes]
    if short := [len(rows) for rows, share in zip(own, shares, strict=True) if len(rows) < share]:
        raise ValueError(f"{number} labels are more than there are: a class has {min(short)} texts")
    return np.concatenate([rng.choice(rows, share, replace=False) for rows, share in zip(own, shares, strict=True)])


def accuracy(train_ND: np.ndarray, label_N: np.ndarray, test_MD: np.ndarray, right_M: np.ndarray) -> float:
    """Of logistic regression on standardised features."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(train_ND, label_N)
    return float((model.predict(test_MD) == right_M).mean())


def compare(run: Run, numbers: Sequence[int] = LABELS, seeds: int = 3) -> dict[str, dict[int, list[float]]]:
    """Accuracies of each kind of features, by the number of labels: one for each seed."""
    assert run.codec is not None
    corpus = {name: run.rows(name)[1] for name in ("train", "valid")}
    label = {name: np.array([dataset[row]["label"] for row in range(len(dataset))]) for name, dataset in corpus.items()}
    tested = drawn(label["valid"], min(MOST_TEST, 2 * int(np.bincount(label["valid"]).min())), 0)
    test = features(run, corpus["valid"], tested.tolist())
    found: dict[str, dict[int, list[float]]] = {name: {} for name in test}
    for number in numbers:
        for seed in range(seeds):
            chosen = drawn(label["train"], number, seed + 1)
            train = features(run, corpus["train"], chosen.tolist())
            for name, x_ND in train.items():
                own = accuracy(x_ND, label["train"][chosen], test[name], label["valid"][tested])
                found[name].setdefault(number, []).append(own)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    runs = arguments.runs or [folder for seed in SEEDS if done(folder := arm(USED, seed).folder())]
    if not runs:
        raise SystemExit("there are no runs yet: python -m benchmarks.collapse makes them, or name one of yours")
    each = [compare(load(run), seeds=arguments.seeds) for run in runs]
    found = {name: {n: [value for one in each for value in one[name][n]] for n in LABELS} for name in each[0]}
    print(f"{len(runs)} run{'s' * (len(runs) > 1)}, {arguments.seeds} draws of labels of each")
    lines = [f"| labels | {' | '.join(map(str, LABELS))} |", "|---" * (len(LABELS) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(spread([100 * x for x in by[n]]) for n in LABELS)} |" for name, by in found.items()]
    if arguments.runs:
        print("\n".join(lines))
    else:
        show("low-resource", lines)


if __name__ == "__main__":
    main()
