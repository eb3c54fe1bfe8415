"""A language model beside a Kneser-Ney 5-gram on the same rows: same words, same unknown ones, same ends of texts.

    python -m benchmarks.language_model RUN

Both see the tokens that the run's tokenizer makes (words, for the recipe language-model), so both predict the same events: every
token and the end of each row. What the tokenizer does not know is one event ``<unk>`` for both.
"""

from __future__ import annotations

import math
import sys
import time

import weft
from weft.core.batch import Clock
from weft.core.contracts import Dataset
from weft.data import evaluation_batches
from weft.evaluate import KneserNey


def sentences(dataset: Dataset) -> list[list[str]]:
    return [[str(token) for token in dataset[row]["text"]] for row in range(len(dataset))]


def network_perplexity(run: weft.TrainedRun, dataset: Dataset) -> float:
    import torch

    objective = next(iter(run.objectives.values()))
    objective.eval()
    total, count = 0.0, 0
    with torch.inference_mode():
        for batch in evaluation_batches(dataset, objective, 8000, (0,)):
            term = objective(run.model, batch, Clock())["loss"]
            total, count = total + float(term.total), count + term.count
    return math.exp(total / count)


def main() -> None:
    run = weft.load(sys.argv[1])
    (_, train), (_, valid) = run.dataset("train"), run.dataset("valid")
    started = time.perf_counter()
    known, asked = sentences(train), sentences(valid)
    words = {word for sentence in known for word in sentence}
    print(f"train {len(known):,} rows, {sum(map(len, known)):,} tokens, {len(words):,} different; valid {len(asked):,} rows")
    tokens = sum(len(sentence) + 1 for sentence in asked)  # and the end of each
    blanks = sum(len(valid.raw(row)["text"].split()) + 1 for row in range(len(valid)))

    def show(name: str, perplexity: float) -> None:
        """Per token, as the tokenizer cuts them, and per word with blanks around it."""
        print(f"{name}: perplexity {perplexity:.2f} a token, {perplexity ** (tokens / blanks):.1f} a word")

    for order in (1, 3, 5):
        show(f"Kneser-Ney, order {order}", KneserNey(known, order=order).perplexity(asked))
    print(f"({time.perf_counter() - started:.0f} s for counting and asking)")
    show(run.name, network_perplexity(run, valid))


if __name__ == "__main__":
    main()
