"""What needs no network, judged as networks are that write for a class: real sentences, one sentence for all, copies, retrieval.

    python -m benchmarks.trivial

Yelp's sentences of 4 to 15 words (under WEFT_DATA), each once, shuffled: 1,000 to be rewritten, 1,000 references, 60,000 for the
oracle, 40,000 that a network might be trained with, balanced, and no sentence in two of them. The rest is for the language model.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from weft.choices import find_file
from weft.evaluate import (
    KneserNey,
    Oracle,
    Pool,
    constant,
    copied,
    drawn,
    judge_generation,
    judge_transfer,
    retrieved,
    shared_texts,
    table,
)

Rows = list[tuple[str, str]]


def sentences(seed: int = 0) -> Rows:
    rows: Rows = []
    for name in ("negative", "positive"):
        lines = find_file(Path(), f"yelp/{name}.txt").read_text(encoding="utf-8").split("\n")
        rows += [(line, name) for line in dict.fromkeys(map(str.strip, lines)) if 4 <= len(line.split()) <= 15]
    twice = {text for text, name in rows if name == "negative"} & {text for text, name in rows if name == "positive"}
    rows = [row for row in rows if row[0] not in twice]
    random.Random(seed).shuffle(rows)
    return rows


def balanced(rows: Rows, number: int) -> tuple[Rows, Rows]:
    """The first ``number`` rows with as many of each class, and the rest."""
    left = {"negative": number // 2, "positive": number // 2}
    taken, rest = [], []
    for row in rows:
        (taken if left[row[1]] else rest).append(row)
        left[row[1]] = max(0, left[row[1]] - 1)
    return taken, rest


def apart(rows: Rows) -> tuple[list[str], list[str]]:
    return [text for text, _ in rows], [label for _, label in rows]


def main() -> None:
    started = time.perf_counter()
    test, rest = balanced(sentences(), 1000)
    real, rest = balanced(rest, 1000)
    known, rest = balanced(rest, 60_000)
    train, rest = balanced(rest, 40_000)
    (sources, labels), (references, _) = apart(test), apart(real)
    oracle = Oracle.train(*apart(known))
    print(f"oracle: accuracy {oracle.accuracy(sources, labels):.3f}, {shared_texts(apart(known)[0], sources)} texts shared")
    model = KneserNey([text.split() for text, _ in rest], order=4, min_count=2)

    wanted = ["negative", "positive"] * 500
    systems = {
        "real sentences": drawn(wanted, *apart(train)),
        "one sentence, medoid": constant(wanted, *apart(train)),
    }
    print("\nTexts of a class\n")
    print(table({name: judge_generation(texts, wanted, references, oracle, model=model) for name, texts in systems.items()}))
    for number in (100, 300, 1000):
        print(f"real sentences: {Pool(references[:number]).bleu(systems['real sentences'][:500])}")

    other = ["negative" if label == "positive" else "positive" for label in labels]
    systems = {
        "copy": copied(sources, other),
        "one sentence, medoid": constant(other, *apart(train)),
        "retrieval": retrieved(sources, other, *apart(train)),
    }
    print("\nTexts rewritten\n")
    print(table({name: judge_transfer(sources, texts, other, oracle, model=model) for name, texts in systems.items()}))
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
