"""Sentence-pair pretraining tasks: a bag of words solves next-sentence prediction, but not sentence order.

    python -m benchmarks.segments           train missing arms, then print the table
    python -m benchmarks.segments --table   without training

State of the Union addresses (files under WEFT_DATA), split into examples of 288 tokens; a tenth of the speeches is held out, and
all metrics are computed on pairs of held-out examples. The bag of words is a logistic regression on tf-idf: the cosine of the two
segments, and the difference of their vectors. The Transformer (benchmarks/segments.yaml) is trained on masked tokens as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import weft
from benchmarks.arms import Arm, done, run
from weft.core.batch import collate
from weft.core.contracts import Pairing, SegmentPair
from weft.objectives.segment_pairs import NextSentence, SentenceOrder

PAIRINGS: dict[str, Pairing] = {"next-sentence": NextSentence(), "sentence-order": SentenceOrder()}
PAIRS = {"train": 20_000, "valid": 2_000}


def arm(name: str) -> Arm:
    recipe = __file__.removesuffix(".py") + ".yaml"
    return Arm(f"segments-{name}", recipe, (f"objective.pairing={name}",))


def pairs(trained: weft.TrainedRun, pairing: Pairing, split: str) -> list[SegmentPair]:
    """Pairs from the examples of a split."""
    _, rows = trained.dataset(split)
    rng = np.random.default_rng(7)
    made = [pairing.pair(rows[int(rng.integers(len(rows)))]["text"], rng, rows, "text") for _ in range(PAIRS[split])]
    return [pair for pair in made if pair is not None]


def bag_of_words(train: Sequence[SegmentPair], valid: Sequence[SegmentPair]) -> dict[str, float]:
    """Accuracy of a bag of words on held-out pairs."""

    def texts(some: Sequence[SegmentPair], which: str) -> list[str]:
        return [" ".join(f"w{i}" for i in getattr(pair, which)) for pair in some]

    tfidf = TfidfVectorizer(sublinear_tf=True).fit(texts(train, "first"))

    def features(some: Sequence[SegmentPair]) -> dict[str, np.ndarray]:
        first, second = (tfidf.transform(texts(some, which)) for which in ("first", "second"))
        return {"cosine": np.asarray(first.multiply(second).sum(1)), "difference": first - second}  # rows have length 1

    right = [[pair.belong for pair in some] for some in (train, valid)]
    learned, asked = features(train), features(valid)
    return {name: LogisticRegression(max_iter=500).fit(learned[name], right[0]).score(asked[name], right[1]) for name in learned}


@torch.inference_mode()
def transformer(trained: weft.TrainedRun, some: Sequence[SegmentPair]) -> float:
    """Accuracy of the run on pairs."""
    objective, hits = next(iter(trained.objectives.values())), 0
    frame = objective.field.frame
    for start in range(0, len(some), 64):
        group = some[start : start + 64]
        batch = collate([{"text": frame.around([pair.first, pair.second])} for pair in group], range(len(group)))
        predicted_B = trained.model.segment_head(trained.model.pooler(trained.model.encode(batch["text"]))).argmax(-1)
        # the first class is that they belong together
        hits += sum((int(predicted) == 0) == pair.belong for predicted, pair in zip(predicted_B, group, strict=True))
    return hits / len(some)


def main() -> None:
    print("| asked | pairs held out | bag of words, cosine | bag of words, difference | Transformer |\n|---|---|---|---|---|")
    for name, pairing in PAIRINGS.items():
        own = arm(name)
        if "--table" not in sys.argv and not done(own.folder()):
            run(own)
        if not done(own.folder()):
            print(f"| {name} | | missing | missing | missing |")
            continue
        trained = weft.load(own.folder())
        train, valid = (pairs(trained, pairing, split) for split in PAIRS)
        bag, learned = bag_of_words(train, valid), transformer(trained, valid)
        print(f"| {name} | {len(valid):,} | {bag['cosine']:.1%} | {bag['difference']:.1%} | {learned:.1%} |", flush=True)


if __name__ == "__main__":
    main()
