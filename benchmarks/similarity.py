"""Semantic similarity (STS-B): MiniLM before fine-tuning, by cosine similarity of its embeddings, and after it.

    python -m benchmarks.similarity

Before: evaluated on the development set (under WEFT_DATA) without training. After: the runs of
``benchmarks.arms minilm-similar``, fine-tuned and frozen. Spearman and Pearson correlation with human scores.
"""

from __future__ import annotations

import csv
from pathlib import Path

from benchmarks.arms import ARMS, row_of
from weft.core.options import find_file
from weft.evaluate import Correlation
from weft.inference.embedding import open_embedder


def before(file: Path) -> dict[str, float]:
    with file.open(encoding="utf-8", newline="") as stream:
        first, second, scores = zip(*csv.reader(stream), strict=True)
    vectors_of = open_embedder("minilm")
    similarity = (vectors_of(list(first)) * vectors_of(list(second))).sum(1)
    return Correlation().compute([str(x) for x in similarity], [{"label": score} for score in scores])


def main() -> None:
    found = before(find_file("stsb/dev.csv"))
    print("| run | metrics (95 % interval) | minutes | memory, MB |\n|---|---|---|---|")
    print(f"| minilm, cosine of its vectors | spearman {found['spearman']:.4f}, pearson {found['pearson']:.4f} | | |")
    for arm in ARMS:
        if arm.name.startswith("minilm-similar"):
            print(row_of(arm))


if __name__ == "__main__":
    main()
