"""How alike two sentences are (STS-B): MiniLM before training, by the cosine of its vectors, and after it.

    python -m benchmarks.similarity

Before: nothing is learned, the development file (under WEFT_DATA) is only looked at. After: what
``benchmarks.arms minilm-similar`` has trained, tuned and frozen. Spearman's and Pearson's correlation with
the scores that people gave.
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
    likeness = (vectors_of(list(first)) * vectors_of(list(second))).sum(1)
    return Correlation().compute([str(x) for x in likeness], [{"label": score} for score in scores])


def main() -> None:
    found = before(find_file("stsb/dev.csv"))
    print("| run | figures (95 % interval) | minutes | memory, MB |\n|---|---|---|---|")
    print(f"| minilm, cosine of its vectors | spearman {found['spearman']:.4f}, pearson {found['pearson']:.4f} | | |")
    for arm in ARMS:
        if arm.name.startswith("minilm-similar"):
            print(row_of(arm))


if __name__ == "__main__":
    main()
