"""Identifiability of class and content. ``python -m benchmarks.identifiability``

Sentences "the DISH was WORD ." in which, in training, half of the dishes occur with positive words only, the others with negative
ones. Content and class then explain each sentiment word equally well, and the reconstruction loss does not determine on which one
the decoder conditions. A text classifier trained on sentences of all pairs resolves the ambiguity. Every sentence is encoded; the
benchmark reports the probability of a word of the target class after "the DISH was", and of the dish itself after "the": for the
class of the sentence and for the other one.

CARA, and the same model without a text classifier (ARAE-), with three seeds each; writes docs/images/identifiability.png.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.document import PAGE, show
from benchmarks.results import spread
from weft.blocks import CNN, GRU, MLP, GRUDecoder, LastPooler, MaxPooler, RMSNorm
from weft.core.batch import pad
from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.example import Example
from weft.core.fields import Info, LabelField, Special, TextField
from weft.core.registry import block
from weft.core.seq import Seq
from weft.learning import Adam, Gradient, Phase
from weft.models import Classifier, LanguageModel, TextEncoder
from weft.objectives import ConstantAnnealing
from weft.systems.latent_text.cara import (
    CARA,
    CARADiscriminator,
    CARAGenerator,
    CARAMutualInformation,
    CARAReconstruction,
    CARATextClassifier,
)
from weft.training.run import Run

DISHES = ["pizza", "pasta", "soup", "salad", "sushi", "curry", "steak", "toast"]
WORDS = {"good": ["great", "lovely", "superb", "tasty"], "bad": ["awful", "bland", "stale", "cold"]}
SYMBOLS = [*Special.NAMES, "the", "was", ".", *DISHES, *WORDS["bad"], *WORDS["good"]]
LABELS = ("bad", "good")
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "identifiability.png"
TITLES = {
    "usual word": 'usual class: probability of a word of that class after "the DISH was"',
    "other word": "other class: probability of a word of that class",
    "other dish": 'other class: probability of the encoded dish after "the"',
}


def sentence(dish: str, word: str) -> np.ndarray:
    return np.array([SYMBOLS.index(s) for s in ("the", dish, "was", word, ".")])


class Sentences:
    """Sentences of some pairs of dish and class."""

    def __init__(self, pairs: Sequence[tuple[str, str]]):
        self.rows = [(sentence(dish, word), LABELS.index(label)) for dish, label in pairs for word in WORDS[label]]
        self.lengths: Mapping[str, np.ndarray] = {name: np.full(len(self.rows), 5) for name in ("source", "target")}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Example:
        ids, label = self.rows[row]
        return {"source": ids, "target": ids, "label": label}

    def raw(self, row: int) -> dict[str, str]:
        ids, label = self.rows[row]
        text = " ".join(SYMBOLS[i] for i in ids)
        return {"source": text, "target": text, "label": LABELS[label]}


def usual(dish: str) -> str:
    """The class that a dish has in training."""
    return "good" if DISHES.index(dish) < len(DISHES) // 2 else "bad"


@block("dishes")
class Dishes(Data):
    """Sentences about dishes, of which in ``train`` each has one class, and in ``all`` both.

    Example:
        >>> {name: len(rows) for name, rows in Dishes().open().splits.items()}
        {'train': 32, 'all': 64, 'valid': 32}
    """

    def declare(self) -> Info:
        texts = {name: TextField(name, len(SYMBOLS), max_length=8) for name in ("source", "target")}
        label = LabelField("label", 2, labels=LABELS)
        return Info({**texts, "label": label}, target="target", data="dishes")

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        train = Sentences([(dish, usual(dish)) for dish in DISHES])
        everything = Sentences([(dish, label) for dish in DISHES for label in LABELS])
        return Corpus(
            codec or Codec(self.declare(), {}), {"train": train, "all": everything, "valid": train}, {"rows": len(train)}
        )

    def tokenizers(self) -> dict[str, Tokenizer]:
        return {}


ENCODER, DECODER = ["encoder.*", "to_latent.*"], ["decoder.*"]


def run_of(text_classifier: bool, seed: int, steps: int, label_dim: int) -> Run:
    """CARA, or ARAE- without a text classifier."""
    phases = [
        partial(Phase, objective="reconstruction", train=[*ENCODER, *DECODER]),
        partial(Phase, objective="discriminator", train=["classifier.*", "discriminator.*"]),
        partial(
            Phase, objective="generator", train=[*ENCODER, "sampler.*"], optimizer=partial(Adam, lr=1e-4, betas=(0.5, 0.999))
        ),
    ]
    objectives: dict[str, Any] = {
        "reconstruction": CARAReconstruction,
        "discriminator": CARADiscriminator,
        "generator": CARAGenerator,
    }
    if text_classifier:
        phases += [
            partial(Phase, objective="text_classifier", train=["text_classifier.*"], split="all"),
            partial(Phase, objective="mutual_information", train=[*ENCODER, *DECODER], start=steps // 3),
        ]
        objectives |= {
            "text_classifier": CARATextClassifier,
            "mutual_information": partial(CARAMutualInformation, max_length=6, weight=partial(ConstantAnnealing, weight=1.0)),
        }
    structure = partial(
        CARA,
        latent=32,
        noise=8,
        label_dim=label_dim,
        encoder=partial(TextEncoder, dim=32, encoder=GRU, head=None),
        pooler=LastPooler,
        norm=RMSNorm,
        decoder=partial(LanguageModel, dim=32, decoder=GRUDecoder),
        sampler=partial(MLP, hidden=[32]),
        classifier=partial(MLP, hidden=[32]),
        discriminator=partial(MLP, hidden=[32]),
        text_classifier=partial(Classifier, dim=16, encoder=partial(CNN, layers=1), pooler=MaxPooler)
        if text_classifier
        else None,
    )
    learning = partial(
        Gradient, steps=steps, batch_tokens=320, optimizer=partial(Adam, lr=3e-3), phases=phases, save_every=0, log_every=steps
    )
    return Run(seed=seed, device="cpu", data=Dishes, structure=structure, objective=objectives, learning=learning)


KINDS = {
    "usual word": "word of the usual class",
    "other word": "word of the other class, never seen with this dish",
    "other dish": "the same dish, with the other class",
}


@torch.inference_mode()
def class_probabilities(model: Any) -> dict[str, float]:
    """Mean probabilities of a word of the target class, and of the encoded dish."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for dish in DISHES:
        texts = [sentence(dish, word) for word in WORDS[usual(dish)]]
        z_BP = model.posterior(pad([np.append(ids, Special.eos) for ids in texts])).mean_BP
        given = torch.from_numpy(np.stack([np.append(Special.bos, ids[:3]) for ids in texts]))
        for target in LABELS:
            memory = model.memory_from(z_BP, torch.full((len(texts),), LABELS.index(target)))
            p_BTV = model.head(model.decode(Seq(given), memory).hidden.data).softmax(-1)
            words = p_BTV[:, 3, [SYMBOLS.index(word) for word in WORDS[target]]].sum(-1)
            found["usual word" if target == usual(dish) else "other word"] += words.tolist()
            if target != usual(dish):
                found["other dish"] += p_BTV[:, 1, SYMBOLS.index(dish)].tolist()
    return {name: float(np.mean(values)) for name, values in found.items()}


def draw(metric_values: dict[str, list[dict[str, float]]], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.4), dpi=160, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for at, seeds in enumerate(metric_values.values()):
        for shift, kind, color in zip((-0.27, 0.0, 0.27), KINDS, ("#c6ccd6", "#1d5cd6", "#8fb0ef"), strict=True):
            values = [seed[kind] for seed in seeds]
            axes.bar(at + shift, np.mean(values), 0.25, color=color, label=KINDS[kind] if at == 0 else None)
            axes.plot([at + shift] * len(values), values, "o", color="#1c2128", markersize=3)
    axes.set_xticks(range(len(metric_values)), list(metric_values))
    axes.set_ylabel("probability", fontsize=8)
    axes.set_ylim(0, 1.05)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.28), ncols=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(
    seeds: int, steps: int, runs: Path, picture: Path, label_dim: int = 1, page: Path | None = None
) -> dict[str, list[dict[str, float]]]:
    metric_values: dict[str, list[dict[str, float]]] = {}
    for name, text_classifier in (("ARAE-", False), ("CARA", True)):
        for seed in range(1, seeds + 1):
            run = run_of(text_classifier, seed, steps, label_dim)
            trained = run.train(runs / f"{name}-{seed}", quiet=True)
            metric_values.setdefault(name, []).append(class_probabilities(trained.model.eval()))
            print(f"{name:6} seed {seed}: " + "  ".join(f"{k} {v:.3f}" for k, v in metric_values[name][-1].items()), flush=True)
    draw(metric_values, picture)
    lines = [f"| {' | '.join(['', *TITLES.values()])} |", "|---" * (len(TITLES) + 1) + "|"]
    for name, found in metric_values.items():
        lines.append(f"| {' | '.join([name, *(spread([f[kind] for f in found], 3) for kind in TITLES)])} |")
    show("identifiability", lines, page)
    return metric_values


if __name__ == "__main__":
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument(
        "--label-dim",
        type=int,
        default=1,
        help="dimension of the class embeddings",
    )
    parser.add_argument("--picture", type=Path, default=PICTURE)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        on_the_page = (chosen.seeds, chosen.steps, chosen.label_dim, chosen.picture) == (3, 400, 1, PICTURE)
        page = PAGE if on_the_page else None
        main(chosen.seeds, chosen.steps, Path(folder), chosen.picture, chosen.label_dim, page)
